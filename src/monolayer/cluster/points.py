"""Every labelled place of a block as one number, in order and cut by `z` into ranges; ranges, gathered and sorted.

`points-B` holds, of the points of block `B` in order, `z`, the label, and which labelled place of the block it is.
A range ends where no crowd does (`construct/line/cascade.py`), so that each is made into steps by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.spill import Spill
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.points import Points, contextual_points, too_narrow

BESIDE = 64
"""Points of each slice behind a range that are looked at first for a place to end it."""
LOOKED_AT = 1 << 12
"""Points behind a splitter among which a range must end while labels may contradict each other."""


def extent(spill: Spill, name: str, block: Block, rules: Rules, draw: Draw) -> None:
    """The least and the largest context of a block."""
    values = draw.contexts(rules.tokens(block.data(spill, rules)))
    spill.write(name, [], extent=np.array([values.min(), values.max()]))


def points(spill: Spill, name: str, block: Block, rules: Rules, draw: Draw, splitters: Floats) -> None:
    """The points of a block in order, and where the ranges begin."""
    data = block.data(spill, rules)
    found = contextual_points(draw, rules.tokens(data), rules.target(rules.places(data)))
    label = block.labels(spill, rules, data).astype(rules.label_type).take(found.order, axis=0)
    inner = np.searchsorted(found.z, splitters, side="left")
    bounds = np.concatenate([[0], inner, [len(found.z)]])
    spill.write(name, [found.z, label, found.order.astype(np.int32, copy=False)], bounds=bounds)


def splitters(values: Floats, ranges: int) -> Floats:
    """Numbers that cut a sample into ranges of about equal size."""
    ordered = np.sort(values) if len(values) else np.zeros(1)  # of tokens without a next one: any number will do
    return ordered[[i * len(ordered) // ranges for i in range(1, ranges)]]


@dataclass(frozen=True)
class Piece:
    """The points of a block, how many there are, and where a range begins and ends among them."""

    name: str
    total: int
    begin: int
    end: int

    def read(
        self, spill: Spill, begin: int, end: int, label_type: np.dtype[Any], reals: int
    ) -> tuple[Floats, NDArray[Any]]:
        """`z` and label of points `begin` to `end`."""
        file, size = spill.numbers(self.name), max(1, reals)
        z = np.fromfile(file, np.float64, end - begin, offset=8 * begin)
        offset = 8 * self.total + label_type.itemsize * begin * size
        label = np.fromfile(file, label_type, (end - begin) * size, offset=offset)
        if len(label) < (end - begin) * size:
            raise OSError(f"{file} was cut short while it was in use")
        return z, label.reshape(-1, size) if reals else label


@dataclass(frozen=True)
class Range:
    """Points from the splitter `since` to `until`, but for those that share a crowd with some beyond.

    `pieces`: in which files they lie; `most`: how many are held at once; `kappa`, `error`: as those of `Points`.
    """

    number: int
    since: float
    until: float
    pieces: list[Piece]
    label_type: np.dtype[Any]
    reals: int
    kappa: float
    error: float
    most: int

    def points(self, z: Floats) -> Points:
        """Points with the rounding errors of these."""
        return Points(z, z, self.kappa, self.error)

    def gather(self, spill: Spill, strict: bool) -> tuple[Floats, NDArray[Any], bool]:
        """`z` and label of its points in order, equal ones once, after the one before them; whether its ends are clean.

        It begins and ends behind its splitters, at the first wide gap between two stretches that are no crowds. Where
        that is far away it is cut before, and its crowds may be others, unless `strict`.
        """
        behind = BESIDE
        while True:
            z, label, complete = self._read(spill, behind)
            start, stop = (self._end(z, label, complete, at, strict) for at in (self.since, self.until))
            if start is not None and stop is not None:
                break
            behind *= 16
        here = slice(max(0, start[0] - 1), stop[0]) if start[0] < stop[0] else slice(0)
        return z[here], label[here], start[1] and stop[1]

    def _read(self, spill: Spill, behind: int) -> tuple[Floats, NDArray[Any], bool]:
        """Points from the last before it to as many `behind` it as are surely all; whether these are all there are."""
        held, count, known = list[tuple[Floats, NDArray[Any]]](), 0, np.inf
        for piece in self.pieces:
            begin, end = max(0, piece.begin - 1), min(piece.total, piece.end + behind)
            z, label = piece.read(spill, begin, end, self.label_type, self.reals)
            known = min(known, float(z[-1])) if end < piece.total else known
            held.append((z, label))
            count += len(z)
            if count > self.most:
                held = [self._joined(held)]
                count = len(held[0][0])
        z, label = self._joined(held)
        below = len(z) if known == np.inf else int(np.searchsorted(z, known))
        return z[:below], label[:below], known == np.inf

    def _joined(self, held: list[tuple[Floats, NDArray[Any]]]) -> tuple[Floats, NDArray[Any]]:
        """Points of several pieces as one: in order, equal ones once."""
        z, label = in_order(np.concatenate([z for z, _ in held]), np.concatenate([label for _, label in held]))
        new = np.append(True, (z[1:] != z[:-1]) | differ(label))[: len(z)]
        return (z, label) if new.all() else (z[new], label[new])

    def _end(
        self, z: Floats, label: NDArray[Any], complete: bool, splitter: float, strict: bool
    ) -> tuple[int, bool] | None:
        """Where the range behind a splitter begins, and whether that is clean; None: more points must be looked at."""
        if np.isinf(splitter):
            return (0 if splitter < 0 else len(z)), True
        first, most = int(np.searchsorted(z, splitter)), len(z) if strict else LOOKED_AT
        found = self._clean(z[first : first + most], label[first : first + most])
        if found is not None:
            return first + found, True
        if not complete and (strict or len(z) < first + most):
            return None
        return min(len(z), first + most), strict

    def _clean(self, z: Floats, label: NDArray[Any]) -> int | None:
        """The first point behind a wide gap with no crowd on either side of it."""
        for size in (BESIDE, len(z)):
            here = self.points(z[:size])
            wide = np.flatnonzero(~too_narrow(here.room))
            changes = np.append(0, np.cumsum(differ(label[:size])))
            one_label = changes[wide[1:]] == changes[wide[:-1] + 1]  # of the points between two wide gaps
            both = np.flatnonzero(one_label[1:] & one_label[:-1])
            if len(both):
                return int(wide[both[0] + 1]) + 1
        return None


def differ(label: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels `(P,)` or `(P, m)` differ from the next `(P − 1,)`."""
    found: NDArray[np.bool_] = label[1:] != label[:-1]
    return np.asarray(found.any(axis=1)) if found.ndim == 2 else found


def in_order(z: Floats, label: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """Points in order of `z`, then of label.

    Floats of one sign are in the order of their bits, or in its reverse: where 64 bits hold what those of all points
    leave, and a label, both are sorted as one whole number, many times faster than to look for the order.
    """
    if label.ndim == 1 and len(z):
        bits, room = z.view(np.int64), int(label.max()).bit_length()
        low, high = int(bits.min()), int(bits.max())
        if (low < 0) == (high < 0) and (high - low).bit_length() + room < 64:
            keys = high - bits if low < 0 else bits - low
            keys <<= room
            keys |= label
            keys.sort()
            label = (keys & ((1 << room) - 1)).astype(label.dtype)
            keys >>= room
            return (high - keys if low < 0 else keys + low).view(np.float64), label
    order = np.argsort(z, kind="stable")
    if (np.diff(z.take(order)) == 0.0).any():
        order = np.lexsort((*label.reshape(len(z), -1).T[::-1], z))  # several times slower
    return z.take(order), label.take(order, axis=0)
