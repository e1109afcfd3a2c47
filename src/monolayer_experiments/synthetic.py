"""Random data with known properties: no repeats, a share of repeats, near copies of one sequence.

`X` `(N, n)` are token ids below `vocabulary`; `Y` `(N, n)` are classes drawn at random, so that no rule shortens
them, and equal for equal tokens of one sequence, so that they do not contradict themselves.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Ints


def without_repeats(
    count: int, length: int = 16, vocabulary: int = 1000, classes: int = 16, seed: int = 0
) -> tuple[Ints, Ints]:
    """Sequences of different tokens, no two sequences with the same set of tokens, and a random class per token."""
    random = np.random.default_rng(seed)
    X = _different_tokens(random, count, length, vocabulary)
    while len(bad := _seen_before(X)):
        X[bad] = _different_tokens(random, len(bad), length, vocabulary)
    return X, random.integers(0, classes, X.shape)


def with_repeats(
    share: float, count: int, length: int = 16, vocabulary: int = 1000, classes: int = 16, seed: int = 0
) -> tuple[Ints, Ints]:
    """As above, but `share` of the `length − 1` later tokens repeat an earlier one of their sequence.

    No two sequences have the same multiset. Fewer than `count` come back where there are not that many: with
    share 1 a sequence is one token over and over, and there are `vocabulary` of them.
    """
    random = np.random.default_rng(seed)
    distinct = length - round(share * (length - 1))
    X = _different_tokens(random, count, length, vocabulary)
    # Place k ≥ distinct copies one of the first `distinct` places; which one differs from sequence to sequence.
    source = random.integers(0, distinct, (count, length))
    source[:, :distinct] = np.arange(distinct)
    X = np.take_along_axis(X, source, axis=1)
    X = X[np.setdiff1d(np.arange(count), _seen_before(X))]
    return X, labels(X, classes, seed)


def near_copies(
    distance: int, count: int, length: int = 16, vocabulary: int = 1000, classes: int = 16, seed: int = 0
) -> tuple[Ints, Ints]:
    """Sequences that differ from one base sequence in `distance` tokens, all different, none repeating a token."""
    random = np.random.default_rng(seed)
    base = random.permutation(vocabulary)
    X = np.tile(base[:length], (count, 1))
    places = np.argsort(random.random((count, length)), axis=1)[:, :distance]
    fresh = base[length:][_different_tokens(random, count, distance, vocabulary - length)]
    np.put_along_axis(X, places, fresh, axis=1)
    X = X[np.setdiff1d(np.arange(count), _seen_before(X))]
    return X, labels(X, classes, seed)


def labels(X: Ints, classes: int, seed: int) -> Ints:
    """A random class for each different token of each sequence; a repeated token has one class."""
    random = np.random.default_rng([seed, 1])
    drawn = random.integers(0, classes, X.shape)
    # The class of a token is that drawn at its first place: the first of equals in a stable sort.
    order = np.argsort(X, axis=1, kind="stable")
    ordered = np.take_along_axis(X, order, axis=1)
    first = np.ones(X.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = np.maximum.accumulate(np.where(first, np.arange(X.shape[1]), 0), axis=1)
    of_first = np.take_along_axis(order, start, axis=1)
    Y = np.empty_like(X)
    np.put_along_axis(Y, order, np.take_along_axis(drawn, of_first, axis=1), axis=1)
    return Y


def _different_tokens(random: np.random.Generator, count: int, length: int, vocabulary: int) -> Ints:
    if vocabulary < 8 * length:
        return np.argsort(random.random((count, vocabulary)), axis=1)[:, :length]
    X = random.integers(0, vocabulary, (count, length))
    while True:
        ordered = np.sort(X, axis=1)
        bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(bad) == 0:
            return X
        X[bad] = random.integers(0, vocabulary, (len(bad), length))


def _seen_before(X: Ints) -> Ints:
    """Rows whose multiset an earlier row has."""
    ordered = np.ascontiguousarray(np.sort(X, axis=1))
    _, first = np.unique(ordered.view(f"V{ordered.itemsize * X.shape[1]}").ravel(), return_index=True)
    return np.setdiff1d(np.arange(len(X)), first)
