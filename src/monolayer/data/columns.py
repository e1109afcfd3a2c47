"""One column of the data, tokens or labels: values of one kind, checked and encoded a chunk at a time.

There are four kinds. Integers and strings are names, and become row numbers of a table. Real numbers and real vectors
stay what they are. Tokens are integers, strings or vectors. Labels are of any kind, and integers among real numbers
count as real numbers. −0.0 is stored as 0.0: the two are equal, so they must have equal bits too. An integer among real
numbers is refused if float64 cannot represent it, because it would be rounded.

None and NaN mean that there is no label. So does −100 among the labels of tokens, the index that loss functions ignore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from reprlib import repr as short
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Bools, Ints
from monolayer.data.names import NameBuilder, Names
from monolayer.data.plain import array_like, is_gap, is_list, plain_array
from monolayer.data.subnormal import check_subnormals_count, holds_subnormals, without_negative_zeros
from monolayer.errors import DataError
from monolayer.table import plural

NO_LABEL = -100
"""The label of tokens that loss functions ignore: it means "no label"."""
EXACT = 2**53
"""float64 represents every integer up to this size exactly."""
NamePlace = Callable[[int], str]
"""Says in words which token or sequence value `i` of a chunk belongs to."""
ColumnValues = list[Any] | Array


@dataclass(frozen=True, eq=False)
class Coded:
    """Strings in coded form: value `i` is `names[rows[i]]`. Every name is used at least once."""

    names: list[str]
    rows: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.rows)


INTEGER, STRING, REAL, VECTOR = "an integer", "a string", "a real number", "a real vector"
_NEEDED = {
    "token": "a token is an integer, a string or a vector of real numbers (write [0.5] for one number)",
    "label": "a label is an integer, a string, a real number or a vector of real numbers",
}


def token_place(flat: int, sizes: Ints, name: Callable[[int], str] = "sequence {}".format) -> str:
    """Describe the place `flat` in the flat arrays as 'token k of sequence i'.

    `sizes` `(N,)` are the lengths of the sequences, and `name` describes sequence `i` in words.
    """
    ends = np.cumsum(sizes)
    row = int(np.searchsorted(ends, flat, side="right"))
    return f"token {flat - int(ends[row] - sizes[row])} of {name(row)}"


def flattened(rows: list[Any]) -> ColumnValues:
    """Concatenate lists or arrays: into an array if all of them are arrays of one kind, else into a list."""
    if all(map(plain_array, rows)) and len({(row.dtype.kind, row.shape[1:]) for row in rows}) == 1:
        return np.concatenate(rows)
    return list(chain.from_iterable(rows))


def _kind_of_type(of: type) -> str | None:
    """Which of the four kinds values of a Python type are; None if they are neither tokens nor labels."""
    if issubclass(of, str):
        return STRING
    if issubclass(of, int):
        return INTEGER
    if issubclass(of, float):
        return REAL
    return VECTOR if issubclass(of, list | tuple | np.ndarray) else None


class FinishedColumn(NamedTuple):
    """The encoded values of a column: `(K,)` int64 with their names, or `(K, m)` float64 with `names` None.

    `scalar`: whether real values came as plain numbers rather than vectors.
    """

    values: Array
    names: Names | None
    scalar: bool = False


class Column:
    """A column that grows chunk by chunk with `add`; `finish` returns the frozen values and their names.

    `what`: whether the values are tokens or labels. `ours`: whether nobody else holds the arrays that are added, so
    that they need no copy.
    """

    def __init__(self, what: Literal["token", "label"], *, ours: bool = False) -> None:
        self.what, self.ours = what, ours
        self.kind: str | None = None
        self._first: object = None
        self._dim: int | None = None
        self._names = NameBuilder()
        self._parts: list[Array] = []
        self._count = 0
        self._gaps: list[Ints] = []
        self._ends: list[int] = []  # the least and the largest integer of each chunk
        self._rounding_error = ""  # the error to raise if real numbers follow an integer that float64 would round
        self.place: Ints | None = None
        """After `finish`: which of the added values are labels rather than gaps; None if all are."""

    def add(self, values: ColumnValues | Coded, place: NamePlace) -> None:
        """Append values: a list, an array with one value per row, or coded strings. `place` locates them for errors."""
        if len(values) == 0:
            return

        def spot(value: int) -> str:
            flat = place(value if there is None else int(there[value]))
            return f"the label of {flat}" if self.what == "label" else flat

        there, count = None, self._count
        self._count += len(values)
        if isinstance(values, Coded):
            rows = values.rows
            self._agree([values.names[rows[0]]], {STRING}, spot)
            self._parts.append(self._numbers_of_names(values.names).take(rows))
            return
        values = values if plain_array(values) else _plain_list(values)
        if self.what == "label" and (gap := _gaps(values)) is not None:
            there = np.flatnonzero(~gap)
            self._gaps.append(count + np.flatnonzero(gap))
            values = values[there] if isinstance(values, np.ndarray) else [values[i] for i in there.tolist()]
            if len(values) == 0:
                return
        values, kinds = self._sort_out(values, spot)
        self._agree(values, kinds, spot)
        if STRING in kinds:
            self._parts.append(self._numbers_of_names(list(values)))
        elif INTEGER in kinds and self.kind == INTEGER:
            self._parts.append(self._integers(values, spot))
        else:
            self._parts.append(self._reals(values, spot))

    def skip(self, count: int) -> None:
        """Append `count` places that have no label."""
        if count:
            self._gaps.append(self._count + np.arange(count))
            self._count += count

    def finish(self, ignored: int | None = None) -> FinishedColumn:
        """Everything that was added, encoded. This also sets `place`.

        `ignored`: the integer that means that there is no label; None if every integer is a label.
        """
        if self.kind is None:
            return FinishedColumn(np.zeros(0, np.int64), Names(range(0)))
        flat = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        self._parts.clear()
        if self._gaps:
            self.place = np.delete(np.arange(self._count), np.concatenate(self._gaps))
        ends = (min(self._ends), max(self._ends)) if self._ends else None
        possible = ignored is not None and self.kind == INTEGER and ends is not None and ends[0] <= ignored <= ends[1]
        if possible and (gaps := flat == ignored).any():
            ends = None
            self.place = (np.arange(self._count) if self.place is None else self.place)[~gaps]
            flat = flat[~gaps]
            if len(flat) == 0:
                self.kind = None
                return FinishedColumn(flat, Names(range(0)))
        if self.kind == VECTOR:
            return FinishedColumn(flat, None)
        if self.kind == REAL:
            return FinishedColumn(flat.astype(np.float64)[:, None], None, scalar=True)
        names, rows = Names.of_integers(flat, ends) if self.kind == INTEGER else self._names.freeze(flat)
        return FinishedColumn(rows, names)

    def _sort_out(self, values: ColumnValues, spot: NamePlace) -> tuple[ColumnValues, set[str]]:
        """Return the values as a list or an array of numbers, with the kinds that occur among them."""
        if isinstance(values, np.ndarray):
            letter = values.dtype.kind
            if values.ndim == 1 and letter in "UT":
                return values.tolist(), {STRING}
            if values.ndim == 1 and letter in "iub":
                return values, {INTEGER}
            if values.ndim in (1, 2) and letter in "iubf" and values.itemsize <= 8:
                return values, {REAL if values.ndim == 1 else VECTOR}
            raise DataError(f"{spot(0)} is of type {values.dtype}: {_NEEDED[self.what]}, of at most 64 bits")
        kinds = {_kind_of_type(of) for of in set(map(type, values))}
        if None in kinds:
            bad = next(i for i, value in enumerate(values) if _kind_of_type(type(value)) is None)
            raise DataError(f"{spot(bad)} is {short(values[bad])} ({type(values[bad]).__name__}): {_NEEDED[self.what]}")
        return values, {kind for kind in kinds if kind is not None}

    def _agree(self, values: ColumnValues, kinds: set[str], spot: NamePlace) -> None:
        """Refuse values that are not of the kind of the first one; labels may mix integers and real numbers."""
        if self.kind is None:
            first = array_like(values[0])
            self._first = first.tolist() if isinstance(first, np.ndarray) else first
            self.kind = _kind_of_type(type(first))
        if self.what != "label" and self.kind == REAL:
            raise DataError(f"{spot(0)} is {self._first!r} (a real number): {_NEEDED['token']}")
        allowed = {INTEGER, REAL} if self.what == "label" and self.kind in (INTEGER, REAL) else {self.kind}
        if not kinds <= allowed:
            odd = next(i for i, value in enumerate(values) if _kind_of_type(type(array_like(value))) not in allowed)
            kind = _kind_of_type(type(array_like(values[odd])))
            raise DataError(
                f"mixed {self.what} kinds: the first {self.what} is {self.kind} ({short(self._first)}), "
                f"{spot(odd)} is {kind} ({short(array_like(values[odd]))}); use one kind throughout"
            )
        if REAL in kinds:
            self.kind = REAL
            if self._rounding_error:
                raise DataError(self._rounding_error)

    def _numbers_of_names(self, names: list[str]) -> NDArray[np.int32]:
        """The number of each name in the order of first appearance."""
        # 32 bits are enough: a table of 2^31 names would not fit in memory.
        return np.array(self._names.encode(names), dtype=np.int32)

    def _integers(self, values: ColumnValues, spot: NamePlace) -> Ints:
        """The values as an int64 array, copied unless `ours`, since the caller may go on changing the original."""
        try:
            if isinstance(values, np.ndarray) and values.dtype == np.uint64:
                values = values.tolist() if int(values.max()) > np.iinfo(np.int64).max else values
            integers = np.array(values, dtype=np.int64, copy=None if self.ours else True)
        except OverflowError:
            bad = next(i for i, value in enumerate(values) if not -(2**63) <= value < 2**63)
            raise DataError(f"{spot(bad)} is {short(values[bad])}, beyond 63 bits: make it a string") from None
        # In an array of short integers the ends are found in a fraction of the time.
        seen = values if isinstance(values, np.ndarray) else integers
        low, high = int(seen.min()), int(seen.max())
        self._ends += [low, high]
        if self.what == "label" and not self._rounding_error and (high > EXACT or low < -EXACT):
            odd = next((i for i, value in enumerate(integers.tolist()) if not _is_exact(value)), None)
            self._rounding_error = "" if odd is None else _would_be_rounded(spot(odd), int(integers[odd]))
        if self.what != "label" and low < 0:
            raise DataError(
                f"{spot(int(integers.argmin()))} has id {low}: ids below zero are not allowed; cut padding off "
                "with lengths, or make the tokens strings"
            )
        return integers

    def _reals(self, values: ColumnValues, spot: NamePlace) -> NDArray[np.float64]:
        """The values as a float64 array of numbers or of vectors; an error names one that does not fit."""
        if self.kind == VECTOR and self._dim is None:
            self._dim = len(values[0])
        try:
            array = np.asarray(values)
        except (ValueError, OverflowError):  # vectors of several lengths, integers beyond all floats
            array = np.zeros(0, object)
        shape = () if self._dim is None else (self._dim,)
        if array.shape[1:] != shape or 0 in shape or array.dtype.kind not in "iubf" or array.itemsize > 8:
            bad = next((i for i, value in enumerate(values) if any(_beyond(one) for one in _numbers_in(value))), None)
            if bad is not None:
                raise DataError(f"{spot(bad)} is {short(values[bad])}, beyond 63 bits: give it as a real number")
            bad = next((i for i, value in enumerate(values) if not _is_vector(value, self._dim)), 0)
            numbers = plural(self._dim or 1, "number")
            raise DataError(f"{spot(bad)} is {short(values[bad])}, not a vector of {numbers}: give all one dimension")
        finite = np.isfinite(array) if array.ndim == 1 else np.isfinite(array).all(axis=1)
        if not finite.all():
            bad = int((~finite).argmax())
            raise DataError(f"{spot(bad)} is {short(array[bad].tolist())}: NaN and infinity are not allowed")
        if array.dtype.kind == "f" and array.itemsize < 8 and holds_subnormals(array):
            check_subnormals_count(f"a {self.what} of type {array.dtype} is one of them")  # the next line would lose it
        reals: NDArray[np.float64] = without_negative_zeros(array.astype(np.float64))
        may_hold_integers = array.dtype.kind in "iub" or not isinstance(values, np.ndarray)
        if may_hold_integers and np.abs(reals).max() >= EXACT:
            for place, value in enumerate(values):
                rounded = next((number for number in _numbers_in(value) if not _is_exact(number)), None)
                if rounded is not None:
                    raise DataError(_would_be_rounded(spot(place), rounded))
        return reals


def _is_exact(number: Any) -> bool:
    """Whether float64 represents a number exactly; Python compares an integer and a float without rounding."""
    return bool(float(number) == number)


def _beyond(number: object) -> bool:
    """Whether a value is an integer that int64 cannot hold."""
    return isinstance(number, int) and not -(2**63) <= number < 2**63


def _numbers_in(value: Any) -> list[Any]:
    """The numbers of a vector, or a single number in a list, as Python values."""
    return [array_like(one) for one in value] if is_list(value) else [array_like(value)]


def _would_be_rounded(spot: str, number: int) -> str:
    """The error message for an integer among real numbers that float64 would round."""
    return (
        f"{spot} is {number} among real numbers, and float64 does not hold it (the nearest is {float(number):.0f}): "
        "round it, or, where labels are classes, make every one of them an integer or a string"
    )


def _is_vector(value: Any, dim: int | None) -> bool:
    """Whether a value is a vector of `dim` real numbers."""
    numbers = is_list(value) and all(isinstance(one, int | float | np.integer | np.floating) for one in value)
    return numbers and len(value) == dim


def _plain_list(values: ColumnValues) -> list[Any]:
    """The values as a list in which tensors and NumPy scalars have become arrays and Python numbers."""
    types = set(map(type, values))
    odd = any(hasattr(of, "__array__") or hasattr(of, "detach") for of in types)
    return [array_like(value) for value in values] if odd else list(values)


def _gaps(values: ColumnValues) -> Bools | None:
    """A mask of the values that mean "no label"; None if there are none."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f" or values.ndim > 2:
            return None
        gap = np.asarray(np.isnan(values).reshape(len(values), -1).all(axis=1))
    elif set(map(type, values)) <= {str, int, bool}:
        return None
    else:
        gap = np.fromiter(map(is_gap, values), bool, len(values))
    return gap if gap.any() else None
