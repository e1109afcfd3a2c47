"""A second reading of the caller's dicts and tables, row by row, from the plan that the reader states.

The plan says what kind of thing was given and which of its columns were read (`data/plan.py`). This code shares nothing
with the reader and guesses nothing. A row is a sequence, or text, and its label or labels. `files.py` does the same for
files.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from monolayer.checker.given import fault, plain
from monolayer.data.plan import ReadColumn, ReadPlan
from monolayer.errors import DataError

ROWS = 512
"""How many rows of a table are Python objects at a time."""
_OF_VALUES = (OSError, TypeError, ValueError, csv.Error)
Row = tuple[object, object]
"""A sequence or text, and its label or labels."""


def rows_of_memory(X: Any, plan: ReadPlan) -> Iterator[Row]:
    """The rows of a dict, a table, a list of dicts, pairs or a Series, as `plan` says that they were read."""
    if plan.format in ("dict", "series"):
        return map(key, X.items())
    if plan.format == "pairs":
        return map(key, X)
    if plan.format == "objects":
        return map(key, (cells_of_object(row, plan) for row in X))
    if plan.format == "columns":
        return map(key, zip(*_named_columns(X, plan), strict=True))
    return map(key, _table(X.struct.unnest() if plan.format == "structs" else X, plan))


def cells_of_object(row: Any, plan: ReadPlan) -> Row:
    """The cells of an object that the plan names."""
    assert plan.key is not None  # the reader names the columns of objects
    cells = {str(name): value for name, value in row.items()}
    return cells.get(plan.key.name), None if plan.label is None else cells.get(plan.label.name)


@contextmanager
def second_look(name: str) -> Iterator[None]:
    """Turn any failure inside into an error that says that the two readings of `name` differ."""
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, *_OF_VALUES) as error:
        raise fault(f"a second look at {name} fails ({error!r:.200})") from None


def key(row: Row) -> Row:
    """The row with its key as a text or a list: a key may be a tuple, or one token without a list around it."""
    tokens, label = plain(row[0]), row[1]
    if isinstance(tokens, str | list):
        return tokens, label
    return list(tokens) if isinstance(tokens, tuple) else [tokens], label


def check_names(names: list[str], columns: list[ReadColumn]) -> None:
    """Raise an error unless the columns of the plan have their names in the table, and nothing else has."""
    for column in columns:
        if names[column.number] != column.name:
            raise fault(f"column {column.number} was read as {column.name!r} and is called {names[column.number]!r}")
        if names.count(column.name) > 1:
            raise fault(f"the column {column.name!r} was read, and {names.count(column.name)} columns have this name")


def _named_columns(X: Any, plan: ReadPlan) -> list[Any]:
    """The columns of a dict that the plan names; None for every label if it names none."""
    assert plan.key is not None  # a table has columns
    keys = plain(X[plan.key.name])
    return [keys, [None] * len(keys) if plan.label is None else plain(X[plan.label.name])]


def _table(frame: Any, plan: ReadPlan) -> Iterator[Row]:
    """The cells of all rows of a table in memory that stand in the columns of the plan, found by their numbers."""
    columns = [column for column in (plan.key, plan.label) if column is not None]
    places = [column.number for column in columns]
    names = getattr(frame, "column_names", None)
    names = list(getattr(frame, "columns", []) if names is None else names)
    check_names([str(name) for name in names], columns)
    if hasattr(frame, "itertuples"):  # pandas
        rows: Iterable[Any] = frame.iloc[:, places].itertuples(index=False, name=None)
    elif hasattr(frame, "iter_rows"):  # Polars
        rows = frame[:, places].iter_rows()
    elif hasattr(frame, "to_pylist"):  # Arrow
        rows = zip(*(frame.column(place).to_pylist() for place in places), strict=True)
    else:  # Hugging Face
        rows = _batches(frame, [column.name for column in columns])
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
