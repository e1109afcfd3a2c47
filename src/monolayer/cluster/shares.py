"""Rows of 64-bit words, counted piece by piece and joined share by share of the numbers below 2^64.

The first column is scrambled, so shares are of about equal size, and equal rows are in one share. Rows lie in a piece
column after column, in order of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints, Words
from monolayer.cluster.spill import Spill

Counted = list[tuple[str, int]]
"""Pieces that hold rows, and how many each has."""


def share_of(ordered: Words, share: int, shares: int) -> slice:
    """Where the numbers of one of so many equal shares of those below 2^64 stand."""
    bounds = np.array([at * 2**64 // shares for at in (share, share + 1) if at < shares], dtype=np.uint64)
    begin, *end = np.searchsorted(ordered, bounds).tolist()
    return slice(begin, end[0] if end else len(ordered))


def rows_of(spill: Spill, piece: str, count: int, width: int, share: int, shares: int) -> Words:
    """The rows of a piece `(width, …)` whose first column lies in a share."""
    if count == 0:
        return np.zeros((width, 0), dtype=np.uint64)
    rows = np.memmap(spill.numbers(piece), np.uint64, "r", shape=(width, count))
    return np.array(rows[:, share_of(rows[0], share, shares)])


def new_rows(columns: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Where rows in order begin to differ from the row before, of columns `(P,)`."""
    new = np.zeros(len(columns[0]), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def sums(values: Ints, start: Ints) -> Ints:
    """Of stretches that begin at `start`, the sums of `values`."""
    found: Ints = np.add.reduceat(values, start) if len(start) else start
    return found
