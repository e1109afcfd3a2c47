"""Where sequences stand in the files that they were read from, so that errors about them can name the place.

Sequences are numbered from 0, as Python counts, and lines from 1, as editors do. Rows of Parquet files and items of
JSON arrays are numbered from 0, as the libraries that show them do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Ints


class SourceFile(NamedTuple):
    """A file by its `name`; `unit`: what its places are called, `line`, `row` or `item`."""

    name: str
    unit: str


@dataclass(frozen=True, eq=False)
class Origin:
    """The places of sequences in files, in runs: `first`, `number` and `file` `(R,)` have one entry per run.

    Run `r` begins with sequence `first[r]` at place `number[r]` of `files[file[r]]`, and each further sequence stands
    one place further. Most files are one run, so that this takes hardly any memory.
    """

    first: Ints
    number: Ints
    file: Ints
    files: tuple[SourceFile, ...]

    @classmethod
    def of(cls, places: Ints, file: Ints, files: tuple[SourceFile, ...]) -> Origin:
        """The origin of sequences that stand at these `places` `(N,)`, each in one of the `files`."""
        first = run_starts(places, file)
        return cls(first, places[first], file[first], files)

    @classmethod
    def joined(cls, parts: Iterable[tuple[Origin | None, int]]) -> Origin | None:
        """The origin of datasets one after the other, each given with its number of sequences; None if one has none."""
        runs: list[tuple[Ints, Ints, Ints]] = []
        files: list[SourceFile] = []
        before = 0
        for origin, count in parts:
            if origin is None:
                return None
            runs.append((origin.first + before, origin.number, origin.file + len(files)))
            files += origin.files
            before += count
        first, number, file = (np.concatenate(each) for each in zip(*runs, strict=True))
        return cls(first, number, file, tuple(files))

    def select(self, rows: Ints) -> Origin:
        """The origin of the sequences `rows` (numbers from 0), in that order."""
        run = np.searchsorted(self.first, rows, side="right") - 1
        return Origin.of(self.number[run] + rows - self.first[run], self.file[run], self.files)

    def place(self, row: int) -> str:
        """Where sequence `row` stands, such as 'line 7 of data.jsonl'."""
        run = int(np.searchsorted(self.first, row, side="right")) - 1
        file = self.files[int(self.file[run])]
        return f"{file.unit} {int(self.number[run]) + row - int(self.first[run])} of {file.name}"


def run_starts(places: Ints, file: Ints | None = None) -> Ints:
    """The indices at which runs of consecutive places in one file begin; without `file`, all are in the same one."""
    new = np.ones(len(places), dtype=bool)
    new[1:] = np.diff(places) != 1
    if file is not None:
        new[1:] |= np.diff(file) != 0
    return np.flatnonzero(new)


class GrowingOrigin:
    """An origin that grows while one file is read."""

    def __init__(self) -> None:
        self._first: list[Ints] = []
        self._number: list[Ints] = []

    def add(self, before: int, lines: Sequence[int]) -> None:
        """Add sequences that stand on these lines; `before`: how many there were before."""
        places = np.asarray(lines, dtype=np.int64)
        first = run_starts(places)
        self._first.append(first + before)
        self._number.append(places[first])

    def finish(self, file: SourceFile) -> Origin:
        """The origin of all sequences that were added, in `file`."""
        first, number = np.concatenate(self._first), np.concatenate(self._number)
        return Origin(first, number, np.zeros(len(first), np.int64), (file,))
