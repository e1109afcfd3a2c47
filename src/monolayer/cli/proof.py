"""`monolayer verify`: a verdict, and its exit code."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from monolayer.cli.console import Json, app, as_flags, flag, out, print_json, progress, table
from monolayer.cli.reading import PLAIN, Data, ModelFolder, Reading, book, manner, reads

EXIT = {"proved": 0, "refuted": 1, "undecided": 3}


@app.command()
@reads
def verify(
    folder: ModelFolder,
    data: Data,
    noise: Annotated[
        float | None,
        typer.Option(help="Robust models: prove it for every relative change of each weight up to this size."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Robust models: prove it for weights in bfloat16, float16 or int8.")
    ] = None,
    save: Annotated[bool, flag("--save", "Write the verdict as certificate.json beside the model.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="How far a real answer may be from its label; by default they must be equal.")
    ] = None,
    only: Annotated[
        bool, flag("--only", "Also prove that the readout holds nothing but DATA (docs/editing.md).")
    ] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Prove or refute, from the saved weights, that the model returns every label of DATA in every evaluation.

    What counts as an evaluation (IEEE arithmetic, sums in any order, accuracy of exp) is printed with the verdict.

    For an approximator DATA is its function, by name or as module:function. The claim is that off the ramps it equals
    the function at the centre of each cell; for one built with --norm sup, that it is close to it everywhere. Exit
    code 0: proved, 1: refuted, 3: undecided; any other code means that nothing was decided.
    """
    from monolayer.checker.check import certify, certify_files
    from monolayer.checker.stored import opened
    from monolayer.cli.approximate import is_function, load_function
    from monolayer.data.shards import files

    with progress(as_json) as step:
        stored = opened(folder)  # opened once, so that another save meanwhile cannot change how the data are read
        wanted: Any = load_function(data[0]) if len(data) == 1 and is_function(data[0]) else book(stored, data)
        certificate = None
        plain = tolerance is None and not only and noise is None and dtype is None
        if wanted is None and plain and len(names := files(data)) > 1:
            # One file in memory at a time, for the kinds of model that can be certified that way.
            certificate = certify_files(stored, names, progress=step, like=manner(stored), **reading.keywords)
        if certificate is None:
            wanted = reading.read(data, step, manner(stored), proved=True) if wanted is None else wanted
            step("checking", 0.5)
            certificate = certify(stored, wanted, tolerance=tolerance, only=only, noise=noise, dtype=dtype)
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
