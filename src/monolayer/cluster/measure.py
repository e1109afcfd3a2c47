"""How far apart a draw puts the contexts, out of core: what `construct/line/draw.py` measures, range by range.

`contexts-B` holds, for each draw, the contexts of block `B` in order; `bounds` `(draws, ranges + 1)` are where the
ranges begin. `context-D-B` holds those of the draw `D` that is tried, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.cluster import tables
from monolayer.cluster.blocks import Block, Rules, raw
from monolayer.cluster.spill import Spill
from monolayer.construct.line.gaps import Gaps


@dataclass(frozen=True)
class Extent:
    """The least and the largest of some contexts, and the least magnitude of those that are not 0."""

    first: float
    last: float
    nearest: float

    @classmethod
    def of(cls, values: Floats) -> Extent:
        size = np.abs(values)
        return cls(float(values.min()), float(values.max()), float(size.min(initial=np.inf, where=size > 0.0)))

    @classmethod
    def joined(cls, found: list[Floats]) -> Extent:
        """That of all, from those `(3,)` of parts."""
        first, last, nearest = np.stack(found, axis=1)
        return cls(float(first.min()), float(last.max()), float(nearest.min()))

    @property
    def array(self) -> Floats:
        return np.array([self.first, self.last, self.nearest])


def context(spill: Spill, name: str, block: Block, rules: Rules, draw: Any) -> None:
    """The contexts of a block, one after the other where the draw is tables; and their `Extent`."""
    values = tables.contexts(draw, raw(spill, block, rules), rules)
    spill.write(name, [values] if isinstance(draw, tables.Tables) else [], extent=Extent.of(values).array)


def stored(spill: Spill, name: str, draw: Any) -> Floats:
    """The contexts of a block that `context` has written; none where the draw is no tables."""
    return np.fromfile(spill.numbers(name), np.float64) if isinstance(draw, tables.Tables) else np.zeros(0)


def contexts(spill: Spill, name: str, block: Block, rules: Rules, draws: list[Any], splitters: list[Floats]) -> None:
    """The contexts of a block under each draw, in order."""
    here = raw(spill, block, rules)
    ordered = [np.sort(tables.contexts(draw, here, rules)) for draw in draws]
    bounds = [cut(values, at) + i * len(values) for i, (values, at) in enumerate(zip(ordered, splitters, strict=True))]
    spill.write(name, [*ordered], bounds=np.stack(bounds))


def gaps(spill: Spill, name: str, slices: list[tuple[str, int, int]], error: float) -> None:
    """`Gaps` of a range of the contexts of a draw, which lies in these `slices` of pieces."""
    found = [np.fromfile(spill.numbers(each), np.float64, end - begin, offset=8 * begin) for each, begin, end in slices]
    values = np.sort(np.concatenate(found))
    if len(values) == 0:
        spill.write(name, [], gaps=np.zeros(0))
        return
    seen = Gaps.of(values, error)
    spill.write(name, [], gaps=np.array([seen.first, seen.last, seen.count, seen.least]))


def joined(found: list[Floats], error: float) -> Gaps:
    """The gaps of all ranges as those of the whole."""
    parts = [Gaps(float(one[0]), float(one[1]), int(one[2]), float(one[3])) for one in found if len(one)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.then(part, error)
    return whole


def cut(ordered: Any, splitters: Any) -> Ints:
    """Where the ranges begin in `ordered`, and where the last one ends: equal numbers are never torn apart."""
    inner = np.searchsorted(ordered, splitters, side="left")
    return np.concatenate([[0], inner, [len(ordered)]])


def splitters(values: Floats, ranges: int) -> Floats:
    """Numbers that cut a sample into ranges of about equal size."""
    ordered = np.sort(values) if len(values) else np.zeros(1)  # of tokens without a next one: any number will do
    at = np.array([i * len(ordered) // ranges for i in range(1, ranges)], dtype=np.int64)
    return ordered.take(at) if len(at) else ordered[:0]
