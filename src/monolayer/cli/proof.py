"""`monolayer verify`: a verdict, and its exit code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, Overwrite, app, as_flags, check_file, flag, out, print_json, progress, table
from monolayer.cli.reading import PLAIN, Data, ModelFolder, Reading, book, reads
from monolayer.table import Progress

if TYPE_CHECKING:
    from monolayer.checker.certificate import Certificate

EXIT = {"proved": 0, "refuted": 1, "undecided": 3}


@dataclass(frozen=True)
class ClaimOptions:
    """What is to be proved, beyond the labels: options of `verify`, named as the keywords of `monolayer.certify`."""

    noise: Annotated[
        float | None,
        typer.Option(help="Robust models: prove it for every relative change of each weight up to this size."),
    ] = None
    dtype: Annotated[
        str | None, typer.Option(help="Robust models: prove it for weights in bfloat16, float16 or int8.")
    ] = None
    tolerance: Annotated[
        float | None, typer.Option(help="How far a real answer may be from its label; by default they must be equal.")
    ] = None
    host: Annotated[
        Path | None,
        typer.Option(help="With attached facts or stored questions: folder of the host, which is compared by tensors."),
    ] = None
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask/--no-ask",
            help="With attached facts or stored questions: run the model and ask for every answer. By default, if "
            "transformers is there.",
        ),
    ] = None
    only: Annotated[bool, flag("--only", "Also prove that the readout holds nothing but DATA (docs/editing.md).")] = (
        False
    )

    @property
    def none(self) -> bool:
        """Whether nothing is to be proved beyond the labels; `ask` only adds a measurement."""
        return replace(self, ask=None) == ClaimOptions()


@app.command()
@reads
def verify(
    folder: ModelFolder,
    data: Data,
    claims: ClaimOptions,
    save: Annotated[bool, flag("--save", "Write the verdict as certificate.json next to the model.")] = False,
    statement: Annotated[
        Path | None,
        typer.Option(help="Also write the verdict as an in-toto statement (docs/statement.md) to this file."),
    ] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Prove or refute, from the saved weights, that the model returns every label of DATA in every evaluation.

    What counts as an evaluation (IEEE arithmetic, sums in any order, accuracy of exp) is printed with the verdict.

    For an approximator DATA is its function, by name or as module:function. The claim is that off the ramps it equals
    the function at the centre of each cell; for one built with --norm sup, that it is close to it everywhere. A folder
    that facts were attached to, or questions stored in, is also asked for every answer, if transformers is installed:
    recall says how many came back, or that it was not asked (docs/attach.md, docs/understand.md).

    Exit code 0: proved, 1: refuted, 3: undecided; any other code means that nothing was decided.
    """
    if statement is not None:
        check_file(statement, overwrite)
    with progress(as_json) as step:
        certificate = judged(folder, data, claims, reading, step)
    if statement is not None:
        write_statement(certificate, folder, statement)
    if save:
        certificate.save(folder)
    if as_json:
        print_json(json.loads(certificate.to_json()))
    else:
        table(str(folder), [(name, as_flags(value)) for name, value in certificate.rows()])
        if certificate.assumptions:
            out.print()
            table("assumed", [("", assumption) for assumption in certificate.assumptions])
    raise typer.Exit(EXIT[certificate.verdict])


def judged(folder: Path, data: list[str], claims: ClaimOptions, reading: Reading, step: Progress) -> Certificate:
    """The verdict on the model in `folder` and `data`: files, the text that it recites, or the name of a function."""
    from monolayer.cli.approximate import is_function, load_function
    from monolayer.data.shards import files
    from monolayer.saved.certify import certify, certify_files
    from monolayer.saved.kinds import open_model

    # Opened once, so that another save meanwhile cannot change how the data are read, or what is asked.
    model = open_model(folder)
    wanted: Any = book(model, data, reading.format)
    if len(data) == 1 and is_function(data[0]):
        wanted = load_function(data[0])
    if wanted is None and claims.none and len(names := files(data)) > 1:
        # One file in memory at a time, for the kinds of model that can be certified that way.
        certificate = certify_files(model, names, progress=step, like=model.manner, **reading.keywords)
        if certificate is not None:
            return certificate
    if wanted is None:
        wanted = reading.read(data, step, model.manner, proved=True, say=False)
    step("checking", 0.5)
    return certify(model, wanted, **asdict(claims), progress=within(step, 0.5))


def write_statement(certificate: Certificate, folder: Path, path: Path) -> None:
    """Write the statement about the model in `folder` as a file."""
    from monolayer.data.aside import new_file
    from monolayer.saved.statement import statement

    written = statement(certificate, folder)
    with new_file(path) as file:
        file.write(json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def within(step: Progress, start: float) -> Progress:
    """Reports the progress of a call as the part of the work from `start` on."""
    return lambda stage, share: step(stage, start + (1.0 - start) * share)
