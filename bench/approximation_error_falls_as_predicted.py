"""Claim: the error of an approximator falls like one over the number of cells, as its modulus of continuity says.

For Lipschitz functions, at cells 4, 8, 16 … : the bound, the largest error measured (uniform points and corners of
cells), L1 and L2, and the slope between neighbours on logarithmic axes, which is −1 for a Lipschitz function.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import monolayer as ml
from monolayer.theory.targets import TARGETS
from workload import claim, run

CASES = (("sort", 1, 3, 64), ("median", 1, 3, 64), ("nearest", 1, 3, 64), ("force", 2, 2, 32), ("mean-field", 2, 2, 32))


def points(count: int, length: int, dim: int, cells: int) -> np.ndarray:
    """Uniform points, and as many near corners of cells, where errors are largest."""
    random = np.random.default_rng(cells)
    corner = (
        random.integers(0, cells, (count, length, dim)) + random.choice([1e-4, 1 - 1e-4], (count, length, dim))
    ) / cells
    return np.concatenate([random.random((count, length, dim)), corner])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=50_000)
    count = parser.parse_args().points
    for name, dim, length, most in CASES:
        f = TARGETS[name]
        constant = f.lipschitz(dim, length, 0.0, 1.0)
        print(f"{name}, d = {dim}, n = {length}")
        print(f"{'cells':>8} {'knots':>12} {'bound':>10} {'largest':>10} {'L1':>10} {'L2':>10}   slopes")
        before: list[float] = []
        first: list[float] = []
        cells = 4
        while cells <= most:
            model = ml.approximate(f, dim, length, cells=cells, lipschitz=constant)
            X = points(count, length, dim, cells)
            off = ~model.on_ramp(X)
            error = np.abs(model.predict(X) - f(X))
            inside, error = error[:count][off[:count]], error[off]
            now = [float(error.max()), float(inside.mean()), float(np.sqrt(np.square(inside).mean()))]
            slopes = " ".join(f"{math.log2(new / old):+.2f}" for new, old in zip(now, before, strict=False))
            bound = model.card.grid.error
            numbers = " ".join(f"{value:>10.5f}" for value in (bound, *now))
            print(f"{cells:>8} {model.summary.labelled:>12,} {numbers}   {slopes}", flush=True)
            assert now[0] <= bound
            first = first or now
            before, cells = now, 2 * cells
        slope = math.log2(before[0] / first[0]) / math.log2(most / 4)
        claim(f"slope of the largest error of {name}, d = {dim}, n = {length}", slope, at_most=-0.9)


if __name__ == "__main__":
    run(main)
