"""Theorem D (docs/uniform.md): without a first block one head leaves most of `cos 2πK(y − z)`, and two heads nothing.

Notation of the proof: own token 0, the others `a` and `b`; `t = B(λ; 0, a, b)`, `Z = 1 + e^{λa} + e^{λb}`, `w = a − b`,
`1/ρ = 1 − (1 − λt)/Z`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.theory.balls import precision
from monolayer.theory.boltzmann import boltzmann

numbers = st.fractions(Fraction(0), Fraction(1), max_denominator=10**6)


def context(lam: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """`t` and `Z` in balls."""
    first, second = (lam * a).exp(), (lam * b).exp()
    return (a * first + b * second) / (1 + first + second), 1 + first + second


@given(st.lists(numbers, min_size=2, max_size=5), numbers, numbers, st.floats(-10.0, 9.0))
@settings(max_examples=25, deadline=None)
def test_with_more_tokens_the_density_is_a_function_of_z_along_a_level_and_at_most_half_of_n(
    fixed: list[Fraction], above: Fraction, more: Fraction, size: float
) -> None:
    """In balls, for `z ≤ y` above the fixed tokens: the slope when both move, and that `Z` falls along a level."""
    with precision(400):
        lam, step, z = arb(2) ** arb(size), arb(2) ** -100, max(fixed) + above
        F = [arb(each.numerator) / each.denominator for each in fixed]
        low, high = (arb(each.numerator) / each.denominator for each in (z, z + more))

        def at(y: Any, z: Any) -> tuple[Any, Any]:
            tokens = [*F, y, z]
            weights = [(lam * each).exp() for each in tokens]
            return sum(w * each for w, each in zip(weights, tokens, strict=True)) / sum(weights), sum(weights)

        t, Z = at(high, low)
        ZF, SF = sum((lam * s).exp() for s in F), sum(s * (lam * s).exp() for s in F)
        slope = (Z - ZF * (1 - lam * t) - lam * SF) / Z
        rise = (at(high + step, low + step)[0] - at(high - step, low - step)[0]) / (2 * step)
        assert abs(rise - slope) < arb(2) ** -120
        assert slope > arb(2) / (len(fixed) + 2) - arb(2) ** -300
        t_y, t_z = ((lam * each).exp() * (1 + lam * (each - t)) / Z for each in (high, low))
        assert (lam * high).exp() * t_z - (lam * low).exp() * t_y < arb(2) ** -200 * Z


def seen(lam: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return boltzmann(np.full(a.shape, lam), np.stack([np.zeros_like(a), a, b], axis=-1))


@given(numbers, numbers, st.booleans(), st.floats(-10.0, 12.0))
@settings(max_examples=40, deadline=None)
def test_the_density_is_what_the_proof_says_and_at_most_five_halves(
    a: Fraction, b: Fraction, below: bool, size: float
) -> None:
    """In balls: `1/ρ` is the slope of the context when both others move, where one of them is above the own token."""
    with precision(400):
        ends = [arb(each.numerator) / each.denominator for each in (a, b)]
        one, two, lam, step = ends[0], -ends[1] if below else ends[1], arb(2) ** arb(size), arb(2) ** -100
        t, Z = context(lam, one, two)
        slope = 1 - (1 - lam * t) / Z
        rise = (context(lam, one + step, two + step)[0] - context(lam, one - step, two - step)[0]) / (2 * step)
        assert abs(rise - slope) < arb(2) ** -120
        assert arb(2) / 5 < slope
        assert slope < 1 + arb(-1).exp()


@pytest.mark.parametrize("x", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("lam", [0.0, 0.5, 3.0, 10.0, 60.0])
def test_levels_meet_at_most_four_stretches_along_which_the_density_is_monotone(x: float, lam: float) -> None:
    w, r = np.linspace(0.0, 1.0, 4001), 1 - x
    low, high = seen(lam, np.maximum(0.0, w - x), np.maximum(0.0, w - x) - w), seen(lam, np.full_like(w, r), r - w)
    for end in (low, high):  # falls, then rises
        rising = np.diff(end) > 1e-14
        assert not (np.diff(end)[rising.argmax() :] < -1e-14).any() or not rising.any()
    # Along a level, from its steps in w and the implicit derivative: Z falls.
    a, b = np.meshgrid(np.linspace(0.0, r, 60), np.linspace(-x, r, 60))
    a, b = a[a > b], b[a > b]
    t, Z = seen(lam, a, b), 1 + np.exp(lam * a) + np.exp(lam * b)
    along = [np.exp(lam * each) * (1 + lam * (each - t)) for each in (a, b)]
    assert (sum(along) > 0).all()
    fall = lam * (np.exp(lam * a) * along[1] - np.exp(lam * b) * along[0]) / (Z * sum(along))
    assert (fall <= 1e-12 * Z).all()


def test_no_temperature_of_one_head_does_better_than_the_bound() -> None:
    """A sampled estimate of what is left, over the temperature chosen anew at every own token."""
    K, random = 40, np.random.default_rng(0)
    y, z = random.random((2, 20_000))
    f = np.cos(2 * math.pi * K * (y - z))
    left = []
    for x in np.linspace(0.1, 0.9, 5).tolist():
        every = [sign * size for sign in (-1.0, 1.0) for size in (0.0, 1.0, 4.0, 15.0, math.inf)]
        orders = [np.argsort(seen(lam, y - x, z - x), kind="stable") for lam in every]
        left.append(min(float(np.square(np.diff(f[order])).mean()) / 2 for order in orders))
    assert np.mean(left) > 5 / 24 - 4 / K
    assert np.mean(left) > 0.4  # of 1/2: the bound is not sharp
    difference = np.argsort(np.abs(y - z))  # by a context that holds the difference: the estimate can fall
    assert np.square(np.diff(f[difference])).mean() / 2 < 1e-3


def test_two_heads_know_the_other_tokens() -> None:
    """At equal sums the context at λ = ½ grows with the distance of the two, strictly."""
    for x in (0.0, 0.3, 1.0):
        for total in (0.2, 1.0, 1.7):
            w = np.linspace(0.0, min(total, 2 - total), 200)
            assert (np.diff(seen(0.5, (total + w) / 2 - x, (total - w) / 2 - x)) > 0).all()
