"""Methods that put facts into a GPT-2 or a Llama by changing its weights: fine-tuning, LoRA, ROME and MEMIT.

No package of ROME or MEMIT installs beside a current PyTorch (easyeditor 0.0.1 asks for torch 2.0.1 and transformers
4.30.1), so their published updates are written out here. Notation: `W` `(H, D)` is the matrix that a feed-forward
layer writes with, `k` `(H,)` what it reads at one token of the prompt, `C = E[k kᵀ]` over other text, `δ` `(D,)` what
must be added to the stream at that token so that the model goes on with the answer. The token is the last one of the
subject, as published, or the last one of the prompt, which published code offers as well.

    ROME    one fact after the other, one layer:    W ← W + u (δ / ⟨k, u⟩)ᵀ,   u = C⁻¹ k̄
    MEMIT   all facts at once, several layers:      W ← W + (λC + K Kᵀ)⁻¹ K Rᵀ,   R the part of δ that is left to do

k̄ is the mean of k over some beginnings of the text; the bare prompt counts as much as all others together. δ is found
by gradient descent (Meng et al., arXiv 2202.05262 and 2210.07229; their constants, except where this file says so).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from monolayer_experiments.hosts import END

IGNORED = -100
TOGETHER = 64
"""Facts in a batch."""
RANK = 8
"""Of the matrices that LoRA adds, scaled by 2."""
DECAY, CLAMP, KL_FACTOR, ENOUGH = 0.01, 4.0, 0.0625, 0.05
"""Of the gradient descent for δ: as in the settings of ROME for GPT-2 XL, except the weight of |δ|. There it is
0.5 |δ|/|h|² for a stream h, which would hold δ down in a small host, whose stream is short; here it is 0.01 |δ|/|h|.
The descent ends where the loss is `ENOUGH`."""
SUBJECT, PROMPT = "subject", "prompt"
"""Whose last token ROME and MEMIT write at."""


class Taught(Protocol):
    """A fact that a model is taught: a subject, called `name`, and the answer behind its prompt."""

    @property
    def name(self) -> str: ...

    @property
    def answer(self) -> str: ...

    def prompts(self) -> list[str]:
        """The prompt of the fact, which holds the subject, and its rewordings."""


class Descent(NamedTuple):
    """The gradient descent for δ: its learning rate, as a share of a coordinate's size in the stream, and its steps.

    20 steps in the settings of ROME.
    """

    rate: float
    steps: int = 20


class Batch(NamedTuple):
    """Texts padded on the right: ids, mask and labels `(n, m)`; `last`: the token of each to write at `(n,)`."""

    ids: Tensor
    mask: Tensor
    labels: Tensor
    last: Tensor

    def some(self, rows: Tensor) -> Batch:
        """Some of the texts."""
        return Batch(*(part[rows] for part in self))


class Part(NamedTuple):
    """How facts stand in a batch: behind which text, whole or only up to the token to write at, in which wording."""

    before: str = ""
    whole: bool = True
    wording: int = 0


SHORT = Part(whole=False)


@dataclass(frozen=True)
class Lesson:
    """Facts to put into a model, as texts of its tokenizer; an answer ends with `stop`, by default a full stop.

    `place`: whose last token ROME and MEMIT write at, that of the subject or that of the prompt.
    """

    tokenizer: Any
    facts: Sequence[Taught]
    device: str
    place: str = SUBJECT
    stop: str = "."

    def some(self, start: int, stop: int) -> Lesson:
        """The facts from number `start` up to `stop`."""
        return replace(self, facts=self.facts[start:stop])

    def batch(self, *parts: Part) -> Batch:
        """All facts, once for each part, one part behind the other; by default once, as they are."""
        rows, labels, last = [], [], []
        for part in parts or (Part(),):
            for fact in self.facts:
                prompt = part.before + fact.prompts()[part.wording]
                end = len(prompt)
                if self.place == SUBJECT and part.wording == 0:
                    end = prompt.index(fact.name, len(part.before)) + len(fact.name)
                encoded = self.tokenizer(prompt, return_offsets_mapping=True)
                ids = encoded["input_ids"]
                written = next(place for place, (_, stop) in enumerate(encoded["offset_mapping"]) if stop >= end)
                said = (
                    self.tokenizer(f"{fact.answer}{self.stop}", add_special_tokens=False)["input_ids"]
                    if part.whole
                    else []
                )
                ids = ids if part.whole else ids[: written + 1]
                rows.append(torch.tensor([*ids, *said]))
                labels.append(torch.tensor([IGNORED] * len(ids) + said))
                last.append(written)
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=END)
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(padded.shape[1]) < lengths[:, None]).long()
        wanted = nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=IGNORED)
        return Batch(*(part.to(self.device) for part in (padded, mask, wanted, torch.tensor(last))))


def right(model: Any, given: Batch) -> float:
    """The share of facts of which every token is the likeliest, given those before it."""
    count = 0
    with torch.no_grad():
        for first in range(0, len(given.ids), TOGETHER):
            some = Batch(*(part[first : first + TOGETHER] for part in given))
            best = model(some.ids, attention_mask=some.mask).logits[:, :-1].argmax(dim=-1)
            wanted = some.labels[:, 1:]
            count += int(((best == wanted) | (wanted == IGNORED)).all(dim=1).sum())
    return count / len(given.ids)


def _loss(model: Any, some: Batch) -> Tensor:
    logits = model(some.ids, attention_mask=some.mask).logits[:, :-1]
    return F.cross_entropy(logits.mT, some.labels[:, 1:], ignore_index=IGNORED)


def _descend(model: Any, parameters: list[Tensor], given: Batch, rate: float, epochs: int, seed: int) -> None:
    """AdamW on batches of the facts until all are right, or for so many epochs."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(parameters, rate, weight_decay=0.0)
    for epoch in range(epochs):
        for rows in torch.split(torch.randperm(len(given.ids), generator=draw), TOGETHER):
            loss = _loss(model, given.some(rows.to(given.ids.device)))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        if epoch % 5 == 4 and right(model, given) == 1.0:
            break


