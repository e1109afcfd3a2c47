"""The closest two points of different classes.

Three ways to one answer, for `M` points in R^p:

- p = 1: sort. If `x < y` are the closest pair of different classes and a point lies between them, it differs
  in class from one of the two and is no farther from it; so neighbours in the order suffice.
- p ≤ 8: a k-d tree. A point whose two nearest are of its own class is left over. Leftovers ask, for every bit
  of the class number, the tree of all points that differ in that bit: different numbers differ in some bit.
- p > 8, where trees visit every leaf: all products in blocks, `‖x − y‖² = ‖x‖² + ‖y‖² − 2xᵀy`, and the
  differences themselves wherever rounding in that formula could hide a smaller distance.

The distance that comes back is taken from the coordinates again. It is the smallest up to a relative
(p + 4)·2^-53, the rounding of a sum of p squares; for p = 1 it is the smallest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from monolayer.arrays import Array, Floats, Ints
from monolayer.errors import PrecisionError

TREE_DIMENSION = 8
_ROWS_PER_BLOCK = 1024
_TOP = 500  # largest coordinate is scaled to 2^500: squares stay finite, and as many binades lie below


@dataclass(frozen=True)
class Closest:
    """`distance = ‖points[first] − points[second]‖`, the smallest over pairs of different classes."""

    distance: float
    first: int
    second: int


def closest_pair(points: Array, classes: Ints | None = None) -> Closest | None:
    """The closest two of `points` `(M, p)` with different `classes` `(M,)`; None if there are no two.

    Without `classes` every point is its own class. Equal points of different classes are at distance 0.
    """
    points = np.asarray(points, dtype=np.float64)
    count, dim = points.shape
    own: Ints = np.arange(count) if classes is None else np.unique(classes, return_inverse=True)[1].astype(np.int64)
    if int(own.max()) == 0:
        return None
    if dim == 1:
        return _on_a_line(points[:, 0], own)
    _, exponent = math.frexp(float(np.abs(points).max(initial=0.0)))
    scaled = np.ldexp(points, _TOP - exponent)
    squared, first, second = (_by_tree if dim <= TREE_DIMENSION else _by_products)(scaled, own)
    distance = math.dist(points[first], points[second])
    if distance > 0 and squared < 2.0**-900:
        raise PrecisionError(
            f"points {first} and {second} are {distance:.3g} apart, below 2^-950 of the largest coordinate; "
            "squares of such distances vanish in float64, so another pair may be closer; rescale the data"
        )
    return Closest(distance, min(first, second), max(first, second))


def _on_a_line(x: Floats, own: Ints) -> Closest:
    order = np.argsort(x, kind="stable")
    with np.errstate(over="ignore"):
        gaps = np.diff(x[order])
    at = np.flatnonzero(np.diff(own[order]))
    best = int(at[gaps[at].argmin()])
    first, second = sorted((int(order[best]), int(order[best + 1])))
    return Closest(float(gaps[best]), first, second)


class _Pair(NamedTuple):
    """Two points of different classes and their squared distance."""

    squared: float
    first: int
    second: int


def _by_tree(x: Floats, own: Ints) -> _Pair:
    """The closest pair of `x` `(M, p)` with different classes `own` `(M,)`, by a k-d tree."""
    distance, index = _nearest(x, x, 2, np.inf)
    foreign = own[index] != own[:, None]
    reach = np.where(foreign, distance, np.inf).min(axis=1)
    first = int(reach.argmin())
    best = float(reach[first])
    second = int(index[first, foreign[first].argmax()]) if best < np.inf else first
    left = np.flatnonzero(~foreign.any(axis=1) & (distance[:, 1] < best))
    for bit in range(int(own.max()).bit_length() if len(left) else 0):
        side = (own >> bit) & 1
        for value in (0, 1):
            asking, others = left[side[left] == value], np.flatnonzero(side != value)
            if len(asking) == 0 or len(others) == 0:
                continue
            near, at = _nearest(x[others], x[asking], 1, best)
            winner = int(near[:, 0].argmin())
            if near[winner, 0] < best:
                best, first, second = float(near[winner, 0]), int(asking[winner]), int(others[at[winner, 0]])
    return _Pair(best**2, first, second)


def _nearest(x: Floats, queries: Floats, k: int, limit: float) -> tuple[Floats, Ints]:
    """Distances and indices `(M, k)` of the nearest `k` of `x`, infinite where they are not below `limit`."""
    distance, index = cKDTree(x).query(queries, k=[*range(1, k + 1)], distance_upper_bound=limit, workers=-1)
    return np.asarray(distance), np.asarray(index, dtype=np.int64)


def _by_products(x: Floats, classes: Ints) -> _Pair:
    """The closest pair of `x` `(M, p)` with different classes `classes` `(M,)`, by products of blocks.

    Points are sorted by the coordinate that varies most, so that a row of blocks can end early.
    """
    lead = int(np.ptp(x, axis=0).argmax())
    order = np.argsort(x[:, lead], kind="stable")
    x, classes = x[order], classes[order]
    centred = x - x.mean(axis=0)
    squares = (centred * centred).sum(axis=1)
    # (−2x, ‖x‖², 1)·(y, 1, ‖y‖²) is ‖x − y‖², one product of matrices per block. With u = 2^-53 and R² = max
    # squares: a sum of p + 2 products errs by (p + 2)u·4R², the squares in it by pu·2R², the rounding of
    # `centred` moves it by 8uR². The factor 2 covers the terms of second order.
    ones = np.ones(len(x))
    left = np.column_stack([-2 * centred, squares, ones])
    right = np.column_stack([centred, ones, squares])
    slack = 2 * (6 * x.shape[1] + 16) * 2.0**-53 * float(squares.max())
    best, first, second = np.inf, 0, 0
    for i in range(0, len(x), _ROWS_PER_BLOCK):
        for j in range(i, len(x), _ROWS_PER_BLOCK):
            apart = max(float(x[j, lead] - x[min(i + _ROWS_PER_BLOCK, len(x)) - 1, lead]), 0.0)
            if apart * apart > best * (1 + 2.0**-30):
                break
            here, there = slice(i, i + _ROWS_PER_BLOCK), slice(j, j + _ROWS_PER_BLOCK)
            product = left[here] @ right[there].T
            product[classes[here, None] == classes[there]] = np.inf
            low = float(product.min())
            if low == np.inf:
                continue
            # A pair closer than `best`, or the closest of the block, must show up below this line.
            line = min(best + slack, low + 2 * slack)
            rows, columns = np.divmod(np.flatnonzero(product <= line), product.shape[1])
            for part in range(0, len(rows), _ROWS_PER_BLOCK):
                a, b = i + rows[part : part + _ROWS_PER_BLOCK], j + columns[part : part + _ROWS_PER_BLOCK]
                exact = ((x[a] - x[b]) ** 2).sum(axis=1)
                exact[classes[a] == classes[b]] = np.inf
                winner = int(exact.argmin())
                if exact[winner] < best:
                    best, first, second = float(exact[winner]), int(order[a[winner]]), int(order[b[winner]])
    return _Pair(best, first, second)
