"""Lemma: some draw puts all points with different labels further apart than rounding can move them.

In exact arithmetic nearly every draw separates all points (Theorem A); in floats the gaps decide, so draws are
tried until one keeps `SLACK` rounding errors between any two neighbours with different labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Ints, Numbers, count_true, fetched, found_at, home, least_of, pick, stretches_of
from monolayer.construct.line.draw import CodeLayout, Draw
from monolayer.construct.line.encoded import Encoded, draws
from monolayer.construct.line.points import SLACK, Points, contextual_points, too_narrow
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.target import Runs, Target
from monolayer.data.objects import JsonObject
from monolayer.kernels import passes

DRAWS = 4
"""How many draws of directions and temperature are measured for each layout."""
HOPELESS = 4
"""From so many crowds on, found and also expected by chance, no other draw of a layout is tried. For ids only.

Where chance alone puts so many pairs together, a draw without any has a probability of about e^−4 at most. Another
value of the head costs less than the search for such a draw.
"""
UNEVEN = 4
"""Crowds up to this many times those of evenly spread points are still attributed to chance."""

Settle = Callable[[Target, Ints], tuple[Target, int]]
"""Settles contradictions among some labelled places: returns the target without them, and how many were overruled."""


@dataclass(frozen=True, eq=False)
class Separated:
    """Points in order of `z`, their runs of equal labels, and the margins between these.

    `tried`: how many draws were tried. Where none of them kept all neighbours with different labels apart, this is the
    one that leaves the fewest crowds.
    """

    draw: Draw
    points: Points
    target: Target
    runs: Runs
    margin: Margins
    tried: int
    conflicts: int = 0

    @classmethod
    def of(cls, encoded: Encoded, target: Target, tried: int) -> Separated:
        """The labelled places of `target` on the line of this draw."""
        points = contextual_points(encoded, target)
        runs = target.runs(points.order)
        return cls(encoded.draw, points, target, runs, margins(points, runs.changes), tried)

    def settled(self, settle: Settle) -> Separated:
        """The same points once contradictions among those in crowds are settled."""
        target, conflicts = settle(self.target, places_on_line(self.points, inside(*self.crowds)))
        if not conflicts:
            return self
        runs = target.runs(self.points.order)
        margin = margins(self.points, runs.changes)
        return replace(self, target=target, runs=runs, margin=margin, conflicts=conflicts)

    @property
    def apart(self) -> bool:
        """Whether every two neighbours with different labels are far enough apart for a step."""
        return len(self.margin.close) == 0

    @cached_property
    def crowds(self) -> Stretches:
        """The stretches of points that are too close together for a step, though their labels differ."""
        return crowds(self.points, self.runs.changes)

    def colliding(self) -> tuple[int, int]:
        """Two labelled places that are too close, where some are."""
        one, two = places_on_line(self.points, self.margin.close[0] + np.arange(2)).tolist()
        return one, two

    def measure(self) -> JsonObject:
        """Numbers for the summary: different points, the smallest gap, and the margin at label changes."""
        low, high = self.points.ends()
        return spacing(*apart(self.points), high - low) | {
            "margin": self.margin.least,
            "temperature": self.draw.temperature,
            "layout": self.draw.layout,
            "draws": self.tried,
            "runs": len(self.runs.changes) + 1,
            "conflicts": self.conflicts,
        }


def apart(points: Points) -> tuple[int, float]:
    """The number of gaps wider than both errors, and the narrowest such gap."""
    if points.spaced:
        return points.spaced.wide, points.spaced.least
    count, least = 0, np.inf
    for part in stretches_of(len(points.room), points.z):
        wide = points.room[part] > 2.0
        gap = points.z[part.start + 1 : part.stop + 1] - points.z[part]
        count, least = count + count_true(wide), min(least, least_of(gap, wide))
    return count, least


class Gaps(NamedTuple):
    """What `apart` and `margins` say of the points of an array, from one look at each gap."""

    wide: int
    least: float
    margin: float | None
    """The narrowest gap at a label change, in rounding errors; None without changes."""

    @property
    def narrow(self) -> bool:
        """Whether the label changes at some gap that is too narrow for a step."""
        return self.margin is not None and not self.margin >= SLACK


def gaps(points: Points, changes: Bools) -> Gaps:
    """The gaps of points that lie in an array. `changes` `(P − 1,)`: whether the label changes at each gap.

    Quotients, rounded as well, rise with what is divided and fall with the divisor. So no gap of a stretch is less, in
    rounding errors, than its narrowest gap over the error of its ends, which mostly says all there is to know.
    """
    z, count, least, margin = points.z, 0, np.inf, np.inf
    for part in stretches_of(len(changes), z):
        left, right = z[part], z[part.start + 1 : part.stop + 1]
        gap = right - left
        narrowest, error = gap.min(initial=np.inf), points.error_between(left[:1], right[-1:])
        bound = narrowest / error
        if (bound > 2.0).all():  # which a NaN is not
            count, least = count + len(gap), min(least, float(narrowest))
            if not (bound >= margin).all():
                some = np.flatnonzero((gap / error < margin) & changes[part])
                margin = points.room_between(left[some], right[some]).min(initial=margin)
            continue
        room = points.room_between(left, right)
        wide = room > 2.0
        count, least = count + count_true(wide), min(least, least_of(gap, wide))
        margin = np.minimum(margin, room.min(where=changes[part], initial=np.inf))  # which keeps a NaN
    return Gaps(count, least, float(margin) if changes.any() else None)


def spacing(gaps: int, least: float, reach: float) -> JsonObject:
    """What a summary says about the spacing of points: how many `gaps`, the `least` of them, and the `reach` of all."""
    return {"points": gaps + 1, "gap": least / reach if gaps else 1.0, "expected_gap": 1.0 / (gaps + 1) ** 2}


def separate(
    tokens: Tokens,
    target: Target,
    settle: Settle | None,
    seed: int,
    *,
    measured: bool = True,
    given: Draw | None = None,
) -> Separated:
    """The first draw under which no two neighbours with different labels are too close; else the best there was.

    The best-measured draw of the layout `cells` nearly always serves (the first one, if they are not `measured`); then
    come its other draws, then those of the layout `mixed`. `settle` is asked once, when points are first found too
    close: contradictions do not depend on the draw. None: the labels cannot contradict each other. `given`: the one
    draw that may be used.
    """
    tried, conflicts = 0, 0
    some = tokens.sample()
    best: Separated | None = None
    layouts: tuple[CodeLayout, ...] = ("cells", "mixed") if given is None else (given.layout,)
    for layout in layouts:
        for encoded in draws(some, layout, DRAWS, seed, measured=measured) if given is None else [Encoded(given, some)]:
            tried += 1
            line = replace(Separated.of(encoded.over(tokens), target, tried), conflicts=conflicts)
            if settle is not None and not line.apart:
                line, settle = line.settled(settle), None
                target, conflicts = line.target, line.conflicts
            if line.apart:
                return line
            count = len(line.crowds.begin)
            if best is None or count < len(best.crowds.begin):
                best = line
            if tokens.alphabet.spaced and hopeless(count, len(line.points.z), line.points, line.points.ends()):
                if tokens.position is None:  # then the other layout is no other: codes of ids are whole numbers in both
                    return replace(best, tried=tried)
                break
    assert best is not None
    return replace(best, tried=tried)


def hopeless(crowds: int, count: int, points: Points, ends: tuple[float, float]) -> bool:
    """Whether other draws of this layout are not worth trying, after one that left `crowds` crowds of `count` points.

    Where there are many more crowds than chance makes, the cause is not chance, and another draw may not have it.
    """
    return crowds > HOPELESS and crowded_by_chance(count, points, ends)


def crowded_by_chance(count: int, points: Points, ends: tuple[float, float]) -> bool:
    """Whether chance alone puts some of `count` points of ids too close, whatever the draw.

    Only the rounding errors of `points` are read; `ends` are the least and the largest `z`. Contexts are never spread
    evenly, so chance makes several times as many crowds of them as of evenly spread points.
    """
    reach = float(ends[1] - ends[0])
    narrow = SLACK * float(points.error(np.array(ends)).max())
    by_chance = count**2 * narrow / reach if reach > 0 else 0.0
    return UNEVEN * by_chance > HOPELESS


def places_on_line(points: Points, which: Ints) -> Ints:
    """The labelled places of the points `which`, given by their numbers on the line."""
    return fetched(points.order, which)


class Margins(NamedTuple):
    """`least`: the narrowest gap at a label change, in rounding errors; None without changes.

    `close`: the changes whose gap is too narrow for a step.
    """

    least: float | None
    close: Ints


def margins(points: Points, changes: Numbers) -> Margins:
    """The margins at the label changes `changes`, each given by the point before it."""
    if len(changes) == 0:
        return Margins(None, home(changes))
    fused = passes(changes)
    if fused:
        low, tight = fused.least_room(points.z, changes, points.fixed_error, points.unit), points.tight
        first, after = np.split(found_at(changes, np.append(tight, tight + 1)), 2)
        return Margins(low, tight[first < after])
    least = np.inf
    for part in stretches_of(len(changes), points.z):
        least = np.minimum(least, float(pick(points.room, changes[part]).min()))  # which keeps a NaN
    if least >= SLACK:
        return Margins(float(least), np.zeros(0, np.int64))
    return Margins(float(least), home(changes[too_narrow(pick(points.room, changes))]))


class Stretches(NamedTuple):
    """Stretches of neighbouring points: the first point of each `(J,)`, and the one after its last `(J,)`."""

    begin: Ints
    end: Ints


def crowds(points: Points, changes: Numbers) -> Stretches:
    """The crowds: stretches in which points with different labels are too close for a step.

    A crowd is a longest stretch of neighbours with no gap wide enough for a step, and with more than one label.
    `changes`: the points whose label differs from that of the next point.
    """
    begin, end = stretches(points.tight)
    first, after = np.split(found_at(changes, np.append(begin, end - 1)), 2)
    mixed = first < after
    return Stretches(begin[mixed], end[mixed])


def stretches(gap: Ints) -> Stretches:
    """Stretches of points joined by narrow gaps. `gap`: the number of the point before each narrow gap, rising."""
    first = np.flatnonzero(np.diff(gap, prepend=-2) > 1)
    return Stretches(gap[first], np.append(gap[first[1:] - 1], gap[-1:]) + 2)


def inside(begin: Ints, end: Ints) -> Ints:
    """The points of every stretch, one stretch after the other: `begin[j]` up to, not including, `end[j]`."""
    size = end - begin
    numbers: Ints = np.arange(int(size.sum())) + np.repeat(begin - (np.cumsum(size) - size), size)
    return numbers
