"""Facts as people know them, and what a model answers there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.readout import Bools, Floats, Table
from monolayer.editing.record import Change
from monolayer.model.card import Card
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of


def words(model: Monolayer, data: Sequences, place: Ints | None, z: Floats, before: list[Any]) -> Iterable[Change]:
    """The facts at labelled places of `data`, whose numbers are `z` `(K,)` and whose answers were `before`."""
    card = model.card
    left, right, ramp = read(model, z)
    names = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    blank = None if data.vocabulary is None else model.lift.weight.detach()[:, 0].isnan().numpy()
    for i in range(len(z)):
        flat = i if place is None else int(place[i])
        row, position = (flat, None) if card.per == "sequence" else data.place(flat)
        here = slice(int(data.offsets[row]), int(data.offsets[row + 1]))
        refused = blank is not None and bool(blank[data.tokens[here]].any())
        ends = [label_name(card, side[i]) for side in (left, right)]
        after, both = (None, ends) if ramp[i] and not refused else (None if refused else ends[0], None)
        yield Change(names[here].tolist(), position, float(z[i]), before[i], after, both, refused)


def read(model: Monolayer, z: Floats) -> tuple[Floats, Floats, Bools]:
    """Labels left and right of `z` `(K, m)` where it lies on a ramp, else both its own; and whether it does."""
    block = staircase_of(model)
    if block.readout != "paper":
        return Table.of(block).read(z)
    steps = block.steps()
    assert steps is not None  # the draw was read from these weights
    start, slope, level = (part.numpy() for part in (-steps.bias / steps.slope, steps.slope, steps.level))
    passed = np.searchsorted(start, z, side="left")
    ramp = (passed > 0) & (np.append(start + 1.0 / slope, -np.inf)[passed - 1] > z)
    return level[passed - ramp], level[passed], ramp


def label_name(card: Card, level: Floats) -> Any:
    """A label as users write it."""
    if card.classes is None:
        return float(level[0]) if card.scalar else [float(x) for x in level]
    return card.classes.names[int(np.clip(np.rint(level[0]), 0, len(card.classes) - 1))]
