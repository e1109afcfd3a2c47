"""Theorem B: equal frequencies, equal outputs; a begin-of-sequence token undoes it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.errors import DataError
from monolayer.theory.frequency import compare_sequences, frequencies, same_frequencies
from monolayer.theory.weights import AttentionWeights, Head
from tests.test_hardmax import slow_distance

words = st.text("abc", min_size=1, max_size=6)


@given(words, words, st.integers(1, 4), st.integers(1, 4), st.randoms())
def test_same_frequencies_is_cross_multiplication(x, y, k, m, random):
    ours, theirs = Counter(x), Counter(y)
    assert same_frequencies(x, y) == all(ours[c] * len(y) == theirs[c] * len(x) for c in "abc")
    one, other = list(x * k), list(x * m)
    random.shuffle(one)
    assert same_frequencies(one, other)
    assert not same_frequencies([*one, "z"], other)
    # Behind one begin token equal frequencies mean equal multisets.
    assert same_frequencies("^" + x, "^" + y) == (sorted(x) == sorted(y))


def test_vectors_ids_and_signed_zero():
    assert same_frequencies(np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0], [0.0, 1.0]]))
    assert not same_frequencies(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert same_frequencies(np.array([3, 3, 5, 5]), [5, 3])
    with pytest.raises(DataError, match="no frequencies"):
        frequencies([])
    with pytest.raises(DataError, match="token 1 of the sequence is not finite"):
        frequencies(np.array([[1.0], [np.nan]]))


# -- the theorem for weights ---------------------------------------------------------------------------


@st.composite
def cases(draw):
    """A layer and distinct tokens, some of them small whole vectors, so that scores tie."""
    dim, count = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    tokens = generator.normal(size=(count, dim))
    if draw(st.booleans()):
        tokens = np.unique(generator.integers(1, 4, (count, dim)), axis=0).astype(float)
    rank = draw(st.sampled_from([None, 1]))
    return AttentionWeights.random(draw(st.integers(1, 3)), dim, 2 if dim > 1 else 1, seed=seed, rank=rank), tokens


@settings(max_examples=30)
@given(cases(), st.integers(2, 4), st.integers(0, 99))
def test_copies_are_invisible_until_a_begin_token_stands_before_them(case, copies, seed):
    weights, tokens = case
    twice = np.random.default_rng(seed).permutation(np.repeat(tokens, copies, axis=0))
    without = compare_sequences(weights, tokens, twice)
    assert without.same
    assert without.all_equal
    assert without.hardmax_equal
    X, Y = (np.vstack([np.zeros(tokens.shape[1]), Z]) for Z in (tokens, twice))
    begun = compare_sequences(weights, X, Y)
    assert not begun.same
    for found, one, other in ((without, tokens, twice), (begun, X, Y)):
        for token, comparison in zip(found.tokens, found.comparisons, strict=True):
            k, place = (int(np.flatnonzero((np.array(token) == Z).all(axis=1))[0]) for Z in (one, other))
            distance = slow_distance(weights, one, other, k, place, bits=400)
            if comparison.verdict == "separated":
                assert distance > 0 or comparison.upper < 1e-80
            else:
                assert distance.contains(0)


def test_theorem_b_for_one_layer():
    weights, tokens, bos = AttentionWeights.random(3, 4, seed=1), np.eye(4), np.zeros((1, 4))
    twice = np.repeat(tokens, 2, axis=0)
    assert compare_sequences(weights, tokens, twice).all_equal
    begun = compare_sequences(weights, np.vstack([bos, tokens]), np.vstack([bos, twice]))
    assert begun.verdict == "separated"
    assert all(c.lower > 0 for c in begun.comparisons)
    # The planted fault: one copy too few must not pass for proportional.
    check = compare_sequences(weights, tokens, twice[1:])
    assert not check.same
    assert check.verdict == "separated"


def test_zero_weights_separate_nothing_even_with_a_begin_token():
    X, Y = (np.vstack([np.zeros(2), Z]) for Z in (np.eye(2), np.repeat(np.eye(2), 2, axis=0)))
    zero = Head(*(np.zeros((2, 2)) for _ in range(4)))
    assert compare_sequences([zero], X, Y).verdict == "equal"
    # Heads that cancel each other are equal, but no exact argument here says so: undecided, not equal.
    head = AttentionWeights.random(1, 2, 2, seed=2).heads[0]
    cancelled = [head, Head(head.W_Q, head.W_K, head.W_V, -head.W_O)]
    assert compare_sequences(cancelled, X, Y).verdict == "undecided"


@pytest.mark.parametrize(
    ("X", "words"),
    [(np.eye(3), r"X has shape \(3, 3\)"), (2 * np.eye(2), "share no token"), ("ab", "X is not a table of numbers")],
)
def test_sequences_that_cannot_be_compared(X, words):
    with pytest.raises(DataError, match=words):
        compare_sequences(AttentionWeights.random(1, 2), X, np.eye(2))
