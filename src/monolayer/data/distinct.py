"""Find equal rows by hashing, and prove them equal by comparing.

Sorting whole rows costs O(d T log T) with a bad constant. Here each row gets a 64-bit key: its words are
scrambled, multiplied by fixed odd numbers and summed mod 2^64. Equal rows have equal keys; that unequal rows
have unequal keys is checked against the rows themselves, and where it fails the rows are sorted after all.
So the answer is exact, and the same on every run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Ints, Words
from monolayer.data.subnormal import without_negative_zeros

_WORDS_AT_ONCE = 1 << 18  # words hashed at a time: temporaries of 2 MB stay in cache


def distinct_rows(vectors: Array) -> tuple[Array, Ints]:
    """The distinct rows of `vectors` `(T, d)`, in order of first appearance, and which of them each row is.

    Returns `vocabulary` `(V, d)` and `rows` `(T,)` with `vectors == vocabulary[rows]`. Vectors are int64, or anything
    that float64 represents exactly; −0.0 counts as 0.0 and comes back as 0.0.
    """
    vectors = np.asarray(vectors)
    whole = np.issubdtype(vectors.dtype, np.integer)
    table: Array = np.array(vectors, dtype=np.int64 if whole else np.float64, order="C")
    if not whole:
        table = without_negative_zeros(table)  # from here on, equal numbers are equal bits
    first, rows = equal_rows(table)
    return table[first], rows


def equal_rows(table: Array) -> tuple[Ints, Ints]:
    """Group the rows of `table` `(T, d)` that have the same bits; its numbers have 64 bits.

    Returns the number of the first row in each group, and the group `(T,)` of each row. Groups are in order of first
    appearance.
    """
    words = np.ascontiguousarray(table).view(np.uint64)
    first, rows = _groups(_hash_rows(words))
    if not _matches(words, first, rows):
        _, first, rows = np.unique(words, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[rows.reshape(-1)]  # some versions of NumPy give a column


def row_keys(table: NDArray[np.float32]) -> Words:
    """64-bit keys `(T,)` of the rows of `table` `(T, d)`: equal if their bits are equal, and hardly ever otherwise."""
    # Two numbers are one word; rows with an odd number of them get a 0.
    if table.shape[1] % 2:
        table = np.pad(table, ((0, 0), (0, 1)))
    words = np.ascontiguousarray(table).view(np.uint64)
    return _hash_rows(words) if words.shape[1] > 1 else scramble(words[:, 0])


def by_cell_and_row(cell: Ints, table: NDArray[np.float32]) -> Ints:
    """The order `(T,)` of rows of `table` `(T, d)` by their cells `(T,)`, and within a cell by their keys.

    The order within a cell depends on its rows alone, not on where they stand; equal rows stay in the order they have.
    """
    order = np.argsort(row_keys(table), kind="stable")
    # NumPy sorts whole numbers of 16 bits by counting, in a tenth of the time.
    short = np.uint16 if len(cell) and int(cell.min()) >= 0 and int(cell.max()) < 1 << 16 else cell.dtype
    return order[np.argsort(cell[order].astype(short), kind="stable")]


def distinct_runs(values: Ints, lengths: Ints) -> Ints:
    """Cut `values` `(T,)` into runs of the given `lengths` `(N,)`, and number them so that equal runs share a number.

    Returns the class number of each run, `(N,)`. Classes are numbered by length, then by first appearance. A run may be
    empty.
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    classes = np.empty(len(lengths), np.int64)
    by_length = np.argsort(lengths, kind="stable")
    sizes, starts = np.unique(lengths[by_length], return_index=True)
    taken = 0
    for size, members in zip(sizes, np.split(by_length, starts[1:]), strict=True):
        table, rows = distinct_rows(values[offsets[members][:, None] + np.arange(size)])
        classes[members] = taken + rows
        taken += len(table)
    return classes


def scramble(word: Words) -> Words:
    """Scramble 64-bit words by a bijection, so that sums of different words hardly ever agree."""
    word = (word ^ (word >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return word ^ (word >> np.uint64(32))


def _hash_rows(words: Words) -> Words:
    """`(T,)` keys of the rows of `words` `(T, d)`."""
    count, width = words.shape
    if width == 1:
        return words[:, 0]
    multipliers = scramble(np.arange(1, width + 1, dtype=np.uint64)) | np.uint64(1)
    keys = np.empty(count, np.uint64)
    step = max(1, _WORDS_AT_ONCE // max(width, 1))
    for start in range(0, count, step):
        # Scrambled first: short floats end in zero bits, and a product would keep those zeros.
        keys[start : start + step] = (scramble(words[start : start + step]) * multipliers).sum(axis=1)
    return keys


def _groups(keys: Words) -> tuple[Ints, Ints]:
    """The number of the first key in every group of equal keys, and the group of every key."""
    order = np.argsort(keys)
    ordered = keys[order]
    change = np.ones(len(keys), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=change[1:])
    rows = np.empty(len(keys), np.int64)
    rows[order] = np.cumsum(change) - 1
    # A stable sort would cost more. This one is not stable, so the first member of a group is its minimum.
    return np.minimum.reduceat(order, np.flatnonzero(change)) if len(order) else order, rows


def _matches(words: Words, first: Ints, rows: Ints) -> bool:
    """Whether every row of `words` equals the first row of its group; a hash collision makes this False."""
    step = max(1, _WORDS_AT_ONCE // max(words.shape[1], 1))
    return all(
        np.array_equal(words[start : start + step], words[first[rows[start : start + step]]])
        for start in range(0, len(words), step)
    )
