"""The Boltzmann operator, and Lemma 1: it keeps vectors apart.

    boltz(a) = Σ a_i e^{a_i} / Σ e^{a_i}             B(λ; s) = Σ s_l e^{λ s_l} / Σ e^{λ s_l}

`λ B(λ; s) = boltz(λ s)`. Write `p = softmax(a)`, `Z = Σ e^{a_i}` and `S = −Σ p_i ln p_i`. Then

    boltz(a) = ln Z − S                               so max a − ln n ≤ boltz(a) ≤ max a
    ∂boltz/∂a_i = p_i (1 + a_i − boltz(a))            negative for a_i < max a − ln n − 1
    ∂²boltz/∂a_i² = p_i (1 + (1 − 2p_i)(1 + a_i − boltz(a)))      negative for a_i < max a − ln n − 3
    dB/dλ = Var_p(s) ≥ 0                              B(0) = mean s, B(±∞) = max s, min s

Vectors run along the last axis; everything else broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from monolayer.arrays import Floats
from monolayer.theory.balls import Ball


def softmax(a: ArrayLike) -> Floats:
    """`p`, shifted by the maximum so that nothing overflows."""
    a = np.asarray(a, dtype=np.float64)
    weights = np.exp(a - a.max(axis=-1, keepdims=True))
    p: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return p


def boltz(a: ArrayLike) -> Any:
    """`boltz(a)` over the last axis: the mean of `a` under its own softmax."""
    a = np.asarray(a, dtype=np.float64)
    top = a.max(axis=-1, keepdims=True)
    # Averaging a − max, not a: near the maximum this keeps the small digits that tell contexts apart.
    return top[..., 0] + (softmax(a) * (a - top)).sum(axis=-1)


def boltzmann(lam: ArrayLike, s: ArrayLike) -> Any:
    """`B(λ; s)`: `lam` broadcasts against `s` `(..., n)` without its last axis; `±inf` gives max and min."""
    s = np.asarray(s, dtype=np.float64)
    ahead = np.asarray(lam, dtype=np.float64)[..., None] >= 0
    # Measured from the heaviest entry: exact in the limits, and the small digits survive near them.
    anchor = np.where(ahead, s.max(axis=-1, keepdims=True), s.min(axis=-1, keepdims=True))
    return anchor[..., 0] + (_weights(lam, s) * (s - anchor)).sum(axis=-1)


def boltzmann_slope(lam: ArrayLike, s: ArrayLike) -> Any:
    """`dB/dλ = Var_p(s)`."""
    s = np.asarray(s, dtype=np.float64)
    mean = np.asarray(boltzmann(lam, s))[..., None]
    return (_weights(lam, s) * (s - mean) ** 2).sum(axis=-1)


def _weights(lam: ArrayLike, s: Floats) -> Floats:
    """softmax(λ s); at λ = ±inf the limit, equal weights on the largest (smallest) entries."""
    lam = np.asarray(lam, dtype=np.float64)[..., None]
    infinite = np.isinf(lam)
    scores = np.where(infinite, 0.0, lam) * s
    if not infinite.any():
        return softmax(scores)
    ahead = np.sign(lam) * s
    scores = np.where(infinite & (ahead < ahead.max(axis=-1, keepdims=True)), -np.inf, scores)
    return softmax(scores)


# -- free energy and derivatives -----------------------------------------------------------------------


def log_partition(a: ArrayLike) -> Any:
    """`ln Z`."""
    a = np.asarray(a, dtype=np.float64)
    top = a.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(a - top).sum(axis=-1))


def entropy(a: ArrayLike) -> Any:
    """`S`, the entropy of `softmax(a)` in nats, from its definition."""
    p = softmax(a)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def free_energy(a: ArrayLike) -> Any:
    """`ln Z − S`, which equals `boltz(a)`."""
    return log_partition(a) - entropy(a)


def boltz_gradient(a: ArrayLike) -> Floats:
    """`∂boltz/∂a_i`, in the shape of `a`."""
    a = np.asarray(a, dtype=np.float64)
    gradient: Floats = softmax(a) * (1 + a - np.asarray(boltz(a))[..., None])
    return gradient


def boltz_curvature(a: ArrayLike) -> Floats:
    """`∂²boltz/∂a_i²`, in the shape of `a`."""
    a = np.asarray(a, dtype=np.float64)
    p = softmax(a)
    curvature: Floats = p * (1 + (1 - 2 * p) * (1 + a - np.asarray(boltz(a))[..., None]))
    return curvature


def decreasing_below(a: ArrayLike) -> Any:
    """`max a − ln n − 1`: `boltz` decreases in every entry below it."""
    a = np.asarray(a, dtype=np.float64)
    return a.max(axis=-1) - math.log(a.shape[-1]) - 1


def concave_below(a: ArrayLike) -> Any:
    """`max a − ln n − 3`: `boltz` is concave in every entry below it."""
    return decreasing_below(a) - 2


# -- Lemma 1 -------------------------------------------------------------------------------------------


def lemma1_gap(n: int) -> float:
    """`2 ln n + 3`: the distance that Lemma 1 asks of any two different entries."""
    return 2 * math.log(n) + 3


def log_lemma1_separation(n: int, r: float) -> float:
    """`ln((ln n)² e^{−2r})`, for the `r` of theorems, whose exponential no float holds."""
    return 2 * math.log(math.log(n)) - 2 * r if n > 1 else -math.inf


def lemma1_separation(n: int, r: float) -> float:
    """`(ln n)² e^{−2r}`: under Lemma 1's hypotheses, boltz of two vectors differs by more than this."""
    return math.log(n) ** 2 * math.exp(-2 * r)


