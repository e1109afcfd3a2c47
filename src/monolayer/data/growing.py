"""Sequences under way: what a reader hands over, encoded a chunk at a time.

At any moment there are at most about `CHUNK` tokens as Python objects; the rest is already row numbers,
4 bytes a string token and 8 an integer token, before the table of names is put in order once at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.data.columns import Coded, Column, Values
from monolayer.data.labels import Labels, Per
from monolayer.data.names import Names
from monolayer.errors import DataError

CHUNK = 1 << 16  # tokens, or numbers where tokens are vectors


class Growing:
    """Feed it whole sequences (`row`), tokens (`token`, `end`) or arrays (`rows`, `stretch`), then `finish`.

    `line` numbers are what error messages name.
    """

    def __init__(self, name: str, vocabulary: Names | None, tick: Callable[[], None], unit: str = "line") -> None:
        self.name, self.unit = name, unit
        self.per: Per | None = None
        self._tick = tick
        self._token_column, self._label_column = Column("token", vocabulary), Column("label")
        self._sizes = array("q")
        self._open = 0  # tokens of the sequence that has not ended yet
        self._first: int | None = None
        self._tokens: list[Any] = []
        self._labels: list[Any] = []
        self._lines: list[int] = []
        self._weight = 0
        self._whole_rows = False

    def at(self, line: int) -> str:
        """'line 7 of data.jsonl'."""
        return f"{self.unit} {line} of {self.name}"

    def row(self, line: int, tokens: Sequence[Any], labels: Any, per: Per | None) -> None:
        """One whole sequence; `labels` is a list for per token, one label for per sequence."""
        self._check(line, per, len(tokens), len(labels) if per == "token" else None)
        if per == "token":
            self._labels.extend(labels)
        elif per == "sequence":
            self._labels.append(labels)
        self._tokens.extend(tokens)
        self._lines.append(line)
        self._sizes.append(len(tokens))
        self._whole_rows = True
        vector = tokens[0] if isinstance(tokens[0], list) else labels[0] if per == "token" else labels
        self._weight += len(tokens) * (len(vector) if isinstance(vector, list) else 1)
        if self._weight >= CHUNK:
            self._flush()

    def token(self, line: int, token: Any, label: Any) -> None:
        """The next token of the sequence under way."""
        self._tokens.append(token)
        self._lines.append(line)
        if label is not None:
            self._labels.append(label)
            self.per = "token"
        self._open += 1
        if len(self._tokens) >= CHUNK:
            self._flush()

    def end(self) -> None:
        """The sequence under way, if any, ends here."""
        if self._open:
            self._sizes.append(self._open)
            self._open = 0

    def rows(
        self, line: int, tokens: Values | Coded, sizes: Ints, labels: Values | Coded | None, counts: Ints | None
    ) -> None:
        """Sequences `line, line + 1, …` at once: flat tokens with `sizes`, labels with `counts` or not."""
        self._flush()
        per: Per | None = None if labels is None else "sequence" if counts is None else "token"
        bad = int(np.argmax((sizes == 0) | (sizes != (sizes if counts is None else counts))))
        self._check(line + bad, per, int(sizes[bad]), None if counts is None else int(counts[bad]))
        starts = np.cumsum(sizes) - sizes

        def place(flat: int) -> str:
            row = int(np.searchsorted(starts, flat, side="right")) - 1
            return f"token {flat - int(starts[row])} of {self.at(line + row)}"

        self._token_column.add(tokens, place)
        if labels is not None:
            self._label_column.add(labels, place if per == "token" else lambda row: self.at(line + row))
        self._sizes.frombytes(sizes.astype(np.int64).tobytes())
        self._tick()

    def stretch(
        self, line: int, tokens: Values | Coded, labels: Values | Coded | None, starts: NDArray[np.bool_]
    ) -> None:
        """Tokens `line, line + 1, …` at once; `starts` marks those that begin a sequence."""
        self._flush()
        self._token_column.add(tokens, lambda row: self.at(line + row))
        if labels is not None:
            self.per = "token"
            self._label_column.add(labels, lambda row: self.at(line + row))
        cuts = np.flatnonzero(starts)
        if len(cuts):
            self._open += int(cuts[0])
            self.end()
            self._sizes.frombytes(np.diff(cuts).astype(np.int64).tobytes())
        self._open += len(tokens) - (int(cuts[-1]) if len(cuts) else 0)
        self._tick()

    def finish(self) -> tuple[NDArray[Any], Ints, Names | None, Labels | None]:
        """All that was read: what `Sequences` is made of."""
        self.end()
        self._flush()
        if not self._sizes:
            raise DataError(f"{self.name} is empty: there is no sequence in it")
        tokens, names, _ = self._token_column.finish()
        labels = None
        if self.per is not None:
            values, classes, scalar = self._label_column.finish()
            labels = Labels(values, self.per, classes, scalar)
        return tokens, np.array(self._sizes, dtype=np.int64), names, labels

    def _check(self, line: int, per: Per | None, size: int, count: int | None) -> None:
        """A sequence has tokens, as many labels as tokens, and labels where and as the first one has."""
        if size == 0:
            raise DataError(f"{self.at(line)} is an empty sequence: every sequence needs a token")
        if self._first is None:
            self._first, self.per = line, per
        if per != self.per:
            if per is None or self.per is None:
                bare, full = (line, self._first) if per is None else (self._first, line)
                raise DataError(
                    f"{self.at(bare)} has no label, but {self.unit} {full} has: label every sequence, or none"
                )
            raise DataError(
                f"mixed label kinds: {self.unit} {self._first} has one label a {self.per}, {self.at(line)} "
                f"one a {per}; label every token or every sequence"
            )
        if count is not None and count != size:
            raise DataError(f"{self.at(line)} has {size} tokens but {count} labels: give one a token")

    def _flush(self) -> None:
        """Encode the chunk at hand."""
        if not self._lines:
            return
        lines = self._lines
        sizes = self._sizes[len(self._sizes) - len(lines) :] if self._whole_rows else None

        def place(flat: int) -> str:
            if sizes is None:
                return self.at(lines[flat])
            starts = np.cumsum(sizes) - np.array(sizes)
            row = int(np.searchsorted(starts, flat, side="right")) - 1
            return f"token {flat - int(starts[row])} of {self.at(lines[row])}"

        self._token_column.add(self._tokens, place)
        self._label_column.add(self._labels, place if self.per == "token" else lambda row: self.at(lines[row]))
        self._tokens, self._labels, self._lines, self._weight = [], [], [], 0
        self._tick()
