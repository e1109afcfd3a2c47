"""Every labelled place of a block as one number, in order and cut by `z` into ranges; ranges, gathered and sorted.

`points-B` holds, of the points of block `B` in order, `z` and the label; which labelled places they are is found out
again for the few that are looked up (`crowds.py`). A range ends where no crowd does (`construct/line/cascade.py`), so
that each is made into steps by itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Floats, Ints, ends_of, slices
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.spill import Spill
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.points import Points, labels_on_line, too_narrow

LOOKED_AT_FIRST, LOOKED_AT_EACH = 64, 4
"""How many points behind a range are searched first for a place to end it: in all, and at least per slice."""
LOOKED_AT_MOST = 1 << 12
"""Points behind a splitter among which a range must end while labels may contradict each other."""


def write_points(spill: Spill, name: str, block: Block, rules: Rules, draw: Draw, splitters: Floats) -> None:
    """Write the points of a block in order, where ranges begin among them, and the ends of `z` and of the contexts."""
    data = block.data(spill, rules)
    encoded = Encoded(draw, rules.tokens(data))
    z, label = labels_on_line(encoded, rules.target(rules.places(data)), block.labels(spill, rules, data))
    bounds = np.concatenate([[0], np.searchsorted(z, splitters, side="left"), [len(z)]])
    ends = z[[0, -1]] if len(z) else z
    spill.write(name, [z, label], bounds=bounds, ends=ends, extent=np.array(ends_of(encoded.contexts)))


def point_z(spill: Spill, name: str) -> Floats:
    """`z` `(P,)` of the points of a block, in order. Of the file only the pages that somebody looks at are read."""
    total = int(spill.facts(name)["bounds"][-1])
    return np.memmap(spill.numbers(name), np.float64, "r", shape=total).view(np.ndarray) if total else np.zeros(0)


def splitters(values: Floats, ranges: int) -> Floats:
    """Numbers that cut a sample into ranges of about equal size."""
    ordered = np.sort(values) if len(values) else np.zeros(1)  # of tokens without a next one: any number will do
    return ordered[[i * len(ordered) // ranges for i in range(1, ranges)]]


class PointsRead(NamedTuple):
    """`z` `(P,)` and label of points read from pieces, and the `z` up to which nothing is missing among them."""

    z: Floats
    label: Array
    known: float


class RangePoints(NamedTuple):
    """Points of a range in order, equal ones once: `z` `(P,)`, label `(P,)` or `(P, m)`.

    `clean`: whether both ends lie in wide gaps with no crowd beside them. The first point is the last one
    before the range, if there is one.
    """

    z: Floats
    label: Array
    clean: bool


class PieceSlice(NamedTuple):
    """Points `begin` to `end` of a file that has `total`."""

    file: str
    begin: int
    end: int
    total: int


class PointsBehind(NamedTuple):
    """Points of a range and some behind it, in order, equal ones once; `complete`: no points lie further behind."""

    z: Floats
    label: Array
    complete: bool


@dataclass(frozen=True, eq=False)
class Range:
    """Points from the splitter `since` to `until`, but for those that share a crowd with some beyond.

    `pieces`: in which files they lie; `bounds` `(B, 3)`: where the range begins and ends in each, and how many points
    that has, as an array since a thousand million points have a million such rows in all ranges together. `most`: how
    many are held at once; `kappa`, `error`: as those of `Points`.
    """

    number: int
    since: float
    until: float
    pieces: list[str]
    bounds: Ints
    label_type: np.dtype[Any]
    reals: int
    kappa: float
    error: float
    most: int

    def points(self, z: Floats) -> Points:
        """Points with the rounding errors of these."""
        return Points(z, z, self.kappa, self.error)

    def gather(self, spill: Spill, strict: bool) -> RangePoints:
        """The points of this range, from all pieces.

        It begins and ends behind its splitters, at the first wide gap between two stretches that are no crowds. Where
        that is far away it is cut before, and its crowds may be others, unless `strict`.
        """
        behind = max(LOOKED_AT_EACH, LOOKED_AT_FIRST // max(1, len(self.pieces)))
        while True:
            z, label, complete = self._points_up_to(spill, behind)
            start, stop = (self._end(z, label, complete, at, strict) for at in (self.since, self.until))
            if start is not None and stop is not None:
                break
            behind *= 16
        here = slice(max(0, start[0] - 1), stop[0]) if start[0] < stop[0] else slice(0)
        return RangePoints(z[here], label[here], start[1] and stop[1])

    def _points_up_to(self, spill: Spill, behind: int) -> PointsBehind:
        """Points from the last before the range on. Of each piece, at most `behind` points behind the range are read.

        What lies beyond the last point read of any piece is left out, since other points may lie between.
        """
        slices = [
            PieceSlice(f"{spill.numbers(piece)}", max(0, first - 1), min(total, last + behind), total)
            for piece, (first, last, total) in zip(self.pieces, self.bounds.tolist(), strict=True)
        ]
        held, group, count, known = list[tuple[Floats, Array]](), list[PieceSlice](), 0, np.inf
        for each in slices:
            group.append(each)
            count += each.end - each.begin
            if count > self.most or each is slices[-1]:
                z, label, below = self._read(group)
                known = min(known, below)
                if held:
                    z, label = np.concatenate([held[0][0], z]), np.concatenate([held[0][1], label])
                held, group = [distinct_in_order(z, label)], []
                count = len(held[0][0])
        z, label = held[0]
        below = len(z) if known == np.inf else int(np.searchsorted(z, known))
        return PointsBehind(z[:below], label[:below], known == np.inf)

    def _read(self, slices: list[PieceSlice]) -> PointsRead:
        """`z` and label of the points of some slices, and the least of their last `z` behind which there are more."""
        count, known = sum(each.end - each.begin for each in slices), np.inf
        z, label = np.empty(count), np.empty((count, self.reals) if self.reals else count, self.label_type)
        per_label, at = self.label_type.itemsize * max(1, self.reals), 0
        for file, begin, end, total in slices:
            here = slice(at, at + end - begin)
            handle = os.open(file, os.O_RDONLY)
            try:
                for column, offset in ((z[here], 8 * begin), (label[here], 8 * total + per_label * begin)):
                    if os.preadv(handle, [column.reshape(-1).view(np.uint8).data], offset) < column.nbytes:
                        raise OSError(f"{file} was cut short while it was in use")
            finally:
                os.close(handle)
            at = here.stop
            if end < total:
                known = min(known, float(z[at - 1]))
        return PointsRead(z, label, known)

    def _end(self, z: Floats, label: Array, complete: bool, splitter: float, strict: bool) -> tuple[int, bool] | None:
        """Where the range behind a splitter begins, and whether that is clean; None: more points must be looked at."""
        if np.isinf(splitter):
            return (0 if splitter < 0 else len(z)), True
        first, most = int(np.searchsorted(z, splitter)), len(z) if strict else LOOKED_AT_MOST
        stretch = self._clean(z[first : first + most], label[first : first + most])
        if stretch is not None:
            return first + stretch, True
        if not complete and (strict or len(z) < first + most):
            return None
        return min(len(z), first + most), strict

    def _clean(self, z: Floats, label: Array) -> int | None:
        """The first point behind a wide gap with no crowd on either side of it."""
        for size in (LOOKED_AT_FIRST, len(z)):
            here = self.points(z[:size])
            wide = np.flatnonzero(~too_narrow(here.room))
            changes = np.append(0, np.cumsum(differ(label[:size])))
            one_label = changes[wide[1:]] == changes[wide[:-1] + 1]  # of the points between two wide gaps
            both = np.flatnonzero(one_label[1:] & one_label[:-1])
            if len(both):
                return int(wide[both[0] + 1]) + 1
        return None


def differ(label: Array) -> NDArray[np.bool_]:
    """Which labels `(P,)` or `(P, m)` differ from the next `(P − 1,)`."""
    changed: NDArray[np.bool_] = label[1:] != label[:-1]
    return np.asarray(changed.any(axis=1)) if changed.ndim == 2 else changed


def distinct_in_order(z: Floats, label: Array) -> tuple[Floats, Array]:
    """Points in order of `z`, then of label, equal ones once. The given arrays may be written to.

    Floats of one sign are in the order of their bits, or in its reverse. If 64 bits have room for the bits in which
    the points differ and for a label, both are sorted as one whole number, which is many times faster than `argsort`.
    """
    if label.ndim == 1 and len(z):
        keys, room = z.view(np.int64), int(label.max()).bit_length()
        low, high = int(keys.min()), int(keys.max())
        if (low < 0) == (high < 0) and (high - low).bit_length() + room < 64:
            for part in slices(len(z)):
                key = keys[part]
                np.subtract(high, key, out=key) if low < 0 else np.subtract(key, low, out=key)
                key <<= room
                key |= label[part]
            keys.sort()
            again = keys[1:] == keys[:-1]
            if again.any():
                keys = keys[np.append(True, ~again)]
                label = label[: len(keys)]
            for part in slices(len(keys)):
                key = keys[part]
                np.bitwise_and(key, (1 << room) - 1, out=label[part], casting="unsafe")
                key >>= room
                np.subtract(high, key, out=key) if low < 0 else np.add(key, low, out=key)
            return keys.view(np.float64), label
    order = np.argsort(z, kind="stable")
    if (np.diff(z.take(order)) == 0.0).any():
        order = np.lexsort((*label.reshape(len(z), -1).T[::-1], z))  # several times slower
    z, label = z.take(order), label.take(order, axis=0)
    new = np.append(True, (z[1:] != z[:-1]) | differ(label))[: len(z)]
    return (z, label) if new.all() else (z[new], label[new])
