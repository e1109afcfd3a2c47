"""What the benchmarks share: the data, a clock, the peak of memory, and the record of what a script found."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.data.aside import new_file
from monolayer_experiments.results import machine, versions

RECORDS = Path(__file__).parent.parent / "results" / "bench"


def sequences(
    count: int, length: int = 16, vocabulary: int = 1000, classes: int = 16, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random sequences without repeated tokens `(N, n)`, and a random class for every token."""
    random = np.random.default_rng(seed)
    X = random.integers(0, vocabulary, (count, length))
    while True:
        ordered = np.sort(X, axis=1)
        bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(bad) == 0:
            return X, random.integers(0, classes, (count, length))
        X[bad] = random.integers(0, vocabulary, (len(bad), length))


def seconds(action: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The best of some runs, and what the last one returned."""
    best, result = float("inf"), None
    for _ in range(repeats):
        result = None
        began = time.perf_counter()
        result = action()
        best = min(best, time.perf_counter() - began)
    return best, result


def cpu_seconds(action: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """`seconds` of processor time, all threads together: what others do on the machine counts for less."""
    best, result = float("inf"), None
    for _ in range(repeats):
        result = None
        began = time.process_time()
        result = action()
        best = min(best, time.process_time() - began)
    return best, result


def sort_seconds(count: int, repeats: int = 3) -> float:
    """The yardstick: `np.argsort` of as many random float64 keys."""
    keys = np.random.default_rng(1).random(count)
    return seconds(lambda: np.argsort(keys), repeats)[0]


def peak_bytes(action: Callable[[], Any]) -> int | None:
    """How far the resident memory of this process rises above where it was; None where the system does not tell."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        reset.write_text("5")  # the peak starts anew from here
    except OSError:
        return None
    before = _field(status, "VmRSS")
    action()
    return _field(status, "VmHWM") - before


def _field(status: Path, name: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def recordable(parser: ArgumentParser) -> None:
    """Give a script the option that `record` asks for."""
    parser.add_argument("--record", action="store_true", help="keep what is found in results/bench, beside its source")


def record(rows: list[dict[str, Any]]) -> None:
    """With --record: what a script found, by which command, machine and source, to results/bench/SCRIPT.json."""
    if "--record" not in sys.argv:
        return
    script = Path(sys.argv[0])
    words = " ".join(word for word in sys.argv[1:] if word != "--record")
    found = {
        "command": f"python bench/{script.name} {words}".strip(),
        "machine": machine("cpu"),
        "versions": versions(),
        "rows": rows,
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    with new_file(RECORDS / f"{script.stem}.json") as file:
        file.write(json.dumps(found, indent=1, allow_nan=False) + "\n")
