"""Claim: building a model of 1.6 million labels takes at most 3.5 sorts of as many numbers.

100,000 sequences of 16 tokens, 1,000 words, 16 random classes, float64, one thread. The yardstick is `np.argsort` of
1.6 M float64 keys, in the same run, by processor time: a busy machine changes that little. Also: answering by the fast
path takes at most three sorts, and building needs at most 10 × 8 bytes of memory per label. With --device the model
answers there too, by the fast path and, for 200 sequences, as the dense network.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import monolayer as ml
from workload import SAME_RUN, claim, cpu_seconds, peak_bytes, run, seconds, sequences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=100_000)
    parser.add_argument("--device", help="also answer there, for example cuda")
    options = parser.parse_args()
    torch.set_num_threads(1)  # waiting threads of PyTorch would count as work
    X, Y = sequences(options.sequences)
    ml.memorize(X[:100], Y[:100]).predict(X[:100])  # imports and first calls are not what is measured
    peak = peak_bytes(lambda: ml.memorize(X, Y))
    keys = np.random.default_rng(1).random(X.size)
    sort, spent = seconds(lambda: np.argsort(keys), 9)[0], cpu_seconds(lambda: np.argsort(keys), 9)[0]
    build, model = seconds(lambda: ml.memorize(X, Y), 9)
    work = cpu_seconds(lambda: ml.memorize(X, Y), 9)[0]
    answer, labels = seconds(lambda: model.predict(X))
    asked = cpu_seconds(lambda: model.predict(X))[0]
    wrong = int((labels != Y).sum())
    print(f"labels                  {X.size:,}, {wrong} wrong, {model.summary.runs:,} runs")
    print(f"argsort                 {sort:.3f} s")
    print(f"memorize                {build:.3f} s = {build / sort:.2f} sorts")
    print(f"  processor time        {work:.3f} s = {work / spent:.2f} sorts, all threads together")
    print(f"predict, fast path      {answer:.3f} s = {answer / sort:.2f} sorts")
    print(f"  processor time        {asked:.3f} s = {asked / spent:.2f} sorts, all threads together")
    if peak is not None:
        print(f"peak memory             {peak / X.size / 8:.1f} × 8 bytes per label")
    assert wrong == 0
    assert np.array_equal(labels, Y)
    claim("processor time to build, in sorts", work / spent, at_most=3.5, busy=SAME_RUN)
    claim("processor time to answer by the fast path, in sorts", asked / spent, at_most=3.0, busy=SAME_RUN)
    if peak is not None:
        claim("memory to build, in 8 bytes per label", peak / X.size / 8, at_most=10.0)
    if options.device is not None:
        there, few = model.to(options.device), X[:200]
        answer, labels = seconds(lambda: there.predict(X))
        dense, few_labels = seconds(lambda: there.predict(few, path="dense"))
        print(f"predict on {options.device:<12} {answer:.3f} s by the fast path")
        print(f"  the dense network     {dense:.3f} s for {few.size:,} labels")
        assert np.array_equal(labels, Y)
        assert np.array_equal(few_labels, Y[: len(few)])


if __name__ == "__main__":
    run(main)
