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

from monolayer.data.columns import NO_LABEL
from monolayer.data.growing import GAP, Growing, SequenceFields
from monolayer.data.labels import Per
from monolayer.data.layout import BY_TOKEN, Columns, TableLayout, no_column
from monolayer.data.lines import Lines
from monolayer.data.names import cut_text
from monolayer.data.plain import Given, array_like, frame_cells, frame_names, is_frame, is_gap, is_list
from monolayer.data.prompts import ANSWER_COLUMNS, tokens_of
from monolayer.errors import DataError
from monolayer.table import plural

EXAMPLE = '{"tokens": ["a", "b"], "labels": ["x", "y"]}'
NO_CLASS_IN_DATASETS = -1
"""What Hugging Face datasets write in a column of classes where there is no label."""


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
        growing.keyed = layout.pairs and layout.label is not None and layout.per != "answer"
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
        if layout.per == "answer":
            answer = None if label is GAP else label
            self.growing.answer(line, *tokens_of(tokens, answer, at, layout.verbatim))
            return
        if layout.pairs:
            tokens = self._key(tokens, label, at)
        if isinstance(tokens, str):
            self.growing.cut = layout.unit
            tokens = cut_text(tokens, layout.unit)
        if not isinstance(tokens, list | None):
            raise DataError(f"{at}, column {layout.token!r}, holds {tokens!r}: it must be a list, or text with words")
        self.growing.row(line, tokens or [], *self._label(label, len(tokens or []), at))

    def _label(self, label: Given, count: int, at: str) -> tuple[Given, Per | None]:
        """The label of a row, or the list of labels of its `count` tokens, and what they belong to."""
        per, words = self.layout.per, label.split() if isinstance(label, str) else None
        if label is None or label is GAP:
            return label, None
        if words is not None and per == "token":  # letters of one word, or words, since the caller says one each
            label = list(words[0]) if len(words) == 1 and count != 1 else words
        elif words is not None and per is None and self.layout.label in BY_TOKEN:
            label = words
        if per == "token" and not isinstance(label, list):
            raise DataError(f"{at} has the label {label!r}: with per='token', give one per token")
        return label, "token" if isinstance(label, list) and per != "sequence" else "sequence"

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
    """Read a table with a header line: comma-separated with quotes, or, if `tabs`, tab-separated without quotes.

    `blocks`, if given, first reads as many rows as it can. The remaining ones are read one by one.
    """
    limit = csv.field_size_limit(2**31 - 1)  # a cell may be one long sequence; the limit is for the whole process
    try:
        records = _csv_records(lines, tabs)
        header = next(records, None)
        if header is None:
            return
        names = [name.strip() for name in header[1]]
        _check_delimiter(names, lines.name, tabs)
        table = RowReader(growing, TableLayout.of(columns, names, lines.name))
        where = list(map(names.index, table.layout.columns))
        if blocks is not None:
            blocks(lines, table, names, tabs)
        for number, record in records:
            if len(record) != len(names):
                raise DataError(
                    f"{growing.at(number)} has {len(record)} columns, the header has {len(names)}: give every row the "
                    "same columns, and quote cells that hold a comma"
                )
            tokens, label = [record[at] or None for at in where] + [None] * (2 - len(where))
            table.row(number, tokens, label)
    finally:
        csv.field_size_limit(limit)


def _check_delimiter(names: list[str], file: str, tabs: bool) -> None:
    """Refuse a header of one column that holds another delimiter, since several columns may be meant."""
    other = next((mark for mark in (";", "|", "," if tabs else "\t") if len(names) == 1 and mark in names[0]), None)
    if other is None:
        return
    others = {"\t": "tabs: format='tsv' (--format) reads it", ",": "commas: format='csv' (--format) reads it"}
    between = others.get(other, f"{other!r}: pass pandas.read_csv({file!r}, sep={other!r}), or write it with commas")
    raise DataError(
        f"{file} has one column, {names[0]!r}. If it has several, they are separated by {between}; if it is one, "
        f"give it a name without {other!r}"
    )


