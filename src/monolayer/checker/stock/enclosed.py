"""Arrays that enclose every evaluation in binary32, and what sums, norms and attention make of them. Lemmas E1 to E5.

`Enclosed(m, r, t)` stands for all arrays `(1 + θ)(m + e)` with `|e| ≤ r` number by number and one `|θ| ≤ t` for each
row: the factor of a norm is wrong in common for all coordinates, which turns no sum of them about. Middles and radii
are computed in binary64; `MORE` and `PADDING` cover what that rounds.

Letters: `D` width, `u` unit roundoff of binary32, `B` sequences, `n` keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError
from monolayer.checker.stock.bounds import BLOCK

UNIT, gamma = BINARY32.unit, BINARY32.gamma
EXP_ULPS = 32
"""Assumed of exp in binary32: fused kernels take quicker ones than libraries of functions do."""
TURN_ULPS = 16
"""Assumed of powers, cosines and sines in binary32, of which rotary positions are made."""
MOMENTS = "ν = (D + 16) u max(A, X/2) and a variance within (D + 32) u Q² + (3/2 D + 32) u X Q + 2 ν |mean|"
"""Assumed of LayerNorm in binary32, in words; `A` is the mean of absolute values, `Q²` that of squares."""
SIZE = 2.0**40
"""Numbers stay below this, so nothing overflows."""
TINY = 2.0**-60
"""More than all numbers flushed to zero can do to one result: fewer than 2^21 of them, each below 2^-126, times at most
2^41."""
SMALL = 2.0**-6
"""`t` must stay below this; `MORE` then covers `(1 + t)/(1 − t)` and the roundings of the middle."""
MORE = 1.06
LARGEST_SCORE = 32.0


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Middles and radii `(…, D)`, common relative errors `(…, 1)`. What cannot be bounded has an infinite radius."""

    middle: Floats
    radius: Floats
    common: Floats

    @classmethod
    def of(cls, middle: Floats, radius: Floats, common: Floats | None = None) -> Enclosed:
        """With the roundings of the radius itself, and of numbers flushed to zero."""
        radius = radius * PADDING
        radius += TINY
        if max(middle.max(initial=0.0), -middle.min(initial=0.0)) > SIZE:
            raise UnhandledError(f"numbers beyond {SIZE:.3g} arise on the way, which the bounds do not cover")
        if common is None:
            return cls(middle, radius, np.zeros((*middle.shape[:-1], 1)))
        common = PADDING * common
        if (common <= SMALL).all():
            return cls(middle, radius, common)
        small = common <= SMALL
        wide = radius + common * (np.abs(middle) + radius)
        return cls(middle, np.where(small, radius, PADDING * wide), np.where(small, common, 0.0))

    @property
    def size(self) -> Floats:
        """A bound on `|m + e|`."""
        return np.asarray(np.abs(self.middle) + self.radius)

    def spread(self) -> Enclosed:
        """The same with the common error on each number."""
        radius = self.radius + self.common * self.size
        return Enclosed.of(self.middle, radius)

    def __getitem__(self, rows: Any) -> Enclosed:
        return Enclosed(self.middle[rows], self.radius[rows], self.common[rows])


class Linear:
    """`x → W x + b` with stored numbers, zero rows and columns left out: products with 0 are 0 and add nothing."""

    def __init__(self, weight: Floats, bias: Floats | None = None) -> None:
        self.bias = bias if bias is not None and bias.any() else None
        self.outputs = len(weight)
        self.rows, self.columns = np.flatnonzero(weight.any(axis=1)), np.flatnonzero(weight.any(axis=0))
        self.weight = np.ascontiguousarray(weight[np.ix_(self.rows, self.columns)])
        self.sizes = np.abs(self.weight)
        self.terms = float(np.count_nonzero(self.weight, axis=1).max(initial=0))

    def __call__(self, x: Enclosed, more: Floats | float = 0.0) -> Enclosed:
        """Lemma E1: each product meets at most as many roundings as its row has numbers, and a few.

        `more`: what the sum may be off beyond the radii of `x`.
        """
        shape, rounds = x.middle.shape, MORE * gamma(self.terms + 4.0)
        size, own, flat = (part.reshape(-1, shape[-1])[:, self.columns] for part in (x.size, x.radius, x.middle))
        middle, radius = np.zeros((2, len(flat), self.outputs))
        middle[:, self.rows] = flat @ self.weight.T
        radius[:, self.rows] = (own + rounds * size) @ self.sizes.T
        middle, radius = (part.reshape(*shape[:-1], self.outputs) for part in (middle, radius))
        found = Enclosed.of(middle, radius + more, x.common)
        if self.bias is None:
            return found
        found = found.spread()
        return Enclosed.of(found.middle + self.bias, found.radius + rounds * np.abs(self.bias))


