"""Distinct rows, closest pairs, separation and the (r, δ) of a map, each against the obvious slow way."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import monolayer.data.distinct as distinct
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows, distinct_runs
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.closest import TREE_DIMENSION, closest_pair
from monolayer.theory.contextual import context_classes, contextual_mapping, set_classes
from monolayer.theory.separation import norms, separation

few = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.0, 3.0, 1e-300])
tables = st.integers(1, 4).flatmap(
    lambda d: arrays.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(d)), elements=few)
)


# -- distinct rows -------------------------------------------------------------------------------------


def check_distinct(vectors: np.ndarray) -> None:
    vocabulary, rows = distinct_rows(vectors)
    seen: dict[tuple[float, ...], int] = {}
    expected = [seen.setdefault(tuple(x + 0 for x in row), len(seen)) for row in vectors.tolist()]
    assert rows.tolist() == expected
    assert vocabulary.tolist() == [list(row) for row in seen]
    assert not np.signbit(vocabulary[vocabulary == 0]).any()


@settings(max_examples=30)
@given(tables)
def test_distinct_rows_are_those_of_a_dictionary_and_colliding_hashes_are_noticed(vectors):
    """A planted fault: every row gets the same key, and the answer is still exact."""
    check_distinct(vectors)
    check_distinct(np.array([[2**53, 1], [2**53 + 1, 1], [2**53, 1]]))  # integers beyond the floats
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "_hash_rows", lambda words: np.zeros(len(words), np.uint64))
        check_distinct(vectors)


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=20))
def test_runs_have_one_number_iff_they_are_equal(runs):
    values = np.array([x for run in runs for x in run], np.int64)
    classes = distinct_runs(values, np.array([len(run) for run in runs]))
    for i, j in itertools.combinations(range(len(runs)), 2):
        assert (classes[i] == classes[j]) == (runs[i] == runs[j])
    assert sorted(set(classes.tolist())) == list(range(len(set(map(tuple, runs)))))


# -- closest pair --------------------------------------------------------------------------------------


def check_closest(points: np.ndarray, classes: np.ndarray | None) -> None:
    found = closest_pair(points, classes)
    own = np.arange(len(points)) if classes is None else classes
    pairs = [(i, j) for i, j in itertools.combinations(range(len(points)), 2) if own[i] != own[j]]
    assert (found is None) == (not pairs)
    if found is not None:
        assert (found.first, found.second) in pairs
        assert found.distance == math.dist(points[found.first], points[found.second])
        expected = min(math.dist(points[i], points[j]) for i, j in pairs)
        assert found.distance == pytest.approx(expected, rel=1e-14, abs=0)


dimensions = st.sampled_from([1, 2, 3, TREE_DIMENSION, TREE_DIMENSION + 1, 20])


@settings(max_examples=25)
@given(dimensions, st.integers(1, 40), st.integers(0, 3), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_closest_pair_of_different_classes(p, count, digits, classes, seed):
    """Rounded points make exact coincidences, within and across classes."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, p)).round(digits)
    check_closest(points, rng.integers(0, classes, count))
    check_closest(points, None)


@pytest.mark.parametrize("p", [2, TREE_DIMENSION + 1])
def test_tight_clusters_of_one_class_do_not_hide_the_closest_pair(p):
    """Each point has many neighbours of its own class before the first of another."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(20, p))
    points = (centres[:, None] + 1e-9 * rng.normal(size=(20, 8, p))).reshape(-1, p)
    check_closest(points, np.repeat(np.arange(20), 8))


def test_blocks_and_products_that_round_to_nothing():
    """Three hundred pairs so close that their products cannot rank them: only the differences can."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2700, 12))
    close = rng.permutation(np.arange(1, 301))
    points[2400:] = points[:300] + 1e-11 * close[:, None]
    found, winner = closest_pair(points), int(close.argmin())
    assert (found.first, found.second) == (winner, 2400 + winner)


@pytest.mark.parametrize("p", [1, 2, 10])
def test_squares_neither_vanish_nor_overflow(p):
    for scale in (1e-300, 1e300):
        check_closest(np.random.default_rng(3).integers(-50, 50, (30, p)) * scale, np.arange(30))


