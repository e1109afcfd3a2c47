"""A second reading of the caller's files, row by row, from the plans that the reader states.

A plan says how a file holds its rows and which of its columns were read (`data/plan.py`), so this code guesses nothing,
and it shares nothing with the reader. Files are read a line or a batch at a time, so that memory does not grow with
them. Only npz files, and JSON files of one array or object, are held whole, as the reader holds them. When this code
runs, the reader has accepted the data. So it has no messages about bad data: any failure is a difference between the
two readings.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array
from monolayer.checker.given import DataComparison, confirm_arrays, confirm_rows, confirm_texts, fault
from monolayer.checker.rows import ROWS, Row, cells_of_object, check_names, key, second_look
from monolayer.data import Sequences
from monolayer.data.plan import ReadPlan

_LINE_ENDS = re.compile(r"[\r\n]*")


def confirm_files(data: Sequences, files: list[str]) -> None:
    """Raise an error unless `data` hold exactly what is in the files, one after the other, read as their plans say."""
    if "-" in files:  # standard input cannot be read twice
        return
    with second_look(", ".join(files)):
        sources = list(zip(files, data.plans, strict=True))
        if data.prompts is not None:
            rows = chain.from_iterable(_rows_of_file(file, plan) for file, plan in sources)
            confirm_texts(data, rows, data.plans)
            return
        comparison = DataComparison(data)
        for file, plan in sources:
            if plan.format == "npz":
                _confirm_npz(comparison, file, plan)
            elif plan.format == "parquet":
                _confirm_parquet(comparison, file, plan)
            else:
                confirm_rows(comparison, _rows_of_file(file, plan), plan)
        comparison.finish()


def _rows_of_file(file: str, plan: ReadPlan) -> Iterator[Row]:
    """The rows of a file that is neither npz nor too large for Python objects."""
    if plan.format in ("conll", "conllu"):
        return _conll(file, plan)
    if plan.format == "parquet":
        return chain.from_iterable(_arrow_rows(*columns) for columns in _parquet(file, plan))
    if plan.format == "text":
        return ((line.rstrip("\r\n"), None) for line in _text_lines(file))
    if plan.format in ("csv", "tsv"):
        return _cells_of_records(file, plan)
    return map(key, _json_rows(file, plan))


def _text_lines(file: str) -> Iterator[str]:
    """The lines of a text file, which may be gzipped. Only a line feed ends a line; a byte-order mark is left out."""
    opened: Any = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", newline="\n") as text:
        yield from text


def _json_rows(file: str, plan: ReadPlan) -> Iterator[Row]:
    """The rows of JSON Lines, of one JSON array, or of one object."""
    if plan.format == "jsonl":
        yield from (cells_of_object(json.loads(line), plan) for line in _text_lines(file) if not line.isspace())
        return
    opened: Any = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig") as text:
        whole = json.load(text)
    if plan.format == "json object":
        yield from whole.items()
    elif plan.format == "json pairs":
        yield from map(tuple, whole)
    else:
        yield from (cells_of_object(row, plan) for row in ([whole] if plan.format == "json row" else whole))


def _cells_of_records(file: str, plan: ReadPlan) -> Iterator[Row]:
    """The cells of a CSV or TSV file in the columns of the plan. A header must have the names that the plan gives."""
    columns = [column for column in (plan.key, plan.label) if column is not None]
    records = _records(file, plan)
    if plan.header:
        check_names([name.strip() for name in next(records)], columns)
    for record in records:
        tokens, label = [record[column.number] or None for column in columns] + [None] * (2 - len(columns))
        yield key((tokens, label))


def _records(file: str, plan: ReadPlan) -> Iterator[list[str]]:
    """The rows of a CSV file, or of a TSV file, which has no quotes; the header first, without blank lines."""
    assert plan.separator is not None  # the reader states it for these formats
    lines = _TextLines(file)
    limit = csv.field_size_limit(2**31 - 1)  # a cell may be one long sequence; the limit is for the whole process
    try:
        by_quotes = csv.reader(lines, delimiter=plan.separator, strict=True)
        for record in by_quotes if plan.format == "csv" else (_cells(line, plan.separator) for line in lines):
            if record:
                yield record
            else:
                lines.skip_blank()
    finally:
        csv.field_size_limit(limit)


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line of a TSV file; none if the line is blank."""
    line = line.rstrip("\r\n")
    return line.split(separator) if line else []


