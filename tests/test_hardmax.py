"""Theorem 1: hardmax is refuted for all weights, and by which pairs; Theorem B: attention sees frequencies alone.

Slow references in Fractions and in balls of 600 bits.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.errors import DataError
from monolayer.theory.frequency import compare_sequences, frequencies
from monolayer.theory.hardmax import check_witness, refute_hardmax
from monolayer.theory.shown import enclosed
from monolayer.theory.universal import universal_pair, universality
from monolayer.theory.weights import MATRICES, AttentionWeights, HeadWeights

# -- slow references -----------------------------------------------------------------------------------


def times(matrix, vector):
    """Matrix times vector in Fractions."""
    return [sum((Fraction(a) * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix.tolist()]


def scores_and_values(head, Z, query):
    tokens = [[Fraction(number) for number in token] for token in Z.tolist()]
    asked = times(head.W_Q, tokens[query])
    keys = [times(head.W_K, token) for token in tokens]
    scores = [sum((a * b for a, b in zip(key, asked, strict=True)), Fraction(0)) for key in keys]
    return scores, [times(head.W_O, times(head.W_V, token)) for token in tokens]


def slow_hardmax(weights, Z, query):
    """One token's output of the hardmax layer, from the definition, in Fractions."""
    output = [Fraction(number) for number in Z[query].tolist()]
    for head in weights.heads:
        scores, values = scores_and_values(head, Z, query)
        best = [value for score, value in zip(scores, values, strict=True) if score == max(scores)]
        output = [o + sum(column) / len(best) for o, column in zip(output, zip(*best, strict=True), strict=True)]
    return output


def slow_softmax(weights, Z, query):
    """One token's output of the softmax layer, from the definition, in balls of the precision in force."""
    ball = lambda number: arb(fmpq(number.numerator, number.denominator))  # noqa: E731
    output = [ball(Fraction(number)) for number in Z[query].tolist()]
    for head in weights.heads:
        scores, values = scores_and_values(head, Z, query)
        powers = [ball(score - max(scores)).exp() for score in scores]
        total = sum(powers, arb(0))
        for axis in range(len(output)):
            mean = sum((p * ball(v[axis]) for p, v in zip(powers, values, strict=True)), arb(0)) / total
            output[axis] = output[axis] + mean
    return output


def slow_distance(weights, X, Y, k, place, bits=600):
    with ctx.workprec(bits):
        pairs = zip(slow_softmax(weights, X, k), slow_softmax(weights, Y, place), strict=True)
        moves = [a - b for a, b in pairs]
        # Not `move ** 2`, which is not a number where the ball holds 0.
        return sum((move * move for move in moves), arb(0)).nonnegative_part().sqrt()


# -- weights of every kind -----------------------------------------------------------------------------


@st.composite
def layers(draw, dim=None, scales=(0.0, 1e-160, 1e-3, 0.25, 1.0, 30.0, 1e8, 1e150)):
    """Any heads, dimension, head size, scale and rank: whole-number entries for ties, Gaussian ones for none."""
    dim = draw(st.integers(1, 4)) if dim is None else dim
    heads = []
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for _ in range(draw(st.integers(1, 3))):
        size, value_size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        kind = draw(st.sampled_from(["whole", "gauss", "rank one", "zero keys", "opposite"]))
        scale = draw(st.sampled_from(scales))

        def matrix(rows, columns, kind=kind, scale=scale):
            if kind == "whole":
                return scale * generator.integers(-2, 3, (rows, columns))
            if kind == "rank one":
                return scale * np.outer(generator.normal(size=rows), generator.normal(size=columns))
            return scale * generator.normal(size=(rows, columns))

        W_Q, W_K = matrix(size, dim), matrix(size, dim)
        W_V, W_O = matrix(value_size, dim), matrix(dim, value_size)
        heads.append(HeadWeights(W_Q, 0 * W_K if kind == "zero keys" else W_K, W_V, W_O))
        if kind == "opposite":
            heads.append(HeadWeights(-W_Q, W_K, W_V, W_O))
    return AttentionWeights(tuple(heads))


