"""Theorem 2's constants, a direction that meets them, and Corollary 1's parameter count.

The head scores `β (vᵀx_k)(vᵀx_l)` for a unit vector `v`, averages `vᵀx_l`, and writes `ε/(4 r_max)` times
that along `v`. Let `g` be a lower bound of `|vᵀx_k| |vᵀ(x_l − x_m)|` over tokens and pairs of different
tokens, and `S` an upper bound of `|vᵀx|`. With `β = (2 ln n + 3)/g` Lemma 1 applies to the scores, all at
most `β S²`, and since `boltz(λs) = λ B(λ; s)` with `|λ| ≤ β S`, different contexts of one token are more
than

    δ = ε/(4 r_max) · (ln n)² e^{−2βS²} / (β S)

apart. Outputs stay below `r = r_max + ε/4`, and different tokens stay more than `ε/2` apart.

Our Lemma 1 (docs/theorems.md) asks for scores 2 apart, whatever n is and whether or not sequences have one length, and
keeps Boltzmann values of scores of size ρ more than `ρ e^{−2ρ}` apart. With `β = 2/g`, so `ρ = β S²`, that is

    δ = ε/(4 r_max) · S e^{−2βS²}

The paper's Lemma 1 follows from it, also for different lengths, if one context has n different tokens. So under a
causal mask, where the contexts are prefixes, the constants are the same, with n the length of the longest sequence.

The paper takes the worst case: `S = r_max`, and `g = c² ε r_min` with `c = (|V|+1)^{-2} √(8/(πd))`, since
some unit `v` has `|vᵀ(x − y)| ≥ c ‖x − y‖` for all `x, y ∈ V ∪ {0}` (Park et al. 2021). It is soon found.
For a uniform unit `v` and a unit `u`, `P(|vᵀu| < t) ≤ t √(2d/π)`: the density of `vᵀu` is at most
`√(d/(2π))` for d ≥ 3, and d ≤ 2 is direct. Over `|V|(|V|+1)/2` pairs a draw fails with probability at most
`2/π · |V|/(|V|+1)`, so 64 draws with less than 10^-12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.theory.balls import Ball
from monolayer.theory.separation import norms

DIRECTIONS = 64


@dataclass(frozen=True)
class MappingConstants:
    """Constants of an (r, δ)-contextual mapping: ln β, r, and ln δ (−inf for n = 1, where ln n = 0)."""

    log_beta: float
    r: float
    log_delta: float

    @property
    def log10_beta(self) -> float:
        """The decimal logarithm of β."""
        return self.log_beta / math.log(10)

    @property
    def log10_delta(self) -> float:
        """The decimal logarithm of δ."""
        return self.log_delta / math.log(10)

    @property
    def bits(self) -> int | None:
        """Bits of a significand whose spacing at `r` is at most δ: `⌈log2(2r/δ)⌉`; None where δ = 0."""
        if math.isinf(self.log_delta):
            return None
        return math.ceil((math.log(2 * self.r) - self.log_delta) / math.log(2))


def good_direction_bound(vocabulary: int, d: int) -> float:
    """`c = (|V|+1)^{-2} √(8/(πd))`: some unit `v` keeps this share of every distance."""
    return math.sqrt(8 / (math.pi * d)) / (vocabulary + 1) ** 2


def contextual_constants(n: int, g: Ball, S: Ball, r_max: float, epsilon: float) -> tuple[Ball, Ball]:
    """β and ln δ for a direction with these `g` and `S`, enclosed at the precision in force."""
    log_n = arb(n).log()
    beta = (2 * log_n + 3) / g
    if n == 1:
        return beta, arb.neg_inf()
    return beta, 2 * log_n.log() - 2 * beta * S**2 + (arb(epsilon) / (4 * arb(r_max) * beta * S)).log()


def sharper_constants(n: int, g: Ball, S: Ball, r_max: float, epsilon: float) -> tuple[Ball, Ball]:
    """β and ln δ by our Lemma 1, for sequences of at most `n` tokens: scores need not be further apart for larger n."""
    beta = 2 / arb(g)
    if n == 1:
        return beta, arb.neg_inf()
    return beta, (arb(epsilon) * S / (4 * arb(r_max))).log() - 2 * beta * S**2


def theorem2(vocabulary: int, d: int, n: int, r_min: float, r_max: float, epsilon: float) -> tuple[Ball, Ball]:
    """The paper's β and ln δ, the worst case over directions, enclosed at the precision in force."""
    for name, value in {"r_min": r_min, "r_max": r_max, "epsilon": epsilon}.items():
        if not (value > 0 and math.isfinite(value)):
            raise DataError(f"Theorem 2 needs {name} > 0 and finite, but {name} = {value}")
    g = 8 / (arb.pi() * d) / arb(vocabulary + 1) ** 4 * epsilon * r_min
    return contextual_constants(n, g, arb(r_max), r_max, epsilon)


def corollary1_counts(points: int, d: int, labels: int = 1, s: int = 1) -> tuple[int, int]:
    """Corollary 1 on `M` labelled points in `R^d` with `m` label coordinates: parameters, and numbers of a dense pass.

    Its readout has, for each label coordinate, a neuron per point: `relu(aᵀx − b_j)` with output weight `w_j`. The
    formula counts the direction `a` once and four matrices of rank 1 by their factors: `4(s+d) + m(2M + d)`, which is
    `4(s+d) + d(2nN+d)` for `M = nN` and `m = d`. Written out, `a` stands in `M` rows: `4sd + m M(d + 2)`.
    """
    return 4 * (s + d) + labels * (2 * points + d), 4 * s * d + labels * points * (d + 2)


@dataclass(frozen=True, eq=False)
class Direction:
    """A unit `v` `(d,)`, its `smallest` and `largest` `|vᵀx|`, and the `gap` between values.

    The smallest is over nonzero tokens. The three numbers are floats, off by rounding.
    """

    v: Floats
    smallest: float
    gap: float
    largest: float

    @property
    def g(self) -> float:
        """`min |vᵀx_k| |vᵀ(x_l − x_m)|`, the measured counterpart of `c² ε r_min`."""
        return self.smallest * self.gap


def measured_direction(vocabulary: Floats, v: Floats) -> Direction:
    """What the unit vector `v` makes of the vocabulary `(V, d)`: O(|V| log |V|)."""
    s = vocabulary @ v
    size = np.abs(s)
    nonzero = norms(vocabulary) > 0
    gap = float(np.diff(np.sort(s)).min(initial=np.inf))
    return Direction(v, float(size[nonzero].min(initial=np.inf)), gap, float(size.max()))


def good_direction(vocabulary: Floats, *, seed: int = 0) -> Direction:
    """The best of 64 uniform unit directions: that with the largest `g / S²`, hence the largest δ."""
    d = vocabulary.shape[1]
    if d == 1:
        return measured_direction(vocabulary, np.ones(1))
    v = np.random.default_rng(seed).standard_normal((DIRECTIONS, d))
    drawn = [measured_direction(vocabulary, each / float(np.linalg.norm(each))) for each in v]
    return max(drawn, key=lambda one: one.g / one.largest / one.largest if one.largest > 0 else 0.0)
