"""What the benchmarks share: the data, a clock, the peak of memory, claims, and the record of what a script found.

A script says with `claim` what it measured and what it claims, and `run(main)` ends it with 1 if a claim is not met.
`all_claims.py` runs all scripts and shows the claims of all of them in one table.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from monolayer.data.aside import new_file
from monolayer.errors import DataError
from monolayer_experiments.results import machine, versions

RECORDS = Path(__file__).parent.parent / "results" / "bench"
CLAIMS = "MONOLAYER_CLAIMS"
"""The variable that names the file to which a script writes its claims; none where nobody asks."""
SAME_RUN = 1.25
"""The factor by which a ratio of two times of one run may miss its claim on a busy machine."""
IDLE = 2.0
"""The factor by which a time that is claimed for an idle machine may miss its claim on a slower one."""
EXTRA = "pip install 'monolayer["
"""What the library says where a package is missing (`errors.needs_extra`)."""
Verdict = Literal["holds", "within the margin", "NO", "not run"]


class Claim(NamedTuple):
    """A claim in words, what was measured beside its limit, and whether it holds."""

    words: str
    measured: str
    verdict: Verdict


class NotRunError(Exception):
    """A script cannot run here: its words say what is missing."""


_claims: list[Claim] = []
"""Those of the script that runs."""


def claim(
    words: str,
    measured: float,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    busy: float = 1.0,
    idle: bool = False,
    unit: str = "",
) -> None:
    """Say what was measured, and what is claimed; `busy`: by which factor a busy machine may miss the limit.

    `idle`: the limit is a time on an idle machine. On one that has more to do than processors it is not judged unless
    it holds: caches that are shared make the same work several times slower, in processor time too.
    """
    busy = IDLE if idle else busy
    limit = at_most if at_most is not None else at_least
    assert limit is not None, "a claim has a limit"
    assert at_most is None or at_least is None, "a claim has one limit"
    held, close = measured <= limit, measured <= limit * busy
    if at_most is None:
        held, close = measured >= limit, measured >= limit / busy
    verdict: Verdict = "holds" if held else "within the margin" if close else "NO"  # a NaN is no
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    crowded = idle and load > processors and verdict == "NO"
    said = f"{measured:,.4g}{unit} (claim: {'≤' if at_most is not None else '≥'} {limit:,.4g}{unit})"
    if crowded:
        said, verdict = f"{said} on a busy machine: a load of {load:.0f} on {processors} processors", "not run"
    _claims.append(Claim(words, said, verdict))
    print(f"claim: {words}: {said}: {verdict}", flush=True)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a script; exit with 1 if one of its claims is not met, if it fails or says so itself, with 130 at Ctrl-C."""
    title = title_of(sys.modules["__main__"].__doc__)
    try:
        if main():
            _claims.append(Claim(title, "see what it printed", "NO"))
    except KeyboardInterrupt:
        print(f"stopped: {Path(sys.argv[0]).name}", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # also an assertion; claims before it are still told
        why = str(error).strip().split("\n")[0]
        if isinstance(error, NotRunError) or (isinstance(error, DataError) and EXTRA in why):
            print(f"not run: {error}")
            _claims.append(Claim(title, str(error), "not run"))
        else:
            traceback.print_exc()
            _claims.append(Claim(title, f"{type(error).__name__}: {why}" if why else type(error).__name__, "NO"))
    every = _claims or [Claim(title, "checked by assertions", "holds")]
    if CLAIMS in os.environ:
        Path(os.environ[CLAIMS]).write_text(json.dumps(every), encoding="utf-8")
    sys.exit(1 if any(one.verdict == "NO" for one in every) else 0)


def title_of(docstring: str | None) -> str:
    """The claim of a script as the first line of its docstring says it."""
    return (docstring or "no claim").strip().split("\n")[0].removeprefix("Claim: ").rstrip(".")


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


def record(rows: list[dict[str, Any]], device: str = "cpu", part: str = "") -> None:
    """With --record: what a script found, by which command, machine and source, to results/bench/SCRIPT.json.

    `part`: what the name of the file says beside the script, where runs with other options are kept, too.
    """
    if "--record" not in sys.argv:
        return
    script = Path(sys.argv[0])
    # Of a folder that only this machine has, only the last name is kept.
    given = (word for word in sys.argv[1:] if word != "--record")
    words = " ".join(Path(word).name if word.startswith("/") else word for word in given)
    found = {
        "command": f"python bench/{script.name} {words}".strip(),
        "machine": machine(device),
        "versions": versions(),
        "rows": rows,
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    with new_file(RECORDS / f"{script.stem}{part}.json") as file:
        file.write(json.dumps(found, indent=1, allow_nan=False) + "\n")