class _TextLines:
    """The lines of a text file, where a run of blank lines can be skipped without looking at each of them."""

    def __init__(self, file: str) -> None:
        self._blocks = _text_blocks(file)
        self._block = ""
        self._at = 0

    def __iter__(self) -> Iterator[str]:
        while self._at < len(self._block) or self._next_block():
            start, self._at = self._at, self._block.find("\n", self._at) + 1 or len(self._block)
            yield self._block[start : self._at]

    def skip_blank(self) -> None:
        """Skip the blank lines that come next."""
        while self._at < len(self._block) or self._next_block():
            ends = _LINE_ENDS.match(self._block, self._at)
            assert ends is not None  # the pattern matches nothing, too
            self._at = self._block.rfind("\n", self._at, ends.end()) + 1 or self._at
            if self._at < len(self._block):
                return

    def _next_block(self) -> bool:
        """Go on to the next block; False if there is none."""
        self._block, self._at = next(self._blocks, ""), 0
        return bool(self._block)


def _text_blocks(file: str) -> Iterator[str]:
    """The text of a file in blocks of whole lines, as `_text_lines` reads them."""
    opened: Any = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", newline="\n") as text:
        while block := text.read(1 << 20):
            yield block if block.endswith("\n") else block + text.readline()


def _conll(file: str, plan: ReadPlan) -> Iterator[Row]:
    """Tokens and labels of a CoNLL file: one token per line, blank lines between sequences."""
    assert plan.key is not None  # CoNLL has columns
    tabs, universal = plan.separator == "\t", plan.format == "conllu"
    tokens, labels = list[str](), list[str]()
    for line in chain(_text_lines(file), [""]):
        if not line.strip(" \t\r\n") or line.startswith("-DOCSTART-"):
            if tokens:
                yield tokens, labels or None
            tokens, labels = [], []
            continue
        fields = line.rstrip("\r\n").split("\t") if tabs else [*filter(None, line.rstrip("\r\n").split(" "))]
        comment = tabs and line.startswith("#") and "\t" not in line
        if comment or (universal and not fields[0].isdigit()):
            continue
        tokens.append(fields[plan.key.number])
        if plan.label is not None:
            labels.append(fields[plan.label.number])


def _confirm_npz(comparison: DataComparison, file: str, plan: ReadPlan) -> None:
    """Compare the next sequences with the arrays of an npz file."""
    assert plan.key is not None  # the reader names the arrays
    with np.load(file, allow_pickle=False) as stored:
        if len(set(stored.files)) < len(stored.files):
            raise fault("two arrays have the same name")
        X, lengths = stored[plan.key.name], stored.get("lengths")
        Y = None if plan.label is None else stored[plan.label.name]
    confirm_arrays(comparison, X, Y, lengths, plan)


def _confirm_parquet(comparison: DataComparison, file: str, plan: ReadPlan) -> None:
    """Compare the next sequences with a Parquet file. Lists of numbers are compared as arrays, which is much faster."""
    for tokens, label in _parquet(file, plan):
        lists, labels = _arrow_numbers(tokens), None if label is None else _arrow_numbers(label)
        by_token = lists and lists.lengths if plan.labels_tokens else None
        fits = label is None if labels is None else labels.lengths == by_token
        if lists is None or lists.lengths is None or not fits:
            confirm_rows(comparison, _arrow_rows(tokens, label), plan)
            continue
        comparison.lengths(lists.lengths)
        comparison.tokens(lists.values)
        if labels is not None:
            comparison.labels(labels.values)


def _parquet(file: str, plan: ReadPlan) -> Iterator[tuple[object, object]]:
    """Tokens and labels of a Parquet file as Arrow columns, some rows at a time; labels are None if there are none."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as stored:
        columns = [column for column in (plan.key, plan.label) if column is not None]
        names = [column.name for column in columns]
        check_names(stored.schema_arrow.names, columns)
        for batch in stored.iter_batches(batch_size=ROWS, columns=names):
            yield batch.column(names[0]), batch.column(names[1]) if len(names) > 1 else None


def _arrow_rows(tokens: Any, label: Any) -> Iterator[Row]:
    """Rows of Python values, from an Arrow column of tokens and one of labels, or None."""
    labels = [None] * len(tokens) if label is None else label.to_pylist()
    return map(key, zip(tokens.to_pylist(), labels, strict=True))


class ArrowNumbers(NamedTuple):
    """The numbers of an Arrow column; `lengths`: of the lists that they lie in, None if they lie in no lists."""

    values: Array
    lengths: list[int] | None


def _arrow_numbers(column: Any) -> ArrowNumbers | None:
    """The numbers of an Arrow column of numbers, or of lists of numbers, none missing; None for other columns."""
    from pyarrow import types

    lengths = None
    if column.null_count:
        return None
    if types.is_list(column.type) or types.is_large_list(column.type):
        lengths, column = column.value_lengths().to_pylist(), column.flatten()
    known = types.is_integer(column.type) or types.is_floating(column.type)
    return None if column.null_count or not known else ArrowNumbers(column.to_numpy(), lengths)
