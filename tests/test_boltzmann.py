"""The Boltzmann operator against balls; what softmax is for; Theorem D: what the first block is for."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.balls import interval, precision
from monolayer.theory.boltzmann import boltz, boltzmann, boltzmann_ball
from monolayer.theory.enclosure import log_difference
from monolayer.theory.targets import TARGETS
from monolayer_experiments.synthetic import without_repeats

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
    with pytest.raises(ZeroDivisionError), precision(before + 100):
        _ = 1 // (ctx.prec - before - 100)
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
def test_boltz_is_a_free_energy_and_B_runs_from_the_minimum_over_the_mean_to_the_maximum(s):
    s, p = np.array(s), softmax(np.array(s))
    log_partition = s.max() + np.log(np.exp(s - s.max()).sum())
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum()
    assert boltz(s) == pytest.approx(log_partition - entropy, abs=1e-12)
    assert s.max() - math.log(len(s)) - 1e-12 <= boltz(s) <= s.max() + 1e-12
    values, size = boltzmann(np.array([-np.inf, -1e6, -1.0, 0.0, 1.0, 1e6, np.inf]), s), 1 + np.abs(s).max()
    assert (values[0], values[-1]) == pytest.approx((s.min(), s.max()), rel=0.0, abs=1e-15 * size)
    assert values[3] == pytest.approx(s.mean(), abs=1e-13 * size)
    assert (np.diff(values) >= -1e-12 * size).all()


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


@settings(max_examples=30)
@given(vectors, st.floats(-5, 5, width=32))
def test_slope_of_B_is_the_variance(s, lam):
    first, _ = central(lambda h: boltzmann_ball(arb(lam) + h, s))
    s = np.array(s)
    variance = (softmax(lam * s) * (s - boltzmann(lam, s)) ** 2).sum()
    assert variance == pytest.approx(first, rel=1e-9, abs=1e-11)


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


# -- what softmax is for: keys as whole numbers, sums exact --------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_the_mean_of_independent_keys_separates_multisets_and_that_of_added_ones_not_cells(seed: int) -> None:
    *own, begin = (int(k) for k in np.random.default_rng(seed).integers(-(2**60), 2**60, 6))
    found = [
        Fraction(begin + sum(x), n + 1) for n in range(1, 5) for x in itertools.combinations_with_replacement(own, n)
    ]
    assert len(set(found)) == len(found)
    a, b = np.random.default_rng(seed).integers(-(2**40), 2**40, (2, 2)).tolist()
    one, other = ([a[0] + b[0], a[1] + b[1]], [a[0] + b[1], a[1] + b[0]])
    assert sum(one) == sum(other)
    if len(set(one + other)) == 4:  # else the four sums of keys are not different numbers
        with precision(512):  # softmax tells the cells apart
            assert log_difference(dict.fromkeys(one, 1), dict.fromkeys(other, 1), arb(2.0**-40))[0] != 0


# -- built and certified -------------------------------------------------------------------------------


def test_the_mean_memorizes_position_free_data_and_order_needs_softmax() -> None:
    for X, Y in (without_repeats(100), ([[0, 1], [0, 0, 1, 1], [1]], [[0, 1], [2, 2, 0, 0], [2]])):
        mean = ml.memorize(X, Y, temperature=0.0)
        assert ml.certify(mean, X, Y).verdict == "proved"
        assert not mean.attention.W_Q.any()
    X, Y = [[0, 1, 2], [1, 0, 2]], [[0, 1, 0], [2, 3, 1]]
    assert ml.certify(ml.memorize(X, Y, positions=True), X, Y).verdict == "proved"
    with pytest.raises(PrecisionError, match="At temperature=0 the head averages"):
        ml.memorize(X, Y, positions=True, temperature=0.0)
    # Where no label depends on the order of others, the mean will do.
    ml.memorize(X, [[0, 1, 0], [2, 3, 0]], positions=True, temperature=0.0)


@pytest.mark.parametrize(("dim", "length", "separates"), [(1, 3, True), (2, 2, True), (2, 3, False)])
def test_cells_of_several_coordinates_need_softmax(dim: int, length: int, separates: bool) -> None:
    f = TARGETS["nearest"].function
    ml.approximate(f, dim, length, cells=3)
    if separates:
        assert ml.certify(ml.approximate(f, dim, length, cells=3, temperature=0.0), f).verdict == "proved"
        return
    with pytest.raises(PrecisionError, match="At temperature=0 the head averages"):
        ml.approximate(f, dim, length, cells=3, temperature=0.0)


def test_a_temperature_that_is_no_number_is_refused() -> None:
    for temperature in (math.nan, math.inf, "warm", 1e4, -900.0):
        with pytest.raises(DataError, match="temperature is λ"):
            ml.memorize([[0, 1]], [[0, 1]], temperature=temperature)


# -- Theorem D, in the notation of its proof -----------------------------------------------------------


numbers = st.fractions(Fraction(0), Fraction(1), max_denominator=10**6)


@given(st.lists(numbers, min_size=1, max_size=5), numbers, numbers, st.booleans(), st.floats(-10.0, 12.0))
@settings(max_examples=40, deadline=None)
def test_the_density_is_what_the_proof_says_and_at_most_half_of_n_and_for_three_five_halves(
    fixed: list[Fraction], above: Fraction, more: Fraction, below: bool, size: float
) -> None:
    """In balls: `1/ρ` is the slope of the context when both others move, `z ≤ y` above the fixed tokens.

    For three tokens the lower one may be below the own token, 0. With more, `Z` falls along a level.
    """
    with precision(400):
        lam, step = arb(2) ** arb(size), arb(2) ** -100
        three = len(fixed) == 1
        F = [arb(0)] if three else [arb(each.numerator) / each.denominator for each in fixed]
        low, rise = (arb(each.numerator) / each.denominator for each in (above, more))
        low = -low if three and below else low + (0 if three else max(F, key=float))
        high = rise if three else low + rise

        def at(y: Any, z: Any) -> tuple[Any, Any]:
            weights = [(lam * each).exp() for each in (*F, y, z)]
            return sum(w * each for w, each in zip(weights, (*F, y, z), strict=True)) / sum(weights), sum(weights)

        t, Z = at(high, low)
        ZF, SF = sum((lam * s).exp() for s in F), sum(s * (lam * s).exp() for s in F)
        slope = (Z - ZF * (1 - lam * t) - lam * SF) / Z
        moved = (at(high + step, low + step)[0] - at(high - step, low - step)[0]) / (2 * step)
        assert abs(moved - slope) < arb(2) ** -120
        if three:
            assert arb(2) / 5 < slope
            assert slope < 1 + arb(-1).exp()
        else:
            assert slope > arb(2) / (len(fixed) + 2) - arb(2) ** -300
            t_y, t_z = ((lam * each).exp() * (1 + lam * (each - t)) / Z for each in (high, low))
            assert (lam * high).exp() * t_z - (lam * low).exp() * t_y < arb(2) ** -200 * Z


def seen(lam: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return boltzmann(np.full(a.shape, lam), np.stack([np.zeros_like(a), a, b], axis=-1))


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


def test_where_levels_fold_a_fast_wave_is_left_too() -> None:
    """Both others below the own token: the labels of the proof in the limit, and what is left there, sampled."""
    random, x = np.random.default_rng(0), 0.9
    b, a = np.sort(-x * random.random((2, 40_000)), axis=0)
    f, step = np.cos(2 * math.pi * 60 * (a - b)), 1e-6
    for lam in (2.0, 4.0, 10.0, 40.0):
        order = np.argsort(seen(lam, a, b), kind="stable")
        assert np.square(np.diff(f[order])).mean() / 2 > 0.47
        w, m = 0.2, np.linspace(-x + 0.1, -0.1, 4001)
        v = np.exp(lam * (m + w / 2)) + np.exp(lam * (m - w / 2))
        along = (v + lam * seen(lam, m + w / 2, m - w / 2)) / (1 + v)
        moved = seen(lam, m + step + w / 2, m + step - w / 2) - seen(lam, m - step + w / 2, m - step - w / 2)
        np.testing.assert_allclose(moved / (2 * step), along, atol=1e-6)
        assert (np.diff(np.sign(along)) >= 0).all(), "from falling to rising, once"
    assert along[0] < 0 < along[-1], "the last of them folds"
    large, inside = 200.0, (a < -0.1) & (a - b > 0.1)

    def label(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return -np.log(-seen(large, a, b)) / large

    a, b = a[inside], b[inside]
    assert np.abs(label(a, b) + a).max() < 0.02
    assert np.abs((label(a + step, b + step) - label(a - step, b - step)) / (2 * step) + 1).max() < 0.06


def test_two_heads_know_the_other_tokens() -> None:
    """At equal sums the context at λ = ½ grows with the distance of the two, strictly."""
    for x, total in itertools.product((0.0, 0.3, 1.0), (0.2, 1.0, 1.7)):
        w = np.linspace(0.0, min(total, 2 - total), 200)
        assert (np.diff(seen(0.5, (total + w) / 2 - x, (total - w) / 2 - x)) > 0).all()
