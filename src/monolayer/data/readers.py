"""Read files into sequences: `read`, which knows every format by its suffix, and the readers of plain-text formats.

`docs/data.md` describes the formats. Tables are read by `tabular.py` and arrays by `npz.py`. `arrow.py` reads Parquet
and plain rows of text, a block at a time; other text is read line by line. Everything is encoded while it is read, so a
file may be larger than the memory that its text would need.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

from monolayer.data import lines as limits
from monolayer.data.choices import Belongs, Unit
from monolayer.data.delimited import checked_separator
from monolayer.data.form import SourceForm
from monolayer.data.growing import Growing
from monolayer.data.labelling import SEQUENCE, TOKEN, generates
from monolayer.data.layout import USUAL_COLUMNS, Columns, Manner, TableLayout
from monolayer.data.lines import Lines
from monolayer.data.matching import read_matching
from monolayer.data.names import Names
from monolayer.data.npz import read_npz
from monolayer.data.plain import Given, is_frame
from monolayer.data.plan import FileFormat, ReadColumn
from monolayer.data.prompts import PROMPT_COLUMNS
from monolayer.data.sequences import Sequences
from monolayer.data.shapes import pairs_or_sequences
from monolayer.data.shards import files, names_files, read_shards
from monolayer.data.tabular import EXAMPLE, RowReader, from_items, read_objects, read_table
from monolayer.errors import DataError, needs_extra
from monolayer.table import quoted

SUFFIXES_OF_FORMAT = {
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "conll": (".conll", ".iob", ".iob2", ".bio", ".bioes"),
    "conllu": (".conllu",),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "text": (),
}
ARROW = find_spec("pyarrow") is not None
"""Whether pyarrow is installed. If so, its faster parsers read plain rows of text."""
_LINE_FORMATS: dict[str, FileFormat] = {
    "csv": "csv",
    "tsv": "tsv",
    "conll": "conll",
    "conllu": "conllu",
    "text": "text",
}
ELSEWHERE = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "pandas.read_excel({0!r})"),
    **dict.fromkeys((".feather", ".arrow"), "pandas.read_feather({0!r})"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "pandas.read_sql('select * from TABLE', sqlite3.connect({0!r}))"),
    **dict.fromkeys((".yaml", ".yml"), "yaml.safe_load(open({0!r}))"),
    ".h5": "pandas.read_hdf({0!r})",
    ".orc": "pandas.read_orc({0!r})",
}
"""Formats that other libraries read, by suffix, with a line of Python that gives what `memorize` takes."""
_FORMAT_OF = {suffix: format for format, suffixes in SUFFIXES_OF_FORMAT.items() for suffix in suffixes}


class ReadKeywords(TypedDict, total=False):
    """The options of `read` that other functions take as keywords and pass on."""

    format: str | None
    tokens: str | None
    labels: str | None
    unit: Unit | None
    per: Belongs | None
    vocabulary: Names | None
    header: bool | None
    separator: str | None


def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    unit: Unit | None = None,
    per: Belongs | None = None,
    vocabulary: Names | None = None,
    header: bool | None = None,
    separator: str | None = None,
    like: Manner | None = None,
    keys: list[Given] | None = None,
) -> Sequences:
    r"""The sequences of a file, with their labels where it has any.

    - `path`: a file; a pattern such as `shards/*.parquet`, which stands for all files that match it, in the order of
      their names; a list of paths; or `-`, standard input (JSON Lines by default). Several files are one dataset.
    - `format`: overrides the suffix: jsonl, json, conll, conllu, csv, tsv, parquet, npz, or text: a sequence per line,
      without labels.
    - `tokens`, `labels`: the columns to read: keys of JSONL rows, numbers of CoNLL columns, names of CSV and Parquet
      columns and of npz arrays.
    - `unit`: how to split strings: into `characters` (the default in JSONL), into `words` (the default in tables), or
      not at all (`whole`).
    - `per`: what a label belongs to, `token` or `sequence`; inferred from the data by default. `answer` means that the
      data are prompts and answers, and `continuation` that no space is to be put between them.
    - `vocabulary`: tokens get its row numbers, and a token that it lacks is an error.
    - `header`: whether the first row of a CSV or TSV file names the columns. By default it does, and a first row that
      looks like data is refused. Without a header the columns are called 1, 2, 3 …
    - `separator`: what separates the columns of a CSV or TSV file; by default the first rows show it.
    - `like`: how the model that is asked reads data (`model.card.manner`), which settles what the data leave open.
    - `keys`: a list that gets the key of every sequence as it was given, text or a list of tokens, from files of
      objects, tables and lines; CoNLL and npz files hold tokens only.

    Example:

        >>> _ = Path("capitals.csv").write_text("country,capital\nFrance,Paris\nJapan,Tokyo\n")
        >>> data = ml.read("capitals.csv")
        >>> len(data)
        2
        >>> print(data.plans[0].key.name, data.plans[0].label.name, data.plans[0].rows)
        country capital 2
    """
    separator = checked_separator(separator)
    if isinstance(path, Mapping) or is_frame(path):
        raise DataError(
            f"read takes the names of files, and this is of type {type(path).__name__}: pass it to memorize, certify "
            "or predict as it is, or make sequences of it with Sequences.of(X)"
        )
    names, known = files(path), len(keys or ())

    def read_all(per: Belongs | None) -> Sequences:
        if keys is not None:
            del keys[known:]  # those of a first reading
        columns = replace(Columns.of(tokens, labels, unit, per, like), keys=keys, header=header, separator=separator)
        read_one = partial(_read_file, format, columns)
        return read_one(names[0]) if len(names) == 1 else read_shards(names, read_one)

    data = read_all(per) if "-" in names else read_matching(read_all, per, like)  # standard input can be read once
    return data.recoded(vocabulary)


def _read_file(format: str | None, columns: Columns, name: str) -> Sequences:
    """Read one file, or standard input if `name` is "-"; without a `format`, the suffix of the name decides."""
    standard_input, file = name == "-", Path(name)
    if re.match(r"[a-z][a-z0-9+.-]+:/", name) and not file.exists():
        raise DataError(f"{name} is an address, and only files are read: download it first, and give the file")
    format, remembered = _format_of(file, standard_input, format, columns.like.form)
    if (columns.header, columns.separator) != (None, None) and format not in ("csv", "tsv"):
        raise DataError(
            f"{file} is read as {format}: header= and separator= (--header, --separator) are for CSV and TSV files"
        )
    if columns.labelling is SEQUENCE and format in ("conll", "conllu"):
        raise DataError(
            f"{file} is read as CoNLL, which has one label per token: per='sequence' (--per) cannot be used"
        )
    if generates(columns.per) and format in ("conll", "conllu", "npz"):
        raise DataError(f"{file} is read as {format}, which cannot hold prompts and answers: use JSONL or CSV")
    if format == "text" and (columns.tokens, columns.labels) != (None, None):
        raise DataError("a file of lines of text has no columns: leave tokens= and labels= (--tokens, --labels) out")
    if format in ("npz", "parquet"):
        if standard_input or file.suffix.lower() == ".gz":
            raise DataError(f"{format} cannot be read from standard input or gzip: give an uncompressed file")
        if format == "npz":
            return _of_remembered_format(read_npz(file, columns), remembered)
        try:
            from monolayer.data.arrow import read_parquet
        except ImportError:
            raise needs_extra(f"{file}: Parquet needs pyarrow", "parquet") from None
        return _of_remembered_format(read_parquet(file, columns), remembered)
    with Lines(None if standard_input else file) as lines:
        whole = _read_document(lines, columns) if format == "json" else None
        if whole is not None:
            return _of_remembered_format(whole, remembered)
        growing = Growing(lines.name, _LINE_FORMATS.get(format, "jsonl"), in_file=True)
        growing.keys = columns.keys
        arrow: Any = import_module("monolayer.data.arrow") if ARROW and columns.keys is None else None
        if format in ("jsonl", "json"):
            rows = ((lines.number, _parse_object(line, lines, growing)) for line in lines.filled())
            read_objects(rows, growing, columns, arrow and partial(arrow.read_json_blocks, lines))
        elif format == "text":
            _read_lines(lines, growing, columns)
        elif format in ("conll", "conllu"):
            _read_conll(lines, growing, columns, universal=format == "conllu")
        else:
            read_table(lines, growing, columns, tabs=format == "tsv", blocks=arrow and arrow.read_table_blocks)
        return _of_remembered_format(Sequences(*growing.finish()), remembered)


def _of_remembered_format(data: Sequences, remembered: bool) -> Sequences:
    """The data of one file; their plan says so if the model's data decided the format of the file."""
    if not remembered:
        return data
    return replace(data, plans=tuple(replace(plan, remembered=("format", *plan.remembered)) for plan in data.plans))


