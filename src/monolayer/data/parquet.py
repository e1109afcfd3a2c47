"""Parquet tables, a record batch at a time. Columns of lists and numbers go to NumPy whole, never row by row.

Needs pyarrow (the extra `monolayer[parquet]`), so nothing imports this file before a Parquet file is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monolayer.data.columns import Values
from monolayer.data.growing import Growing
from monolayer.data.lines import Progress
from monolayer.data.names import Ints, Names
from monolayer.data.sequences import Sequences
from monolayer.data.tabular import Columns, Layout, Runs, Wide
from monolayer.errors import DataError

_BATCH = 1 << 14  # rows


def read_parquet(
    file: Path, columns: Columns, vocabulary: Names | None, progress: Progress | None, batch: int = _BATCH
) -> Sequences:
    """The sequences of a Parquet file in long or wide form."""
    size = file.stat().st_size
    _whole(file, size)
    done, total = 0, 1

    def tick() -> None:
        # Rows are what can be counted; bytes are in proportion.
        if progress is not None:
            progress(size * done // total, size)

    growing = Growing(str(file), vocabulary, tick, unit="row")
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as table:
            layout = Layout.of(columns, table.schema_arrow.names, str(file))
            wide, runs = Wide(growing, layout), Runs(growing)
            total = max(table.metadata.num_rows, 1)
            for part in table.iter_batches(batch_size=batch, columns=layout.used):
                part.validate(full=True)  # a damaged file may hold offsets that point anywhere
                first, done = done, done + part.num_rows
                cells = {name: _decoded(part.column(name)) for name in layout.used}
                if part.num_rows and layout.sequence is None:
                    _wide_batch(first, cells, layout, growing, wide)
                elif part.num_rows:
                    _long_batch(first, cells, layout, growing, runs)
            if done != table.metadata.num_rows:
                raise DataError(
                    f"{file} is damaged: {done} of {table.metadata.num_rows} rows can be read; write it again"
                )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is no Parquet file, or a damaged one ({error}); write it again") from None
    return growing.finish()


def _whole(file: Path, size: int) -> None:
    """A Parquet file begins and ends with PAR1; one that only begins with it was cut short."""
    if size == 0:
        raise DataError(f"{file} is empty: there is no sequence in it")
    with file.open("rb") as raw:
        opening = raw.read(4)
        raw.seek(max(size - 4, 0))
        if opening == b"PAR1" and (raw.read(4) != b"PAR1" or size < 12):
            raise DataError(f"{file} ends in the middle: it was cut short; copy or write it again")


def _decoded(cells: Any) -> Any:
    """The column without dictionary encoding, which is a matter of storage."""
    return cells.dictionary_decode() if isinstance(cells, pa.DictionaryArray) else cells


def _listed(cells: Any) -> bool:
    kind = cells.type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lengths(cells: Any) -> Ints:
    """Lengths of a column of lists; a null list has none."""
    lengths: Ints = pc.list_value_length(cells).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _values(cells: Any) -> Values:
    """Cells as a NumPy array; as a Python list where a null or an uneven vector must be found and named."""
    if cells.null_count:
        return list(cells.to_pylist())
    if _listed(cells):
        inner, lengths = _decoded(cells.flatten()), _lengths(cells)
        if inner.null_count or _listed(inner) or not lengths[0] or (lengths != lengths[0]).any():
            return list(cells.to_pylist())
        return np.reshape(inner.to_numpy(zero_copy_only=False), (len(lengths), -1))
    values: Values = cells.to_numpy(zero_copy_only=False)
    return values


def _flat(cells: Any) -> Values:
    flat = _decoded(cells.flatten())
    return _values(flat) if len(flat) else []


def _wide_batch(first: int, cells: dict[str, Any], layout: Layout, growing: Growing, wide: Wide) -> None:
    tokens, label = cells[layout.token], cells.get(layout.label or "")
    by_token = label is not None and layout.label != "label" and _listed(label)
    by_sequence = label is not None and not by_token and (layout.label == "label" or not _text(label))
    if not (_listed(tokens) or _text(tokens)):
        raise DataError(f"{growing.name}: column {layout.token!r} holds {tokens.type}, not lists or text")
    if _listed(tokens) and (label is None or ((by_token or by_sequence) and not label.null_count)):
        labels = None if label is None else _flat(label) if by_token else _values(label)
        growing.rows(first, _flat(tokens), _lengths(tokens), labels, _lengths(label) if by_token else None)
        return
    answers = [None] * len(tokens) if label is None else label.to_pylist()
    for row, (words, answer) in enumerate(zip(tokens.to_pylist(), answers, strict=True)):
        wide.row(first + row, words, answer)


def _text(cells: Any) -> bool:
    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def _long_batch(first: int, cells: dict[str, Any], layout: Layout, growing: Growing, runs: Runs) -> None:
    names = cells[layout.sequence or ""]
    if _listed(names):
        raise DataError(f"{growing.name}: column {layout.sequence!r} holds lists, not names of sequences")
    if names.null_count:
        runs.begins(None, first + int(names.is_null().to_numpy(zero_copy_only=False).argmax()))
    codes = names.dictionary_encode()
    rows, table = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    starts = np.concatenate([[True], rows[1:] != rows[:-1]])
    for row in np.flatnonzero(starts).tolist():
        starts[row] = runs.begins(table[rows[row]], first + row)
    label = cells.get(layout.label or "")
    growing.stretch(first, _values(cells[layout.token]), None if label is None else _values(label), starts)
