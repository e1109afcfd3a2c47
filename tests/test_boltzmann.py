"""The Boltzmann operator against balls; what softmax is for; Theorem D: what the first block is for."""

from __future__ import annotations

import itertools
import math
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
        assert same(along[2], sum((w * (x - B) ** 2 for x, w in zip(s, p, strict=True)), arb(0)))
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
    """What the proof about fast waves says of others `a > b` below the own token, 0: its letters."""

    p: np.ndarray
    W: np.ndarray
    v: np.ndarray
    s: np.ndarray
    q: np.ndarray

    @classmethod
    def at(cls, lam: Any, a: np.ndarray, b: np.ndarray) -> Fold:
        p, W = -lam * a, lam * (a - b)
        v, s = np.exp(-p) * (1 + np.exp(-W)), p + W / (np.exp(W) + 1)
        return cls(p, W, v, s, 1 + v - s)


def on_curve(q: float, W: np.ndarray) -> np.ndarray:
    """The `p` where `q` has this value, by bisection: `q` falls with `p`."""
    low, high = np.zeros_like(W), np.full_like(W, 3.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = Fold.at(1.0, -middle, -middle - W).q > q
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def test_where_levels_fold_densities_and_labels_are_those_of_the_proof() -> None:
    """Both others below the own token, at every temperature: items 1 to 5."""
    random = np.random.default_rng(0)
    x, lam = random.random(100_000), 10 ** random.uniform(-2.0, 2.3, 100_000)
    b, a = np.sort(-x * random.random((2, 100_000)), axis=0)
    t, fold = np.array(boltzmann(lam, np.stack([np.zeros_like(a), a, b], axis=-1))), Fold.at(lam, a, b)
    np.testing.assert_allclose(-lam * t, fold.v * fold.s / (1 + fold.v), atol=1e-12)
    weights = np.exp(lam * a), np.exp(lam * b)
    t_a, t_b = (w * (1 + lam * (each - t)) / (1 + fold.v) for w, each in zip(weights, (a, b), strict=True))
    assert (weights[0] * t_b - weights[1] * t_a <= 1e-15).all(), "Z falls along a level"
    slope = t_a + t_b
    np.testing.assert_allclose(slope, fold.v * fold.q / (1 + fold.v) ** 2, atol=1e-12)
    for epsilon in (0.5, 0.1, 0.01):
        above, below = fold.q >= epsilon, fold.q <= -epsilon
        assert (lam * x)[~above].min() > 0.9
        assert fold.v[above].min() > 0.278
        assert slope[above].min() > epsilon / 6
        assert fold.v[below].max() < 0.464
        assert (slope / (-lam * t))[below].max() < -epsilon / 3  # the label
        label = -np.log(-lam * t)[below] / lam[below]
        assert label.min() > 0.0
        assert (label < x[below]).all()
    step = 1e-6
    moved = (Fold.at(1.0, -fold.p + step, -fold.p - fold.W + step).q - fold.q) / step
    np.testing.assert_allclose(moved, 1 + fold.v, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 0.05, -0.05, -0.5])
def test_along_the_rim_of_the_strip_the_context_rises_and_the_rim_leaves_the_domain_once(epsilon: float) -> None:
    """Item 6, and the thickness of the strip in item 2."""
    W = np.linspace(0.0, 30.0, 20_001)
    p = on_curve(epsilon, W)
    fold = Fold.at(1.0, -p, -p - W)
    assert np.abs(fold.q - epsilon).max() < 1e-12
    context = fold.v * fold.s / (1 + fold.v)
    assert (np.diff(context) < 1e-14).all()
    assert (np.diff(p + W) > 0.49 * np.diff(W)).all()
    assert np.abs(on_curve(-epsilon, W) - p).max() <= 2 * abs(epsilon)


@pytest.mark.parametrize("lam", [1.0, 2.0, 4.0, 10.0, 40.0, 300.0])
def test_where_levels_fold_they_have_few_stretches_and_a_fast_wave_is_left(lam: float) -> None:
    """On a fine grid a level has at most three stretches above the fold and two below."""
    x, epsilon = 0.9, 0.1
    w, a = np.meshgrid(np.linspace(1e-4, x, 200), np.linspace(-x, 0.0, 2_000), indexing="ij")
    inside = a - w >= -x
    t, q = seen(lam, a, a - w), Fold.at(lam, a, a - w).q
    for part, most in ((q >= epsilon, 3), (q <= -epsilon, 2)):
        kept = inside & part
        if not kept.any():
            continue
        low, high = np.where(kept, t, np.inf).min(axis=1), np.where(kept, t, -np.inf).max(axis=1)
        for level in np.quantile(t[kept], np.linspace(0.02, 0.98, 25)):
            meets = np.concatenate([[False], (low <= level) & (level <= high), [False]])
            assert np.diff(meets.astype(int)).clip(0).sum() <= most
    random = np.random.default_rng(0)
    b, a = np.sort(-x * random.random((2, 40_000)), axis=0)
    order = np.argsort(seen(lam, a, b), kind="stable")
    assert np.square(np.diff(np.cos(2 * math.pi * 60 * (a - b))[order])).mean() / 2 > 0.47


def test_what_is_lost_at_the_fold_adds_up_to_nine_over_the_root() -> None:
    """Items 7 and 8, in numbers: whatever `K` and `x`."""
    for K, x in itertools.product((1, 10, 100, 324, 1_000, 10**6), (0.01, 0.1, 0.5, 1.0)):
        epsilon = 3 / math.sqrt(K * x)
        lost = 60 * x / (math.pi * epsilon * K) + 2.25 * epsilon * x**2
        allowed = 13.2 * x**1.5 / math.sqrt(K)
        assert lost <= allowed
        assert epsilon <= 0.5 or allowed >= x**2 / 2
    for K in (324, 1_000, 10**6):
        assert 4 / K + 13.2 * 0.8 * (1 - 2**-2.5) / math.sqrt(K) <= 9 / math.sqrt(K)
    assert 9 / math.sqrt(324) == 0.5


def test_two_heads_know_the_other_tokens() -> None:
    """At equal sums the context at λ = ½ grows with the distance of the two, strictly."""
    for x, total in itertools.product((0.0, 0.3, 1.0), (0.2, 1.0, 1.7)):
        w = np.linspace(0.0, min(total, 2 - total), 200)
        assert (np.diff(seen(0.5, (total + w) / 2 - x, (total - w) / 2 - x)) > 0).all()