def sequences_of(
    X: Given,
    Y: Given = None,
    *,
    lengths: Given = None,
    per: Belongs | None = None,
    unit: Unit | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    like: Manner | None = None,
    labelled: bool = False,
) -> Sequences:
    """Make sequences as `Sequences.of` does, where `X` may also be the path of a data file.

    A file has its own labels and lengths, so `Y` and `lengths` must then be left out. The other parameters are those of
    `Sequences.of` and of `read`.
    """
    if not isinstance(X, str | os.PathLike):
        options: dict[str, Any] = {"tokens": tokens, "labels": labels, "like": like, "labelled": labelled}
        return Sequences.of(X, Y, lengths=lengths, per=per, unit=unit, **options)
    if isinstance(X, str) and not names_files(X):
        raise DataError(
            f"X is the string {quoted(X)}, and there is no file of that name: check the path. Sequences are given as a "
            f"list, such as [{quoted(X)}]"
        )
    if Y is not None or lengths is not None:
        raise DataError(f"{os.fspath(X)} is a data file, which has its own labels and lengths: leave Y and lengths out")
    return read(X, per=per, unit=unit, tokens=tokens, labels=labels, like=like)


def prompts_of(X: Given, *, lengths: Given = None, like: Manner | None = None) -> Sequences:
    """Read prompts from `X`: a list of texts, a dict, a table, pairs, or a file. Answers in it are left out.

    `lengths`: as in `Sequences.of`. `like`: how the model that is asked reads data.
    """
    if isinstance(X, str) and not names_files(X):
        raise DataError(f"X is a str: it must be a list of prompts, or the path of a data file, and {X!r} is no file")
    data = sequences_of(X, lengths=lengths, per="answer", like=like, labelled=pairs_or_sequences(X))
    return data.only_prompts()


