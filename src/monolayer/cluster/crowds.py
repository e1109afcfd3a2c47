"""Crowds: points with different labels that one line puts too close (`construct/line/cascade.py`), out of core.

They are few. Each part says which lie in it, and their points are looked up with their sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.spill import Spill
from monolayer.construct.line.separate import inside
from monolayer.data import Sequences

TOGETHER = 1 << 17
"""Tokens whose sequences are held at a time where places are looked up."""


@dataclass(frozen=True, eq=False)
class Crowds:
    """All crowds of a draw, in order: `low`, `high`, their stretches, and the label that the first stage writes there.

    `first` `(parts,)`: the stretch that each part begins in; `ends`: the first and the last of all.
    """

    low: Floats
    high: Floats
    stretch: Ints
    level: Floats
    first: Ints
    ends: tuple[int, int]

    @classmethod
    def of(cls, parts: tuple[dict[str, Any], ...]) -> Crowds | None:
        """Those that the parts of a line tell of; None if there are none."""
        bounds = np.array([len(part["bounds"]) for part in parts])
        total = int(bounds.sum())
        lowest = -((total + 1) // 2)
        first = lowest + np.cumsum(bounds) - bounds
        low, high, passed, level = np.concatenate([part["crowds"] for part in parts], axis=1)
        stretch = passed.astype(np.int64) + np.repeat(first, [part["crowds"].shape[1] for part in parts])
        return cls(low, high, stretch, level, first, (lowest, lowest + total)) if len(low) else None


Places = tuple[Floats, NDArray[Any], Sequences, Ints, Ints]
"""Some labelled places `(Q,)`: `z`, label, their sequences, the tokens or sequences in these, and in the block."""


def looked_up(spill: Spill, block: Block, rules: Rules, points: str, wanted: Floats) -> Iterator[Places]:
    """The labelled places of a block whose `z` lies in one of the stretches `wanted` `(2, J)`, some at a time."""
    total, size = int(spill.facts(points)["bounds"][-1]), max(1, rules.reals)
    file, kind = spill.numbers(points), rules.label_type
    ordered = np.memmap(file, np.float64, "r", shape=(total,)) if total else np.zeros(0)
    there = inside(np.searchsorted(ordered, wanted[0]), np.searchsorted(ordered, wanted[1], side="right"))
    if len(there) == 0:
        return
    labels = np.memmap(file, kind, "r", 8 * total, (total, size) if rules.reals else (total,))
    number = np.memmap(file, np.int32, "r", (8 + kind.itemsize * size) * total, (total,))[there].astype(np.int64)
    there = there[np.argsort(number)]
    number.sort()
    done = 0
    for part in block.parts(spill, TOGETHER):
        rows, tokens = part.last - part.first, part.stop - part.start
        count = rows if rules.per == "sequence" else tokens - rows * rules.next_token
        mine = slice(*np.searchsorted(number, [done, done + count]))
        if mine.start < mine.stop:
            data = part.data(spill, rules)
            place, inner = rules.places(data), number[mine] - done
            place = inner if place is None else place[inner]
            before = part.first - block.first if rules.per == "sequence" else part.start - block.start
            yield ordered[there[mine]], labels[there[mine]], data, place, before + place
        done += count


def held(spill: Spill, name: str, block: Block, rules: Rules, points: str, wanted: Floats) -> None:
    """The points of a block in crowds `wanted` `(2, J)`, with their sequences."""
    nothing = np.zeros(0, np.int64)
    z, position, lengths, tokens = [np.zeros(0)], [nothing], [nothing], [nothing]
    label = [np.zeros((0, rules.reals) if rules.reals else 0, rules.label_type)]
    for own_z, own_label, data, place, _ in looked_up(spill, block, rules, points, wanted):
        row = place
        if rules.per == "token":
            row = np.searchsorted(data.offsets, place, side="right") - 1
            position.append(place - data.offsets[row])
        z.append(own_z)
        label.append(own_label)
        lengths.append(data.lengths[row])
        tokens.append(data.tokens[data.flat(row)])
    every: dict[str, list[Any]] = {"z": z, "label": label, "position": position, "lengths": lengths, "tokens": tokens}
    joined: dict[str, Any] = {key: np.concatenate(some) for key, some in every.items()}
    spill.write(name, [], **joined)
