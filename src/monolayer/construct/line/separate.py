"""Lemma: some draw puts all points with different labels further apart than rounding can move them.

In exact arithmetic nearly every draw separates all points (Theorem A); in floats the gaps decide, so draws are
tried until one keeps `SLACK` rounding errors between any two neighbours with different labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monolayer.arrays import Ints, Numbers, beside, found_at, home, least_of, pick
from monolayer.construct.line.draw import Draw, Layout, Tokens, draws
from monolayer.construct.line.points import SLACK, Points, contextual_points, room_between, stretches_of, too_narrow
from monolayer.construct.target import Target

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
    """A draw, its points in order of `z`, and the places `changes` `(R,)` where neighbours have different labels.

    `level` `(m, R + 1)`: the labels of the runs between them; `margin`: the least gap between two runs, in rounding
    errors, None with one run. `collisions` counts neighbours that this draw, the best of all `tried`, left too close,
    in so many `crowds`; `pair` is one of them.
    """

    draw: Draw
    points: Points
    target: Target
    changes: Numbers
    level: Numbers
    margin: float | None
    conflicts: int
    tried: int
    collisions: int = 0
    pair: tuple[int, int] | None = None
    crowds: int = 0

    def measure(self) -> dict[str, Any]:
        """Numbers for the summary: different points, the smallest gap, and the margin at label changes."""
        low, high = self.points.ends()
        return spacing(*apart(self.points), high - low) | {
            "margin": self.margin,
            "temperature": self.draw.temperature,
            "layout": self.draw.layout,
            "draws": self.tried,
            "runs": len(self.changes) + 1,
            "conflicts": self.conflicts,
        }


def apart(points: Points) -> tuple[int, float]:
    """The number of gaps wider than both errors, and the narrowest such gap."""
    count, least = 0, np.inf
    for _, part in points.stretches():
        wide = part.room() > 2.0
        count += int(wide.sum())
        least = min(least, least_of(part.gaps(), wide))
    return count, least


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
            changes, level = target.runs(points.order)
            margin, close = margins(points, changes)
            if len(close) and settle is not None:
                target, conflicts = settle(target, places_of(points, inside(*crowds(points, changes))))
                settle = None
                if conflicts:
                    changes, level = target.runs(points.order)
                    margin, close = margins(points, changes)
            if not len(close):
                return Separated(draw, points, target, changes, level, margin, conflicts, tried)
            count = len(crowds(points, changes)[0])
            if best is None or count < best.crowds:
                one, two = places_of(points, close[0] + np.arange(2)).tolist()
                best = Separated(
                    draw, points, target, changes, level, margin, conflicts, tried, len(close), (one, two), count
                )
            if tokens.alphabet.spaced and hopeless(count, len(points.z), points, points.ends()):
                if tokens.position is None:  # then the other layout is no other: codes of ids are whole numbers in both
                    return replace(best, tried=tried)
                break
    assert best is not None
    return replace(best, tried=tried)


def hopeless(crowds: int, count: int, points: Points, ends: tuple[float, float]) -> bool:
    """Whether no draw of this kind will do for `count` ids' points, of which one puts this many crowds on a line.

    Only the errors of `points` are looked at; `ends` are the least and the largest `z`. What chance makes of points
    spread evenly is made several times over where they are not, as contexts never are; but crowds that are many more
    than that have another reason, which another draw may not have.
    """
    reach = float(ends[1] - ends[0])
    narrow = SLACK * float(points.error(np.array(ends)).max())
    by_chance = count**2 * narrow / reach if reach > 0 else 0.0
    return crowds > HOPELESS and UNEVEN * by_chance > HOPELESS


def places_of(points: Points, which: Ints) -> Ints:
    """The labelled places of some points, by their numbers on the line."""
    return home(pick(points.order, beside(which, points.order)))


def margins(points: Points, changes: Numbers) -> tuple[float | None, Ints]:
    """The least gap at a label change, in rounding errors, and the changes whose gap is too narrow."""
    if len(changes) == 0:
        return None, home(changes)
    least, close = np.inf, []
    for part in stretches_of(len(changes), changes):
        here = changes[part]
        room = room_between(points, pick(points.z, here), pick(points.z, here + 1))
        worst = float(room.min())
        least = min(least, worst)
        if not worst >= SLACK:
            close.append(home(here[too_narrow(room)]))
    return least, np.concatenate(close) if close else np.zeros(0, np.int64)


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
