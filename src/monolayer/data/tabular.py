"""Read tables in which each row is a sequence: CSV files, objects, and tables in memory.

`layout.py` decides which columns are read. Text cells of `tokens` and `labels` are split at white space. Cells of a
table in memory that hold lists or numbers are taken as they are. `arrow.py` reads plain rows of CSV and Parquet column
by column, and leaves all others to this file, which reads them one by one.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from reprlib import repr as short
from typing import Any

from monolayer.data.columns import NO_LABEL
from monolayer.data.delimited import (
    CSV_SEPARATORS,
    SAMPLE_BYTES,
    check_header,
    header_of_form,
    is_cut_by,
    sample_rows,
    separator_of,
)
from monolayer.data.growing import GAP, Growing, SequenceFields
from monolayer.data.labelling import SEQUENCE, TOKEN, LabelUnit, generates
from monolayer.data.layout import Columns, TableLayout, no_column
from monolayer.data.lines import Lines
from monolayer.data.names import cut_text
from monolayer.data.plain import Given, array_like, frame_cells, frame_names, is_frame, is_gap, is_list
from monolayer.data.plan import SEPARATOR_NAMES, Format
from monolayer.data.prompts import ANSWER_COLUMNS
from monolayer.errors import DataError
from monolayer.table import plural

EXAMPLE = '{"tokens": ["a", "b"], "labels": ["x", "y"]}'
NO_CLASS_IN_DATASETS = -1
"""The number that Hugging Face datasets write for "no label" in a column of classes."""


def row_cells(row: dict[str, Given], layout: TableLayout) -> list[Given]:
    """The tokens and the label of a row; a label that is null becomes `GAP`, since it is missing on purpose."""
    label = None if layout.label is None else row.get(layout.label)
    return [row.get(layout.token), GAP if label is None and layout.label in row else label]


class RowReader:
    """Reads the rows of a table, given as Python values, into `growing`.

    A column called `label` holds one label per sequence, and text in a column called `labels` holds one word per token.
    In a column of another name, a list holds one label per token, and anything else is one label per sequence. If text
    there has as many words as there are tokens in every row, the caller must say what it means (`per`).
    """

    def __init__(self, growing: Growing, layout: TableLayout) -> None:
        self.growing, self.layout = growing, layout
        key, label = layout.planned
        growing.plan = replace(growing.plan, keyed=layout.keyed, key=key, label=label, width=layout.width)
        if layout.remembered:
            growing.remembered("columns")
        unlike = layout.unlike
        growing.plan = replace(growing.plan, unlike=unlike is not None and unlike.format == growing.plan.format)
        if layout.asks:
            growing.doubtful = f"{layout.token!r} and {layout.label!r}"

    def row(self, line: int, tokens: Given, label: Given) -> None:
        """Add the next row, which stands on line `line`.

        `tokens` is None if it is missing. `label` is None if it is missing or not read, and `GAP` if the row has no
        label on purpose.
        """
        layout, at = self.layout, self.growing.at(line)
        if self.growing.keys is not None:
            self.growing.keys.append(tokens)
        if generates(layout.per):
            answer = None if label is GAP else label
            self.growing.answer(line, tokens, answer, layout.verbatim)
            return
        if layout.pairs:
            tokens = self._key(tokens, label, at)
        if isinstance(tokens, str):
            self.growing.cut = layout.unit
            tokens = cut_text(tokens, layout.unit)
        if not isinstance(tokens, list | None):
            raise DataError(f"{at}, column {layout.token!r}, holds {tokens!r}: it must be a list, or text with words")
        self.growing.row(line, tokens or [], *self._label(label, len(tokens or []), at))

    def _label(self, label: Given, count: int, at: str) -> tuple[Given, LabelUnit | None]:
        """The label of a row, or the list of labels of its `count` tokens, and what they belong to."""
        words, of_tokens = label.split() if isinstance(label, str) else None, self.layout.labelling is TOKEN
        if label is None or label is GAP:
            return label, None
        if words is not None and of_tokens:  # letters of one word, or words, since the caller says one each
            label = list(words[0]) if len(words) == 1 and count != 1 else words
        elif words is not None and self.layout.words_per_token:
            label = words
        if of_tokens and not isinstance(label, list):
            raise DataError(f"{at} has the label {label!r}: with per='token', give one per token")
        return label, TOKEN if isinstance(label, list) and self.layout.labelling is not SEQUENCE else SEQUENCE

    def _key(self, key: Given, value: Given, at: str) -> Given:
        """The key as text or a list of tokens; a key that is neither becomes one token.

        A missing key or value is an error.
        """
        lacks = "key" if _missing(key) or key in ("", []) or (isinstance(key, str) and key.isspace()) else ""
        if self.layout.label is not None and (_missing(value) or value is GAP):
            lacks = lacks or "value"
        if lacks:
            raise DataError(f"{at} has no {lacks}: give one, or remove the row")
        if isinstance(key, str | list):
            return key
        self.growing.bare += 1
        return [key]


# -- CSV -----------------------------------------------------------------------------------------------


def read_table(
    lines: Lines, growing: Growing, columns: Columns, *, tabs: bool, blocks: Callable[..., None] | None = None
) -> None:
    """Read a table, whose rows are cut at a separator: CSV with quotes or, if `tabs`, TSV without quotes.

    `blocks`, if given, first reads as many rows as it can. The remaining ones are read one by one.
    """
    limit = csv.field_size_limit(2**31 - 1)  # a cell may be one long sequence; the limit is for the whole process
    try:
        sample = lines.peek(SAMPLE_BYTES)
        separator = _separator(sample, growing, columns, tabs)
        records = _csv_records(lines, separator, quotes=not tabs)
        first = next(records, None)
        if first is None:
            growing.plan = replace(growing.plan, separator=separator, header=columns.header is not False)
            return
        rows = sample_rows(sample, separator, quotes=not tabs)
        columns = _with_header(rows, growing, columns)
        growing.plan = replace(growing.plan, separator=separator, header=columns.header is not False)
        names = _column_names(first[1], columns, rows, lines.name)
        table = RowReader(growing, TableLayout.of(columns, names, lines.name))
        if columns.header is False:
            _add_record(table, *first, len(names))
        if blocks is not None and separator.isascii():
            blocks(lines, table, len(names), separator, quotes=not tabs)
        for number, record in records:
            _add_record(table, number, record, len(names))
    finally:
        csv.field_size_limit(limit)


def _separator(sample: list[str], growing: Growing, columns: Columns, tabs: bool) -> str:
    """What separates the columns: what the caller says, what the format or the model's data have, or what is found."""
    form = columns.like.form
    if columns.separator is not None or tabs:
        return columns.separator or "\t"
    if form is None or form.format != "csv" or not is_cut_by(sample, form):
        return separator_of(sample, growing.name)
    try:
        separator = separator_of(sample, growing.name)
    except DataError:
        separator = ""
    assert form.separator is not None  # is_cut_by saw to it
    if separator != form.separator:
        growing.remembered("separator")
    return form.separator


