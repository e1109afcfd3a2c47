"""Theorem B: equal frequencies, equal outputs; a begin-of-sequence token undoes it."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.errors import DataError
from monolayer.theory.frequency import (
    begin,
    check_theorem_b,
    compare_sequences,
    frequencies,
    same_frequencies,
    theorem_b_pair,
)
from monolayer.theory.weights import AttentionWeights, Head

words = st.text("abc", min_size=1, max_size=6)


@given(words, words)
def test_same_frequencies_is_cross_multiplication(x, y):
    ours, theirs = Counter(x), Counter(y)
    assert same_frequencies(x, y) == all(ours[c] * len(y) == theirs[c] * len(x) for c in "abc")


@given(words, st.integers(1, 4), st.integers(1, 4), st.randoms())
def test_multiples_of_a_multiset_have_its_frequencies(x, k, m, random):
    one, other = list(x * k), list(x * m)
    random.shuffle(one)
    assert same_frequencies(one, other)
    assert sum(frequencies(one).values()) == 1
    assert not same_frequencies([*one, "z"], other)


@given(words, words)
def test_with_one_begin_token_equal_frequencies_mean_equal_multisets(x, y):
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


def slow_softmax(weights, Z, query):
    """Every head's softmax output at one token, straight from the definition, in balls."""

    def balls(matrix, vector):
        rows = [[arb(fmpq(*number.as_integer_ratio())) for number in row] for row in matrix.tolist()]
        return [sum((a * b for a, b in zip(row, vector, strict=True)), arb(0)) for row in rows]

    tokens = [[arb(number) for number in token] for token in Z.tolist()]
    output = list(tokens[query])
    for head in weights.heads:
        asked = balls(head.W_Q, tokens[query])
        keys = [balls(head.W_K, token) for token in tokens]
        powers = [sum((a * b for a, b in zip(key, asked, strict=True)), arb(0)).exp() for key in keys]
        values = [balls(head.W_O, balls(head.W_V, token)) for token in tokens]
        for axis in range(len(output)):
            top = sum((p * v[axis] for p, v in zip(powers, values, strict=True)), arb(0))
            output[axis] += top / sum(powers, arb(0))
    return output


@st.composite
def cases(draw):
    """A layer and distinct tokens, some of them small whole vectors, so that scores tie."""
    dim, count = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    tokens = generator.normal(size=(count, dim))
    if draw(st.booleans()):
        tokens = np.unique(generator.integers(-2, 3, (count, dim)), axis=0).astype(float)
    rank = draw(st.sampled_from([None, 1]))
    return AttentionWeights.random(draw(st.integers(1, 3)), dim, 2 if dim > 1 else 1, seed=seed, rank=rank), tokens


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(2, 4), st.integers(0, 99))
def test_copies_are_invisible_and_balls_agree(case, copies, seed):
    weights, tokens = case
    X, Y = theorem_b_pair(tokens, copies)
    Y = np.random.default_rng(seed).permutation(Y)
    check = compare_sequences(weights, X, Y)
    assert check.same
    assert check.all_equal
    assert check.hardmax_equal
    with ctx.workprec(200):
        place = int(np.flatnonzero((X[0] == Y).all(axis=1))[0])
        pairs = list(zip(slow_softmax(weights, X, 0), slow_softmax(weights, Y, place), strict=True))
        assert all(a.overlaps(b) for a, b in pairs)
        assert all((a - b).rad() < 1e-30 for a, b in pairs)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(2, 3))
def test_begin_of_sequence_separates_copies(case, copies):
    """Random weights do it wherever the head sees a difference: at least two tokens, or values that move."""
    weights, tokens = case
    found = check_theorem_b(weights, tokens, copies=copies)
    assert found.without.all_equal
    assert not found.with_bos.same
    bos = np.array(found.with_bos.tokens[0])
    X, Y = (begin(Z, bos) for Z in theorem_b_pair(tokens, copies))
    with ctx.workprec(400):
        for token, comparison in zip(found.with_bos.tokens, found.with_bos.comparisons, strict=True):
            k, place = (int(np.flatnonzero((np.array(token) == Z).all(axis=1))[0]) for Z in (X, Y))
            apart = [
                not a.overlaps(b)
                for a, b in zip(slow_softmax(weights, X, k), slow_softmax(weights, Y, place), strict=True)
            ]
            if any(apart):
                assert comparison.verdict == "separated"
            elif comparison.verdict == "separated":
                assert comparison.upper < 1e-80
    json.dumps(found.to_json())


def test_theorem_b_for_one_layer():
    weights = AttentionWeights.random(3, 4, seed=1)
    found = check_theorem_b(weights, np.eye(4))
    assert found.holds
    assert found.lengths == (4, 8)
    assert all(c.lower > 0 for c in found.with_bos.comparisons)
    assert "equal frequencies" in found.explain()
    assert "separated" in found.explain()
    # A vector of one's own, and the default when zero is a token already.
    assert check_theorem_b(weights, np.eye(4), bos=[0.5, 0.5, -1.0, 2.0]).holds
    assert check_theorem_b(weights, np.vstack([np.zeros(4), np.eye(4)]), copies=3).holds


def test_unequal_frequencies_are_seen():
    """The planted fault: one copy too few must not pass for proportional."""
    weights = AttentionWeights.random(2, 3, seed=4)
    X, Y = theorem_b_pair(np.eye(3)[:2])
    assert compare_sequences(weights, X, Y).all_equal
    check = compare_sequences(weights, X, Y[1:])
    assert not check.same
    assert check.verdict == "separated"


def test_zero_weights_separate_nothing_even_with_a_begin_token():
    zero = Head(*(np.zeros((2, 2)) for _ in range(4)))
    found = check_theorem_b([zero], np.eye(2))
    assert not found.holds
    assert found.with_bos.verdict == "equal"
    # Heads that cancel each other are equal, but no exact argument here says so: undecided, not equal.
    head = AttentionWeights.random(1, 2, 2, seed=2).heads[0]
    cancelled = [head, Head(head.W_Q, head.W_K, head.W_V, -head.W_O)]
    assert check_theorem_b(cancelled, np.eye(2)).with_bos.verdict == "undecided"


def test_wrong_arguments():
    weights = AttentionWeights.random(1, 2)
    with pytest.raises(DataError, match="copies = 1"):
        theorem_b_pair(np.eye(2), 1)
    with pytest.raises(DataError, match="token 1 equals the begin-of-sequence vector"):
        check_theorem_b(weights, np.eye(2), bos=[0.0, 1.0])
    with pytest.raises(DataError, match=r"bos has shape \(1, 3\)"):
        begin(np.eye(2), [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match=r"X has shape \(3, 3\)"):
        compare_sequences(weights, np.eye(3), np.eye(2))
    with pytest.raises(DataError, match="share no token"):
        compare_sequences(weights, np.eye(2), 2 * np.eye(2))
    with pytest.raises(DataError, match="tokens is not a table of numbers"):
        theorem_b_pair("ab")