def layers_of(model: Any) -> Any:
    """The blocks of a model."""
    base = model.base_model
    return base.h if hasattr(base, "h") else base.layers


def writer(model: Any, layer: int) -> Any:
    """The linear layer that the feed-forward part of a block writes with."""
    feed_forward = layers_of(model)[layer].mlp
    return feed_forward.c_proj if hasattr(feed_forward, "c_proj") else feed_forward.down_proj


def matrix(model: Any, layer: int) -> Tensor:
    """`W` `(H, D)` of a block, which can be changed in place."""
    linear = writer(model, layer)
    weight: Tensor = linear.weight
    return weight if type(linear).__name__ == "Conv1D" else weight.T


def finetuned(host: Any, lesson: Lesson, rate: float, epochs: int, seed: int) -> tuple[Any, int]:
    """The host with all weights trained on the facts, and how many numbers that changed."""
    model = copy.deepcopy(host)
    parameters = list(model.parameters())
    _descend(model.requires_grad_(True), parameters, lesson.batch(), rate, epochs, seed)
    return model.requires_grad_(False).eval(), sum(part.numel() for part in parameters)


# -- LoRA --------------------------------------------------------------------------------------------------------


class LowRank(nn.Module):
    """A matrix `(m, n)` plus twice a product of two thin ones."""

    def __init__(self, weight: Tensor, rank: int = RANK) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.randn(weight.shape[0], rank, device=weight.device) / weight.shape[0] ** 0.5)
        self.two = nn.Parameter(torch.zeros(rank, weight.shape[1], device=weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + 2.0 * self.one @ self.two


def lora_by() -> str:
    """Who makes the adapters: peft where it is installed."""
    return "peft" if find_spec("peft") is not None else "our own adapters"


def lora(host: Any, lesson: Lesson, rate: float, epochs: int, seed: int) -> tuple[Any, int]:
    """The host with adapters of rank 8 on all linear layers of its blocks, trained on the facts and merged."""
    torch.manual_seed(seed)
    model = copy.deepcopy(host).requires_grad_(False)
    if lora_by() == "peft":
        from peft import LoraConfig, get_peft_model

        names = sorted({name.rpartition(".")[2] for name, part in layers_of(model).named_modules() if _is_linear(part)})
        turned = any(type(part).__name__ == "Conv1D" for part in layers_of(model).modules())
        settings: dict[str, Any] = {"r": RANK, "lora_alpha": 2 * RANK, "target_modules": names}
        settings["fan_in_fan_out"] = turned
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings))
    else:
        linear = [part for part in layers_of(model).modules() if _is_linear(part)]
        for part in linear:
            parametrize.register_parametrization(part, "weight", LowRank(part.weight))
    parameters = [part for part in model.parameters() if part.requires_grad]
    _descend(model, parameters, lesson.batch(), rate, epochs, seed)
    if lora_by() == "peft":
        model = model.merge_and_unload()
    else:
        for part in linear:
            parametrize.remove_parametrizations(part, "weight")
    return model.requires_grad_(False).eval(), sum(part.numel() for part in parameters)


