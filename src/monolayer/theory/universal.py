"""Universal pairs: two sequences that no hardmax layer tells apart, whatever its weights and heads.

**Theorem** (docs/hardmax.md). Let two sequences share a token that is not 0. Every hardmax layer, with any weights and
any number of heads, gives that token the same output in both iff for every direction `u`, zero included, the tokens
with the largest `uᵀy` have the same mean in both, repeats counted.

**Deciding.** Of the infinitely many directions finitely many decide, if all tokens lie on a line or in a plane. On a
line: 0 and both ends. In a plane: 0 and both normals of every line through two tokens. Equal means at these make the
support functions equal at every edge of both hulls, so the hulls agree; every other direction picks a vertex, and those
agree. In higher dimension these directions may tell the pair apart, but cannot show that nothing does.

**Making one.** Tokens `x = o + λ w` on one line, `A` and `B` the sets of the numbers `λ` in the two sequences: the pair
is universal iff they have equal minimum, equal maximum and equal mean. Of one length, `{1,2,5,6}` and `{1,3,4,6}`. Four
tokens are the fewest there: minimum, maximum and sum determine three. `A ∪ B` needs `n + 2` numbers at least (sets that
differ in one element differ in sum), and `n + 2` evenly spaced ones suffice: both keep the ends, `A` drops the third
from either end, `B` the second.

The proofs are in docs/hardmax.md. All arithmetic here is rational, and every token is a float exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice
from typing import Any, Literal

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.errors import DataError
from monolayer.theory.attention import Vector, vectors

SMALLEST = 4
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


def shared_tokens(X: Floats, Y: Floats) -> tuple[tuple[int, int], ...]:
    """Places `(k, l)` with `X_k = Y_l`, each token of `X` with its first place in `Y`."""
    places = {tuple(token): place for place, token in reversed([*enumerate((Y + 0.0).tolist())])}
    return tuple((k, places[tuple(x)]) for k, x in enumerate((X + 0.0).tolist()) if tuple(x) in places)


def universal_pair(
    n: int = 4,
    dim: int = 4,
    *,
    r_min: float = 0.0,
    r_max: float = math.inf,
    epsilon: float = 0.0,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Two sequences `(n, d)` that no hardmax layer tells apart, with `r_min < ‖x‖ < r_max` and `‖x − y‖ > ε`.

    They are `scale · {1, …, n+2} · v` less two tokens each, for a vector `v` of small whole numbers.
    """
    if n < SMALLEST:
        raise DataError(
            f"n = {n}: a pair that defeats every hardmax layer has at least {SMALLEST} tokens per sequence, "
            "because equal minimum, maximum and sum determine a set of three; ask for n ≥ 4"
        )
    if dim < 1:
        raise DataError(f"dim = {dim}: a token has at least one coordinate")
    for name, value in {"r_min": r_min, "r_max": r_max, "epsilon": epsilon}.items():
        if not value >= 0.0:
            raise DataError(f"{name} = {value}: it must be a number, at least 0")
    generator = np.random.default_rng(seed)
    # No coordinate is 0, so that no column of the weights goes unread.
    v = generator.integers(1, 4, dim) * generator.choice([-1, 1], dim)
    whole, low = np.outer(np.arange(1, n + 3), v), max(r_min, epsilon)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _scale(low, r_max / (n + 2), math.sqrt(v @ v))
        tokens = scale * whole
        exact = np.array_equal(tokens / scale, whole)
    # Neighbours are as far apart as the shortest token is long, which is an (n + 2)-th of the longest.
    if not (exact and _squares(low, scale, v) < 0 < _squares(r_max, (n + 2) * scale, v)):
        raise DataError(
            f"no such pair in float64: its tokens are 1 to {n + 2} times a vector, so max(r_min, ε) < r_max/{n + 2} is "
            f"needed, but r_min = {r_min:.6g}, ε = {epsilon:.6g} and r_max = {r_max:.6g}; widen these, or lower n"
        )
    return np.delete(tokens, [2, n - 1], axis=0), np.delete(tokens, [1, n], axis=0)


def _scale(low: float, high: float, length: float) -> float:
    """`low < scale · length < high`, of at most 24 bits: products with small whole numbers are then exact."""
    if high == math.inf:
        return float(np.ldexp(1.0, math.frexp(low)[1])) if low > 0 else 1.0
    mantissa, exponent = math.frexp((low / 2 + high / 2) / length)
    return math.ldexp(round(math.ldexp(mantissa, 24)), exponent - 24)


def _squares(bound: float, factor: float, v: Ints) -> Fraction | float:
    """`bound² − ‖factor · v‖²`, exactly."""
    return bound if bound == math.inf else Fraction(bound) ** 2 - Fraction(factor) ** 2 * int(v @ v)
