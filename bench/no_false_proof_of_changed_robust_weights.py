"""Claim: no verdict on a robust stock folder with changed weights is contradicted by transformers, eager or sdpa.

    python bench/no_false_proof_of_changed_robust_weights.py --count 60

`--count` changes for each architecture and task: bits turned over, numbers zeroed, negated, scaled and shifted, rows
exchanged, tensors jolted. A folder that is proved must answer every label in float32; one that is refuted must answer
one wrongly.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.stock_attack import attack, cases, weights

from workload import claim, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    total, false = Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        for case in (case for case in cases() if case.robust):
            folder, found = case.build(Path(scratch) / f"{case.name} {case.task}"), Counter[str]()
            whole = {path.name: path.read_bytes() for path in folder.iterdir()}
            for seed in range(wanted.seed, wanted.seed + wanted.count):
                verdict, wrong = attack(case, whole, folder, seed, weights)
                if wrong:
                    print(f"FALSE: {case}, change {seed}: {verdict}, {wrong}", flush=True)
                    false += 1
                found[verdict] += 1
            print(f"{case.name + ' ' + case.task:30} {dict(found)}", flush=True)
            total += found
    print(f"{total.total():,} changed folders: {dict(total)}")
    claim(f"verdicts on {total.total():,} changed folders that transformers contradicts", false, at_most=0)


if __name__ == "__main__":
    run(main)
