"""What the commands do with data that do not fit into memory: `memorize --memory`, and `verify` of many files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monolayer.cli.console import complain, number, print_json, progress, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from monolayer.checker.certificate import Certificate
    from monolayer.cli.reading import Reading


def memorize_out_of_core(data: str, out: Path, memory: str, options: dict[str, Any], as_json: bool) -> None:
    """`memorize_files` with a bar, and the table after it; `options` are its keywords."""
    from monolayer.cluster.memorize import memorize_files

    began = time.perf_counter()
    try:
        with progress(as_json) as step:
            memorize_files(data, out, memory=memory, progress=step, **options)
    except KeyboardInterrupt as stop:
        for note in getattr(stop, "__notes__", ()):
            complain(note)
        raise
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    summary = config["summary"] | {"seconds": time.perf_counter() - began}
    if as_json:
        print_json({"folder": str(out), **summary, "files": len(config["files"])})
        return
    margin = "no label changes" if summary["margin"] is None else f"{number(summary['margin'])} × the rounding error"
    rows = [
        ("sequences", number(summary["sequences"])),
        ("labels", f"{summary['labelled']:,} on {summary['points']:,} different points"),
        ("vocabulary", number(summary["vocabulary"])),
        ("margin at label changes", margin),
        ("label runs", number(summary["runs"])),
        ("numbers in the files", number(summary["parameters"])),
        ("seconds", f"{summary['seconds']:.2f} to build; `monolayer verify` proves every label"),
    ]
    if summary["gap"] is not None:
        gap = f"{number(summary['gap'])} of the range; 1/M² = {number(summary['expected_gap'])}"
        rows.insert(3, ("gap of points", gap))
    table(str(out), rows)


def verify_a_file_at_a_time(
    folder: Path,
    data: str,
    step: Callable[[str, float], None],
    reading: Reading,
) -> Certificate | None:
    """The certificate of data in several files, none of which need fit into memory with another; else None."""
    from monolayer.data.shards import files

    names = files(data)
    if len(names) < 2:
        return None
    from monolayer.checker.files import verify_files

    return verify_files(folder, names, progress=step, **reading.keywords)