@settings(max_examples=15)
@given(layers(), st.integers(4, 7), st.integers(0, 99))
def test_every_layer_is_refuted_and_the_outputs_are_those_of_the_definition(weights, n, seed):
    found = refute_hardmax(weights, n=n, seed=seed)
    assert found.verdict == "refuted"
    assert found.universal
    assert len(found.X) == len(found.X_prime) == n
    assert len(found.shared) == n - 2
    for (k, place), output in zip(found.shared, found.outputs, strict=True):
        assert (found.X[k] == found.X_prime[place]).all()
        assert list(output) == slow_hardmax(weights, found.X, k) == slow_hardmax(weights, found.X_prime, place)
    json.dumps(found.to_json(), allow_nan=False)
    assert "refuted" in found.explain()


@settings(max_examples=20)
@given(layers(scales=(0.0, 0.1, 0.5, 1.0)), st.integers(4, 6))
def test_softmax_verdict_and_enclosure_agree_with_direct_evaluation(weights, n):
    before = ctx.prec
    found = refute_hardmax(weights, n=n)
    assert ctx.prec == before
    for (k, place), comparison in zip(found.shared, found.softmax, strict=True):
        distance = slow_distance(weights, found.X, found.X_prime, k, place)
        if comparison.verdict != "separated":
            assert distance.contains(0)
        elif comparison.upper < 1e-150:  # 600 bits do not reach below
            assert distance < 1e-149
        else:
            assert distance > 0
            assert comparison.lower <= distance <= comparison.upper
            assert comparison.lower > 0.99 * comparison.upper


def test_what_softmax_makes_of_the_pair_is_explained():
    head = AttentionWeights.random(1, 4).heads[0]
    opposite = HeadWeights(
        -head.W_Q, head.W_K, head.W_V, head.W_O
    )  # equal values: balls of the sum hold 0 at every precision
    huge = refute_hardmax([HeadWeights(*(1e200 * matrix for matrix in head))])
    for found, verdict, words in (
        (refute_hardmax([tuple(0 * matrix for matrix in head)]), "equal", "does not separate"),
        (refute_hardmax([head, opposite]), "undecided", "undecided (several heads differ"),
        (refute_hardmax([head]), "separated", "separates it at every shared token"),
        (huge, "separated", "excludes 0"),
    ):
        assert found.softmax_verdict == verdict
        assert words in found.explain()
    assert all(c.lower == 0.0 for c in huge.softmax)  # below every float
    json.dumps(huge.to_json(), allow_nan=False)


def test_rows_json_and_the_textbook_pair():
    rows = dict(refute_hardmax(dim=2).rows())
    assert (rows["X"][:14], rows["X'"][:14]) == ("{1, 2, 5, 6}·v", "{1, 3, 4, 6}·v")
    found = refute_hardmax(heads=2, dim=3, n=20, seed=5)
    rows, data = dict(found.rows()), found.to_json()
    assert (rows["layer"], rows["verdict"], rows["defeats"]) == (
        "2 heads, dimension 3",
        "refuted",
        "every hardmax layer",
    )
    assert rows["shared tokens"] == "18"
    assert "1, 2, 4, 5, 6, …, 17," in rows["X"]
    least = min(found.softmax, key=lambda each: each.upper)
    assert rows["least softmax distance"] == enclosed(math.log10(least.lower), math.log10(least.upper))
    assert [Fraction(text) for text in data["hardmax_outputs"][0]] == list(found.outputs[0])
    assert data["X"] == found.X.tolist()


@settings(max_examples=15)
@given(st.integers(4, 8), st.integers(1, 4), st.integers(0, 999), st.data())
def test_a_token_moved_by_one_float_is_caught(n, dim, seed, data):
    X, Y = universal_pair(n, dim, seed=seed)
    token, axis = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, dim - 1))
    Y[token, axis] = np.nextafter(Y[token, axis], np.inf)
    mean = HeadWeights(np.eye(dim), np.zeros((dim, dim)), np.eye(dim), np.eye(dim))
    with pytest.raises(DataError, match="not a witness: head 0 tells token"):
        check_witness([mean], X, Y)


