"""One fact against the others of its cell: the widest slab between them.

The widest slab between a point `z` and points `z_j` is across the shortest vector of the hull of the differences
`z − z_j`. That is a problem of nonnegative least squares,

    minimize |Σ x_j (z − z_j)|² + g² (Σ x_j − 1)²   subject to  x ≥ 0,

whose solution is a multiple of the weights of the shortest vector, whatever `g > 0` is. A few differences carry all of
the weight, so it is solved for the nearest others, and again for those that carry weight and those that lie deepest on
the wrong side, at most `SLAB_ROUNDS` times. The cost of a fact does not grow with its cell, except for the look at all
other points. Every slab is measured on all of them, so a search that ends early costs width only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import nnls

from monolayer.arrays import Floats, Ints

NEAREST = 48
"""Nearest others that the search begins with."""
OTHERS_ADDED = 24
"""Others that come into the search when they are found on the wrong side."""
SLAB_ROUNDS = 16
"""How often, at most, a search looks at all other points."""
FACTS_AT_ONCE = 64
"""Facts of a cell whose slabs are looked at together."""
CLOSE = 1e-3
"""Share of its width that a slab may still gain when the search ends."""


def widest_slabs(points: Floats, label: Ints, facts: list[int], enough: float) -> Iterator[tuple[Floats, float]]:
    """Unit normal `(p,)` and half-width of a slab for each of `facts`: as wide as it comes, or at least `enough`.

    `points` `(N, p)` are all those of a cell, `label` `(N,)` their labels.
    """
    every = torch.from_numpy(points)
    squares = every.square().sum(1)
    for begin in range(0, len(facts), FACTS_AT_ONCE):
        part = facts[begin : begin + FACTS_AT_ONCE]
        distance = (squares - 2.0 * every[part] @ every.T).numpy()  # squared, but for a constant
        searches = [_Search(points, label, *each, enough) for each in zip(part, distance, strict=True)]
        going = searches
        for _ in range(SLAB_ROUNDS):
            normals = torch.from_numpy(np.stack([search.direction() for search in going]))
            heights = (normals @ every.T).numpy()
            going = [search for search, row in zip(going, heights, strict=True) if search.looks(row)]
            if not going:
                break
        yield from (search.best for search in searches)


class _Search:
    """The search for one slab: which others it sees, and the widest slab so far."""

    def __init__(self, points: Floats, label: Ints, fact: int, distance: Floats, enough: float) -> None:
        self.points, self.fact, self.enough = points, fact, enough
        self.others = label != label[fact]
        self.seen = _least(np.where(self.others, distance, np.inf), NEAREST)
        self.best: tuple[Floats, float] = points[fact], -np.inf

    def direction(self) -> Floats:
        """The unit normal of the widest slab between the fact and the other points that the search has seen."""
        away = self.points[self.fact] - self.points[self.seen]
        self.weight = _shortest(away)
        vector = self.weight @ away
        self.normal = np.asarray(vector / max(float(np.linalg.norm(vector)), np.finfo(np.float64).tiny))
        return self.normal

    def looks(self, height: Floats) -> bool:
        """Measure the slab on all points; whether others were found on the wrong side of what could be wide."""
        away = np.where(self.others, height[self.fact] - height, np.inf)
        width = float(away.min()) / 2.0
        if width > self.best[1]:
            self.best = self.normal, width
        low = float(away[self.seen].min())
        if width >= self.enough or 2.0 * width >= low - CLOSE * abs(low):
            return False
        away[self.seen] = np.inf
        self.seen = np.concatenate([self.seen[self.weight > 0.0], _least(away, OTHERS_ADDED)])
        return True


def _least(values: Floats, count: int) -> Ints:
    """The indices of the `count` smallest finite values."""
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
