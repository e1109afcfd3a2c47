"""Claim: of 100,000 planted faults none is proved that some evaluation contradicts, and none refuted that is right.

    python bench/no_false_proof_in_100000_faults.py                                       a minute
    python bench/no_false_proof_in_100000_faults.py --count 100000 --resume faults.json   all, also in pieces

Faults of three families in small models of all kinds (ids and vectors, positions, causal, labels by token and by
sequence, classes and reals, three readouts, cascades, code and context apart, binary64 and binary32): numbers, bits,
neurons, tokens and labels changed, values wired to other stages, stages, coordinates and cells exchanged; thresholds
within eight floats of a point; keys and codes scaled by powers of two up to 2^300. What is proved is evaluated six
times in adversarial order, with exp pushed by its bound and subnormal numbers flushed (tests/adversary.py). The counts
grow in the file of --resume, so that the attack can be stopped and go on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

from tests.adversary import FAMILIES, attack

from monolayer.data.aside import new_file

VERDICTS = ("proved", "refuted", "undecided", "no question")
Counts = dict[str, dict[str, int]]


def show(counts: Counts) -> None:
    print(f"{'family':24} {'cases':>9} " + " ".join(f"{verdict:>12}" for verdict in VERDICTS) + f" {'false':>6}")
    for family, row in counts.items():
        cases = sum(row[verdict] for verdict in VERDICTS)
        print(
            f"{family:24} {cases:9,} " + " ".join(f"{row[verdict]:12,}" for verdict in VERDICTS) + f" {row['false']:6}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=None, help="stop after this time; a minute unless --count is given"
    )
    parser.add_argument("--count", type=int, default=None, help="faults in all, over the three families")
    parser.add_argument("--resume", type=Path, default=None, help="file that keeps the counts and is gone on from")
    options = parser.parse_args()
    limit = options.seconds or (60.0 if options.count is None else float("inf"))
    counts: Counts = {family: dict.fromkeys((*VERDICTS, "false"), 0) for family in FAMILIES}
    if options.resume is not None and options.resume.exists():
        counts = json.loads(options.resume.read_text())
    memory, began, saved = Path("/dev/shm"), time.perf_counter(), 0.0
    seeds = {family: sum(row[verdict] for verdict in VERDICTS) for family, row in counts.items()}
    models: dict[str, dict[int, object]] = {family: {} for family in FAMILIES}
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        while time.perf_counter() - began < limit and (options.count is None or sum(seeds.values()) < options.count):
            family = min(seeds, key=lambda name: seeds[name])
            verdict, contradicted = attack(family, seeds[family], Path(scratch), models[family])  # type: ignore[arg-type]
            if contradicted:
                print(f"FALSE: {verdict}, {family}, seed {seeds[family]}", flush=True)
            counts[family][verdict] += 1
            counts[family]["false"] += contradicted
            seeds[family] += 1
            if options.resume is not None and time.perf_counter() - saved > 5.0:
                _keep(options.resume, counts)
                saved = time.perf_counter()
    if options.resume is not None:
        _keep(options.resume, counts)
    show(counts)
    sys.exit(1 if any(row["false"] for row in counts.values()) else 0)


def _keep(path: Path, counts: Counts) -> None:
    with new_file(path) as file:
        json.dump(counts, file, indent=1)


if __name__ == "__main__":
    main()
