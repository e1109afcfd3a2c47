"""Claim: whatever kind of data files hold, a model is built from them within the memory that is allowed.

Sequences of 16 tokens, 1,008 words, in npz files, by two processes: random classes, which are the yardstick; real
labels that are all different; and every file twice. For each the time, also as a multiple of the yardstick's, and the
sum of the peaks of all processes. By default 6.4 million labels within 1.2 GB.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.cluster.room import size
from out_of_core_within_two_gigabytes import Peak
from workload import claim, run

KINDS = ("classes", "real labels", "everything twice")


def write(folder: Path, kind: str, number: int, rows: int) -> None:
    """A file of one kind."""
    random = np.random.default_rng(number // 2 if kind == "everything twice" else number)
    X: Any = random.integers(0, 63, (rows, 16), dtype=np.int16) + 63 * random.permutation(16).astype(np.int16)
    Y: Any = random.integers(0, 16, (rows, 16), dtype=np.int8)
    if kind == "real labels":
        Y = random.random((rows, 16))
    np.savez(folder / f"shard-{number:05}.npz", X=X, Y=Y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=float, default=6.4e6)
    parser.add_argument("--memory", default="1.2GB")
    parser.add_argument("--rows", type=int, default=100_000, help="sequences per file")
    options = parser.parse_args()
    files, first, build = round(options.labels / (16 * options.rows)), 0.0, ml.memorize_files
    print(f"{files * 16 * options.rows:,} labels, --memory {options.memory}")
    print(f"{'kind':>18} {'seconds':>8} {'of classes':>10} {'memory':>8} {'steps':>12}")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name:
            for number in range(files):
                write(Path(name), kind, number, options.rows)
            with Peak() as peak:
                began = time.perf_counter()
                out = build(f"{name}/shard-*.npz", f"{name}/model", memory=options.memory, workers=2)
                seconds = time.perf_counter() - began
            first = first or seconds
            summary = ml.load(out).summary
            assert summary is not None
            print(
                f"{kind:>18} {seconds:>8.1f} {seconds / first:>10.2f} {peak.bytes / 1e9:>6.2f}GB "
                f"{summary.runs - 1:>12,}",
                flush=True,
            )
            claim(f"memory of a build, {kind}", peak.bytes / 1e9, at_most=size(options.memory) / 1e9, unit=" GB")


if __name__ == "__main__":
    run(main)
