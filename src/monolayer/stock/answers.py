"""What a stock model answers: one plain evaluation in float64 that covers every architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.functional import layer_norm

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN, END
from monolayer.huggingface.files import FolderFacts

NUMBERS_HELD = 1 << 22
"""Numbers held in memory at a time, in each of a few arrays."""
POOLS = {"tanh": torch.tanh, "relu": torch.relu}
"""The activations after a pooler."""
SPARE = 512
"""Places beyond the longest sequence and its begin token: `generate` may continue, batches count padding, and exporters
try a model with sequences of their own. The rows of these places are 0, and answers there mean nothing."""


def answered_classes(facts: FolderFacts, arrays: Mapping[str, Floats], data: Sequences, ids: Ints) -> Ints:
    """The class that the network answers at each token, or for each sequence.

    `facts`, `arrays`: the model, its arrays by their letters. `ids` `(T,)`: the numbers that the tokenizer gives the
    tokens of `data`, −1 for those that it does not know. Sequences with such a token, and those that are too long, have
    the answer −1.
    """
    known = data.lengths < facts.room
    known[data.sequence[ids < 0]] = False
    answers = np.full(facts.labelling.count(data), -1)
    network = Evaluation(facts, arrays)
    for some, length in same_length_batches(facts, np.flatnonzero(known), data.lengths):
        flat = data.offsets[some][:, None] + np.arange(length)
        best = network.logits(np.insert(ids[flat], 0, BEGIN, axis=1), network.asked).argmax(dim=-1).numpy()
        answers[facts.labelling.places(data, some)] = best.reshape(-1)
    return answers


def same_length_batches(facts: FolderFacts, rows: Ints, lengths: Ints, most: int = 0) -> Iterator[tuple[Ints, int]]:
    """The `rows` in batches of sequences of one length that fit into memory, each with its length.

    `lengths` `(N,)`: of all sequences. `most`: the length to which the sequences of a batch may grow.
    """
    for length in np.unique(lengths[rows]).tolist():
        alike = rows[lengths[rows] == length]
        longest = max(length + 1, most)
        for some in np.array_split(alike, 1 + len(alike) * longest * max(facts.width, longest) // NUMBERS_HELD):
            yield some, length


def continued(facts: FolderFacts, arrays: Mapping[str, Floats], prompts: list[Ints]) -> list[list[int]]:
    """The ids with which the network continues each prompt: always the most likely one, up to the end token.

    An answer that does not end is cut off where prompt and answer are as long as the longest sequence of the data.
    """
    continuations: list[list[int]] = [[] for _ in prompts]
    network, lengths, most = Evaluation(facts, arrays), np.array([len(ids) for ids in prompts]), facts.room - SPARE
    for some, _ in same_length_batches(facts, np.arange(len(prompts)), lengths, most):
        ids = np.stack([np.append(BEGIN, prompts[row]) for row in some])
        while len(some) and ids.shape[1] <= most:
            best = network.logits(ids, slice(-1, None)).argmax(dim=-1).numpy()
            on = best[:, 0] != END
            some, ids = some[on], np.append(ids, best, axis=1)[on]
            for row, one in zip(some.tolist(), ids[:, -1].tolist(), strict=True):
                continuations[row].append(one)
    return continuations


class Evaluation:
    """The network of a stock model; `arrays` by their letters (`huggingface/architecture.py`)."""

    def __init__(self, facts: FolderFacts, arrays: Mapping[str, Floats]) -> None:
        self.facts, self.kind = facts, facts.architecture
        self.part = {letter: torch.from_numpy(np.ascontiguousarray(array)) for letter, array in arrays.items()}

    @property
    def asked(self) -> slice:
        """The places that answer: all but the begin token; for whole sequences the last place, or the begin token."""
        if self.facts.labelling.at_tokens:
            return slice(1, None)
        return slice(-1, None) if self.kind.causal else slice(0, 1)

    def logits(self, ids: Ints, at: slice | Ints) -> Tensor:
        """Logits `(B, m, C)` of sequences of one length `(B, n)`, begin token in front, at `m` of their places."""
        x, normed = self.arriving(ids, at)
        x = normed if self.kind.post_norm else x
        flat, part = normed.reshape(-1, self.facts.width), self.part
        act = F.silu if self.facts.activation == "silu" else F.relu6
        written = []
        for some in torch.split(flat, max(1, NUMBERS_HELD // self.facts.neurons)):
            value = act(some @ part["W_1"].T + part["b_1"])
            value = value * (some @ part["W_3"].T + part["b_3"]) if "W_3" in part else value
            written.append(value @ part["W_2"])
        x = self._norm(x + torch.cat(written).reshape(x.shape) + part["b_2"], 3)
        if "W_P" in part:
            x = POOLS[self.kind.pool](x @ part["W_P"].T + part["b_P"])
        return x @ part["W_H"].T + part.get("b_H", torch.zeros(1))

    def arriving(self, ids: Ints, at: slice | Ints) -> tuple[Tensor, Tensor]:
        """The stream behind attention, and what neurons read, which is its norm; both `(B, m, D)`."""
        part, n, D = self.part, ids.shape[1], self.facts.width
        x = part["tokens"][torch.from_numpy(ids)]
        if "places" in part:
            x = x + part["places"][self.kind.offset : self.kind.offset + n]
        here = self._norm(x + part["types"][0] if "types" in part else x, 1)
        x = here if self.kind.post_norm else x
        q, k, v = (here @ part[f"W_{letter}"].T + part[f"b_{letter}"] for letter in "QKV")
        scores = self._turned(q)[:, at] @ self._turned(k).mT / D**0.5
        if self.kind.causal:
            place = torch.arange(n)
            scores = scores.masked_fill(place > place[at, None], -torch.inf)
        x = x[:, at] + scores.softmax(dim=-1) @ v @ part["W_O"].T + part["b_O"]
        return x, self._norm(x, 2)

    def _norm(self, x: Tensor, number: int) -> Tensor:
        weight, epsilon = self.part[f"scale_{number}"], self.facts.epsilon
        if self.kind.rms:
            return x / (x.square().mean(dim=-1, keepdim=True) + epsilon).sqrt() * weight
        return layer_norm(x, weight.shape, weight, self.part[f"shift_{number}"], epsilon)

    def _turned(self, x: Tensor) -> Tensor:
        """Queries or keys `(B, n, D)` with pairs of coordinates turned by their place: rotary positions."""
        if self.facts.rotary is None:
            return x
        theta, count = self.facts.rotary
        angle = torch.arange(x.shape[1])[:, None] * theta ** (-torch.arange(0, count, 2).double() / count)
        one, two, rest = x[..., : count // 2], x[..., count // 2 : count], x[..., count:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([one * cos - two * sin, two * cos + one * sin, rest], dim=-1)
