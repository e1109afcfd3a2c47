"""`monolayer recognize`: questions, also in other words, answered by a sentence encoder that somebody has."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from monolayer.cli.console import app, output
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.cli.storing import Storing


@dataclass(frozen=True)
class QuestionOptions:
    """How questions are stored: the options of `recognize` that `attach` does not have, named as in the library."""

    unknown: Annotated[str, typer.Option(help="What it says where no question is near.")] = "unknown"
    rewordings: Annotated[
        Path | None,
        typer.Option(help="Data file of stored questions and other wordings that are to be answered.", exists=True),
    ] = None
    floor: Annotated[
        float | None,
        typer.Option(help="Least cosine with a question at which it answers; by default from texts of other kinds."),
    ] = None
    pooling: Annotated[
        Literal["mean", "first"] | None,
        typer.Option(help="How states are pooled; by default as the folder says, else their mean."),
    ] = None


@app.command()
@reads
def recognize(
    encoder: Annotated[
        Path, typer.Argument(help="Folder of a sentence encoder with its tokenizer (docs/understand.md).")
    ],
    data: Data,
    out: Annotated[Path, output("Folder to write the encoder with the questions to.")],
    how: QuestionOptions,
    storing: Storing,
    reading: Reading = PLAIN,
) -> None:
    """Store the questions and answers of DATA in the encoder in ENCODER: a classifier that says unknown elsewhere.

    It answers a question also in other words, as far as the encoder puts them near it. Every question is asked before
    the folder is written; then the claims about the layers are proved from the files.
    Exit code 0: proved; 1 refuted; 2 bad input; 3 undecided.
    """
    from monolayer.attaching.questions.recognize import recognize as build
    from monolayer.huggingface.questions import AS_THEY_ARE, QUESTIONS

    storing.run(
        build,
        encoder,
        asdict(how),
        data,
        out,
        reading,
        like=AS_THEY_ARE,
        kind=QUESTIONS,
        next_verbs=("predict", "verify"),
    )