def test_a_range_that_squares_cannot_hold_is_an_error_and_one_class_has_no_pair():
    points = np.array([[1e10, 0.0], [1e-300, 0.0], [2e-300, 0.0], [5e-300, 0.0]])
    with pytest.raises(PrecisionError, match="rescale the data"):
        closest_pair(points)
    assert closest_pair(points[:, :1]).distance == 1e-300  # on a line nothing is squared
    assert closest_pair(np.zeros((3, 2)), np.array([5, 5, 5])) is None
    assert closest_pair(np.zeros((1, 2))) is None
    assert closest_pair(np.zeros((2, 2)), np.array([5, 6])).distance == 0


# -- separation ----------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_separation_of_vectors(d, count, n, seed):
    X = np.random.default_rng(seed).integers(-2, 3, (count, n, d)).astype(np.float64)
    found = separation(X)
    tokens = {tuple(x) for row in X.tolist() for x in row}
    lengths = [math.hypot(*x) for x in tokens]
    assert (found.sequences, found.tokens, found.vocabulary) == (count, count * n, len(tokens))
    assert (found.r_min, found.r_max) == pytest.approx((min(lengths), max(lengths)))
    pairs = itertools.combinations(tokens, 2)
    assert found.epsilon == pytest.approx(min((math.dist(x, y) for x, y in pairs), default=math.inf))
    repeats = [n - len({tuple(x) for x in row}) for row in X.tolist()]
    assert (found.repeated_tokens, found.repeating) == (sum(repeats), tuple(np.flatnonzero(repeats).tolist()))
    assert all(not X[i, k].any() for i, k in found.zeros)
    assert len(found.zeros) == int((~X.any(axis=2)).sum())
    assert bool(found.broken) == bool(sum(repeats) or min(lengths) == 0)
    if found.closest_pair is not None:
        (i, k), (j, m) = found.closest_pair
        assert math.dist(X[i, k], X[j, m]) == pytest.approx(found.epsilon)


def test_explain_names_what_breaks_the_hypotheses():
    X = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [2.0, 0.0], [-0.0, 0.0]], [[1.0, 1.0]]]
    text = separation(X).explain()
    for words in (
        "sequences 0, 1 repeat a token (2 repetitions in all)",
        "r_min = 0: token 0 of sequence 1 is the zero vector (and 1 more places)",
        "lengths differ: they run from 1 to 3",
        "Theorem A may still hold",
        "token 0 of sequence 0 and token 0 of sequence 1",
    ):
        assert words in text
    assert "The hypotheses of Theorem 2 hold" in separation(np.array([[[1.0], [2.0]], [[3.0], [4.0]]])).explain()
    many = separation(np.zeros((9, 2), np.int64)).explain()
    assert "sequences 0, 1, 2, 3, 4 and 4 more repeat a token" in many


def test_ids_have_no_geometry_and_padding_is_not_counted():
    found = separation(["abc", "cab"])
    assert (found.vocabulary, found.dimension, found.r_min, found.r_max, found.epsilon) == (3, None, None, None, None)
    assert "The constructor chooses the embedding" in found.explain()
    found = separation(Sequences.of(np.array([[[1.0], [9.0]], [[2.0], [3.0]]]), lengths=[1, 2]))
    assert (found.tokens, found.r_max, found.shortest, found.longest) == (3, 3.0, 1, 2)
    found = separation(np.ones((2, 1, 2)))  # one token is infinitely far from the others
    assert (found.epsilon, found.closest_pair) == (math.inf, None)


@settings(max_examples=25)
@given(arrays.arrays(np.float64, (3, 2), elements=st.floats(-1e308, 1e308)))
def test_norms_are_those_of_hypot(vectors):
    for length, vector in zip(norms(vectors).tolist(), vectors.tolist(), strict=True):
        expected = math.hypot(*vector)
        if sys.float_info.min < expected < sys.float_info.max:
            assert length == pytest.approx(expected, rel=1e-14)


# -- contextual mappings -------------------------------------------------------------------------------


