"""Heads without a first block (docs/first-block.md): the proofs, step by step."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.theory.balls import precision
from monolayer.theory.boltzmann import boltzmann_ball
from monolayer.theory.heads import TEMPERATURES, Box, head_slopes, least_slope

seeds = st.integers(0, 2**32 - 1)

# -- proof 1: cumulants, in exact arithmetic -------------------------------------------------------------

Polynomial = dict[tuple[int, ...], Fraction]
"""By the exponents of x, e_1, …, e_{n−1}, the coefficients that are not 0."""


def variable(index: int, count: int) -> Polynomial:
    return {tuple(int(i == index) for i in range(count)): Fraction(1)}


def plus(*terms: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for power, coefficient in itertools.chain(*(term.items() for term in terms)):
        found[power] = found.get(power, Fraction(0)) + coefficient
    return {power: coefficient for power, coefficient in found.items() if coefficient}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    products = [{tuple(map(sum, zip(p, q, strict=True))): s * t} for p, s in a.items() for q, t in b.items()]
    return plus(*products)


def scaled(factor: Fraction | int, a: Polynomial) -> Polynomial:
    return {power: factor * coefficient for power, coefficient in a.items()}


def cumulants(n: int) -> list[Polynomial]:
    """`κ_1, …, κ_{n−1}` of the own token and the others, as polynomials in x and the e_j of the others."""
    x, *e = (variable(index, n) for index in range(n))
    own = x
    sums: list[Polynomial] = []
    moments: list[Polynomial] = []
    found: list[Polynomial] = []
    for j in range(1, n):
        newton = [scaled((-1) ** (i - 1), times(e[i - 1], sums[j - i - 1])) for i in range(1, j)]
        sums.append(plus(*newton, scaled((-1) ** (j - 1) * j, e[j - 1])))
        moments.append(scaled(Fraction(1, n), plus(own, sums[-1])))
        own = times(own, x)
        lower = [scaled(-math.comb(j - 1, i - 1), times(found[i - 1], moments[j - i - 1])) for i in range(1, j)]
        found.append(plus(moments[-1], *lower))
    return found


def at(polynomial: Polynomial, values: list[Fraction]) -> Fraction:
    terms = (
        coefficient * math.prod(value**k for value, k in zip(values, power, strict=True))
        for power, coefficient in polynomial.items()
    )
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("n", range(2, 7))
def test_cumulants_are_a_triangular_map_of_the_symmetric_functions_with_this_diagonal(n: int) -> None:
    random = np.random.default_rng(n)
    values = [Fraction(int(a), int(b)) for a, b in random.integers(1, 9, (n, 2))]
    found, solved = cumulants(n), [values[0]]
    for j, kappa in enumerate(found, 1):
        assert all(not any(power[j + 1 :]) for power in kappa), "no e_i with i > j"
        with_own = {power: coefficient for power, coefficient in kappa.items() if power[j]}
        assert with_own == {tuple(int(i == j) for i in range(n)): Fraction((-1) ** (j - 1) * j, n)}
        # The inverse, one line after the other.
        rest = at({power: c for power, c in kappa.items() if not power[j]}, [*solved, *[Fraction(0)] * (n - j)])
        solved.append((at(kappa, values) - rest) / with_own[tuple(int(i == j) for i in range(n))])
    assert solved == values


@pytest.mark.parametrize("n", [3, 4, 5])
def test_divided_differences_of_close_heads_are_the_cumulants(n: int) -> None:
    """Off by O(ε): a step half as long halves the distance, in balls."""
    tokens = [Fraction(int(k), 16) for k in np.random.default_rng(n).integers(0, 17, n)]
    x, *others = tokens
    e = [
        sum((Fraction(math.prod(some)) for some in itertools.combinations(others, j)), Fraction(0)) for j in range(1, n)
    ]
    exact = [at(kappa, [x, *e]) / math.factorial(j) for j, kappa in enumerate(cumulants(n))]
    with precision(600):
        distance = []
        for step in (arb(2) ** -30, arb(2) ** -31):
            heads = [boltzmann_ball(h * step, [arb(t.numerator) / t.denominator for t in tokens]) for h in range(n - 1)]
            divided = []
            for order in range(n - 1):
                divided.append(heads[0])
                heads = [(b - a) / ((order + 1) * step) for a, b in itertools.pairwise(heads)]
            wanted = [arb(value.numerator) / value.denominator for value in exact]
            distance.append([abs(d - w) for d, w in zip(divided, wanted, strict=True)])
        for far, near in zip(*distance, strict=True):
            assert far < arb(2) ** -26
            assert near < 0.51 * far + arb(2) ** -100


# -- temperatures that are not tiny, in balls ------------------------------------------------------------


@pytest.mark.parametrize(("length", "boxes", "least"), [(3, Box(16, 8, 1), 0.119), (4, Box(16, 4, 4), 0.084)])
def test_the_heads_are_injective_over_the_whole_domain(length: int, boxes: Box, least: float) -> None:
    assert least_slope(length, boxes) > least


def test_large_temperatures_fold_and_the_bound_says_so() -> None:
    """At 4 the slope is negative at a point, in balls, so two multisets share what both heads show."""
    slopes = [head_slopes(4.0, arb(x), arb(q), arb(0), 2).by_q for x, q in ((1, 0.0), (0, 0.25))]
    assert slopes[0] < 0 < slopes[1]
    assert least_slope(3, Box(16, 8, 1), high=4.0) < 0


@given(seeds, st.sampled_from([3, 4]))
@settings(max_examples=10, deadline=None)
def test_slopes_are_those_of_the_heads_and_the_domain_holds_every_sequence(seed: int, n: int) -> None:
    """Against the Boltzmann operator of the tokens themselves, and its differences along a change of one token."""
    tokens = np.random.default_rng(seed).random(n)
    with precision(300):
        x, *others = (arb(float(t)) for t in tokens)
        moved = [others[0] + arb(2) ** -80, *others[1:]]

        def sums(y: list[Any]) -> tuple[Any, Any, Any]:
            """The own token, `q` and `r`, when the others have the mean 0."""
            mean = sum(y, arb(0)) / len(y)
            return (
                x - mean,
                sum(((each - mean) ** 2 for each in y), arb(0)),
                sum(((each - mean) ** 3 for each in y), arb(0)),
            )

        own, q, r = sums(others)
        most = {3: (0.5, 0.0), 4: (2 / 3, 2 / 9)}[n]
        assert -1 <= float(own) <= 1
        assert 0 <= float(q) <= most[0] + 1e-12
        assert n == 3 or abs(float(r)) <= most[1] + 1e-12
        for lam in TEMPERATURES[n]:
            found = head_slopes(lam, own, q, r if n == 4 else arb(0), n - 1)
            shift = sum(others, arb(0)) / (n - 1)
            assert (found.value + shift).overlaps(boltzmann_ball(arb(lam), [x, *others]))
            own_2, q_2, r_2 = sums(moved)
            shift_2 = sum(moved, arb(0)) / (n - 1)
            rise = boltzmann_ball(arb(lam), [x, *moved]) - shift_2 - (boltzmann_ball(arb(lam), [x, *others]) - shift)
            # The own token moves as well, by the mean; that part is the partial derivative by x.
            weight = (arb(lam) * own).exp() / sum(((arb(lam) * (t - shift)).exp() for t in [x, *others]), arb(0))
            by_x = weight * (1 + arb(lam) * (own - found.value))
            predicted = by_x * (own_2 - own) + found.by_q * (q_2 - q) + (found.by_r * (r_2 - r) if n == 4 else 0)
            assert abs(rise - predicted) < arb(2) ** -120


# -- proof 2: directions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "dim", "side"), [(3, 2, 4), (4, 2, 3), (3, 3, 2)])
def test_enough_directions_tell_all_multisets_of_a_grid_apart_and_one_less_may_not(n: int, dim: int, side: int) -> None:
    count = (n - 1) * (dim - 1) + 1
    points = list(itertools.product(range(side), repeat=dim))
    multisets = list(itertools.combinations_with_replacement(points, n - 1))

    def seen(multiset: Any, directions: list[tuple[int, ...]]) -> tuple[Any, ...]:
        return tuple(tuple(sorted(sum(map(math.prod, zip(v, y, strict=True))) for y in multiset)) for v in directions)

    directions = [tuple(t**i for i in range(dim)) for t in range(count)]
    assert all(
        abs(np.linalg.det(np.array(some, dtype=float))) > 0.5 for some in itertools.combinations(directions, dim)
    )
    assert len({seen(multiset, directions) for multiset in multisets}) == len(multisets)
    assert len({seen(multiset, directions[: dim - 1]) for multiset in multisets}) < len(multisets)


def test_one_direction_less_may_confuse_two_multisets() -> None:
    """Two of the four corners of a rhombus, in the two directions of its sides: N − 1 = 2 for n = 3, d = 2."""
    Y, other = ((0, 0), (1, 1)), ((1, 0), (0, 1))
    for v in ((1, 0), (0, 1)):
        assert sorted(np.dot(v, y) for y in Y) == sorted(np.dot(v, y) for y in other)
    assert sorted(np.dot((1, 1), y) for y in Y) != sorted(np.dot((1, 1), y) for y in other)


# -- proof 3: levels of one head -------------------------------------------------------------------------


@given(seeds, st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_along_the_direction_of_the_proof_a_head_of_any_rank_sees_one_number(seed: int, dim: int) -> None:
    random = np.random.default_rng(seed)
    x, y, z = random.random((3, dim))
    score = random.normal(size=(dim, dim + 1)) @ np.append(x, 1.0)  # the gradient of the scores, for the query x
    u = score / np.linalg.norm(score)
    i = int(np.argmin(np.abs(u[:2])))
    e = np.eye(dim)[i] - u[i] * u
    e /= np.linalg.norm(e)
    assert e[i] >= 1 / math.sqrt(2) - 1e-12
    assert abs(e @ score) < 1e-9
    assert np.abs(e).sum() <= math.sqrt(dim) + 1e-12

    def head(eta: float, zeta: float) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.stack([x, y + eta * e, z + zeta * e])
        weights = np.exp(tokens @ score)
        weights /= weights.sum()
        return weights, weights @ tokens

    weights, shown = head(0.0, 0.0)
    delta = random.normal()
    share = weights[1] / (weights[1] + weights[2])
    along, still = head((1 - share) * delta, -share * delta)
    assert np.abs(along - weights).max() < 1e-9
    assert np.abs(still - shown).max() < 1e-9
    _, moved = head(1.0, 0.0)
    assert np.abs(moved - shown).max() > 1e-9 * weights[1]


def test_what_one_head_leaves_in_the_plane_is_not_below_the_bound() -> None:
    """Sampled level by level, for scores of every direction. By the difference itself nothing is left."""
    K, dim, random = 30, 2, np.random.default_rng(0)
    bound = 0.5 - 5 / (math.sqrt(2) * math.pi) * math.sqrt(dim) / K
    y, z = random.random((2, 60_000, dim))
    f = np.cos(2 * math.pi * K * (y - z))

    def left(order: np.ndarray) -> float:
        return float(np.square(np.diff(f[order], axis=0)).sum(axis=1).mean() / 2)

    for angle in np.linspace(0.0, math.pi, 5).tolist():
        for size in (0.0, 2.0, 20.0):
            u = np.array([math.cos(angle), math.sin(angle)])
            weights = np.exp(size * np.stack([y @ u, z @ u, np.full(len(y), 0.5)]))
            weights /= weights.sum(axis=0)
            shown = weights[0][:, None] * y + weights[1][:, None] * z
            # What is shown, two numbers, in the order of a fine grid: neighbours share both, up to a cell.
            cell = np.floor(shown * 150).astype(int)
            assert left(np.lexsort((shown[:, 1], cell[:, 0]))) > bound
    first = np.floor((y - z)[:, 0] * 3_000).astype(int)
    assert np.square(np.diff(f[np.argsort(first, kind="stable"), 0])).mean() / 2 < 0.1 * bound