def add(x: Enclosed, y: Enclosed) -> Enclosed:
    """Lemma E2: a rounded sum, which keeps the common error of `x`: `y` is divided by it."""
    y = y.spread()
    radius = x.radius + (1.0 + MORE * x.common) * y.radius + MORE * x.common * np.abs(y.middle)
    return Enclosed.of(x.middle + y.middle, radius + MORE * UNIT * (x.size + y.size), x.common)


def centred(x: Enclosed, size: Floats) -> tuple[Floats, Floats]:
    """What LayerNorm leaves before it scales: middles, and how far its computed mean may be from the true one."""
    D = x.middle.shape[-1]
    off = np.maximum(size.mean(axis=-1, keepdims=True), 0.5 * size.max(axis=-1, keepdims=True))
    return x.middle - x.middle.mean(axis=-1, keepdims=True), MORE**2 * (D + 16.0) * UNIT * off


def _mean_product(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("...i,...i->...", a, b)[..., None] / a.shape[-1])


def norm(x: Enclosed, weight: Floats, bias: Floats, epsilon: float, rms: bool) -> Enclosed:
    """Lemma E3: LayerNorm, or RMSNorm, which subtracts no mean."""
    D, size = x.middle.shape[-1], x.size
    middle, mean = (x.middle, np.zeros(1)) if rms else centred(x, size)
    variance = _mean_product(middle, middle)
    moved = 2.0 * _mean_product(np.abs(middle), x.radius) + _mean_product(x.radius, x.radius)
    square = MORE**2 * _mean_product(size, size)
    wrong = gamma(D + 32.0) * square
    if not rms:
        wrong = wrong + (1.5 * D + 32.0) * UNIT * MORE * size.max(axis=-1, keepdims=True) * np.sqrt(square)
        wrong = wrong + 2.0 * np.abs(x.middle.mean(axis=-1, keepdims=True)) * mean
    total = variance + epsilon
    share = (moved + MORE * wrong + 2.2 * x.common * epsilon) / total + 4.0 * UNIT + 2.0**-40
    common = np.where(share <= 0.75, 0.5 * share * np.maximum(1.0 - share, 0.25) ** -1.5 + gamma(8.0), np.inf)
    factor = 1.0 / np.sqrt(total)
    rounds = MORE * gamma(8.0)
    if rms:
        radius = x.radius + rounds * size
    else:
        more = x.radius.mean(axis=-1, keepdims=True) + mean
        shift = np.abs(x.middle.mean(axis=-1, keepdims=True))
        radius = x.radius + rounds * size + (more + rounds * (more + shift))
    found = Enclosed.of(middle * (factor * weight), radius * (factor * np.abs(weight)), common)
    if not bias.any():
        return found
    found = found.spread()
    return Enclosed.of(found.middle + bias, found.radius + MORE * UNIT * (found.size + np.abs(bias)))


