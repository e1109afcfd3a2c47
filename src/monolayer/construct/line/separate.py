"""Lemma: some draw puts all points with different labels further apart than rounding can move them.

In exact arithmetic nearly every draw separates all points (Theorem A); in floats the gaps decide, so draws are
tried until one keeps `SLACK` rounding errors between any two neighbours with different labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Ints, Numbers, beside, count_true, found_at, home, least_of, pick
from monolayer.construct.line.draw import Draw, Layout, Tokens, draws
from monolayer.construct.line.points import SLACK, Points, contextual_points, too_narrow
from monolayer.construct.target import Runs, Target

DRAWS = 4
"""Draws of directions and temperature that are measured, for each layout."""
HOPELESS = 4
"""Crowds of ids' points, and pairs expected of points at random, from which no other draw of a layout is tried.

Where chance alone puts so many pairs together, a draw with none is no likelier than about e^−4, and a further value of
the head costs less than to look for it.
"""
UNEVEN = 4
"""How many times as many crowds as points spread evenly would make are still put down to chance."""

Settle = Callable[[Target, Ints], tuple[Target, int]]
"""The target without contradictions, and how many labels were overruled; they are among these labelled places."""


@dataclass(frozen=True, eq=False)
class Separated:
    """A draw, its points in order of `z`, their runs of equal labels, and the gaps between these.

    This draw, the best of all `tried`, may leave neighbours with different labels too close, in so many `crowds`;
    `pair` is one of them.
    """

    draw: Draw
    points: Points
    target: Target
    runs: Runs
    margin: Margins
    conflicts: int
    tried: int
    pair: tuple[int, int] | None = None
    crowds: int = 0

    def measure(self) -> dict[str, Any]:
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
    wide = points.room > 2.0
    return count_true(wide), least_of(points.gaps(), wide)


def spacing(gaps: int, least: float, reach: float) -> dict[str, Any]:
    """What a summary says of points that have so many gaps between them and lie on a stretch of this length."""
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
    conflicts = tried = 0
    some = tokens.sample()
    best: Separated | None = None
    layouts: tuple[Layout, ...] = ("cells", "mixed") if given is None else (given.layout,)
    for layout in layouts:
        for draw in draws(some, layout, DRAWS, seed, measured=measured) if given is None else [given]:
            tried += 1
            points = contextual_points(draw, tokens, target)
            runs = target.runs(points.order)
            margin = margins(points, runs.changes)
            if len(margin.close) and settle is not None:
                target, conflicts = settle(target, places_of(points, inside(*crowds(points, runs.changes))))
                settle = None
                if conflicts:
                    runs = target.runs(points.order)
                    margin = margins(points, runs.changes)
            if not len(margin.close):
                return Separated(draw, points, target, runs, margin, conflicts, tried)
            count = len(crowds(points, runs.changes)[0])
            if best is None or count < best.crowds:
                one, two = places_of(points, margin.close[0] + np.arange(2)).tolist()
                best = Separated(draw, points, target, runs, margin, conflicts, tried, (one, two), count)
            if tokens.alphabet.spaced and hopeless(count, len(points.z), points, points.ends()):
                if tokens.position is None:  # then the other layout is no other: codes of ids are whole numbers in both
                    return replace(best, tried=tried)
                break
    assert best is not None
    return replace(best, tried=tried)


def hopeless(crowds: int, count: int, points: Points, ends: tuple[float, float]) -> bool:
    """Whether no draw of this kind will do for `count` ids' points, of which one puts this many crowds on a line.

    Crowds that are many more than chance makes have another reason, which another draw may not have.
    """
    return crowds > HOPELESS and crowded_by_chance(count, points, ends)


def crowded_by_chance(count: int, points: Points, ends: tuple[float, float]) -> bool:
    """Whether chance alone puts some of `count` ids' points with these errors too close, whatever the draw.

    Only the errors of `points` are looked at; `ends` are the least and the largest `z`. What chance makes of points
    spread evenly is made several times over where they are not, as contexts never are.
    """
    reach = float(ends[1] - ends[0])
    narrow = SLACK * float(points.error(np.array(ends)).max())
    by_chance = count**2 * narrow / reach if reach > 0 else 0.0
    return UNEVEN * by_chance > HOPELESS


def places_of(points: Points, which: Ints) -> Ints:
    """The labelled places of some points, by their numbers on the line."""
    return home(pick(points.order, beside(which, points.order)))


class Margins(NamedTuple):
    """The least gap at a label change, in rounding errors, None without any; and the changes too close for a step."""

    least: float | None
    close: Ints


def margins(points: Points, changes: Numbers) -> Margins:
    """The gaps behind these places."""
    if len(changes) == 0:
        return Margins(None, home(changes))
    room = pick(points.room, changes)
    least = float(room.min())
    return Margins(least, np.zeros(0, np.int64) if least >= SLACK else home(changes[too_narrow(room)]))


def crowds(points: Points, changes: Numbers) -> tuple[Ints, Ints]:
    """Where points with different labels are too close: the first of each crowd `(J,)`, and the one after its last.

    A crowd is a longest stretch of neighbours none of which are far enough apart for a step; all its points have one
    label, and it is no crowd, or some do not.
    """
    begin, end = stretches(points.tight)
    mixed = found_at(changes, begin) < found_at(changes, end - 1)
    return begin[mixed], end[mixed]


def stretches(gap: Ints) -> tuple[Ints, Ints]:
    """Narrow gaps, each the place before it, as stretches: the first place of each, and the one after its last."""
    first = np.flatnonzero(np.diff(gap, prepend=-2) > 1)
    return gap[first], np.append(gap[first[1:] - 1], gap[-1:]) + 2


def inside(begin: Ints, end: Ints) -> Ints:
    """The numbers from `begin` to before `end` of every stretch `(J,)`, one after the other."""
    size = end - begin
    numbers: Ints = np.arange(int(size.sum())) + np.repeat(begin - (np.cumsum(size) - size), size)
    return numbers
