"""Claim: of 100,000 planted faults none is proved that some evaluation contradicts, and none refuted that is right.

    python bench/no_false_proof_in_100000_faults.py                                       a minute
    python bench/no_false_proof_in_100000_faults.py --count 100000 --resume faults.json   all, also in pieces
    python bench/no_false_proof_in_100000_faults.py --count 400000 --jobs 16              on many cores

Faults of three families in small models of all kinds (ids and vectors, positions, causal, labels by token and by
sequence, classes and reals, two readouts, cascades, robust models, binary64 and binary32):
numbers, bits, neurons, tokens and labels changed, values wired to other stages, stages, coordinates and cells
exchanged; thresholds within 128 floats of a point, logits nearly equal; keys and codes scaled by powers of two up to
2^300. What is proved is evaluated six times in adversarial order, with exp pushed by its bound and subnormal numbers
flushed (tests/evil.py), a robust model with every weight moved by the largest noise that its certificate states. The
counts grow in the file of --resume, so that the attack can be stopped and go on. A fault is known by its family and
number: however many processes there are, the same count is the same faults.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count as numbers
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

from tests.adversary import EACH, FAMILIES, attack

from monolayer.data.aside import new_file
from workload import claim, record, recordable, run

VERDICTS = ("proved", "refuted", "undecided", "no question")
Counts = dict[str, dict[str, int]]


def show(counts: Counts) -> None:
    print(f"{'family':24} {'cases':>9} " + " ".join(f"{verdict:>12}" for verdict in VERDICTS) + f" {'false':>6}")
    for family, row in counts.items():
        cases = sum(row[verdict] for verdict in VERDICTS)
        print(
            f"{family:24} {cases:9,} " + " ".join(f"{row[verdict]:12,}" for verdict in VERDICTS) + f" {row['false']:6}"
        )


def batch(family: str, scratch: str, seeds: range) -> tuple[str, Counter[str]]:
    """What became of the faults `seeds`, all in one model."""
    found: Counter[str] = Counter()
    models: dict[int, object] = {}
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        for seed in seeds:
            verdict, contradicted = attack(family, seed, Path(folder), models)  # type: ignore[arg-type]
            if contradicted:
                print(f"FALSE: {verdict}, {family}, seed {seed}", flush=True)
            found[verdict] += 1
            found["false"] += contradicted
    return family, found


def batches(done: dict[str, int], most: int | None) -> Iterator[tuple[str, range]]:
    """Pieces of work, the families in turn, from where they stand to `most` faults in all."""
    share = {name: None if most is None else (most + place) // len(done) for place, name in enumerate(done)}
    for block in numbers():
        some = False
        for name, stood in done.items():
            seeds = range(max(stood, block * EACH), (block + 1) * EACH)
            ended = share[name]
            seeds = seeds if ended is None else range(seeds.start, min(seeds.stop, ended))
            some |= ended is None or seeds.stop < ended
            if len(seeds):
                yield name, seeds
        if not some:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=None, help="stop after this time; a minute unless --count is given"
    )
    parser.add_argument("--count", type=int, default=None, help="faults in all, over the three families")
    parser.add_argument("--resume", type=Path, default=None, help="file that keeps the counts and is gone on from")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    recordable(parser)
    options = parser.parse_args()
    limit = options.seconds or (60.0 if options.count is None else float("inf"))
    counts: Counts = {family: dict.fromkeys((*VERDICTS, "false"), 0) for family in FAMILIES}
    if options.resume is not None and options.resume.exists():
        counts = json.loads(options.resume.read_text())
    done = {family: sum(row[verdict] for verdict in VERDICTS) for family, row in counts.items()}
    memory, began, saved = Path("/dev/shm"), time.perf_counter(), 0.0
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
    ):
        work = batches(done, options.count)
        waiting = [pool.submit(batch, family, scratch, seeds) for family, seeds in islice(work, 2 * options.jobs)]
        while waiting:
            family, found = waiting.pop(0).result()
            for name, times in found.items():
                counts[family][name] += times
            if time.perf_counter() - began < limit:
                waiting += [pool.submit(batch, name, scratch, seeds) for name, seeds in islice(work, 1)]
            if options.resume is not None and time.perf_counter() - saved > 5.0:
                _keep(options.resume, counts)
                saved = time.perf_counter()
    if options.resume is not None:
        _keep(options.resume, counts)
    show(counts)
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} s")
    record([{"family": family, **row} for family, row in counts.items()] + [{"seconds": round(seconds)}])
    cases = sum(row[verdict] for row in counts.values() for verdict in VERDICTS)
    claim(f"false verdicts of {cases:,} planted faults", sum(row["false"] for row in counts.values()), at_most=0)


def _keep(path: Path, counts: Counts) -> None:
    with new_file(path) as file:
        json.dump(counts, file, indent=1)


if __name__ == "__main__":
    run(main)
