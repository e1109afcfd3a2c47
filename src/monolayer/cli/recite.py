"""`monolayer recite`, and what `memorize --recite` does: a text, memorized, said word for word."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, app, err, number, print_json, table
from monolayer.errors import DataError

if TYPE_CHECKING:
    from monolayer.data.text import Unit
    from monolayer.model.monolayer import Monolayer


@app.command()
def recite(
    folder: Annotated[Path, typer.Argument(help="A model of a text: monolayer memorize TEXT --recite.")],
    prompt: Annotated[str, typer.Argument(help="Words of the text to go on from; none: from its beginning.")] = "",
    tokens: Annotated[int | None, typer.Option(help="Stop after this many tokens.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Recite a memorized text from PROMPT on, to its end."""
    from monolayer.model.load import load

    spoken = islice(load(folder).recite(prompt), tokens)
    if as_json:
        print_json({"prompt": prompt, "text": "".join(spoken)})
        return
    for part in spoken:
        sys.stdout.write(part)
        if part.isspace() or not sys.stdout.isatty():
            continue
        sys.stdout.flush()
    sys.stdout.write("\n")


def build(path: str, unit: Unit, window: int | None, tokenizer: Path | None, **options: Any) -> tuple[Monolayer, str]:
    """A model of the text in a file (`-`: standard input), and the text."""
    from monolayer.construct.recite import memorize_text
    from monolayer.data.text import read_text

    text = sys.stdin.read() if path == "-" else read_text(path)
    cutter = None if tokenizer is None else read_text(tokenizer)
    return memorize_text(text, unit=unit, window=window, tokenizer=cutter, **options), text


def facts(model: Monolayer, text: str) -> dict[str, Any]:
    """Whether the model says the text from beginning to end, and how fast."""
    script, summary = model.card.script, model.summary
    assert script is not None  # it was built from a text,
    assert summary is not None  # just now
    began = time.perf_counter()
    right = model.generate() == text
    return {
        "characters": len(text),
        "tokens": len(script.split(text)),
        "unit": script.unit,
        "window": script.window,
        "vocabulary": summary.vocabulary - 1,  # without the marker
        "steps": summary.runs - 1,
        "margin": summary.margin,
        "parameters": summary.parameters,
        "seconds": summary.seconds,
        "recited": right,
        "seconds_recited": time.perf_counter() - began,
    }


def show(title: str, found: dict[str, Any]) -> None:
    """The same for people."""
    said = "word for word, from beginning to end" if found["recited"] else "NOT as it stands"
    table(
        title,
        [
            ("text", f"{found['characters']:,} characters, {found['tokens']:,} tokens ({found['unit']})"),
            ("vocabulary", number(found["vocabulary"])),
            ("window", f"the last {found['window']} tokens tell what comes next, everywhere in the text"),
            ("steps", number(found["steps"])),
            ("margin", f"{number(found['margin'])} × the rounding error"),
            ("parameters", number(found["parameters"])),
            ("recited", f"{said}, in {found['seconds_recited']:.2f} s"),
            ("seconds to build", f"{found['seconds']:.2f}"),
        ],
    )
    if not found["recited"]:
        raise DataError("the model does not say the text: please report this text")


def warn_unused(**given: object) -> None:
    """Options that mean nothing for a text are named, not dropped in silence."""
    unused = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if unused:
        err.print(f"{', '.join(unused)}: without meaning for a text to recite, and left out")
