"""`monolayer locate`: where a model holds facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.console import Json, app, err, out, print_json, progress
from monolayer.cli.reading import PLAIN, Data, Reading, book, reads
from monolayer.table import plural


@app.command()
@reads
def locate(
    folder: Annotated[Path, typer.Argument(help="A saved model, or a stock folder.")],
    data: Data,
    first: Annotated[int, typer.Option(help="How many facts are shown, from the first.", min=1)] = 20,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Show which neurons and rows hold each fact of DATA, and which answers change without each of the neurons.

    Without labels in DATA, every place where the model answers is a fact. With --json, all facts, and the graph that
    circuit benchmarks read (docs/locate.md).
    """
    from monolayer.checker.locating.locate import locate as find

    with progress(as_json) as step:
        facts = book(folder, data)
        if facts is None:
            facts = reading.read(data, step, folder)
        step("locating", 0.5)
        found = find(folder, facts)
    if as_json:
        print_json({"folder": str(folder), **found.to_json()})
        return
    out.print(found.table(first))
    if first < len(found):
        err.print(f"{first:,} of {plural(len(found), 'fact')}; --first shows more")