def _is_linear(part: nn.Module) -> bool:
    return type(part).__name__ in ("Conv1D", "Linear")


# -- ROME and MEMIT ----------------------------------------------------------------------------------------------


@contextmanager
def _watched(model: Any, layer: int) -> Iterator[dict[str, Tensor]]:
    """What the second linear layer of a feed-forward block reads, and what its block leaves in the stream."""
    seen: dict[str, Tensor] = {}
    block = layers_of(model)[layer]

    def reads(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen["read"] = given[0]

    def leaves(module: nn.Module, given: Any, out: Any) -> None:
        seen["stream"] = out[0] if isinstance(out, tuple) else out

    hooks = [writer(model, layer).register_forward_pre_hook(reads), block.register_forward_hook(leaves)]
    try:
        with torch.no_grad():
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _at(values: Tensor, last: Tensor) -> Tensor:
    return values[torch.arange(len(last), device=last.device), last]


def covariance(model: Any, layer: int, texts: Sequence[Sequence[int]], device: str) -> Tensor:
    """`C` `(H, H)` in float64, over all places of texts of one length."""
    total, count = torch.zeros((), dtype=torch.float64, device=device), 0
    for first in range(0, len(texts), TOGETHER):
        with _watched(model, layer) as seen:
            model(torch.tensor([list(text) for text in texts[first : first + TOGETHER]], device=device))
        read = seen["read"].flatten(0, 1).double()
        total = total + read.T @ read
        count += len(read)
    return total / count


def _keys(model: Any, layer: int, lesson: Lesson, contexts: Sequence[str]) -> Tensor:
    """k̄ of every fact `(n, H)` over beginnings of the text; the first of them counts as much as all others together."""
    keys = []
    for first in range(0, len(lesson.facts), TOGETHER):
        inputs = lesson.some(first, first + TOGETHER).batch(*(Part(before, whole=False) for before in contexts))
        with _watched(model, layer) as seen:
            model.base_model(inputs.ids, attention_mask=inputs.mask)
        read = _at(seen["read"], inputs.last)
        bare, *others = read.reshape(len(contexts), -1, read.shape[-1])
        keys.append((bare + torch.stack(others).mean(dim=0)) / 2 if others else bare)
    return torch.cat(keys)


def wanted_changes(model: Any, layer: int, lesson: Lesson, contexts: Sequence[str], by: Descent) -> Tensor:
    """δ of every fact `(n, D)`: what to add behind a layer at one token so that the model goes on with the answer.

    Loss: that of the answer, over all beginnings of the text; how much the model's next token right behind the subject
    changes (KL; not where δ is added behind the prompt, since the answer is the next token there); the length of δ,
    which stays below four times that of the stream.
    """
    short = lesson.batch(SHORT)
    n = len(short.ids)
    with _watched(model, layer) as seen:
        before = _at(model(short.ids, attention_mask=short.mask).logits, short.last).log_softmax(dim=-1)
        length = _at(seen["stream"], short.last).norm(dim=-1)
    width = model.config.hidden_size
    shift = torch.zeros(n, width, device=short.ids.device, requires_grad=True)  # δ in units of the stream's coordinates
    unit = length[:, None] / width**0.5
    optimizer = torch.optim.Adam([shift], by.rate)
    inputs = lesson.batch(*(Part(context) for context in contexts), SHORT)  # the last n rows have no labels
    asked = inputs.labels[:-n]
    for _ in range(by.steps):
        delta = unit * shift
        logits = _shifted(model, layer, inputs, delta.repeat(len(contexts) + 1, 1))
        each = F.cross_entropy(logits[:-n, :-1].mT, asked[:, 1:], ignore_index=IGNORED, reduction="none").sum(dim=1)
        of_fact = (each / (asked != IGNORED).sum(dim=1)).reshape(len(contexts), n).mean(dim=0)
        of_fact = of_fact + DECAY * delta.norm(dim=-1) / length
        if lesson.place == SUBJECT:
            after = _at(logits[-n:], inputs.last[-n:]).log_softmax(dim=-1)
            of_fact = of_fact + KL_FACTOR * F.kl_div(before, after, log_target=True, reduction="none").sum(dim=-1)
        if float(of_fact.detach().max()) < ENOUGH:
            break
        loss = of_fact.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            shift *= (CLAMP * width**0.5 / shift.norm(dim=-1).clamp(min=1e-12)).clamp(max=1.0)[:, None]
    change: Tensor = (unit * shift).detach()
    return change


def _shifted(model: Any, layer: int, given: Batch, delta: Tensor) -> Tensor:
    """Logits where δ is added to what the feed-forward block of a layer writes at the tokens `last`."""
    place = F.one_hot(given.last, given.ids.shape[1]).to(delta.dtype)[:, :, None]
    hook = layers_of(model)[layer].mlp.register_forward_hook(lambda module, read, out: out + place * delta[:, None])
    try:
        logits: Tensor = model(given.ids, attention_mask=given.mask).logits
        return logits
    finally:
        hook.remove()


def rome(host: Any, lesson: Lesson, layer: int, by: Descent, C: Tensor, contexts: Sequence[str]) -> tuple[Any, int]:
    """The host with one fact after the other written into one matrix, and how many numbers that has."""
    model = copy.deepcopy(host).requires_grad_(False)
    W = matrix(model, layer)
    for number in range(len(lesson.facts)):
        one = lesson.some(number, number + 1)
        delta = wanted_changes(model, layer, one, contexts, by)[0].double()
        key = _keys(model, layer, one, contexts)[0].double()
        bare = _keys(model, layer, one, [""])[0].double()
        u = torch.linalg.solve(C, key)
        u = u / u.norm()
        W += torch.outer(u, delta / (bare @ u)).to(W.dtype)
    return model, W.numel()


def changes_at(host: Any, lesson: Lesson, layer: int, contexts: Sequence[str], by: Descent) -> Tensor:
    """δ of all facts, in batches; MEMIT finds them in the host, before any weight changes."""
    parts = (lesson.some(first, first + TOGETHER) for first in range(0, len(lesson.facts), TOGETHER))
    return torch.cat([wanted_changes(host, layer, part, contexts, by) for part in parts])


def memit(
    host: Any,
    lesson: Lesson,
    layers: Sequence[int],
    delta: Tensor,
    weight: float,
    Cs: Sequence[Tensor],
    contexts: Sequence[str],
) -> tuple[Any, int]:
    """The host with all facts written into some layers; `delta`: behind the last of these, `weight`: λ."""
    model = copy.deepcopy(host).requires_grad_(False)
    short = lesson.batch(SHORT)

    def stream() -> Tensor:
        outputs = []
        for rows in torch.split(torch.arange(len(short.ids), device=short.ids.device), TOGETHER):
            some = short.some(rows)
            with _watched(model, layers[-1]) as seen:
                model.base_model(some.ids, attention_mask=some.mask)
            outputs.append(_at(seen["stream"], some.last))
        return torch.cat(outputs).double()

    goal = stream() + delta.double()
    for number, (layer, C) in enumerate(zip(layers, Cs, strict=True)):
        W = matrix(model, layer)
        K = _keys(model, layer, lesson, contexts).double().T
        R = (goal - stream()) / (len(layers) - number)
        W += (torch.linalg.solve(weight * C + K @ K.T, K) @ R).to(W.dtype)
    return model, sum(matrix(model, layer).numel() for layer in layers)
