"""`monolayer export`: a saved model as a folder for transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from monolayer.cli.console import (
    Json,
    app,
    progress,
)
from monolayer.cli.construct import DtypeChoice
from monolayer.cli.reading import PLAIN, Reading, reads
from monolayer.cli.stock import check_stock, told


@app.command()
@reads
def export(
    folder: Annotated[Path, typer.Argument(help="A saved model of ids or strings.")],
    to: Annotated[
        str,
        typer.Option(help="bert, roberta, distilbert, gpt2, opt, gpt_neox, starcoder2 or llama (docs/stock.md)."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the stock model to.")],
    data: Annotated[
        str | None,
        typer.Argument(help="The sequences to be answered, labelled or not; not needed for a model that recites."),
    ] = None,
    robust: Annotated[
        bool | None,
        typer.Option("--robust/--no-robust", help="Margins for short formats; by default whether the model has them."),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="With --robust: rank of the values.")] = None,
    dtype: Annotated[DtypeChoice | None, typer.Option(help="With --robust: the format of the weights.")] = None,
    activation: Annotated[
        str | None, typer.Option(help="relu6 (the default but for llama), relu, gelu, or own for the architecture's.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed and platform, same bits.", min=0)] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a stock model that is there.")] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Write a saved model as an unmodified Hugging Face model that gives the same answers on DATA, and prove it.

    Labels come from the model; those in DATA, if any, are compared with them.
    """
    from monolayer.model.load import load_monolayer
    from monolayer.stock.export import export as write

    options: dict[str, Any] = {"rank": rank, "dtype": None if dtype is None else dtype.value, "seed": seed}
    options |= {} if activation is None else {"activation": activation}
    with progress(as_json) as step:
        check_stock(to, out, overwrite)
        model = load_monolayer(folder)
        sequences = None
        if data is not None:
            sequences = reading.read(data, step, model)
        built = write(model, out, to, sequences, robust=robust, overwrite=overwrite, progress=step, **options)
        told(built, out, step, as_json)
