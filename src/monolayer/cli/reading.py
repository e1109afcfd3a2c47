"""How commands read DATA: the options, which are the same for all commands, and the reading itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from monolayer.cli.console import say_read, stating_what_is_read
from monolayer.cli.options import WithOptions
from monolayer.data.choices import Belongs, Unit
from monolayer.errors import DataError
from monolayer.table import Progress

if TYPE_CHECKING:
    from monolayer.attaching.folder import Attached
    from monolayer.attaching.questions.folder import Recognizer
    from monolayer.data import Sequences
    from monolayer.data.layout import Manner
    from monolayer.data.readers import ReadKeywords
    from monolayer.data.text import Script
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform
    from monolayer.saved.saved import Saved
    from monolayer.stock.folder import StockModel

    # The models that `predict` accepts.
    Answering: TypeAlias = "Monolayer | Uniform | StockModel | Attached | Recognizer"

ModelFolder = Annotated[Path, typer.Argument(help="A saved model.")]
AnyModelFolder = Annotated[Path, typer.Argument(help="A saved model, or a stock folder.")]
_DATA = typer.Argument(
    metavar="DATA...", help="Data files (formats: docs/data.md), or patterns such as 'shards/*.csv'; -: standard input."
)
Data = Annotated[list[str], _DATA]
MaybeData = Annotated[list[str] | None, _DATA]


@dataclass(frozen=True)
class Reading:
    """The options for reading data. A command has all of them by a parameter of this class."""

    format: Annotated[
        str | None,
        typer.Option(
            help="jsonl, json, conll, conllu, csv, tsv, parquet, npz or text (one sequence per "
            "line); by default the file name decides."
        ),
    ] = None
    tokens: Annotated[str | None, typer.Option(help="Column that holds the tokens.")] = None
    labels: Annotated[str | None, typer.Option(help="Column that holds the labels.")] = None
    unit: Annotated[
        Unit | None,
        typer.Option(
            help="How to split strings: characters (default in JSONL), words (default in tables), or whole (one token)."
        ),
    ] = None
    per: Annotated[
        Belongs | None,
        typer.Option(
            help="What a label belongs to: token or sequence; answer: the data are prompts and answers; continuation: "
            "answers without a space in front. Inferred from the data by default.",
        ),
    ] = None

    header: Annotated[
        bool | None,
        typer.Option(
            help="Whether the first row of CSV and TSV files names the columns; without a header they are 1, 2, 3, …"
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(help="What separates columns of CSV files: one character, or tab. Found in the first rows."),
    ] = None

    @property
    def keywords(self) -> ReadKeywords:
        """The options as keyword arguments of `monolayer.data.read`, `asked_files` and `certify_files`."""
        return {
            "format": self.format,
            "tokens": self.tokens,
            "labels": self.labels,
            "unit": self.unit,
            "per": self.per,
            "header": self.header,
            "separator": self.separator,
        }

    def read(
        self,
        data: str | list[str],
        step: Progress,
        model: Answering | Manner | None = None,
        known: bool = True,
        proved: bool = False,
        keys: list[object] | None = None,
        say: bool = True,
    ) -> Sequences:
        """Read data files. `model` decides what the options leave open.

        With a model and `known`, a token that the model lacks is an error. With `proved`, a proof about the data
        follows, so they are compared with the files once more. `keys` gets every key as it was given, if the file has
        text or lists. `say`: whether to state how the files were read; a certificate states it by itself.
        """
        sequences = self._read(data, step, model, known, proved, keys)
        if say:
            say_read(sequences.plans)
        return sequences

    def _read(
        self,
        data: str | list[str],
        step: Progress,
        model: Answering | Manner | None,
        known: bool,
        proved: bool,
        keys: list[object] | None,
    ) -> Sequences:
        """Read data files, as `read` does."""
        from monolayer.checker.asked import asked_files
        from monolayer.data import read as read_once
        from monolayer.data.layout import Manner

        step("reading", 0.0)
        if model is None or isinstance(model, Manner):
            read = asked_files if proved else read_once
            return read(data, like=model, **self.keywords)
        card, text = model.card, only_text(data, self.format, proved=proved)
        if card.script is not None and text is not None:
            return windows_of_file(text, card.script)
        names = card.vocabulary if known else None
        options: ReadKeywords = {**self.keywords, "vocabulary": names}
        if proved:
            sequences = asked_files(data, like=card.manner, **options)
        else:
            sequences = read_once(data, like=card.manner, keys=keys, **options)
        return in_numbers(model, sequences) if self.format == "text" else sequences


def sequences_of_texts(model: Answering, texts: list[str], reading: Reading) -> Sequences:
    """Texts from the command line as sequences, split as the model splits strings."""
    from monolayer.data import Sequences

    card, unit = model.card, reading.unit
    if card.script is not None and unit is None:
        return Sequences.of([card.script.split(text) for text in texts])
    if card.prompts:
        return Sequences.of(texts, per="answer")
    if card.vocabulary is None:
        raise DataError("the model takes vectors, which --text cannot give: pass a data file")
    return in_numbers(model, Sequences.of(texts, unit=unit or card.vocabulary.cuts or "words"))


def in_numbers(model: Answering, data: Sequences) -> Sequences:
    """`data` from text, whose tokens are strings, with integers in their place if those of the model are integers."""
    from monolayer.data import Sequences

    names = model.card.vocabulary
    if names is None or not names.integers or data.vocabulary is None or data.vocabulary.integers:
        return data
    words = [row.tolist() for row in data.split(data.vocabulary.decode(data.tokens))]
    odd = next((word for row in words for word in row if re.fullmatch("[0-9]+", word.strip()) is None), None)
    if odd is not None:
        raise DataError(f"{odd!r} is not a whole number, and the tokens of the model are integers")
    return Sequences.of([[int(word) for word in row] for row in words])


PLAIN = Reading()
"""The options of a command that was given none: the file names and the data decide everything."""


class _ReadingData(WithOptions):
    """A command that states what was read."""

    def __call__(self, **given: Any) -> None:
        with stating_what_is_read(bool(given.get("as_json"))):
            super().__call__(**given)


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """A command that reads data: its groups of options as typer sees them, and what was read is stated."""
    return _ReadingData(command)


def only_text(data: str | list[str], format: str | None, *, proved: bool) -> str | None:
    """The path of the data if they are the text that a model recites: one file of text; else None.

    Without --format, that is a file whose name is not that of a data file. With --format text, it is any file or
    standard input, where the whole text must be there for a proof (`proved`); otherwise each line is a sequence.
    """
    from monolayer.data.readers import SUFFIXES_OF_FORMAT

    name = data if isinstance(data, str) else data[0] if len(data) == 1 else ""
    if format is not None or name in ("", "-"):
        return name or None if format == "text" and proved else None
    suffix = Path(name).suffix.lower()
    return None if suffix == ".gz" or any(suffix in each for each in SUFFIXES_OF_FORMAT.values()) else name


def book(model: Saved, data: list[str], format: str | None) -> Sequences | None:
    """The windows of a text file, for a model that recites one; None for other models and other files."""
    path = only_text(data, format, proved=True)
    return None if path is None or model.script is None else windows_of_file(path, model.script)


def windows_of_file(path: str, script: Script) -> Sequences:
    """The windows of a text file, split the way `script` says."""
    from monolayer.data.text import windows

    data, _ = windows(whole_text(path), script.unit, script.window)
    return replace(data, plans=tuple(replace(plan, source=path) for plan in data.plans))


def whole_text(path: str) -> str:
    """The text of a file, or of standard input for `-`, with its line ends unchanged."""
    from monolayer.data.text import read_text

    if path != "-":
        return read_text(path)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(newline="")
    return sys.stdin.read()