def test_what_is_no_pair_is_refused():
    X, Y = universal_pair(4, 2)
    for one, other, words in (
        (X[[0, 0, 2, 3]], Y, "token 1 of X repeats"),
        (X, Y + 100.0, "share no token"),
        (np.zeros((4, 3)), Y, r"shape \(4, 3\)"),
        (X, np.where(np.arange(4)[:, None] == 2, np.nan, Y), "token 2 of X' is not finite"),
    ):
        with pytest.raises(DataError, match=words):
            check_witness(AttentionWeights.random(1, 2), one, other)
    for call, words in (
        (lambda: universal_pair(3, 2), "determine a set of three"),
        (lambda: universal_pair(4, 0), "dim = 0"),
        (lambda: universality([[0.0], [1.0]], [[0.0], [2.0]]), "share no token but 0"),
        (lambda: universality([[1.0]], [[1.0, 2.0]]), "coordinates"),
        (lambda: compare_sequences(AttentionWeights.random(1, 2), np.eye(3), np.eye(2)), r"X has shape \(3, 3\)"),
        (lambda: compare_sequences(AttentionWeights.random(1, 2), 2 * np.eye(2), np.eye(2)), "share no token"),
        (lambda: compare_sequences(AttentionWeights.random(1, 2), "ab", np.eye(2)), "X is not a table of numbers"),
    ):
        with pytest.raises(DataError, match=words):
            call()


def test_a_pair_off_the_line_is_checked_and_not_called_universal():
    """The corners of a square in common, and two inner points each, of equal sum: equal hulls, and equal means."""
    corners = [[1.0, 1.0], [9.0, 1.0], [1.0, 9.0], [9.0, 9.0]]
    X, Y = np.array([*corners, [2.0, 3.0], [4.0, 6.0]]), np.array([*corners, [3.0, 5.0], [3.0, 4.0]])
    weights = AttentionWeights.random(2, 2)
    found = check_witness(weights, X, Y)
    assert ("X", "6 tokens") in found.rows()
    assert not found.universal
    assert universality(X, Y) == "undecided"
    assert [list(o) for o in found.outputs] == [slow_hardmax(weights, Y, k) for k in range(4)]


sets = st.sets(st.integers(0, 7), min_size=1, max_size=6)


@given(sets, sets, st.sampled_from([0.0, 1.0]))
@settings(max_examples=60)
def test_on_a_line_any_lengths(A, B, offset):
    """Against a head of every kind: it sees the largest, the smallest, or the mean."""
    V = np.array([1.0, -2.0, 0.5])
    if A == B or not (A & B) - {0}:
        return
    X, Y = (np.outer(np.array(sorted(each), dtype=float), V) + offset for each in (A, B))
    told = any(f(A) != f(B) for f in (min, max, lambda each: Fraction(sum(each), len(each))))
    assert universality(X, Y) == ("separable" if told else "universal")
    if len(A) == len(B) < 4:
        assert told  # minimum, maximum and sum determine a set of three


# -- reading weights -----------------------------------------------------------------------------------


@pytest.fixture
def arrays():
    heads = AttentionWeights.random(2, 4, 3, seed=8).heads
    return {name: np.stack([getattr(head, name) for head in heads]) for name in MATRICES}


def test_weights_are_read_back(tmp_path, arrays):
    stored = {name: array.astype(np.float32) for name, array in arrays.items()}
    np.savez(tmp_path / "weights.npz", **stored)
    read = AttentionWeights.of(str(tmp_path / "weights.npz"))
    assert (len(read.heads), read.dim) == (2, 4)
    for name in MATRICES:
        assert np.array_equal([getattr(head, name) for head in read.heads], stored[name])
    assert not any(matrix.flags.writeable for head in read.heads for matrix in head)


