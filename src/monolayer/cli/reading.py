"""How a command reads DATA: the options that say it, the same for all commands, and the reading itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from monolayer.cli.uniform import Answering
    from monolayer.data import Sequences
    from monolayer.data.text import Script

Data = Annotated[
    str,
    typer.Argument(
        help="A data file (formats: docs/data.md), a quoted pattern such as 'shards/*.parquet', or -: standard input."
    ),
]


class Belongs(StrEnum):
    """What a label may belong to."""

    token = "token"
    sequence = "sequence"


@dataclass(frozen=True)
class Reading:
    """What the options say; each is an option of every command that takes a `reading` (`reads`)."""

    format: Annotated[
        str | None,
        typer.Option(help="jsonl, conll, conllu, csv, tsv, parquet or npz; by default what the file's name says."),
    ] = None
    tokens: Annotated[str | None, typer.Option("--tokens", help="Column that holds the tokens.")] = None
    labels: Annotated[str | None, typer.Option("--labels", help="Column that holds the labels.")] = None
    sequence: Annotated[
        str | None,
        typer.Option("--sequence", help="Column that tells sequences apart, in a table with a row per token."),
    ] = None
    characters: Annotated[
        bool | None,
        typer.Option(
            "--characters/--words",
            help="What text is cut into. By default a string in JSONL is cut into characters, text in a table into "
            "words.",
        ),
    ] = None
    per: Annotated[
        Belongs | None,
        typer.Option("--per", help="What a label belongs to: token or sequence; by default what the data look like."),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The same for `monolayer.data.read` and its kin."""
        return {
            "format": self.format,
            "tokens": self.tokens,
            "labels": self.labels,
            "sequence": self.sequence,
            "unit": None if self.characters is None else "characters" if self.characters else "words",
            "per": None if self.per is None else self.per.value,
        }

    def read(
        self, data: str, step: Callable[[str, float], None], model: Answering | None = None, known: bool = True
    ) -> Sequences:
        """A data file, with a bar; with `model`, and unless not `known`, tokens that it lacks are an error."""
        from monolayer.data import read

        def bar(done: int, total: int | None) -> None:
            step("reading", 0.1 * done / total if total else 0.0)

        script = None if model is None else model.card.script
        if script is not None and self.format is None and Path(data).suffix == ".txt":
            return cut_text(data, script)
        vocabulary = None if model is None else model.card.vocabulary
        keywords = self.keywords
        if keywords["unit"] is None and vocabulary is not None and vocabulary.of_words:
            keywords["unit"] = "words"  # what the model was built from
        return read(data, vocabulary=vocabulary if known else None, progress=bar, **keywords)


PLAIN = Reading()
"""As the file's name and the data themselves say."""


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options in place of its parameter `reading`."""
    names, hints = [each.name for each in fields(Reading)], get_type_hints(Reading, include_extras=True)
    own = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name == "reading":
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters += [inspect.Parameter(each, kind, default=None, annotation=hints[each]) for each in names]
        else:
            parameters.append(parameter.replace(annotation=own[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in names}, reading=_said(given, names))

    made: Any = call
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _said(given: dict[str, Any], names: list[str]) -> Reading:
    return Reading(**{name: given[name] for name in names})


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
