"""Claim: 20,000 changes to JSON files of stock folders, none of them proved and then not loaded, or answered wrong.

    python bench/no_false_proof_of_a_stock_folder.py                    2,000 changes
    python bench/no_false_proof_of_a_stock_folder.py --count 20000      all
    python bench/no_false_proof_of_a_stock_folder.py --first 20000      others
    python bench/no_false_proof_of_a_stock_folder.py --seconds 300      as many as fit
    python bench/no_false_proof_of_a_stock_folder.py --folders resaved  of folders that transformers saved again

Every architecture, task and way to cut text, with positions and robust where there are such (tests/stock_attack.py).
Half of the folders are as we write them, half as `save_pretrained` of transformers writes them again: some of these in
shards, some with everything that the tables of `monolayer.huggingface` allow. Values and keys of all JSON files are
changed, their bytes too, and files are put beside them. What is still proved is loaded by transformers and asked for
all of its data: eager and sdpa, in batches padded as the tokenizer does it, on the right, and on the left where that is
claimed; one by one; and through a pipeline.
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
from workload import claim, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no change after so long")
    parser.add_argument("--folders", choices=("both", "ours", "resaved"), default="both")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found, false = Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        kinds = []
        for number, case in enumerate(cases()):
            first = case.build(Path(scratch) / str(number))
            folders = {"ours": first} if options.folders != "resaved" else {}
            if options.folders != "ours":
                again = Path(scratch) / f"{number} again"
                folders["resaved"] = case.resave(first, again, shards=number % 3 == 0, all_rows=number % 2 == 0)
            for kind, folder in folders.items():
                whole = {path.name: path.read_bytes() for path in folder.iterdir()}
                proof, wrong = ml.certify(folder, case.rows, case.labels), wrong_answers(case, folder)
                if wrong or proof.verdict != "proved":
                    print(f"WRONG as built: {kind}, {case}: {proof.reason}, {wrong}", flush=True)
                    false += 1
                found[f"untouched, {kind}: {proof.verdict}"] += 1
                kinds.append((case, whole, folder))
        began, done = time.perf_counter(), 0
        for seed in range(options.first, options.first + options.count):
            if time.perf_counter() - began > options.seconds:
                break
            case, whole, folder = kinds[seed % len(kinds)]
            verdict, wrong = attack(case, whole, folder, seed)
            found[verdict], done = found[verdict] + 1, done + 1
            if wrong:
                print(f"FALSE: {verdict}, change {seed} of {case}: {wrong}", flush=True)
                false += 1
            if done % 500 == 0:
                print(f"{done:,}: {dict(found)}, {false} false", flush=True)
    print(f"{done:,} changes in {time.perf_counter() - began:.0f} s: {dict(found)}")
    claim(f"false proofs in {done:,} changes to JSON files of stock folders", false, at_most=0)


if __name__ == "__main__":
    run(main)
