"""What separates the columns of a CSV file, and whether its first row is a header.

Both are read off the first rows. A separator is one that cuts all of them into equally many columns. A first row that
looks like the rows below it is refused, because taking it for a header would lose a row without a word: the caller says
`header=False`, or names the columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import partial

from monolayer.data.form import SourceForm
from monolayer.data.plan import SEPARATOR_NAMES
from monolayer.errors import DataError

CSV_SEPARATORS = (",", ";", "\t", "|")
SAMPLE_BYTES = 1 << 16
SAMPLE_ROWS = 100
MOST_NAMED = 4
"""How many cells of a first row an error quotes."""
_SPELLINGS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_COLUMN_NAMES = """
abbr abbreviation address age alias amount answer answers author body capital category cell character characters
city class classes code codes column comment completion completions content context continent count country county
currency data date definition department description destination document domain email emoji entity entry example
expected fact feature field file form gender gloss group hanzi hash headword hex id identifier index input intent
ipa iso item key keys kind label labels language languages latitude lemma letter line link list location longitude
map meaning message model month name names ner ner_tags node note notes number object output page paragraph parent
part pattern person phone phoneme phones phrase pinyin place plural population pos position predicate price product
prompt prompts pronunciation province query question questions rank reading readings record ref region relation
reply response result role row score sense sentence sentences sentiment sequence sequences short size slot source
span speaker species src start state status string subject symbol synonym tag tags target term text texts tgt title
token tokens topic translation type uid unicode unit upos url user utterance uuid value values variable version
volume word words xpos year zip
"""
HEADER_WORDS = frozenset(_COLUMN_NAMES.split())
"""Words that columns are often called. A first row with a cell of such words is a header."""
_SMALL_WORDS = frozenset({"a", "an", "by", "for", "in", "of", "official", "the"})


def checked_separator(separator: str | None) -> str | None:
    """The separator that a caller chose, as one character; None if it is to be found."""
    if separator is None:
        return None
    mark = _SPELLINGS.get(separator, separator)
    if len(mark) != 1 or mark in '"\r\n':
        raise DataError(f"separator={separator!r} must be one character, such as ',', ';', '|' or '\\t', and no quote")
    return mark


def separator_of(lines: Sequence[str], name: str) -> str:
    """What separates the columns of a CSV file that begins with these lines.

    That is the one mark that cuts all rows into equally many columns, two or more. If several do, the caller must
    choose. If none does, it is the mark that cuts the first row, so that an error names the row that differs.
    """
    rows = {mark: sample_rows(lines, mark, quotes=True) for mark in CSV_SEPARATORS}
    fitting = [mark for mark in CSV_SEPARATORS if _same_width(rows[mark])]
    if len(fitting) > 1:
        names = " or ".join(SEPARATOR_NAMES[mark] for mark in fitting)
        ways = " or ".join(f"separator={mark!r}" for mark in fitting)
        raise DataError(f"{name}: its columns may be separated by {names}; say which, {ways} (--separator)")
    cutting = [mark for mark in CSV_SEPARATORS if rows[mark] and len(rows[mark][0]) > 1]
    return next(iter(fitting + cutting), ",")


def sample_rows(lines: Sequence[str], separator: str, quotes: bool) -> list[list[str]]:
    """The first rows of a CSV file, or of a TSV file without `quotes`, without blank ones.

    They are only looked at, so damaged rows are taken as well.
    """
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE):
            if row:
                rows.append(row)
            if len(rows) > SAMPLE_ROWS:
                break
    except csv.Error:  # the reader proper names the line
        pass
    return rows


def _same_width(rows: list[list[str]]) -> bool:
    """Whether all rows have the same number of columns, and more than one."""
    return bool(rows) and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


# -- the form of a model's data ------------------------------------------------------------------------


def is_cut_by(lines: Sequence[str], form: SourceForm) -> bool:
    """Whether the separator of this form cuts the first lines of a CSV file into the columns of the form."""
    if form.separator is None:
        return False
    rows = sample_rows(lines, form.separator, quotes=True)
    return _same_width(rows) and header_of_form(rows, form) is not None


def header_of_form(rows: Sequence[Sequence[str]], form: SourceForm, chosen: Sequence[str] = ()) -> bool | None:
    """Whether the first of these rows is a header, if they have the columns of a form of CSV or TSV files.

    Their first row then has the names of the columns or, in a form without a header, no name that columns usually have.
    None if these are other columns, or lack one that the caller has `chosen` by its name.
    """
    if form.header is None or form.key is None or not rows:
        return None
    names = [name.strip() for name in rows[0]]
    if not form.header:
        if any(map(_is_column_name, names)) or (form.pair and len(names) > 2):
            return None
        names = [str(number) for number in range(1, len(names) + 1)]
    fits = form.columns_in(names) is not None and set(chosen) <= set(names)
    return form.header if fits else None


# -- headers -------------------------------------------------------------------------------------------


def check_header(header: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> None:
    """Refuse a first row that looks like data: it holds a number, a cell twice, or cells like those of the rows below.

    `header`: the cells of the first row. `rows`: some rows below it. A cell that is a usual name of a column settles
    that it is a header.
    """
    if any(map(_is_column_name, header)):
        return
    why = _why_data(header, rows)
    if why:
        more = ["…"] if len(header) > MOST_NAMED else []
        columns = " and ".join([*map(repr, header[:MOST_NAMED]), *more])
        choose = ", ".join(f"{option}={cell!r}" for option, cell in zip(("tokens", "labels"), header, strict=False))
        unread = "header=False (--no-header)"
        if len(header) > 2:
            choose = f"such as {choose}"
            unread = "header=False, and two columns by their numbers, such as tokens='1', labels='2'"
        raise DataError(
            f"{name}: the first row, {columns}, may be data and not the names of the columns: {why}. If it is data, "
            f"read the file with {unread}; if it is a header, with header=True (--header), or name "
            f"the columns: {choose} (--tokens, --labels)"
        )


def _why_data(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Why the first row may be data, in words; empty if nothing speaks for it."""
    number = next((cell for cell in header if _is_number(cell)), None)
    if number is not None:
        return f"{number!r} is a number"
    twice = next((cell for at, cell in enumerate(header) if cell in header[:at]), None)
    if twice is not None:
        return f"{twice!r} stands there twice"
    below = [row for row in rows if len(row) == len(header)]
    for at, cell in enumerate(header):
        if any(row[at] == cell for row in below):
            return f"{cell!r} stands in a row below as well"
    if below and all(_looks_alike(cell, [row[at] for row in below]) for at, cell in enumerate(header)):
        return f"it looks like the rows below, such as {' and '.join(map(repr, below[0][:MOST_NAMED]))}"
    return ""


