"""Claim: to edit or forget a phrase of a robust model takes, in the median, a tenth of its construction at most.

The dictionary: 1,029,973 characters of Chinese phrases and their readings, values of rank 64. An edit covers the facts
of the tokens that it touches, twice: as they were, to see that the model holds them, and as they will be. It costs
what its tokens have of facts: phrases are taken at random, and one with the most frequent characters. The yardstick,
in the same run, is the construction. A result is compared with one made anew, bit for bit.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import monolayer as ml
from monolayer.data.phrases import phrases
from workload import SAME_RUN, claim, run, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phrases", type=int, help="only so many, drawn at random; all without")
    parser.add_argument("--edits", type=int, default=20, help="phrases that are edited one by one")
    parser.add_argument("--many", type=int, default=1000, help="phrases that are edited in one call")
    options = parser.parse_args()
    data, random = phrases(), np.random.default_rng(0)
    if options.phrases:
        data = data.select(np.sort(random.permutation(len(data))[: options.phrases]))
    build, model = seconds(lambda: ml.memorize(data, robust=True, positions=True), 1)
    adopt, facts = seconds(lambda: ml.Facts.of(model, data), 1)
    labels = len(data.tokens)
    print(f"labels                         {labels:,}, {model.summary.runs:,} neurons")
    print(f"memorize                       {build:.1f} s")
    print(f"Facts.of                       {adopt:.2f} s, once")
    often = np.bincount(facts.data.tokens)
    size = np.add.reduceat(often[facts.data.tokens], facts.data.offsets[:-1])
    rows = random.permutation(len(data))[: options.edits]
    whole = facts.data

    def relabelled(row: np.ndarray) -> ml.Sequences:
        """The rows with the first label of each replaced by that of the next row."""
        part = whole.select(row)
        assert part.labels is not None
        values = part.labels.values.copy()
        first = part.offsets[:-1]
        values[first] = np.roll(values[first], 1) if len(first) > 1 else (values[first] + 1) % 7
        return replace(part, labels=replace(part.labels, values=values))

    for what, chosen in (("at random", rows), ("of the most frequent characters", np.array([int(size.argmax())]))):
        print(f"\nphrases {what}, one call each: median and largest, seconds (constructions)")
        for verb in ("edit", "forget"):
            took = []
            for row in chosen.tolist():
                asked = relabelled(np.array([row]))
                if verb == "forget":
                    took.append(seconds(lambda: ml.forget(facts, [row]), 1)[0])  # noqa: B023
                else:
                    took.append(seconds(lambda: ml.edit(facts, asked, None), 1)[0])  # noqa: B023
            middle, most = float(np.median(took)), max(took)
            print(f"  {verb:28} {middle:6.2f} ({middle / build:.3f})   {most:6.2f} ({most / build:.3f})")
            if what == "at random" and not options.phrases:  # claimed of the whole dictionary
                claim(f"median {verb} of a phrase, in constructions", middle / build, at_most=0.1, busy=SAME_RUN)
    some = np.sort(random.permutation(len(data))[: options.many])
    took_many, _ = seconds(lambda: ml.forget(facts, some), 1)
    print(f"\nforget {len(some):,} phrases in one call: {took_many:.1f} s = {took_many / build:.2f} constructions")
    gone = np.array([int(rows[0])])
    rest = data.select(np.setdiff1d(np.arange(len(data)), gone))
    assert ml.compare(ml.forget(facts, gone)[0].model, ml.memorize(rest, draw=model)).same


if __name__ == "__main__":
    run(main)
