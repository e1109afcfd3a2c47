"""Claim: to edit or forget a phrase of a robust BERT takes, in the median, a fifth of its construction at most.

The dictionary: 1,029,973 characters of Chinese phrases and their readings, values of rank 128, weights in bfloat16. An
edit reads the folder and its draw, finds the neurons of the tokens that it touches twice, and writes the folder. The
yardstick, in the same run, is the construction. One result is compared with a folder made anew, byte for byte.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import monolayer as ml
from monolayer.data.phrases import phrases
from monolayer.stock.folder import StockModel
from workload import SAME_RUN, claim, run, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phrases", type=int, help="only so many, drawn at random; all without")
    parser.add_argument("--edits", type=int, default=8, help="phrases that are edited one by one")
    parser.add_argument("--many", type=int, default=100, help="phrases that are forgotten in one call")
    options = parser.parse_args()
    data, random = phrases(), np.random.default_rng(0)
    if options.phrases:
        data = data.select(np.sort(random.permutation(len(data))[: options.phrases]))
    assert data.labels is not None
    with tempfile.TemporaryDirectory() as path:
        scratch = Path(path)

        def construct() -> ml.Sequences:
            built = ml.memorize_as("bert", data, positions=True, dtype="bfloat16")
            built.save(scratch / "old")
            print(f"labels              {len(data.tokens):,}, {built.facts.neurons:,} neurons")
            return data

        build, whole = seconds(construct, 1)
        print(f"build and save      {build:.1f} s")
        read, _ = seconds(lambda: StockModel.load(scratch / "old"), 1)
        print(f"read the folder     {read:.2f} s, in every call")
        often = np.bincount(whole.tokens)
        size = np.add.reduceat(often[whole.tokens], whole.offsets[:-1])
        rows = random.permutation(len(whole))[: options.edits]

        def edit(verb: str, row: list[int]) -> None:
            asked = whole.select(np.array(row))
            assert asked.labels is not None
            values = asked.labels.values.copy()
            values[asked.offsets[:-1]] = (values[asked.offsets[:-1]] + 1) % 7
            asked = replace(asked, labels=replace(asked.labels, values=values))
            model, _ = (
                ml.forget(scratch / "old", row, whole)
                if verb == "forget"
                else ml.edit(scratch / "old", asked, None, whole)
            )
            model.save(scratch / "new", overwrite=True)

        for what, chosen in (("at random", rows.tolist()), ("of the most frequent characters", [int(size.argmax())])):
            print(f"phrases {what}, one call each: median and largest, seconds (constructions)")
            for verb in ("edit", "forget"):
                took = [seconds(lambda: edit(verb, [row]), 1)[0] for row in chosen]  # noqa: B023
                middle, most = float(np.median(took)), max(took)
                print(f"  {verb:17} {middle:6.2f} ({middle / build:.3f})   {most:6.2f} ({most / build:.3f})")
                if what == "at random" and not options.phrases:  # claimed of the whole dictionary
                    claim(f"median {verb} of a phrase, in constructions", middle / build, at_most=0.2, busy=SAME_RUN)
        some = np.sort(random.permutation(len(whole))[: options.many]).tolist()
        many, _ = seconds(lambda: edit("forget", some), 1)
        print(f"forget {len(some):,} phrases in one call: {many:.1f} s = {many / build:.2f} constructions")
        rest = whole.select(np.setdiff1d(np.arange(len(whole)), some))
        ml.memorize_as("bert", rest, draw=scratch / "old").save(scratch / "anew")
        files = ("config.json", "model.safetensors", "tokenizer.json")
        assert all((scratch / "new" / name).read_bytes() == (scratch / "anew" / name).read_bytes() for name in files)
        print("the same bytes as built from the rest with the same draw")


if __name__ == "__main__":
    run(main)
