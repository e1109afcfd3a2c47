"""`monolayer memorize-files`: data that do not fit into memory."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from typing import Annotated

import typer

from monolayer.cli.building import (
    Causal,
    Out,
    Overwrite,
    Positions,
    Rank,
    Seed,
    given,
    next_steps,
    rank_of,
    some,
)
from monolayer.cli.console import Json, app, complain, number, print_json, progress, table
from monolayer.cli.reading import PLAIN, Reading, reads
from monolayer.errors import DataError
from monolayer.table import plural


class EngineChoice(StrEnum):
    processes = "processes"
    dask = "dask"


@app.command("memorize-files")
@reads
def memorize_files(
    data: Annotated[list[str], typer.Argument(help="Data files, or patterns such as 'shards/*.parquet'.")],
    out: Out,
    memory: Annotated[str, typer.Option(help="How much all processes of this machine may hold.")] = "2GB",
    workers: Annotated[int | None, typer.Option(help="How many work at once; one per processor.", min=1)] = None,
    engine: Annotated[
        EngineChoice, typer.Option(help="Processes of this machine, or a dask cluster.")
    ] = EngineChoice.processes,
    scheduler: Annotated[str | None, typer.Option(help="With --engine dask: its address, tcp://…")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a build that was stopped.")] = False,
    positions: Positions = False,
    causal: Causal = False,
    rank: Rank = None,
    seed: Seed = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Build the model of memorize from files that do not fit into memory, bit for bit (docs/large.md)."""
    from monolayer.cluster.memorize import memorize_files as build

    if scheduler is not None and engine is not EngineChoice.dask:
        raise DataError("--scheduler goes with --engine dask")
    options = given(memory=memory, workers=workers, engine=engine, scheduler=scheduler, resume=resume)
    options |= given(positions=positions, causal=causal, rank=rank_of(rank), seed=seed)
    began = time.perf_counter()
    try:
        with progress(as_json) as step:
            build(data, out, overwrite=overwrite, progress=step, **options, **reading.keywords)
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
        ("labels", f"{summary['labelled']:,} on {plural(summary['points'], 'different point')}"),
        ("vocabulary", number(summary["vocabulary"])),
        ("label runs", number(summary["runs"])),
        ("margin at label changes", margin),
        ("numbers in the files", number(summary["parameters"])),
        ("seconds", f"{summary['seconds']:.2f} to build; nothing is checked yet"),
    ]
    table(str(out), rows)
    next_steps(out, ["verify", out, *some(data)], ["predict", out, *some(data)])
