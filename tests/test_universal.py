"""Which pairs defeat every hardmax layer, of equal and of different lengths: the decision against exact brute force.

The reference scores by many directions in rationals and compares the means of what comes first: on a line it needs
three, in a plane all normals of small whole numbers and the directions between them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.errors import DataError
from monolayer.theory.frequency import compare_sequences
from monolayer.theory.hardmax import check_witness
from monolayer.theory.universal import top_mean, universality
from monolayer.theory.weights import AttentionWeights, Head

V = np.array([1.0, -2.0, 0.5])


def on_line(*values: int) -> np.ndarray:
    return np.outer(np.array(values, dtype=float), V)


def exact(X: np.ndarray) -> list[tuple[Fraction, ...]]:
    return [tuple(map(Fraction, token)) for token in X.tolist()]


def hardmax(scores: list[Fraction], values: list[tuple[Fraction, ...]]) -> list[Fraction]:
    """Written anew, by counting: 1/m on each of the m largest."""
    chosen = [v for s, v in zip(scores, values, strict=True) if all(s >= t for t in scores)]
    return [sum(column, Fraction(0)) / len(chosen) for column in zip(*chosen, strict=True)]


def test_two_and_three_tokens_defeat_every_layer() -> None:
    X, Y = on_line(1, 2, 3), on_line(1, 3)
    assert universality(X, Y).verdict == "universal"
    for seed in range(20):
        found = check_witness(AttentionWeights.random(3, 3, seed=seed), X, Y)
        assert found.universal
        assert found.softmax_verdict == "separated"
    mean = Head(np.eye(3), np.zeros((3, 3)), np.eye(3), np.eye(3))
    with pytest.raises(DataError, match="not a witness"):
        check_witness([mean], X, on_line(1, 2, 4))


sets = st.sets(st.integers(0, 7), min_size=1, max_size=6)


@given(sets, sets)
@settings(max_examples=150)
def test_on_a_line_any_lengths(A: set[int], B: set[int]) -> None:
    if A == B or not (A & B) - {0}:
        return
    X, Y = on_line(*sorted(A)), on_line(*sorted(B))
    signs = [Fraction(c) for c in (-1, 0, 1)]
    told = any(
        hardmax([c * a for a in A], [(Fraction(a),) for a in A])
        != hardmax([c * b for b in B], [(Fraction(b),) for b in B])
        for c in signs
    )
    assert (universality(X, Y).verdict == "separable") == told
    if len(A) == len(B) < 4:
        assert told  # minimum, maximum and sum determine a set of three


def test_lengths_that_differ_from_two_tokens_on() -> None:
    """Every pair of lengths 2 ≤ n < m has a universal pair; a single token has none."""
    subsets = {n: [set(c) for c in combinations(range(1, 8), n)] for n in range(1, 6)}
    for n, m in combinations(range(1, 6), 2):
        found = any(
            A & B and universality(on_line(*sorted(A)), on_line(*sorted(B))).verdict == "universal"
            for A, B in product(subsets[n], subsets[m])
        )
        assert found == (n >= 2)


grid = st.tuples(st.integers(0, 3), st.integers(0, 3))
# All directions whose normal cones can differ on this grid: entries up to 3, and the ones between neighbours.
NORMALS = sorted(
    {(a, b) for a in range(-3, 4) for b in range(-3, 4) if gcd(a, b) == 1}, key=lambda u: np.arctan2(u[1], u[0])
)
BETWEEN = [(a + c, b + d) for (a, b), (c, d) in zip(NORMALS, NORMALS[1:] + NORMALS[:1], strict=True)]
DIRECTIONS = [(0, 0), *NORMALS, *BETWEEN]


@given(st.sets(grid, min_size=1, max_size=4), st.lists(grid, max_size=3), st.lists(grid, max_size=3))
@settings(max_examples=60)
def test_in_a_plane_any_lengths_and_repeats(shared: set[tuple[int, int]], more: list, other: list) -> None:
    X, Y = (np.array([*sorted(shared), *rest], dtype=float) for rest in (more, other))
    if not any(map(any, shared)):
        return
    told = []
    for u in DIRECTIONS:
        means = [hardmax([Fraction(u[0]) * t[0] + Fraction(u[1]) * t[1] for t in exact(Z)], exact(Z)) for Z in (X, Y)]
        told.append(means[0] != means[1])
    found = universality(X, Y)
    assert (found.verdict == "separable") == any(told)
    if found.direction is not None:
        assert top_mean(exact(X), found.direction) != top_mean(exact(Y), found.direction)


def test_the_same_frequencies_are_universal_and_a_plane_in_space_is_decided() -> None:
    X = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0], [2.0, 2.0, 2.0]])
    assert universality(X, np.repeat(X, 2, axis=0)).verdict == "universal"
    corners = np.array([[1.0, 1.0, 1.0], [9.0, 1.0, 1.0], [1.0, 9.0, 1.0], [9.0, 9.0, 1.0]])
    assert universality(corners, np.vstack([corners, [[5.0, 5.0, 1.0]]])).verdict == "universal"
    assert universality(corners, np.vstack([corners, [[5.0, 4.0, 1.0]]])).verdict == "separable"


def test_in_space_nothing_is_called_universal() -> None:
    cube = np.array(list(product([1.0, 3.0], repeat=3)))
    assert universality(cube, np.vstack([cube, [[2.0, 2.0, 2.0]]])).verdict == "undecided"
    assert universality(cube, np.vstack([cube, [[2.0, 2.0, 1.0]]])).verdict == "separable"


def test_softmax_tells_the_ragged_pair_apart() -> None:
    found = compare_sequences(AttentionWeights.random(1, 3, seed=3), on_line(1, 2, 3), on_line(1, 3))
    assert found.hardmax_equal
    assert found.verdict == "separated"


def test_what_cannot_be_asked() -> None:
    with pytest.raises(DataError, match="share no token but 0"):
        universality([[0.0], [1.0]], [[0.0], [2.0]])
    with pytest.raises(DataError, match="coordinates"):
        universality([[1.0]], [[1.0, 2.0]])
