"""The files that `monolayer predict` writes answers to, each in the format that its suffix says."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from monolayer.cli.console import json_text
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError

if TYPE_CHECKING:
    from monolayer.data.plain import Given

SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", "")
"""Suffixes of JSON Lines; the last is that of a name without any, such as /dev/stdout."""


def check_answer_file(out: Path) -> None:
    """Refuse a file whose suffix is that of another format than those that are written."""
    suffix = out.suffix.lower()
    if suffix not in (*SEPARATORS, *JSON_LINES, ".json"):
        raise DataError(
            f"{out}: answers are not written as {suffix}; the formats are .csv, .tsv, .json (a list) and .jsonl (one "
            "object per line)"
        )


@dataclass
class AnswerFile:
    """A file that is open, or standard output, and what to write into it: `write` takes one answer after another.

    `out`: the name of the file, None for standard output. `marks`: whether a table has a column that says which
    answers were seen.
    """

    out: Path | None
    file: TextIO
    marks: bool
    write: Callable[[JsonObject, Given], None] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        suffix = "" if self.out is None else self.out.suffix.lower()
        self.write = self._json_list if suffix == ".json" else self._json_line
        if suffix in SEPARATORS:
            self._table = csv.writer(self.file, delimiter=SEPARATORS[suffix], lineterminator="\n")
            self._table.writerow(["key", "answer", *(["seen"] if self.marks else []), "error"])
            self.write = self._row

    @property
    def keyed(self) -> bool:
        """Whether `write` needs the keys as they were given."""
        return self.write == self._row

    def end(self) -> None:
        """Write what belongs behind the last answer."""
        if self.write == self._json_list:
            self.file.write("\n]\n" if self._written else "[]\n")

    def _row(self, answer: JsonObject, given: Given) -> None:
        """A row of the table; `given`: the key as it was given, None if the tokens are all there is. Lists are JSON."""
        given = answer.get("tokens", answer.get("prompt")) if given is None else given
        reply = answer.get("answer", answer.get("label", answer.get("labels")))
        seen = [json.dumps(answer["seen"])] if self.marks else []
        cells = [given, reply, *seen, answer.get("error")]
        self._table.writerow(
            json.dumps(cell, ensure_ascii=False) if isinstance(cell, list | dict) else cell for cell in cells
        )

    def _json_line(self, answer: JsonObject, given: Given) -> None:
        self.file.write(json_text(answer, self.file) + "\n")

    def _json_list(self, answer: JsonObject, given: Given) -> None:
        self.file.write(("," if self._written else "[") + "\n" + json_text(answer, self.file))
        self._written += 1
