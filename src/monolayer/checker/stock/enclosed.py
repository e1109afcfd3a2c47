"""Arrays that enclose every evaluation in binary32, and what sums, norms and attention make of them. Lemmas E1 to E5.

`Enclosed(m, r, t, s)` stands for all arrays `(1 + θ)(m + e + σ)` with `|e| ≤ r` entry by entry, and one `|θ| ≤ t` and
one `|σ| ≤ s` per row: what a norm divides by, and the mean that it subtracts, have one error for all coordinates of a
row. Middles and radii are computed in binary64; `MORE` and `PADDING` cover what that rounds.

Letters: `D` width, `u` unit roundoff of binary32, `B` sequences, `n` keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError
from monolayer.checker.stock.bounds import SOFTMAX_BLOCK

UNIT_32, gamma_32 = BINARY32.unit, BINARY32.gamma
SHORT_EXP_ULPS = 32
"""Assumed of exp in binary32, in units in the last place: fused kernels use faster ones than math libraries."""
TURN_ULPS = 16
"""Assumed of powers, cosines and sines of rotary positions in binary32, in units in the last place of 1."""
SHORT_MOMENTS = "ν = (D + 16) u max(A, X/2) and a variance within (D + 32) u Q² + (3/2 D + 32) u X Q + 2 ν |mean|"
"""Assumed of LayerNorm in binary32, as a certificate says it; `A` is the mean of absolute values, `Q²` of squares."""
SIZE = 2.0**40
"""Largest middle that is covered, so that nothing overflows."""
FLUSHED_32 = 2.0**-60
"""Bounds what flushed numbers do to one result: fewer than 2^21 of them, each below 2^-126, times at most 2^41."""
SMALL_COMMON = 2.0**-6
"""Largest common error `t`; `MORE` then covers `(1 + t)/(1 − t)` and the roundings of the middle."""
MORE = 1.06
LARGEST_ENCLOSED_SCORE = 32.0
"""Largest attention score that is covered: up to it no exp overflows."""


@dataclass(frozen=True, eq=False)
class Enclosed:
    """`middle` and `radius` `(…, D)`; `common` and `shift` `(…, 1)`, the errors that all coordinates of a row share.

    What cannot be bounded has an infinite radius.
    """

    middle: Floats
    radius: Floats
    common: Floats
    shift: Floats

    @classmethod
    def of(cls, middle: Floats, radius: Floats, common: Floats | None = None, shift: Floats | None = None) -> Enclosed:
        """Pad the radius for its own rounding and for numbers flushed to zero. Common errors are 0 unless given."""
        radius = radius * PADDING
        radius += FLUSHED_32
        if max(middle.max(initial=0.0), -middle.min(initial=0.0)) > SIZE:
            raise UnhandledError(f"numbers beyond {SIZE:.3g} arise on the way, which the bounds do not cover")
        none = np.zeros((*middle.shape[:-1], 1))
        enclosed = cls(
            middle, radius, none if common is None else PADDING * common, none if shift is None else PADDING * shift
        )
        small = enclosed.common <= SMALL_COMMON
        if small.all():
            return enclosed
        wide = enclosed.spread()
        parts = zip(enclosed.parts, wide.parts, strict=True)
        return cls(*(np.where(small, own, other) for own, other in parts))

    @classmethod
    def between(cls, low: Floats, high: Floats) -> Enclosed:
        """The numbers between two bounds."""
        return cls.of((low + high) / 2.0, (high - low) / 2.0 + 2.0**-50 * (np.abs(low) + np.abs(high)))

    @property
    def parts(self) -> tuple[Floats, ...]:
        """The four fields, in their order."""
        return self.middle, self.radius, self.common, self.shift

    @property
    def size(self) -> Floats:
        """A bound on `|m + e + σ|` `(…, D)`."""
        return np.asarray(np.abs(self.middle) + (self.radius + self.shift))

    def spread(self) -> Enclosed:
        """The same numbers without errors in common: each radius also covers the common error and the shift."""
        reach = self.radius + self.shift
        if not self.common.any():
            return Enclosed.of(self.middle, reach)
        low, high = self.middle - reach, self.middle + reach
        common, known = np.minimum(self.common, 1.0), self.common < 1.0
        enclosed = Enclosed.between(low - common * np.abs(low), high + common * np.abs(high))
        return Enclosed.of(enclosed.middle, np.where(known, enclosed.radius, np.inf))

    def only(self, columns: Ints) -> Enclosed:
        """The coordinates `columns` alone."""
        return Enclosed(self.middle[..., columns], self.radius[..., columns], self.common, self.shift)

    def __getitem__(self, rows: Any) -> Enclosed:
        return Enclosed(*(part[rows] for part in self.parts))


class Rotary(NamedTuple):
    """How rotary positions turn `h` coordinates of queries and keys, an array `(h,)` per field.

    `partner`: the coordinate that each is turned with, `sign` the sign of that term. `exponent`: `s` in the angle
    `place · θ^−s`, infinite where nothing is turned.
    """

    partner: Ints
    sign: Floats
    exponent: Floats
    theta: float


class Linear:
    """`x → W x + b` with stored numbers.

    Rows and columns of zeros are left out, since a product with 0 adds nothing.
    """

    def __init__(self, weight: Floats, bias: Floats | None = None) -> None:
        self.bias = bias if bias is not None and bias.any() else None
        self.outputs = len(weight)
        self.rows, self.columns = np.flatnonzero(weight.any(axis=1)), np.flatnonzero(weight.any(axis=0))
        self.weight = np.ascontiguousarray(weight[np.ix_(self.rows, self.columns)])
        self.sizes, self.sums = np.abs(self.weight), np.abs(self.weight.sum(axis=1))
        self.terms = float(np.count_nonzero(self.weight, axis=1).max(initial=0))

    def __call__(self, x: Enclosed) -> Enclosed:
        """Lemma E1: each product passes at most as many roundings as its row has nonzero numbers, plus four."""
        shape, rounds = x.middle.shape, MORE * gamma_32(self.terms + 4.0)
        size, own, flat = (part.reshape(-1, shape[-1])[:, self.columns] for part in (x.size, x.radius, x.middle))
        middle, radius = np.zeros((2, len(flat), self.outputs))
        middle[:, self.rows] = flat @ self.weight.T
        radius[:, self.rows] = (own + rounds * size) @ self.sizes.T + x.shift.reshape(-1, 1) * self.sums
        middle, radius = (part.reshape(*shape[:-1], self.outputs) for part in (middle, radius))
        product = Enclosed.of(middle, radius, x.common)
        if self.bias is None:
            return product
        product = product.spread()
        return Enclosed.of(product.middle + self.bias, product.radius + rounds * np.abs(self.bias))


def add(x: Enclosed, y: Enclosed) -> Enclosed:
    """Lemma E2: the rounded sum of `x` and `y`. It keeps the common error of `x`, which `y` is divided by."""
    y = y.spread()
    radius = x.radius + (1.0 + MORE * x.common) * y.radius + MORE * x.common * np.abs(y.middle)
    return Enclosed.of(x.middle + y.middle, radius + MORE * UNIT_32 * (x.size + y.size), x.common, x.shift)


def centred(x: Enclosed, rms: bool) -> Enclosed:
    """What a norm multiplies: `x`, and in LayerNorm (not `rms`) `x` minus its mean.

    Subtracting the mean cancels the shift of `x`; the error of the computed mean is the new shift.
    """
    size, rounds = x.size, MORE * gamma_32(8.0)
    if rms:
        return Enclosed.of(x.middle, x.radius + rounds * size, x.common, x.shift)
    mean = x.middle.mean(axis=-1, keepdims=True)
    off = np.maximum(size.mean(axis=-1, keepdims=True), 0.5 * size.max(axis=-1, keepdims=True))
    shift = x.radius.mean(axis=-1, keepdims=True) + MORE**2 * (size.shape[-1] + 16.0) * UNIT_32 * off
    return Enclosed.of(x.middle - mean, x.radius + rounds * (size + np.abs(mean) + shift), x.common, shift)


def norm_factor(x: Enclosed, epsilon: float, rms: bool, along: Floats | None = None) -> tuple[Floats, Floats]:
    """The factor of a norm `(…, 1)`: the middle of all that it may be, and how far it may be off, relatively.

    `along`: a bound on the mean of `c · e`, `c` the centred middle; by default the one that follows from the radii.
    """
    D, size = x.middle.shape[-1], x.size
    mean = np.zeros(1) if rms else x.middle.mean(axis=-1, keepdims=True)
    middle, radius = np.abs(x.middle - mean), x.radius + x.shift if rms else x.radius
    lowered = np.zeros(1) if rms else radius.mean(axis=-1, keepdims=True)
    square = MORE**2 * mean_product(size, size)
    wrong = gamma_32(D + 32.0) * square
    if not rms:
        wrong = wrong + (1.5 * D + 32.0) * UNIT_32 * MORE * size.max(axis=-1, keepdims=True) * np.sqrt(square)
        wrong = wrong + 2.0 * (np.abs(mean) + lowered + x.shift) * centred(x, rms).shift
    variance, moved = mean_product(middle, middle), 2.0 * (mean_product(middle, radius) if along is None else along)
    high = variance + moved + mean_product(radius, radius) + epsilon
    least = np.maximum(middle - radius - lowered, 0.0)
    wrong = MORE * wrong + 2.2 * x.common * epsilon + 4.0 * UNIT_32 * high
    low = np.maximum(variance - moved, mean_product(least, least)) + epsilon - wrong
    known = low > 0.0
    least = 1.0 / np.sqrt(high + wrong)
    most = np.where(known, 1.0 / np.sqrt(np.where(known, low, 1.0)), least)
    return (most + least) / 2.0, np.where(known, (most - least) / (most + least), np.inf)


def norm(
    x: Enclosed, weight: Floats, bias: Floats, epsilon: float, rms: bool, scaled: tuple[Floats, Floats] | None = None
) -> Enclosed:
    """Lemma E3: LayerNorm, or with `rms` RMSNorm, which subtracts no mean.

    `scaled`: what `norm_factor` returns, if the caller knows a sharper one than follows from `x`.
    """
    factor, common = scaled or norm_factor(x, epsilon, rms)
    x, factor = centred(x, rms), factor * weight
    shift, even = np.abs(factor) * x.shift, np.ptp(weight) == 0.0
    radius = np.abs(factor) * x.radius + (0.0 if even else shift)
    normed = Enclosed.of(x.middle * factor, radius, common + 2.0 * gamma_32(8.0), shift[..., :1] if even else None)
    if not bias.any():
        return normed
    normed = normed.spread()
    return Enclosed.of(normed.middle + bias, normed.radius + MORE * UNIT_32 * (normed.size + np.abs(bias)))


def mean_product(a: Floats, b: Floats) -> Floats:
    """The mean over coordinates of the products of `a` and `b` `(…, D)`, as `(…, 1)`."""
    return np.asarray(np.einsum("...i,...i->...", a, b)[..., None] / a.shape[-1])


def turned(x: Enclosed, rotary: Rotary) -> Enclosed:
    """Rotary positions on `x` `(B, n, h)`: `x cos α ± x' sin α`, `x'` the partner of each coordinate.

    The relative error of `α = place · θ^−s` is that of pow, of a rounded exponent and of three more operations; cosine
    and sine have errors of their own.
    """
    partner, sign, exponent, theta = rotary
    speed = np.where(np.isfinite(exponent), theta ** -np.minimum(exponent, 1.0), 0.0)
    angle = np.arange(x.middle.shape[1], dtype=np.float64)[:, None] * speed
    off = (abs(np.log(theta)) + 2.0 * TURN_ULPS + 8.0) * UNIT_32 * np.abs(angle) + 2.0 * TURN_ULPS * UNIT_32
    cos, sin = np.cos(angle), sign * np.sin(angle)
    middle = x.middle * cos + x.middle[..., partner] * sin
    sizes = x.size + x.size[..., partner]
    radius = x.radius * np.abs(cos) + x.radius[..., partner] * np.abs(sin) + sizes * (off + MORE * gamma_32(4.0))
    return Enclosed.of(middle, radius, x.common)


def scores(q: Enclosed, k: Enclosed, scale: float) -> tuple[Floats, Floats]:
    """Lemma E4: products of queries `(B, m, h)` and keys `(B, n, h)`, times `scale`, and how far they may be off.

    Both results are `(B, m, n)`.
    """
    keys = k.middle.swapaxes(1, 2)
    middle = scale * (q.middle @ keys)
    together = q.common + k.common.swapaxes(1, 2) + q.common * k.common.swapaxes(1, 2)
    rounds = MORE * gamma_32(q.middle.shape[-1] + 16.0)
    inner = q.radius @ k.size.swapaxes(1, 2) + np.abs(q.middle) @ k.radius.swapaxes(1, 2)
    inner = scale * (MORE * inner + rounds * (q.size @ k.size.swapaxes(1, 2)))
    radius = PADDING * (inner + together * (np.abs(middle) + inner)) + FLUSHED_32
    return middle, radius


@dataclass(frozen=True, eq=False)
class Average:
    """Values averaged by a softmax: `found`, whose radius bounds each coordinate, and what bounds sums of coordinates.

    Three things may be off. The weights add `Σ η_l p_l (m_l − c)`, `|η_l| ≤ sway`; the common error of each value adds
    at most `grown Σ p_l t_l |m_l|`; and each coordinate by itself is off by at most `apart`.
    """

    found: Enclosed
    apart: Floats
    sway: Floats
    grown: Floats
    weight: Floats
    values: Enclosed

    def along(self, points: tuple[Ints, Ints], matrix: Floats) -> Floats:
        """How far `matrix` times the average may be off, at some points `(P, J)`.

        `points`: the sequence and the query of each point. `matrix`: `(J, k)`, or one per point `(P, J, k)`.
        """
        weight, columns = self.weight[points][:, None], np.swapaxes(matrix, -1, -2)
        height = self.values.middle[points[0]] @ columns
        swayed = self.sway[points] * (weight @ np.abs(height - weight @ height))[:, 0]
        grown = self.grown[points] * (weight @ (self.values.common[points[0]] * np.abs(height)))[:, 0]
        apart = (self.apart[points][:, None] @ np.abs(columns))[:, 0]
        return np.asarray(PADDING * (swayed + grown + apart))


def average(score: Floats, off: Floats, seen: Bools, v: Enclosed) -> Average:
    """Lemma E5: values `v` `(B, n, k)` averaged by a softmax of scores `(B, m, n)`, which are known to within `off`.

    `seen` `(m, n)`: the keys that each query may attend to.
    """
    n = score.shape[-1]
    largest = np.where(seen, np.abs(score) + off, 0.0).max(axis=-1, keepdims=True)
    if np.nanmax(largest, initial=0.0) > LARGEST_ENCLOSED_SCORE:
        raise UnhandledError(f"scores reach {np.nanmax(largest):.3g}; the bounds cover {LARGEST_ENCLOSED_SCORE:g}")
    weight = np.where(seen, np.exp(score - np.where(seen, score, -np.inf).max(axis=-1, keepdims=True)), 0.0)
    weight /= weight.sum(axis=-1, keepdims=True)
    # Relative error of one weight e^score before it is divided: its exponent, exp, and rescaling from block to block.
    exps = (4.0 * SHORT_EXP_ULPS + (2.0 + n / SOFTMAX_BLOCK) * (2.0 * SHORT_EXP_ULPS + 2.0)) * UNIT_32
    wrong = np.where(seen, off, 0.0).max(axis=-1, keepdims=True) + 8.0 * UNIT_32 * (1.0 + largest) + exps
    wrong = np.where(wrong <= 1.0, wrong, np.inf)
    sway, grown = PADDING * np.exp(wrong) * np.expm1(wrong), PADDING * np.exp(2.0 * wrong)
    middle = weight @ v.middle
    squares = weight @ (v.middle * v.middle)
    swayed = sway * np.sqrt(np.maximum(squares - middle * middle, 0.0) + 2.0**-40 * squares)
    apart = grown * (
        weight @ (v.radius * (1.0 + v.common) + MORE * gamma_32(2.0 * n + 64.0) * v.size * (1.0 + v.common))
    )
    averaged = Enclosed.of(middle, swayed + grown * (weight @ (v.common * np.abs(v.middle))) + apart)
    return Average(averaged, apart, sway, grown, weight, v)
