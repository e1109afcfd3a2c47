"""Crowds, out of core: points with different labels that one line puts too close (`construct/line/cascade.py`).

They are few. A range that holds some is cut with as much of its neighbours as its crowds reach into, and a neighbour
that they reach into is built again; the other parts get a row of zeros, for they begin no stretch. The points
themselves are looked up with their sequences, so that contradictions are found token by token, and the further stages
are built in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.cluster import tables
from monolayer.cluster.blocks import Block, Raw, Rules, label_of, mapped, named, raw
from monolayer.cluster.keys import Numbers
from monolayer.cluster.measure import stored
from monolayer.cluster.ranges import Form, Line, Range, Slices, gather, in_order, piece
from monolayer.cluster.spill import Spill
from monolayer.construct.line.cascade import Cut, cut, least_label
from monolayer.construct.line.points import SLACK, Points, ramps_at, weights
from monolayer.construct.line.separate import margins
from monolayer.model.sharded import FIRST_STAGE, LINE, part_header

SHELVES = 1 << 16
"""Shelves that contexts are sorted into where sequences near crowds are looked for."""
SOME = 64
"""Points of each slice beside a range that are looked at first; more where a crowd reaches further."""


def begin_of_part(number: int, steps: int, cascade: bool) -> NDArray[np.uint8]:
    """What stands before the tensors of range `number`; `cascade`: as in its first stage, which counts stretches."""
    header = part_header(number + 1, steps, *((FIRST_STAGE, 2) if cascade else (LINE, 1)))
    return np.frombuffer(header, dtype=np.uint8)


def crowded(spill: Spill, name: str, range_: Range, own: Line | None = None, **facts: Any) -> None:
    """A range as a part of the first stage of a cascade; the crowds that begin in it. `own`: its points, if at hand."""
    z, label, begin, end = with_neighbours(spill, range_, own)
    here = range_.points(z, label)
    part = cut(here, np.flatnonzero(label[1:] != label[:-1]))
    level = label[part.first].astype(np.float64)
    level[part.plateau] = least_label(part, label.astype(np.int64))
    # The steps of this range are those before its points.
    mine, after = np.searchsorted(part.steps, [begin - 1, end - 1]).tolist()
    steps = part.steps[mine:after]
    jump = np.stack([np.diff(row[mine : after + 1]) for row in (level, part.number.astype(np.float64))])
    tensors = weights(*ramps_at(z, steps), jump)
    spill.write(
        name,
        [begin_of_part(range_.number, len(steps), True), *tensors],
        hashed=True,
        cascade=True,
        steps=len(steps),
        margin=np.inf if len(steps) == 0 else margins(here, steps)[0] or np.inf,
        size=float(np.abs(tensors[2]).sum(axis=1).max(initial=0.0)),
        last=level[-1:],
        **outline(z, part, level, begin, end),
        **facts,
    )


def outline(z: Floats, part: Cut, level: Floats, begin: int, end: int) -> dict[str, Any]:
    """The crowds that begin in a range, points `begin` to `end` of `z`, and whether some reach out of it."""
    starts = (part.begin >= begin) & (part.begin < end)
    # A crowd that reaches out of the range, or up to its end: its first or its last step is a neighbour's.
    reaches = ((part.begin < begin) & (part.end > begin)).any(), ((part.begin < end) & (part.end >= end)).any()
    first, behind = part.begin[starts], part.end[starts]
    crowds = np.stack(
        [
            z[first],
            z[behind - 1],
            np.where(first > 0, z[np.maximum(first - 1, 0)], np.nan),
            np.where(behind < len(z), z[np.minimum(behind, len(z) - 1)], np.nan),
            level[part.plateau[starts]],
        ]
    )
    return {"reaches": np.array(reaches), "crowds": crowds}


def with_neighbours(spill: Spill, range_: Range, own: Line | None) -> tuple[Floats, Numbers, int, int]:
    """The points of a range, and beside them those that may share a crowd with them, and one more; where its own are.

    The point before the range counts as its own crowd's even across a wide gap: the step there is this range's.
    """
    own = gather(spill, range_) if own is None else own
    z, label = own.columns(0, len(own))
    slices, form, kappa, error = range_.slices, range_.form, range_.kappa, range_.error
    count = SOME
    while True:
        before, low = _beside(spill, slices, form, count, left=True)
        after, high = _beside(spill, slices, form, count, left=False)
        left, right = (line.columns(0, len(line)) for line in (before, after))
        left = left[0][left[0] > low], left[1][left[0] > low]
        right = right[0][right[0] < high], right[1][right[0] < high]
        from_left = _reach(left[0][::-1], kappa, error)
        to_right = _reach(np.append(z[-1:], right[0]), kappa, error) - len(z[-1:])
        whole = from_left <= len(left[0]) or low == -np.inf
        if whole and (to_right <= len(right[0]) or high == np.inf):
            break
        count *= 16
    from_left, to_right = min(from_left, len(left[0])), min(max(to_right, 0), len(right[0]))
    begin = len(left[0]) - from_left
    every = np.concatenate([left[0][begin:], z, right[0][:to_right]])
    labels = np.concatenate([left[1][begin:], label, right[1][:to_right]])
    return every, labels, from_left, from_left + len(z)


def _beside(spill: Spill, slices: Slices, form: Form, count: int, *, left: bool) -> tuple[Line, float]:
    """The nearest points of every slice on one side, in order, and the number up to which none is missing.

    Equal ones of a slice once: a crowd may reach into any number of them.
    """
    found, bound = list[Line](), -np.inf if left else np.inf
    for name, begin, end, total in slices:
        first, last = (max(0, begin - count), begin) if left else (end, min(total, end + count))
        here = piece(spill, name, total, first, last, form)
        if left and first > 0:
            bound = max(bound, float(here.columns(0, 1)[0][0]))
        elif not left and last < total:
            bound = min(bound, float(here.columns(last - first - 1, last - first)[0][0]))
        found.append(here.some(here.new()))
    return in_order(found, form), bound


def _reach(z: Floats, kappa: float, error: float) -> int:
    """How many of `z`, which lead away from a range, to take: up to one beyond the first gap that is wide enough."""
    size = np.abs(z)
    room = Points(z, z, kappa, error).error(np.maximum(size[1:], size[:-1]))
    wide = np.flatnonzero(np.abs(np.diff(z)) >= SLACK * room)
    return int(wide[0]) + 2 if len(wide) else len(z) + 1


def held(
    spill: Spill, name: str, block: Block, rules: Rules, draw: Any, kappa: float, contexts: str, wanted: Floats
) -> None:
    """The labelled places of a block whose number lies in one of the crowds `wanted` `(2, J)`, with their sequences."""
    here, z, rows, _ = near(spill, block, rules, draw, kappa, contexts, wanted)
    data, target = named(here, rules)
    there = within(z, wanted)
    flat = there if target.place is None else target.place[there]
    row = flat if rules.per == "sequence" else np.searchsorted(data.offsets, flat, side="right") - 1
    spill.write(
        name,
        [],
        z=z[there],
        label=label_of(target)[there],
        row=block.first + rows[row],
        position=np.zeros_like(row) if rules.per == "sequence" else flat - data.offsets[row],
        lengths=data.lengths[row],
        tokens=data.tokens[data.flat(row)] if len(row) else data.tokens[:0],
    )


def within(z: Floats, wanted: Floats) -> Ints:
    """The places whose number lies in one of the stretches `wanted` `(2, J)`, which are in order."""
    at = np.searchsorted(wanted[0], z, side="right") - 1
    found: Ints = np.flatnonzero((at >= 0) & (z <= wanted[1].take(np.maximum(at, 0))))
    return found


def near(
    spill: Spill, block: Block, rules: Rules, draw: Any, kappa: float, contexts: str, wanted: Floats
) -> tuple[Raw, Floats, Ints, Ints]:
    """The sequences of a block that may have a point in one of the stretches `wanted`; `z`, their rows, their places.

    All of them, where that cannot be seen from their contexts alone. What is not taken is not read.
    """
    context = stored(spill, contexts, draw)
    here = raw(spill, block, rules, mapped)
    if not isinstance(draw, tables.Tables):
        rows, places = np.arange(len(here.lengths)), np.arange(len(here.tokens))
    else:
        rows = candidates(kappa * context, *wanted, whole=rules.per == "token")
        rows = rows if len(rows) else np.zeros(1, dtype=np.int64)  # any one: all of them are looked at again
        here, places = here.select(rows, rules.per)
        context = context[rows]
    return here, tables.numbers(draw, here, context, rules, kappa)[0], rows, places


def candidates(moved: Floats, low: Floats, high: Floats, *, whole: bool) -> Ints:
    """Sequences, of which `moved` `(N,)` is `κ c`, that may have a point from some `low` to its `high` `(J,)`.

    `whole`: `z` is `κ c` and a whole number, rounded once, so both agree in what comes after the point, nearly; else
    it is `κ c`. Shelves that may hold such points are marked, and a sequence is looked at if its shelf is marked.
    """
    first, last = float(moved.min()), float(moved.max())
    if whole:
        room = 2.0**-50 * (1.0 + max(np.abs(low).max(), np.abs(high).max()))
        width = high - low + 2.0 * room
        if (width >= 1.0).any():
            return np.arange(len(moved))
        begin = (low - room) % 1.0
        low = np.concatenate([begin - 1.0, begin])  # a stretch that passes 1 goes on from 0
        high = low + np.tile(width, 2)
        moved, first, last = moved - np.floor(moved), 0.0, 1.0

    def shelf(at: Floats) -> Ints:
        return np.clip((at - first) * (SHELVES / ((last - first) or 1.0)), 0.0, SHELVES).astype(np.int64)

    marks = np.zeros(SHELVES + 2, dtype=np.int64)
    np.add.at(marks, shelf(low), 1)
    np.add.at(marks, shelf(high) + 1, -1)
    return np.flatnonzero((np.cumsum(marks) > 0).take(shelf(moved)))


@dataclass(frozen=True, eq=False)
class Crowds:
    """All crowds of a draw, in order: `low`, `high`, the labels that the first stage writes there, their stretches."""

    low: Floats
    high: Floats
    level: Floats
    stretch: Ints
    bounds: int

    @classmethod
    def of(cls, found: list[Floats]) -> Crowds:
        """From what the ranges say `(5, …)`; a bound that two neighbours share is counted once."""
        low, high, before, after, level = np.concatenate(found, axis=1)
        shared = np.zeros(len(low), dtype=bool)
        shared[1:] = after[:-1] == low[1:]
        begins = ~np.isnan(before) & ~shared
        ends = ~np.isnan(after)
        passed = np.cumsum(begins) + np.cumsum(ends) - ends
        total = int(begins.sum() + ends.sum())
        return cls(low, high, level, passed - (total + 1) // 2, total)

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last number of a stretch."""
        return -((self.bounds + 1) // 2), self.bounds - (self.bounds + 1) // 2

    def which(self, z: Floats) -> Ints:
        """The crowd of each point."""
        found: Ints = np.searchsorted(self.low, z, side="right") - 1
        return found
