"""Crowds: points with different labels that one line puts too close (`construct/line/cascade.py`), out of core.

They are few. Each part says which lie in it, and their points are looked up with their sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats, Ints
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.points import point_columns
from monolayer.cluster.spill import Spill
from monolayer.construct.line.separate import inside
from monolayer.data import Sequences


@dataclass(frozen=True, eq=False)
class Crowds:
    """All crowds of a draw, in order: where each begins (`low`) and ends (`high`) on the line, and its `stretch`.

    `level`: the label that the first stage writes there. `first` `(parts,)`: the stretch that each part begins in.
    `ends`: the first and the last stretch.
    """

    low: Floats
    high: Floats
    stretch: Ints
    level: Floats
    first: Ints
    ends: tuple[int, int]

    @classmethod
    def of(cls, parts: tuple[dict[str, Any], ...]) -> Crowds | None:
        """Collect the crowds of all parts of a line; None if there are none."""
        bounds = np.array([len(part["bounds"]) for part in parts])
        total = int(bounds.sum())
        lowest = -((total + 1) // 2)
        first = lowest + np.cumsum(bounds) - bounds
        low, high, passed, level = np.concatenate([part["crowds"] for part in parts], axis=1)
        stretch = passed.astype(np.int64) + np.repeat(first, [part["crowds"].shape[1] for part in parts])
        return cls(low, high, stretch, level, first, (lowest, lowest + total)) if len(low) else None


class FoundPlaces(NamedTuple):
    """Some labelled places `(Q,)` of a block, with the sequences that they lie in.

    `data`: these sequences, each once. `place`: which token of `data` each place is, or which sequence if a label
    belongs to a whole sequence. `place_in_block`: the same, counted in the whole block.
    """

    z: Floats
    label: Array
    data: Sequences
    place: Ints
    place_in_block: Ints


def looked_up(spill: Spill, block: Block, rules: Rules, points: str, wanted: Floats) -> FoundPlaces:
    """The labelled places of a block whose `z` lies in one of the stretches `wanted` `(2, J)`, in the block's order.

    `points`: the piece of the spill folder that holds the points of the block.
    """
    every = point_columns(spill, points, rules)
    there = inside(np.searchsorted(every.z, wanted[0]), np.searchsorted(every.z, wanted[1], side="right"))
    if len(there) == 0:  # of most blocks
        return FoundPlaces(every.z[:0], every.label[:0], block.data(spill, rules, np.zeros(1, np.int64)), there, there)
    number = every.number[there].astype(np.int64)
    order = np.argsort(number)
    there, row = there[order], number[order]
    z, label = every.z[there], every.label[there]
    lengths, position = block.lengths(spill), row - row
    if rules.labelling.at_tokens:
        ends = np.cumsum(lengths - rules.next_token)
        number, row = row, np.searchsorted(ends, row, side="right")
        position = number - (ends - lengths + rules.next_token)[row]
    rows, which = np.unique(row, return_inverse=True)
    data = block.data(spill, rules, rows)
    if not rules.labelling.at_tokens:
        return FoundPlaces(z, label, data, which, row)
    place_in_block = (np.cumsum(lengths) - lengths)[row] + position
    return FoundPlaces(z, label, data, data.offsets[which] + position, place_in_block)


def held(spill: Spill, name: str, block: Block, rules: Rules, points: str, wanted: Floats) -> None:
    """Write the points of a block that lie in crowds `wanted` `(2, J)`, with their sequences, as the piece `name`."""
    crowd = looked_up(spill, block, rules, points, wanted)
    data, row = crowd.data, crowd.place
    position = row[:0]
    if rules.labelling.at_tokens:
        place, row = row, np.searchsorted(data.offsets, row, side="right") - 1
        position = place - data.offsets[row]
    tokens = data.tokens[data.flat(row)]
    spill.write(name, [], z=crowd.z, label=crowd.label, position=position, lengths=data.lengths[row], tokens=tokens)
