"""The readout as a list of steps that can be looked up and replaced: what an edit touches, and nothing else.

Notation: `R` steps with slope `w` and start `a`; local points in order of `z`, in clusters that have nothing to do
with each other. A cluster stands between two points that stay, `l` and `r`; all steps between these are replaced.

    l ───┐     ┌── p ──┐     ┌─── r         old steps [first, last) of the cluster go, those that the new labels of
         └─────┘       └─────┘              l, p, …, r need come
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from monolayer.construct.line.points import BLOCK
from monolayer.construct.line.ramps import ramps
from monolayer.data.names import Ints
from monolayer.editing.splice import Splice
from monolayer.model.staircase import Staircase

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_FEW = 256
"""Runs up to which their labels are added up piece by piece, rather than all of them in one pass."""


@dataclass(frozen=True, eq=False)
class Table:
    """The stored readout, of float64 no copy: `weight_1`, `bias_1` `(R,)`, `weight_2` `(m, R)` or `(m, R + 1)`."""

    readout: str
    weight_1: Floats
    bias_1: Floats
    weight_2: Floats
    bias_2: Floats

    @classmethod
    def of(cls, block: Staircase) -> Table:
        parts = (block.weight_1, block.bias_1, block.weight_2, block.bias_2)
        return cls(block.readout, *(part.detach().double().numpy() for part in parts))

    def local(self, classes: bool) -> bool:
        """Whether a change of one step leaves every sum elsewhere as it is, bit for bit; `classes`: labels are such."""
        return self.readout == "runs" or (self.readout == "exact" and classes)

    def rising(self) -> bool:
        """Whether the steps rise one after the other, as a search among them needs; a block at a time, in cache."""
        last = -np.inf
        for first in range(0, len(self.weight_1), BLOCK):
            slope, bias = self.weight_1[first : first + BLOCK], self.bias_1[first : first + BLOCK]
            if not (slope > 0.0).all():
                return False
            width = 1.0 / slope
            start = -bias * width  # exact: slopes are powers of two, else the check below is stricter by a rounding
            end = start + width
            if not (last <= start[0] and (start < end).all() and (end[:-1] <= start[1:]).all()):
                return False
            last = float(end[-1])
        return True

    def starts(self, step: Ints) -> Floats:
        """`a` of steps."""
        start: Floats = -self.bias_1[step] / self.weight_1[step]
        return start

    def ends(self, step: Ints) -> Floats:
        """`a + 1/w` of steps."""
        end: Floats = self.starts(step) + 1.0 / self.weight_1[step]
        return end

    def before(self, z: Floats, *, strictly: bool) -> Ints:
        """How many steps start at `z` `(K,)` or left of it; `strictly`: left of it. By bisection: no pass over all."""
        low, high = np.zeros(len(z), np.int64), np.full(len(z), len(self.weight_1))
        while (low < high).any():
            middle = np.minimum((low + high) // 2, len(self.weight_1) - 1)
            start = self.starts(middle)
            left = (start < z if strictly else start <= z) & (low < high)
            low, high = np.where(left, middle + 1, low), np.where(left, high, np.minimum(middle, high))
        return low

    def levels(self, run: Ints) -> Floats:
        """Labels `(K, m)` of runs `(K,)`; run `i` lies behind `i` steps."""
        if self.readout == "runs":
            return (self.weight_2[:, run] + self.bias_2[:, None]).T
        # At run i the steps from i on are not passed, and theirs are the weights that are added up.
        found, where = np.unique(run, return_inverse=True)
        cuts = np.append(found, self.weight_2.shape[1])
        if len(found) > _FEW:
            suffix = np.cumsum(self.weight_2[:, ::-1], axis=1)[:, ::-1]
            part = np.concatenate([suffix, np.zeros((len(self.bias_2), 1))], axis=1)[:, found]
        else:
            pieces = [self.weight_2[:, a:b].sum(axis=1) for a, b in pairwise(cuts.tolist())]
            part = np.cumsum(np.array(pieces).reshape(len(found), -1)[::-1], axis=0)[::-1].T
        level: Floats = (part + self.bias_2[:, None]).T[where]
        return level

    def read(self, z: Floats) -> tuple[Floats, Floats, Bools]:
        """Labels left and right of `z` `(K, m)` where it lies on a ramp, else both its own; and whether it does."""
        passed = self.before(z, strictly=True)
        ramp = np.zeros(len(z), dtype=bool)
        inside = passed > 0
        ramp[inside] = self.ends(passed[inside] - 1) > z[inside]
        both = self.levels(np.concatenate([passed - ramp, passed]))
        return both[: len(z)], both[len(z) :], ramp


@dataclass(frozen=True, eq=False)
class Local:
    """Points `(Q,)` in order, their labels `level` `(Q, m)` and clusters `(Q,)`; steps `[first, last)` `(C,)` to go.

    `slope`, `bias` `(Q,)`: the ramp behind a point where it is given, else NaN. The first or the last point of a
    cluster at an end of the line is the first or the last of all.
    """

    z: Floats
    level: Floats
    cluster: Ints
    first: Ints
    last: Ints
    open_left: Bools
    open_right: Bools
    slope: Floats
    bias: Floats

    def changes(self) -> Ints:
        """Points `(n,)` whose label differs from that of the next one in their cluster."""
        differ = (self.level[1:] != self.level[:-1]).any(axis=1) & (self.cluster[1:] == self.cluster[:-1])
        return np.flatnonzero(differ)

    def splices(self, table: Table) -> Iterator[Splice]:
        """What becomes of the readout."""
        change = self.changes()
        slope, start = ramps(self.z[change], self.z[change + 1])
        bias = -slope * start
        given = ~np.isnan(self.slope[change])
        slope[given], bias[given] = self.slope[change][given], self.bias[change][given]
        count, taken = np.bincount(self.cluster[change], minlength=len(self.first)), self.last - self.first
        blocks = [("weight_1", 0, self.first, taken, count, slope), ("bias_1", 0, self.first, taken, count, bias)]
        ends = self._ends(table)
        if table.readout == "runs":
            at, less = np.where(self.open_left, self.first, self.first + 1), self.open_left.astype(np.int64)
            # The run left of all steps has a label of its own, which goes with the cluster at that end.
            opening = self._opening()
            rank = np.concatenate([self.cluster[opening] * 2, self.cluster[change] * 2 + 1])
            which = np.concatenate([opening, change + 1])[np.argsort(rank, kind="stable")]
            blocks.append(("weight_2", 1, at, taken + less, count + less, self.level[which]))
        else:
            blocks.append(("weight_2", 1, self.first, taken, count, self.level[change] - self.level[change + 1]))
            if ends is not None:
                one = np.array([0]), np.array([len(ends)]), np.array([len(ends)])
                blocks.append(("bias_2", 0, *one, ends))
        for name, axis, at, old, new, after in blocks:
            found = Splice.of(f"feed_forward.{name}", axis, getattr(table, name), at, old, new, after)
            if found is not None:
                yield found

    def _opening(self) -> Ints:
        """The first point of the cluster at the left end, if there is one."""
        return np.array([int(np.argmax(self.open_left[self.cluster]))] if self.open_left.any() else [], dtype=np.int64)

    def _ends(self, table: Table) -> Floats | None:
        """The label right of all steps, if it may change."""
        if not self.open_right.any():
            return None
        last: Floats = self.level[np.flatnonzero(self.open_right[self.cluster])[-1]]
        return last
