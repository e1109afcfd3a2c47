"""`monolayer inspect`, `explain`, `locate` and `page`: what a saved model is, and why it answers as it does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.building import summary_rows
from monolayer.cli.console import (
    Json,
    Overwrite,
    app,
    check_file,
    check_picture,
    err,
    out,
    output,
    print_grid,
    print_json,
    progress,
    show,
    table,
    write_picture,
    wrote,
)
from monolayer.cli.reading import (
    PLAIN,
    AnyModelFolder,
    Data,
    MaybeData,
    ModelFolder,
    Reading,
    book,
    reads,
    sequences_of_texts,
)
from monolayer.errors import DataError
from monolayer.table import number, plural

if TYPE_CHECKING:
    from monolayer.model.card import Summary


@app.command()
def inspect(
    folder: AnyModelFolder,
    plot: Annotated[
        Path | None,
        typer.Option(help="HTML file to draw the staircase in, or the half-spaces of a robust model (needs plotly)."),
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="Token whose half-spaces --plot draws; by default the first one.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Show what a saved model is: its kind, sizes, ranks, narrowest step, and what its builder measured.

    For a language model, show the layers whose attention adds nothing: attached facts are in such layers.
    """
    from monolayer.saved.kinds import open_model

    if plot is not None:
        check_picture(plot, overwrite)
    elif token is not None:
        raise DataError("--token chooses what --plot draws: give --plot FILE.html as well")
    facts, built, draw = open_model(folder).inspected()
    if plot is not None:
        if draw is None:
            raise DataError(f"--plot draws models of monolayer's own format, and {folder} is a Hugging Face folder")
        write_picture(plot, draw(token))
    summary = built and {**asdict(built), "bits_per_parameter": built.bits_per_parameter}
    rows = [(name.replace("_", " "), _show(value)) for name, value in facts.items()]
    show(as_json, {"folder": str(folder), **facts, "built": summary, "plot": plot and str(plot)}, str(folder), rows)
    if built is not None and not as_json:
        out.print()
        table("measured when it was built", _built_rows(built, str(facts["dtype"])))


def _built_rows(built: Summary, dtype: str) -> list[tuple[str, str]]:
    """What the builder measured, next to the counts of the paper."""
    dense = f"{number(built.dense_numbers)}; Corollary 1: {number(built.corollary_1_dense)}"
    rows = [
        *summary_rows(built, dtype),
        ("Corollary 1 of the paper", f"{number(built.corollary_1)} numbers"),
        ("numbers in a dense pass", dense),
        ("gap of points", f"{number(built.gap)} of the range; 1/M² = {number(built.expected_gap)}"),
        ("label bits per parameter", number(built.bits_per_parameter)),
    ]
    return [row for row in rows if not row[1].startswith("—")]


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_show(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_show, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


@app.command()
@reads
def explain(
    folder: ModelFolder,
    data: MaybeData = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A sequence or key to explain; may be given several times.")
    ] = None,
    first: Annotated[int, typer.Option(help="How many sequences to show.", min=1)] = 5,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Show for each token its key, attention weight, context, the number z, its step, the neighbours and the margin.

    Instead of DATA, pass --text.
    """
    import numpy as np

    from monolayer.saved.kinds import open_model

    model = open_model(folder).monolayer("explain")
    if bool(data) == bool(text):
        raise DataError("say what to explain in exactly one way: DATA, or --text")
    with progress(as_json) as step:
        sequences = reading.read(data, step, model) if data else sequences_of_texts(model, text or [], reading)
    explanation = model.explain(sequences.select(np.arange(min(first, len(sequences)))))
    if as_json:
        print_json({"folder": str(folder), "sequences": explanation.json()})
        return
    print_grid(explanation.table())
    if first < len(sequences):
        err.print(f"{first:,} of {len(sequences):,} sequences; --first shows more")


@app.command()
@reads
def locate(
    folder: AnyModelFolder,
    data: Data,
    first: Annotated[int, typer.Option(help="How many facts to show.", min=1)] = 20,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Show which neurons and rows hold each fact in DATA, and which answers change if a neuron is removed.

    Without labels in DATA, every place where the model answers is a fact. With --json, prints all facts, and the graph
    that circuit benchmarks read (docs/locate.md). For facts attached to a language model, each token of an answer has a
    neuron in an appended layer: --json also says for which states it answers.
    """
    from monolayer.saved.kinds import open_model
    from monolayer.saved.locate import locate as find

    with progress(as_json) as step:
        model = open_model(folder)
        text = book(model, data, reading.format)
        facts = reading.read(data, step, model.manner, proved=True) if text is None else text
        step("locating", 0.5)
        location = find(model, facts)
    if as_json:
        print_json({"folder": str(folder), **location.to_json()})
        return
    print_grid(location.table(first))
    if first < len(location):
        err.print(f"{first:,} of {plural(len(location), 'fact')}; --first shows more")


@app.command()
@reads
def page(
    file: Annotated[Path, output("HTML file to write.")],
    folder: Annotated[
        Path | None,
        typer.Argument(help="A saved model; without one, the page builds a model from facts that you type."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data to take examples from. Their labels are certified first."),
    ] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Write one HTML file that runs the model in the browser: type a sequence and see every intermediate number.

    Without a model, the page builds one: type facts, look at the weights, forget a fact, add noise.
    """
    from monolayer.data.aside import new_file
    from monolayer.model.keys import stored_keys
    from monolayer.page import page as write
    from monolayer.saved.certify import certify
    from monolayer.saved.kinds import open_model

    check_file(file, overwrite)
    if folder is None and data is not None:
        raise DataError("--data goes with a model: give its folder, or leave --data out for a page that builds")
    model, title = (
        (None, "monolayer") if folder is None else (open_model(folder).monolayer("page"), folder.resolve().name)
    )
    sequences, verdict = None, None
    with progress(as_json) as step:
        if data is not None and model is not None:
            sequences = reading.read(data, step, model, proved=True)
            if sequences.labels is not None:
                step("certifying", 0.5)
                verdict = certify(
                    model, sequences
                ).verdict  # the model that the page shows, whatever is saved to the folder later
        step("writing", 0.9)
        keys = stored_keys(model) if model is not None and sequences is None else None
        text = write(model, keys if sequences is None else sequences, title=title, verdict=verdict)
        file.parent.mkdir(parents=True, exist_ok=True)
        with new_file(file) as page_file:
            page_file.write(text)
    note = "" if verdict is None else f"; the labels of its examples are {verdict}"
    if model is not None and data is None and model.card.script is not None:
        note = "; its examples are places of the text that it recites"
    elif keys is not None:
        order = "" if keys.lengths.max() == 1 else ", with their words in any order"
        note = f"; its examples are keys that it holds{order}: --data takes them from your data"
    elif model is not None and data is None:  # random sequences were never memorized, so their answers mean nothing
        note = "; its examples are drawn at random: --data takes them from your data"
    wrote(as_json, {"folder": folder and str(folder), "page": str(file), "verdict": verdict}, file, note)
