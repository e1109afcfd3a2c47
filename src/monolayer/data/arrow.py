"""Columns of Arrow, from Parquet or from text, as the values that a growing dataset takes. Never row by row.

Needs pyarrow, so nothing imports this file before pyarrow has been found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monolayer.arrays import Ints
from monolayer.data.columns import Coded, Values
from monolayer.data.growing import Growing
from monolayer.data.layout import Layout
from monolayer.data.tabular import Runs, Wide
from monolayer.errors import DataError


def decoded(cells: Any) -> Any:
    """The column without dictionary encoding, which is a matter of storage."""
    return cells.dictionary_decode() if isinstance(cells, pa.DictionaryArray) else cells


def listed(cells: Any) -> bool:
    """Whether a column holds lists."""
    kind = cells.type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def lengths(cells: Any) -> Ints:
    """Lengths of a column of lists; a null list has none."""
    sizes: Ints = pc.list_value_length(cells).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def values(cells: Any) -> Values | Coded:
    """Cells as a NumPy array, strings in coded form; a Python list where a null or an uneven vector must be named."""
    if cells.null_count:
        return list(cells.to_pylist())
    if text(cells):
        codes = cells.dictionary_encode()
        return Coded(codes.dictionary.to_pylist(), codes.indices.to_numpy())
    if listed(cells):
        inner, sizes = decoded(cells.flatten()), lengths(cells)
        if inner.null_count or listed(inner) or not sizes[0] or (sizes != sizes[0]).any():
            return list(cells.to_pylist())
        return np.reshape(inner.to_numpy(zero_copy_only=False), (len(sizes), -1))
    array: Values = cells.to_numpy(zero_copy_only=False)
    return array


def flat(cells: Any) -> Values | Coded:
    """What the lists of a column hold, list after list."""
    inside = decoded(cells.flatten())
    return values(inside) if len(inside) else []


def wide_batch(first: int, cells: dict[str, Any], layout: Layout, growing: Growing, wide: Wide) -> None:
    """Rows `first, first + 1, …` of a table that has a sequence a row."""
    cells = split_text(cells, layout) or cells
    tokens, label = cells[layout.token], cells.get(layout.label or "")
    by_token = label is not None and layout.label != "label" and listed(label)
    by_sequence = label is not None and not by_token and (layout.label == "label" or not text(label))
    if not (listed(tokens) or text(tokens)):
        raise DataError(f"{growing.name}: column {layout.token!r} holds {tokens.type}, not lists or text")
    if (
        layout.per is None
        and listed(tokens)
        and (label is None or ((by_token or by_sequence) and not label.null_count))
    ):
        labels = None if label is None else flat(label) if by_token else values(label)
        growing.rows(first, flat(tokens), lengths(tokens), labels, lengths(label) if by_token else None)
        return
    answers = [None] * len(tokens) if label is None else label.to_pylist()
    for row, (words, answer) in enumerate(zip(tokens.to_pylist(), answers, strict=True)):
        wide.row(first + row, words, answer)


def split_text(cells: dict[str, Any], layout: Layout) -> dict[str, Any] | None:
    """The columns of a wide table with text cells cut into words; None where `Wide` must read them row by row."""
    columns = [cells[name] for name in layout.used]
    if (
        layout.per is not None
        or layout.unit != "words"
        or layout.label not in (None, "label", "labels")
        or not all(map(text, columns))
    ):
        return None
    trimmed = [pc.utf8_trim_whitespace(column) for column in columns]
    if any(column.null_count or pc.any(pc.equal(column, "")).as_py() for column in trimmed):
        return None
    words = [
        column if name == "label" else pc.utf8_split_whitespace(column)
        for name, column in zip(layout.used, trimmed, strict=True)
    ]
    return dict(zip(layout.used, words, strict=True))


def text(cells: Any) -> bool:
    """Whether a column holds strings."""
    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def long_batch(first: int, cells: dict[str, Any], layout: Layout, growing: Growing, runs: Runs) -> None:
    """Rows `first, first + 1, …` of a table that has a token a row."""
    names = cells[layout.sequence or ""]
    if listed(names):
        raise DataError(f"{growing.name}: column {layout.sequence!r} holds lists, not names of sequences")
    if names.null_count:
        runs.begins(None, first + int(names.is_null().to_numpy(zero_copy_only=False).argmax()))
    starts = np.ones(len(names), dtype=bool)
    starts[1:] = pc.not_equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(starts)
    starts[at] = runs.begin_all(names.take(pa.array(at)).to_pylist(), first, at)
    label = cells.get(layout.label or "")
    growing.stretch(first, values(cells[layout.token]), None if label is None else values(label), starts)