def _format_of(file: Path, standard_input: bool, format: str | None, form: SourceForm | None) -> tuple[str, bool]:
    """The format of a file, and whether the model's data (`form`) decided it, since neither caller nor suffix did.

    A file that cannot be read is an error.
    """
    if format is not None and format not in SUFFIXES_OF_FORMAT:
        raise DataError(f"there is no format {format!r}; the formats are {', '.join(SUFFIXES_OF_FORMAT)}")
    if standard_input:
        return format or "jsonl", False
    if not file.exists():
        raise DataError(f"{file} does not exist: check the path")
    if file.is_dir():
        raise DataError(f"{file} is a directory: give one data file")
    if not os.access(file, os.R_OK):
        raise DataError(f"{file} cannot be read: check its permissions")
    if format is not None:
        return format, False
    suffix = (Path(file.stem) if file.suffix.lower() == ".gz" else file).suffix.lower()
    if suffix in ELSEWHERE:
        line = ELSEWHERE[suffix].format(str(file))
        module = line.partition(".")[0]
        csv = "" if module == "yaml" else f"; for a command, write it as CSV: {line}.to_csv('data.csv', index=False)"
        raise DataError(f"{file}: {suffix} files are not read here. In Python pass {line}, after import {module}{csv}")
    if suffix in _FORMAT_OF:
        return _FORMAT_OF[suffix], False
    of_model = None if form is None else form.format.partition(" ")[0]  # "json array" is read as json
    if of_model in SUFFIXES_OF_FORMAT:
        return of_model, True
    known = ", ".join(f"{name} ({' '.join(suffixes)})" for name, suffixes in SUFFIXES_OF_FORMAT.items() if suffixes)
    raise DataError(
        f"{file}: unsupported file type {suffix!r}; pass format= (--format on the command line), one of {known}, "
        "or text (a sequence per line, without labels)"
    )


