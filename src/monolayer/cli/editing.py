"""`monolayer forget`, `edit`, `insert`, `undo` and `compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, Overwrite, app, check_file, output, progress, show
from monolayer.cli.proof import EXIT
from monolayer.cli.reading import PLAIN, AnyModelFolder, Reading, reads
from monolayer.errors import DataError
from monolayer.table import plural

if TYPE_CHECKING:
    pass

FactsFile = Annotated[
    str, typer.Argument(help="A data file with the facts (formats: docs/data.md), or - for standard input.")
]
NewModelFolder = Annotated[Path, output("Folder to write the new model to.")]
Known = Annotated[
    str | None,
    typer.Option("--data", help="All the data that the model was built from, including later edits."),
]
RecordFile = Annotated[Path | None, typer.Option("--record", help="File to write the record of the edit to.")]


@app.command()
@reads
def forget(
    model: AnyModelFolder,
    out: NewModelFolder,
    facts: Annotated[
        str | None,
        typer.Argument(help="A data file with the sequences to forget, or - for standard input; or use --rows."),
    ] = None,
    data: Known = None,
    rows: Annotated[
        list[int] | None,
        typer.Option(help="Row of --data to forget, counted from 0; may be given several times."),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names", help="Also drop names of tokens and labels that no fact uses any more.")
    ] = False,
    record: RecordFile = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Remove facts from a model. The result is bit-identical to memorizing the remaining data with the same draw.

    Exit code 0: proved; 1 refuted; 2 bad input; 3 undecided.
    """
    if (facts is not None) == bool(rows):
        raise DataError("say what to forget in exactly one way: a data file of sequences, or --rows")
    outputs = _Outputs(out, record, overwrite, as_json)
    _edit_and_prove(_Change("forget", facts, rows, names), model, data, outputs, reading)


def _add_command(verb: str, does: str) -> None:
    """Add a command that changes a model by labelled facts."""

    @app.command(verb, help=f"{does}\n\nExit code 0: proved; 1 refuted; 2 bad input; 3 undecided.")
    @reads
    def change(
        model: AnyModelFolder,
        facts: FactsFile,
        out: NewModelFolder,
        data: Known = None,
        record: RecordFile = None,
        overwrite: Overwrite = False,
        reading: Reading = PLAIN,
        as_json: Json = False,
    ) -> None:
        outputs = _Outputs(out, record, overwrite, as_json)
        _edit_and_prove(_Change(verb, facts), model, data, outputs, reading)


_add_command("edit", "Change facts in a model to the labels given in FACTS.")
_add_command("insert", "Add the facts in FACTS to a model; tokens and labels may be new.")


@app.command()
def undo(
    model: AnyModelFolder,
    record: Annotated[Path, typer.Argument(help="The record that the edit wrote (--record).")],
    out: NewModelFolder,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Take an edit back: write the model as it was before, bit for bit, from the edited MODEL and its RECORD."""
    from monolayer.data.folder import check_output
    from monolayer.editing.record import Record
    from monolayer.saved.kinds import open_model

    saved = open_model(model)
    check_output(out, overwrite=overwrite, kind=saved.replaces)  # refuse before any work is done
    with progress(as_json) as step:
        step("reading", 0.0)
        edit = Record.load(record)
        before = edit.undo(saved.load())
        step("writing", 0.5)
        before.save(out, overwrite=overwrite)
    rows = [
        ("undone", f"{edit.kind} of {plural(edit.facts, 'fact')}"),
        ("model", f"bit-identical to the one before the edit, with digest {edit.source[:12]}…"),
    ]
    show(
        as_json,
        {"folder": str(out), "undone": edit.kind, "facts": edit.facts, "digest": edit.source},
        str(out),
        rows,
    )


@app.command()
@reads
def compare(
    one: Annotated[Path, typer.Argument(help="A saved model.")],
    two: Annotated[Path, typer.Argument(help="Another saved model.")],
    data: Annotated[list[str] | None, typer.Argument(help="Sequences on which to compare answers.")] = None,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """List how two models differ: in weights, in steps or neurons of the readout and, on DATA, in answers.

    Also compares two stock folders, or a language model with a copy that has facts attached: it shows which tensors
    are the same and which layers were added, even if nothing in the folder says so.
    """
    from monolayer.data.layout import Manner
    from monolayer.editing.compare import compare as find
    from monolayer.editing.hosts import language_models
    from monolayer.saved.load import load

    with progress(as_json) as step:
        pair: list[Any] = [one, two]
        hosts = language_models(one, two)
        if hosts is None:
            pair = [load(one), load(two)]
        like = Manner(per="answer") if hosts is not None else pair[0].card.manner
        asked = reading.read(data, step, like) if data else None
        step("comparing", 0.5)
        comparison = find(pair[0], pair[1], asked)
    show(as_json, comparison.to_json(), f"{one} and {two}", comparison.rows())


@dataclass(frozen=True)
class _Change:
    """What to change: `verb` is `edit`, `insert` or `forget`; the facts are in a file, or rows of the known data."""

    verb: str
    facts: str | None
    rows: list[int] | None = None
    names: bool = False
    """Whether to drop names that nothing uses any more."""


@dataclass(frozen=True)
class _Outputs:
    """What a command writes: the new folder, maybe a file with the record of the edit, and how it prints the result."""

    folder: Path
    record: Path | None
    overwrite: bool
    as_json: bool


def _edit_and_prove(change: _Change, folder: Path, data: str | None, outputs: _Outputs, reading: Reading) -> None:
    """Read the model in `folder` and the `data` that it knows, edit it, write the new model, and prove it."""
    from monolayer.checker.certificate import Claims
    from monolayer.data.folder import check_output
    from monolayer.editing import facts as facts_of
    from monolayer.saved.kinds import open_model

    out, record, overwrite, as_json = outputs.folder, outputs.record, outputs.overwrite, outputs.as_json
    verb, facts = change.verb, change.facts
    if data is None:
        raise DataError(facts_of.NEEDED)
    if record is not None:
        check_file(record, overwrite)
    saved = open_model(folder)
    check_output(out, overwrite=overwrite, kind=saved.replaces)  # refuse before any work is done
    with progress(as_json) as step:
        model = saved.load()
        known = facts_of.known(model, reading.read(data, step, model.card.manner, proved=True))
        asked: object = change.rows if facts is None else reading.read(facts, step, model.card.manner, proved=True)
        step("editing", 0.5)
        if verb == "forget":
            new, edit = facts_of.forget(known, asked, names=change.names)
        else:
            new, edit = getattr(facts_of, verb)(known, asked, None)
        step("writing", 0.7)
        new.model.save(out, overwrite=overwrite)
        step("proving", 0.8)
        proof = open_model(out).prove(new.data, Claims(only=new.subject.only), step)
        if record is not None:
            edit.save(record)
    verdict = {"verdict": proof.verdict, "claim": proof.claim, "reason": proof.reason}
    rows = [*edit.rows(), ("verdict", proof.verdict), ("proof", f"{proof.claim}: {proof.reason}")]
    show(as_json, {"folder": str(out), **edit.to_json(), "proof": verdict}, str(out), rows)
    raise typer.Exit(EXIT[proof.verdict])
