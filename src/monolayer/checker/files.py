"""A second reading of the caller's files, line by line, in code that shares nothing with the reader.

Files are read a line or a batch at a time, so that memory does not grow with them. Only npz files, and JSON files of
one array or object, are held whole, as the reader holds them. When this code runs, the reader has accepted the data. So
it has no messages about bad data: any failure is a difference between the two readings.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array
from monolayer.checker.given import DataComparison, confirm_arrays, confirm_rows, confirm_texts
from monolayer.checker.rows import LABELS, PROMPT_COLUMNS, ROWS, Chosen, ReadOptions, Row, choose, key, second_look
from monolayer.data import Sequences

LONGEST_JSON = 1 << 27
"""Most characters of a JSON file that is read as one array or object."""
_LINE_ENDS = re.compile(r"[\r\n]*")
FORMAT_OF_SUFFIX = {
    **dict.fromkeys(("conll", "iob", "iob2", "bio", "bioes"), "conll"),
    **dict.fromkeys(("jsonl", "ndjson"), "jsonl"),
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **{name: name for name in ("json", "conllu", "csv", "tsv", "npz")},
}


def confirm_files(data: Sequences, files: list[str], options: ReadOptions) -> None:
    """Raise an error unless `data` hold exactly what is in the files, one after the other."""
    if "-" in files:  # standard input cannot be read twice
        return
    answers = data.prompts is not None
    with second_look(", ".join(files)):
        if answers:
            rows = chain.from_iterable(_rows_of_file(file, options, answers)[0] for file in files)
            confirm_texts(data, rows, options.per == "continuation")
            return
        comparison = DataComparison(data)
        for file in files:
            format = _format(file, options)
            if format == "npz":
                _confirm_npz(comparison, file, options)
            elif format == "parquet":
                _confirm_parquet(comparison, file, options)
            else:
                confirm_rows(comparison, *_rows_of_file(file, options, answers))
        comparison.finish()


def _format(file: str, options: ReadOptions) -> str:
    """The format of a file: the one that the caller chose, or that of its suffix."""
    return options.format or FORMAT_OF_SUFFIX[Path(file.lower().removesuffix(".gz")).suffix.removeprefix(".")]


def _rows_of_file(file: str, options: ReadOptions, answers: bool) -> tuple[Iterator[Row], str]:
    """The rows of a file, and how text in them is cut; `answers`: whether they are prompts and answers."""
    format = _format(file, options)
    if format in ("conll", "conllu"):
        return _conll(file, options, format == "conllu"), "whole"
    if format == "parquet":
        chosen = _parquet_columns(file, options, answers)
        return chain.from_iterable(_arrow_rows(*columns) for columns in _parquet(file, chosen)), chosen.unit
    if format == "text":
        return ((line.rstrip("\r\n"), None) for line in _text_lines(file)), options.unit or "words"
    if format not in ("json", "jsonl"):
        records = _records(file, tabs=format == "tsv")
        chosen = choose([name.strip() for name in next(records)], options, answers)
        return (key(chosen.of([cell or None for cell in record])) for record in records), chosen.unit
    objects = _objects(file, document=format == "json")
    first = next(objects)
    if not isinstance(first, dict):
        return map(key, chain([first], objects)), options.unit or "words"
    names = list(first)
    chosen = choose(names, options, answers, "characters")
    return (key(chosen.of([row.get(name) for name in names])) for row in chain([first], objects)), chosen.unit


def _text_lines(file: str) -> Iterator[str]:
    """The lines of a text file, which may be gzipped. Only a line feed ends a line; a byte-order mark is left out."""
    opened: Any = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", newline="\n") as text:
        yield from text


def _objects(file: str, document: bool) -> Iterator[Any]:
    """The objects of JSON Lines or, in a `document`, of one JSON array, or one object.

    If the keys of that object are unusual, its items.
    """
    if document:
        opened: Any = gzip.open if file.lower().endswith(".gz") else open
        with opened(file, "rt", encoding="utf-8-sig") as text:
            start = text.read(LONGEST_JSON + 1)
        try:
            whole = json.loads(start) if len(start) <= LONGEST_JSON else None
        except ValueError:
            whole = None
        usual = {"tokens", *LABELS, *(PROMPT_COLUMNS if isinstance(whole, dict) and len(whole) <= 2 else ())}
        if isinstance(whole, list):
            yield from whole
            return
        if isinstance(whole, dict):
            yield from [whole] if usual & set(whole) else map(list, whole.items())
            return
    yield from (json.loads(line) for line in _text_lines(file) if not line.isspace())


def _records(file: str, tabs: bool) -> Iterator[list[str]]:
    """The rows of a CSV file, or of a TSV file if `tabs`, the header first, without blank lines."""
    lines = _TextLines(file)
    limit = csv.field_size_limit(2**31 - 1)  # a cell may be one long sequence; the limit is for the whole process
    try:
        for record in map(_cells_by_tab, lines) if tabs else csv.reader(lines, strict=True):
            if record:
                yield record
            else:
                lines.skip_blank()
    finally:
        csv.field_size_limit(limit)


def _cells_by_tab(line: str) -> list[str]:
    """The cells of a line of a TSV file; none if the line is blank."""
    line = line.rstrip("\r\n")
    return line.split("\t") if line else []


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


def _conll(file: str, options: ReadOptions, universal: bool) -> Iterator[Row]:
    """Tokens and labels of a CoNLL file: one token per line, blank lines between sequences; `universal`: CoNLL-U."""
    tabs, tokens, labels = universal or _has_tabs(file), list[str](), list[str]()
    token, label = int(options.tokens or (2 if universal else 1)), int(options.labels or (4 if universal else -1))
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
        tokens.append(fields[token - (token > 0)])
        if len(fields) > 1 or options.labels:
            labels.append(fields[label - (label > 0)])


def _has_tabs(file: str) -> bool:
    """Whether the columns of a CoNLL file are separated by tabs, judged by its first line with a tab or a token."""
    for line in _text_lines(file):
        if "\t" in line or not (line.isspace() or line.startswith(("#", "-DOCSTART-"))):
            return "\t" in line
    return False


def _confirm_npz(comparison: DataComparison, file: str, options: ReadOptions) -> None:
    """Compare the next sequences with the arrays of an npz file."""
    with np.load(file, allow_pickle=False) as stored:
        names = (options.tokens or "X", options.labels or "Y", "lengths")
        X, Y, lengths = (stored.get(name) for name in names)
    confirm_arrays(comparison, X, Y, lengths, options.unit or "characters")


def _confirm_parquet(comparison: DataComparison, file: str, options: ReadOptions) -> None:
    """Compare the next sequences with a Parquet file. Lists of numbers are compared as arrays, which is much faster."""
    chosen = _parquet_columns(file, options, answers=False)
    by_token = comparison.data.labels is not None and comparison.data.labels.per == "token"
    for tokens, label in _parquet(file, chosen):
        lists, labels = _arrow_numbers(tokens), None if label is None else _arrow_numbers(label)
        fits = label is None if labels is None else labels.lengths == (lists and lists.lengths if by_token else None)
        if lists is None or lists.lengths is None or not fits:
            confirm_rows(comparison, _arrow_rows(tokens, label), chosen.unit)
            continue
        comparison.lengths(lists.lengths)
        comparison.tokens(lists.values)
        if labels is not None:
            comparison.labels(labels.values)


def _parquet_columns(file: str, options: ReadOptions, answers: bool) -> Chosen:
    """The columns of a Parquet file to read."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as stored:
        return choose(stored.schema_arrow.names, options, answers)


def _parquet(file: str, chosen: Chosen) -> Iterator[tuple[object, object]]:
    """Tokens and labels of a Parquet file as Arrow columns, some rows at a time; labels are None if there are none."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as stored:
        names = [stored.schema_arrow.names[place] for place in (chosen.token, chosen.label) if place is not None]
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
