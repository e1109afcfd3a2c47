"""Tables in memory: pandas, Polars, Arrow, a Hugging Face dataset; anything with named columns.

A table is no array of tokens: its columns are read by their names, as those of a CSV or Parquet file are (`layout.py`).
Text cells of tokens and labels are split at whitespace; lists and arrays are taken as they are.
"""

from __future__ import annotations

from typing import Any

from monolayer.data.columns import array_like, is_list
from monolayer.data.labels import Per
from monolayer.data.layout import Columns, Layout
from monolayer.errors import DataError


def is_frame(value: Any) -> bool:
    """Whether a value has columns by name. (A dict of columns has no order of rows that one could see: not taken.)"""
    names = _names(value)
    return names is not None and hasattr(value, "__getitem__") and hasattr(value, "__len__")


def _names(frame: Any) -> list[str] | None:
    names = getattr(frame, "column_names", None)  # Arrow, Hugging Face
    names = getattr(frame, "columns", None) if names is None else names  # pandas, Polars
    if names is None or callable(names) or isinstance(names, str):
        return None
    try:
        return list(names)
    except TypeError:
        return None


def from_frame(frame: Any, columns: Columns, per: Per | None) -> tuple[list[Any], list[Any] | None, Per | None]:
    """Sequences, labels or None, and whether these go by token, from a table's columns."""
    there, kind = _names(frame) or [], type(frame).__name__
    try:
        layout = Layout.of(columns, [str(name) for name in there], f"the {kind}")
    except DataError as error:
        if columns != Columns():
            raise
        raise DataError(
            f"{error}. Name the columns: Sequences.table(X, tokens=…, labels=…, sequence=…); if every column holds "
            "tokens, pass X.to_numpy()"
        ) from None
    tokens = _cells(frame, layout.token)
    labels = None if layout.label is None else _cells(frame, layout.label)
    if layout.sequence is not None:
        return _long(_cells(frame, layout.sequence), tokens, labels, layout)
    X = [_words(cell, row, layout.token) for row, cell in enumerate(tokens)]
    if labels is None:
        return X, None, None
    per = per or {"label": "sequence", "labels": "token"}.get(layout.label or "")  # type: ignore[assignment]
    if per is None:
        cut = [cell.split() if isinstance(cell, str) else cell for cell in labels]
        lists = all(is_list(array_like(cell)) for cell in cut)
        sizes = [len(x) for x in X]
        per = "token" if lists and [len(cell) for cell in cut] == sizes and max(sizes, default=0) > 1 else "sequence"
    if per == "token":
        return X, [_words(cell, row, layout.label or "labels") for row, cell in enumerate(labels)], per
    return X, [cell.strip() if isinstance(cell, str) else cell for cell in labels], per


def _long(
    sequences: list[Any], tokens: list[Any], labels: list[Any] | None, layout: Layout
) -> tuple[list[Any], list[Any] | None, Per | None]:
    """Runs of equal values of the sequence column are the sequences."""
    X: list[list[Any]] = []
    Y: list[list[Any]] = []
    seen: set[Any] = set()
    for row, name in enumerate(sequences):
        if row == 0 or name != sequences[row - 1]:
            if name is None or name != name or name in seen:
                what = "comes back after another one: sort the rows" if name in seen else "is missing"
                raise DataError(f"row {row}, column {layout.sequence!r}: sequence {name!r} {what}")
            seen.add(name)
            X.append([])
            Y.append([])
        if tokens[row] is None:
            raise DataError(f"row {row} has no {layout.token!r}")
        X[-1].append(tokens[row])
        if labels is not None:
            Y[-1].append(labels[row])
    return X, None if labels is None else Y, None if labels is None else "token"


def _words(cell: Any, row: int, column: str) -> Any:
    if isinstance(cell, str):
        cell = cell.split()
    cell = array_like(cell)
    if not is_list(cell):
        raise DataError(f"row {row}, column {column!r}, holds {cell!r}: it must be a list, or text with words in it")
    return cell


def _cells(frame: Any, name: str) -> list[Any]:
    """A column as Python values."""
    column = frame[name]
    for method in ("to_pylist", "to_list", "tolist"):  # Arrow, Polars and pandas, NumPy
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
