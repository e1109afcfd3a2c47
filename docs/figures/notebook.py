"""Runs the cells of the notebooks in docs/notebooks in order and stores what they print.

`stock_nnsight` needs nnsight, which installs beside the pinned torch: pip install -c constraints.txt nnsight. Names of
notebooks on the command line choose some of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import sys
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
NOTEBOOK = NOTEBOOKS / "stock_nnsight.ipynb"


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what its cells print."""
    names: dict[str, Any] = {}
    cells = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            text, place, said = "".join(cell["source"]), f"<cell {number}>", io.StringIO()
            linecache.cache[place] = (
                len(text),
                None,
                cell["source"],
                place,
            )  # nnsight reads its blocks back from there
            with contextlib.redirect_stdout(said):
                exec(compile(text, place, "exec"), names)
            printed = said.getvalue().splitlines(keepends=True)
            cell = {**cell, "outputs": [{"output_type": "stream", "name": "stdout", "text": printed}]}
        cells.append(cell)
    return {**notebook, "cells": cells}


def main() -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if path.stem in sys.argv[1:] or len(sys.argv) == 1:
            notebook = run(json.loads(path.read_text(encoding="utf-8")))
            path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