def _with_header(rows: list[list[str]], growing: Growing, columns: Columns) -> Columns:
    """`columns` with a header, or without, where the caller leaves it open and the model's data settle it."""
    form = columns.like.form
    chosen = [column for column in (columns.tokens, columns.labels) if column is not None]
    header = None if form is None or columns.header is not None else header_of_form(rows, form, chosen)
    if header is None:
        return columns
    try:
        _column_names(rows[0], columns, rows, growing.name)
        with_header = True
    except DataError:
        with_header = None
    if with_header != header:
        growing.remembered("header")
    return replace(columns, header=header)


def _column_names(first: list[str], columns: Columns, sample: list[list[str]], name: str) -> list[str]:
    """The names of the columns: the cells of the `first` row or, without a header, 1, 2, 3 …

    `sample`: the first rows of the file. A first row that looks like data is refused, unless the caller says that it
    is a header, or names the columns.
    """
    if columns.header is False:
        return [str(number) for number in range(1, len(first) + 1)]
    names = [name.strip() for name in first]
    marks = [mark for mark in CSV_SEPARATORS if len(names) == 1 and mark in names[0]]
    if marks and columns.separator is None:
        raise DataError(
            f"{name} has one column, {names[0]!r}. If {SEPARATOR_NAMES[marks[0]]} separate the columns, say "
            f"separator={marks[0]!r} (--separator); if it is one, give it a name without {marks[0]!r}"
        )
    named = columns.header or columns.tokens is not None or columns.labels is not None
    if not named:
        check_header(names, sample[1:], name)
    return names


