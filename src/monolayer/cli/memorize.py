"""`monolayer memorize` and `monolayer memorize-files`: build a model from data, in memory or larger."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from monolayer.cli import building
from monolayer.cli.building import given
from monolayer.cli.console import Json, Overwrite, app, complain, flag, print_json, progress, say_read, table
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.errors import DataError
from monolayer.table import part_of

if TYPE_CHECKING:
    from monolayer.data.plan import ReadPlan


@app.command()
@reads
def memorize(
    data: Data,
    out: building.OutFolder,
    positions: building.Positions = False,
    causal: building.Causal = False,
    robust: Annotated[
        bool, flag("--robust", "Tolerate noise on the weights and low-precision formats (docs/robust.md).")
    ] = False,
    rank: building.Rank = None,
    dtype: Annotated[
        building.DtypeChoice | None,
        typer.Option(help="Format of the weights: float64 or float32; with --robust also bfloat16 and float16."),
    ] = None,
    on_conflict: building.ConflictRule = "error",
    unknown: building.KeepFingerprints = None,
    seed: building.Seed = None,
    draw: Annotated[
        Path | None, typer.Option(help="A saved model whose keys, codes and names are reused (docs/editing.md).")
    ] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Build a model that returns every label of DATA, check every label, and save the model.

    To get an unmodified Hugging Face model, use memorize-as; for data larger than memory, memorize-files; for a text
    to recite, memorize-text.
    """
    from monolayer.construct.memorize import memorize as build
    from monolayer.data.folder import check_output
    from monolayer.model.load import load_monolayer

    check_output(out, overwrite=overwrite)  # refuse before any work is done
    options = given(positions=positions, causal=causal, rank=building.rank_of(rank), dtype=dtype, seed=seed)
    options |= given(robust=robust, on_conflict=on_conflict, unknown=unknown)
    with progress(as_json) as step:
        drawn = None if draw is None else load_monolayer(draw)
        sequences = reading.read(data, step, None if drawn is None else drawn.card.manner)
        began = time.perf_counter()
        model = build(
            sequences, draw=drawn, progress=part_of(step, building.SHARE_READ, building.SHARE_BUILT), **options
        )
        checking = part_of(step, building.SHARE_BUILT, building.SHARE_CHECKED)
        checked = building.checked(model, sequences, began, checking, on_conflict)
        step("writing", building.SHARE_CHECKED)
        model.save(out, overwrite=overwrite)
    if as_json:
        print_json({"folder": str(out), **checked})
        return
    table(str(out), building.checked_rows(model, checked))
    building.next_steps(out, data, "predict", "verify", "inspect", reading=reading)


@app.command("memorize-files")
@reads
def memorize_files(
    data: Annotated[list[str], typer.Argument(help="Data files, or patterns such as 'shards/*.parquet'.")],
    out: building.OutFolder,
    memory: Annotated[str, typer.Option(help="Memory limit for all processes on this machine together.")] = "2GB",
    workers: Annotated[
        int | None, typer.Option(help="Number of worker processes; one per processor by default.", min=1)
    ] = None,
    engine: Annotated[
        Literal["processes", "dask"], typer.Option(help="Processes on this machine, or a dask cluster.")
    ] = "processes",
    scheduler: Annotated[str | None, typer.Option(help="With --engine dask: address of the scheduler, tcp://…")] = None,
    resume: Annotated[bool, flag("--resume", "Continue a build that was interrupted.")] = False,
    positions: building.Positions = False,
    causal: building.Causal = False,
    rank: building.Rank = None,
    unknown: building.KeepFingerprints = None,
    seed: building.Seed = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Build the same model as memorize, bit for bit, from files that do not fit into memory (docs/large.md)."""
    from monolayer.cluster.memorize import memorize_files as build
    from monolayer.model.card import Summary
    from monolayer.model.schema import MEMORY

    if scheduler is not None and engine != "dask":
        raise DataError("--scheduler needs --engine dask")
    options = given(memory=memory, workers=workers, engine=engine, scheduler=scheduler, resume=resume)
    options |= given(positions=positions, causal=causal, rank=building.rank_of(rank), seed=seed, unknown=unknown)
    began = time.perf_counter()
    plans: list[ReadPlan] = []
    try:
        with progress(as_json) as step:
            build(data, out, overwrite=overwrite, progress=step, plans=plans, **options, **given(**reading.keywords))
        say_read(plans)
    except KeyboardInterrupt as stop:
        for note in getattr(stop, "__notes__", ()):
            complain(note)
        raise
    seconds = time.perf_counter() - began
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    if as_json:
        print_json({"folder": str(out), **config["summary"], "seconds": seconds, "files": len(config["files"])})
        return
    summary = Summary.from_json(config["summary"])
    assert summary is not None  # it was just written
    words = out / MEMORY
    kept = [("unknown input", f"recognized by fingerprints, {words.stat().st_size:,} bytes")] if words.exists() else []
    last = ("seconds", f"{seconds:.2f} to build; nothing is checked yet")
    table(str(out), [*building.summary_rows(summary), *kept, last])
    building.next_steps(out, data, "verify", "predict", reading=reading)