# -- JSON Lines ----------------------------------------------------------------------------------------


def _parse_object(line: str, lines: Lines, growing: Growing) -> Given:
    """The JSON value on a line; an error names the line."""
    try:
        return json.loads(line, object_pairs_hook=_refuse_equal_keys)
    except DataError as error:
        raise DataError(f"{growing.at(lines.number)} {error}") from None
    except (ValueError, RecursionError) as error:
        # Python counts lines within what it parses, which is one line of the file.
        why = f"{error.msg}, at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise DataError(
            f"{growing.at(lines.number)} is not JSON ({why}): every line must be one whole object such as {EXAMPLE}"
        ) from None


def _refuse_equal_keys(pairs: list[tuple[str, Given]]) -> dict[str, Given]:
    """Make a dict of the pairs in a JSON object; a key that occurs twice is an error, since one value would be lost."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"has the key {twice!r} {names.count(twice)} times: give each its own name")
    return row


def _read_document(lines: Lines, columns: Columns) -> Sequences | None:
    """Read a single JSON array of objects or pairs, a single object of keys and values, or a single row.

    None if the file holds none of these; then its lines are read one by one. The whole document may be no longer than
    one line may be, so that a small gzip file cannot fill the memory.
    """
    try:
        whole = lines.whole(limits.LONGEST_LINE)
        content = None if whole is None else json.loads(whole, object_pairs_hook=_refuse_equal_keys)
    except DataError as error:
        raise DataError(f"{lines.name} {error}") from None
    except (ValueError, RecursionError):
        return None  # several lines, or damaged: reading it line by line names the line
    is_one_row = isinstance(content, dict) and (
        USUAL_COLUMNS & set(content) or (len(content) <= 2 and set(content) & {*PROMPT_COLUMNS})
    )
    if is_one_row:
        content = [content]
    if not isinstance(content, list | dict):
        return None
    if isinstance(content, dict):
        return Sequences(*from_items(content.items(), columns, lines.name, "json object", in_file=True))
    pairs = bool(content) and all(isinstance(row, list) and len(row) == 2 for row in content)
    format: FileFormat = "json row" if is_one_row else "json pairs" if pairs else "json array"
    growing = Growing(lines.name, format, unit="item", in_file=True)
    growing.keys = columns.keys
    if pairs:
        table = RowReader(growing, TableLayout.of_pairs(["key", "value"], columns))
        for number, (key, value) in enumerate(content):
            table.row(number, key, value)
    else:
        read_objects(enumerate(content), growing, columns)
    return Sequences(*growing.finish())


# -- lines of text -------------------------------------------------------------------------------------


def _read_lines(lines: Lines, growing: Growing, columns: Columns) -> None:
    """Read one sequence per line, without labels. A line without a token is an error."""
    table = RowReader(growing, TableLayout.of_lines(columns))
    for line in lines:
        table.row(lines.number, line.rstrip("\r\n"), None)


# -- CoNLL columns -------------------------------------------------------------------------------------


def _read_conll(lines: Lines, growing: Growing, columns: Columns, *, universal: bool) -> None:
    """Read one token per line, with columns separated by tabs or spaces, and sequences separated by blank lines.

    `universal` means CoNLL-U: FORM and UPOS are columns 2 and 4, and lines of multiword tokens (`1-2`) and of empty
    nodes (`1.1`) are skipped, because they repeat words or add some that are not in the text.
    """
    # A line that starts with # is a comment if tabs separate the columns, and a token if spaces do. So the first lines
    # are held back until one of them shows which it is.
    numbered, tabs = list[tuple[int, str]](), universal
    for line in lines:
        numbered.append((lines.number, line))
        tabs = universal or "\t" in line
        if tabs or not (line.isspace() or line.startswith(("#", "-DOCSTART-"))):
            break
    width = first = at_token = begin = 0
    at_label: int | None = None
    tokens, labels = list[str](), list[str]()

    def end() -> None:
        """Add the sequence that ends here, if it has tokens; it begins on line `begin`."""
        if tokens:
            growing.row(begin, tokens, *((labels, TOKEN) if labels else (None, None)))
        tokens.clear()
        labels.clear()

    for number, line in chain(numbered, ((lines.number, line) for line in lines)):
        if not line.strip(" \t\r\n") or line.startswith("-DOCSTART-"):
            end()
            continue
        if tabs and line.startswith("#") and "\t" not in line:
            continue
        text = line.rstrip("\r\n")
        fields = text.split("\t") if tabs else [field for field in text.split(" ") if field]
        if not width:
            width, first = len(fields), number
            columns = _conll_columns(columns, width, growing)
            at_token = _index(columns.tokens or ("2" if universal else "1"), width, growing.at(number))
            growing.plan = replace(growing.plan, separator="\t" if tabs else " ", key=_numbered(at_token))
            if columns.labels is not None or width > 1:
                at_label = _index(columns.labels or ("4" if universal else "-1"), width, growing.at(number))
                growing.plan = replace(growing.plan, label=_numbered(at_label))
        if len(fields) != width:
            raise DataError(
                f"{growing.at(number)} has {len(fields)} columns, line {first} has {width}: give every line the same "
                "columns. Lines that start with # are comments only where columns are separated by tabs"
            )
        if universal and not fields[0].isdigit():
            continue
        token, label = fields[at_token], None if at_label is None else fields[at_label]
        if not token or label == "":
            raise DataError(f"{growing.at(number)} has an empty {'label' if token else 'token'}")
        begin = begin if tokens else number
        tokens.append(token)
        if label is not None:
            labels.append(label)
    end()


def _conll_columns(columns: Columns, width: int, growing: Growing) -> Columns:
    """`columns` with those of the model's data where the caller chose none, if the file has as many columns."""
    form = columns.like.form
    if form is None or form.format != growing.plan.format or (columns.tokens, columns.labels) != (None, None):
        return columns
    numbers = [int(name) for name in (form.key, form.label) if name is not None]
    usual = [2, 4] if form.format == "conllu" else [1, -1]
    if numbers in (usual, usual[:1]) or max(map(abs, numbers), default=width + 1) > width:
        return columns
    if len({number - 1 if number > 0 else width + number for number in numbers}) < len(numbers):
        return columns  # the file lacks the column of the labels
    growing.remembered("columns")
    return replace(columns, tokens=form.key, labels=form.label)


def _numbered(at: int) -> ReadColumn:
    """A CoNLL column by its Python index, under the number that users know."""
    return ReadColumn(str(at + 1 if at >= 0 else at), at)


def _index(column: str, width: int, at: str) -> int:
    """The Python index of a CoNLL column among `width`; users call the first column 1 and the last one -1."""
    if re.fullmatch("-?[1-9][0-9]*", column) is None:
        raise DataError(f"{column!r} is not a CoNLL column: columns are numbered, 1 is the first and -1 the last")
    number = int(column)
    if abs(number) > width:
        raise DataError(
            f"{at} has {width} columns: there is no column {number}. Choose from 1 to {width} with tokens= and "
            "labels= (--tokens, --labels)"
        )
    return number - 1 if number > 0 else number
