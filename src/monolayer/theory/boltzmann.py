"""The Boltzmann operator, which Lemma 1 and Theorem A are about.

    boltz(a) = Σ a_i e^{a_i} / Σ e^{a_i}             B(λ; s) = Σ s_l e^{λ s_l} / Σ e^{λ s_l} = d/dλ ln Σ e^{λ s_l}

`λ B(λ; s) = boltz(λ s)`; `B` rises in `λ` from `min s` over the mean (λ = 0) to `max s`. The identities and
inequalities of docs/theorems.md and docs/softmax.md are in test_boltzmann.py.

Vectors run along the last axis; everything else broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, arb_series
from numpy.typing import ArrayLike

from monolayer.theory.balls import Ball, series_terms


def boltz(a: ArrayLike) -> Any:
    """`boltz(a)` over the last axis: the mean of `a` under its own softmax."""
    return boltzmann(1.0, a)


def boltzmann(lam: ArrayLike, s: ArrayLike) -> Any:
    """`B(λ; s)`: `lam` broadcasts against `s` `(..., n)` without its last axis; `±inf` gives max and min."""
    lam, s = np.asarray(lam, dtype=np.float64)[..., None], np.asarray(s, dtype=np.float64)
    # Measured from the heaviest entry: exact in the limits, and the small digits that tell contexts apart survive.
    below = s - np.where(lam >= 0, s.max(axis=-1, keepdims=True), s.min(axis=-1, keepdims=True))
    with np.errstate(invalid="ignore"):  # inf · 0, at the heaviest entries
        weights = np.exp(np.where(below == 0, 0.0, lam * below))
    heaviest = (s - below)[..., 0]
    return heaviest + (weights * below).sum(axis=-1) / weights.sum(axis=-1)


def boltzmann_ball(lam: Ball, s: Sequence[Ball]) -> Ball:
    """`B(λ; s)` enclosed, at the precision in force; Lemma 1's values need about `2 max|λs| / ln 2` bits."""
    lam, s = arb(lam), [arb(value) for value in s]
    # Any shift leaves B as it is; this one keeps the sums between 1 and n.
    shift = max((lam * value).mid() for value in s)
    weights = [(lam * value - shift).exp() for value in s]
    return sum((weight * value for weight, value in zip(weights, s, strict=True)), arb(0)) / sum(weights, arb(0))


def cumulants(lam: Ball, s: Sequence[Ball], order: int) -> list[Ball]:
    """`K'(λ), …, K^(order)(λ)` enclosed, for `K(λ) = ln Σ e^{λ s_l}`: `B(λ; s)`, the variance of `s`, and so on.

    They are the cumulants of `s` under `softmax(λ s)`; at `λ = 0`, those of a value drawn from `s` uniformly.
    """
    lam, s = arb(lam), [arb(value) for value in s]
    shift = max((lam * value).mid() for value in s)
    # A(λ + h) up to h^order. Its constant term is divided out: the logarithm of 1 + … needs no more room than that.
    terms = [((lam * value - shift).exp(), value) for value in s]
    moments = [sum((w * x**j for w, x in terms), arb(0)) / math.factorial(j) for j in range(order + 1)]
    with series_terms(order + 1):
        log = arb_series([moment / moments[0] for moment in moments]).log()
        return [log[j] * math.factorial(j) for j in range(1, order + 1)]


def polynomial_of_cumulants(cumulants: Sequence[Ball]) -> list[Ball]:
    """The coefficients, the constant one first, of `Π (x − s_l)` for `n` numbers with these cumulants at `λ = 0`.

    `n` is the number of cumulants: as many determine the numbers, as a multiset.
    """
    n = len(cumulants)
    with series_terms(n + 1):
        log = arb_series([0, *(kappa / math.factorial(j) for j, kappa in enumerate(cumulants, 1))])
        moments = log.exp()
        # Newton: Π (1 − s_l z) = exp(−Σ_j p_j z^j/j), with the power sums p_j = n j! [h^j] e^{K(h)}/n.
        powers = arb_series([0, *(-n * math.factorial(j - 1) * moments[j] for j in range(1, n + 1))]).exp()
        return [powers[n - j] for j in range(n + 1)]


def largest_shortfall(n: int) -> Ball:
    """The largest `max a − boltz(a)` of `n` numbers: `W((n − 1)/e)`, Lambert's `W`. It is at most `ln n`."""
    return (arb(n - 1) * arb(-1).exp()).lambertw()
