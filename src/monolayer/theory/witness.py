"""Universal pairs: two sequences that no hardmax layer tells apart, whatever its weights and heads.

Notation: tokens `x = o + λ w` on one line, `A` and `B` the sets of the numbers `λ` in the two sequences.

**Lemma.** Let `A ≠ B` have equal minimum, equal maximum and equal mean. For a query token in both, a head scores key
`λ` by `(W_K (o + λw))ᵀ(W_Q x) = b + c λ`. Hardmax picks the maximum of the set if `c > 0`, the minimum if `c < 0`, the
mean if `c = 0`: each is the same for `A` and `B`. So is the output. ∎
Examples: `{1,2,3}` and `{1,3}`; of one length, `{1,2,5,6}` and `{1,3,4,6}`. Four tokens are the fewest there: minimum,
maximum and sum determine three. What follows is about pairs of one length `n`; universal.py decides any pair.

`A ∪ B` needs `n + 2` numbers at least (sets that differ in one element differ in sum), and `n + 2` evenly
spaced ones suffice: both keep the ends, `A` drops the third from either end, `B` the second.

**Room.** With a wished geometry, `r_min < ‖x‖ < r_max`, and `‖x − y‖ > ε` for different tokens, such a pair
on a line exists iff

    d ≥ 2, n odd     (n+1)² ε² < 4 (r_max² − r_min²)
    d ≥ 2, n even    n(n+2) ε² < 4 (r_max² − r_min²)  and  (n+1) ε < 2 r_max
    d = 1, n odd     (n+1) ε < 2 (r_max − r_min)
    d = 1, n even    n ε < 2 (r_max − r_min)  and  (n+1) ε < 2 r_max

The proofs are in docs/hardmax.md. All arithmetic here is rational, and every token is a float exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError, PrecisionError

Vector = tuple[Fraction, ...]
SMALLEST = 4


@dataclass(frozen=True)
class Line:
    """Two sequences on one line: token `k` of the first is `origin + first[k] · direction`, exactly."""

    origin: Vector
    direction: Vector
    first: Vector
    second: Vector

    @cached_property
    def failure(self) -> str | None:
        """The condition of the lemma that fails, in words; None if the pair is universal."""
        A, B = set(self.first), set(self.second)
        if len(A) < len(self.first) or len(B) < len(self.second):
            return "a sequence repeats a token"
        if A == B:
            return "the vocabularies are equal"
        for name, one, other in (
            ("minima", min(A), min(B)),
            ("maxima", max(A), max(B)),
            ("means", sum(A, Fraction(0)) / len(A), sum(B, Fraction(0)) / len(B)),
        ):
            if one != other:
                return f"the {name} along the line differ: {one} and {other}"
        return None

    @property
    def universal(self) -> bool:
        """Whether no hardmax layer at all separates the pair at its shared tokens (the lemma)."""
        return self.failure is None

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
    """Two sequences `(n, d)` that no hardmax layer tells apart, in the wished geometry.

    Without `r_max` they are `{1, …, n+2} · v` less two tokens each, for a vector `v` of small whole numbers
    times a power of two, large enough for `r_min` and `epsilon`. With it they lie on a chord of the shell.
    """
    low, gap = _wish("r_min", r_min), _wish("epsilon", epsilon)
    if n < SMALLEST:
        raise DataError(
            f"n = {n}: a pair that defeats every hardmax layer has at least {SMALLEST} tokens a sequence, "
            "because equal minimum, maximum and sum determine a set of three; ask for n ≥ 4"
        )
    if dim < 1:
        raise DataError(f"dim = {dim}: a token has at least one coordinate")
    generator = np.random.default_rng(seed)
    # No coordinate is 0, so that no column of the weights goes unread.
    v = [int(number) for number in generator.integers(1, 4, dim) * generator.choice([-1, 1], dim)]
    if r_max is None:
        scale = _power_above(max(low, gap)) if max(low, gap) > 0 else Fraction(1)
        X, Y = _sequences([Fraction(0)] * dim, v, [scale * k for k in range(1, n + 3)])
        _check_geometry(X, Y, low, None, gap)
        return X, Y
    high = _wish("r_max", r_max)
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
    X, Y = _sequences(origin, v, numbers)
    _check_geometry(X, Y, low, high, gap)
    return X, Y


def _wish(name: str, value: float | None) -> Fraction:
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
        "the wished geometry leaves room in real numbers, but too little for tokens in float64: widen the "
        "shell, or lower ε or n a little"
    )


def _sequences(origin: list[Fraction], v: list[int], numbers: list[Fraction]) -> tuple[Floats, Floats]:
    """`origin + number · v`, less the third from either end in one sequence, the second in the other."""
    tokens = [[o + number * entry for o, entry in zip(origin, v, strict=True)] for number in numbers]
    try:
        rounded = np.array([[float(entry) for entry in token] for token in tokens])
    except OverflowError:
        raise DataError("the wished r_min or ε is beyond the largest float: no token is so long") from None
    if [[Fraction(entry) for entry in token] for token in rounded.tolist()] != tokens:
        raise _too_tight()
    last = len(numbers) - 1
    return np.delete(rounded, [2, last - 2], axis=0), np.delete(rounded, [1, last - 1], axis=0)


def _check_geometry(X: Floats, Y: Floats, low: Fraction, high: Fraction | None, gap: Fraction) -> None:
    """The finished tokens against the wish, from their floats alone."""
    line = line_through(X, Y)
    if line is None:
        raise _too_tight()
    squares = [sum(Fraction(x) ** 2 for x in token) for token in np.concatenate([X, Y]).tolist()]
    numbers = sorted({*line.first, *line.second})
    nearest = min(b - a for a, b in pairwise(numbers))
    spacing = nearest * nearest * sum(entry * entry for entry in line.direction)
    inside = low * low < min(squares) and (high is None or max(squares) < high * high)
    if not inside or spacing <= gap * gap:
        raise _too_tight()
