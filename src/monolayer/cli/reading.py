"""How a command reads DATA: the options that say it, the same for all commands, and the reading itself."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_type_hints

import typer

from monolayer.data.labels import Belongs
from monolayer.data.names import Unit

if TYPE_CHECKING:
    from monolayer.data import Sequences
    from monolayer.data.layout import Manner
    from monolayer.data.text import Script
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
        model: Answering | Manner | Path | None = None,
        known: bool = True,
    ) -> Sequences:
        """Data files as `model`, or the one in that folder, reads what the options leave open.

        With a model, and unless not `known`, tokens that it lacks are an error.
        """
        from monolayer.data import read
        from monolayer.data.layout import Manner

        step("reading", 0.0)
        if model is None or isinstance(model, Path | Manner):
            like = manner(model) if isinstance(model, Path) else model
            return read(data, like=like, **self.keywords)
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


def manner(folder: Path) -> Manner:
    """How the model in a folder reads, by its `config.json` or its tokenizer; whoever loads it says what is wrong."""
    from monolayer.data.aside import read_regular
    from monolayer.data.layout import Manner
    from monolayer.huggingface.manifest import is_attached
    from monolayer.huggingface.reading import asked_as, is_stock

    if is_attached(folder):
        return Manner(per="answer")
    if is_stock(folder):
        names, answers = asked_as(folder)
        return Manner(None if names is None else names.cuts, answers)
    try:
        said = json.loads(read_regular(folder / "config.json"))
        unit, per = said["unit"], said["per"]
        return Manner(unit if unit in get_args(Unit) else None, per if per in get_args(Belongs) else None)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return Manner()


def only_text(data: str | list[str]) -> str | None:
    """The name of a text file, where it stands alone."""
    name = data if isinstance(data, str) else data[0] if len(data) == 1 else ""
    return name if Path(name).suffix == ".txt" else None


def book(folder: Path, data: list[str]) -> Sequences | None:
    """The windows of a text file, cut as the model in `folder` cuts its text; None for other models and other files."""
    path = only_text(data)
    if path is None:
        return None
    from monolayer.data.aside import read_regular
    from monolayer.data.text import Script

    try:
        script = Script(**json.loads(read_regular(folder / "config.json"))["script"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError):  # no such model: whoever loads it says why
        return None
    return cut_text(path, script)


def cut_text(path: str, script: Script) -> Sequences:
    """The windows of a text file, cut as `script` says."""
    from monolayer.data.text import read_text, windows

    return windows(read_text(path), script.unit, script.window)[0]
