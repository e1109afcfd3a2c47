"""The grid: cells, their centres and ramps, and all sequences of cells that the model must know.

Notation: `d` coordinates with `D` cells each on `[low, high]`, `V = D^d` cells, `n` tokens. Without positions the
model must know every multiset of `n` cells, and in it every different cell: `V C(V + n − 2, n − 1)` points, since
one cell is chosen and the other `n − 1` are any multiset. With positions: all `n` tokens of all `V^n` sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.construct.powers import power_below
from monolayer.errors import DataError
from monolayer.table import plural


@dataclass(frozen=True)
class Box:
    """The domain `[low, high]^{d×n}` of the function."""

    dim: int
    length: int
    low: float
    high: float
    positions: bool

    @classmethod
    def of(cls, dim: Any, length: Any, domain: Any, positions: object) -> Box:
        """The domain from the arguments of `approximate`, once they are checked."""
        for name, value in (("dim", dim), ("length", length)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise DataError(f"{name} must be a whole number from 1 on, not {value!r}")
        if not isinstance(positions, bool):
            raise DataError(f"positions must be True or False, not {positions!r}")
        try:
            low, high = (float(end) for end in domain)
        except (TypeError, ValueError):
            raise DataError(f"the domain must be two numbers (low, high), not {domain!r}") from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise DataError(f"the domain must be (low, high) with low < high, both finite, not ({low:g}, {high:g})")
        return cls(int(dim), int(length), low, high, positions)

    def knots(self, cells: int) -> int:
        """How many points the readout must tell apart with `cells` cells per coordinate."""
        V = math.prod([cells] * self.dim)
        if self.positions:
            return self.length * math.prod([V] * self.length)
        return V * math.comb(V + self.length - 2, self.length - 1)

    def most_cells(self, knots: int) -> int:
        """The largest `D` with at most `knots` points, and 0 if even one cell has more."""
        return smallest(1, lambda cells: self.knots(cells) > knots) - 1

    def uniform(self, count: int, random: np.random.Generator) -> Floats:
        """`(count, n, d)` points of the domain, each coordinate uniform."""
        return random.uniform(self.low, self.high, (count, self.length, self.dim))


@dataclass(frozen=True, eq=False)
class Lattice:
    """`D` cells per coordinate of a box, with ramps `[start_j, start_j + width]` between cell `j` and cell `j + 1`.

    A ramp ends a little left of the boundary of its cells, so that the boundaries themselves, where round numbers
    lie, are off the ramps: also when they come as float32.

        cell j ──────────┐         ┌────────── cell j + 1
                         └──ramp───┘  │boundary
    """

    box: Box
    cells: int
    width: float
    start: Floats

    @classmethod
    def of(cls, box: Box, cells: int, ramp: float) -> Lattice:
        """Ramps whose width is a power of two and at most `ramp` of a cell."""
        return cls.with_width(box, cells, float(power_below(ramp * (box.high - box.low) / cells)))

    @classmethod
    def with_width(cls, box: Box, cells: int, width: float) -> Lattice:
        """The lattice with ramps of width `width`, which is a power of two."""
        edges = np.linspace(box.low, box.high, cells + 1)
        largest = max(abs(box.low), abs(box.high))
        # In float32 a number is off by 2^−24 of itself at most; a grid finer than that is for float64 alone.
        aside = min(2.0**-24 * largest, 2.0**-12 * (box.high - box.low) / cells)
        # Then the ends of a ramp, in floats, are different numbers in the right order, and so are their images.
        if not (width >= 4.0 * np.spacing(largest) and 1.0 / width <= 2.0**1000):
            raise DataError(
                f"the domain ({box.low:g}, {box.high:g}) is too narrow for {plural(cells, 'cell')}: float64 has no "
                f"room there for ramps of width {width:.3g}. Shift and scale it, use fewer cells, or a wider ramp"
            )
        # Whole multiples of the coarsest spacing of floats here: then both ends of a ramp are floats, and centres that
        # are worked out from either side are the same bits.
        grain = float(np.spacing(largest))
        return cls(box, cells, width, np.floor((edges[1:-1] - aside - width) / grain) * grain)

    @property
    def left(self) -> Floats:
        """`(D,)`: where the plateaus begin, along one coordinate."""
        return np.append(self.box.low, self.start + self.width)

    @property
    def right(self) -> Floats:
        """`(D,)`: where the plateaus end, along one coordinate."""
        return np.append(self.start, self.box.high)

    @property
    def centres(self) -> Floats:
        """`(D,)`: the middles of the plateaus."""
        return self.left + (self.right - self.left) / 2.0

    @property
    def reach(self) -> float:
        """`h`: how far a coordinate off the ramps is from the centre of its cell, at most; about half a cell."""
        farthest = float(np.maximum(self.centres - self.left, self.right - self.centres).max())
        return farthest * (1.0 + 2.0**-50)  # two roundings, each within 2^−53

    def tokens(self) -> Floats:
        """Centres of all cells `(V, d)`, cell `q` with the digits of `q` in base `D`, the first the largest."""
        digits = np.indices((self.cells,) * self.box.dim).reshape(self.box.dim, -1).T
        return self.centres[digits]

    def rounded(self, X: Floats) -> Floats:
        """The centre of the cell of every token: `X` and the result are `(…, d)`. The other half of a ramp counts."""
        return self.centres[np.searchsorted(self.start + self.width / 2.0, X, side="right")]

    def on_ramp(self, X: Floats) -> NDArray[np.bool_]:
        """A mask `(B,)` of the sequences of `X` `(B, n, d)` that have a coordinate strictly inside a ramp."""
        # A ramp that ends at or before x ends nothing; the next one may hold x inside.
        after = np.searchsorted(self.start + self.width, X, side="right")
        begins = np.append(self.start, np.inf)[after]
        return np.asarray((begins < X).any(axis=(1, 2)))

    def corners(self, count: int, random: np.random.Generator) -> Floats:
        """`(count, n, d)` points in random corners of random cells, just off the ramps: where errors are largest."""
        shape = (count, self.box.length, self.box.dim)
        cell = random.integers(0, self.cells, shape)
        return np.where(random.random(shape) < 0.5, self.left[cell], self.right[cell])


def smallest(least: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from `least` on that holds, if those above hold too: doubling, then halving."""
    low, high = least - 1, least
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def multisets(V: int, n: int) -> Ints:
    """All `C(V + n − 1, n)` non-decreasing rows of `n` numbers below `V`, in lexicographic order `(S, n)`.

    Rows that begin with `a` go on with the non-decreasing rows of `n − 1` numbers from `a` on, which are the last
    ones of the shorter list: so each column is made by repeating the one before and counting up.
    """
    rows = np.arange(V)[:, None]
    for _ in range(n - 1):
        count = len(rows) - np.searchsorted(rows[:, 0], np.arange(V))  # shorter rows that begin with a or more
        ends = np.cumsum(count)
        first = np.repeat(np.arange(V), count)
        tail = np.arange(ends[-1]) + np.repeat(len(rows) - ends, count)
        rows = np.concatenate([first[:, None], rows.take(tail, axis=0)], axis=1)
    return rows


