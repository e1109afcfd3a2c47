"""What a model answers at some facts after an edit: on which plateau they fall, or between which two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.data import Sequences
from monolayer.editing.record import SHOWN, Change
from monolayer.model.card import Card
from monolayer.model.gates import Gates
from monolayer.model.monolayer import Monolayer
from monolayer.model.shortcut import further_mean, plan, traced
from monolayer.model.staircase import Steps


@dataclass(frozen=True, eq=False)
class Standing:
    """Where answering places `(P,)` stand: `z`, and label values left and right of the ramp that they stand on.

    Off ramps both are the answer. `ramp`: on which of them they do.
    """

    z: NDArray[np.float64]
    left: NDArray[Any]
    right: NDArray[Any]
    ramp: NDArray[np.bool_]


@torch.no_grad()
def standing(model: Monolayer, data: Sequences) -> Standing:
    """Where the places of encoded `data` stand in a model whose weights are as they were built."""
    if isinstance(model.feed_forward, Gates):
        # The network itself: for a few rows, finding out which neurons matter at which token would take longer.
        full = model.bos.dtype in (torch.float32, torch.float64)
        label = model.labels(data, path="dense" if full else "auto")
        none = np.zeros(len(label), dtype=bool)
        return Standing(np.zeros(len(label)), label, label, none)
    way = plan(model)
    assert way is not None  # a record was just made of these weights
    met = traced(model, data, way)
    ends: list[Tensor] = []
    assert way.steps is not None
    z = met.code + way.kappa * met.context
    ramp = torch.zeros(len(z), dtype=torch.bool)
    for side in (0, 1):
        level, on = _at(way.steps, z, side)
        for kappa, slot, steps in way.further:
            total, number = level[:, :-1], level[:, -1]
            level, more = _at(steps, number + kappa * further_mean(model, data, met, slot), side)
            level[:, : total.shape[1]] += total
            on = on | more
        ends.append(level)
        ramp = ramp | on
    left, right = (_values(model.card, end) for end in ends)
    return Standing(z.double().numpy(), left, right, ramp.numpy())


def _at(steps: Steps, z: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Levels `(P, m)` at the left (0) or right (1) end of the ramp on which `z` `(P,)` lies, and whether on any."""
    passed = torch.searchsorted(steps.end, z, right=True)
    start = torch.cat([steps.start, z.new_full((1,), torch.inf)])
    ramp = z > start[passed]
    return steps.level[passed + side * ramp], ramp


def changes_of(model: Monolayer, asked: Sequences, before: NDArray[Any] | None) -> Iterable[Change]:
    """The first facts in words, with what the model answers there now.

    `before`: the labels that they had, class numbers `(Q,)`, −1 for none, or reals `(Q, m)`; None: they had none.
    """
    card = model.card
    names = asked.tokens if asked.vocabulary is None else asked.vocabulary.decode(asked.tokens)
    place = np.arange(len(asked) if card.per == "sequence" else len(asked.tokens))
    if card.next_token:
        place = np.flatnonzero(asked.position < np.repeat(asked.lengths, asked.lengths) - 1)
    place = place[:SHOWN]
    row = place if card.per == "sequence" else asked.sequence[place]
    refused = np.zeros(len(asked), dtype=bool)
    if asked.vocabulary is not None:
        blank = model.lift.weight.detach()[:, 0].isnan().numpy()
        refused[asked.sequence[blank[asked.tokens]]] = True
    rows = np.unique(row[~refused[row]])
    found = None
    if len(rows):
        found = standing(model, replace(asked.select(rows), vocabulary=card.vocabulary, labels=None))
        flat = rows if card.per == "sequence" else asked.flat(rows)
        at = np.searchsorted(flat, place)
    for i, flat_place in enumerate(place.tolist()):
        here = slice(int(asked.offsets[row[i]]), int(asked.offsets[row[i] + 1]))
        position = None if card.per == "sequence" else asked.place(flat_place)[1]
        new = before is None or (card.classes is not None and before[i] < 0)
        old = None if before is None or new else _name(card, before[i])
        change = Change(names[here].tolist(), position, 0.0, old, None, None, bool(refused[row[i]]))
        if found is not None and not change.refused:
            there = int(at[i])
            left, right = _name(card, found.left[there]), _name(card, found.right[there])
            ramp = bool(found.ramp[there])
            change = replace(
                change,
                z=float(found.z[there]),
                after=None if ramp else left,
                ramp=[left, right] if ramp else None,
            )
        yield change


def _values(card: Card, label: Tensor) -> NDArray[Any]:
    """Label values of label coordinates `(P, m)`."""
    if card.classes is None:
        return label.numpy()
    return label[:, 0].round().clamp(0, len(card.classes) - 1).to(torch.int64).numpy()


def _name(card: Card, value: Any) -> Any:
    """A label value as users write it."""
    return card.decode(np.asarray(value)[None]).tolist()[0]
