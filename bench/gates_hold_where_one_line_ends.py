"""Claim: at rank 1, gates hold more points than one line, and the more so the more tokens there are.

Sequences of 16 tokens, 16 random classes, one vocabulary a line, in float32, whose ends are near. The largest number of
points, up to a tenth, that one line `z = t + κ c` holds, in either of its layouts, and that code and context apart hold
(`rank=1` tries both, in this order). The largest model of each vocabulary is certified.
"""

from __future__ import annotations

import argparse

import numpy as np

import monolayer as ml
from workload import sequences


def layout(X: np.ndarray, Y: np.ndarray) -> str | None:
    """What rank 1 takes for these data; None if it cannot hold them."""
    try:
        return str(ml.memorize(X, Y, dtype="float32", rank=1).summary.layout)
    except ml.PrecisionError:
        return None


def ends(X: np.ndarray, Y: np.ndarray, layouts: tuple[str, ...]) -> int:
    """Sequences, up to a tenth, that one of these layouts still holds."""
    low, high = 1, len(X)
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if layout(X[:middle], Y[:middle]) in layouts else (low, middle)
    return low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=4_000, help="largest number of sequences")
    largest = parser.parse_args().largest
    print(f"{'words':>8} {'one line':>10} {'gates':>10} {'ratio':>6}  verdict of the largest")
    ratios = []
    for words in (100, 1_000, 10_000):
        X, Y = sequences(largest, vocabulary=words)
        line, gates = ends(X, Y, ("cells", "mixed")), ends(X, Y, ("cells", "mixed", "apart"))
        model = ml.memorize(X[:gates], Y[:gates], dtype="float32", rank=1)
        proof = ml.certify(model, X[:gates], Y[:gates])
        ratios.append(gates / line)
        print(f"{words:>8,} {16 * line:>10,} {16 * gates:>10,} {ratios[-1]:>6.1f}  {proof.verdict}", flush=True)
        assert proof.verdict == "proved"
    assert ratios[-1] > ratios[0]
    assert ratios[-1] > 2.0


if __name__ == "__main__":
    main()
