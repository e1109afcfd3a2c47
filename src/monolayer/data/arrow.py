"""Read tables with Arrow: Parquet files, and text files one block of lines at a time.

Plain rows are read as whole columns and never become Python objects. A row is plain if nothing about it is unusual: it
has no missing value, no empty list, and no vectors of several lengths. Unusual rows are read one by one. In Parquet
they go through `RowReader.row`. In a text file, the block that holds them and everything after it go back to the reader
that goes line by line. Those readers decide what a row means, and name the line if it is wrong, so a file means the
same whichever way it is read.

This file needs pyarrow, so nothing imports it before pyarrow has been found.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pjson
import pyarrow.parquet as pq

from monolayer.arrays import Array, Ints
from monolayer.data import growing as limits
from monolayer.data.columns import Coded
from monolayer.data.growing import Growing
from monolayer.data.labelling import SEQUENCE, TOKEN, LabelUnit
from monolayer.data.layout import Columns, TableLayout
from monolayer.data.lines import Lines
from monolayer.data.sequences import Sequences
from monolayer.data.tabular import RowReader, row_cells
from monolayer.errors import DataError

BYTES_PER_TOKEN = 16
"""How many bytes of text are parsed at a time, per token that a reader may hold in memory."""
_BATCH = 1 << 16
"""How many rows of Parquet are read at a time."""
ArrowColumn: TypeAlias = Any
"""A column of Arrow. It is `Any` because pyarrow has no type annotations."""


# -- columns -------------------------------------------------------------------------------------------


def _decoded(cells: ArrowColumn) -> ArrowColumn:
    """The column without dictionary encoding, which only says how it is stored."""
    return cells.dictionary_decode() if isinstance(cells, pa.DictionaryArray) else cells


def _is_list(cells: ArrowColumn) -> bool:
    """Whether the cells of a column are lists."""
    kind = cells.type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(cells: ArrowColumn) -> bool:
    """Whether the cells of a column are strings."""
    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def _lengths(lists: ArrowColumn) -> Ints:
    """The length of each list in a column of lists."""
    sizes: Ints = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _plain_values(cells: ArrowColumn) -> Array | Coded | None:
    """The values of a column: numbers, vectors or coded strings.

    None if a value is missing or of another kind, or if vectors have different lengths.
    """
    cells = _decoded(cells)
    if cells.null_count or not len(cells):
        return None
    if _is_text(cells):
        codes = cells.dictionary_encode()
        return Coded(codes.dictionary.to_pylist(), codes.indices.to_numpy())
    if _is_list(cells):
        inner, sizes = _plain_values(cells.flatten()), _lengths(cells)
        if not isinstance(inner, np.ndarray) or inner.ndim > 1 or (sizes != sizes[0]).any():
            return None
        return inner.reshape(len(sizes), -1)
    kind = cells.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    array: Array = cells.to_numpy(zero_copy_only=False)
    return array


def _split_words(cells: ArrowColumn) -> ArrowColumn | None:
    """A column of text as a column of lists of words; None if a cell is missing or has no word."""
    trimmed = pc.utf8_trim_whitespace(cells)
    has_gap = cells.null_count or pc.any(pc.equal(trimmed, pa.scalar(""))).as_py()
    return None if has_gap else pc.utf8_split_whitespace(trimmed)


# -- tables --------------------------------------------------------------------------------------------


def _add(table: RowReader, lines: range, cells: dict[str, ArrowColumn]) -> bool:
    """Add rows of a table column by column, and return True. If they are not plain, add nothing and return False."""
    layout = table.layout
    tokens, label = cells[layout.token], cells.get(layout.label or "")
    if layout.labelling not in (None, SEQUENCE):
        return False
    if label is not None and _is_text(label) and layout.words_per_token:
        label = _split_words(label)
        if label is None:
            return False
    if cut := _is_text(tokens):
        tokens = _split_words(tokens) if layout.unit == "words" else None
    if tokens is None or not _is_list(tokens) or tokens.null_count:
        return False
    sizes, flat, labels = _lengths(tokens), _plain_values(tokens.flatten()), None
    labelling: LabelUnit | None = None
    if label is not None:
        labelling = TOKEN if _is_list(label) and layout.per is None else SEQUENCE
        labels = _plain_values(label.flatten() if labelling.at_tokens else label)
        if labels is None or (labelling.at_tokens and (label.null_count or (_lengths(label) != sizes).any())):
            return False
    if flat is None or not sizes.all():
        return False
    if cut:
        table.growing.cut = layout.unit
    table.growing.rows(lines, flat, sizes, labels, labelling)
    return True


def read_parquet(file: Path, columns: Columns, batch: int = _BATCH) -> Sequences:
    """Read the sequences of a Parquet file, `batch` rows at a time. `columns` says which columns to read."""
    growing, done = Growing(str(file), "parquet", unit="row", in_file=True), 0
    growing.keys = columns.keys
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as stored:
            table = RowReader(growing, TableLayout.of(columns, stored.schema_arrow.names, str(file)))
            used = table.layout.columns
            for part in stored.iter_batches(batch_size=batch, columns=used):
                part.validate(full=True)  # a damaged file may hold offsets that point anywhere
                rows, done = range(done, done + part.num_rows), done + part.num_rows
                cells = {name: _decoded(part.column(name)) for name in used}
                if rows and (growing.keys is not None or not _add(table, rows, cells)):
                    for row, values in enumerate(part.select(used).to_pylist(), rows[0]):
                        table.row(row, *row_cells(values, table.layout))
            if done != stored.metadata.num_rows:
                raise DataError(
                    f"{file} is damaged: {done} of {stored.metadata.num_rows} rows can be read; write it again"
                )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not a Parquet file, or is damaged ({error}); write it again") from None
    return Sequences(*growing.finish())


# -- blocks of text ------------------------------------------------------------------------------------


def _read_blocks(lines: Lines, add: Callable[[bytes, range], bool]) -> None:
    """Pass `lines` to `add` block by block, up to their end or the first block that it refuses by returning False.

    A refused block is put back, so that it can be read line by line.
    """
    while True:
        block, count = lines.block(BYTES_PER_TOKEN * limits.TOKENS_AT_ONCE)
        if not block:
            return
        if not add(block, range(lines.number - count + 1, lines.number + 1)):
            lines.put_back(block, count)
            return


def read_table_blocks(lines: Lines, table: RowReader, width: int, separator: str, *, quotes: bool) -> None:
    """Read rows of CSV, or of TSV without `quotes`, into `table`; the file has `width` columns."""
    numbers = [str(number) for number in range(width)]
    used = {name: numbers[at] for name, at in zip(table.layout.columns, table.layout.numbers, strict=True)}
    parse = pcsv.ParseOptions(delimiter=separator, quote_char=False, ignore_empty_lines=False)
    convert = pcsv.ConvertOptions(column_types=dict.fromkeys(numbers, pa.string()), include_columns=list(used.values()))

    def add(block: bytes, numbered: range) -> bool:
        # Arrow takes a byte-order mark at the start of any block for one of the file, and drops it.
        if (b'"' in block and quotes) or block.startswith(codecs.BOM_UTF8):
            return False
        try:
            options = pcsv.ReadOptions(column_names=numbers, block_size=len(block) + 1)
            table_read = pcsv.read_csv(pa.BufferReader(block), options, parse, convert)
        except pa.ArrowCancelled:  # Ctrl-C in Arrow's words: not a block that it cannot read
            raise KeyboardInterrupt from None
        except (pa.ArrowException, UnicodeDecodeError):
            return False
        cells = {name: table_read.column(number).combine_chunks() for name, number in used.items()}
        if table_read.num_rows != len(numbered) or any(
            pc.any(pc.equal(column, pa.scalar(""))).as_py() for column in cells.values()
        ):
            return False
        return _add(table, numbered, cells)

    _read_blocks(lines, add)


def read_json_blocks(lines: Lines, table: RowReader) -> None:
    """Read JSON objects, one per line, into `table`."""
    layout = table.layout
    used = layout.columns
    others = {"label", "labels"} - {layout.label} if layout.label in (None, "label", "labels") else set()

    def add(block: bytes, numbered: range) -> bool:
        if not block.lstrip().startswith(b"{"):  # Arrow 26 crashes where null comes first
            return False
        try:
            rows_read = pjson.read_json(pa.BufferReader(block), pjson.ReadOptions(block_size=len(block) + 1))
            rows_read.validate(full=True)
        except pa.ArrowCancelled:
            raise KeyboardInterrupt from None
        except (pa.ArrowException, UnicodeDecodeError):
            return False
        there = set(rows_read.column_names)
        if rows_read.num_rows != len(numbered) or not there.issuperset(used) or there & others:
            return False
        cells = {name: rows_read.column(name).combine_chunks() for name in used}
        return not any(map(_column_has_reals, cells.values())) and _add(table, numbered, cells)

    _read_blocks(lines, add)


def _column_has_reals(cells: ArrowColumn) -> bool:
    """Whether a column holds real numbers. If integers were among them, Arrow may have rounded these."""
    return _column_has_reals(cells.flatten()) if _is_list(cells) else bool(pa.types.is_floating(cells.type))