def lemma1_hypotheses(a: ArrayLike, r: float) -> tuple[str, ...]:
    """What keeps Lemma 1 from holding for the vectors `a` `(m, n)`, in words; empty if nothing does.

    The differences of neighbours are rounded, so a gap within an ulp of the limit may be judged either way.
    """
    a = np.atleast_2d(np.asarray(a, dtype=np.float64))
    broken = []
    ordered = np.sort(a, axis=1)
    repeats = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(repeats):
        broken.append(f"vector {int(repeats[0])} repeats an entry")
    if np.abs(a).max() > r:
        row, column = np.unravel_index(int(np.abs(a).argmax()), a.shape)
        broken.append(f"entry {int(column)} of vector {int(row)} is {a[row, column]:.6g}, beyond r = {r:.6g}")
    values = np.unique(a)
    gaps = np.diff(values)
    if len(gaps) and gaps.min() <= lemma1_gap(a.shape[1]):
        at = int(gaps.argmin())
        broken.append(
            f"the entries {values[at]:.6g} and {values[at + 1]:.6g} are {gaps[at]:.6g} apart, "
            f"not more than 2 ln n + 3 = {lemma1_gap(a.shape[1]):.6g}"
        )
    return tuple(broken)


# -- in balls ------------------------------------------------------------------------------------------


def boltz_ball(a: Sequence[Ball]) -> Ball:
    """`boltz(a)` enclosed, at the precision in force; Lemma 1's values need about `2 max|a| / ln 2` bits."""
    return boltzmann_ball(1, a)


def boltzmann_ball(lam: Ball, s: Sequence[Ball]) -> Ball:
    """`B(λ; s)` enclosed, at the precision in force."""
    lam, s = arb(lam), [arb(value) for value in s]
    # Any shift leaves B as it is; this one keeps the sums between 1 and n.
    shift = max((lam * value).mid() for value in s)
    weights = [(lam * value - shift).exp() for value in s]
    return sum((weight * value for weight, value in zip(weights, s, strict=True)), arb(0)) / sum(weights, arb(0))
