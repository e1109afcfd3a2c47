"""One fact against the others of its cell: the widest slab, and which others to let in so that it becomes wide.

The widest slab between a point `z` and points `z_j` is across the shortest vector of the hull of the differences
`z − z_j`. That is a problem of nonnegative least squares,

    minimize |Σ x_j (z − z_j)|² + g² (Σ x_j − 1)²   subject to  x ≥ 0,

whose solution is a multiple of the weights of the shortest vector, whatever `g > 0` is. A few differences carry all of
the weight, so it is solved for the nearest others, and again for those that carry weight and those that lie deepest on
the wrong side, at most `ROUNDS` times: what a fact costs does not grow with its cell but for the look at all others.
Every slab is measured on all of them, so a search that ends early costs width only.

Where a width cannot be had, the difference that weighs most is left out: its fact is *let in*, and has to be overruled
(`cover.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from monolayer.arrays import Floats, Ints
from monolayer.construct.robust.groups import Cells, Found, Group

NEAREST = 48
"""Nearest others that the search begins with."""
MORE = 24
"""Others that come into the search when they are found on the wrong side."""
ROUNDS = 16
"""Looks at all others, at most."""
AT_ONCE = 64
"""Facts of a cell whose slabs are looked at together."""
MOST_IN = 8
"""Facts that are let in at most."""
NEARLY = 0.75
"""Share of the distance to a fact that stays out for which others are let in."""
CLOSE = 1e-3
"""Share of its width that a slab may still gain when the search ends."""


@dataclass(frozen=True, eq=False)
class Crowd:
    """All points of a cell `(N, p)` and their labels `(N,)`."""

    points: Floats
    label: Ints


@dataclass(frozen=True, eq=False)
class Problem:
    """A fact of a crowd, by its number; the half-width from which its slab is wide enough; how many may be let in.

    Those numbered in `kept` are never let in.
    """

    fact: int
    enough: float
    most_in: int = 0
    kept: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Slab:
    """Unit `normal` `(p,)`, `half_width`, and the others that were let in, by their numbers."""

    normal: Floats
    half_width: float
    inside: Ints


def widest_slabs(crowd: Crowd, problems: list[Problem]) -> Iterator[Slab]:
    """Slabs as wide as they come, or at least as wide as is enough."""
    points = torch.from_numpy(crowd.points)
    squares = points.square().sum(1)
    for begin in range(0, len(problems), AT_ONCE):
        part = problems[begin : begin + AT_ONCE]
        facts = points[[problem.fact for problem in part]]
        distance = (squares - 2.0 * facts @ points.T).numpy()
        searches = [_Search(crowd, problem, row) for problem, row in zip(part, distance, strict=True)]
        going = searches
        for _ in range(ROUNDS):
            normals = torch.from_numpy(np.stack([search.direction() for search in going]))
            heights = (normals @ points.T).numpy()
            going = [search for search, row in zip(going, heights, strict=True) if search.looks(row)]
            if not going:
                break
        yield from (search.found() for search in searches)


@dataclass(eq=False)
class _Search:
    """The search for one slab: what it sees, what it let in, and the widest slab so far."""

    crowd: Crowd
    problem: Problem
    distance: Floats
    """Squared distances to the points `(N,)`, but for a constant."""
    enough: float = field(init=False)
    others: NDArray[np.bool_] = field(init=False)
    """Those with another label that were not let in `(N,)`."""
    seen: Ints = field(init=False)
    weight: Floats = field(init=False)
    normal: Floats = field(init=False)
    best: tuple[float, Floats, Ints] | None = None
    out: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        crowd, problem = self.crowd, self.problem
        self.others = crowd.label != crowd.label[problem.fact]
        self.enough = problem.enough
        if problem.kept:
            nearest = crowd.points[list(problem.kept)] - crowd.points[problem.fact]
            self.enough = min(problem.enough, NEARLY * float(np.linalg.norm(nearest, axis=1).min()) / 2.0)
        self.seen = _least(np.where(self.others, self.distance, np.inf), NEAREST)

    def direction(self) -> Floats:
        """The normal of the widest slab for what is seen, after as many were let in as help."""
        while True:
            away = self.crowd.points[self.problem.fact] - self.crowd.points[self.seen]
            self.weight = _shortest(away)
            vector = self.weight @ away
            length = float(np.linalg.norm(vector))
            heaviest = self._heaviest() if length < 2.0 * self.enough else None
            if heaviest is None:
                break
            self.out.append(heaviest)
            self.others[heaviest] = False
            self.seen = self.seen[self.seen != heaviest]
        self.normal = vector / max(length, np.finfo(np.float64).tiny)
        return self.normal

    def _heaviest(self) -> int | None:
        """The one to let in next; None if no more may be, or none is left to see."""
        if len(self.out) == self.problem.most_in or len(self.seen) == 1:
            return None
        loose = np.where(np.isin(self.seen, self.problem.kept), 0.0, self.weight)
        return int(self.seen[loose.argmax()]) if loose.any() else None

    def looks(self, height: Floats) -> bool:
        """Measure the slab on all points; whether others were found on the wrong side of what could be wide."""
        above = height[self.problem.fact] - height
        away = np.where(self.others, above, np.inf)
        width = float(away.min()) / 2.0
        if self.best is None or width > self.best[0] or len(self.out) > len(self.best[2]):
            inside = np.array(sorted(j for j in self.out if above[j] < 2.0 * width), dtype=np.int64)
            self.best = width, self.normal, inside
        low = float(away[self.seen].min())
        if width >= self.enough or 2.0 * width >= low - CLOSE * abs(low):
            return False
        away[self.seen] = np.inf
        self.seen = np.concatenate([self.seen[self.weight > 0.0], _least(away, MORE)])
        return True

    def found(self) -> Slab:
        assert self.best is not None  # it was looked at
        width, normal, inside = self.best
        return Slab(normal, width, inside)


def _least(values: Floats, count: int) -> Ints:
    """Numbers of the least `count` finite values."""
    count = min(count, int(np.isfinite(values).sum()))
    return np.argpartition(values, count - 1)[:count]


def _shortest(away: Floats) -> Floats:
    """Weights `(n,)`, adding up to 1, of the shortest vector in the hull of differences `(n, p)`."""
    size = float(np.sqrt((away * away).sum() / len(away))) or 1.0
    aim = np.zeros(away.shape[1] + 1)
    aim[-1] = size
    try:
        weight, _ = nnls(np.vstack([away.T, np.full(len(away), size)]), aim, maxiter=10 * len(away))
    except RuntimeError:  # not settled after so many moves: the nearest alone, whose slab is then measured
        weight = np.zeros(len(away))
        weight[(away * away).sum(axis=1).argmin()] = 1.0
    return np.asarray(weight / weight.sum())


LOUDER = 4.0
"""A neuron that overrules one at `h` is at `LOUDER (1 + h)`; `5/3 h + 1/8` would do, cosines of classes being ≤ 1/4."""


def alone(
    cells: Cells,
    single: list[Group],
    enough: float,
    most_in: int,
    progress: Callable[[float], None] = lambda share: None,
) -> list[tuple[Found, list[Group]]]:
    """The half-spaces of single facts, and the facts that each lets in, by their labels; in the order of `single`."""
    by_cell: dict[int, list[int]] = {}
    for number, group in enumerate(single):
        by_cell.setdefault(group.cell, []).append(number)
    found: dict[int, tuple[Found, list[Group]]] = {}
    for cell, numbers in by_cell.items():
        own = slice(int(cells.start[cell]), int(cells.start[cell + 1]))
        crowd = Crowd(cells.feature[own].cpu().double().numpy(), cells.label[own])
        problems = [Problem(int(single[i].facts[0]), enough, most_in, single[i].kept) for i in numbers]
        for number, slab in zip(numbers, widest_slabs(crowd, problems), strict=True):
            found[number] = _half_space(crowd, single[number], slab)
            progress(len(found) / len(single))
    return [found[number] for number in range(len(single))]


def _half_space(crowd: Crowd, group: Group, slab: Slab) -> tuple[Found, list[Group]]:
    fact = int(group.facts[0])
    high = float(crowd.points[fact] @ slab.normal)
    found = Found(group, torch.from_numpy(slab.normal).float(), high - 2.0 * slab.half_width, high)
    inside = slab.inside
    if len(inside) == 0:
        return found, []
    top = float((crowd.points[inside] @ slab.normal).max())
    loud = LOUDER * (1.0 + max(0.0, (top - high) / slab.half_width + 1.0)) * group.loud
    label, kept = crowd.label[inside], (*group.kept, fact)
    return found, [Group(group.cell, int(name), inside[label == name], loud, kept) for name in np.unique(label)]
