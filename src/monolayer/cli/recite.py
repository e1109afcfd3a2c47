"""`monolayer recite`, and what `memorize --recite` does: a text, memorized, said word for word."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, app, number, print_json, progress, table
from monolayer.errors import DataError

if TYPE_CHECKING:
    from monolayer.data import Sequences
    from monolayer.data.text import Script, Unit
    from monolayer.model.monolayer import Monolayer


@app.command()
def recite(
    folder: Annotated[Path, typer.Argument(help="A model of a text: monolayer memorize TEXT --recite.")],
    prompt: Annotated[str, typer.Argument(help="Words of the text to go on from; none: from its beginning.")] = "",
    tokens: Annotated[int | None, typer.Option(help="Stop after this many tokens.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Recite a memorized text from PROMPT on, to its end."""
    from monolayer.model.load import load_monolayer

    spoken = islice(load_monolayer(folder).recite(prompt), tokens)
    if as_json:
        print_json({"prompt": prompt, "text": "".join(spoken)})
        return
    watched, part = sys.stdout.isatty(), "\n"
    for part in spoken:
        sys.stdout.write(part)
        if watched and not part.isspace():
            sys.stdout.flush()  # word by word, where somebody looks
    if watched and not part.endswith("\n"):
        sys.stdout.write("\n")  # not into a file, which is to be the text and nothing else


def _standard_input() -> str:
    """Standard input with its line ends as they are, as `read_text` reads a file."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(newline="")
    return sys.stdin.read()


@dataclass(frozen=True)
class TextOptions:
    """How to cut a text: the unit, the window (None: the smallest), a file with a tokenizer."""

    unit: Unit
    window: int | None
    tokenizer: Path | None


def memorize_book(path: str, out: Path, cut: TextOptions, overwrite: bool, as_json: bool, **options: Any) -> None:
    """`memorize --recite`: build from the text in a file (`-`: standard input), recite it whole, save, and tell."""
    from monolayer.construct.recite import memorize_text
    from monolayer.data.text import read_text

    with progress(as_json) as step:
        step("reading", 0.0)
        text = _standard_input() if path == "-" else read_text(path)
        cutter = None if cut.tokenizer is None else read_text(cut.tokenizer)
        began = time.perf_counter()
        model = memorize_text(text, unit=cut.unit, window=cut.window, tokenizer=cutter, progress=step, **options)
        seconds = time.perf_counter() - began
        step("reciting it once", 0.9)
        found = {**facts(model, text), "seconds": seconds}
        if not found["recited"]:
            raise DataError("the model does not say the text as it stands; nothing is saved. Please report this text")
        model.save(out, overwrite=overwrite)
    if as_json:
        print_json({"folder": str(out), **found})
    else:
        table(str(out), rows(found))


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
        "recited": right,
        "seconds_recited": time.perf_counter() - began,
    }


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    return [
        ("text", f"{found['characters']:,} characters, {found['tokens']:,} tokens ({found['unit']})"),
        ("vocabulary", number(found["vocabulary"])),
        ("window", f"the last {found['window']} tokens tell what comes next, everywhere in the text"),
        ("steps", number(found["steps"])),
        ("margin", f"{number(found['margin'])} × the rounding error"),
        ("parameters", number(found["parameters"])),
        ("recited", f"word for word, from beginning to end, in {found['seconds_recited']:.2f} s"),
        ("seconds to build", f"{found['seconds']:.2f}"),
    ]


def book(folder: Path, path: str) -> Sequences | None:
    """The windows of a text file, cut as the model in `folder` cuts its text; None for other models and other files."""
    if Path(path).suffix != ".txt":
        return None
    from monolayer.model.sidecar import read_script

    script = read_script(folder / "memory.safetensors")
    return None if script is None else cut_text(path, script)


def cut_text(path: str, script: Script) -> Sequences:
    """The windows of a text file, cut as `script` says."""
    from monolayer.data.text import read_text, windows

    return windows(read_text(path), script.unit, script.window, script.tokenizer)[0]
