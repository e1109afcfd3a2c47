"""How many tokens a file may hold, before it is read: from its header where it has one, else from its size."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from monolayer.data.npz import array_sizes

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
            return max(min(count, there) for count, _, there in array_sizes(file).values())
        if format == "parquet" or (format is None and file.suffix.lower() in (".parquet", ".pq")):
            return _parquet(file)
    except Exception:  # whatever is wrong with the file is said where it is read
        return 0
    return size * (PACKED if file.suffix.lower() == ".gz" else 1) // LETTERS


def _parquet(file: Path) -> int:
    """The most values of one column."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(file)
    count = np.zeros(meta.num_columns, dtype=np.int64)
    for group in range(meta.num_row_groups):
        for column in range(meta.num_columns):
            count[column] += meta.row_group(group).column(column).num_values
    return int(count.max(initial=0))
