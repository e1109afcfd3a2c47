"""Balanced words: codes of ±1 with as many + as −. Their sum is 0 and their norm constant, so LayerNorm keeps them.

Two different ones of length `m` differ in at least two places, so their inner product is at most `m − 4`.
"""

from __future__ import annotations

import math

import numpy as np

from monolayer.arrays import Floats


def length(count: int) -> int:
    """The least even `m` with `C(m, m/2) ≥ count`."""
    m = 2
    while math.comb(m, m // 2) < count:
        m += 2
    return m


def balanced(count: int) -> Floats:
    """The first `count` balanced words `(count, m)` in lexicographic order, + before −."""
    m = length(count)
    # ways[i, k]: words of length i with k plus signs; column k = −1 is the last, and 0.
    ways = np.zeros((m, m // 2 + 2), dtype=np.int64)
    ways[:, :-1] = [[math.comb(i, k) for k in range(m // 2 + 1)] for i in range(m)]
    rank, plus = np.arange(count), np.full(count, m // 2)
    words = np.empty((count, m))
    for i in range(m):
        first = ways[m - 1 - i, plus - 1]  # words that go on with +
        up = rank < first
        words[:, i] = np.where(up, 1.0, -1.0)
        rank, plus = np.where(up, rank, rank - first), plus - up
    return words
