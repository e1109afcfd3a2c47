"""No verdict on a robust stock folder with changed weights is contradicted by transformers, eager or sdpa.

    python bench/no_false_proof_of_changed_robust_weights.py --count 60

`--count` changes for each architecture: bits turned over, numbers zeroed, negated, scaled and shifted, rows exchanged,
tensors jolted. A folder that is proved must answer every label in float32; one that is refuted must answer one wrongly.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.changed_weights import CASES, attack

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    total = {"proved": 0, "refuted": 0, "undecided": 0}
    for case in CASES:
        found = attack(*case, count=wanted.count, seed=wanted.seed)
        total = {verdict: total[verdict] + found[verdict] for verdict in total}
        print(f"{' '.join(case):55} {found}", flush=True)
    print(f"{sum(total.values()):,} changed folders: {total}; none contradicted")
