"""Claim: the closest pair of M points on a line, in the plane or in space grows like a sort, not like M².

Random points in the unit cube. The yardstick is `np.argsort` of M random keys, in the same run; from one size
to the next the ratio may drift with the caches, by a factor of three at most, but a quadratic method would multiply it
by ten. Times are of the processor.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np

from monolayer.theory.closest import closest_pair
from workload import SAME_RUN, claim, cpu_seconds, run

SIZES = (10_000, 100_000, 1_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest number of points")
    largest = parser.parse_args().largest
    print(f"{'points':>10} {'d':>2} {'seconds':>8} {'sorts':>6}   distance · M^(2/d)")
    sorts: dict[int, list[float]] = {1: [], 2: [], 3: []}
    for count in (size for size in SIZES if size <= largest):
        keys = np.random.default_rng(1).random(count)
        sort = cpu_seconds(lambda keys=keys: np.argsort(keys))[0]
        for d in (1, 2, 3):
            points = np.random.default_rng(0).random((count, d))
            spent, found = cpu_seconds(lambda points=points: closest_pair(points))
            scaled = found.distance * count ** (2 / d)
            print(f"{count:>10,} {d:>2} {spent:>8.3f} {spent / sort:>6.1f}   {scaled:.3g}", flush=True)
            sorts[d].append(spent / sort)
    for d, ratios in sorts.items():
        growth = max((new / old for old, new in pairwise(ratios)), default=1.0)
        claim(f"growth of its time in sorts from M to 10 M points, d = {d}", growth, at_most=3.0, busy=SAME_RUN)


if __name__ == "__main__":
    run(main)
