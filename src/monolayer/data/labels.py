"""Labels: one per token or one per sequence, from lists, arrays, tensors or columns.

`per` says whether labels belong to tokens or to sequences. Without it, their shape decides. Lists of labels that are as
long as their sequences hold one label per token. A single value is the label of a sequence. Lists of real numbers of
another length hold one real vector per sequence. If both readings fit, labels belong to tokens. A string is one label,
even if it is as long as its sequence; only `per="token"` makes it a list of one-letter labels.

None and NaN mean that a token or a sequence has no label: nothing is stored or claimed there. Among integers, −100
means the same where labels belong to tokens, as loss functions have it; for a sequence it is the label −100.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from reprlib import repr as short
from typing import Any, get_args

import numpy as np

from monolayer.arrays import Array, Ints
from monolayer.data.choices import Belongs, Per
from monolayer.data.columns import NO_LABEL, Column, ColumnValues, flattened, token_place
from monolayer.data.labelling import LABEL_UNITS, LABELLINGS, SEQUENCE, TOKEN, Labelling, LabelUnit
from monolayer.data.names import Names
from monolayer.data.plain import Given, array_like, is_gap, is_list, plain_array
from monolayer.errors import DataError
from monolayer.table import plural


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of tokens or of sequences: class numbers, or real vectors.

    `values` is `(P,)` int64 with `classes` naming the numbers, or `(P, m)` float64 with `classes` None. `per` says what
    a label belongs to. `scalar` says that real labels came as plain numbers rather than vectors. `place` `(P,)` lists,
    in order, the tokens or sequences that have a label; None if all have one.
    """

    values: Array
    per: Per
    classes: Names | None
    scalar: bool = False
    place: Ints | None = None

    @property
    def labelling(self) -> LabelUnit:
        """What labels belong to."""
        return LABEL_UNITS[self.per]

    def take(self, chosen: Ints, count: int) -> Labels:
        """The labels of the tokens or sequences `chosen` (numbers, or a mask) out of `count`."""
        if self.place is None:
            return replace(self, values=self.values[chosen])
        number = np.full(count, -1)
        number[self.place] = np.arange(len(self.place))
        number = number[chosen]
        there = np.flatnonzero(number >= 0)
        return replace(self, values=self.values[number[there]], place=None if len(there) == len(number) else there)

    def decode(self, values: Array) -> Array:
        """The label values under the names that users know."""
        if self.classes is not None:
            return self.classes.decode(values)
        return values[..., 0] if self.scalar else values

    @classmethod
    def of(
        cls, Y: Given, sizes: Ints, *, padded: int | None = None, per: Per | None = None, ours: bool = False
    ) -> Labels:
        """Labels from `Y` for sequences of lengths `sizes` `(N,)`.

        `padded`: the number of labels that rows of `Y` may be padded to. `per`: what a label belongs to; by default the
        shape of `Y` decides. `ours`: whether nobody else holds `Y`, so that it needs no copy.
        """
        check_per(per)
        asked = None if per is None else LABELLINGS[per]
        Y = array_like(Y)
        if isinstance(Y, str | bytes | Mapping | Set) or not hasattr(Y, "__iter__"):
            raise DataError(f"Y is a {type(Y).__name__}: it must be a list or an array, one row per sequence")
        rows: Given = Y if plain_array(Y) else [array_like(row) for row in Y]
        if len(rows) != len(sizes):
            raise DataError(
                f"X has {plural(len(sizes), 'sequence')} but Y has {plural(len(rows), 'row')}: give one row each"
            )
        labelling: LabelUnit = SEQUENCE
        if asked is SEQUENCE:
            flat = _by_sequence(rows)
        else:
            if asked is TOKEN and any(isinstance(row, str) for row in rows):
                rows = [list(row) if isinstance(row, str) else row for row in rows]
            array = plain_array(rows)
            flat, labelling = _labels_of_array(rows, sizes, padded) if array else _labels_of_lists(rows, sizes, padded)
            if asked is TOKEN and labelling is not TOKEN:
                raise DataError(
                    f"per='token', but the labels of sequence 0 are {short(rows[0])}: give one label per token"
                )
        column = Column("label", ours=ours)
        column.add(flat, lambda i: token_place(i, sizes) if labelling.at_tokens else f"sequence {i}")
        finished = column.finish(ignored=ignored_label(labelling))
        if len(sizes) and column.kind is None:
            gaps = "None, NaN or −100" if labelling.at_tokens else "None or NaN"
            raise DataError(f"labels are missing: every one is {gaps}")
        return cls(finished.values, labelling.name, finished.names, finished.scalar, column.place)


