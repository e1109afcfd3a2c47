"""Sequences under way: what a reader hands over, encoded a chunk at a time.

At any moment there are at most about `CHUNK` tokens as Python objects; the rest is already row numbers,
4 bytes per string token and 8 per integer token, before the table of names is put in order once at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Ints
from monolayer.data.columns import Coded, Column, Values, token_place
from monolayer.data.labels import Labels, Per
from monolayer.data.names import Names, Unit
from monolayer.errors import DataError
from monolayer.table import plural

GAP: Any = object()
"""In the place of a label, or of the labels of a row: there is none."""
CHUNK = 1 << 16  # tokens, or numbers where tokens are vectors
Parts = tuple[NDArray[Any], Ints, Names | None, Labels | None, Ints | None]
"""What `Sequences` is made of."""


class Growing:
    """Feed it sequences (`row`, `rows`), or tokens (`token` and `end`, `stretch`), then `finish`.

    `line` numbers are what error messages name.
    """

    def __init__(self, name: str, vocabulary: Names | None, tick: Callable[[], None], unit: str = "line") -> None:
        self.name, self.unit = name, unit
        self.per: Per | None = None
        self.cut: Unit | None = None
        """What strings were cut into; None: there were none."""
        self.before_end: Callable[[], None] = lambda: None
        self._tick = tick
        self._token_column, self._label_column = Column("token", vocabulary), Column("label")
        self._sizes = array("q")
        self._open = 0  # tokens of the sequence that has not ended yet
        self._first: int | None = None
        self._gaps: list[int] = []  # sequences without a label
        self._prompts = array("q")  # tokens of the prompt of each sequence, where they have one
        self._whole = False  # whether lines are whole sequences, not tokens
        # The chunk at hand, as Python objects.
        self._tokens: list[Any] = []
        self._labels: list[Any] = []
        self._lines: list[int] = []
        self._weight = 0

    def at(self, line: int) -> str:
        """'line 7 of data.jsonl'."""
        return f"{self.unit} {line} of {self.name}"

    def row(self, line: int, tokens: Sequence[Any], labels: Any, per: Per | None) -> None:
        """One whole sequence; `labels` is a list for per token, one label for per sequence, or `GAP`."""
        if len(tokens) == 0:
            raise DataError(f"{self.at(line)} is an empty sequence: every sequence needs a token")
        if labels is GAP:
            self._gaps.append(len(self._sizes))
        else:
            self._agree(line, per)
        if per == "token":
            if len(labels) != len(tokens):
                raise DataError(
                    f"{self.at(line)} has {plural(len(tokens), 'token')} but {plural(len(labels), 'label')}: "
                    "give one per token"
                )
            self._labels.extend(labels)
        elif per == "sequence":
            self._labels.append(labels)
        self._tokens.extend(tokens)
        self._lines.append(line)
        self._sizes.append(len(tokens))
        self._whole = True
        vector = tokens[0] if isinstance(tokens[0], list) else labels[0] if per == "token" else labels
        self._weight += len(tokens) * (len(vector) if isinstance(vector, list) else 1)
        if self._weight >= CHUNK:
            self._flush()

    def answer(self, line: int, prompt: list[str], answer: list[str]) -> None:
        """One prompt with its answer, which may be missing."""
        self._prompts.append(len(prompt))
        self.row(line, prompt + answer, None, None)

    def token(self, line: int, token: Any, label: Any) -> None:
        """The next token of the sequence under way."""
        self._tokens.append(token)
        self._lines.append(line)
        if label is not None:
            self._labels.append(None if label is GAP else label)
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
        self, lines: Sequence[int], tokens: Values | Coded, sizes: Ints, labels: Values | Coded | None, per: Per | None
    ) -> None:
        """Whole sequences at once: tokens, sequence after sequence, their lengths, and as many labels as `per` asks."""
        self._flush()
        self._agree(lines[0], per)
        self._add(lines, tokens, sizes, labels)
        self._sizes.frombytes(sizes.astype(np.int64).tobytes())

    def stretch(
        self, lines: Sequence[int], tokens: Values | Coded, labels: Values | Coded | None, starts: Bools
    ) -> None:
        """Tokens at once; `starts` marks those that begin a sequence."""
        self._flush()
        self.per = self.per if labels is None else "token"
        self._add(lines, tokens, None, labels)
        cuts = np.flatnonzero(starts)
        if len(cuts):
            self._open += int(cuts[0])
            self.end()
            self._sizes.frombytes(np.diff(cuts).astype(np.int64).tobytes())
        self._open += len(tokens) - (int(cuts[-1]) if len(cuts) else 0)

    def finish(self) -> Parts:
        """All that was read: what `Sequences` is made of."""
        self.before_end()
        self.end()
        self._flush()
        if not self._sizes:
            raise DataError(f"{self.name} is empty: there is no sequence in it")
        tokens, names, _ = self._token_column.finish()
        if names is not None and self._token_column.vocabulary is None:
            names = names.cut_into(self.cut)
        labels = None
        if self.per is not None:
            values, classes, scalar = self._label_column.finish()
            if self._label_column.kind is not None:
                labels = Labels(values, self.per, classes, scalar, self._places(self._label_column.place))
        prompts = np.array(self._prompts, dtype=np.int64) if self._prompts else None
        return tokens, np.array(self._sizes, dtype=np.int64), names, labels, prompts

    def _places(self, found: Ints | None) -> Ints | None:
        """Which tokens or sequences have a label, `found` being those of the sequences that are not gaps."""
        if not self._gaps:
            return found
        there = np.ones(len(self._sizes), dtype=bool)
        there[self._gaps] = False
        places = np.flatnonzero(there if self.per == "sequence" else np.repeat(there, self._sizes))
        return places if found is None else places[found]

    def _agree(self, line: int, per: Per | None) -> None:
        """A sequence has labels where and as the first one has."""
        if self._first is None:
            self._first, self.per = line, per
        if per == self.per:
            return
        if per is None or self.per is None:
            bare, full = (line, self._first) if per is None else (self._first, line)
            raise DataError(
                f"{self.at(bare)} has no label, but {self.unit} {full} has: label every sequence, or none. In JSON and "
                "Parquet, null says that there is none on purpose"
            )
        raise DataError(
            f"mixed label kinds: {self.unit} {self._first} has one label per {self.per}, {self.at(line)} "
            f"one per {per}; label every token or every sequence"
        )

    def _add(
        self,
        lines: Sequence[int],
        tokens: Values | Coded,
        sizes: Ints | None,
        labels: Values | Coded | None,
        gaps: Sequence[int] = (),
    ) -> None:
        """Encode tokens and labels; `lines` has one number per sequence where there are `sizes`, else one per token.

        `gaps`: which of these sequences have no labels.
        """

        def line(row: int) -> str:
            return self.at(lines[row])

        def token(flat: int) -> str:
            return line(flat) if sizes is None else token_place(flat, sizes, line)

        self._token_column.add(tokens, token)
        if labels is not None:
            if gaps and sizes is not None:  # labels are those of the other sequences
                kept = np.delete(np.arange(len(lines)), gaps)
                lines, sizes = [lines[row] for row in kept.tolist()], sizes[kept]
            self._label_column.add(labels, token if self.per == "token" else line)
        self._tick()

    def _flush(self) -> None:
        """Encode the chunk at hand."""
        if self._lines:
            sizes = np.array(self._sizes[-len(self._lines) :]) if self._whole else None
            first = len(self._sizes) - len(self._lines)
            gaps = [row - first for row in self._gaps if row >= first] if self._whole else []
            self._add(self._lines, self._tokens, sizes, self._labels, gaps)
            self._tokens, self._labels, self._lines, self._weight = [], [], [], 0
