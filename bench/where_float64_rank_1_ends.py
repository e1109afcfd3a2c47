"""Claim: construction grows like a sort up to 16 million labels, and float64 with rank 1 ends between there and 64.

Sequences of 16 tokens, 1,000 words, 16 random classes. For each size: sorts, gap against 1/M², and the margin
(narrowest gap between different labels, in rounding errors; the constructor refuses below 8). The end of one line is
the first size at which no draw keeps the margin; rank 1 is then refused, and the error says which rank holds them.
Times are of the processor. From a million labels on, sorts may grow by half from the least to the most of them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import monolayer as ml
from workload import SAME_RUN, claim, cpu_seconds, run, sequences

SIZES = (10_000, 100_000, 1_000_000, 2_000_000, 4_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest number of sequences")
    largest = parser.parse_args().largest
    ml.memorize([[0, 1]], [[0, 1]])
    print(f"{'labels':>12} {'sorts':>7} {'gap':>10} {'1/M²':>10} {'margin':>10}  wrong")
    torch.set_num_threads(1)  # waiting threads of PyTorch would count as work
    ratios: list[float] = []
    for count in (size for size in SIZES if size <= largest):
        X, Y = sequences(count)
        keys = np.random.default_rng(1).random(X.size)
        sort = cpu_seconds(lambda keys=keys: np.argsort(keys), 1)[0]
        began = time.process_time()
        try:
            model = ml.memorize(X, Y, rank=1)
        except ml.PrecisionError as end:
            print(f"{X.size:>12,} refused after {(time.process_time() - began) / sort:.1f} sorts: {end}")
            claim("labels at which rank 1 is refused", X.size, at_least=32e6)
            break
        spent = time.process_time() - began
        found = model.summary
        wrong = int(np.count_nonzero(model.predict(X) != Y))
        line = (
            f"{X.size:>12,} {spent / sort:>7.2f} {found.gap:>10.1e} {found.expected_gap:>10.1e} {found.margin:>10.1f}"
        )
        print(f"{line}  {wrong}", flush=True)
        assert wrong == 0
        if 1_000_000 <= X.size <= 16_000_000:
            ratios.append(spent / sort)
    if ratios:
        growth = "growth of the time to build in sorts, from the least size to the worst"
        claim(growth, max(ratios) / ratios[0], at_most=1.5, busy=SAME_RUN)


if __name__ == "__main__":
    run(main)
