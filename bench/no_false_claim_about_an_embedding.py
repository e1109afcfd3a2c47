"""Claim: at 500,000 embeddings, in 1,000 folders with changed weights, a proved answer is never another one.

    python bench/no_false_claim_about_an_embedding.py                   1,000 changes
    python bench/no_false_claim_about_an_embedding.py --count 100       fewer
    python bench/no_false_claim_about_an_embedding.py --first 1000      others

Weights of the layers and of the head that `recognize` appends are changed in folders of three formats, four activations
and two kinds of heads, with one appended layer or several, and their digests are written anew. At embeddings near the
bounds that the checker then gives, many of them along the directions of words, transformers runs the appended layers
(tests/questions_attack.py); its answer must be the one that is claimed, wherever one is.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

import torch
import transformers
from tests.questions_attack import attack, violations
from tests.test_questions_bounds import KINDS, stored

from workload import claim, record, recordable, run

EMBEDDINGS = 500
"""How many embeddings are drawn in each folder."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    recordable(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    began, claims, false, covered = time.perf_counter(), 0, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folders = [stored(Path(scratch) / f"folder{number}", *kind) for number, kind in enumerate(KINDS)]
        for number in range(options.first, options.first + options.count):
            changed = Path(scratch) / "changed"
            attack(folders[number % len(folders)], changed, number)
            some, wrong = violations(changed, seed=number, count=EMBEDDINGS)
            claims, false, covered = claims + some, false + wrong, covered + bool(some)
            if wrong:
                print(f"change {number} ({KINDS[number % len(KINDS)]}): {wrong} of {some} claims are not true")
            shutil.rmtree(changed)
    spent = time.perf_counter() - began
    print(f"{options.count:,} changes, {covered:,} of them covered by the proof, {claims:,} claims, {spent:.0f} s")
    record([{"changes": options.count, "covered": covered, "claims": claims, "false": false, "seconds": spent}])
    claim(f"answers that are not those claimed, at {claims:,} embeddings", false, at_most=0)


if __name__ == "__main__":
    run(main)
