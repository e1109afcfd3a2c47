"""Theorem 2's constants against the paper's formulas in balls, and directions against all pairs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.errors import DataError
from monolayer.theory.balls import precision
from monolayer.theory.bounds import (
    MappingConstants,
    contextual_constants,
    corollary1_counts,
    good_direction,
    good_direction_bound,
    measured_direction,
    theorem2,
)
from monolayer_experiments.synthetic import without_repeats

sizes = st.tuples(st.integers(1, 50), st.integers(1, 20), st.integers(2, 30))
lengths = st.floats(0.01, 100)


def paper(V: int, d: int, n: int, r_min: float, r_max: float, epsilon: float) -> tuple[arb, arb]:
    """β and ln δ as Theorem 2 prints them."""
    scale = arb(V + 1) ** 4 * arb.pi() * d * (2 * arb(n).log() + 3)
    beta = scale / 8 / (arb(epsilon) * r_min)
    factor = 2 * arb(n).log() ** 2 * arb(epsilon) ** 2 * r_min / (arb(r_max) ** 2 * scale)
    return beta, factor.log() - scale * arb(r_max) ** 2 / (4 * arb(epsilon) * r_min)


@given(sizes, lengths, lengths, lengths)
@settings(max_examples=25)
def test_the_constants_are_the_papers(size, r_min, r_max, epsilon):
    with precision(200):
        beta, log_delta = paper(*size, r_min, r_max, epsilon)
        ours = theorem2(*size, r_min, r_max, epsilon)
        assert ours[0].overlaps(beta)
        assert ours[1].overlaps(log_delta)
        assert ours[1].rel_accuracy_bits() > 150


def test_the_size_that_the_paper_speaks_of_and_the_bits_that_resolve_it():
    """|V| = 10, n = 3 on a line, with norms from 1 to 2: δ is some 10^-105,000 and no float can hold it."""
    beta, log_delta = map(float, theorem2(10, 1, 3, 1.0, 2.0, 1.0))
    bounds = MappingConstants(math.log(beta), 2.25, log_delta)
    assert -105_000 < bounds.log10_delta < -103_000
    assert 10**bounds.log10_beta == pytest.approx(11**4 * math.pi / 8 * (2 * math.log(3) + 3))
    small = MappingConstants(0.0, 1.25, -7.5)
    spacing = math.ldexp(2.0, -small.bits) * small.r
    assert spacing <= math.exp(small.log_delta) < 2 * spacing


def test_one_token_sequences_have_no_context_and_bad_constants_are_named():
    log_delta = float(theorem2(5, 2, 1, 1.0, 2.0, 1.0)[1])
    assert (log_delta, MappingConstants(0.0, 1.0, log_delta).bits) == (-math.inf, None)
    for name, values in (("r_min", (0.0, 1.0, 1.0)), ("epsilon", (1.0, 1.0, math.inf))):
        with pytest.raises(DataError, match=f"{name} > 0 and finite"):
            theorem2(3, 1, 2, *values)


def test_corollary_1_counts_what_its_network_multiplies_by():
    # Written out for one label coordinate: W_Q, W_K, W_V (s × d), W_O (d × s); M rows a, M biases, M output weights.
    s, d, M = 2, 3, 7
    matrices = 3 * s * d + d * s
    hidden, biases, out = np.ones((M, d)), np.ones(M), np.ones(M)
    assert corollary1_counts(M, d, 1, s) == (4 * (s + d) + d + 2 * M, matrices + hidden.size + biases.size + out.size)
    # The paper's own: d label coordinates, nN points.
    assert corollary1_counts(5 * 100, 4, 4, 3)[0] == 4 * (3 + 4) + 4 * (2 * 5 * 100 + 4)


def test_every_number_of_the_dense_pass_is_counted_on_the_same_points():
    X, Y = [[0, 1, 2], [2, 1, 3]], [[0, 1, 0], [1, 1, 0]]
    for labels in (Y, np.array(Y) / 2):
        model = ml.memorize(X, labels)
        found, steps = model.summary, len(model.feed_forward.stages[0].weight_1)
        stored = sum(value.numel() for value in model.state_dict().values())
        # Real labels have a third layer, h_{r+1} − h_r: h_0 = 0 and h_{R+1} = 1 are no neurons; and one bias.
        third = np.count_nonzero(np.diff(np.eye(steps + 2)[1:-1], axis=1)) + 1 if labels is not Y else 0
        assert (found.parameters, found.dense_numbers) == (stored, stored + 2 * steps + third)
        assert (found.corollary_1, found.corollary_1_dense) == corollary1_counts(6, 1)


def test_random_labels_cost_more_than_corollary_1_counts_and_runs_of_labels_less():
    X = np.random.default_rng(0).integers(0, 50, (500, 8))
    few, many = ml.memorize(X, X % 3).summary, ml.memorize(*without_repeats(500, 8, 200)).summary
    assert few.parameters < few.corollary_1
    assert few.dense_numbers < few.corollary_1_dense
    assert many.parameters > many.corollary_1
    assert many.dense_numbers > many.corollary_1_dense


# -- directions ----------------------------------------------------------------------------------------

vocabularies = st.tuples(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1)).map(
    lambda shape: np.random.default_rng(shape[2]).normal(size=shape[:2])
)


@given(vocabularies)
@settings(max_examples=15)
def test_a_good_direction_is_found(vocabulary):
    """What the best draw keeps of norms and distances is what the bound promises, and δ is no worse for it."""
    count, d = vocabulary.shape
    found = good_direction(vocabulary)
    s, size = vocabulary @ found.v, np.linalg.norm(vocabulary, axis=1)
    assert (found.smallest, found.largest) == (np.abs(s).min(), np.abs(s).max())
    assert found.gap == min(abs(x - y) for x, y in itertools.combinations(s, 2))
    assert (found.g, np.linalg.norm(found.v)) == (found.smallest * found.gap, pytest.approx(1))
    epsilon = min(float(np.linalg.norm(x - y)) for x, y in itertools.combinations(vocabulary, 2))
    share = good_direction_bound(count, d)
    assert found.g / found.largest**2 >= share**2 * size.min() * epsilon / size.max() ** 2
    worst = theorem2(count, d, 3, float(size.min()), float(size.max()), epsilon)
    best = contextual_constants(3, arb(found.g), arb(found.largest), float(size.max()), epsilon)
    assert float(best[1]) >= float(worst[1])


@pytest.mark.parametrize(("count", "d"), [(2, 2), (8, 2), (12, 10)])
def test_a_draw_fails_no_more_often_than_the_union_bound_says(count, d):
    rng = np.random.default_rng(0)
    vocabulary, draws = rng.normal(size=(count, d)), rng.normal(size=(1000, d))
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    pairs = itertools.combinations([np.zeros(d), *vocabulary], 2)
    steps = np.array([(x - y) / np.linalg.norm(x - y) for x, y in pairs])
    failed = np.mean(np.abs(draws @ steps.T).min(axis=1) < good_direction_bound(count, d))
    assert failed <= 2 / math.pi * count / (count + 1)


def test_a_bad_direction_is_measured_as_bad_and_the_zero_token_has_none():
    assert measured_direction(np.array([[1.0, 2.0], [3.0, 2.0]]), np.array([0.0, 1.0])).gap == 0
    found = measured_direction(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0.6, 0.8]))
    assert (found.smallest, found.gap) == (5.0, 5.0)
