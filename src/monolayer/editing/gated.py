"""Whose neurons those of a robust readout are, which of them two models share, and what is answered at some facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from monolayer.construct.robust.codes import words
from monolayer.construct.robust.stream import ONES
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.record import SHOWN, Change
from monolayer.errors import DataError
from monolayer.model.gates import Gates
from monolayer.model.monolayer import Monolayer


@dataclass(frozen=True)
class Neuron:
    """One neuron: the token that wakes it (None: a vector, or the begin token), its class, its slab's half-width.

    The class is None for a neuron of a linear cell, which holds a digit of many classes, and so is the width.
    """

    token: Any
    label: Any
    half_width: float | None

    def __str__(self) -> str:
        where = "" if self.token is None else f" of {self.token!r}"
        what = "a digit" if self.label is None else repr(self.label)
        return f"a neuron{where} for {what}" + (
            "" if self.half_width is None else f", half-width {self.half_width:.3g}"
        )


def cells_of(model: Monolayer) -> Ints:
    """The token row of every neuron `(H,)`, by its gate, in rising order; of a model of ids that answers at tokens."""
    gates = model.feed_forward
    assert isinstance(gates, Gates)
    assert isinstance(model.lift, nn.Embedding)
    width = gates.layout.token - ONES
    code = words(model.lift.num_embeddings) > 0
    gate = gates.weight_1.detach()[:, :width].double().numpy()
    rows = [np.packbits(bits, axis=1) for bits in (code, gate > 0)]
    keys = [np.ascontiguousarray(part).view(f"V{part.shape[1]}")[:, 0] for part in rows]
    found, number = np.unique(np.concatenate(keys), return_inverse=True)
    cell = np.full(len(found), -1)
    cell[number[: len(code)]] = np.arange(len(code))
    cells: Ints = cell[number[len(code) :]]
    if (cells < 0).any() or (np.diff(cells) < 0).any() or not gate.all():
        raise DataError("the neurons are not gated one token after the other any more: the weights were changed")
    return cells


def only_in(one: Monolayer, two: Monolayer) -> Ints:
    """Numbers of the neurons of `one` that `two` lacks."""
    mine, theirs = (_keys(model.feed_forward) for model in (one, two))
    left, found = Counter(theirs), []
    for number, key in enumerate(mine):
        if left[key]:
            left[key] -= 1
        else:
            found.append(number)
    return np.array(found, dtype=np.int64)


def described(model: Monolayer, numbers: Ints) -> list[Neuron]:
    """Neurons in words."""
    gates, card = model.feed_forward, model.card
    assert isinstance(gates, Gates)
    assert card.classes is not None
    token: list[Any] = [None] * len(numbers)
    if card.vocabulary is not None and card.per == "token":
        with suppress(DataError):  # weights that no construction made: whose they are is not known
            token = [card.vocabulary.names[row] for row in cells_of(model)[numbers].tolist()]
    rows = torch.from_numpy(numbers)
    normal = gates.weight_1.detach()[rows, gates.layout.token :].double().norm(dim=1)
    label = gates.weight_2.detach().T[rows].double() @ model.head.weight.detach()[:, -gates.layout.label :].double().T
    digital = card.cover is not None and card.cover.base is not None
    found = []
    for i, size in enumerate(normal.tolist()):
        wide = None if digital or size == 0.0 else 1.0 / size
        name = None if digital else card.classes.names[int(label[i].argmax())]
        found.append(Neuron(token[i], name, wide))
    return found


def changes_of(model: Monolayer, asked: Sequences, before: Ints) -> Iterable[Change]:
    """The first facts in words, with what the model answers there now; `before` `(Q,)`: class numbers, −1 for none."""
    card = model.card
    assert card.classes is not None
    names = asked.tokens if asked.vocabulary is None else asked.vocabulary.decode(asked.tokens)
    blank = None if asked.vocabulary is None else model.lift.weight.detach()[:, 0].isnan().numpy()
    place = np.arange(len(before))
    if card.next_token:
        place = np.flatnonzero(asked.position < np.repeat(asked.lengths, asked.lengths) - 1)
    place = place[:SHOWN]
    row = place if card.per == "sequence" else asked.sequence[place]
    refused = np.zeros(len(asked), dtype=bool)
    if blank is not None:
        refused[asked.sequence[blank[asked.tokens]]] = True
    rows = np.unique(row[~refused[row]])
    after = np.full(len(asked) if card.per == "sequence" else len(asked.tokens), -1)
    if len(rows):
        some = replace(asked.select(rows), vocabulary=card.vocabulary, labels=None)
        # The network itself: for a few rows, finding out which neurons matter at which token would take longer.
        full = model.bos.dtype in (torch.float32, torch.float64)
        after[rows if card.per == "sequence" else asked.flat(rows)] = model.labels(
            some, path="dense" if full else "auto"
        )
    for i, flat in enumerate(place.tolist()):
        here = slice(int(asked.offsets[row[i]]), int(asked.offsets[row[i] + 1]))
        position = None if card.per == "sequence" else asked.place(flat)[1]
        old, new = (None if number < 0 else card.classes.names[int(number)] for number in (before[i], after[flat]))
        yield Change(names[here].tolist(), position, 0.0, old, new, None, bool(refused[row[i]]))


def _keys(gates: Any) -> list[bytes]:
    assert isinstance(gates, Gates)
    parts = (gates.weight_1, gates.bias_1[:, None], gates.weight_2.T)
    table = torch.cat([part.detach().cpu().double() for part in parts], dim=1).numpy()
    return [row.tobytes() for row in np.ascontiguousarray(table)]
