"""One fact against all others of its cell: the widest slab, and which others to let in so that it becomes wide.

The widest slab between a point `z` and points `z_j` is across the shortest vector of the hull of the differences
`z − z_j`, found by moving weight between two of them at a time (pairwise Frank–Wolfe with exact steps). Any point of
that hull is at least as long as the shortest, so a width that cannot be had is known early. Then the difference that
weighs most is left out: its fact is *let in*, and has to be overruled (`cover.py`).

Letters: `n` differences, `p` features.
"""

from __future__ import annotations

from collections.abc import Generator
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
NUMBERS = 1 << 21
"""Products of differences that are held at a time: 16 MiB."""
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
    return widest_slabs([Problem(away, enough, most_in, kept)])[0]


@dataclass(frozen=True, eq=False)
class Problem:
    """What `widest_slab` is asked for."""

    away: Floats
    enough: float
    most_in: int = 0
    kept: Ints | None = None


def widest_slabs(problems: list[Problem]) -> list[Slab]:
    """Many at once, the same bits as one by one: their searches go on side by side, and their moves are one batch."""
    searches = [_search(problem) for problem in problems]
    hulls = {number: next(search) for number, search in enumerate(searches)}
    slabs: dict[int, Slab] = {}
    while hulls:
        going, answers = {}, _shorten_all(list(hulls.values()))
        for number, hopeless in zip(hulls, answers, strict=True):
            try:
                going[number] = searches[number].send(hopeless)
            except StopIteration as end:
                slabs[number] = end.value
        hulls = going
    return [slabs[number] for number in range(len(problems))]


@dataclass(frozen=True, eq=False)
class _Hull:
    """Differences `(n, p)` and their weights `(n,)`, which are moved in place; those barred get none."""

    away: Floats
    weight: Floats
    barred: NDArray[np.bool_]
    enough: float


def _search(problem: Problem) -> Generator[_Hull, bool, Slab]:
    """Asks for the shortest vectors of hulls, and is told whether one is too short for the width that is wished."""
    away, enough = problem.away, problem.enough
    may = np.ones(len(away), dtype=bool)
    if problem.kept is not None and len(problem.kept):
        may[problem.kept] = False
        enough = min(enough, NEARLY * float(np.sqrt((away[problem.kept] ** 2).sum(axis=1).min())) / 2.0)
    order = np.argsort((away**2).sum(axis=1), kind="stable")
    seen = order[:START]
    weight = np.zeros(len(seen))
    weight[0] = 1.0
    out: set[int] = set()
    while True:
        barred = np.isin(seen, list(out)) if out else np.zeros(len(seen), dtype=bool)
        hopeless = yield _Hull(away[seen], weight, barred, enough if len(out) < problem.most_in else 0.0)
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
        below = np.flatnonzero(height < low - CLOSE * abs(low))
        new = np.setdiff1d(below, seen) if len(below) else below
        if len(new) == 0:
            break
        new = new[np.argsort(height[new], kind="stable")][:MORE]
        seen, weight = np.concatenate([seen, new]), np.concatenate([weight, np.zeros(len(new))])
    width = float(height.min()) / 2.0
    inside = np.array([j for j in sorted(out) if away[j] @ normal < 2.0 * width], dtype=np.int64)
    return Slab(normal, width, inside)


def _shorten_all(hulls: list[_Hull]) -> list[bool]:
    """Move the weights to the shortest vectors; True for those that are too short. Equal sizes are one batch."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for number, hull in enumerate(hulls):
        by_size.setdefault(hull.away.shape, []).append(number)
    answers = [False] * len(hulls)
    for size, numbers in by_size.items():
        step = max(1, NUMBERS // (size[0] * max(size)))
        for begin in range(0, len(numbers), step):
            part = numbers[begin : begin + step]
            for number, hopeless in zip(part, _shorten([hulls[number] for number in part]), strict=True):
                answers[number] = hopeless
    return answers


def _shorten(hulls: list[_Hull]) -> list[bool]:
    """Move the weights of hulls of one size, in place; True as soon as a vector is shorter than `2 enough`."""
    away, weight = np.stack([hull.away for hull in hulls]), np.stack([hull.weight for hull in hulls])
    barred, enough = np.stack([hull.barred for hull in hulls]), np.array([hull.enough for hull in hulls])
    product = away @ away.transpose(0, 2, 1)
    slope = (product @ weight[:, :, None])[..., 0]
    square = np.diagonal(product, axis1=1, axis2=2).copy()
    number = row = np.arange(len(hulls))  # of those in the batch, and their places there
    short, going = np.zeros((2, len(hulls)), dtype=bool)
    going[:] = True
    for _ in range(STEPS):
        length = (weight[:, None] @ slope[:, :, None])[:, 0, 0]
        hopeless = going & (length < 4.0 * enough**2)
        to = np.where(barred, np.inf, slope).argmin(axis=1)
        of = np.where(weight > 0.0, slope, -np.inf).argmax(axis=1)
        gap = slope[row, of] - slope[row, to]
        short[number[hopeless]] = True
        going &= ~hopeless & (gap > CLOSE * length)
        left = int(going.sum())
        if left == 0:
            break
        if 2 * left <= len(going):  # those that are done are taken out, a half at a time
            _keep(hulls, number, weight)
            product, slope, weight, square = product[going], slope[going], weight[going], square[going]
            barred, enough, number = barred[going], enough[going], number[going]
            to, of, gap, row = to[going], of[going], gap[going], row[:left]
            going = going[going]
        bend = square[row, to] + square[row, of] - 2.0 * product[row, to, of]
        step = np.minimum(weight[row, of], gap / np.maximum(bend, np.finfo(np.float64).tiny))
        step[~going] = 0.0
        weight[row, of] -= step
        weight[row, to] += step
        slope += step[:, None] * (product[row, to] - product[row, of])
    _keep(hulls, number, weight)
    return list(short.tolist())


def _keep(hulls: list[_Hull], number: Ints, weight: Floats) -> None:
    for place, hull in enumerate(number.tolist()):
        hulls[hull].weight[:] = weight[place]
