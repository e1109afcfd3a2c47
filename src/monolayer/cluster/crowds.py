"""Crowds: points with different labels that one line puts too close (`construct/line/cascade.py`), out of core.

They are few. Each part says which lie in it, and their points are looked up with their sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats, Ints
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.points import point_z
from monolayer.cluster.spill import Spill
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.points import contextual_points
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

    `data`: these sequences, each once, and maybe others. `place`: which token of `data` each place is, or which
    sequence if a label belongs to a whole sequence. `place_in_block`: the same, counted in the whole block.
    """

    z: Floats
    label: Array
    data: Sequences
    place: Ints
    place_in_block: Ints


def looked_up(spill: Spill, block: Block, rules: Rules, draw: Draw, points: str, wanted: Floats) -> FoundPlaces | None:
    """The labelled places of a block whose `z` lies in one of the stretches `wanted` `(2, J)`, in the block's order.

    None if there are none, as in most blocks.

    `points`: the piece of the spill folder that holds the points of the block under this draw. It does not say which
    places they are: points of the sequences that may have one of these are computed again, with the same bits.
    """
    z = point_z(spill, points)
    seen = z[_in_stretches(z, wanted)]
    if len(seen) == 0:
        return None
    extent = spill.facts(points)["extent"]
    rows = _rows_that_may_have(block.data(spill, rules), rules, draw, extent, np.sort(seen))
    data = block.data(spill, rules, rows)
    known = rules.places(data)
    found = contextual_points(Encoded(draw, rules.tokens(data)), rules.target(known))
    there = _in_stretches(found.z, wanted)
    assert len(there) == len(seen)  # the same points
    number = found.order[there].astype(np.int64)
    order = np.argsort(number, kind="stable")
    z, number = found.z[there[order]], number[order]
    if not rules.labelling.at_tokens:
        return FoundPlaces(z, block.labels(spill, rules, data)[rows[number]], data, number, rows[number])
    place = number if known is None else known[number]
    row = data.sequences_of(place)
    place_in_block = block.starts(spill, rows)[row] + place - data.offsets[row]
    label = block.labels(spill, rules, data)[place_in_block if known is None else number]
    return FoundPlaces(z, label, data, place, place_in_block)


def _in_stretches(z: Floats, wanted: Floats) -> Ints:
    """Which of the points `z` `(P,)`, in order, lie in one of the stretches `wanted` `(2, J)`, both ends included."""
    return inside(np.searchsorted(z, wanted[0]), np.searchsorted(z, wanted[1], side="right"))


def _rows_that_may_have(data: Sequences, rules: Rules, draw: Draw, extent: Floats, z: Floats) -> Ints:
    """Which sequences of `data` may have one of the points `z`, in order; `extent`: that of all contexts.

    A point is `t + κ c`. Sums are rounded, which keeps their order: so a token of code `t` has points between the sums
    of `t` with both ends of `κ c`, and most have none of `z` there.
    """
    if draw.kappa is None or rules.positions or not rules.labelling.at_tokens:
        return np.arange(len(data))
    low, high = (draw.proposal.code + draw.kappa * end for end in extent)
    may = np.searchsorted(z, low) < np.searchsorted(z, high, side="right")
    return np.unique(data.sequences_of(np.flatnonzero(may.take(data.tokens))))


def held(spill: Spill, name: str, block: Block, rules: Rules, draw: Draw, points: str, wanted: Floats) -> None:
    """Write the points of a block that lie in crowds `wanted` `(2, J)`, with their sequences, as the piece `name`."""
    crowd = looked_up(spill, block, rules, draw, points, wanted)
    if crowd is None:
        none, shape = np.zeros(0, np.int64), (0, rules.reals) if rules.reals else 0
        label = np.zeros(shape, rules.label_type)
        spill.write(name, [], z=np.zeros(0), label=label, position=none, lengths=none, tokens=none)
        return
    data, row = crowd.data, crowd.place
    position = row[:0]
    if rules.labelling.at_tokens:
        place, row = row, np.searchsorted(data.offsets, row, side="right") - 1
        position = place - data.offsets[row]
    tokens = data.tokens[data.flat(row)]
    spill.write(name, [], z=crowd.z, label=crowd.label, position=position, lengths=data.lengths[row], tokens=tokens)