def _is_column_name(cell: str) -> bool:
    """Whether a cell is made up of words that columns are often called, as 'country_code' and 'Official name' are."""
    words = [word for word in re.split(r"[\W_0-9]+|(?<=[a-z])(?=[A-Z])", cell) if word]
    known = [word.lower() for word in words if word.lower() not in _SMALL_WORDS]
    return cell.lower() in HEADER_WORDS or (len(known) > 0 and all(word in HEADER_WORDS for word in known))


def _is_number(cell: str) -> bool:
    """Whether a cell is a number as `float` reads it, or one in another base, such as 0xff."""
    for read in (float, partial(int, base=0)):
        try:
            read(cell)
        except ValueError:
            continue
        return True
    return False


def _looks_alike(cell: str, below: list[str]) -> bool:
    """Whether at least half of the cells below have the shape of `cell`."""
    return 2 * sum(_shape(other) == _shape(cell) for other in below) >= len(below)


def _shape(cell: str) -> tuple[str, bool, bool]:
    """How a cell is written: the case of its letters, and whether it is all ASCII and all digits and marks."""
    text = cell.strip()
    cases = {"lower": text.islower(), "upper": text.isupper(), "title": text[:1].isupper()}
    case = next((name for name, fits in cases.items() if fits), "mixed")
    return case, text.isascii(), not any(character.isalpha() for character in text)
