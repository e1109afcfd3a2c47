"""The (r, δ) of a map against the definition, pair by pair."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.theory.boltzmann import boltzmann
from monolayer.theory.contextual import (
    context_classes,
    contextual_mapping,
    frequency_classes,
    set_classes,
    token_counts,
)
from monolayer.theory.frequency import same_frequencies

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


@settings(max_examples=40)
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


@settings(max_examples=40)
@given(ragged)
def test_classes_are_sets_and_frequencies(X):
    data = Sequences.of(X)
    sets = set_classes(data.sequence, data.tokens, len(X))
    frequencies = frequency_classes(data.sequence, data.tokens, len(X))
    for i, j in itertools.combinations(range(len(X)), 2):
        assert (sets[i] == sets[j]) == (set(X[i]) == set(X[j]))
        assert (frequencies[i] == frequencies[j]) == same_frequencies(X[i], X[j])
    classes = context_classes(data)
    assert sorted(set(classes.tolist())) == list(range(classes.max() + 1))
    values, counts, lengths = token_counts(data.sequence, data.tokens, len(X))
    assert values.tolist() == [x for row in X for x in sorted(set(row))]
    assert counts.tolist() == [row.count(x) for row in X for x in sorted(set(row))]
    assert lengths.tolist() == [len(set(row)) for row in X]


def attention(X: np.ndarray) -> np.ndarray:
    """One softmax head on the ids themselves: x + B(1; x)/10."""
    return X + boltzmann(1.0, X.astype(float))[:, None] / 10


def test_permutations_are_not_compared():
    X = np.array([[0, 1, 2], [2, 0, 1], [0, 1, 3]])
    found = contextual_mapping(attention, X)
    assert (found.points, found.classes) == (9, 6)
    assert found.delta > 0.01
    assert found.holds(r=found.r + 1e-9, delta=0.01)
    assert not found.holds(r=found.r, delta=0.01)
    assert not found.holds(r=10, delta=found.delta)


def test_a_map_that_ignores_the_context_is_caught():
    """A planted fault: the token itself is no contextual mapping, and two confused places are named."""
    X = np.array([[0, 1], [0, 2]])
    found = contextual_mapping(lambda X: X.astype(float), X)
    assert (found.delta, found.closest) == (0.0, ((0, 0), (1, 0)))
    assert "it confuses these two" in found.explain()
    assert "token 0 of sequence 0 and token 0 of sequence 1" in found.explain()


def test_tensors_padding_vector_tokens_and_one_class():
    X = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]])
    answer = torch.arange(12.0, requires_grad=True).reshape(2, 2, 3)
    found = contextual_mapping(lambda _: answer, X)
    assert found.delta == pytest.approx(math.sqrt(27))
    lists = contextual_mapping(lambda _: [answer[0], answer[1]], X)
    assert lists == found
    padded = np.full((2, 3, 3), np.nan)
    padded[:, :2] = answer.detach().numpy()
    assert contextual_mapping(lambda _: padded, X) == found

    found = contextual_mapping(lambda X: X * 0.0, np.array([[4], [4]]))
    assert (found.delta, found.closest) == (math.inf, None)
    assert "asks for no separation" in found.explain()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros((2, 1, 3)), r"must answer with \(2, 2, p\)"),
        (np.zeros(2), r"must answer with \(2, 2, p\)"),
        ([np.zeros((2, 1)), np.zeros((1, 1))], "one output for each token"),
        (np.array([[0.0, 1.0], [np.nan, 2.0]]), "token 0 of sequence 1 is not finite"),
    ],
)
def test_answers_that_are_none_are_errors(answer, words):
    with pytest.raises(DataError, match=words):
        contextual_mapping(lambda _: answer, np.array([[0, 1], [2, 3]]))
