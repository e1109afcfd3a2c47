"""Crowds, out of core: points with different labels that one line puts too close (`construct/line/cascade.py`).

They are few. The ranges that hold them are built again, each with as much of its neighbours as its crowds reach into;
the other parts get a row of zeros, for they begin no stretch. The points themselves are looked up with their sequences,
so that contradictions are found token by token, and the further stages are built in memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.cluster import tables
from monolayer.cluster.blocks import Block, Rules, load
from monolayer.cluster.ranges import Numbers, Slices, gather, in_order, piece
from monolayer.cluster.spill import Spill
from monolayer.construct.line.cascade import cut, least_label
from monolayer.construct.line.points import SLACK, Floats, Points
from monolayer.construct.line.ramps import ramps_at, weights
from monolayer.construct.line.separate import margins
from monolayer.data.names import Ints
from monolayer.model.sharded import FIRST_STAGE, part_header

SOME = 64
"""Points of each slice beside a range that are looked at first; more where a crowd reaches further."""


def rebuilt(
    spill: Spill, name: str, number: int, slices: Slices, rules: Rules, kappa: float, error: float, most: int
) -> None:
    """Range `number` as a part of the first stage of a cascade, and the crowds that begin in it."""
    z, label, begin, end = _with_neighbours(spill, slices, rules, kappa, error, most)
    here = Points(z, label, kappa, error)
    changes = np.flatnonzero(label[1:] != label[:-1])
    part = cut(here, changes)
    level = label[part.first].astype(np.float64)
    level[part.plateau] = least_label(part, label.astype(np.int64))
    own = np.flatnonzero((part.steps + 1 >= begin) & (part.steps + 1 < end))
    steps = part.steps[own]
    jump = np.stack([level[own + 1] - level[own], (part.number[own + 1] - part.number[own]).astype(np.float64)])
    tensors = weights(*ramps_at(z, steps), jump)
    blocks: list[NDArray[Any]] = [
        np.frombuffer(part_header(number + 1, len(steps), FIRST_STAGE, 2), dtype=np.uint8),
        *tensors,
    ]
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(np.ascontiguousarray(block).data)
    mine = (part.begin >= begin) & (part.begin < end)
    # A crowd that reaches out of the range, or up to its end: its first or its last step is a neighbour's.
    reaches = ((part.begin < begin) & (part.end > begin)).any(), ((part.begin < end) & (part.end >= end)).any()
    first, after = part.begin[mine], part.end[mine]
    spill.write(
        name,
        blocks,
        digest=np.array([digest.hexdigest()]),
        steps=len(steps),
        margin=np.inf if len(steps) == 0 else margins(here, steps)[0] or np.inf,
        size=float(np.abs(tensors[2]).sum(axis=1).max(initial=0.0)),
        bounds=int(-tensors[2][1].sum()),
        last=level[-1:],
        reaches=np.array(reaches),
        crowds=np.stack(
            [
                z[first],
                z[after - 1],
                np.where(first > 0, z[np.maximum(first - 1, 0)], np.nan),
                np.where(after < len(z), z[np.minimum(after, len(z) - 1)], np.nan),
                level[part.plateau[mine]],
            ]
        ),
    )


def _with_neighbours(
    spill: Spill, slices: Slices, rules: Rules, kappa: float, error: float, most: int
) -> tuple[Floats, Numbers, int, int]:
    """The points of a range, and beside them those that may share a crowd with them, and one more; where its own are.

    The point before the range counts as its own crowd's even across a wide gap: the step there is this range's.
    """
    z, label = gather(spill, slices, rules, most)
    count = SOME
    while True:
        before, low = _beside(spill, slices, rules, count, left=True)
        after, high = _beside(spill, slices, rules, count, left=False)
        left, right = in_order(before, rules), in_order(after, rules)
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


def _beside(
    spill: Spill, slices: Slices, rules: Rules, count: int, *, left: bool
) -> tuple[list[tuple[Floats, Numbers]], float]:
    """The nearest points of every slice on one side, and the number up to which none is missing among them."""
    found, bound = [(np.zeros(0), np.zeros(0, np.min_scalar_type(rules.labels)))], -np.inf if left else np.inf
    for name, begin, end, total in slices:
        first, last = (max(0, begin - count), begin) if left else (end, min(total, end + count))
        found.append(piece(spill, name, total, first, last, rules))
        if left and first > 0:
            bound = max(bound, float(found[-1][0][0]))
        elif not left and last < total:
            bound = min(bound, float(found[-1][0][-1]))
    return found, bound


def _reach(z: Floats, kappa: float, error: float) -> int:
    """How many of `z`, which lead away from a range, to take: up to one beyond the first gap that is wide enough."""
    size = np.abs(z)
    room = Points(z, z, kappa, error).error(np.maximum(size[1:], size[:-1]))
    wide = np.flatnonzero(np.abs(np.diff(z)) >= SLACK * room)
    return int(wide[0]) + 2 if len(wide) else len(z) + 1


def widened(spill: Spill, name: str, part: str, number: int, steps: int) -> None:
    """A part without crowds as one of the first stage of a cascade: no step begins a stretch.

    In place, and the same however often it is done: another header of the same length, and zeros at the end.
    """
    file = spill.numbers(part)
    header = part_header(number + 1, steps, FIRST_STAGE, 2)
    with file.open("r+b") as out:
        out.write(header)
        out.truncate(len(header) + 32 * steps)
    spill.write(name, [], digest=np.array([_digest(file)]), bounds=0, crowds=np.zeros((5, 0)))


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def held(spill: Spill, name: str, block: Block, rules: Rules, draw: Any, kappa: float, wanted: Floats) -> None:
    """The labelled places of a block whose number lies in one of the crowds `wanted` `(2, J)`, with their sequences."""
    data, target = load(spill, block, rules)
    z = tables.numbers(draw, data, target, rules, kappa)
    low, high = wanted
    at: Ints = np.searchsorted(low, z, side="right") - 1
    there = np.flatnonzero((at >= 0) & (z <= high.take(np.maximum(at, 0))))
    flat = there if target.place is None else target.place[there]
    row = flat if rules.per == "sequence" else np.searchsorted(data.offsets, flat, side="right") - 1
    spill.write(
        name,
        [],
        z=z[there],
        number=target.number[there],
        row=block.first + row,
        position=np.zeros_like(row) if rules.per == "sequence" else flat - data.offsets[row],
        lengths=data.lengths[row],
        tokens=data.tokens[data.flat(row)] if len(row) else data.tokens[:0],
    )


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
