"""Theorem E, how many heads the mean needs without a first block (docs/mean-heads.md): each step, and both halves."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.errors import DataError
from monolayer.model.heads import OtherTokens
from monolayer.theory import mean_heads
from monolayer.theory.balls import precision
from monolayer.theory.heads import HEAD_TEMPERATURES
from monolayer.theory.mean_heads import (
    inverse_at_most,
    least_left,
    left_of_waves,
    others_from_averages,
    shown_averages,
    unseen_direction,
    unseen_motion,
    wave_vectors,
)

seeds = st.integers(0, 2**32 - 1)
CASES = [(3, 1, 2), (4, 1, 2), (4, 2, 3), (5, 3, 4), (5, 2, 5)]
"""Tokens, heads and coordinates, with too few heads."""


def ball(value: Fraction) -> Any:
    return arb(value.numerator) / value.denominator


def fractions(random: np.random.Generator, *shape: int) -> Any:
    """Multiples of 1/64 in [−1, 1], as balls in nested lists."""
    drawn = np.frompyfunc(lambda k: ball(Fraction(int(k), 64)), 1, 1)(random.integers(-64, 65, shape))
    return drawn.tolist()


def with_last_one(matrix: list[list[Any]]) -> list[Any]:
    """A vector in the kernel of `(H, H + 1)` numbers, with the last entry 1."""
    left = arb_mat([row[:-1] for row in matrix])
    return [*(entry for entry in left.solve(arb_mat([[-row[-1]] for row in matrix])).entries()), arb(1)]


def dot(a: list[Any], b: list[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


# -- too few heads ---------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 3))
@settings(max_examples=12)
def test_heads_of_any_rank_do_not_see_the_motion_and_see_another_one(seed: int, heads: int) -> None:
    """In balls, with places: `H + 2` tokens of `H + 1` coordinates. Whole tokens are averaged, so no rank sees more."""
    random = np.random.default_rng(seed)
    with precision(400):
        gradients, places = fractions(random, heads, heads + 1), fractions(random, heads, heads + 2)
        own, *others = fractions(random, heads + 2, heads + 1)
        e = with_last_one(gradients)

        def averages(tokens: list[list[Any]]) -> tuple[list[list[Any]], list[list[Any]]]:
            """The weights of the others, and what the heads show."""
            weights, shown = [], []
            for u, place in zip(gradients, places, strict=True):
                powers = [(dot(u, x) + shift).exp() for x, shift in zip([own, *tokens], place, strict=True)]
                p = [power / sum(powers, arb(0)) for power in powers]
                weights.append(p[1:])
                shown.append([dot(p, [x[i] for x in [own, *tokens]]) for i in range(heads + 1)])
            return weights, shown

        weights, before = averages(others)
        D = with_last_one(weights)
        assert any(entry < 0 for entry in D), "weights are positive, and the last entry is 1"

        def moved_by(motion: list[Any]) -> Any:
            """How far the heads move, at most, when the others do."""
            tokens = [
                [x + size * part / 8 for x, part in zip(token, e, strict=True)]
                for token, size in zip(others, motion, strict=True)
            ]
            after = itertools.chain(*averages(tokens)[1])
            return max((abs(a - b) for a, b in zip(itertools.chain(*before), after, strict=True)), key=float)

        assert moved_by(D) < arb(2) ** -200
        assert moved_by([D[0] + 1, *D[1:]]) > arb(2) ** -200


@given(st.integers(1, 4), st.data())
@settings(max_examples=40)
def test_no_two_waves_run_alike_along_the_direction_whatever_it_is(heads: int, data: st.DataObject) -> None:
    """The cross terms, in exact numbers: for the largest `e_i`, sums and differences of wave vectors are not small."""
    numerators = st.integers(-6, 6)
    e = data.draw(st.lists(numerators, min_size=heads + 1, max_size=heads + 1).filter(any))
    largest = max(range(heads + 1), key=lambda i: abs(e[i]))
    waves = wave_vectors(heads + 2, heads).astype(int)
    assert len(waves) == (heads + 1) * (heads + 1) * heads
    along = waves @ np.array(e)
    for J in np.flatnonzero(waves[:, :, largest].any(axis=1)):
        for j, sign in itertools.product(range(len(waves)), (-1, 1)):
            if j == J and sign == -1:
                continue
            assert Fraction(int(np.abs(along[J] + sign * along[j]).max())) >= Fraction(abs(e[largest]), heads + 3)
    # With r_i = 1 for all i two waves may run alike, and which of them is chosen may depend on what is fixed.
    plain = np.where(waves < 0, -1, waves) @ np.ones(heads + 1, dtype=int)
    assert any((plain[i] == plain[j]).all() for i, j in itertools.combinations(range(len(plain)), 2))


@given(seeds, st.sampled_from(CASES))
@settings(max_examples=20)
def test_the_direction_and_the_motion_are_those_of_the_proof(seed: int, case: tuple[int, int, int]) -> None:
    n, heads, dim = case
    random = np.random.default_rng(seed)
    gradients = random.normal(size=(heads, dim))
    e = unseen_direction(gradients)
    assert np.abs(gradients @ e).max() < 1e-12
    assert np.linalg.norm(e) == pytest.approx(1.0)
    assert np.abs(e).max() >= 1 / math.sqrt(heads + 1) - 1e-12
    assert np.abs(e).sum() <= math.sqrt(heads + 1) + 1e-12
    weights = np.exp(3 * random.normal(size=(heads, n - 1)))
    D = unseen_motion(weights)
    assert np.abs(weights @ D).max() < 1e-9 * weights.max()
    assert np.abs(D).max() == D.max() == 1.0
    # Some pair moves every wave of one coordinate by at least 1.
    assert D.min() < 0.0
    a, b = int(D.argmax()), int(D.argmin())
    assert all(D[a] - (i + 2) * D[b] >= 1.0 for i in range(heads + 1))


@given(seeds)
@settings(max_examples=5)
def test_the_variance_along_a_segment_is_that_of_many_points_and_segments_fill_the_cube(seed: int) -> None:
    random = np.random.default_rng(seed)
    phase, turns = random.normal(size=(4, 6)), 20 * random.normal(size=(4, 6))
    turns[0] = 0.0
    along = (np.arange(20_000) + 0.5) / 20_000 - 0.5
    values = np.cos(phase[:, :, None] + turns[:, :, None] * along).sum(axis=1)
    np.testing.assert_allclose(mean_heads._variance(phase, turns), values.var(axis=1), atol=1e-5)
    others, step = random.random((50, 3, 2)), random.normal(size=(50, 3, 2))
    step[:, 0, 0] = 0.0
    low, high = mean_heads._inside(others, step)
    assert (low < 0).all()
    assert (high > 0).all()
    for end in (low, high):
        at = others + end[:, None, None] * step
        distance = np.minimum(at, 1.0 - at).reshape(50, -1).min(axis=1)
        np.testing.assert_allclose(distance, 0.0, atol=1e-9)


@pytest.mark.parametrize(("n", "heads", "dim"), [(3, 1, 2), (4, 2, 3)])
def test_what_too_few_heads_leave_is_above_the_bound_and_the_sample_would_see_a_fault(
    n: int, heads: int, dim: int
) -> None:
    random = np.random.default_rng(0)
    K = 5_000.0
    assert least_left(n, heads, K) > 0.3
    for gradients in (5 * random.normal(size=(heads, dim)), np.eye(heads, dim), 40 * np.ones((heads, dim))):
        places = random.normal(size=(heads, n - 1))
        assert left_of_waves(K, n, gradients, places, 400, random) > least_left(n, heads, K)
        assert left_of_waves(0.0, n, gradients, places, 50, random) < 1e-9  # a constant: nothing is left
    enough = random.normal(size=(n - 1, n)), np.zeros((n - 1, n - 1))
    assert left_of_waves(K, n, *enough, 50, random) == 0.0  # n − 1 heads leave no segment


def test_cases_that_are_open_are_refused() -> None:
    with pytest.raises(DataError, match="2 heads may score along all of 2 coordinates"):
        left_of_waves(1.0, 4, np.eye(2), np.zeros((2, 3)), 1, np.random.default_rng(0))
    with pytest.raises(DataError, match="not about 2 of 3 tokens"):
        least_left(3, 2, 100.0)


# -- enough heads ----------------------------------------------------------------------------------------


@given(st.integers(2, 5), st.integers(1, 4), seeds)
@settings(max_examples=12)
def test_different_projections_and_the_averages_determine_the_others(others: int, dim: int, seed: int) -> None:
    """In balls: the matrix is positive, and its solution encloses the tokens. Equal projections make it singular."""
    random = np.random.default_rng(seed)
    with precision(500):
        own, *tokens = fractions(random, others + 1, dim)
        projections = [ball(Fraction(int(k), 64)) for k in np.sort(random.permutation(129)[:others])]
        tokens = [[s, *rest] for s, (_, *rest) in zip(projections, tokens, strict=True)]
        temperatures = [ball(Fraction(int(k), 8)) for k in np.sort(random.permutation(33)[:others] - 16)]
        powers = arb_mat([[(lam * s).exp() for s in projections] for lam in temperatures])
        assert powers.det() > 0
        known = [(lam * own[0]).exp() for lam in temperatures]
        shown = [
            [
                (weight * own[i] + dot(powers_of, [x[i] for x in tokens])) / (weight + sum(powers_of, arb(0)))
                for i in range(dim)
            ]
            for weight, powers_of in zip(known, powers.tolist(), strict=True)
        ]
        sums = [
            [(weight + sum(powers_of, arb(0))) * average - weight * x for average, x in zip(averages, own, strict=True)]
            for weight, powers_of, averages in zip(known, powers.tolist(), shown, strict=True)
        ]
        solved = powers.solve(arb_mat(sums)).tolist()
        for found, wanted in zip(solved, tokens, strict=True):
            assert all(abs(a - b) < arb(2) ** -100 for a, b in zip(found, wanted, strict=True))
        projections[1] = projections[0]
        assert arb_mat([[(lam * s).exp() for s in projections] for lam in temperatures]).det().contains(0)


def spread(X: np.ndarray) -> np.ndarray:
    """The largest distance of a token from another, in every coordinate: equivariant, values in [0, 1]^d."""
    return np.abs(X[..., :, None, :] - X[..., None, :, :]).max(axis=-2)


@pytest.mark.parametrize(("n", "dim", "off"), [(3, 2, 1e-10), (4, 3, 1e-8)])
def test_n_minus_one_heads_without_a_first_block_are_a_network_for_the_mean(n: int, dim: int, off: float) -> None:
    """Attention over the tokens themselves, and a token-wise map: projections by iteration, tokens by a linear system.

    Errors are of the size of rounding times powers of 1 over the smallest gap of two projections.
    """
    random = np.random.default_rng(n)
    X, lam = random.random((2_000, n, dim)), HEAD_TEMPERATURES[n]
    averages = shown_averages(X, lam)
    assert averages.shape == (2_000, n - 1, dim)
    own = X[:, 0]
    with torch.no_grad():
        projections = OtherTokens(n)(torch.from_numpy(own[:, :1]), torch.from_numpy(averages[..., 0])).numpy()
    usable = np.diff(projections, axis=1).min(axis=1) > 2.0**-20  # else the answer is whatever it is
    assert usable.mean() > 0.99
    X, own, averages, projections = (each[usable] for each in (X, own, averages, projections))
    found = others_from_averages(own, averages, projections, lam)
    wanted = np.take_along_axis(X[:, 1:], X[:, 1:, 0].argsort(axis=1)[:, :, None], axis=1)
    gap = np.diff(wanted[..., 0], axis=1).min(axis=1)
    apart = gap >= 2.0**-6
    assert apart.mean() >= 1 - (n - 1) * (n - 2) * 2.0**-6 - 0.02
    assert np.abs(found - wanted)[apart].max() < off
    answer = spread(np.concatenate([own[:, None], found.clip(0.0, 1.0)], axis=1))[:, 0]
    assert np.abs(answer - spread(X)[:, 0]).mean() < 1e-6
    wrong = others_from_averages(own, averages, projections, [each + 0.05 for each in lam])  # a fault is seen
    assert np.median(np.abs(wrong - wanted)) > 1e-4


@given(st.sampled_from([3, 4, 5]), seeds)
@settings(max_examples=15)
def test_the_inverse_is_within_its_bound(n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    s = np.sort(random.random(n - 1))
    lam = {3: (0.0, 0.5), 4: (-1.0, 0.0, 1.0), 5: (-1.0, -0.25, 0.5, 1.25)}[n]
    inverse = np.linalg.inv(np.exp(np.outer(lam, s)))
    bound = inverse_at_most(n, float(np.diff(s).min()), lam[0], lam[1] - lam[0])
    assert np.abs(inverse).sum(axis=1).max() <= bound * (1 + 1e-6)
