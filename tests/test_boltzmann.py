"""The Boltzmann operator against balls, and every inequality that its docstring states."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from monolayer.theory.balls import interval, precision
from monolayer.theory.boltzmann import (
    boltz,
    boltz_ball,
    boltz_curvature,
    boltz_gradient,
    boltzmann,
    boltzmann_ball,
    boltzmann_slope,
    concave_below,
    decreasing_below,
    entropy,
    free_energy,
    lemma1_gap,
    lemma1_hypotheses,
    lemma1_separation,
    log_lemma1_separation,
    log_partition,
    softmax,
)

entries = st.floats(-30, 30, allow_nan=False, width=32)
vectors = st.lists(entries, min_size=1, max_size=6)


def ball_of_boltz(a: list[float]) -> arb:
    return boltz_ball([arb(x) for x in a])


def central(f, h: float = 2.0**-40) -> tuple[float, float]:
    """First and second derivative of `f` at 0, in 300 bits: off by O(h²)."""
    with precision(300):
        left, middle, right = f(-arb(h)), f(arb(0)), f(arb(h))
        return float((right - left) / (2 * h)), float((right - 2 * middle + left) / arb(h) ** 2)


def test_precision_is_scoped_even_when_the_block_fails():
    def fail() -> None:
        with precision(before + 100):
            assert ctx.prec == before + 100
            raise ZeroDivisionError

    before = ctx.prec
    with pytest.raises(ZeroDivisionError):
        fail()
    assert ctx.prec == before


def test_interval_encloses_a_ball_that_no_float_is_in_the_middle_of():
    low, high = interval(arb(1) / 3)
    assert low < high
    with precision(200):
        assert arb(low) < arb(1) / 3 < arb(high)


@given(vectors)
def test_floats_agree_with_balls(a):
    with precision(200):
        exact = float(ball_of_boltz(a))
    assert boltz(a) == pytest.approx(exact, rel=1e-13, abs=1e-13)


@given(vectors, st.floats(-20, 20, width=32))
def test_lambda_B_is_boltz_of_lambda_s(s, lam):
    assert lam * boltzmann(lam, s) == pytest.approx(boltz(lam * np.array(s)), rel=1e-12, abs=1e-11)
    with precision(300):
        difference = arb(lam) * boltzmann_ball(arb(lam), s) - boltz_ball([arb(lam) * arb(x) for x in s])
    assert abs(float(difference)) < 1e-60


@given(vectors)
def test_free_energy_and_the_bounds_of_boltz(a):
    value, top = float(boltz(a)), max(a)
    assert value == pytest.approx(float(free_energy(a)), abs=1e-12)
    assert float(log_partition(a)) >= top - 1e-12
    assert -1e-12 <= float(entropy(a)) <= math.log(len(a)) + 1e-12
    assert top - math.log(len(a)) - 1e-12 <= value <= top + 1e-12


def test_the_lower_bound_is_attained_by_equal_entries():
    assert float(entropy([2.0] * 5)) == pytest.approx(math.log(5))
    assert float(log_partition([2.0] * 5)) == pytest.approx(2 + math.log(5))


@given(vectors, st.integers(0, 5))
def test_gradient_and_curvature_are_those_of_the_balls(a, place):
    place %= len(a)

    def moved(h):
        return boltz_ball([arb(x) + (h if i == place else 0) for i, x in enumerate(a)])

    first, second = central(moved)
    assert boltz_gradient(a)[place] == pytest.approx(first, rel=1e-9, abs=1e-12)
    assert boltz_curvature(a)[place] == pytest.approx(second, rel=1e-6, abs=1e-12)


@given(vectors)
def test_boltz_decreases_and_is_concave_below_the_thresholds(a):
    a = np.array(a)
    low = a < decreasing_below(a)
    assert (boltz_gradient(a)[low & (softmax(a) > 0)] < 0).all()
    low = a < concave_below(a)
    assert (boltz_curvature(a)[low & (softmax(a) > 0)] < 0).all()


def test_the_thresholds_are_not_idle():
    a = np.array([0.0, -0.5])
    assert boltz_gradient(a)[0] > 0  # the largest entry pulls boltz up
    assert boltz_gradient(a)[1] > 0  # and so does one close below it
    a = np.array([0.0, -1.7])
    assert boltz_gradient(a)[1] < 0 < boltz_curvature(a)[1]  # decreasing, not yet concave


@given(vectors, st.floats(-5, 5, width=32))
def test_slope_of_B_is_the_variance(s, lam):
    first, _ = central(lambda h: boltzmann_ball(arb(lam) + h, s))
    assert boltzmann_slope(lam, s) == pytest.approx(first, rel=1e-9, abs=1e-11)
    assert boltzmann_slope(lam, s) >= 0


@given(vectors)
def test_B_runs_from_the_minimum_over_the_mean_to_the_maximum(s):
    lam = np.array([-np.inf, -1e6, -1.0, 0.0, 1.0, 1e6, np.inf])
    values = boltzmann(lam, np.array(s))
    assert values[0] == min(s)
    assert values[-1] == max(s)
    assert values[3] == pytest.approx(np.mean(s), abs=1e-13 * (1 + max(map(abs, s))))
    assert (np.diff(values) >= -1e-12 * (1 + max(map(abs, s)))).all()


def test_everything_broadcasts_over_leading_axes():
    rng = np.random.default_rng(0)
    a, lam = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 1))
    assert boltz(a).shape == entropy(a).shape == (3, 4)
    assert boltzmann(lam, a)[2, 3] == pytest.approx(float(boltzmann(lam[2, 0], a[2, 3])))
    assert boltzmann_slope(lam, a).shape == (3, 4)


# -- Lemma 1 -------------------------------------------------------------------------------------------


@st.composite
def separated_entries(draw):
    """`n`, and more than `n` numbers with gaps above 2 ln n + 3, centred: |a| ≤ r is then as tight as can be."""
    n = draw(st.integers(2, 4))
    extra = draw(st.lists(st.sampled_from([0.001, 0.01, 0.5, 3.0]), min_size=n, max_size=n + 2))
    values = np.cumsum([0.0, *(lemma1_gap(n) + gap for gap in extra)])
    return n, values - values[-1] / 2


@given(separated_entries())
def test_lemma_1(case):
    n, values = case
    r = float(np.abs(values).max())
    chosen = list(itertools.combinations(values.tolist(), n))
    assert lemma1_hypotheses(chosen, r) == ()
    with precision(400):
        found = sorted((ball_of_boltz(list(a)) for a in chosen), key=lambda ball: ball.mid())
        bound = arb(n).log() ** 2 * (-2 * arb(r)).exp()
        assert all(y - x > bound for x, y in itertools.pairwise(found))
    assert lemma1_separation(n, r) == pytest.approx(math.exp(log_lemma1_separation(n, r)))


def test_lemma_1_fails_without_its_gap():
    """boltz(0, x) falls, then rises: two x share a value, and the hypotheses must call them too close."""
    low, high = -4.0, -1.3
    target = float(boltz([0.0, -1.0]))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if boltz([0.0, middle]) > target else (low, middle)
    a = [[0.0, -1.0], [0.0, low]]
    assert abs(boltz(a[0]) - boltz(a[1])) < lemma1_separation(2, 4.0)
    assert "not more than 2 ln n + 3" in lemma1_hypotheses(a, 4.0)[0]


def test_lemma_1_names_what_is_broken():
    repeats, beyond = lemma1_hypotheses([[0.0, 10.0], [10.0, 10.0]], 5.0)
    assert repeats == "vector 1 repeats an entry"
    assert beyond == "entry 1 of vector 0 is 10, beyond r = 5"
    assert lemma1_separation(1, 3.0) == 0
    assert log_lemma1_separation(1, 3.0) == -math.inf