def all_rows(V: int, n: int) -> Ints:
    """All `V^n` rows of `n` numbers below `V`, in lexicographic order."""
    return np.indices((V,) * n).reshape(n, -1).T


def first_in_row(rows: Ints) -> NDArray[np.bool_]:
    """`(S, n)` non-decreasing rows: whether an entry is the first of its value in its row."""
    first = np.ones(rows.shape, dtype=bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=first[:, 1:])
    return first


MOST_KNOTS = 1 << 24
"""Knots up to which a grid is built. Rank 1 in float64 ends near there (bench/where_float64_rank_1_ends.py)."""


def afford(box: Box, cells: int, most_knots: int) -> None:
    """Refuse a grid that is too large, before anything is allocated, and say what would fit."""
    knots, fits = box.knots(cells), box.most_cells(most_knots)
    if knots > most_knots:
        shape = f"dim={box.dim} and length={box.length}{' with positions' if box.positions else ''}"
        size = "room for not even one cell"
        if fits:
            size = f"room for {plural(fits, 'cell')}, {plural(box.knots(fits), 'knot')}"
        what = f"{plural(cells, 'cell')} per coordinate, {shape}: {_short_number(knots)} knots"
        raise DataError(f"{what}; {most_knots:,} are the limit: {size}. {smaller(box)}")


def smaller(box: Box) -> str:
    """Advice, for an error message, on how to need fewer knots."""
    less = "Fewer tokens, fewer coordinates or a larger error need fewer knots"
    return f"{less}, and so does an equivariant function without positions" if box.positions else less


def _short_number(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"10^{math.log10(number):.0f}"