def _csv_records(lines: Lines, tabs: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV or TSV file, each with the number of the line that it begins on. Blank lines are skipped."""
    reader = csv.reader(lines, "excel-tab", quoting=csv.QUOTE_NONE) if tabs else csv.reader(lines, strict=True)
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
        other = {"label", "labels", *(ANSWER_COLUMNS if layout.per == "answer" else ())} & set(there) - {layout.label}
        if other and columns.labels is None:
            raise DataError(
                f"{at} has {min(other)!r}, but {growing.unit} {first} has "
                f"{repr(layout.label) if layout.label else 'no label'}: label every sequence alike, or none"
            )
        table.row(number, *row_cells(row, layout))
        if blocks is not None and number == first:
            blocks(table)


# -- tables in memory ----------------------------------------------------------------------------------


def from_frame(frame: Given, columns: Columns, name: str | None = None) -> SequenceFields:
    """Read a table (pandas, Polars, Arrow, Hugging Face), with its labels if it has any.

    `columns` says which columns to read, and errors call the table `name`.
    """
    name = name or f"the {type(frame).__name__}"
    try:
        names = frame_names(frame) or []
        layout = TableLayout.of(columns, names, name)
    except DataError as error:
        raise DataError(
            f"{error}. Or rename the columns; to ask a model, pass one column, such as X[{(names or ['key'])[0]!r}]; "
            "if each column holds tokens, pass X.to_numpy()"
        ) from None
    table = RowReader(Growing(name, unit="row"), layout)
    tokens, *labels = (_frame_cells_by_name(frame, names.index(column), table) for column in layout.columns)
    for row, cells in enumerate(zip(tokens, labels[0] if labels else repeat(None), strict=False)):
        label = GAP if labels and _missing(cells[1]) else cells[1]
        table.row(row, cells[0], label)
    return table.growing.finish()


def from_items(
    items: Iterable[tuple[Given, Given]], columns: Columns, name: str, *, in_file: bool = False
) -> SequenceFields:
    """Read keys with their values, as a dict holds them. A key is text, a number, or a tuple; a value is one label.

    `columns` says how to read them, and errors call the data `name`. `in_file`: whether that is a file.
    """
    growing = Growing(name, unit="item", in_file=in_file)
    growing.keys = columns.keys
    layout = TableLayout.of_pairs(["key", "value"], columns)
    table = RowReader(growing, replace(layout, asks=False))
    for row, (key, value) in enumerate(items):
        if is_frame(value):
            raise DataError(f"{growing.name} holds tables: pass one of them, such as X[{key!r}]")
        table.row(row, list(key) if isinstance(key, tuple) else array_like(key), array_like(value))
    return growing.finish()


def from_texts(prompts: Given, answers: Given, verbatim: bool) -> SequenceFields:
    """Read prompts and answers from two lists of strings; if `answers` is None, there are prompts alone.

    `verbatim`: whether no space is put between a prompt and its answer.
    """
    prompts = array_like(prompts)
    answers = [None] * len(prompts) if answers is None else array_like(answers)
    for name, rows in (("X", prompts), ("Y", answers)):
        if not is_list(rows):
            raise DataError(f"{name} is a {type(rows).__name__}: prompts and answers are two lists of strings")
    if len(prompts) != len(answers):
        raise DataError(f"X has {len(prompts):,} prompts but Y has {plural(len(answers), 'answer')}: give one each")
    growing = Growing("X", unit="row")
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        growing.answer(row, *tokens_of(prompt, None if is_gap(answer) else answer, growing.at(row), verbatim))
    return growing.finish()


def _missing(cell: object) -> bool:
    """Whether a cell of a table is missing. A list never is, even if it holds nothing but NaN."""
    return not isinstance(cell, list) and is_gap(cell)


def _frame_cells_by_name(frame: Given, at: int, table: RowReader) -> list[Given]:
    """The cells of column number `at` as Python values, with the classes of a Hugging Face dataset by their names."""
    cells, name = frame_cells(frame, at), (frame_names(frame) or [])[at]
    feature = (getattr(frame, "features", None) or {}).get(name)
    classes = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
    if classes is None:
        return cells

    def name_of(number: Given, row: int) -> Given:
        """The name of a class by its number; None if the number means that there is no label."""
        if number is None or number in (NO_CLASS_IN_DATASETS, NO_LABEL):
            return None
        if not 0 <= number < len(classes):
            raise DataError(
                f"{table.growing.at(row)}, column {name!r}, holds class {number}, and there are "
                f"{plural(len(classes), 'class')}: give a number from 0 to {len(classes) - 1}, or "
                f"{NO_CLASS_IN_DATASETS} for no label"
            )
        return classes[number]

    return [
        [name_of(one, row) for one in cell] if isinstance(cell, list) else name_of(cell, row)
        for row, cell in enumerate(cells)
    ]
