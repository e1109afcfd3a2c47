"""The caller's dicts and tables once more, row by row, in code that shares nothing with the reader.

A row is a sequence, or text, and its label or labels. `files.py` walks through files in the same way.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from monolayer.checker.given import (
    DataComparison,
    confirm_labels,
    confirm_rows,
    confirm_texts,
    fault,
    plain,
)
from monolayer.data import Sequences
from monolayer.errors import DataError

ROWS = 512
"""Rows of a table that are Python objects at a time."""
LABELS = ("label", "labels", "ner_tags", "tags")
Row = tuple[Any, Any]


@dataclass(frozen=True)
class ReadOptions:
    """What the caller said about the data; `unit` also where the model said it."""

    unit: str | None = None
    format: str | None = None
    tokens: str | None = None
    labels: str | None = None


@dataclass(frozen=True)
class Chosen:
    """The columns that are read, by number, `label` None for none, and what text in them is cut into by default."""

    token: int
    label: int | None
    unit: str

    def of(self, row: Any) -> Row:
        return row[self.token], None if self.label is None else row[self.label]


def choose(names: list[str], options: ReadOptions, answers: bool, unit: str = "words") -> Chosen:
    """The columns of a table: those that the caller chose, or the usual names, or a key and a value.

    `answers`: whether there are prompts and answers. `unit`: how text under the usual names is cut.
    """
    usual = [name for name in LABELS if name in names]
    if options.tokens or options.labels or "tokens" in names or usual:
        found = [options.tokens or "tokens", options.labels or (usual[0] if usual else None)]
    else:
        unit, found = "words", [*names[:2], None][:2]
        asked = [name for name in names if name in ("prompt", "question", "completion", "answer")]
        if answers and asked:
            found = [*sorted(asked, key=lambda name: name in ("completion", "answer")), None][:2]
    for name in found:
        if name is not None and names.count(name) != 1:
            raise fault(f"the column {name!r} was read, and {names.count(name)} columns have this name")
    places = [None if name is None else names.index(name) for name in found]
    assert places[0] is not None
    return Chosen(places[0], places[1], options.unit or unit)


# -- dicts and tables ----------------------------------------------------------------------------------


def confirm_table(data: Sequences, X: Any, Y: Any, options: ReadOptions) -> None:
    """Raise an error unless `data` hold what a dict or a table says, with the labels `Y` if these are given."""
    with second_look(f"the {type(X).__name__}"):
        comparison, unit = DataComparison(data), options.unit or "words"
        if isinstance(X, Mapping):
            rows: Iterable[Row] = map(key, X.items())
        else:
            names = [str(name) for name in getattr(X, "column_names", None) or X.columns]
            chosen = choose(names, options, data.prompts is not None)
            rows, unit = map(key, _table(X, chosen)), chosen.unit
        if data.prompts is not None:
            confirm_texts(data, rows)
            return
        confirm_rows(comparison, rows, unit, labelled=Y is None)
        if Y is not None:
            confirm_labels(comparison, Y, data.lengths.tolist())
        comparison.finish()


@contextmanager
def second_look(name: str) -> Iterator[None]:
    """Whatever goes wrong inside is a fault of one of the two readings."""
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AttributeError, EOFError, LookupError, OSError, TypeError, ValueError, csv.Error) as error:
        raise fault(f"a second look at {name} fails ({error!r:.200})") from None


def key(row: Row) -> Row:
    """A row whose key may be one token without a list around it, or a tuple of them."""
    tokens, label = plain(row[0]), row[1]
    if isinstance(tokens, str | list):
        return tokens, label
    return list(tokens) if isinstance(tokens, tuple) else [tokens], label


def _table(frame: Any, chosen: Chosen) -> Iterator[Row]:
    """The rows of a table in memory."""
    places = [place for place in (chosen.token, chosen.label) if place is not None]
    if hasattr(frame, "itertuples"):  # pandas
        rows: Iterable[Any] = frame.iloc[:, places].itertuples(index=False, name=None)
    elif hasattr(frame, "iter_rows"):  # Polars
        rows = frame[:, places].iter_rows()
    elif hasattr(frame, "to_pylist"):  # Arrow
        rows = zip(*(frame.column(place).to_pylist() for place in places), strict=True)
    else:  # Hugging Face
        rows = _batches(frame, [frame.column_names[place] for place in places])
    return ((row[0], row[1] if len(places) > 1 else None) for row in rows)


def _batches(frame: Any, names: list[str]) -> Iterator[Any]:
    """The rows of a Hugging Face dataset, in which classes are numbers; one that is no class, such as -1, is none."""
    classes = [_classes((getattr(frame, "features", None) or {}).get(name)) for name in names]
    for batch in frame.iter(batch_size=ROWS) if hasattr(frame, "iter") else [frame]:
        columns = (_named(batch[name], called) for name, called in zip(names, classes, strict=True))
        yield from zip(*columns, strict=True)


def _classes(feature: Any) -> Any:
    return getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)


def _named(cells: Any, classes: Any) -> list[Any]:
    """Cells with the names of their classes in the place of numbers."""
    if classes is None:
        return list(cells)
    names = dict(enumerate(classes))
    return [
        [names.get(one) for one in plain(cell)] if isinstance(plain(cell), list) else names.get(plain(cell))
        for cell in cells
    ]
