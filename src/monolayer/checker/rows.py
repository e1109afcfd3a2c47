"""A second reading of the caller's dicts and tables, row by row, in code that shares nothing with the reader.

A row is a sequence, or text, and its label or labels. `files.py` does the same for files.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    tokens_of_text,
)
from monolayer.data import Sequences
from monolayer.errors import DataError

ROWS = 512
"""How many rows of a table are Python objects at a time."""
LABELS = ("label", "labels", "ner_tags", "tags")
"""Usual names of a column of labels."""
PROMPT_COLUMNS = ("prompt", "question", "prompts", "questions")
ANSWER_COLUMNS = ("completion", "answer", "completions", "answers")
"""Usual names of columns of prompts and answers.

`data/prompts.py` has the same by the same names: the checker reads rows once more, with code of its own."""
Row = tuple[object, object]
"""A sequence or text, and its label or labels."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of the caller about how to read the data; `unit` may also come from the model."""

    unit: str | None = None
    format: str | None = None
    tokens: str | None = None
    labels: str | None = None
    per: str | None = None
    pairs: bool = False
    """Whether labels are needed and come with `X`, so that pairs are keys and values."""


@dataclass(frozen=True)
class Chosen:
    """The columns that are read, by number; `label` is None if there is no such column. `unit`: how text is cut."""

    token: int
    label: int | None
    unit: str

    def of(self, row: Sequence[object]) -> Row:
        """The chosen cells of a row."""
        return row[self.token], None if self.label is None else row[self.label]


def choose(names: list[str], options: ReadOptions, answers: bool, unit: str = "words") -> Chosen:
    """The columns of a table with these `names`: those that the caller chose, the usual ones, or a key and a value.

    `answers`: whether the data are prompts and answers. `unit`: how text in columns with usual names is cut.
    """
    usual = [name for name in LABELS if name in names]
    if options.tokens or options.labels or "tokens" in names or usual:
        found = [options.tokens or "tokens", options.labels or (usual[0] if usual else None)]
    else:
        unit, found = "words", [*names[:2], None][:2]
        asked = [name for name in names if name in (*PROMPT_COLUMNS, *ANSWER_COLUMNS)]
        if answers and asked:
            found = [*sorted(asked, key=lambda name: name in ANSWER_COLUMNS), None][:2]
    for name in found:
        if name is not None and names.count(name) != 1:
            raise fault(f"the column {name!r} was read, and {names.count(name)} columns have this name")
    places = [None if name is None else names.index(name) for name in found]
    assert places[0] is not None
    return Chosen(places[0], places[1], options.unit or unit)


# -- dicts and tables ----------------------------------------------------------------------------------


def confirm_table(data: Sequences, X: object, Y: object, options: ReadOptions) -> bool:
    """Raise an error unless `data` hold exactly what the dict, table or pairs `X` hold, with the labels `Y` if given.

    False, and nothing is compared, if `X` is none of these.
    """
    if isinstance(X, Sequences):
        return False
    with second_look(f"the {type(X).__name__}"):
        answers = data.prompts is not None
        read = _rows_of_shape(X, options, answers)
        if read is None:
            return False
        rows, unit = map(key, read[0]), read[1]
        if answers:
            confirm_texts(data, rows, options.per == "continuation")
            return True
        comparison = DataComparison(data)
        confirm_rows(comparison, rows, unit, labelled=Y is None)
        if Y is not None:
            confirm_labels(comparison, Y, data.lengths.tolist())
        comparison.finish()
    return True


def _rows_of_shape(X: Any, options: ReadOptions, answers: bool) -> tuple[Iterable[Row], str] | None:
    """The rows of a dict, a table, a list of dicts, pairs or a Series, and how text in them is cut; None for others."""
    unit = options.unit or "words"
    if isinstance(X, Mapping):
        if not _is_columns(X, options):
            return X.items(), unit
        chosen = choose(list(X), options, answers)
        columns = [plain(value) for value in X.values()]
        return map(chosen.of, zip(*columns, strict=True)), chosen.unit
    if hasattr(X, "get_chunks") and str(X.dtype).startswith("Struct"):  # a Series of Polars with fields
        X = X.struct.unnest()
    names = getattr(X, "column_names", None)
    names = getattr(X, "columns", None) if names is None else names
    if names is not None:
        chosen = choose([str(name) for name in names], options, answers)
        return _table(X, chosen), chosen.unit
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        names = [str(name) for name in X[0]]
        chosen = choose(names, options, answers, "characters")
        cells = ({str(name): value for name, value in row.items()} for row in X)
        return (chosen.of([row.get(name) for name in names]) for row in cells), chosen.unit
    if options.pairs and hasattr(X, "iloc"):  # a Series of pandas; without a name, whole numbers only count its rows
        counts = list(X.index.names) == [None] and str(X.index.dtype).lstrip("u").startswith("int")
        return None if counts else (X.items(), unit)
    if options.pairs and isinstance(X, list | tuple) and all(isinstance(row, tuple) and len(row) == 2 for row in X):
        return X, unit
    return None


def _is_columns(mapping: Mapping[Any, Any], options: ReadOptions) -> bool:
    """Whether a dict holds columns by name. Otherwise each value is the label, or the labels, of its key."""
    if options.tokens or options.labels:
        return True
    if isinstance(next(iter(mapping.values()), None), str | int | float):
        return False
    values = {name: plain(value) for name, value in mapping.items()}
    if not all(isinstance(name, str) and isinstance(value, list | tuple) for name, value in values.items()):
        return False
    if "tokens" in values or (
        len(values) == 2 and set(values) & set(PROMPT_COLUMNS) and set(values) & set(ANSWER_COLUMNS)
    ):
        return True
    if all(isinstance(plain(one), int | float) for value in values.values() for one in value):
        return False  # a real vector for each key
    by_word = all(len(tokens_of_text(name, options.unit or "words")) == len(value) for name, value in values.items())
    return not (by_word and options.per == "token")


@contextmanager
def second_look(name: str) -> Iterator[None]:
    """Turn any failure inside into an error that says that the two readings of `name` differ."""
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AttributeError, EOFError, LookupError, OSError, TypeError, ValueError, csv.Error) as error:
        raise fault(f"a second look at {name} fails ({error!r:.200})") from None


def key(row: Row) -> Row:
    """The row with its key as a text or a list: a key may be a tuple, or one token without a list around it."""
    tokens, label = plain(row[0]), row[1]
    if isinstance(tokens, str | list):
        return tokens, label
    return list(tokens) if isinstance(tokens, tuple) else [tokens], label


def _table(frame: Any, chosen: Chosen) -> Iterator[Row]:
    """The chosen cells of all rows of a table in memory."""
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
    """The rows of a Hugging Face dataset.

    Class numbers become names; a number without a class, such as -1, becomes None.
    """
    classes = [_class_names((getattr(frame, "features", None) or {}).get(name)) for name in names]
    for batch in frame.iter(batch_size=ROWS) if hasattr(frame, "iter") else [frame]:
        columns = (_named_cells(batch[name], called) for name, called in zip(names, classes, strict=True))
        yield from zip(*columns, strict=True)


def _class_names(feature: object) -> list[str] | None:
    """The class names of a feature of a dataset, or of the elements of its lists; None if it has none."""
    return getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)


def _named_cells(cells: Iterable[object], classes: list[str] | None) -> list[object]:
    """Cells in which class numbers are replaced by the names of the classes."""
    if classes is None:
        return list(cells)
    names = dict(enumerate(classes))
    return [
        [names.get(one) for one in plain(cell)] if isinstance(plain(cell), list) else names.get(plain(cell))
        for cell in cells
    ]
