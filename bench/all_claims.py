"""Run every benchmark, also after one that fails, and show all claims in one table: claim, measured, holds or not.

    python bench/all_claims.py                                  all, as `make bench` does
    python bench/all_claims.py one_look_up_takes_600_us …       some of them, by their names

Exit 1 if a claim is not met, or if a script ends with an error.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from monolayer.table import escape
from workload import CLAIMS, Claim, title_of

HERE = Path(__file__).parent
RUNS = re.compile(r"^(if __name__|run\(main\))", re.MULTILINE)
"""A line of a file that runs something; other files of this folder hold what scripts share."""
WIDTH = 140
"""Columns of the table where no terminal says how many it has."""


def benchmarks() -> list[Path]:
    """The scripts of this folder but for this one: files that run something, not only define what others import."""
    found = [path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name]
    return [path for path in found if RUNS.search(path.read_text(encoding="utf-8"))]


def claims_of(script: Path) -> list[Claim]:
    """Run a script; its claims, or one row for a script that says none or breaks off."""
    print(f"== {script.name}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "claims.json"
        code = subprocess.run([sys.executable, str(script)], env={**os.environ, CLAIMS: str(file)}).returncode
        found = [Claim(*row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []
    title = title_of(ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))))
    if code and not any(claim.verdict == "NO" for claim in found):
        found.append(Claim(title, f"ended with exit code {code}", "NO"))
    return found or [Claim(title, "checked by assertions", "holds")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scripts to run; all without")
    names = {Path(name).stem for name in parser.parse_args().names}
    scripts = benchmarks()
    unknown = names - {path.stem for path in scripts}
    if unknown:
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r} in {HERE}")
    found = {path: claims_of(path) for path in scripts if not names or path.stem in names}
    table = Table("script", "claim", "measured", "holds")
    for path, claims in found.items():
        for number, claim in enumerate(claims):
            table.add_row("" if number else escape(path.stem), *map(escape, claim))
        table.add_section()
    console = Console()
    Console(width=console.width if console.is_terminal else WIDTH).print(table)
    return int(any(claim.verdict == "NO" for claims in found.values() for claim in claims))


if __name__ == "__main__":
    sys.exit(main())
