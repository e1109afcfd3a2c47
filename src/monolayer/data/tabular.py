"""Tables, in long form (one token a row) or wide form (one sequence a row).

Long: a `sequence` column, whose runs of equal values are the sequences, a `token` column, maybe a `label`
column. Wide: a `tokens` column, maybe `labels` (one a token) or `label` (one a sequence). Text cells of
`tokens` and `labels` are split at whitespace. CSV is read here, Parquet in `parquet.py`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.data.growing import Growing
from monolayer.data.labels import Per
from monolayer.data.layout import Columns, Layout, Unit
from monolayer.data.lines import Lines
from monolayer.errors import DataError


def cut_text(text: str, unit: Unit) -> list[str]:
    """Text as tokens: its words, or its characters."""
    return text.split() if unit == "words" else list(text)


def label_words(text: str, count: int) -> list[str]:
    """Text as the labels of `count` tokens: its words, or the letters of its only word."""
    words = text.split()
    return list(words[0]) if len(words) == 1 and count != 1 else words


class Wide:
    """Rows of wide form as Python values.

    A column called `label` holds one label a sequence. Text in a column called `labels` is one word a token.
    Text in a column of another name is either, and the first row that can tell says which: until then every
    row has had one token and one word, which is the same thing in both readings. The caller may say it (`per`).
    """

    def __init__(self, growing: Growing, layout: Layout) -> None:
        self._growing, self._column, self._layout = growing, layout.label, layout
        self._per = {None: None, "label": "sequence", "labels": "token"}.get(layout.label, "unknown")

    def row(self, line: int, tokens: Any, label: Any) -> None:
        words = cut_text(tokens, self._layout.unit) if isinstance(tokens, str) else [] if tokens is None else tokens
        if not isinstance(words, list):
            where = f"{self._growing.at(line)}, column {self._layout.token!r}"
            raise DataError(f"{where}, holds {words!r}: it must be a list, or text with words in it")
        if self._per is None or label is None:
            self._growing.row(line, words, None, None)
        elif self._layout.per is not None:
            self._asked(line, words, label, self._layout.per)
        elif self._column == "label":
            label = label.strip() if isinstance(label, str) else label
            self._growing.row(line, words, label, None if label == "" else "sequence")
        elif isinstance(label, str):
            self._text(line, words, label.split())
        else:
            self._growing.row(line, words, label, "token" if isinstance(label, list) else "sequence")

    def _asked(self, line: int, words: Any, label: Any, per: Per) -> None:
        """A row whose labels belong to what the caller said."""
        if per == "token" and isinstance(label, str):
            label = label_words(label, len(words))
        elif isinstance(label, str):
            label = label.strip()
        if per == "token" and not isinstance(label, list):
            raise DataError(f"{self._growing.at(line)} has the label {label!r}: with per='token', give one a token")
        self._growing.row(line, words, label, None if label in ("", []) else per)

    def _text(self, line: int, words: list[Any], labels: list[str]) -> None:
        if self._per == "unknown" and (len(words), len(labels)) != (1, 1) and len(labels) in (1, len(words)):
            self._per = "token" if len(labels) == len(words) else "sequence"
            # Rows so far had one token and one label each.
            if self._growing.per is not None:
                self._growing.per = self._per  # type: ignore[assignment]  # "unknown" was ruled out above
        if self._per == "sequence" and len(labels) == 1:
            self._growing.row(line, words, labels[0], "sequence")
        elif self._per == "sequence" and labels:
            raise DataError(
                f"{self._growing.at(line)} has {len(labels)} words in column {self._column!r}, which so far "
                "held one label a sequence; only a column called 'label' may hold labels of several words"
            )
        else:
            self._growing.row(line, words, labels, "token" if labels else None)


# -- CSV -----------------------------------------------------------------------------------------------


@contextmanager
def _long_cells() -> Iterator[None]:
    """A cell may be one long sequence; the csv module's limit is for the whole process, so put it back."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def read_table(
    lines: Lines, growing: Growing, columns: Columns, *, tabs: bool, blocks: Callable[..., None] | None = None
) -> None:
    """A table with a header line: comma-separated with quotes, or tab-separated with none.

    `blocks` reads what it can of the rows; those that it leaves are read one by one.
    """
    with _long_cells():
        records = _records(lines, tabs)
        header = next(records, None)
        if header is None:
            return
        names = [name.strip() for name in header[1]]
        layout = Layout.of(columns, names, lines.name)
        where = [None if name is None else names.index(name) for name in (layout.sequence, layout.token, layout.label)]
        at_sequence, at_token, at_label = where
        assert at_token is not None
        wide, runs = Wide(growing, layout), Runs(growing)
        if blocks is not None and columns.plain:
            blocks(lines, growing, names, layout, wide, runs, tabs)
        for number, record in records:
            if len(record) != len(names):
                message = f"{growing.at(number)} has {len(record)} columns, the header has {len(names)}"
                if len(record) < len(names) and lines.last():
                    raise lines.cut(message)
                raise DataError(f"{message}: give every row the same columns, and quote cells that hold a comma")
            label = None if at_label is None else record[at_label]
            if at_sequence is None:
                wide.row(number, record[at_token], label)
                continue
            if runs.begins(record[at_sequence], number):
                growing.end()
            if not record[at_token] or label == "":
                raise DataError(f"{growing.at(number)} has an empty {'label' if record[at_token] else 'token'}")
            growing.token(number, record[at_token], label)


def _records(lines: Lines, tabs: bool) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line that each begins on; blank lines are passed over."""
    reader = csv.reader(lines, "excel-tab", quoting=csv.QUOTE_NONE) if tabs else csv.reader(lines, strict=True)
    while True:
        number = lines.number + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise lines.cut(f"a quote opened in the row of line {number} is not closed") from None
            raise DataError(
                f"line {number} of {lines.name} is not CSV ({error}): put quotes around cells that hold "
                "quotes, and double the quotes inside"
            ) from None
        if record:
            yield number, record


class Runs:
    """The sequences of a long table are runs of equal values; a value that comes back is an error."""

    def __init__(self, growing: Growing) -> None:
        self._growing = growing
        self._seen: set[Any] = set()
        self._last: Any = self  # equal to no value of a file

    def begins(self, value: Any, line: int) -> bool:
        """Whether a new sequence begins with this value."""
        if value == self._last:
            return False
        if value is None or value == "" or value != value:  # NaN
            raise DataError(f"{self._growing.at(line)} does not say which sequence it belongs to")
        if value in self._seen:
            raise DataError(
                f"{self._growing.at(line)}: sequence {value!r} comes back after another one. Rows of a "
                "sequence must stand together: sort the file, or give each sequence its own name"
            )
        self._seen.add(value)
        self._last = value
        return True

    def begin_all(self, values: list[Any], line: int, at: Ints) -> NDArray[np.bool_]:
        """`begins` for values that change from one to the next, in rows `line + at`: all at once if all are new."""
        new = set(values[1:])
        if len(new) < len(values) - 1 or new & {None, "", values[0]} or not new.isdisjoint(self._seen):
            return np.array([self.begins(value, line + row) for value, row in zip(values, at.tolist(), strict=True)])
        begun = np.ones(len(values), dtype=bool)
        begun[0] = self.begins(values[0], line + int(at[0]))  # it may go on from the rows before
        self._seen |= new
        self._last = values[-1]
        return begun
