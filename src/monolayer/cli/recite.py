"""`monolayer memorize-text` and `monolayer recite`: memorize a text and recite it word for word."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from monolayer.cli.building import OutFolder, Seed, given, next_steps, summary_rows
from monolayer.cli.console import Json, Overwrite, app, print_json, progress, table
from monolayer.cli.reading import PLAIN, Reading, only_text, whole_text
from monolayer.errors import DataError
from monolayer.table import part_of, plural


@app.command("memorize-text")
def memorize_text(
    text: Annotated[str, typer.Argument(help="A text file in UTF-8, or - for standard input.")],
    out: OutFolder,
    unit: Annotated[
        Literal["characters", "words"] | None, typer.Option(help="How to split the text; words by default.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="How many tokens determine the next one; by default the fewest that do.", min=1)
    ] = None,
    seed: Seed = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build a model that recites TEXT word for word from any place, check that it does, and save it."""
    from monolayer.construct.memorize import memorize_text as build
    from monolayer.data.folder import check_output

    check_output(out, overwrite=overwrite)  # refuse before any work is done
    with progress(as_json) as step:
        step("reading", 0.0)
        words = whole_text(text)
        options = given(unit=unit, window=window, seed=seed)
        began = time.perf_counter()
        # Shares as measured once with a poem: reading 0.1, building 0.45, reciting and writing 0.45.
        model = build(text=words, progress=part_of(step, 0.1, 0.55), **options)
        built = time.perf_counter()
        step("reciting it once", 0.55)
        script, summary = model.card.script, model.summary
        assert script is not None  # it was built from a text
        assert summary is not None  # it was built just now
        if model.generate() != words:
            raise DataError(
                "the model does not recite the text exactly, so it was not saved. Please report this text as a bug"
            )
        recited = time.perf_counter()
        model.save(out, overwrite=overwrite)
    tokens = len(script.split(words))
    facts = {"characters": len(words), "tokens": tokens, "unit": script.unit, "window": script.window}
    if as_json:
        seconds = {"seconds": built - began, "seconds_recited": recited - built}
        print_json({"folder": str(out), **facts, **(model.card.summary_json() or {}), "recited": True, **seconds})
        return
    first = [
        ("text", f"{plural(len(words), 'character')}, {plural(tokens, 'token')} ({script.unit})"),
        ("window", f"the last {plural(script.window, 'token')} always determine the next one"),
    ]
    result = f"word for word, from beginning to end, in {recited - built:.2f} s"
    table(str(out), [*first, *summary_rows(summary), ("recited", result), ("seconds to build", f"{built - began:.2f}")])
    # The name of a data file, and standard input, are not taken for a text by themselves.
    reading = PLAIN if only_text(text, None, proved=True) else Reading(format="text")
    next_steps(out, [text], "recite", "verify", reading=reading)


@app.command()
def recite(
    folder: Annotated[Path, typer.Argument(help="A model that memorize-text built.")],
    prompt: Annotated[str, typer.Argument(help="Words of the text to continue from; by default its beginning.")] = "",
    tokens: Annotated[int | None, typer.Option(help="Stop after this many tokens.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Recite a memorized text from PROMPT to its end."""
    from monolayer.model.load import load_monolayer

    spoken = islice(load_monolayer(folder).recite(prompt), tokens)
    if as_json:
        print_json({"prompt": prompt, "text": "".join(spoken)})
        return
    watched, part = sys.stdout.isatty(), "\n"
    for part in spoken:
        sys.stdout.write(part)
        if watched and not part.isspace():
            sys.stdout.flush()  # a terminal shows it word by word
    if watched and not part.endswith("\n"):
        sys.stdout.write("\n")  # only on a terminal: a file must hold exactly the text
