"""How many tokens a file may hold, before it is read: from its header where it has one, else from its size."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

LETTERS = 3
"""Bytes of text that a token takes at least, its label and the signs around it counted in: a rough guess."""
PACKED = 5
"""How much longer text is than its gzip, about."""


def tokens_at_most(name: str, format: str | None = None) -> int:
    """About how many tokens a file holds, rather too many; 0 where it cannot be told. Errors are the reader's."""
    file = Path(name)
    try:
        size = file.stat().st_size
        if format == "npz" or (format is None and file.suffix.lower() == ".npz"):
            return _npz(file)
        if format == "parquet" or (format is None and file.suffix.lower() in (".parquet", ".pq")):
            return _parquet(file)
    except Exception:  # whatever is wrong with the file is said where it is read
        return 0
    return size * (PACKED if file.suffix.lower() == ".gz" else 1) // LETTERS


def _npz(file: Path) -> int:
    """The largest of its arrays."""
    largest = 0
    with zipfile.ZipFile(file) as stored:
        for name in stored.namelist():
            with stored.open(name) as member:
                version = np.lib.format.read_magic(member)
                header = (
                    np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                )
                largest = max(largest, int(np.prod(header(member)[0], dtype=np.int64)))
    return largest


def _parquet(file: Path) -> int:
    """The most values of one column."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(file)
    count = np.zeros(meta.num_columns, dtype=np.int64)
    for group in range(meta.num_row_groups):
        for column in range(meta.num_columns):
            count[column] += meta.row_group(group).column(column).num_values
    return int(count.max(initial=0))