def _add_record(table: RowReader, number: int, record: list[str], width: int) -> None:
    """Add the row of a CSV or TSV file that begins on line `number`; it must have `width` columns."""
    growing, where = table.growing, table.layout.numbers
    if len(record) != width:
        first = "the header" if growing.plan.header else "the first row"
        raise DataError(
            f"{growing.at(number)} has {plural(len(record), 'column')}, {first} has {width}: give every row the same "
            f"columns, and quote cells that hold {growing.plan.separator!r}. If something else separates the columns, "
            "say so with separator= (--separator)"
        )
    tokens, label = [record[at] or None for at in where] + [None] * (2 - len(where))
    table.row(number, tokens, label)


def _csv_records(lines: Lines, separator: str, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV or TSV file, each with the number of the line that it begins on. Blank lines are skipped."""
    quoting: Any = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader(lines, delimiter=separator, **quoting)
    while True:
        number = lines.number + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise lines.cut(f"a quote opened in the row of line {number} is not closed", lines.number) from None
            raise DataError(
                f"line {number} of {lines.name} is not CSV ({error}): put quotes around cells that hold "
                "quotes, and double the quotes inside"
            ) from None
        if record:
            yield number, record
        else:  # the reader stands between two rows, so that what comes next is not inside quotes
            lines.skip_blank()


# -- objects ------------------------------------------------------------------------------------------


def read_objects(
    rows: Iterable[tuple[int, Given]],
    growing: Growing,
    columns: Columns,
    blocks: Callable[[RowReader], None] | None = None,
) -> None:
    """Read numbered objects as rows of a table, whose columns are the keys of the first object.

    `blocks`, if given, reads as many rows after the first as it can. The remaining ones are read one by one.
    """
    table, first = None, 0
    for number, row in rows:
        at = growing.at(number)
        if not isinstance(row, dict):
            raise DataError(f"{at} is {'null' if row is None else short(row)}, not an object: write {EXAMPLE}")
        there = [key for key, value in row.items() if value is not None]
        if table is None:
            first, table = number, RowReader(growing, TableLayout.of(columns, list(row), at, lists=True))
        layout = table.layout
        if layout.token not in there:
            raise no_column(layout.token, there, at)
        other = {"label", "labels", *(ANSWER_COLUMNS if generates(layout.per) else ())} & set(there) - {layout.label}
        if other and columns.labels is None and not layout.remembered:
            raise DataError(
                f"{at} has {min(other)!r}, but {growing.unit} {first} has "
                f"{repr(layout.label) if layout.label else 'no label'}: label every sequence alike, or none"
            )
        table.row(number, *row_cells(row, layout))
        if blocks is not None and number == first:
            blocks(table)


# -- tables in memory ----------------------------------------------------------------------------------


def from_frame(frame: Given, columns: Columns, name: str | None = None, format: Format = "table") -> SequenceFields:
    """Read a table (pandas, Polars, Arrow, Hugging Face), with its labels if it has any.

    `columns` says which columns to read, and errors call the table `name`. `format`: what the plan calls it.
    """
    name = name or f"the {type(frame).__name__}"
    names = frame_names(frame) or []
    try:
        layout = TableLayout.of(columns, names, name)
    except DataError as error:
        if not names:
            raise
        raise DataError(
            f"{error}. Or rename the columns; to ask a model, pass one column, such as X[{names[0]!r}]; "
            "if each column holds tokens, pass X.to_numpy()"
        ) from None
    if layout.label is not None and _says_no_class(frame, names.index(layout.label)):
        layout = replace(layout, label=None, numbers=layout.numbers[:1])
    table = RowReader(Growing(name, format, unit="row"), layout)
    tokens, *labels = (_frame_cells_by_name(frame, names.index(column), table) for column in layout.columns)
    for row, cells in enumerate(zip(tokens, labels[0] if labels else repeat(None), strict=False)):
        label = GAP if labels and _missing(cells[1]) else cells[1]
        table.row(row, cells[0], label)
    return table.growing.finish()


def from_items(
    items: Iterable[tuple[Given, Given]], columns: Columns, name: str, format: Format, *, in_file: bool = False
) -> SequenceFields:
    """Read keys with their values, as a dict holds them. A key is text, a number, or a tuple; a value is one label.

    `columns` says how to read them, and errors call the data `name`, of this `format`. `in_file`: whether it is a file.
    """
    growing = Growing(name, format, unit="item", in_file=in_file)
    growing.keys = columns.keys
    layout = TableLayout.of_pairs(["key", "value"], columns)
    table = RowReader(growing, replace(layout, asks=False))
    for row, (key, value) in enumerate(items):
        if is_frame(value):
            raise DataError(f"{growing.name} holds tables: pass one of them, such as X[{key!r}]")
        if isinstance(value, dict):
            raise DataError(
                f"{growing.name} holds an object under {key!r}, as DataFrame.to_json() and to_dict() write columns: "
                "write rows, orient='records', or give a label for each key"
            )
        table.row(row, list(key) if isinstance(key, tuple) else array_like(key), array_like(value))
    return growing.finish()


def from_texts(prompts: Given, answers: Given, verbatim: bool) -> SequenceFields:
    """Read prompts and answers from two lists of strings; if `answers` is None, there are prompts alone.

    `verbatim`: whether no space is put between a prompt and its answer.
    """
    prompts, apart = array_like(prompts), answers is not None
    answers = [None] * len(prompts) if answers is None else array_like(answers)
    for name, rows in (("X", prompts), ("Y", answers)):
        if not is_list(rows):
            raise DataError(f"{name} is a {type(rows).__name__}: prompts and answers are two lists of strings")
    if len(prompts) != len(answers):
        raise DataError(
            f"X has {plural(len(prompts), 'prompt')} but Y has {plural(len(answers), 'answer')}: give one each"
        )
    growing = Growing("X", "texts", unit="row")
    growing.plan = replace(growing.plan, apart=apart)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        growing.answer(row, prompt, None if is_gap(answer) else answer, verbatim)
    return growing.finish()


def _missing(cell: object) -> bool:
    """Whether a cell of a table is missing. A list never is, even if it holds nothing but NaN."""
    return not isinstance(cell, list) and is_gap(cell)


def _frame_cells_by_name(frame: Given, at: int, table: RowReader) -> list[Given]:
    """The cells of column number `at` as Python values, with the classes of a Hugging Face dataset by their names."""
    cells, classes, name = frame_cells(frame, at), _classes_of(frame, at), (frame_names(frame) or [])[at]
    if classes is None:
        return cells

    def name_of(number: Given, row: int, gaps: tuple[int, ...]) -> Given:
        """The name of a class by its number; None for the numbers in `gaps`, which mean "no label"."""
        if number is None or number in gaps:
            return None
        if not 0 <= number < len(classes):
            raise DataError(
                f"{table.growing.at(row)}, column {name!r}, holds class {number}, and there are "
                f"{plural(len(classes), 'class')}: give a number from 0 to {len(classes) - 1}, or leave the row out. "
                f"{NO_CLASS_IN_DATASETS} and {NO_LABEL} say that there is no label only among labels of tokens"
            )
        return classes[number]

    return [
        [name_of(one, row, (NO_CLASS_IN_DATASETS, NO_LABEL)) for one in cell]
        if isinstance(cell, list)
        else name_of(cell, row, ())
        for row, cell in enumerate(cells)
    ]


def _classes_of(frame: Given, at: int) -> list[str] | None:
    """The names of the classes that column number `at` of a Hugging Face dataset holds by number; None elsewhere."""
    feature = (getattr(frame, "features", None) or {}).get((frame_names(frame) or [])[at])
    return getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)


def _says_no_class(frame: Given, at: int) -> bool:
    """Whether column number `at` holds −1 throughout, as a test split does that is published without its labels."""
    return _classes_of(frame, at) is not None and all(cell == NO_CLASS_IN_DATASETS for cell in frame_cells(frame, at))
