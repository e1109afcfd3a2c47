"""Claim: 5,000 changes to a folder with facts attached, none of them proved and then not true.

    python bench/no_false_proof_of_attached_folders.py                   1,000 changes
    python bench/no_false_proof_of_attached_folders.py --count 5000      all
    python bench/no_false_proof_of_attached_folders.py --first 5000      others
    python bench/no_false_proof_of_attached_folders.py --jobs 2          in two processes

Weights of the appended layers and of the host, `config.json`, the tokenizer, the manifest and files beside them are
changed, and tensors are added, in folders of five architectures and three formats in turn; of changed weights most have
their digests written anew, as if attach had made them so (tests/attached_attack.py). All facts are asked for, or some.
What is still proved is loaded by transformers, if the detached host can be: logits away from all keys must be those of
that host, and answers within reach of their keys the largest.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

import torch
import transformers
from tests.attached_attack import asked, attack, untrue
from tests.hosts import FACTS, write_host

import monolayer as ml
from workload import claim, record, recordable, run

PART = 50
"""Changes that a process tries before it reports."""
FOLDERS = [
    ("gpt2", torch.float32),
    ("gpt_neox", torch.bfloat16),
    ("gpt2", torch.float16),
    ("llama", torch.bfloat16),
    ("opt", torch.float32),
    ("llama", torch.float16),
    ("starcoder2", torch.bfloat16),
]


class Tally(NamedTuple):
    """Verdicts by kind of change, and changes that are proved and not true, in words."""

    verdicts: Counter[str]
    false: list[str]


def quiet() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity(logging.CRITICAL)  # that weights are missing is the point
    transformers.utils.logging.disable_progress_bar()


def attach_all(scratch: Path) -> list[Path]:
    """A folder with facts attached of each kind and format."""
    found = []
    for number, (kind, dtype) in enumerate(FOLDERS):
        host = write_host(scratch / f"host{number}", kind, dtype=dtype)
        found.append(ml.attach(host, FACTS).save(scratch / f"folder{number}"))
    return found


def try_changes(folders: list[Path], numbers: range) -> Tally:
    quiet()
    found = Tally(Counter(), [])
    with tempfile.TemporaryDirectory() as scratch:
        for number in numbers:
            changed = Path(scratch) / "changed" / "folder"
            changed.parent.mkdir()
            which = number % len(folders)
            how = attack(folders[which], changed, number)
            facts = asked(number)
            try:
                verdict: str = ml.certify(changed, facts).verdict
            except ml.MonolayerError:
                verdict = "refused"
            found.verdicts[f"{how}: {verdict}"] += 1
            why = untrue(changed, facts) if verdict == "proved" else None
            if why is not None:
                kind, dtype = FOLDERS[which]
                found.false.append(f"change {number} ({kind}, {dtype}, {how}): {why}")
            shutil.rmtree(changed.parent)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    recordable(parser)
    options = parser.parse_args()
    quiet()
    began, every = time.perf_counter(), range(options.first, options.first + options.count)
    with tempfile.TemporaryDirectory() as scratch:
        folders = attach_all(Path(scratch))
        parts = [every[start : start + PART] for start in range(0, len(every), PART)]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            found = Tally(Counter(), [])
            for tally in pool.map(partial(try_changes, folders), parts):
                found.verdicts.update(tally.verdicts)
                found.false.extend(tally.false)
                print(*tally.false, sep="\n", end="\n" if tally.false else "", flush=True)
                done = found.verdicts.total()
                print(f"   {done:,} of {len(every):,} after {time.perf_counter() - began:.0f} s", flush=True)
    for name, count in sorted(found.verdicts.items()):
        print(f"{count:>7,} {name}")
    spent = time.perf_counter() - began
    print(f"{options.count:,} changes in {spent:.0f} s")
    proved = sum(count for name, count in found.verdicts.items() if name.endswith(": proved"))
    about = {"changes": options.count, "proved": proved, "false": len(found.false), "seconds": spent}
    record([{**about, "verdicts": dict(sorted(found.verdicts.items()))}])
    claim(f"false proofs in {options.count:,} changes to folders with facts attached", len(found.false), at_most=0)


if __name__ == "__main__":
    run(main)
