"""Claim: at 500,000 embeddings, in 1,000 folders with changed weights, a proved answer is never another one.

    python bench/no_false_claim_about_an_embedding.py                   1,000 changes
    python bench/no_false_claim_about_an_embedding.py --count 100       fewer
    python bench/no_false_claim_about_an_embedding.py --first 1000      others
    python bench/no_false_claim_about_an_embedding.py --jobs 16         in 16 processes

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
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

import torch
import transformers
from tests.questions_attack import attack, violations
from tests.test_questions_bounds import KINDS, stored

from workload import claim, record, recordable, run

EMBEDDINGS = 500
"""How many embeddings are drawn in each folder."""
PART = 20
"""Changes that a process tries before it reports."""


class Tally(NamedTuple):
    """Of some changes: how many there are, how many the proof covers, at how many embeddings an answer is claimed, and
    at how many of those it is another one; the changes with such an embedding, in words."""

    changes: int
    covered: int
    claims: int
    false: int
    examples: list[str]


def quiet() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def try_changes(folders: list[Path], numbers: range) -> Tally:
    quiet()
    covered, claims, false, examples = 0, 0, 0, list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        changed = Path(scratch) / "changed"
        for number in numbers:
            which = number % len(folders)
            attack(folders[which], changed, number)
            some, wrong = violations(changed, seed=number, count=EMBEDDINGS)
            covered, claims, false = covered + bool(some), claims + some, false + wrong
            if wrong:
                examples.append(f"change {number} ({KINDS[which]}): {wrong} of {some} claims are not true")
            shutil.rmtree(changed)
    return Tally(len(numbers), covered, claims, false, examples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    recordable(parser)
    options = parser.parse_args()
    quiet()
    began, every = time.perf_counter(), range(options.first, options.first + options.count)
    found = Tally(0, 0, 0, 0, [])
    with tempfile.TemporaryDirectory() as scratch:
        folders = [stored(Path(scratch) / f"folder{number}", *kind) for number, kind in enumerate(KINDS)]
        parts = [every[start : start + PART] for start in range(0, len(every), PART)]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for part in pool.map(partial(try_changes, folders), parts):
                found = Tally(*(all_of_it + more for all_of_it, more in zip(found, part, strict=True)))
                print(*part.examples, sep="\n", end="\n" if part.examples else "")
                spent = time.perf_counter() - began
                print(f"   {found.changes:,} changes, {found.claims:,} claims after {spent:.0f} s", flush=True)
    spent = time.perf_counter() - began
    print(f"{found.changes:,} changes, {found.covered:,} of them covered by the proof, {found.claims:,} claims")
    about = {"changes": found.changes, "covered": found.covered, "claims": found.claims, "false": found.false}
    record([{**about, "seconds": spent}])
    claim(f"answers that are not those claimed, at {found.claims:,} embeddings", found.false, at_most=0)


if __name__ == "__main__":
    run(main)
