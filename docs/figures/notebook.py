"""Runs the cells of docs/notebooks/stock_nnsight.ipynb in order and stores what they print.

Needs nnsight, which installs beside the pinned torch: pip install -c constraints.txt nnsight
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "stock_nnsight.ipynb"


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
    notebook = run(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    NOTEBOOK.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
