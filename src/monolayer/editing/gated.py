"""Whose neurons those of a robust readout are, and which of them two models share."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from monolayer.construct.robust.codes import words
from monolayer.construct.robust.stream import ONES
from monolayer.data.names import Ints
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


def _keys(gates: Any) -> list[bytes]:
    assert isinstance(gates, Gates)
    parts = (gates.weight_1, gates.bias_1[:, None], gates.weight_2.T)
    table = torch.cat([part.detach().cpu().double() for part in parts], dim=1).numpy()
    return [row.tobytes() for row in np.ascontiguousarray(table)]
