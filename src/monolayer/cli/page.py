"""`monolayer page`: a saved model as a page that runs it, or a page that builds one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.console import Json, app, out, print_json, progress
from monolayer.cli.files import check_file
from monolayer.cli.reading import PLAIN, Reading, reads
from monolayer.errors import DataError
from monolayer.table import escape


@app.command()
@reads
def page(
    file: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
    folder: Annotated[
        Path | None, typer.Argument(help="A saved model; without one, the page builds it of facts that are typed in.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data to pick examples from; by default those in the folder. Labels are certified first."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Write one HTML file that runs the model in the browser: type a sequence, see every number on its way.

    Without a model the page builds one: type facts or a text, see the weights, forget a fact, add noise.
    """
    from monolayer.checker import verify
    from monolayer.data.examples import EXAMPLES
    from monolayer.model.load import load_monolayer
    from monolayer.page import write

    check_file(file, overwrite)
    if folder is None and data is not None:
        raise DataError("--data goes with a model: give its folder, or leave --data out for a page that builds")
    model, title = (None, "") if folder is None else (load_monolayer(folder), folder.resolve().name)
    sequences, verdict = None, None
    if data is None and folder is not None and (kept := folder / EXAMPLES).is_file():
        data = str(kept)
    with progress(as_json) as step:
        if data is not None and model is not None and folder is not None:
            sequences = reading.read(data, step, model)
            if sequences.labels is not None or model.card.next_token:
                step("certifying", 0.5)
                verdict = verify(folder, sequences).verdict
        step("writing", 0.9)
        write(model, file, sequences, title=title, verdict=verdict)
    if as_json:
        print_json({"folder": None if folder is None else str(folder), "page": str(file), "verdict": verdict})
    else:
        said = "" if verdict is None else f"; the labels of its examples are {verdict}"
        out.print(f"wrote {escape(str(file))}{said}", soft_wrap=True)