ragged = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=8)


def by_definition(X: list[list[int]], outputs: list[np.ndarray]) -> float:
    points = [(i, k) for i, row in enumerate(X) for k in range(len(row))]
    return min(
        (
            math.dist(outputs[i][k], outputs[j][m])
            for (i, k), (j, m) in itertools.combinations(points, 2)
            if set(X[i]) != set(X[j]) or X[i][k] != X[j][m]
        ),
        default=math.inf,
    )


@settings(max_examples=25)
@given(ragged, st.sampled_from([1, 2, 3, 10]), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_r_and_delta_are_those_of_the_definition(X, p, digits, seed):
    rng = np.random.default_rng(seed)
    outputs = [rng.normal(size=(len(row), p)).round(digits) for row in X]
    found = contextual_mapping(lambda _: outputs, X)
    assert found.r == pytest.approx(max(float(np.linalg.norm(q, axis=1).max()) for q in outputs))
    assert found.delta == pytest.approx(by_definition(X, outputs), rel=1e-13)
    if found.closest is None:
        assert found.delta == math.inf
    else:
        (i, k), (j, m) = found.closest
        assert math.dist(outputs[i][k], outputs[j][m]) == pytest.approx(found.delta, rel=1e-13)
        assert set(X[i]) != set(X[j]) or X[i][k] != X[j][m]


@settings(max_examples=25)
@given(ragged)
def test_classes_are_sets(X):
    data = Sequences.of(X)
    sets = set_classes(data.sequence, data.tokens, len(X))
    for i, j in itertools.combinations(range(len(X)), 2):
        assert (sets[i] == sets[j]) == (set(X[i]) == set(X[j]))
    prefixes = [(token, set(row[: place + 1])) for row in X for place, token in enumerate(row)]
    wholes = [(token, set(row)) for row in X for token in row]
    for causal, contexts in ((False, wholes), (True, prefixes)):
        classes = context_classes(data, causal)
        assert sorted(set(classes.tolist())) == list(range(classes.max() + 1))
        for i, j in itertools.combinations(range(len(contexts)), 2):
            assert (classes[i] == classes[j]) == (contexts[i] == contexts[j])


def test_a_map_that_ignores_the_context_is_caught():
    """A planted fault: the token itself is no contextual mapping, and two confused places are named."""
    X = np.array([[0, 1], [0, 2]])
    found = contextual_mapping(lambda X: X.astype(float), X)
    assert (found.delta, found.closest) == (0.0, ((0, 0), (1, 0)))
    assert found.points == 4
    assert found.classes == 4
    assert not found.holds(r=3.0, delta=0.0)
    for words in ("it confuses these two", "token 0 of sequence 0 and token 0 of sequence 1"):
        assert words in found.explain()


def test_tensors_padding_vector_tokens_and_one_class():
    X = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]])
    answer = torch.arange(12.0, requires_grad=True).reshape(2, 2, 3)
    found = contextual_mapping(lambda _: answer, X)
    assert found.delta == pytest.approx(math.sqrt(27))
    padded = np.full((2, 3, 3), np.nan)
    padded[:, :2] = answer.detach().numpy()
    assert contextual_mapping(lambda _: [answer[0], answer[1]], X) == contextual_mapping(lambda _: padded, X) == found
    found = contextual_mapping(lambda X: X * 0.0, np.array([[4], [4]]))
    assert (found.delta, found.closest) == (math.inf, None)
    assert "asks for no separation" in found.explain()


def test_answers_that_are_none_are_errors():
    for answer, words in (
        (np.zeros((2, 1, 3)), r"must answer with \(2, 2, p\)"),
        (np.zeros(2), r"must answer with \(2, 2, p\)"),
        ([np.zeros((2, 1)), np.zeros((1, 1))], "one output for each token"),
        (np.array([[0.0, 1.0], [np.nan, 2.0]]), "token 0 of sequence 1 is not finite"),
    ):
        with pytest.raises(DataError, match=words):
            contextual_mapping(lambda _, answer=answer: answer, np.array([[0, 1], [2, 3]]))
