"""Permutation equivariance, tried: `f(X π) = f(X) π` for every order π of the tokens.

A Transformer without positions has it for any weights, so a function without it cannot be approximated by one.
Trying it cannot prove it; one failure refutes it. Half of the sequences tried repeat tokens: swapping two equal
tokens changes nothing, so `f` must give both the same.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.construct.cells.function import Function, show
from monolayer.errors import DataError

TRIED = 32
"""Sequences of either kind, and permutations (all of them, where there are fewer)."""


def check_equivariance(f: Function, seed: int) -> None:
    """An error that shows a sequence and a permutation, if a failure is found."""
    random = np.random.default_rng([seed, 10])
    X = f.box.uniform(2 * TRIED, random)
    repeat = random.integers(0, max(1, f.box.length - 1), (TRIED, f.box.length))
    X[:TRIED] = np.take_along_axis(X[:TRIED], repeat[:, :, None], axis=1)
    before = f(X)
    orders = _orders(f.box.length, random)
    # Sums in another order differ by roundings, and an ill-conditioned f by more: half of its digits must agree.
    room = math.sqrt(f.rounding) * float(np.abs(before).max())
    after = f(X[:, orders].reshape(-1, *X.shape[1:])).reshape(len(X), len(orders), *before.shape[1:])
    apart = np.abs(after - before[:, orders]).max(axis=(2, 3))
    row, order = np.unravel_index(int(apart.argmax()), apart.shape)
    if apart[row, order] > room:
        raise _refusal(X[row], orders[order], before[row], after[row, order])


def _orders(n: int, random: np.random.Generator) -> Ints:
    """Permutations `(K, n)` other than the identity: all if they are few, else random ones."""
    if math.factorial(n) <= TRIED:
        rows = list(itertools.permutations(range(n)))[1:] or [tuple(range(n))]
        return np.array(rows)
    swap = np.arange(n)
    swap[[0, 1]] = 1, 0
    return np.stack([swap, *(random.permutation(n) for _ in range(TRIED - 1))])


def _refusal(X: Floats, order: Ints, before: Floats, after: Floats) -> DataError:
    return DataError(
        f"f is not permutation equivariant: it maps {show(X)} to {show(before)}; with the tokens in the order "
        f"{tuple(order.tolist())} it should give {show(before[order])}, and it gives {show(after)}. A Transformer "
        "without positions cannot do that; with positions=True it approximates any continuous function, at the price "
        "of all sequences of cells in place of all multisets"
    )
