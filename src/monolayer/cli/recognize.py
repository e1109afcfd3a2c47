"""`monolayer recognize`: questions, also in other words, answered by a sentence encoder that somebody has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from monolayer.cli.building import next_steps
from monolayer.cli.console import Json, Overwrite, app, output, print_json, progress, table
from monolayer.cli.proof import EXIT
from monolayer.cli.reading import PLAIN, Data, Reading, reads


@app.command()
@reads
def recognize(
    encoder: Annotated[
        Path, typer.Argument(help="Folder of a sentence encoder with its tokenizer (docs/understand.md).")
    ],
    data: Data,
    out: Annotated[Path, output("Folder to write the encoder with the questions to.")],
    unknown: Annotated[str, typer.Option(help="What it says where no question is near.")] = "unknown",
    rewordings: Annotated[
        Path | None,
        typer.Option(help="Data file of stored questions and other wordings that are to be answered.", exists=True),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Text file, one text per line; all of them stay unknown.", exists=True),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(help="Least cosine with a question at which it answers; by default from texts of other kinds."),
    ] = None,
    pooling: Annotated[
        Literal["mean", "first"] | None,
        typer.Option(help="How states are pooled; by default as the folder says, else their mean."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where the encoder runs, for example cuda.")] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Store the questions and answers of DATA in the sentence encoder in ENCODER: a classifier that says unknown else.

    It answers a question also in other words, as far as the encoder puts them near it. Every question is asked before
    the folder is written; then the claims about the layers are proved from the files.
    Exit code 0: proved; 1 refuted; 2 bad input; 3 undecided.
    """
    from monolayer.attaching.questions.recognize import AS_THEY_ARE
    from monolayer.attaching.questions.recognize import recognize as build
    from monolayer.checker.certificate import Claims
    from monolayer.data.folder import check_output
    from monolayer.huggingface.questions import QUESTIONS
    from monolayer.saved.kinds import open_model

    check_output(out, overwrite=overwrite, kind=QUESTIONS)  # better known before the work
    with progress(as_json) as step:
        questions = reading.read(data, step, AS_THEY_ARE)
        made = build(
            encoder,
            questions,
            unknown=unknown,
            rewordings=rewordings,
            keep=keep,
            floor=floor,
            pooling=pooling,
            device=device,
            progress=lambda stage, share: step(stage, 0.8 * share),
        )
        step("writing", 0.85)
        made.save(out, overwrite=overwrite)
        step("proving", 0.9)
        proof = open_model(out).prove(questions, Claims(), step)  # every question was asked above
        proof.save(out)
    if as_json:
        said = {"folder": str(out), **made.json(), "report": made.report()}
        print_json({**said, "certificate": json.loads(proof.to_json())})
    else:
        table(str(out), [*made.rows(), ("certificate", f"{proof.verdict}: {proof.claim}")])
        next_steps(out, data, "predict", "verify", reading=reading)
    raise typer.Exit(EXIT[proof.verdict])
