"""Tables in memory: pandas, Polars, Arrow, a Hugging Face dataset; anything with named columns.

A table is no array of tokens: it is read row by row as a CSV file is (`tabular.py`), but for cells that hold lists and
numbers, which are taken as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.data.columns import array_like
from monolayer.data.growing import Growing
from monolayer.data.labels import Labels
from monolayer.data.layout import Columns, Layout
from monolayer.data.names import Names
from monolayer.data.tabular import Runs, Wide
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


def from_frame(
    frame: Any, columns: Columns, vocabulary: Names | None = None
) -> tuple[NDArray[Any], Ints, Names | None, Labels | None]:
    """What the `Sequences` of a table are made of, with labels where it has any."""
    name = f"the {type(frame).__name__}"
    try:
        layout = Layout.of(columns, [str(each) for each in _names(frame) or []], name)
    except DataError as error:
        if columns != Columns(per=columns.per):
            raise
        raise DataError(
            f"{error}. Name the columns: Sequences.table(X, tokens=…, labels=…, sequence=…); if every column holds "
            "tokens, pass X.to_numpy()"
        ) from None
    growing = Growing(name, vocabulary, lambda: None, unit="row")
    wide, runs = Wide(growing, layout), Runs(growing)
    tokens = _cells(frame, layout.token)
    labels = [None] * len(tokens) if layout.label is None else _cells(frame, layout.label)
    if layout.sequence is None:
        for row, cells in enumerate(zip(tokens, labels, strict=True)):
            wide.row(row, *cells)
        return growing.finish()
    for row, sequence in enumerate(_cells(frame, layout.sequence)):
        if runs.begins(sequence, row):
            growing.end()
        if tokens[row] is None or (layout.label is not None and labels[row] is None):
            raise DataError(f"{growing.at(row)} has no {(layout.token if tokens[row] is None else layout.label)!r}")
        growing.token(row, tokens[row], labels[row])
    return growing.finish()


def _cells(frame: Any, name: str) -> list[Any]:
    """A column as Python values."""
    column = frame[name]
    method = next((each for each in ("to_pylist", "to_list", "tolist") if hasattr(column, each)), None)
    cells = list(column) if method is None else getattr(column, method)()  # Arrow; Polars and pandas; NumPy
    plain = [array_like(cell) for cell in cells]
    return [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in plain]
