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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import (
    Floats,
    Ints,
    Numbers,
    beside,
    found_at,
    joined,
    nowhere,
    places,
    rising_at,
    whole_numbers,
)
from monolayer.construct.line.points import Points, ramps_at
from monolayer.construct.line.separate import crowds, inside, margins
from monolayer.errors import PrecisionError

KAPPA = 0.25
"""`κ` of every stage behind the first: means lie in [−1, 1], so stretches, whole numbers apart, stay 1/2 apart."""


@dataclass(frozen=True, eq=False)
class CutLine:
    """A line in stretches. `steps` `(R,)`: gaps that get a step; `first` `(R + 1,)`: the first point of each plateau.

    `bounds`: the first point of every stretch but the first. `begin`, `end` `(J,)`: points of the crowds, and `plateau`
    `(J,)`, those that they stand on. Stretches and crowds are few: they are arrays, wherever the points lie.
    """

    steps: Numbers
    first: Numbers
    bounds: Ints
    begin: Ints
    end: Ints
    plateau: Ints

    @property
    def ends(self) -> tuple[int, int]:
        """The numbers of the first and the last stretch: half are negative, since the smaller, the less they round."""
        least = -((len(self.bounds) + 1) // 2)
        return least, least + len(self.bounds)

    @property
    def number(self) -> Numbers:
        """The stretch of each plateau `(R + 1,)`."""
        return rising_at(found_at(self.first, self.bounds), len(self.first), self.first) + self.ends[0]

    @property
    def held(self) -> Ints:
        """Points in crowds `(Q,)`, places on the line."""
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
class StageArrays:
    """Ramps `(R,)`, and what is written between them `(m + 1, R + 1)`: labels and stretches; the last: `(m, R + 1)`.

    `margin`: least gap that has a step, in rounding errors; `crowds`: how many stretches are left to the next stage.
    """

    slope: Numbers
    start: Numbers
    level: Numbers
    margin: float | None
    crowds: int


def cut(points: Points, changes: Numbers) -> CutLine:
    """The line in stretches; `changes` `(R',)`: the places whose label differs from that of the next."""
    begin, end = crowds(points, changes)
    bounds = np.union1d(begin, end)
    bounds = bounds[(bounds > 0) & (bounds < len(points.z))]
    step = nowhere(len(points.z), changes)
    step[changes] = True
    step[beside(inside(begin, end - 1), changes)] = False
    step[beside(bounds - 1, changes)] = True
    steps = places(step)
    first = joined([whole_numbers(1, steps), steps + 1])
    return CutLine(steps, first, bounds, begin, end, found_at(first, begin))


def least_label(part: CutLine, label: NDArray[Any]) -> NDArray[Any]:
    """The least label of each crowd `(…, J)`, of the labels of all points in crowds `(…, Q)`.

    It does not depend on the order of equal points.
    """
    size = part.end - part.begin
    least: NDArray[Any] = np.minimum.reduceat(label, np.cumsum(size) - size, axis=-1) if len(size) else label[..., :0]
    return least


def stage(points: Points, part: CutLine, level: Numbers) -> StageArrays:
    """The stage of a line that is cut: `level` `(m, R + 1)` is what it writes onto the label."""
    slope, start = ramps_at(points.z, part.steps)
    if len(part.begin):
        level = joined([level, part.number[None]])
    return StageArrays(slope, start, level, margins(points, part.steps).least, len(part.begin))


def further(
    stretch: Ints,
    missing: Floats,
    stretches: tuple[int, int],
    context: Callable[[int, Ints], Floats],
    error: float,
    unit: float,
    whole: bool,
    most: int,
) -> tuple[list[StageArrays], Ints]:
    """The stages behind the first, from the points in its crowds alone; and which points `(…,)` are left in the end.

    `stretch` `(Q,)` is the number of each point's crowd, `missing` `(m, Q)` what the stages before have not written of
    its label, `stretches` the first and the last number that there are. `context(j, which)` gives `c_j` in [−1, 1] of
    some of the points, wrong by at most `error`; the format has unit roundoff `unit`. `whole`: labels are
    classes. `most`: the last stage that may be built. No points are left if they could all be told apart.
    """
    found: list[StageArrays] = []
    which = np.arange(len(stretch))
    for number in range(2, most + 1):
        z = stretch + KAPPA * context(number, which)
        # Whatever is no crowd may lie anywhere in its stretch, and nothing is missing there.
        rest = np.setdiff1d(np.arange(stretches[0], stretches[1] + 1), stretch)
        line = np.concatenate([z, rest - KAPPA, rest + KAPPA])
        lacks = np.concatenate([missing, np.zeros((len(missing), 2 * len(rest)))], axis=1)
        order = np.argsort(line, kind="stable")
        points = Points(line[order], order, KAPPA, KAPPA * error, unit)
        lacks = lacks[:, order]
        changes = np.flatnonzero((lacks[:, 1:] != lacks[:, :-1]).any(axis=0))
        part = cut(points, changes)
        held = order[part.held]
        if (held >= len(which)).any():
            raise PrecisionError(
                f"{stretches[1] - stretches[0] + 1:,} stretches of points that lie too close, and of those between "
                f"them, are more than whole numbers of a format with unit roundoff {unit:.3g} keep apart"
            )
        level = lacks[:, part.first]
        level[:, part.plateau] = least_label(part, lacks[:, part.held]) if whole else 0.0
        found.append(stage(points, part, level))
        if len(held) == 0:
            return found, held
        written = np.repeat(level[:, part.plateau], part.end - part.begin, axis=1)
        missing = missing[:, held] - written
        which, stretch, stretches = which[held], part.stretch, part.ends
    return found, which
