"""Parquet tables, a record batch at a time. Columns of lists and numbers go to NumPy whole, never row by row.

Needs pyarrow, so nothing imports this file before a Parquet file is read.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from monolayer.data.arrow import decoded, long_batch, wide_batch
from monolayer.data.growing import Growing
from monolayer.data.layout import Columns, Layout
from monolayer.data.lines import Progress
from monolayer.data.names import Names
from monolayer.data.sequences import Sequences
from monolayer.data.tabular import Runs, Wide
from monolayer.errors import DataError

_BATCH = 1 << 16  # rows


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
                cells = {name: decoded(part.column(name)) for name in layout.used}
                if part.num_rows and layout.sequence is None:
                    wide_batch(first, cells, layout, growing, wide)
                elif part.num_rows:
                    long_batch(first, cells, layout, growing, runs)
            if done != table.metadata.num_rows:
                raise DataError(
                    f"{file} is damaged: {done} of {table.metadata.num_rows} rows can be read; write it again"
                )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is no Parquet file, or a damaged one ({error}); write it again") from None
    return Sequences(*growing.finish())


def _whole(file: Path, size: int) -> None:
    """A Parquet file begins and ends with PAR1; one that only begins with it was cut short."""
    if size == 0:
        raise DataError(f"{file} is empty: there is no sequence in it")
    with file.open("rb") as raw:
        opening = raw.read(4)
        raw.seek(max(size - 4, 0))
        if opening == b"PAR1" and (raw.read(4) != b"PAR1" or size < 12):
            raise DataError(f"{file} ends in the middle: it was cut short; copy or write it again")
