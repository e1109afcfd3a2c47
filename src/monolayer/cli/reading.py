"""How a command reads DATA: the options that say it, the same for all commands, and the reading itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

from monolayer.data.labels import Belongs
from monolayer.data.names import Unit

if TYPE_CHECKING:
    from monolayer.checker.network import Stored
    from monolayer.data import Sequences
    from monolayer.data.layout import Manner
    from monolayer.data.text import Script
    from monolayer.huggingface.reading import Files
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform
    from monolayer.stock.folder import StockModel

    Answering: TypeAlias = "Monolayer | Uniform | StockModel"  # what `predict` can ask

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="Data files (formats: docs/data.md), or patterns such as 'shards/*.csv'; -: standard input.",
    ),
]


@dataclass(frozen=True)
class Reading:
    """What the options say; each is an option of every command that takes a `reading` (`reads`)."""

    format: Annotated[
        str | None,
        typer.Option(help="jsonl, conll, conllu, csv, tsv, parquet or npz; by default what the file's name says."),
    ] = None
    tokens: Annotated[str | None, typer.Option(help="Column that holds the tokens.")] = None
    labels: Annotated[str | None, typer.Option(help="Column that holds the labels.")] = None
    unit: Annotated[
        Unit | None,
        typer.Option(
            help="What a string is: its characters (the default in JSONL), its words (in tables), or a token."
        ),
    ] = None
    per: Annotated[
        Belongs | None,
        typer.Option(
            help="What a label belongs to: token or sequence; answer: there are prompts and answers instead. By "
            "default what the data look like.",
        ),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The same for `monolayer.data.read` and its kin."""
        return asdict(self)

    def read(
        self,
        data: str | list[str],
        step: Callable[[str, float], None],
        model: Answering | Manner | None = None,
        known: bool = True,
        proved: bool = False,
    ) -> Sequences:
        """Data files as `model` reads what the options leave open.

        With a model, and unless not `known`, tokens that it lacks are an error. `proved`: whether a proof about the
        data follows; then they are compared with the files once more.
        """
        from monolayer.checker.asked import asked_files
        from monolayer.data import read as read_once
        from monolayer.data.layout import Manner

        step("reading", 0.0)
        read = asked_files if proved else read_once
        if model is None or isinstance(model, Manner):
            return read(data, like=model, **self.keywords)
        card, text = model.card, only_text(data)
        if card.script is not None and self.format is None and text is not None:
            return cut_text(text, card.script)
        names = card.vocabulary if known else None
        return read(data, vocabulary=names, like=card.manner, **self.keywords)


PLAIN = Reading()
"""As the file's name and the data themselves say."""


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options in place of its parameter `reading`."""
    options, own = (get_type_hints(each, include_extras=True) for each in (Reading, command))
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        if name == "reading":
            parameters += [inspect.Parameter(each, kind, default=None, annotation=options[each]) for each in options]
        else:
            parameters.append(parameter.replace(annotation=own[name], kind=kind))

    @wraps(command)
    def call(**given: Any) -> None:
        reading = Reading(**{name: given.pop(name) for name in options})
        command(**given, reading=reading)

    made: Any = call
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def manner(stored: Stored | Files) -> Manner:
    """How the model that was opened reads data."""
    from monolayer.data.layout import Manner
    from monolayer.huggingface.reading import Files, asked_as

    names, per = asked_as(stored) if isinstance(stored, Files) else (stored.vocabulary, stored.config.get("per"))
    return Manner(None if names is None else names.cuts, per)


def only_text(data: str | list[str]) -> str | None:
    """The name of a text file, where it stands alone."""
    name = data if isinstance(data, str) else data[0] if len(data) == 1 else ""
    return name if Path(name).suffix == ".txt" else None


def book(stored: Stored | Files, data: list[str]) -> Sequences | None:
    """The windows of a text file, cut as the model that was opened cuts its text; None for other models and files."""
    from monolayer.data.text import Script
    from monolayer.huggingface.reading import Files

    path = only_text(data)
    script = None if isinstance(stored, Files) else stored.config.get("script")
    return None if path is None or script is None else cut_text(path, Script(**script))


def cut_text(path: str, script: Script) -> Sequences:
    """The windows of a text file, cut as `script` says."""
    from monolayer.data.text import read_text, windows

    return windows(read_text(path), script.unit, script.window)[0]
