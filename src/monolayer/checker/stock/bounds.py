"""How far rounding can move what the neurons of a stock folder read. Lemmas S1 to S4 of docs/proofs-stock.md.

Notation: `D` width, `u`, `τ`, `γ_k`, `g` as in `rounding.py`; `K` squared norm and `X` largest coordinate of a stream
vector; `f = 1/√(K/D + ε)` the first norm's factor, `F` the second's; `S ≥ |s|` for every key, `λ`, `ω` temperature and
what attention writes; `n` terms of a softmax. True values are those of exact arithmetic on the stored numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.rounding import BINARY64, EXP_ULPS, PADDING, UnhandledError
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.structure import Structure

UNIT_64, TINY, gamma_64 = BINARY64.unit, BINARY64.tiny, BINARY64.gamma
MEAN, VARIANCE = 2.0, 8.0
"""Assumed of LayerNorm: its mean within `2 D u X`, its variance within `8 D u X²` of the true ones."""
SOFTMAX_BLOCK = 16
"""Assumed of a softmax in blocks: each has at least so many keys, so sums are rescaled at most `1 + n/16` times."""
SMALL_ERROR = 2.0**-22
"""Largest relative error that is covered, so that `PADDING` covers products of such errors."""
STOCK_UNDERFLOW = 2.0**-600
"""Bounds what numbers flushed to zero do: fewer than 2^60 of them, each below `τ`, times at most 2^320."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """The factor of the first norm, and bounds on errors.

    `context` and `feature` have an entry per number of terms of the softmax, `(1 + longest,)`.
    """

    first: float
    """`f`: the factor of the first norm."""
    norm: float
    """Squared norm of the stream that attention adds to."""
    one: float
    """Absolute value of `one` and of the coordinates of words in that stream."""
    context: Floats
    """Bound on `|ĝ − g|`, the error of what attention writes."""
    feature: Floats
    """Bound on `|ψ̂ − ψ|`, the error of what a neuron reads, bias included, divided by its slope."""
    other: float
    """Bound on the relative error of a word that does not fit: `2^-20`."""
    label: float
    """Bound on the error of a label coordinate that the stream brings to the neurons."""
    largest: float
    """Bound on every coordinate that enters the last norm, except label columns."""

    def factor(self, g: Floats, net: Network) -> Floats:
        """`F(g)`, the factor of the second norm, where attention writes `g` `(M,)`."""
        bound: Floats = 1.0 / np.sqrt((self.norm + 2.0 * g * g) / net.width + net.epsilon)
        return bound


def norm_error(width: int, largest: float, variance: float, moved: float) -> float:
    """Lemma S1: bound on the relative error of a norm's factor.

    `largest`: of the coordinates that enter. `variance`: with ε added, itself off by at most `moved`.
    """
    square = largest * largest  # a power raises an error where a product is infinite
    share = (VARIANCE * width * UNIT_64 * square + moved) / variance
    if not share <= 0.25:
        raise UnhandledError("the variance in a norm is too small for its rounding error")
    return float(PADDING * (share + gamma_64(8.0)))


def bounds(net: Network, structure: Structure, longest: int, thresholds: float) -> Bounds:
    """All bounds for one folder, by Lemmas S1 to S4.

    `longest`: most terms that a softmax has. `thresholds`: bounds `|b_j / w_j|` over all neurons.
    """
    D, eps, X = net.width, net.epsilon, structure.largest
    low, high = structure.norm[0] * (1.0 - 2.0 * gamma_64(D + 2.0)), structure.norm[1] * (1.0 + 2.0 * gamma_64(D + 2.0))
    K = 0.5 * (structure.norm[0] + structure.norm[1])
    variance = low / D + eps
    spread = PADDING * (high - low) / D
    first = 1.0 / np.sqrt(K / D + eps)

    # The first norm: one factor for all tokens, wrong by `one_factor`; means cancel in every pair (Lemma S2).
    one_factor = norm_error(D, X, variance, 0.0) + PADDING * spread / variance
    mean = PADDING * MEAN * D * UNIT_64 * X
    S = float(np.abs(structure.key).max() + np.abs(structure.place_key).max())
    key_error = PADDING * first * (one_factor * S + 2.0 * gamma_64(12.0) * (S + 2.0 * mean))
    keys = PADDING * first * S + key_error

    # Attention (Lemma S3).
    R = PADDING * abs(structure.query) * keys
    sizes = (keys, abs(structure.write), structure.gate * structure.signs, structure.largest)
    if not (BINARY64.largest_score >= R and max(sizes) <= 2.0**20 and longest < 2**31):
        numbers = f"scores reach {R:.3g}, keys {keys:.3g}, and sequences {longest:,} tokens"
        raise UnhandledError(f"{numbers}, beyond what the bound covers")
    n = np.maximum(np.arange(longest + 1.0), 1.0)
    weight = 16.0 * R + 2.0 * EXP_ULPS + (2.0 + n / SOFTMAX_BLOCK) * (2.0 * EXP_ULPS + 2.0)
    above, below = gamma_64(n + 6.0 + weight), gamma_64(n + weight)
    operator = keys * (above + below) / (1.0 - below) + (1.0 + 2.0 * R) * key_error
    context: Floats = PADDING * abs(structure.write) * operator + STOCK_UNDERFLOW
    most = PADDING * abs(structure.write) * keys + float(context.max())

    # The second norm (Lemma S4). `moved`: how far a coordinate that it sees is from the true one.
    scale = first if net.architecture.post_norm else 1.0
    here = PADDING * max(scale * X, most)
    moved = float(context.max())
    if net.architecture.post_norm:
        moved += PADDING * (scale * ((one_factor + 2.0 * gamma_64(8.0)) * X + 2.0 * mean) + 2.0 * UNIT_64 * most)
    norm = K * scale * scale
    least = low * scale * scale * (1.0 - 2.0 * SMALL_ERROR) / D + eps
    second = norm_error(D, here + moved, least, 2.0 * here * moved + 2.0 * moved**2 + spread * scale * scale)
    if not max(one_factor, second) <= SMALL_ERROR:
        raise UnhandledError(f"norms err by {max(one_factor, second):.3g}, more than the proofs allow")
    F = PADDING / np.sqrt(least)
    one = structure.size * scale
    mean_2 = PADDING * MEAN * D * UNIT_64 * (here + moved)
    terms = (
        2.0 * structure.gate * structure.signs * one + most + (2.0 * structure.gate * structure.signs + 1.0) * mean_2
    )
    rounding = 2.0 * gamma_64(D + 24.0) * terms
    dot = float(PADDING * (1.01 * F * rounding + gamma_64(D + 8.0) * (thresholds + F * most)))
    feature: Floats = PADDING * (F * (second * most + 1.01 * context) + dot) + STOCK_UNDERFLOW
    label = (
        PADDING * F * (2.0 * moved + 2.0 * mean_2 + (second + gamma_64(8.0)) * here)
        if net.architecture.post_norm
        else 0.0
    )
    largest = PADDING * (here + moved) * (F if net.architecture.post_norm else 1.0)
    return Bounds(float(first), norm, one, context, feature, 2.0**-20, float(label), float(largest))
