"""Claim: the closest pair of M points on a line, in the plane or in space grows like a sort, not like M².

Random points in the unit cube. The yardstick is `np.argsort` of M random keys, in the same run; from one size
to the next the ratio may drift with the caches, but a quadratic method would multiply it by ten.
"""

from __future__ import annotations

import argparse

import numpy as np

from monolayer.theory.closest import closest_pair
from workload import seconds, sort_seconds

SIZES = (10_000, 100_000, 1_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest number of points")
    largest = parser.parse_args().largest
    print(f"{'points':>10} {'d':>2} {'seconds':>8} {'sorts':>6}   distance · M^(2/d)")
    for count in (size for size in SIZES if size <= largest):
        sort = sort_seconds(count)
        for d in (1, 2, 3):
            points = np.random.default_rng(0).random((count, d))
            spent, found = seconds(lambda points=points: closest_pair(points))
            scaled = found.distance * count ** (2 / d)
            print(f"{count:>10,} {d:>2} {spent:>8.3f} {spent / sort:>6.1f}   {scaled:.3g}", flush=True)


if __name__ == "__main__":
    main()
