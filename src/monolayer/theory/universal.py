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

**Room.** With a given geometry, `r_min < ‖x‖ < r_max`, and `‖x − y‖ > ε` for different tokens, such a pair
on a line exists iff

    d ≥ 2, n odd     (n+1)² ε² < 4 (r_max² − r_min²)
    d ≥ 2, n even    n(n+2) ε² < 4 (r_max² − r_min²)  and  (n+1) ε < 2 r_max
    d = 1, n odd     (n+1) ε < 2 (r_max − r_min)
    d = 1, n even    n ε < 2 (r_max − r_min)  and  (n+1) ε < 2 r_max

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

from monolayer.arrays import Floats
from monolayer.errors import DataError, PrecisionError
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


# -- pairs on a line -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Two sequences on one line: token `k` of the first is `origin + first[k] · direction`, exactly."""

    origin: Vector
    direction: Vector
    first: Vector
    second: Vector

    @property
    def symmetric(self) -> bool:
        """Whether both sets are mirror images of themselves about one centre."""
        centre = min(self.first) + max(self.first)
        return all({centre - value for value in side} == set(side) for side in (self.first, self.second))


def line_through(X: Floats, Y: Floats) -> Line | None:
    """The line that carries all tokens of two sequences `(n, d)`; None if there is none or but one token.

    Numbers along it are whole and coprime; a line through 0 has origin 0.
    """
    tokens = [tuple(Fraction(number) for number in token) for token in np.concatenate([X, Y]).tolist()]
    origin = tokens[0]
    other = next((token for token in tokens if token != origin), None)
    if other is None:
        return None
    step = tuple(b - a for a, b in zip(origin, other, strict=True))
    axis = next(i for i, number in enumerate(step) if number)
    values = [(token[axis] - origin[axis]) / step[axis] for token in tokens]
    for token, value in zip(tokens, values, strict=True):
        if any(a + value * b != c for a, b, c in zip(origin, step, token, strict=True)):
            return None
    offset = origin[axis] / step[axis]
    if all(offset * b == a for a, b in zip(origin, step, strict=True)):
        origin, values = tuple(Fraction(0) for _ in origin), [offset + value for value in values]
    gap = Fraction(math.gcd(*(v.numerator for v in values)), math.lcm(*(v.denominator for v in values)))
    step, values = tuple(gap * number for number in step), [value / gap for value in values]
    return Line(origin, step, tuple(values[: len(X)]), tuple(values[len(X) :]))


def shared_tokens(X: Floats, Y: Floats) -> tuple[tuple[int, int], ...]:
    """Places `(k, l)` with `X_k = Y_l`, each token of `X` with its first place in `Y`."""
    places: dict[tuple[float, ...], int] = {}
    for place, token in enumerate((Y + 0.0).tolist()):
        places.setdefault(tuple(token), place)
    tokens = enumerate(map(tuple, (X + 0.0).tolist()))
    return tuple((k, places[token]) for k, token in tokens if token in places)


