"""Claim: on a model of a million steps, the answer for one sequence takes at most a thousand small calls.

70,000 sequences of 16 tokens, 1,000 words, 16 random classes. Two yardsticks in the same run. A look-up is some hundred
small calls of NumPy and PyTorch, so it is compared with adding two tensors of 16 numbers, which takes 0.6 µs or less on
a fast x86 that is idle. And with one sum over the weights of the readout: what a look-up would cost at least if it
looked at every weight. The first look-up does look. The best of 300 counts, in processor time.
"""

from __future__ import annotations

import numpy as np
import torch

import monolayer as ml
from workload import SAME_RUN, claim, cpu_seconds, run, seconds, sequences

CALLS = 20
"""Small calls that are timed at once."""


def main() -> None:
    torch.set_num_threads(1)  # waiting threads of PyTorch would count as work
    X, Y = sequences(70_000)
    model = ml.memorize(X, Y)
    rows = [X[i : i + 1].tolist() for i in range(300)]
    first = seconds(lambda: model.predict(rows[0]), 1)[0]
    spent, calls, sixteen = [], [], torch.zeros(16)
    for row, wanted in zip(rows, Y, strict=False):
        took, answer = cpu_seconds(lambda row=row: model.predict(row)[0], 1)
        spent.append(took)
        calls.append(cpu_seconds(lambda: [sixteen + sixteen for _ in range(CALLS)], 1)[0] / CALLS)
        assert np.array_equal(answer, wanted)
    (stage,) = model.feed_forward.stairs
    readout = (stage.weight_1, stage.bias_1, stage.weight_2)
    scan = cpu_seconds(lambda: [float(weight.detach().sum()) for weight in readout], 10)[0]
    steps = model.summary.runs - 1
    print(f"steps                   {steps:,}")
    print(f"first look-up           {1e3 * first:.2f} ms")
    print(f"look-up, best           {1e3 * min(spent):.2f} ms")
    print(f"look-up, median         {1e3 * float(np.median(spent)):.2f} ms")
    print(f"one sum over the steps  {1e3 * scan:.2f} ms")
    print(f"one small call, best    {1e6 * min(calls):.2f} µs")
    assert steps >= 1_000_000
    claim("processor time of one look-up, in small calls", min(spent) / min(calls), at_most=1000.0, busy=SAME_RUN)
    claim("processor time of one look-up, in sums over the steps", min(spent) / scan, at_most=1.0, busy=SAME_RUN)


if __name__ == "__main__":
    run(main)
