"""`monolayer explain`: why a saved model answers as it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.console import Json, app, err, out, print_json, progress
from monolayer.cli.files import check_file
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.errors import DataError
from monolayer.table import escape

WIDE = {
    **{"margin.l": 110, "margin.r": 80, "dragmode": "zoom", "xaxis.domain": [0, 0.3], "xaxis2.domain": [0.36, 1]},
    **{"xaxis.nticks": 0, "xaxis.title.text": "attention weight"},
    "xaxis2.title.text": "where z lies on its step, and the labels of the steps beside it",
}
NARROW = {
    **{"margin.l": 64, "margin.r": 8, "dragmode": False, "xaxis.domain": [0, 0.2], "xaxis2.domain": [0.26, 1]},
    **{"xaxis.nticks": 2, "xaxis.title.text": "weight", "xaxis2.title.text": "z on its step, labels beside it"},
}


@app.command()
@reads
def explain(
    folder: Annotated[Path, typer.Argument(help="A saved model.")],
    data: Data,
    first: Annotated[int, typer.Option(help="How many sequences, from the first.", min=1)] = 5,
    picture: Annotated[Path | None, typer.Option(help="HTML file for a picture of the first sequence.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the picture.")] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Show, token by token, key, attention weight, context, the number z, its step, the neighbours and the margin."""
    import numpy as np

    from monolayer.data.aside import new_file
    from monolayer.huggingface.reading import is_stock
    from monolayer.model.load import load_monolayer
    from monolayer.page.picture import picture_page

    if is_stock(folder):
        raise DataError(
            f"{folder} has a stock architecture, which explain does not read: `monolayer locate {folder} DATA` shows "
            f"where it holds facts, `monolayer verify {folder} DATA` proves its answers, `monolayer compare` shows "
            "where two folders differ, and `monolayer inspect` its sizes"
        )
    if picture is not None:
        check_file(picture, overwrite)
    model = load_monolayer(folder)
    with progress(as_json) as step:
        sequences = reading.read(data, step, model)
    found = model.explain(sequences.select(np.arange(min(first, len(sequences)))))
    if picture is not None:
        if picture.suffix != ".html":
            raise DataError(f"{picture} should end in .html: the picture is a page of its own")
        title = f"{folder.name}: why the first sequence is answered as it is"
        text = picture_page(found.figure(), title, WIDE, NARROW)
        picture.parent.mkdir(parents=True, exist_ok=True)
        with new_file(picture) as file:
            file.write(text)
    if as_json:
        print_json({"folder": str(folder), "sequences": found.json()})
        return
    out.print(found.table())
    if first < len(sequences):
        err.print(f"{first:,} of {len(sequences):,} sequences; --first shows more")
    if picture is not None:
        err.print(f"wrote {escape(str(picture))}")
