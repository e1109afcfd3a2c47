"""The Boltzmann operator, which Lemma 1 and Theorem A are about.

    boltz(a) = Σ a_i e^{a_i} / Σ e^{a_i}             B(λ; s) = Σ s_l e^{λ s_l} / Σ e^{λ s_l}

`λ B(λ; s) = boltz(λ s)`; `B` rises in `λ` from `min s` over the mean (λ = 0) to `max s`. The identities and
inequalities of docs/theorems.md are in test_boltzmann.py.

Vectors run along the last axis; everything else broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from monolayer.theory.balls import Ball


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