def turned(x: Enclosed, partner: Ints, sign: Floats, exponent: Floats, theta: float) -> Enclosed:
    """Rotary positions on `(B, n, h)`: `x cos α ± x' sin α`, `x'` the `partner` of each coordinate.

    `α = place · θ^−s`, `s` the `exponent`, infinite where nothing is turned, has a relative error of pow, of a rounded
    exponent and of three more operations; cosine and sine have one of their own.
    """
    speed = np.where(np.isfinite(exponent), theta ** -np.minimum(exponent, 1.0), 0.0)
    angle = np.arange(x.middle.shape[1], dtype=np.float64)[:, None] * speed
    off = (abs(np.log(theta)) + 2.0 * TURN_ULPS + 8.0) * UNIT * np.abs(angle) + 2.0 * TURN_ULPS * UNIT
    cos, sin = np.cos(angle), sign * np.sin(angle)
    middle = x.middle * cos + x.middle[..., partner] * sin
    sizes = x.size + x.size[..., partner]
    radius = x.radius * np.abs(cos) + x.radius[..., partner] * np.abs(sin) + sizes * (off + MORE * gamma(4.0))
    return Enclosed.of(middle, radius, x.common)


def scores(q: Enclosed, k: Enclosed, scale: float) -> tuple[Floats, Floats]:
    """Lemma E4: products of queries `(B, m, h)` and keys `(B, n, h)` times a constant, and how far they may be off."""
    keys = k.middle.swapaxes(1, 2)
    middle = scale * (q.middle @ keys)
    together = q.common + k.common.swapaxes(1, 2) + q.common * k.common.swapaxes(1, 2)
    rounds = MORE * gamma(q.middle.shape[-1] + 16.0)
    inner = q.radius @ k.size.swapaxes(1, 2) + np.abs(q.middle) @ k.radius.swapaxes(1, 2)
    inner = scale * (MORE * inner + rounds * (q.size @ k.size.swapaxes(1, 2)))
    radius = PADDING * (inner + together * (np.abs(middle) + inner)) + TINY
    return middle, radius


@dataclass(frozen=True, eq=False)
class Average:
    """What a softmax makes of values: `found`, and of its radius the part `swayed` that wrong weights cause.

    That part is `Σ η_l p_l (v_l − c)`, `|η_l| ≤ sway`: of a sum of coordinates one can say more than of each.
    """

    found: Enclosed
    swayed: Floats
    sway: Floats
    weight: Floats
    values: Floats

    def along(self, points: tuple[Ints, Ints], matrix: Floats) -> Floats:
        """How far wrong weights move the rows of a `matrix` `(J, k)` times the average, at `(sequence, query)`."""
        weight = self.weight[points]
        height = self.values[points[0]] @ matrix.T
        mean = weight[:, None] @ height
        return np.asarray(PADDING * self.sway[points] * (weight[:, None] @ np.abs(height - mean))[:, 0])


def average(score: Floats, off: Floats, seen: Bools, v: Enclosed) -> Average:
    """Lemma E5: values `(B, n, k)` averaged by a softmax of scores `(B, m, n)` known to within `off`."""
    n = score.shape[-1]
    largest = np.where(seen, np.abs(score) + off, 0.0).max(axis=-1, keepdims=True)
    if np.nanmax(largest, initial=0.0) > LARGEST_SCORE:
        raise UnhandledError(f"scores reach {np.nanmax(largest):.3g}; the bounds cover {LARGEST_SCORE:g}")
    weight = np.where(seen, np.exp(score - np.where(seen, score, -np.inf).max(axis=-1, keepdims=True)), 0.0)
    weight /= weight.sum(axis=-1, keepdims=True)
    # Relative error of one weight e^score before it is divided: its exponent, exp, and rescaling from block to block.
    exps = (4.0 * EXP_ULPS + (2.0 + n / BLOCK) * (2.0 * EXP_ULPS + 2.0)) * UNIT
    wrong = np.where(seen, off, 0.0).max(axis=-1, keepdims=True) + 8.0 * UNIT * (1.0 + largest) + exps
    wrong = np.where(wrong <= 1.0, wrong, np.inf)
    sway = PADDING * np.exp(wrong) * np.expm1(wrong)
    middle = weight @ v.middle
    squares = weight @ (v.middle * v.middle)
    swayed = sway * np.sqrt(np.maximum(squares - middle * middle, 0.0) + 2.0**-40 * squares)
    each = v.radius + v.common * v.size + MORE * gamma(2.0 * n + 64.0) * v.size * (1.0 + v.common)
    found = Enclosed.of(middle, swayed + np.exp(2.0 * wrong) * (weight @ each))
    return Average(found, swayed, sway, weight, v.middle)
