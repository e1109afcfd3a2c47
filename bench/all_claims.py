"""Run every benchmark, also after one that fails, and show all claims in one table: claim, measured, holds or not.

    python bench/all_claims.py                                  all, as `make bench` does
    python bench/all_claims.py exp_is_within_four_ulps …        some of them, by their names
    python bench/all_claims.py --resume claims.json             all, also in pieces

With --resume the file keeps what each script said. A script whose claims were all met there is not run again, unless
it or the library has changed since. Ctrl-C shows the table of what was run so far.

Exit 1 if a claim is not met, or if a script ends with an error; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, get_args

from rich.console import Console
from rich.table import Table

from monolayer.data.aside import new_file
from monolayer.table import escape
from monolayer_experiments.results import versions
from workload import CLAIMS, Claim, Verdict, title_of

HERE = Path(__file__).parent
RUNS = re.compile(r"^(if __name__|run\(main\))", re.MULTILINE)
"""A line of a file that runs something; other files of this folder hold what scripts share."""
WIDTH = 140
"""Columns of the table where no terminal says how many it has."""
GRACE = 10.0
"""Seconds in which a script ends after Ctrl-C, which a terminal tells it too. After that it is told by us."""


class Ended(NamedTuple):
    """What a script claims and measured, how long it took, and which source that was."""

    claims: list[Claim]
    seconds: float
    source: str

    @property
    def met(self) -> bool:
        return all(claim.verdict in ("holds", "within the margin") for claim in self.claims)


def benchmarks() -> list[Path]:
    """The scripts of this folder but for this one: files that run something, not only define what others import."""
    found = [path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name]
    return [path for path in found if RUNS.search(path.read_text(encoding="utf-8"))]


def source_of(script: Path, library: str) -> str:
    """A digest of what a script measured: the library, by its own digest, and the script itself."""
    return sha256(library.encode() + script.read_bytes()).hexdigest()[:16]


def claims_of(script: Path) -> list[Claim]:
    """Run a script; its claims, or one row for a script that says none or breaks off."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "claims.json"
        code = _exit_code([sys.executable, str(script)], {**os.environ, CLAIMS: str(file)})
        found = [Claim(*row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []
    title = title_of(ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))))
    if code and not any(claim.verdict == "NO" for claim in found):
        found.append(Claim(title, f"ended with exit code {code}", "NO"))
    return found or [Claim(title, "checked by assertions", "holds")]


def _exit_code(words: list[str], environment: dict[str, str]) -> int:
    """Run a command. At Ctrl-C it has time to delete what it wrote, which `subprocess.run` would not give it."""
    child = subprocess.Popen(words, env=environment)
    try:
        return child.wait()
    except KeyboardInterrupt:
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            child.wait()
        raise


def ended(script: Path, source: str) -> Ended:
    print(f"== {script.name}", flush=True)
    began = time.perf_counter()
    return Ended(claims_of(script), round(time.perf_counter() - began, 1), source)


def read(path: Path | None) -> dict[str, Ended]:
    """What a file of --resume holds, by the name of the script."""
    if path is None or not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {name: Ended([Claim(*claim) for claim in claims], *rest) for name, (claims, *rest) in rows.items()}


def show(found: dict[str, Ended]) -> None:
    """All claims as a table, and how many of them hold."""
    table = Table("script", "claim", "measured", "holds", "seconds")
    for name, end in found.items():
        for number, claim in enumerate(end.claims):
            first = (escape(name), f"{end.seconds:,.0f}") if number == 0 else ("", "")
            table.add_row(first[0], *map(escape, claim), first[1])
        table.add_section()
    console = Console()
    Console(width=console.width if console.is_terminal else WIDTH).print(table)
    verdicts = Counter(claim.verdict for end in found.values() for claim in end.claims)
    counts = ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in get_args(Verdict) if verdicts[verdict])
    print(f"Scripts: {len(found)}. Claims: {counts or 'none'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scripts to run; all without")
    parser.add_argument("--resume", type=Path, help="file that keeps what scripts said, and is gone on from")
    options = parser.parse_args()
    names = {Path(name).stem for name in options.names}
    scripts = benchmarks()
    unknown = names - {path.stem for path in scripts}
    if unknown:
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r} in {HERE}")
    kept, found, stopped = read(options.resume), dict[str, Ended](), False
    library = versions()["source"]
    try:
        for path in (path for path in scripts if not names or path.stem in names):
            source, end = source_of(path, library), kept.get(path.stem)
            if end is None or not end.met or end.source != source:
                end = ended(path, source)
            found[path.stem] = kept[path.stem] = end
            if options.resume is not None:
                with new_file(options.resume) as file:
                    json.dump(kept, file, indent=1)
    except KeyboardInterrupt:
        stopped = True
    show(found)
    if stopped:
        print("stopped; what is not in the table was not run to its end")
        return 130
    return int(any(claim.verdict == "NO" for end in found.values() for claim in end.claims))


if __name__ == "__main__":
    sys.exit(main())
