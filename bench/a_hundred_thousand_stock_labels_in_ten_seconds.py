"""Claim: 100,000 random labels become a BERT in at most ten seconds on two idle cores, in time linear in the labels.

Sequences of 16 tokens, 1,000 words, 16 random classes: every token has many facts, and its half-spaces are stored as
neurons. The yardstick is a model of a quarter of the labels, in the same run: its sequences are a part of the others.
Cells that are four times as large need larger batches of half-spaces, but no more work per label. `--labels` asks for
another number of them, for which only the yardstick is judged.
"""

from __future__ import annotations

import argparse

import monolayer as ml
from workload import SAME_RUN, claim, cpu_seconds, run, seconds, sequences

CLAIMED = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=CLAIMED)
    options = parser.parse_args()
    X, Y = sequences(options.labels // 16)
    ml.memorize_as("bert", X[:40], Y[:40])  # imports and first calls are not what is measured
    few = len(X) // 4
    part = cpu_seconds(lambda: ml.memorize_as("bert", X[:few], Y[:few]), 1)[0]
    work: list[float] = []
    spent, _ = seconds(lambda: work.append(cpu_seconds(lambda: ml.memorize_as("bert", X, Y), 1)[0]), 1)
    print(f"{X[:few].size:,} labels  {part:.2f} s of processor time")
    print(f"{X.size:,} labels  {work[0]:.2f} s of processor time, {spent:.2f} s by the clock")
    if options.labels == CLAIMED:
        claim("processor time, two cores for ten seconds", work[0], at_most=20.0, idle=True, unit=" s")
        claim("the clock", spent, at_most=10.0, idle=True, unit=" s")
    claim("four times the labels, in times the work", work[0] / part, at_most=4.0, busy=SAME_RUN)


if __name__ == "__main__":
    run(main)
