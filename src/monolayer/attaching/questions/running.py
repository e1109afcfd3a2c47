"""Run an encoder, or the classifier that it became, in transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from monolayer.arrays import Floats, Ints
from monolayer.attaching.running import NotLoadedError, put_on
from monolayer.errors import DataError, needs_extra
from monolayer.huggingface import tensors as stored
from monolayer.huggingface.encoders import Encoder
from monolayer.model.device import check_device
from monolayer.table import Progress, counting

TOGETHER = 64
"""How many texts are asked in a batch."""


class Pooled(NamedTuple):
    """What the encoder leaves of texts `(N, D)`: the mean of all tokens, and the first token.

    `spread` `(D, D)`: the second moments of the states of all tokens, less their mean.
    """

    mean: Tensor
    first: Tensor
    spread: Floats


class Reply(NamedTuple):
    """What the classifier says about texts: the number of the class `(N,)`, and û `(N, D)`."""

    classes: Ints
    states: Floats

    def turned(self, keys: Floats) -> Floats:
        """1 − cos(k, û) of the first texts `(M,)`, for one key `(M, D)` each."""
        states = self.states[: len(keys)]
        turned: Floats = 1.0 - (keys * states).sum(axis=1) / np.linalg.norm(states, axis=1)
        return turned


class Running:
    """An encoder in transformers, as a classifier with `config` and, besides its own tensors, those in `added`."""

    def __init__(
        self,
        encoder: Encoder,
        config: Mapping[str, Any],
        added: Mapping[str, Tensor],
        device: str | torch.device | None = None,
    ) -> None:
        try:
            from transformers import AutoConfig, AutoModelForSequenceClassification
        except ImportError:
            raise needs_extra("an encoder runs in transformers", "stock") from None
        check_device(device)
        self.encoder, self.dtype = encoder, getattr(torch, encoder.dtype)
        with torch.random.fork_rng(devices=[]):  # the model draws weights, which are then replaced
            kinds: Any = AutoModelForSequenceClassification
            made = kinds.from_config(AutoConfig.for_model(**config), dtype=self.dtype)
        tensors = {name: as_torch(tensor) for name, tensor in encoder.tensors.items()}
        try:
            missing, odd = made.load_state_dict({**tensors, **added}, strict=False)
        except RuntimeError as error:  # tensors of other shapes
            why = " ".join(str(error).split())
            raise NotLoadedError(f"the model cannot be loaded by transformers: {why}") from None
        left = [name for name in missing if added or not name.startswith((encoder.kind.pooler, encoder.kind.head))]
        if left or odd:
            raise NotLoadedError(f"transformers has other tensors in this architecture: {[*left, *odd][0]}")
        self.model: Any = made.eval().requires_grad_(False)
        put_on(self.model, device)

    def pooled(self, texts: Sequence[Sequence[int]], report: Progress) -> Pooled:
        """The pooled states of texts, each of them run by itself, so that a key depends on its own text alone."""
        D = self.encoder.width
        means, firsts = (torch.empty(len(texts), D, dtype=self.dtype) for _ in range(2))
        spread, counted = (
            torch.zeros(D, D, dtype=torch.float64),
            counting(report, "running the encoder", "text", 0.0, 1.0),
        )
        self.model.set_attn_implementation(self.encoder.kind.kernels[-1])
        with torch.no_grad():
            for number, text in enumerate(texts):
                counted(number, len(texts))
                ids = torch.tensor([list(text)], device=self.model.device)
                states = self.model.base_model(input_ids=ids).last_hidden_state[0].cpu()
                even = torch.full((1, len(states)), 1.0 / len(states), dtype=self.dtype)  # what softmax gives
                means[number], firsts[number] = (even @ states)[0], states[0]
                centred = states.double() - states.double().mean(dim=1, keepdim=True)
                spread += centred.T @ centred
        return Pooled(means, firsts, spread.numpy())

    def read(self, pooled: Pooled, output: Floats) -> Floats:
        """û `(N, D)` as the first appended norm returns it; `output`: the output matrix of its attention."""
        matrix = torch.from_numpy(output).to(self.dtype)
        state = functional.linear(pooled.mean, matrix) + pooled.first
        normed = functional.layer_norm(state, (self.encoder.width,), eps=self.encoder.epsilon)
        directions: Floats = normed.double().numpy() / np.sqrt(self.encoder.width)
        return directions

    def at(self, states: Floats) -> Ints:
        """The classes `(N,)` that the appended layers and the head give at û `(N, D)`; no other token counts there."""
        from transformers.activations import ACT2FN

        encoder, kind, part = self.encoder, self.encoder.kind, self.model.get_submodule
        activation, squash = ACT2FN[encoder.activation], torch.tanh if kind.saturates else torch.relu
        with torch.no_grad():
            h = torch.from_numpy(states * np.sqrt(encoder.width)).to(self.model.device, self.dtype)
            for block in range(getattr(self.model.config, kind.depth) - encoder.layers):
                start = encoder.layer(encoder.layers + block)
                if block:  # the norm of the first one returned û, and attention of later ones adds 0
                    h = part(f"{start}{kind.norms[0]}")(h)
                fired = activation(part(f"{start}{kind.linear['W_1']}")(h))
                h = part(f"{start}{kind.norms[1]}")(part(f"{start}{kind.linear['W_2']}")(fired) + h)
            logits = part(kind.head)(squash(part(kind.pooler)(h)))
        classes: Ints = logits.argmax(dim=-1).cpu().numpy()
        return classes

    def say(self, texts: Sequence[Sequence[int]], kernel: str | None = None, report: Progress | None = None) -> Reply:
        """What the classifier says about texts, in batches of similar lengths with padding.

        `kernel`: an implementation of attention, by default the last that the architecture has.
        """
        encoder, pad = self.encoder, int(self.encoder.config.get("pad_token_id") or 0)
        kernel = kernel or encoder.kind.kernels[-1]
        classes, states = np.empty(len(texts), np.int64), np.empty((len(texts), encoder.width))
        seen: list[Tensor] = []
        name = f"{encoder.layer(encoder.layers)}{encoder.kind.norms[0]}"
        norm = self.model.get_submodule(name)
        hook = norm.register_forward_hook(lambda module, given, result: seen.append(result[:, 0]))
        self.model.set_attn_implementation(kernel)
        try:
            with torch.no_grad():
                for done, rows in _batches(texts):
                    if report is not None:
                        report(f"asking, {kernel}", done / max(1, len(texts)))
                    longest = max(len(texts[row]) for row in rows)
                    ids = torch.full((len(rows), longest), pad)
                    mask = torch.zeros(len(rows), longest, dtype=torch.long)
                    for place, row in enumerate(rows):
                        ids[place, : len(texts[row])] = torch.tensor(list(texts[row]))
                        mask[place, : len(texts[row])] = 1
                    seen.clear()
                    device = self.model.device
                    logits = self.model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
                    classes[rows] = logits.argmax(dim=-1).cpu().numpy()
                    states[rows] = seen[0].double().cpu().numpy() / np.sqrt(encoder.width)
        finally:
            hook.remove()
        return Reply(classes, states)


def _batches(texts: Sequence[Sequence[int]]) -> Iterator[tuple[int, list[int]]]:
    """The numbers of texts, batch by batch, the shortest first; and how many came before."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    for start in range(0, len(order), TOGETHER):
        yield start, order[start : start + TOGETHER]


def as_torch(tensor: stored.Tensor) -> Tensor:
    """A copy of a tensor in a file."""
    kinds = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32"}
    kinds |= {"I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}
    if tensor.code not in kinds:
        raise DataError(f"{tensor.name} holds {tensor.code}, which cannot be copied")
    dtype = getattr(torch, kinds[tensor.code])
    if not len(tensor.data):
        return torch.zeros(tensor.shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.shape)
