"""One fact against all others of its cell: the widest slab, and which others to let in so that it becomes wide.

The widest slab between a point `z` and points `z_j` is across the shortest vector of the hull of the differences
`z − z_j`, found by moving weight between two of them at a time (pairwise Frank–Wolfe with exact steps). Any point of
that hull is at least as long as the shortest, so a width that cannot be had is known early. Then the difference that
weighs most is left out: its fact is *let in*, and has to be overruled (`cover.py`).

Letters: `n` differences, `p` features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monolayer.data.names import Ints

Floats = NDArray[np.float64]
START = 100
"""Nearest others that the search begins with."""
MORE = 50
"""Others that come into the search when they are found on the wrong side."""
MOST_IN = 8
"""Facts that are let in at most."""
NEARLY = 0.75
"""Share of the distance to a fact that stays out for which others are let in."""
STEPS = 4000
"""Moves of weight at most; the slab is measured afterwards, so too few cost width only."""
CLOSE = 1e-3
"""Relative gap between the hull point and the shortest at which it is taken."""


@dataclass(frozen=True, eq=False)
class Slab:
    """Unit `normal` `(p,)`, `half_width`, and the others that were let in, by their numbers."""

    normal: Floats
    half_width: float
    inside: Ints


def widest_slab(away: Floats, enough: float, most_in: int = 0, kept: Ints | None = None) -> Slab:
    """The slab for differences `away` `(n, p)` of a fact and the others; up to `most_in` of these are let in for it.

    Those numbered in `kept` are never let in, and no more are than a width of `enough` takes.
    """
    may = np.ones(len(away), dtype=bool)
    if kept is not None and len(kept):
        may[kept] = False
        enough = min(enough, NEARLY * float(np.sqrt((away[kept] ** 2).sum(axis=1).min())) / 2.0)
    order = np.argsort((away**2).sum(axis=1), kind="stable")
    seen = order[:START]
    weight = np.zeros(len(seen))
    weight[0] = 1.0
    out: set[int] = set()
    while True:
        barred = np.isin(seen, list(out))
        reach = enough if len(out) < most_in else 0.0
        hopeless = _shorten(away[seen], weight, barred, reach)
        loose = np.where(may[seen], weight, 0.0)
        if hopeless and loose.any() and len(out) < len(away) - 1:
            heaviest = int(loose.argmax())
            out.add(int(seen[heaviest]))
            weight[heaviest] = 0.0
            if weight.sum() <= 0.0:
                weight[np.flatnonzero(~np.isin(seen, list(out)))[0]] = 1.0
            weight /= weight.sum()
            continue
        normal = weight @ away[seen]
        normal /= max(float(np.linalg.norm(normal)), np.finfo(np.float64).tiny)
        height = away @ normal
        height[list(out)] = np.inf
        low = float(height[seen].min())
        new = np.setdiff1d(np.flatnonzero(height < low - CLOSE * abs(low)), seen)
        if len(new) == 0:
            break
        new = new[np.argsort(height[new], kind="stable")][:MORE]
        seen, weight = np.concatenate([seen, new]), np.concatenate([weight, np.zeros(len(new))])
    width = float(height.min()) / 2.0
    inside = np.array([j for j in sorted(out) if away[j] @ normal < 2.0 * width], dtype=np.int64)
    return Slab(normal, width, inside)


def _shorten(away: Floats, weight: Floats, barred: NDArray[np.bool_], enough: float) -> bool:
    """Move `weight` `(n,)`, in place, to the shortest vector of the hull; True as soon as it is below `2 enough`."""
    product = away @ away.T
    slope, square = product @ weight, np.diag(product)
    for _ in range(STEPS):
        length = float(weight @ slope)
        if length < 4.0 * enough**2:
            return True
        to = int(np.where(barred, np.inf, slope).argmin())
        of = int(np.where(weight > 0.0, slope, -np.inf).argmax())
        gap = float(slope[of] - slope[to])
        if gap <= CLOSE * length:
            break
        bend = float(square[to] + square[of] - 2.0 * product[to, of])
        step = min(float(weight[of]), gap / max(bend, np.finfo(np.float64).tiny))
        weight[of] -= step
        weight[to] += step
        slope += step * (product[:, to] - product[:, of])
    return False
