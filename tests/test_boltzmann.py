"""The Boltzmann operator against balls, and the identities and inequalities that docs/theorems.md states of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.theory.balls import interval, precision
from monolayer.theory.boltzmann import boltz, boltzmann, boltzmann_ball

entries = st.floats(-30, 30, allow_nan=False, width=32)
vectors = st.lists(entries, min_size=1, max_size=6)


def softmax(a: np.ndarray) -> np.ndarray:
    weights = np.exp(a - a.max())
    return weights / weights.sum()


def derivatives(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivative of boltz in each entry, by the formulas."""
    p, q = softmax(a), 1 + a - boltz(a)
    return p * q, p * (1 + (1 - 2 * p) * q)


def central(f, h: float = 2.0**-40) -> tuple[float, float]:
    """First and second derivative of `f` at 0, in 300 bits: off by O(h²)."""
    with precision(300):
        left, middle, right = f(-arb(h)), f(arb(0)), f(arb(h))
        return float((right - left) / (2 * h)), float((right - 2 * middle + left) / arb(h) ** 2)


def test_precision_is_scoped_even_when_the_block_fails_and_intervals_enclose():
    before = ctx.prec
    with precision(before + 100):
        assert ctx.prec == before + 100
    with pytest.raises(ZeroDivisionError), precision(before + 100):
        _ = 1 // 0
    assert ctx.prec == before
    low, high = interval(arb(1) / 3)
    with precision(200):
        assert arb(low) < arb(1) / 3 < arb(high)


@settings(max_examples=30)
@given(vectors, st.floats(-20, 20, width=32))
def test_floats_agree_with_balls_and_lambda_B_is_boltz_of_lambda_s(s, lam):
    with precision(300):
        exact = boltzmann_ball(arb(lam), s)
        difference = arb(lam) * exact - boltzmann_ball(1, [arb(lam) * arb(x) for x in s])
    assert abs(float(difference)) < 1e-60
    assert boltzmann(lam, s) == pytest.approx(float(exact), rel=1e-12, abs=1e-12)
    assert lam * boltzmann(lam, s) == pytest.approx(boltz(lam * np.array(s)), rel=1e-12, abs=1e-11)


@settings(max_examples=30)
@given(vectors)
def test_boltz_is_a_free_energy_so_it_lies_within_ln_n_of_the_maximum(a):
    a = np.array(a)
    log_partition = a.max() + np.log(np.exp(a - a.max()).sum())
    p = softmax(a)
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum()
    assert boltz(a) == pytest.approx(log_partition - entropy, abs=1e-12)
    assert a.max() - math.log(len(a)) - 1e-12 <= boltz(a) <= a.max() + 1e-12


@settings(max_examples=30)
@given(vectors, st.integers(0, 5))
def test_gradient_and_curvature_are_those_of_the_balls_and_negative_below_the_thresholds(a, place):
    place %= len(a)
    first, second = central(lambda h: boltzmann_ball(1, [arb(x) + (h if i == place else 0) for i, x in enumerate(a)]))
    a = np.array(a)
    gradient, curvature = derivatives(a)
    assert gradient[place] == pytest.approx(first, rel=1e-9, abs=1e-12)
    assert curvature[place] == pytest.approx(second, rel=1e-6, abs=1e-12)
    threshold, seen = a.max() - math.log(len(a)) - 1, softmax(a) > 0
    assert (gradient[(a < threshold) & seen] < 0).all()
    assert (curvature[(a < threshold - 2) & seen] < 0).all()


def test_the_thresholds_are_not_idle():
    assert (derivatives(np.array([0.0, -0.5]))[0] > 0).all()  # the largest entry and one close below it pull boltz up
    gradient, curvature = derivatives(np.array([0.0, -1.7]))
    assert gradient[1] < 0 < curvature[1]  # decreasing, not yet concave


@settings(max_examples=30)
@given(vectors, st.floats(-5, 5, width=32))
def test_slope_of_B_is_the_variance(s, lam):
    first, _ = central(lambda h: boltzmann_ball(arb(lam) + h, s))
    s = np.array(s)
    variance = (softmax(lam * s) * (s - boltzmann(lam, s)) ** 2).sum()
    assert variance == pytest.approx(first, rel=1e-9, abs=1e-11)


@settings(max_examples=30)
@given(vectors)
def test_B_runs_from_the_minimum_over_the_mean_to_the_maximum(s):
    lam = np.array([-np.inf, -1e6, -1.0, 0.0, 1.0, 1e6, np.inf])
    values = boltzmann(lam, np.array(s))
    assert values[0] == min(s)
    assert values[-1] == max(s)
    assert values[3] == pytest.approx(np.mean(s), abs=1e-13 * (1 + max(map(abs, s))))
    assert (np.diff(values) >= -1e-12 * (1 + max(map(abs, s)))).all()


# -- Lemma 1 -------------------------------------------------------------------------------------------


@st.composite
def separated_entries(draw):
    """`n`, and more than `n` numbers with gaps above 2 ln n + 3, centred: |a| ≤ r is then as tight as can be."""
    n = draw(st.integers(2, 4))
    extra = draw(st.lists(st.sampled_from([0.001, 0.01, 0.5, 3.0]), min_size=n, max_size=n + 2))
    values = np.cumsum([0.0, *(2 * math.log(n) + 3 + gap for gap in extra)])
    return n, values - values[-1] / 2


@settings(max_examples=30)
@given(separated_entries())
def test_lemma_1(case):
    n, values = case
    with precision(400):
        found = sorted(
            (boltzmann_ball(1, a) for a in itertools.combinations(values.tolist(), n)), key=lambda ball: ball.mid()
        )
        bound = arb(n).log() ** 2 * (-2 * arb(float(np.abs(values).max()))).exp()
        assert all(y - x > bound for x, y in itertools.pairwise(found))


def test_lemma_1_fails_without_its_gap():
    """boltz(0, x) falls, then rises: two x less than 2 ln n + 3 apart share a value."""
    low, high = -4.0, -1.3
    target = float(boltz([0.0, -1.0]))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if boltz([0.0, middle]) > target else (low, middle)
    assert 0.3 < abs(-1.0 - low) < 2 * math.log(2) + 3
    assert abs(target - boltz([0.0, low])) < math.log(2) ** 2 * math.exp(-2 * 4.0)
