"""Corollary 1 carried out: proved in balls on small data, and what float64 leaves of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.theory.balls import precision
from monolayer.theory.bounds import corollary1_counts
from monolayer.theory.corollary import _returns, corollary1, possible
from monolayer_experiments.synthetic import without_repeats


def data(vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    return without_repeats(min(2 * vocabulary, math.comb(vocabulary, 3)), 3, vocabulary)


def test_every_label_is_proved_at_the_papers_scale_and_float64_cannot_hold_it() -> None:
    found = corollary1(*data(4))
    assert found.verdict == "proved"
    assert found.bits == 8192
    assert found.parameters == corollary1_counts(3 * 4, 1)[0]
    assert found.distinct < found.points
    assert found.possible < 1.0


def test_with_the_measured_scale_fewer_bits_do() -> None:
    found = corollary1(*data(8), scale="measured")
    assert (found.verdict, found.bits) == ("proved", 256)
    assert found.possible == pytest.approx(0.917, abs=1e-3)
    assert corollary1(*data(8), scale="measured", max_bits=128).verdict == "undecided"


def test_the_readout_passes_through_its_points_and_a_wrong_label_does_not() -> None:
    labels = [2, 0, 5, 5, 1]
    with precision(128):
        q = [arb(i) / 3 + arb(0, 2.0**-60) for i in range(5)]
        assert _returns(q, labels)
        wide = [arb(i) / 3 + arb(0, 0.05) for i in range(5)]
        assert not _returns(wide, labels)  # a ball so wide that the slope makes half a label of it


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 2**32))
def test_the_best_readout_answers_the_most_frequent_label_of_an_id(kinds: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, label = random.integers(0, kinds, 30), random.integers(0, 3, 30)
    best = sum(np.bincount(label[rows == kind], minlength=3).max() for kind in range(kinds))
    assert possible(random.normal(size=(kinds, 4))[rows], label) == best / 30
    assert possible(np.array([0.0, -0.0, 2.0]), np.array([0, 1, 1])) == 2 / 3


@pytest.mark.parametrize(
    ("X", "Y", "words"),
    [
        ([[0, 0]], [[1, 1]], "hypotheses of Theorem 2"),
        ([[0, 1]], [0], "one class per token"),
        ([[0]], [[0]], "one token only"),
        (np.ones((1, 1, 2)), [[0]], "on a line"),
        ([[0, 1], [1, 0]], [[0, 1], [1, 1]], "contradict"),
    ],
)
def test_data_that_the_corollary_does_not_cover(X: object, Y: object, words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        corollary1(X, Y)
