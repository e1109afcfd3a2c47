"""Stages: where points with different labels are too close on one line, the next line tells them apart.

    stage 1   z = t + κ c₁          ──●──●────●●○●──────○──●──       a crowd: no step fits between its points
    stretches                          0      │ 1  │    2            its stretch has a number of its own …
    stage 2   z = number + c₂/4     ──[0]──●────●──○────●──[2]──     … where another mean of the same softmax spreads it

The first line is cut into stretches, each a crowd or whatever lies between two crowds, and they are numbered from left
to right. A stage writes the label of every point outside crowds, and something in its place inside; the next stage
reads `number + c/4`. As `|c| ≤ 1`, stretches stay apart there: in that of a crowd, steps add what is missing of the
labels; in all others nothing is missing, and no step stands in `[number − 1/4, number + 1/4]`. What is still too close
is a crowd again. Classes and numbers are whole, so all sums are exact; of real labels all but one stage write 0.

Letters: `Q` points in crowds, `m` label coordinates, `R` steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monolayer.arrays import (
    Array,
    Floats,
    Ints,
    Numbers,
    beside,
    float64,
    found_at,
    joined,
    nowhere,
    pick,
    places,
    rising_at,
    whole_numbers,
)
from monolayer.construct.line.points import Points, ramps_at
from monolayer.construct.line.separate import crowds, inside, margins
from monolayer.errors import PrecisionError
from monolayer.kernels import passes

KAPPA = 0.25
"""`κ` of every stage behind the first: means lie in [−1, 1], so stretches, whole numbers apart, stay 1/2 apart."""


@dataclass(frozen=True, eq=False)
class CutLine:
    """A line cut into stretches.

    `steps` `(R,)`: the gaps that get a step. `bounds`: the first point of every stretch but the first. `begin`, `end`
    `(J,)`: the first point of each crowd, and the one after its last. Stretches and crowds are few, so these are arrays
    even where the points lie on a device.
    """

    steps: Numbers
    bounds: Ints
    begin: Ints
    end: Ints

    @property
    def first(self) -> Numbers:
        """The first point of each plateau between steps `(R + 1,)`."""
        return joined([whole_numbers(1, self.steps), self.steps + 1])

    @cached_property
    def _plateaus(self) -> tuple[Ints, Ints]:
        before = found_at(self.steps, np.append(self.begin, self.bounds) - 1)
        crowd, bound = np.split(before, [len(self.begin)])
        return crowd + (self.begin > 0), bound + 1

    @property
    def plateau(self) -> Ints:
        """The plateau that each crowd stands on `(J,)`."""
        return self._plateaus[0]

    @property
    def bound_plateaus(self) -> Ints:
        """The plateau with which every stretch but the first begins."""
        return self._plateaus[1]

    @property
    def ends(self) -> tuple[int, int]:
        """The numbers of the first and the last stretch. Half are negative: smaller numbers round less."""
        least = -((len(self.bounds) + 1) // 2)
        return least, least + len(self.bounds)

    @property
    def number(self) -> Numbers:
        """The number of the stretch that each plateau belongs to `(R + 1,)`."""
        return rising_at(self.bound_plateaus, len(self.steps) + 1, self.steps) + self.ends[0]

    @property
    def held(self) -> Ints:
        """The points in crowds `(Q,)`, by their places on the line."""
        return inside(self.begin, self.end)

    @property
    def crowd_stretch(self) -> Ints:
        """The number of the stretch of each crowd `(J,)`."""
        return self.ends[0] + np.searchsorted(self.bounds, self.begin, side="right")

    @property
    def stretch(self) -> Ints:
        """The number of the stretch of each point in a crowd `(Q,)`."""
        return np.repeat(self.crowd_stretch, self.end - self.begin)


@dataclass(frozen=True, eq=False)
class ShortLevels:
    """What a stage of classes writes between its steps, in short numbers, where there are many of them on a GPU.

    `label` `(R + 1,)`: class numbers. `begin`: the plateaus with which stretches but the first begin, and `ends`, the
    numbers of the first and the last stretch; None: the last stage, which writes only the label.
    """

    label: Numbers
    begin: Ints | None = None
    ends: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, number: Numbers, steps: Numbers) -> ShortLevels | None:
        """The levels of points whose class numbers are `number` `(P,)`; None where there are few, or on a processor."""
        return cls(joined([number[:1], pick(number[1:], steps)])) if passes(steps) else None

    @property
    def whole(self) -> Numbers:
        """The same as other levels are `(m, R + 1)`."""
        label = float64(self.label)
        if self.begin is None:
            return label[None]
        return joined([label[None], (rising_at(self.begin, len(label), label) + self.ends[0])[None]])

    def falls(self) -> tuple[Numbers, Floats, float]:
        """Each level less the next `(m, R)`, the last level `(m,)`, and a bound on `Σ |Δ|` and the largest level."""
        fall, low, high = passes(self.label).falls(self.label, self.begin)
        most, last = len(self.label) * (high - low) + high, [float(self.label[-1])]
        if self.begin is not None:
            most, last = max(most, len(self.begin) + max(map(abs, self.ends))), [*last, float(self.ends[1])]
        return fall, np.array(last), most


@dataclass(frozen=True, eq=False)
class StageArrays:
    """One stage of the readout as arrays.

    `slope`, `start` `(R,)`: its ramps. `level` `(m + 1, R + 1)`: what it writes between them, the label and the number
    of the stretch; the last stage writes only the label, `(m, R + 1)`. `margin`: the least gap that has a step, in
    rounding errors. `crowds`: how many crowds it leaves to the next stage.
    """

    slope: Numbers
    start: Numbers
    level: Numbers | ShortLevels
    margin: float | None
    crowds: int


def cut_line(points: Points, changes: Numbers) -> CutLine:
    """Cut a line into stretches. `changes` `(R',)`: the points whose label differs from that of the next point."""
    begin, end = crowds(points, changes)  # of each crowd
    bounds = np.union1d(begin, end)
    bounds = bounds[(bounds > 0) & (bounds < len(points.z))]
    step = nowhere(len(points.z), changes)
    step[changes] = True
    step[beside(inside(begin, end - 1), changes)] = False
    step[beside(bounds - 1, changes)] = True
    return CutLine(places(step), bounds, begin, end)


def least_label(part: CutLine, label: Array) -> Array:
    """The least label in each crowd `(…, J)`, from the labels `(…, Q)` of all points in crowds.

    The least one, since it does not depend on the order of equal points.
    """
    size = part.end - part.begin
    least: Array = np.minimum.reduceat(label, np.cumsum(size) - size, axis=-1) if len(size) else label[..., :0]
    return least


def stage(points: Points, part: CutLine, level: Numbers | ShortLevels) -> StageArrays:
    """The stage of the cut line `part`; `level` `(m, R + 1)` is what it adds to the label on each plateau."""
    slope, start = ramps_at(points.z, part.steps)
    if len(part.begin) and isinstance(level, ShortLevels):
        level = replace(level, begin=part.bound_plateaus, ends=part.ends)
    elif len(part.begin):
        level = joined([level, part.number[None]])
    return StageArrays(slope, start, level, margins(points, part.steps).least, len(part.begin))


@dataclass(frozen=True, eq=False)
class Contested:
    """The points `(Q,)` in crowds of one stage, which the next stage must tell apart.

    `stretch` `(Q,)`: the number of each point's stretch. `missing` `(m, Q)`: what the stages so far have not written of
    its label. `ends`: the numbers of the first and the last stretch of that stage, crowd or not.
    """

    stretch: Ints
    missing: Floats
    ends: tuple[int, int]


class FurtherStages(NamedTuple):
    """The stages behind the first; `left`: which of the contested points are still in crowds after the last one."""

    stages: list[StageArrays]
    left: Ints


def further(
    contested: Contested,
    context: Callable[[int, Ints], Floats],
    *,
    error: float,
    unit: float,
    whole: bool,
    most: int,
) -> FurtherStages:
    """Build the stages behind the first from its contested points alone, until every label is told apart.

    `context(j, which)` gives the mean `c_j` in [−1, 1] that stage `j` reads, at the contested points `which`; it is
    wrong by at most `error`. `unit`: unit roundoff of the format. `whole`: labels are classes, so whole numbers.
    `most`: the last stage that may be built.
    """
    stages: list[StageArrays] = []
    which = np.arange(len(contested.stretch))
    for number in range(2, most + 1):
        z = contested.stretch + KAPPA * context(number, which)
        # Points outside crowds may lie anywhere in their stretch, and nothing is missing of their labels.
        lowest, highest = contested.ends
        rest = np.setdiff1d(np.arange(lowest, highest + 1), contested.stretch)
        line = np.concatenate([z, rest - KAPPA, rest + KAPPA])
        nothing = np.zeros((len(contested.missing), 2 * len(rest)))
        lacks = np.concatenate([contested.missing, nothing], axis=1)
        order = np.argsort(line, kind="stable")
        points = Points(line[order], order, KAPPA, KAPPA * error, unit)
        lacks = lacks[:, order]
        changes = np.flatnonzero((lacks[:, 1:] != lacks[:, :-1]).any(axis=0))
        part = cut_line(points, changes)
        in_crowds = order[part.held]
        if (in_crowds >= len(which)).any():
            raise PrecisionError(
                f"{highest - lowest + 1:,} stretches of points that lie too close, and of those between "
                f"them, are more than whole numbers of a format with unit roundoff {unit:.3g} keep apart"
            )
        level = lacks[:, part.first]
        level[:, part.plateau] = least_label(part, lacks[:, part.held]) if whole else 0.0
        stages.append(stage(points, part, level))
        if len(in_crowds) == 0:
            return FurtherStages(stages, in_crowds)
        written = np.repeat(level[:, part.plateau], part.end - part.begin, axis=1)
        which = which[in_crowds]
        contested = Contested(part.stretch, contested.missing[:, in_crowds] - written, part.ends)
    return FurtherStages(stages, which)
