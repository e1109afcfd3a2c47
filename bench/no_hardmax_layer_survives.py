"""Claim: one pair of sequences fools 100,000 random hardmax layers: none of them tells the pair apart.

    python bench/no_hardmax_layer_survives.py --count 100000

Weights are whole numbers in [-9, 9]: dense, sparse, of rank one, or with W_K = -W_Q, one to eight heads, dimension
one to eight. Scores and values then fit int64, and all lengths of a tie divide lcm(1, ..., n), so outputs times that
number are whole: the comparison is exact, and a bound that is checked first says that nothing overflows. A layer
survives if a shared token gets different outputs in the two sequences. Two more runs keep the count honest: the
same layers on a pair whose sums differ, where survivors must be found, and random float layers through
`monolayer.theory.hardmax.refute_hardmax`, which decides in rational arithmetic and encloses softmax in balls.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from monolayer.errors import DataError
from monolayer.theory.hardmax import refute_hardmax
from monolayer.theory.universal import shared_tokens, universal_pair
from monolayer.theory.weights import AttentionWeights
from workload import claim, run

Ints = NDArray[np.int64]
SHAPES = ((1, 1, 1), (1, 4, 4), (2, 4, 2), (4, 8, 2), (8, 8, 1))  # heads, dimension, head size
KINDS = ("dense", "sparse", "rank one", "W_K = -W_Q")
LARGEST = 9
BATCH = 5000


def draw(generator: np.random.Generator, kind: str, count: int, heads: int, dim: int, size: int) -> list[Ints]:
    """`W_Q`, `W_K`, `W_V` `(count, heads, size, dim)` and `W_O` `(count, heads, dim, size)`."""
    weights = []
    for rows, columns in ((size, dim), (size, dim), (size, dim), (dim, size)):
        matrix = generator.integers(-LARGEST, LARGEST + 1, (count, heads, rows, columns))
        if kind == "sparse":
            matrix *= generator.random(matrix.shape) < 0.2
        if kind == "rank one":
            left = generator.integers(-3, 4, (count, heads, rows, 1))
            matrix = left * generator.integers(-3, 4, (count, heads, 1, columns))
        weights.append(matrix)
    if kind == "W_K = -W_Q":
        weights[1] = -weights[0]
    return weights


def hardmax(weights: list[Ints], Z: Ints, queries: Ints) -> Ints:
    """What all heads add to each query, times lcm(1, ..., n): `(count, dim, q)`."""
    W_Q, W_K, W_V, W_O = weights
    dim, size, largest, n = Z.shape[1], W_Q.shape[2], int(np.abs(Z).max()), len(Z)
    step = dim * LARGEST * largest
    if max(size * step**2, W_Q.shape[1] * size * LARGEST * step * n * math.lcm(*range(1, n + 1))) >= 2**63:
        raise OverflowError("these shapes do not fit int64")
    scores = np.swapaxes(W_K @ Z.T, 2, 3) @ (W_Q @ queries.T)
    chosen = (scores == scores.max(axis=2, keepdims=True)).astype(np.int64)
    share = math.lcm(*range(1, n + 1)) // chosen.sum(axis=2, keepdims=True)
    total: Ints = (W_O @ (W_V @ Z.T) @ (chosen * share)).sum(axis=1)
    return total


def survivors(weights: list[Ints], X: Ints, Y: Ints) -> int:
    """How many of the layers tell a token that `X` and `Y` share apart."""
    queries = X[[k for k, _ in shared_tokens(X.astype(np.float64), Y.astype(np.float64))]]
    apart = hardmax(weights, X, queries) != hardmax(weights, Y, queries)
    return int(apart.any(axis=(1, 2)).sum())


def pair(dim: int) -> tuple[Ints, Ints, Ints]:
    """The universal pair in whole numbers, and a false one: {1,2,5,6} · v against {1,3,5,6} · v."""
    X, Y = (Z.astype(np.int64) for Z in universal_pair(4, dim))
    return X, Y, np.stack([X[0], 3 * X[0], X[2], X[3]])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=100_000, help="random whole-number layers")
    parser.add_argument("--floats", type=int, default=200, help="random float layers, in rational arithmetic")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    generator = np.random.default_rng(options.seed)
    survived = control = done = batch = 0
    start = time.perf_counter()
    with Progress(transient=True) as progress:
        task = progress.add_task("whole-number layers", total=options.count)
        while done < options.count:
            size = min(BATCH, options.count - done)
            shape = SHAPES[batch % len(SHAPES)]
            weights = draw(generator, KINDS[batch % len(KINDS)], size, *shape)
            X, Y, false = pair(shape[1])
            survived += survivors(weights, X, Y)
            control += survivors(weights, X, false)
            done, batch = done + size, batch + 1
            progress.update(task, completed=done)
        exact = time.perf_counter() - start
        start, told, separated = time.perf_counter(), 0, 0
        for number in progress.track(range(options.floats), description="float layers"):
            heads, dim, head_size = SHAPES[number % len(SHAPES)]
            layer = AttentionWeights.random(heads, dim, head_size, seed=options.seed + number)
            try:
                separated += refute_hardmax(layer, seed=number).softmax_verdict == "separated"
            except DataError as why:
                print(f"float layer {number}: {why}")
                told += 1
        rational = time.perf_counter() - start
    table = Table("layers", "arithmetic", "pair", "tell it apart", "seconds")
    table.add_row(f"{options.count:,} hardmax", "int64, exact", "{1,2,5,6}, {1,3,4,6}", f"{survived:,}", f"{exact:.1f}")
    table.add_row("the same", "int64, exact", "{1,2,5,6}, {1,3,5,6}", f"{control:,}", "")
    table.add_row(f"{options.floats:,} hardmax", "rationals", "{1,2,5,6}, {1,3,4,6}", f"{told:,}", f"{rational:.1f}")
    table.add_row("the same, softmax", "balls", "{1,2,5,6}, {1,3,4,6}", f"{separated:,}", "")
    Console().print(table)
    claim(f"of {options.count:,} hardmax layers, those that tell the universal pair apart", survived, at_most=0)
    if options.count:  # else the check could not fail
        claim("those that tell the false pair apart", control, at_least=1)
    claim(f"of {options.floats:,} float layers, those that tell the universal pair apart", told, at_most=0)


if __name__ == "__main__":
    run(main)
