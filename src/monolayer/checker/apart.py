"""Code and context apart (Lemma 15): every cell has steps of its own, and its gate silences them everywhere else.

Notation: `A` cells with whole codes `t_a`, rising; `H` steps, cell by cell. A code is a whole number too, so the gate
of its own cell is exactly 1 and all others are exactly 0. A step whose gate is 0 writes 0, on its ramp as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monolayer.checker.readout import Bools, check_sizes, thresholds, whole_sums
from monolayer.checker.rounding import Floats, UnhandledError
from monolayer.checker.stored import Stored
from monolayer.data.names import Ints

LARGEST = 2.0**22
"""Codes up to this are whole numbers of binary32 whose differences are too; and more than enough cells."""
LARGEST_64 = 2.0**50


@dataclass(frozen=True, eq=False)
class CellStairs:
    """Steps `low`, `high` `(H,)` of cells `offset` `(A + 1,)`; `level` `(H + A + 1,)`, that of a cell with `i` passed.

    `own` `(M,)`: the cell of each point that is asked about; `A` for a code that no gate has, and then the level is the
    last one.
    """

    code: Floats
    offset: Ints
    low: Floats
    high: Floats
    level: Floats
    own: Ints

    slope = None

    def cell(self, code: Floats) -> Ints:
        """The cell of each code `(M,)`, `A` where no gate has it."""
        place = np.searchsorted(self.code, code)
        near = np.minimum(place, len(self.code) - 1)
        return np.where(self.code[near] == code, near, len(self.code))

    def _ends(self) -> tuple[Ints, Ints]:
        """The first step of each point's cell, and the one after its last."""
        offset = np.append(self.offset, self.offset[-1])  # no steps where there is no gate
        return offset[self.own], offset[self.own + 1]

    def passed(self, lowest: Floats, highest: Floats) -> tuple[Ints, Bools]:
        """How many steps lie before `highest`, or in cells before; and whether none switches from `lowest` on.

        Lemma 7 inside a cell: `low` and `high` both rise there.
        """
        first, last = self._ends()
        begin, end = first.copy(), last.copy()
        while (searching := begin < end).any():
            middle = (begin + end) // 2
            before = searching & (self.low[np.minimum(middle, max(len(self.low) - 1, 0))] < highest)
            begin, end = np.where(before, middle + 1, begin), np.where(searching & ~before, middle, end)
        left = np.where(begin > first, np.append(self.high, -np.inf)[begin - 1], -np.inf)
        return begin, left <= lowest

    def room(self, z: Floats, i: Ints) -> Floats:
        """Distance from `z` to the nearest threshold of its cell on either side."""
        first, last = self._ends()
        below = np.where(i > first, np.append(self.high, -np.inf)[i - 1], -np.inf)
        above = np.where(i < last, np.append(self.low, np.inf)[np.minimum(i, len(self.low))], np.inf)
        distance: Floats = np.minimum(above - z, z - below)
        return distance

    def labels(self, z: Floats, radius: Floats, i: Ints) -> tuple[Floats, Floats]:
        """Label coordinates `(1, M)`, exact."""
        known = self.own < len(self.code)
        return self.level[np.where(known, i + self.own, -1)][None], np.zeros((1, 1))


def read_cells_apart(stored: Stored) -> CellStairs:
    """The stored readout, if it is as Lemma 15 wants it."""
    w, b, weight_2, bias_2, gate, base, count = (
        stored[f"feed_forward.{name}"] for name in ("weight_1", "bias_1", "weight_2", "bias_2", "gate", "base", "count")
    )
    largest = LARGEST_64 if stored.format.unit < 2.0**-50 else LARGEST
    if not ((np.abs(gate) <= largest) & (gate % 1.0 == 0.0)).all() or not (gate[1:] > gate[:-1]).all():
        raise UnhandledError(f"feed_forward.gate must hold whole numbers up to {largest:,.0f}, in order")
    code = np.append(np.append(stored["lift.weight"][:, 2], stored["bos"][2]), 0.0)
    if stored.config["positions"]:
        code = np.append(code, stored["positions.weight"][:, 2])
    if not ((np.abs(code) <= largest / 2) & (code % 1.0 == 0.0) | np.isnan(code)).all():
        raise UnhandledError(f"codes of tokens and positions must be whole numbers up to {largest / 2:,.0f}")
    check_sizes(w, True, stored.format, "feed_forward.weight_1")
    for name, values in (("bias_1", b), ("weight_2", weight_2), ("bias_2", bias_2), ("base", base)):
        check_sizes(values, False, stored.format, f"feed_forward.{name}")
    offset = np.append(0, np.cumsum(count.astype(np.int64)))
    cell = np.repeat(np.arange(len(gate)), np.diff(offset))
    low, high = thresholds(w, b, True)
    same = cell[1:] == cell[:-1]
    if not ((w > 0).all() and (low[1:] >= low[:-1])[same].all() and (high[1:] >= high[:-1])[same].all()):
        raise UnhandledError("the steps of a cell must rise, and stand in order")
    numbers = np.concatenate([weight_2, bias_2[:, None], base[None]], axis=1).astype(np.float64)
    if not whole_sums(numbers[:, :-1], numbers[:, -1:], stored.format):
        raise UnhandledError("labels and their jumps must add up without rounding")
    # Before the jumps of a cell stands its base, relative to where the last cell ended.
    jumps = np.zeros(len(w) + len(gate))
    jumps[np.arange(len(w)) + cell + 1] = weight_2[0].astype(np.float64)
    first = offset[:-1] + np.arange(len(gate))
    total = np.cumsum(jumps)
    own = np.repeat(np.arange(len(gate)), np.diff(offset) + 1)
    level = total - total[first][own] + base.astype(np.float64)[own] + float(bias_2[0])
    return CellStairs(
        gate.astype(np.float64), offset, low, high, np.append(level, float(bias_2[0])), np.zeros(0, np.int64)
    )