def test_bad_weights_and_files_are_named(tmp_path, arrays):
    poisoned = arrays["W_K"].copy()
    poisoned[1, 2, 3] = np.inf
    cases = {
        r"W_O of head 0 has shape \(3, 4\), but \(4, 3\) is needed": dict(arrays, W_O=arrays["W_Q"]),
        r"W_K of head 0 has shape \(2, 4\), but \(3, 4\) is needed": dict(arrays, W_K=arrays["W_K"][:, :2]),
        r"W_K of head 1, shape \(3, 4\), is not finite at row 2, column 3": dict(arrays, W_K=poisoned),
        "disagree on the number of heads": dict(arrays, W_V=arrays["W_V"][:1]),
        "W_V has shape": dict(arrays, W_V=np.zeros(3)),
        "unknown arrays b_Q": dict(arrays, b_Q=np.zeros(3)),
        "W_O missing": {name: arrays[name] for name in MATRICES[:3]},
        "W_Q, W_K, W_V, W_O missing": {},
        "type <U1": dict(arrays, W_Q=np.full((2, 3, 4), "x")),
        "type complex128": dict(arrays, W_Q=arrays["W_Q"] * 1j),
        "cannot hold exactly": dict(arrays, W_Q=np.full((2, 3, 4), 2**53 + 1)),
    }
    for message, source in cases.items():
        with pytest.raises(DataError, match=message):
            AttentionWeights.of(source)
    eye, four = np.eye(2), "head 0 is not a list of four matrices"
    (tmp_path / "broken.npz").write_bytes(b"nothing of the kind")
    np.savez(tmp_path / "short.npz", W_Q=arrays["W_Q"])
    for source, message in (
        *(([[eye] * 3], four), ([7], four), ([{"W_Q": eye}], four)),
        ([[[[1.0], [1.0, 2.0]], eye, eye, eye]], "W_Q of head 0 is ragged"),
        *((nothing, "give a file, a dict of arrays") for nothing in (None, 3, [])),
        (tmp_path / "none.npz", "no file"),
        (tmp_path / "broken.npz", "broken.npz"),
        (tmp_path / "short.npz", "short.npz: W_K, W_V, W_O missing"),
    ):
        with pytest.raises(DataError, match=message):
            AttentionWeights.of(source)
    for call, message in (
        (lambda: AttentionWeights(()), "has no head"),
        (lambda: refute_hardmax(heads=0), "heads = 0"),
    ):
        with pytest.raises(DataError, match=message):
            call()


# -- Theorem B -----------------------------------------------------------------------------------------

words = st.text("abc", min_size=1, max_size=6)


@settings(max_examples=40)
@given(words, words, st.integers(1, 4), st.integers(1, 4), st.randoms())
def test_frequencies_are_those_of_cross_multiplication(x, y, k, m, random):
    ours, theirs = Counter(x), Counter(y)
    assert (frequencies(x) == frequencies(y)) == all(ours[c] * len(y) == theirs[c] * len(x) for c in "abc")
    one, other = list(x * k), list(x * m)
    random.shuffle(one)
    assert frequencies(one) == frequencies(other) != frequencies([*one, "z"])
    # Behind one begin token equal frequencies mean equal multisets.
    assert (frequencies("^" + x) == frequencies("^" + y)) == (sorted(x) == sorted(y))


@settings(max_examples=10)
@given(layers(scales=(0.1, 0.5, 1.0)), st.integers(1, 4), st.booleans(), st.integers(2, 4), st.integers(0, 99))
def test_copies_are_invisible_until_a_begin_token_stands_before_them(weights, count, whole, copies, seed):
    generator = np.random.default_rng(seed)
    tokens = generator.normal(size=(count, weights.dim))
    if whole:  # so that scores tie
        tokens = np.unique(generator.integers(1, 4, (count, weights.dim)), axis=0).astype(float)
    # One copy too few does not pass for proportional.
    assert len(tokens) == 1 or not compare_sequences(weights, tokens, np.repeat(tokens, 2, axis=0)[1:]).same
    twice = generator.permutation(np.repeat(tokens, copies, axis=0))
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
