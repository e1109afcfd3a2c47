"""Labels: one per token or one per sequence, from what people have.

Whether labels go by token or by sequence is said by `per`, or else read off their shape. A list of labels whose lengths
are those of the sequences goes by token; a lone value goes by sequence; a list of real numbers of another length is
one real vector per sequence. Where the lengths agree, by token wins. A string is one label, also where it is as long as
its sequence; only `per="token"` makes it a list of one-letter labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.data.columns import Column, Values, array_like, flattened, is_list, plain_array, token_place
from monolayer.data.names import Names
from monolayer.errors import DataError
from monolayer.table import plural

Per = Literal["token", "sequence"]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of every token or of every sequence: class numbers, or real vectors.

    `values` is `(T,)` or `(N,)` int64 with `classes` naming the numbers, or `(T, m)` / `(N, m)` float64
    with `classes` None. `scalar` remembers that real labels came as plain numbers rather than vectors.
    """

    values: NDArray[Any]
    per: Per
    classes: Names | None
    scalar: bool = False

    def decode(self, values: NDArray[Any]) -> NDArray[Any]:
        """What users call these label values."""
        if self.classes is not None:
            return self.classes.decode(values)
        return values[..., 0] if self.scalar else values

    @classmethod
    def of(
        cls, Y: Any, sizes: Ints, *, padded: int | None = None, per: Per | None = None, ours: bool = False
    ) -> Labels:
        """Labels for sequences of lengths `sizes` `(N,)`; rows of `Y` may be padded to `padded` labels.

        `ours`: nobody else holds `Y`, so it needs no copy.
        """
        check_per(per)
        asked = per
        Y = array_like(Y)
        if isinstance(Y, str | bytes | Mapping | Set) or not hasattr(Y, "__iter__"):
            raise DataError(f"Y is a {type(Y).__name__}: it must be a list or an array, one row per sequence")
        rows: Any = Y if plain_array(Y) else [array_like(row) for row in Y]
        if len(rows) != len(sizes):
            raise DataError(
                f"X has {plural(len(sizes), 'sequence')} but Y has {plural(len(rows), 'row')}: give one row each"
            )
        if asked == "sequence":
            flat, per = _by_sequence(rows), asked
        else:
            if asked == "token" and any(isinstance(row, str) for row in rows):
                rows = [list(row) if isinstance(row, str) else row for row in rows]
            array = plain_array(rows)
            flat, per = _from_array(rows, sizes, padded) if array else _from_lists(rows, sizes, padded)
            if asked == "token" and per != "token":
                raise DataError(
                    f"per='token', but the labels of sequence 0 are {short(rows[0])}: give one label per token"
                )
        column = Column("label", ours=ours)
        column.add(flat, lambda i: f"sequence {i}" if per == "sequence" else token_place(i, sizes))
        values, classes, scalar = column.finish()
        return cls(values, per, classes, scalar)


def check_per(per: Any) -> None:
    """`per` is a choice of two, or left out."""
    if per not in (None, "token", "sequence"):
        raise DataError(f"per must be 'token', 'sequence' or None (read off the shape of the labels), not {per!r}")


def _by_sequence(rows: Any) -> Values:
    """One label per sequence: a lone value, or one vector of real numbers."""
    if plain_array(rows):
        if rows.ndim > 2 or (rows.ndim == 2 and rows.dtype.kind != "f"):
            raise DataError(f"per='sequence', but Y has shape {rows.shape} and type {rows.dtype}: give one label each")
        array: NDArray[Any] = rows
        return array
    for number, row in enumerate(rows):
        if is_list(row) and not _real(row):
            raise DataError(
                f"per='sequence', but the label of sequence {number} is {short(row)}: one label is a lone value or a "
                "vector of real numbers"
            )
    values: list[Any] = rows
    return values


def _from_array(Y: NDArray[Any], sizes: Ints, padded: int | None) -> tuple[NDArray[Any], Per]:
    if Y.ndim == 1:
        return Y, "sequence"
    width = Y.shape[1]
    if Y.ndim <= 3 and (sizes == width).all():
        return Y.reshape(-1, *Y.shape[2:]), "token"
    if Y.ndim <= 3 and width == padded:
        return Y[np.arange(width) < sizes[:, None]], "token"
    if Y.ndim == 2 and Y.dtype.kind == "f":
        return Y, "sequence"
    if Y.ndim > 3:
        raise DataError(f"Y has shape {Y.shape}: give (N,), (N, n), (N, m) or (N, n, m)")
    raise _wrong_count(sizes, np.full(len(sizes), width))


def _from_lists(rows: list[Any], sizes: Ints, padded: int | None) -> tuple[Values, Per]:
    nested = [is_list(row) for row in rows]
    if not any(nested):
        return rows, "sequence"
    if not all(nested):
        odd = nested.index(not nested[0])
        bare = rows[0 if nested[odd] else odd]
        if bare is None:
            raise DataError(f"the labels of sequence {0 if nested[odd] else odd} are missing: label all or none")
        first, other = ("a list of labels" if row else "one label" for row in (nested[0], nested[odd]))
        raise DataError(
            f"mixed label kinds: sequence 0 has {first}, sequence {odd} has {other}; label every token or "
            "every sequence"
        )
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    if padded is not None and (counts == padded).all():
        rows, counts = [row[:size] for row, size in zip(rows, sizes.tolist(), strict=True)], sizes
    if (counts == sizes).all():
        return flattened(rows), "token"
    if (counts == counts[0]).all() and all(_real(row) for row in rows):
        return rows, "sequence"
    raise _wrong_count(sizes, counts)


def _real(row: Any) -> bool:
    """Whether a row reads as one vector of real numbers: numbers throughout, and not all of them integers."""
    if plain_array(row):
        return bool(row.ndim == 1 and row.dtype.kind == "f")
    types = {type(array_like(value)) for value in row}
    return float in types and types <= {float, int}


def _wrong_count(sizes: Ints, counts: Ints) -> DataError:
    bad = int((sizes != counts).argmax())
    return DataError(
        f"sequence {bad} has {plural(int(sizes[bad]), 'token')} but {plural(int(counts[bad]), 'label')}: give one per "
        "token, or one per sequence; labels of padding go away with lengths="
    )
