"""Claim: a line in float32 holds 100,000 points, proved in float32; with rank 1 it ends at a few thousand.

Sequences of 16 tokens, 16 random classes, two vocabularies. For each: the largest number of points that rank 1 holds
(gates included, found by halving), the value rank that `auto` takes for all of them, what each stage left to the next,
and the verdict.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import monolayer as ml
from workload import claim, run, sequences


def ends(X: np.ndarray, Y: np.ndarray) -> int:
    """Most points, up to a tenth, that rank 1 holds in float32."""
    low, high = 1, len(X)
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        try:
            ml.memorize(X[:middle], Y[:middle], dtype="float32", rank=1)
            low = middle
        except ml.PrecisionError:
            high = middle
    return low * X.shape[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    points = parser.parse_args().points
    ml.memorize([[0, 1]], [[0, 1]], dtype="float32")
    for words in (1_000, 100):
        X, Y = sequences(points // 16, vocabulary=words)
        began = time.perf_counter()
        model = ml.memorize(X, Y, dtype="float32")
        built = time.perf_counter() - began
        found = model.summary
        wrong = int(np.count_nonzero(model.predict(X) != Y))
        began = time.perf_counter()
        proof = ml.certify(model, X, Y)
        spent = time.perf_counter() - began
        most = ends(X, Y)
        left = ", ".join(f"{crowds:,}" for crowds in found.contested or [])
        print(f"{X.size:,} points, {words:,} words, {model.bos.dtype}: rank 1 holds about {most:,}", flush=True)
        print(f"  value rank {found.rank}; stretches left to the next stage: {left or 'none'}; {wrong} wrong")
        print(f"  built in {built:.2f} s, {proof.verdict} in {spent:.2f} s, margin {proof.margin:.2f} error bounds")
        assert wrong == 0
        assert proof.verdict == "proved"
        assert found.rank > 1
        claim(f"points that rank 1 holds in float32, {words:,} words", most, at_most=5_000)


if __name__ == "__main__":
    run(main)
