"""The Boltzmann operator against balls; what softmax is for; Theorem D: what the first block is for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from flint import acb, arb, arb_series, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.balls import interval, precision, series_terms
from monolayer.theory.boltzmann import (
    boltz,
    boltzmann,
    boltzmann_ball,
    cumulants,
    largest_shortfall,
    polynomial_of_cumulants,
)
from monolayer.theory.enclosure import log_difference
from monolayer.theory.mean_heads import least_left_by_one
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


# -- softmax and the Boltzmann operator (docs/softmax.md): derivatives from power series in balls --------

rationals = st.fractions(Fraction(-4), Fraction(4), max_denominator=50)


def ball(x: Fraction) -> Any:
    return arb(x.numerator) / x.denominator


def log_sum_along(a: list[Any], direction: list[Any], order: int = 2) -> list[Any]:
    """Derivatives of `L(a + t · direction)`, `L(a) = ln Σ e^{a_l}`, by `t` at 0: orders 0 to `order`."""
    with series_terms(order + 1):
        series = sum((arb_series([x, v]).exp() for x, v in zip(a, direction, strict=True)), arb_series([0])).log()
        return [series[j] * math.factorial(j) for j in range(order + 1)]


def exact_softmax(a: list[Any]) -> list[Any]:
    weights = [x.exp() for x in a]
    return [w / sum(weights, arb(0)) for w in weights]


def same(one: Any, other: Any) -> bool:
    """Balls that meet, both of them small: equal up to 10^-40."""
    return bool(one.overlaps(other)) and float(abs(one - other).upper()) < 1e-40


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(rationals, rationals, rationals), min_size=1, max_size=5))
def test_softmax_is_the_gradient_of_one_function_and_every_head_a_derivative_of_it(rows):
    with precision(200):
        a, v, w = ([ball(row[k]) for row in rows] for k in range(3))
        p = exact_softmax(a)
        mean = sum((pl * x for pl, x in zip(p, v, strict=True)), arb(0))
        covariance = sum((pl * x * y for pl, x, y in zip(p, v, w, strict=True)), arb(0)) - mean * sum(
            (pl * y for pl, y in zip(p, w, strict=True)), arb(0)
        )
        _, first, _ = log_sum_along(a, v)
        assert same(first, mean), "values v: the derivative of L in the direction v"
        for place, weight in enumerate(p):
            unit = [arb(int(place == each)) for each in range(len(a))]
            assert same(log_sum_along(a, unit)[1], weight)
        # The second derivative as a quadratic form, polarized: the covariance of v and w.
        both, less = (log_sum_along(a, [x + sign * y for x, y in zip(v, w, strict=True)])[2] for sign in (1, -1))
        assert same((both - less) / 4, covariance)


@settings(max_examples=20, deadline=None)
@given(st.lists(rationals, min_size=1, max_size=6), rationals)
def test_the_boltzmann_operator_is_the_derivative_along_the_temperature(s, lam):
    with precision(200):
        lam, s = ball(lam), [ball(x) for x in s]
        scores = [lam * x for x in s]
        p, along = exact_softmax(scores), log_sum_along(scores, s, 3)
        B = boltzmann_ball(lam, s)
        assert same(B, sum((x * w for x, w in zip(s, p, strict=True)), arb(0)))
        assert same(B, along[1])
        assert same(along[2], sum((w * (x - B) * (x - B) for x, w in zip(s, p, strict=True)), arb(0)))
        assert all(same(one, other) for one, other in zip(cumulants(lam, s, 3), along[1:], strict=True))
        assert not cumulants(lam, [*s, s[0] + 1], 1)[0].overlaps(B), "the check can fail"
        entropy = -sum((w * w.log() for w in p), arb(0))
        assert same(along[0] - lam * B, entropy)
        gradient = log_sum_along(scores, scores)
        assert same(gradient[1], lam * B), "boltz(a) = a · ∇L(a)"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.fractions(Fraction(0), Fraction(20), max_denominator=20), min_size=1, max_size=9))
def test_the_largest_entry_exceeds_boltz_by_at_most_lamberts_w(below):
    with precision(200):
        n = len(below) + 1
        c = largest_shortfall(n)
        assert c < arb(n).log()
        assert not -boltzmann_ball(1, [arb(0), *(-ball(y) for y in below)]) > c
        attained = -boltzmann_ball(1, [arb(0), *[-1 - c] * (n - 1)])
        assert same(attained, c)
        assert -boltzmann_ball(1, [arb(0), *[-ball(Fraction(9, 10)) - c] * (n - 1)]) < c, "only there"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=6), st.integers(1, 30))
def test_hardmax_is_the_limit_as_fast_as_the_page_says_and_not_for_all_sequences(s, lam):
    n, m, top = len(s), s.count(max(s)), max(s)
    if m < n:
        gap = top - max(x for x in s if x < top)  # at least 1, so that λ · gap is
        with precision(5000):  # both are within a factor of 1 + e^{−1200} of their bounds
            share = arb(n - m) / m * arb(-lam * gap).exp()
            p = exact_softmax([arb(lam * x) for x in s])
            off = sum((w for w, x in zip(p, s, strict=True) if x < top), arb(0))
            shortfall = top - boltzmann_ball(lam, [arb(x) for x in s])
            assert 0 < off < share
            assert 0 < shortfall < share * gap
    with precision(400):  # however large λ is, some sequence of [0, 1]^n stays W((n − 1)/e)/λ away
        c = largest_shortfall(n)
        large = arb(lam) + 1 + c
        near = [arb(1), *[1 - (1 + c) / large] * (n - 1)]
        assert near[-1] > 0
        assert same(1 - boltzmann_ball(large, near), c / large)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6))
def test_n_cumulants_determine_a_multiset_and_one_fewer_does_not(s):
    with precision(300):
        kappa = cumulants(0, s, len(s))
        expected = [1]
        for root in s:
            expected = [a - root * b for a, b in zip([0, *expected], [*expected, 0], strict=True)]
        assert all(same(arb(a), b) for a, b in zip(expected, polynomial_of_cumulants(kappa), strict=True))
        moved = polynomial_of_cumulants([*kappa[:-1], kappa[-1] + 1])
        assert not moved[0].overlaps(arb(expected[0])), "the last cumulant matters"
        # The series inside its radius π/w, against B itself: the tail is geometric.
        width = max(s) - min(s) or 1
        lam = arb.pi() / (8 * width)
        series = sum((k * lam**j / math.factorial(j) for j, k in enumerate(cumulants(0, s, 60))), arb(0))
        assert float(abs(series - boltzmann_ball(lam, s))) < 1e-40
        assert abs(sum((acb(0, arb.pi() / width) * x).exp() for x in (0, width))) < arb(2) ** -250
        # Prouhet, Tarry, Escott: equal power sums up to 3.
        one, other = cumulants(0, [0, 4, 7, 11], 4), cumulants(0, [1, 2, 9, 10], 4)
        assert all(same(x, y) for x, y in zip(one[:3], other[:3], strict=True))
        assert abs(one[3] - other[3]) > 1


def test_the_mean_and_a_transcendental_temperature_fail_and_rational_ones_do_not() -> None:
    def sign(s: list[int], t: list[int], lam: Any) -> int:
        return log_difference({x: s.count(x) for x in s}, {x: t.count(x) for x in t}, lam)[0]

    with precision(300):
        assert same(boltzmann_ball(0, [0, 3]), boltzmann_ball(0, [1, 2]))
        failing = (1 + arb(2).sqrt()).log()
        assert same(boltzmann_ball(failing, [0, -1]), boltzmann_ball(failing, [0, -2]))
        pair, folded = ([1, 2, 5, 6], [1, 3, 4, 6]), ([0, 5, 9, 12, 16, 21], [0, 6, 7, 14, 15, 21])
        for one, other in (([0, 3], [1, 2]), ([0, -1], [0, -2]), pair, folded):
            for lam in (Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(-2), Fraction(40)):
                assert sign(one, other, ball(lam)) != 0
        # The dips of the picture: between these temperatures the order of the pair changes.
        assert [sign(*pair, arb(lam) / 5) for lam in (5, 6)] == [1, -1]
        assert sign(*folded, arb(8) / 21) == -sign(*folded, arb(12) / 21)
        # Pairs that first differ in κ_{j+1} are about λ^j apart.
        for (one, other), j in ((pair, 1), (folded, 3)):
            lam = arb(2) ** -40
            kappa = [cumulants(0, s, j + 1)[j] for s in (one, other)]
            told = boltzmann_ball(lam, one) - boltzmann_ball(lam, other)
            assert abs(told / ((kappa[0] - kappa[1]) * lam**j / math.factorial(j)) - 1) < arb(2) ** -30


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


@settings(max_examples=40)
@given(st.integers(3, 9), st.lists(st.sampled_from([0.0, 0.001, 0.5, 3.0]), min_size=8, max_size=8))
def test_the_sharper_lemma_1_holds_for_all_sets_of_entries_two_apart(size, extra):
    """Of any lengths: every pair of different subsets, prefixes of each other among them."""
    values = np.cumsum([0.0, *(2.0 + gap for gap in extra)])[:size]
    values -= values[-1] / 2
    r = float(values[-1])
    with precision(400):
        found = sorted(
            (
                boltzmann_ball(1, a)
                for n in range(1, min(size, 6) + 1)
                for a in itertools.combinations(values.tolist(), n)
            ),
            key=lambda ball: ball.mid(),
        )
        bound = r * (-2 * arb(r)).exp()
        assert all(y - x > bound for x, y in itertools.pairwise(found))


def test_the_numbers_in_the_proof_of_the_sharper_lemma_1():
    with precision(100):
        q = arb(-2).exp()
        deficit, factor = 2 * q / (1 - q) ** 2, 1 / (1 + q) - q / (1 - q)
        assert deficit < arb("0.3621")
        assert factor > arb("0.724")
        assert 2 / (arb(2).exp() + 1) < arb("0.2385")
        for k, size, lost, least in (
            (2, arb(1), arb(0), 0.54),
            (3, 1 + q, arb("0.2385"), 0.51),
            (4, 1 / (1 - q), arb("0.3621"), 0.53),
        ):  # of x e^{-x}, for x = 2(k − 1), hence for every larger x
            assert (arb("0.724") - (arb("0.724") * lost + arb("0.3621")) / (2 * (k - 1))) / size > least


@settings(max_examples=20)
@given(separated_entries())
def test_the_paper_s_lemma_1_follows(case):
    """Entries more than 2 ln n + 3 apart reach further than (ln n)²."""
    n, values = case
    assert np.abs(values).max() > (n - 1) * (math.log(n) + 1.5) > math.log(n) ** 2


def test_lemma_1_fails_without_a_gap():
    """At a gap of ln(1 + √2) two vectors that are no permutations of each other share a value."""
    with precision(2000):
        d = (1 + arb(2).sqrt()).log()
        assert 0.88 < d < 0.89
        assert abs(boltzmann_ball(1, [0, -d]) - boltzmann_ball(1, [0, -2 * d])) < arb(2) ** -1900


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


class Fold(NamedTuple):
    """Others `a ≥ b` below the own token, 0, in the letters of the proof about fast waves: `p = −λa`, `W = λ(a − b)`.

    Numbers may be balls, with their `exp`.
    """

    v: Any
    r: Any
    c: Any
    q: Any
    tau: Any
    S: Any
    falls: Any
    """`G`: how fast `S²` falls along a level as `W` grows."""

    @classmethod
    def at(cls, p: Any, W: Any, exp: Any = np.exp) -> Fold:
        e = exp(-W)  # no overflow for large W
        v, r, c = exp(-p) * (1 + e), W * e / (1 + e) ** 2, W * e / (1 + e)
        q = 1 + v - p - c
        tau = v * (1 + v - q) / (1 + v)
        return cls(v, r, c, q, tau, v * q / (1 + v) ** 2, 2 * (1 + tau) * v**2 * r / (1 + v) ** 3)

    def slopes(self, W: Any, exp: Any = np.exp) -> tuple[Any, Any]:
        """`t_a` and `t_b`."""
        part, e = self.v * self.r / (1 + self.v), exp(-W)
        return part + self.S / (1 + e), self.S * e / (1 + e) - part


@given(numbers, numbers)
@settings(max_examples=30)
def test_at_the_fold_the_context_its_slopes_and_how_they_change_are_those_of_the_proof(one: Fraction, two: Fraction):
    """In balls: the slopes of the context in both others, and of S² along a level."""
    with precision(400):
        p, W = (8 * arb(each.numerator) / each.denominator for each in (one, two))
        step = arb(2) ** -120

        def tau(p: Any, W: Any) -> Any:
            return -boltzmann_ball(1, [arb(0), -p, -p - W])

        fold = Fold.at(p, W, arb.exp)
        t_a, t_b = fold.slopes(W, arb.exp)
        assert abs(tau(p, W) - fold.tau) < arb(2) ** -300
        # a moves alone: p falls by as much as W grows; b moves alone: W falls.
        for slope, moved in ((t_a, (-1, 1)), (t_b, (0, -1)), (fold.S, (-1, 0))):
            change = tau(p + moved[0] * step, W + moved[1] * step) - tau(p - moved[0] * step, W - moved[1] * step)
            assert abs(-change / (2 * step) - slope) < arb(2) ** -200
        if abs(fold.S) > 1e-3:
            along = -t_b / fold.S  # dp/dW on the level
            after, before = (Fold.at(p + d * along * step, W + d * step, arb.exp) for d in (1, -1))
            assert abs(after.tau - before.tau) < arb(2) ** -200
            assert abs((after.S**2 - before.S**2) / (2 * step) + fold.falls) < arb(2) ** -150


def test_near_the_fold_everything_is_as_large_as_the_proof_says() -> None:
    random = np.random.default_rng(0)
    W = 14 * random.random(400_000) ** 2
    p = 14 * random.random(400_000) ** 2
    fold = Fold.at(p, W)
    v, q, tau = fold.v, fold.q, fold.tau
    above, near = q >= 0, (q < 0) & (q >= -0.5)
    assert v[above].min() > 0.278
    assert (v[near].min() > 0.185, v[~above].max() < 0.464, tau.max() < 0.464) == (True, True, True)
    assert (v**2 / (1 + v) ** 3).max() <= 4 / 27 + 1e-15
    assert fold.slopes(W)[0][above].min() > 0.0
    assert ((1 + v) ** 2 / (2 * (1 + tau) * v))[above].max() < 2.3
    ends = near & (tau > 0.2785)  # on levels that reach the fold, where v is τ
    assert (tau[ends] / v[ends]).max() < 1.43
    assert (8 * tau / (1 + tau) * (1 + v) ** 3 / (2 * (1 + tau) * v**2))[ends].max() < 30.7
    below = q <= -0.5
    assert (fold.S / tau)[below].max() < -1 / 6  # the label
    W = np.linspace(0.0, 40.0, 40_001)
    zero = Fold.at(0.0 * W, W)
    assert (zero.r.max() < 0.224, (zero.r <= W / 4).all(), zero.c.max() < 0.279) == (True, True, True)
    assert (zero.S.min() > 0.43, zero.tau.max() < 0.186) == (True, True)
    mass = np.concatenate([[0.0], np.cumsum((zero.r[1:] + zero.r[:-1]) / 2 * np.diff(W))])
    for end in range(50, 20_000, 331):  # the mean of r up to W_0 is at least half of r there
        assert ((mass[end] - mass[:end]) / (W[end] - W[:end])).min() > 0.4999 * zero.r[end]


def last_below(rises: Callable[[np.ndarray], np.ndarray], value: Any, high: np.ndarray) -> np.ndarray:
    """Where a function that rises from 0 to `high` reaches `value`, by bisection."""
    low = np.zeros_like(high)
    for _ in range(45):
        middle = (low + high) / 2
        less = rises(middle) < value
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return low


def arcs_above(tau: float, W: np.ndarray, fold: np.ndarray, domain: float) -> list[np.ndarray]:
    """Runs of `W` over which a level lies above the fold and in the domain, each with rows `W`, `p`, `S`."""
    reached = (Fold.at(0.0 * W, W).tau <= tau) & (tau <= Fold.at(fold, W).tau)
    low = last_below(lambda p: Fold.at(p, W).tau, tau, fold)
    kept = np.flatnonzero(reached & (low + W <= domain))
    runs = np.split(kept, np.flatnonzero(np.diff(kept) > 1) + 1) if len(kept) else []
    return [np.stack([W[run], low[run], Fold.at(low[run], W[run]).S]) for run in runs if len(run) > 10]


@pytest.mark.parametrize("domain", [1.0, 1.6, 3.0, 8.0, 30.0])
def test_arcs_above_the_fold_begin_where_the_proof_says_weigh_enough_and_average_out(domain: float) -> None:
    W, folded = np.linspace(0.0, domain, 12_001), 0
    fold = last_below(lambda p: -Fold.at(p, W).q, 0.0, np.full_like(W, 4.0))
    for tau in np.linspace(0.01, 0.46, 10).tolist():
        for at, p, S in arcs_above(tau, W, fold, domain):
            assert (np.diff(S) < 1e-12).all()
            assert at[0] == 0.0 or p[0] < 1e-2, "at W = 0 or on a = 0, not on b = −x"
            # Exact where S² is linear: no trouble at the fold.
            pieces = 2 * np.diff(at) / (S[1:] + S[:-1])
            mass, ends = pieces.sum(), S[-1] <= S[0] / 20
            folded += ends
            assert mass > (4.1 if ends else 3.7 if S[-1] <= S[0] / 2 else 0.0)
            for h in (0.02, 0.3):
                for phase in (0.0, 0.5):
                    wave = (pieces * np.cos(math.pi * ((at[1:] + at[:-1]) / 2 / h + phase))).sum()
                    assert abs(wave) <= pieces[at[1:] > at[-1] - h].sum() * 1.05 + 1e-9
    assert folded > 0 or domain < 2


def test_what_a_head_gains_at_the_fold_is_a_multiple_of_one_over_K_and_adds_up_to_27() -> None:
    """Sampled: the mean product of f at neighbours in the context is what knowing it gains, far less than is proved."""
    with precision(100):
        root = arb("18.4").sqrt() + arb("30.7").sqrt()
        fold, rest = root**2 / arb("4.29"), arb("1.5")
        assert fold < 22.53
        assert 0.75 * (fold + rest + 24 / arb.pi()) + 10 / arb.pi() < 27
    assert math.sqrt(18.4 / 3) < 2.5
    assert 3 / 4 * 0.43 / 0.0788 > 4
    assert 1 / math.sqrt(0.0543) > 4.29
    assert math.sqrt(0.75 / 0.0543) > 3.7
    random, x = np.random.default_rng(0), 1.0
    b, a = np.sort(-x * random.random((2, 500_000)), axis=0)
    for K in (4, 20):
        gains = []
        for lam in (2.0, 3.0, 5.0, 10.0):
            f = np.cos(2 * math.pi * K * (a - b))[np.argsort(seen(lam, a, b), kind="stable")]
            gains.append(float((f[1:] * f[:-1]).mean()))
        assert 0.04 / K < max(gains) < min(0.5, 31.7 / K)
    f = np.cos(2 * math.pi * 20 * (a - b))[np.argsort(a - b)]
    assert (f[1:] * f[:-1]).mean() > 0.4  # a context that knows the difference: the estimate would see it


def test_the_bound_for_one_head_is_the_better_of_two() -> None:
    assert least_left_by_one(20.0) == pytest.approx(5 / 24 - 4 / 20)
    assert least_left_by_one(100.0) == pytest.approx(0.5 - 27 / 100)
    assert least_left_by_one(1.0) == 0.0


def test_two_heads_know_the_other_tokens() -> None:
    """At equal sums the context at λ = ½ grows with the distance of the two, strictly."""
    for x, total in itertools.product((0.0, 0.3, 1.0), (0.2, 1.0, 1.7)):
        w = np.linspace(0.0, min(total, 2 - total), 200)
        assert (np.diff(seen(0.5, (total + w) / 2 - x, (total - w) / 2 - x)) > 0).all()
