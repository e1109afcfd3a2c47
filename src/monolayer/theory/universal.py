"""Which pairs of sequences, of equal or different lengths, defeat every hardmax layer: decided exactly.

**Theorem** (docs/hardmax.md). Let two sequences share a token that is not 0. Every hardmax layer, with any weights and
any number of heads, gives that token the same output in both iff for every direction `u`, zero included, the tokens
with the largest `uᵀy` have the same mean in both, repeats counted.

Of the infinitely many directions finitely many decide, if all tokens lie on a line or in a plane. On a line: 0 and
both ends. In a plane: 0 and both normals of every line through two tokens. Equal means at these make the support
functions equal at every edge of both hulls, so the hulls agree; every other direction picks a vertex, and those agree.
In higher dimension these directions may tell the pair apart, but cannot show that nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice
from typing import Any, Literal

import numpy as np

from monolayer.errors import DataError
from monolayer.theory.attention import vectors

Vector = tuple[Fraction, ...]

MOST_PAIRS = 2_000
"""Pairs of tokens whose directions are tried; with more, and off a line, nothing is shown universal."""


@dataclass(frozen=True)
class Universality:
    """What hardmax layers can make of a pair: nothing (`universal`), something (`separable`), or not decided.

    `direction` `(d,)`: the largest `uᵀy` of the two sequences have different means; None where there is no such `u`.
    """

    verdict: Literal["universal", "separable", "undecided"]
    direction: Vector | None = None


def universality(X: Any, Y: Any) -> Universality:
    """Whether every hardmax layer gives each nonzero shared token of `X` `(n, d)` and `Y` `(m, d)` one output."""
    one, other = (_exact(tokens, name) for tokens, name in ((X, "X"), (Y, "Y")))
    if len(one[0]) != len(other[0]):
        raise DataError(f"tokens of X have {len(one[0])} coordinates, those of Y {len(other[0])}")
    if not any(any(token) for token in set(one) & set(other)):
        raise DataError("X and Y share no token but 0: there is no query at which to compare them")
    axes = independent_axes(one + other)
    points = sorted({tuple(token[axis] for axis in axes) for token in one + other})
    for direction in islice(_directions(points), 1 + 2 * MOST_PAIRS):
        u = [Fraction(0)] * len(one[0])
        for axis, entry in zip(axes, direction, strict=True):
            u[axis] = entry
        if top_mean(one, tuple(u)) != top_mean(other, tuple(u)):
            return Universality("separable", tuple(u))
    decided = len(axes) <= 1 or (len(axes) == 2 and math.comb(len(points), 2) <= MOST_PAIRS)
    return Universality("universal" if decided else "undecided")


def top_mean(tokens: list[Vector], u: Vector) -> Vector:
    """The mean of the tokens with the largest `uᵀy`: what a hardmax head with these scores returns."""
    scores = [sum((a * b for a, b in zip(u, token, strict=True)), Fraction(0)) for token in tokens]
    top = [token for token, score in zip(tokens, scores, strict=True) if score == max(scores)]
    return tuple(sum(column, Fraction(0)) / len(top) for column in zip(*top, strict=True))


def independent_axes(tokens: list[Vector]) -> list[int]:
    """Coordinates that tell all points of the tokens' affine hull apart, as many as it has dimensions."""
    rows = [[a - b for a, b in zip(token, tokens[0], strict=True)] for token in tokens[1:]]
    axes: list[int] = []
    for axis in range(len(tokens[0])):
        pivot = next((row for row in rows if row[axis]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows = [[a - row[axis] / pivot[axis] * b for a, b in zip(row, pivot, strict=True)] for row in rows]
        axes.append(axis)
    return axes


def _directions(points: list[Vector]) -> Iterator[Vector]:
    """Zero, and in coordinates of the hull: both ways of a line, both normals of every edge, or some directions."""
    dim = len(points[0])
    yield (Fraction(0),) * dim
    for p, q in combinations(points if dim != 1 else points[:2], 2):
        step = tuple(b - a for a, b in zip(p, q, strict=True))
        normal = (-step[1], step[0]) if dim == 2 else step
        yield normal
        yield tuple(-entry for entry in normal)


def _exact(tokens: Any, name: str) -> list[Vector]:
    return [tuple(Fraction(entry) for entry in token) for token in (vectors(np.asarray(tokens), name) + 0.0).tolist()]