def universal_pair(
    n: int = 4,
    dim: int = 4,
    *,
    r_min: float | None = None,
    r_max: float | None = None,
    epsilon: float | None = None,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Two sequences `(n, d)` that no hardmax layer tells apart, in the given geometry.

    Without `r_max` they are `{1, …, n+2} · v` less two tokens each, for a vector `v` of small whole numbers
    times a power of two, large enough for `r_min` and `epsilon`. With it they lie on a chord of the shell.
    """
    low, gap = _given("r_min", r_min), _given("epsilon", epsilon)
    if n < SMALLEST:
        raise DataError(
            f"n = {n}: a pair that defeats every hardmax layer has at least {SMALLEST} tokens per sequence, "
            "because equal minimum, maximum and sum determine a set of three; ask for n ≥ 4"
        )
    if dim < 1:
        raise DataError(f"dim = {dim}: a token has at least one coordinate")
    generator = np.random.default_rng(seed)
    # No coordinate is 0, so that no column of the weights goes unread.
    v = [int(number) for number in generator.integers(1, 4, dim) * generator.choice([-1, 1], dim)]
    if r_max is None:
        scale = _power_above(max(low, gap)) if max(low, gap) > 0 else Fraction(1)
        return _sequences([Fraction(0)] * dim, v, [scale * k for k in range(1, n + 3)])
    high = _given("r_max", r_max)
    if low >= high:
        raise DataError(f"r_min = {r_min} and r_max = {r_max}: r_min < r_max is needed")
    limit, inequality = _room(n, dim, low, high)
    if gap * gap >= limit:
        raise DataError(
            f"no universal pair on a line fits: n + 2 = {n + 2} tokens more than ε = {float(gap):.6g} apart "
            f"with {float(low):.6g} < ‖x‖ < {float(high):.6g} in dimension {dim} need {inequality}, that is "
            f"ε < {float(_root(limit)):.6g}; lower n or ε, or widen the shell"
        )
    if dim == 1:
        origin, v, numbers = [Fraction(0)], [1], _both_rays(n, low, high, gap, limit)
    else:
        i, j = (int(axis) for axis in generator.choice(dim, 2, replace=False))
        across = [0] * dim
        across[i], across[j] = v[j], -v[i]
        height, numbers = _chord(n, low, high, gap, limit, _square(v), _square(across))
        origin = [height * number for number in across]
    return _sequences(origin, v, numbers)


def _given(name: str, value: float | None) -> Fraction:
    if value is None:
        return Fraction(0)
    if not math.isfinite(value) or value < 0:
        raise DataError(f"{name} = {value}: it must be a finite number, at least 0")
    return Fraction(value)


def _square(vector: list[int]) -> int:
    return sum(number * number for number in vector)


def _power_above(bound: Fraction) -> Fraction:
    """A power of two larger than `bound`; the vector `v` is at least that long."""
    exponent = bound.numerator.bit_length() - bound.denominator.bit_length() + 1
    return Fraction(2) ** exponent


def _room(n: int, dim: int, low: Fraction, high: Fraction) -> tuple[Fraction, str]:
    """The square of the spacing that `n + 2` tokens cannot reach in the shell; the inequality in words."""
    shell, whole = high * high - low * low, (2 * high / (n + 1)) ** 2
    if dim == 1 and n % 2:
        return (2 * (high - low) / (n + 1)) ** 2, "(n+1) ε < 2 (r_max − r_min)"
    if dim == 1:
        return min((2 * (high - low) / n) ** 2, whole), "n ε < 2 (r_max − r_min) and (n+1) ε < 2 r_max"
    if n % 2:
        return 4 * shell / (n + 1) ** 2, "(n+1)² ε² < 4 (r_max² − r_min²)"
    return min(4 * shell / (n * (n + 2)), whole), "n(n+2) ε² < 4 (r_max² − r_min²) and (n+1) ε < 2 r_max"


def _chord(
    n: int, low: Fraction, high: Fraction, gap: Fraction, limit: Fraction, along: int, across: int
) -> tuple[Fraction, list[Fraction]]:
    """Height of the chord and `n + 2` evenly spaced numbers on it, symmetric about its middle.

    The tokens are `height · u + number · v` with `u ⊥ v`, `‖u‖² = across`, `‖v‖² = along`.
    """
    step = _between(_root(gap * gap / along), _root(limit / along))
    numbers = [step * (2 * k - n - 1) / 2 for k in range(n + 2)]
    inner = low * low - min(number * number for number in numbers) * along
    outer = high * high - numbers[-1] ** 2 * along
    if inner < 0:
        return Fraction(0), numbers
    return _between(_root(inner / across), _root(max(outer, Fraction(0)) / across)), numbers


def _both_rays(n: int, low: Fraction, high: Fraction, gap: Fraction, limit: Fraction) -> list[Fraction]:
    """`n + 2` numbers in `(−r_max, −r_min) ∪ (r_min, r_max)`: mirror images, and one more if `n` is odd."""
    step = _between(gap, _root(limit))
    count = (n + 3) // 2
    start = _between(low if n % 2 else max(low, step / 2), high - (count - 1) * step)
    right = [start + k * step for k in range(count)]
    return sorted([-number for number in right[n % 2 :]] + right)


def _root(square: Fraction) -> Fraction:
    """Square root, rounded down at about 96 bits."""
    shift = max(0, 96 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    return Fraction(math.isqrt((square.numerator << 2 * shift) // square.denominator), 1 << shift)


def _between(low: Fraction, high: Fraction) -> Fraction:
    """The roundest dyadic number in the middle half of `(low, high)`: few bits keep later products exact."""
    width = (high - low) / 2
    if width <= 0:
        raise _too_tight()
    step = _power_above(width) / 4
    return math.ceil((low + width / 2) / step) * step


def _too_tight() -> PrecisionError:
    return PrecisionError(
        "the given geometry leaves room in real numbers, but too little for tokens in float64: widen the "
        "shell, or lower ε or n a little"
    )


def _sequences(origin: list[Fraction], v: list[int], numbers: list[Fraction]) -> tuple[Floats, Floats]:
    """`origin + number · v`, less the third from either end in one sequence, the second in the other."""
    tokens = [[o + number * entry for o, entry in zip(origin, v, strict=True)] for number in numbers]
    try:
        rounded = np.array([[float(entry) for entry in token] for token in tokens])
    except OverflowError:
        raise DataError("the given r_min or ε is beyond the largest float: no token is so long") from None
    if [[Fraction(entry) for entry in token] for token in rounded.tolist()] != tokens:
        raise _too_tight()
    last = len(numbers) - 1
    return np.delete(rounded, [2, last - 2], axis=0), np.delete(rounded, [1, last - 1], axis=0)