def ignored_label(labelling: Labelling) -> int | None:
    """The integer that means that there is no label: −100 where labels belong to tokens, none elsewhere."""
    return NO_LABEL if labelling.at_tokens else None


def check_per(per: object) -> None:
    """Refuse a `per` that is neither None nor one of the choices in `Belongs`."""
    if per not in (None, *get_args(Belongs)):
        names = ", ".join(map(repr, get_args(Belongs)))
        raise DataError(f"per must be {names} or None (read off the shape of the labels), not {per!r}")


def _by_sequence(rows: Given) -> ColumnValues:
    """The labels of sequences; refuses a row that is neither a single value nor one vector of real numbers."""
    if plain_array(rows):
        if rows.ndim > 2 or (rows.ndim == 2 and rows.dtype.kind != "f"):
            raise DataError(f"per='sequence', but Y has shape {rows.shape} and type {rows.dtype}: give one label each")
        return rows
    for number, row in enumerate(rows):
        if is_list(row) and not _real(row):
            raise DataError(
                f"per='sequence', but the label of sequence {number} is {short(row)}: one label is a lone value or a "
                "vector of real numbers"
            )
    values: list[object] = rows
    return values


def _labels_of_array(Y: Array, sizes: Ints, padded: int | None) -> tuple[Array, LabelUnit]:
    """The labels in an array, flat and without padding, and what they belong to by its shape."""
    if Y.ndim == 1:
        return Y, SEQUENCE
    width = Y.shape[1]
    if Y.ndim <= 3 and (sizes == width).all():
        return Y.reshape(-1, *Y.shape[2:]), TOKEN
    if Y.ndim <= 3 and width == padded:
        return Y[np.arange(width) < sizes[:, None]], TOKEN
    if Y.ndim == 2 and Y.dtype.kind == "f":
        return Y, SEQUENCE
    if Y.ndim > 3:
        raise DataError(f"Y has shape {Y.shape}: give (N,), (N, n), (N, m) or (N, n, m)")
    raise _wrong_count(sizes, np.full(len(sizes), width))


def _labels_of_lists(rows: list[Any], sizes: Ints, padded: int | None) -> tuple[ColumnValues, LabelUnit]:
    """The labels in rows, flat and without padding, and what they belong to by the lengths of the rows."""
    bare = [not is_list(row) and is_gap(row) for row in rows]  # no label in the whole row
    nested = {number: is_list(row) for number, row in enumerate(rows) if not bare[number]}
    if not any(nested.values()):
        return rows, SEQUENCE
    first = next(iter(nested))
    if not all(nested.values()):
        odd = next(number for number, one in nested.items() if one != nested[first])
        kinds = ["a list of labels" if nested[number] else "one label" for number in (first, odd)]
        raise DataError(
            f"mixed label kinds: sequence {first} has {kinds[0]}, sequence {odd} has {kinds[1]}; label every token or "
            "every sequence"
        )
    counts = np.array([len(rows[number]) for number in nested])
    wanted = sizes[list(nested)]
    full = [[None] * size if none else row for row, none, size in zip(rows, bare, sizes.tolist(), strict=True)]
    if padded is not None and (counts == padded).all():
        full, counts = [row[:size] for row, size in zip(full, sizes.tolist(), strict=True)], wanted
    if (counts == wanted).all():
        return flattened(full), TOKEN
    if (counts == counts[0]).all() and all(_real(rows[number]) for number in nested):
        return rows, SEQUENCE
    raise _wrong_count(sizes, np.array(list(map(len, full))))


def _real(row: Given) -> bool:
    """Whether a row reads as one vector of real numbers: numbers throughout, and not all of them integers."""
    if plain_array(row):
        return bool(row.ndim == 1 and row.dtype.kind == "f")
    types = {type(array_like(value)) for value in row}
    return float in types and types <= {float, int}


def _wrong_count(sizes: Ints, counts: Ints) -> DataError:
    """The error about the first sequence whose number of labels differs from its number of tokens."""
    bad = int((sizes != counts).argmax())
    return DataError(
        f"sequence {bad} has {plural(int(sizes[bad]), 'token')} but {plural(int(counts[bad]), 'label')}: give one per "
        "token, or one per sequence; labels of padding go away with lengths="
    )
