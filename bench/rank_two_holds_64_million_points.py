"""Claim: in float64, value rank 2 holds 64 million points, where one line ends at about 46 million.

Sequences of 16 tokens, 1,000 words, 16 random classes. One line a size: the value rank that `auto` takes, how many
crowds the first stage left to the second, construction in sorts of as many float64 keys, memory, and the labels that
come back wrong, all of them looked up. `--points` sets other sizes (200 million were built on an accelerator,
docs/construction.md); `--certify` proves the result as well.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import monolayer as ml
from workload import peak_bytes, sequences, sort_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[64_000_000])
    parser.add_argument("--certify", action="store_true")
    wish = parser.parse_args()
    for points in wish.points:
        X, Y = sequences(points // 16)
        sort = sort_seconds(X.size, repeats=1)
        built: list[ml.Monolayer] = []

        def build(X: np.ndarray = X, Y: np.ndarray = Y, built: list[ml.Monolayer] = built) -> None:
            built.append(ml.memorize(X, Y))

        began = time.perf_counter()
        peak = peak_bytes(build)
        spent = time.perf_counter() - began
        model = built.pop()
        found = model.summary
        began = time.perf_counter()
        wrong = sum(
            int(np.count_nonzero(model.predict(X[rows : rows + 500_000]) != Y[rows : rows + 500_000]))
            for rows in range(0, len(X), 500_000)
        )
        asked = time.perf_counter() - began
        memory = "unknown" if peak is None else f"{peak / 2**30:.1f} GiB"
        print(
            f"{X.size:>12,} points: value rank {found.rank}, crowds {found.contested}, margin {found.margin:.1f}; "
            f"built in {spent:.1f} s = {spent / sort:.1f} sorts, peak {memory}; {wrong} wrong, asked in {asked:.1f} s",
            flush=True,
        )
        assert wrong == 0
        if wish.certify:
            began = time.perf_counter()
            proof = ml.certify(model, X, Y)
            print(f"  {proof.verdict} in {time.perf_counter() - began:.1f} s, margin {proof.margin:.2f} error bounds")
            assert proof.verdict == "proved"


if __name__ == "__main__":
    main()
