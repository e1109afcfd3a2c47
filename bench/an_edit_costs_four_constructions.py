"""Claim: an edit of known facts costs less than four constructions with the draw, on a line and in a cascade.

Sequences of 16 tokens, 1,000 words, 16 random classes: a million facts on a line in float64, nearly each a run of its
own, and 100,000 in a cascade in float32. The yardstick, in the same run, is `memorize(data, draw=model)`, one
construction with the draw that the model has; `memorize` beside it looks for a draw first. An edit builds the model of
the edited data once, finds out which facts are meant and which neurons differ, and says what is answered. `Facts.of`
sees, once for many edits, that the data are those of the model: one construction more. Times are of the processor, so
that others on the machine count for less. Results are compared with one made anew, bit for bit.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import monolayer as ml
from workload import SAME_RUN, claim, cpu_seconds, run, sequences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000, help="of the line; the cascade has a tenth")
    points = parser.parse_args().points
    torch.set_num_threads(1)  # waiting threads of PyTorch would count as work
    for what, count, dtype in (("line", points // 16, "float64"), ("cascade", points // 160, "float32")):
        X, Y = sequences(count)
        fresh, model = cpu_seconds(lambda: ml.memorize(X, Y, dtype=dtype), 1)  # noqa: B023
        again, _ = cpu_seconds(lambda: ml.memorize(X, Y, draw=model), 5)  # noqa: B023
        check, facts = cpu_seconds(lambda: ml.Facts.of(model, X, Y))  # noqa: B023
        print(f"{what}: {X.size:,} labels, {model.feed_forward.step_count:,} steps, rank {model.summary.rank}")
        print(f"  memorize {fresh:.3f} s, memorize(draw=model) {again:.3f} s; in parts of the latter:")
        print(f"  Facts.of, once {check / again:.2f}")
        claim(f"Facts.of of a {what}, in constructions", check / again, at_most=2.0, busy=SAME_RUN)
        other = (Y[:1] + 1) % 16
        new = X[:1] % 7
        verbs = {
            "forget": lambda: ml.forget(facts, [0]),  # noqa: B023
            "edit": lambda: ml.edit(facts, X[:1], other),  # noqa: B023
            "insert": lambda: ml.insert(facts, new, 0 * new),  # noqa: B023
        }
        for verb, action in verbs.items():
            took, (done, record) = cpu_seconds(action, 5)
            out, put = record.neurons
            print(f"  {verb:6} {took / again:.2f}; {out:,} neurons removed or changed, {put:,} added")
            assert ml.certify(done.model, done.data).verdict == "proved"
            claim(f"{verb} on a {what}, in constructions", took / again, at_most=4.0, busy=SAME_RUN)
        assert ml.compare(ml.forget(facts, [0])[0].model, ml.memorize(X[1:], Y[1:], draw=model)).same
        edited = np.concatenate([other, Y[1:]])
        assert ml.compare(ml.edit(facts, X[:1], other)[0].model, ml.memorize(X, edited, draw=model)).same


if __name__ == "__main__":
    run(main)
