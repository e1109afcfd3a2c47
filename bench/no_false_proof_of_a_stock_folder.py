"""Claim: 20,000 changes to JSON files of stock folders, none of them proved and then not loaded, or answered wrong.

    python bench/no_false_proof_of_a_stock_folder.py                    2,000 changes
    python bench/no_false_proof_of_a_stock_folder.py --count 20000      all
    python bench/no_false_proof_of_a_stock_folder.py --first 20000      others

Every architecture, task and way to cut text, with positions and robust where there are such (tests/stock_attack.py).
Values and keys of `config.json`, `tokenizer.json`, `tokenizer_config.json` and `generation_config.json` are changed,
their bytes too, and files are put beside them. What is still proved is loaded by transformers and asked for all of its
data: eager and sdpa, in batches padded as the tokenizer does it, on the right, and on the left where that is claimed;
one by one; and through a pipeline.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

import torch
from tests.stock_attack import attack, cases, wrong_answers

import monolayer as ml
from workload import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began, found, false = time.perf_counter(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        kinds = []
        for number, case in enumerate(cases()):
            folder = case.build(Path(scratch) / str(number))
            whole = {path.name: path.read_bytes() for path in folder.iterdir()}
            verdict, wrong = ml.certify(folder, case.rows, case.labels).verdict, wrong_answers(case, folder)
            if wrong:
                print(f"WRONG as built: {case}: {wrong}", flush=True)
                false += 1
            found[f"untouched: {verdict}"] += 1
            kinds.append((case, whole, folder))
        for seed in range(options.first, options.first + options.count):
            case, whole, folder = kinds[seed % len(kinds)]
            verdict, wrong = attack(case, whole, folder, seed)
            found[verdict] += 1
            if wrong:
                print(f"FALSE: {verdict}, change {seed} of {case}: {wrong}", flush=True)
                false += 1
            if (seed + 1) % 500 == 0:
                print(f"{seed + 1 - options.first:,}: {dict(found)}, {false} false", flush=True)
    print(f"{options.count:,} changes in {time.perf_counter() - began:.0f} s: {dict(found)}, {false} false")
    return 1 if false else 0


if __name__ == "__main__":
    run(main)
