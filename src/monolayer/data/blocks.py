"""Text files a block of lines at a time, by Arrow's parsers: what is regular is never a Python object.

A block whose lines are all of one plain kind becomes columns. Anything else (a value of another kind, a missing key, a
quote, a blank line, a mistake) makes the parser give up, and the readers that go line by line take over from there:
they decide what it means, and name the line if it is wrong. So both ways read a file alike.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pjson

from monolayer.arrays import Ints
from monolayer.data import growing as limits
from monolayer.data.arrow import flat, lengths, listed, long_batch, text, values, wide_batch
from monolayer.data.columns import Coded, Values
from monolayer.data.growing import Growing
from monolayer.data.layout import Columns, Layout
from monolayer.data.lines import Lines
from monolayer.data.tabular import Runs, Wide

BYTES = 16
"""Bytes parsed at a time, for every token that a reader may hold."""


# -- JSON Lines ----------------------------------------------------------------------------------------


def read_json_blocks(lines: Lines, growing: Growing, columns: Columns) -> None:
    """Read `lines` up to their end, or up to the first block that is not plain."""
    while True:
        block, count = lines.block(BYTES * limits.CHUNK)
        if not block:
            return
        if not _json_block(block, count, lines.number - count + 1, growing, columns):
            lines.put_back(block, count)
            return


def _json_block(block: bytes, count: int, line: int, growing: Growing, columns: Columns) -> bool:
    """Add a block of JSON objects, the first on line `line`; False if it is not plain."""
    schema, key, label = _schema(block, columns)
    if schema is None:
        return False
    try:
        table = pjson.read_json(
            pa.BufferReader(block),
            pjson.ReadOptions(block_size=len(block) + 1),
            pjson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError):
        return False
    cells = {name: table.column(name).combine_chunks() for name in schema.names}
    if table.num_rows != count or any(map(_nulls, cells.values())):
        return False
    tokens, labels = cells[key], None if label is None else cells[label]
    per_token = labels is not None and listed(labels) and label != "label"
    found: Values | Coded | None = None
    if labels is not None:
        found = flat(labels) if per_token else values(labels)
    letters, sizes = (flat(tokens), lengths(tokens)) if listed(tokens) else _characters(tokens)
    growing.rows(line, letters, sizes, found, lengths(labels) if per_token else None)
    return True


def _schema(block: bytes, columns: Columns) -> tuple[Any, str, str | None]:
    """Types of the columns as the first line has them, and the keys of tokens and labels; None: not plain."""
    nothing = None, "", None
    try:
        row = json.loads(block[: block.find(b"\n") if b"\n" in block else len(block)])
    except (ValueError, RecursionError):
        return nothing
    key = columns.tokens or "tokens"
    if not isinstance(row, dict) or key not in row:
        return nothing
    label = columns.labels
    if label is None:
        there = [name for name in ("label", "labels") if row.get(name) is not None]
        # A key that only other lines have changes what they mean.
        if len(there) > 1 or any(b'"%s"' % name.encode() in block for name in {"label", "labels"} - set(there)):
            return nothing
        label = there[0] if there else None
    elif label not in row:
        return nothing
    types = {key: _type(row[key]) if isinstance(row[key], str | list) else None}
    if label is not None:
        types[label] = _type(row[label])
        if label == "labels" and columns.labels is None and not isinstance(row[label], list):
            return nothing
    if key == label or any(kind is None for kind in types.values()):
        return nothing
    return pa.schema(types), key, label


def _type(value: Any) -> Any:
    """The Arrow type of a plain value or of a list of them; None for anything else."""
    if isinstance(value, list):
        inner = {_type(item) for item in value}
        if value and isinstance(value[0], list) and _type(value[0]) == pa.list_(pa.float64()):
            inner.discard(pa.list_(pa.int64()))  # whole numbers among vectors of real ones
        return pa.list_(inner.pop()) if len(inner) == 1 and None not in inner else None
    return {str: pa.string(), int: pa.int64(), float: pa.float64()}.get(type(value))


def _nulls(cells: Any) -> bool:
    return bool(cells.null_count or (listed(cells) and _nulls(cells.flatten())))


def _characters(cells: Any) -> tuple[Coded, Ints]:
    """Strings as sequences of their characters, and their lengths."""
    points = np.frombuffer("".join(cells.to_pylist()).encode("utf-32-le"), dtype=np.uint32)
    letters, rows = np.unique(points, return_inverse=True)
    sizes: Ints = pc.utf8_length(cells).to_numpy().astype(np.int64)
    return Coded([chr(point) for point in letters.tolist()], rows), sizes


# -- CSV and TSV ---------------------------------------------------------------------------------------


def read_table_blocks(
    lines: Lines, growing: Growing, names: list[str], layout: Layout, wide: Wide, runs: Runs, tabs: bool
) -> None:
    """Read rows with columns `names` up to their end, or up to the first block that is not plain."""
    used = [names.index(name) for name in layout.used]
    while True:
        block, count = lines.block(BYTES * limits.CHUNK)
        if not block:
            return
        cells = None if not tabs and b'"' in block else _cells(block, len(names), used, tabs)
        plain = cells is not None and len(cells[0]) == count and not any(map(_blank, cells))
        if cells is None or not plain:
            lines.put_back(block, count)
            return
        parts = dict(zip(layout.used, cells, strict=True))
        if layout.sequence is None:
            wide_batch(lines.number - count + 1, parts, layout, growing, wide)
        else:
            long_batch(lines.number - count + 1, parts, layout, growing, runs)


def _cells(block: bytes, width: int, used: list[int], tabs: bool) -> list[Any] | None:
    """Columns `used` of a block without quotes, as strings."""
    names = [str(number) for number in range(width)]
    try:
        table = pcsv.read_csv(
            pa.BufferReader(block),
            pcsv.ReadOptions(column_names=names, block_size=len(block) + 1),
            pcsv.ParseOptions(delimiter="\t" if tabs else ",", quote_char=False, ignore_empty_lines=False),
            pcsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), include_columns=[names[number] for number in used]
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return [table.column(names[number]).combine_chunks() for number in used]


def _blank(cells: Any) -> bool:
    assert text(cells)
    return bool(pc.any(pc.equal(cells, "")).as_py())
