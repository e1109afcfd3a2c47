"""`monolayer memorize`: data in memory to a model of ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.building import (
    Causal,
    ConflictChoice,
    DtypeChoice,
    Fingerprint,
    OnConflict,
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
from monolayer.cli.console import Json, app, print_json, progress, table
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.cli.summary import Built


@app.command()
@reads
def memorize(
    data: Data,
    out: Out,
    positions: Positions = False,
    causal: Causal = False,
    robust: Annotated[
        bool, typer.Option("--robust", help="Survive noise on the weights and short formats (docs/robust.md).")
    ] = False,
    rank: Rank = None,
    dtype: Annotated[
        DtypeChoice | None,
        typer.Option(help="Format of the weights: float64 or float32; with --robust also bfloat16 and float16."),
    ] = None,
    on_conflict: OnConflict = ConflictChoice.error,
    fingerprint: Fingerprint = False,
    seed: Seed = None,
    draw: Annotated[
        Path | None, typer.Option(help="A saved model whose keys, codes and names are used again (docs/editing.md).")
    ] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Build a model that returns every label of DATA, check it on every one, and save it.

    Up to 40 sequences stay beside it in examples.jsonl, for its page; delete that file to keep none.

    As an unmodified Hugging Face model: memorize-as. Data larger than memory: memorize-files. A text to recite:
    memorize-text.
    """
    from monolayer.construct.memorize import memorize as build
    from monolayer.data.folder import check_output

    check_output(out, overwrite=overwrite)  # better known before the work than after it
    options = given(positions=positions, causal=causal, rank=rank_of(rank), dtype=dtype, seed=seed)
    options |= given(robust=robust, on_conflict=on_conflict, fingerprint=fingerprint)
    with progress(as_json) as step:
        sequences = reading.read(data, step, draw)
        began = time.perf_counter()
        model = build(sequences, draw=draw, progress=step, **options)
        built = Built.checked(model, sequences, time.perf_counter() - began, step)
        step("writing", 1.0)
        model.save(out, overwrite=overwrite)
    if as_json:
        print_json({"folder": str(out), **built.json()})
        return
    table(str(out), built.rows())
    next_steps(out, ["predict", out, *some(data)], ["verify", out, *some(data)], ["inspect", out])
