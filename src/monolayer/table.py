"""What commands show: the table of a result, which is also its `repr` in Python, and how far a long call has come."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

TABLE_WIDTH = 100
"""Width in characters of the `repr` of a result."""
UNLIMITED = 1 << 20
"""A width that no table reaches."""
LONGEST_CELL, LONGEST_QUOTED = 40, 80
"""How many characters of a text a table shows, and an error. A name may be as long as a file."""
LONG_NAME = 14
"""Longest name that stands on the line of its numbers; a longer one gets its own line."""
_HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Progress = Callable[[str, float], None]
"""A function that a long call tells how far it is: the name of the stage, and the share of the work done, 0 to 1."""


def part_of(progress: Progress, begin: float, end: float) -> Progress:
    """A `Progress` for one part of a longer call, whose 0 to 1 are `begin` to `end` there."""
    return lambda stage, share: progress(stage, begin + (end - begin) * share)


def counting(progress: Progress, stage: str, what: str, begin: float, end: float) -> Callable[[int, int], None]:
    """A function that tells `progress` how many of how many are done in a stage that takes the share `begin` to `end`.

    `what`: what is counted, in the singular.
    """

    def counted(done: int, total: int) -> None:
        progress(Counted(stage, done, total, what), begin + (end - begin) * done / max(total, 1))

    return counted


class Counted(str):
    """The name of a stage that counts, such as `finding half-spaces: 30 of 400 facts`, with its numbers."""

    stage: str
    done: int
    total: int
    counts: str

    def __new__(cls, stage: str, done: int, total: int, what: str) -> Counted:
        """`done` of `total` things called `what`, in the singular."""
        counts = f"{done:,} of {plural(total, what)}"
        counted = super().__new__(cls, f"{stage}: {counts}")
        counted.stage, counted.done, counted.total, counted.counts = stage, done, total, counts
        return counted


class Tabular(Protocol):
    """A result with rows of text to show; (name, value) pairs, unless it has `columns`."""

    def rows(self) -> Sequence[Sequence[str]]:
        """The rows of the table."""


def as_table(result: Tabular) -> str:
    """The `repr` of a result: the table that its command prints, under the name of its class."""
    return "\n".join(
        line.plain for line in pairs(type(result).__name__, ((row[0], row[1]) for row in result.rows()), TABLE_WIDTH)
    )


def as_html(result: Tabular) -> str:
    """The `_repr_html_` of a result, which notebooks show: the same rows as an HTML table, all text escaped.

    A result may have `columns`, the names above its columns; a `heading`, in place of the name of its class; and a
    `note`, which stands below.
    """
    names, note = getattr(result, "columns", ()), getattr(result, "note", "")
    return html_table(getattr(result, "heading", type(result).__name__), names, result.rows(), note)


def html_table(heading: str, names: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """An HTML table under a heading; `names` of the columns, if any; `note`: a paragraph below."""
    lines = [f"<caption>{_html(heading)}</caption>"]
    if names:
        lines.append(f"<tr>{''.join(f'<th>{_html(name)}</th>' for name in names)}</tr>")
    lines += [f"<tr>{''.join(f'<td>{_html(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>" + (f"<p>{_html(note)}</p>" if note else "")


def _html(text: str) -> str:
    return html.escape(visible(text)).replace("\n", "<br>")


_POWER = re.compile(r"\^(?:\(([^()]*)\)|(-?[0-9.,]*[0-9]|[a-z]))")


def raised(text: str) -> str:
    """`10^-3`, `2^(pk/2)` and `R^k` with raised exponents, in the markup that both HTML and plotly read."""

    def raise_one(match: re.Match[str]) -> str:
        exponent = match[1] or match[2]
        return f"<sup>{raised(exponent).replace('-', '−')}</sup>"

    return _POWER.sub(raise_one, text)


def pairs(title: str, rows: Iterable[tuple[str, str]], width: int | None) -> list[Text]:
    """The lines of a table of two columns, names and values.

    Values are wrapped at `width`, but no word is broken: a value with a word that is too long for its column stands
    below its name, over the whole width. None: nothing is wrapped.
    """
    from rich.cells import cell_len
    from rich.text import Text

    every = [(visible(name), visible(value)) for name, value in rows]
    aside = max((cell_len(name) for name, _ in every), default=0) + 2
    lines = [Text(visible(title), style="bold")]
    for name, value in every:
        words = [cell_len(word) for word in value.split()]
        if width is not None and aside + max(words, default=0) > width:
            lines.append(Text(name, style="cyan"))
            lines += [Text(f"  {part}") for part in _wrapped(value, width - 2)]
            continue
        room = None if width is None else width - aside
        for number, part in enumerate(_wrapped(value, room)):
            before = name if number == 0 else ""
            padding = " " * (aside - cell_len(before))
            lines.append(Text.assemble((before, "cyan"), f"{padding}{part}"))
    for line in lines:
        line.rstrip()
    return lines


def grid_lines(grid: Table, width: int | None) -> list[Text]:
    """The lines of a table of several columns, in which no word is broken.

    If the longest words of all columns do not fit into `width` side by side, each row is shown as a list of names and
    values instead. None: nothing is wrapped.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    title, grid.title = str(grid.title or ""), None
    cells = [[Text.from_markup(str(cell)).plain for cell in column.cells] for column in grid.columns]
    names = [Text.from_markup(str(column.header)).plain for column in grid.columns]
    longest = [
        max((cell_len(word) for text in (name, *some) for word in text.split()), default=1)
        for name, some in zip(names, cells, strict=True)
    ]
    gaps = [gap for gap in (2, 1) if width is None or sum(longest) + gap * (len(longest) - 1) <= width]
    if not gaps:
        lines = [Text(title, style="bold")]
        for row in zip(*cells, strict=True):
            there = [(name, cell) for name, cell in zip(names, row, strict=True) if cell]
            lines += [Text(""), *pairs("", there, width)[1:]]
        return lines
    grid.padding = (0, gaps[0], 0, 0)
    wanted = [max(map(cell_len, (name, *some))) for name, some in zip(names, cells, strict=True)]
    spare = UNLIMITED if width is None else width - sum(longest) - gaps[0] * (len(longest) - 1)
    for column, share in zip(grid.columns, _shared(longest, wanted, spare), strict=True):
        column.width = share
    console = Console(width=width or UNLIMITED, highlight=False, color_system=None)
    with console.capture() as text:
        console.print(grid)
    return [Text(title, style="bold"), *(Text(line.rstrip()) for line in text.get().splitlines())]


def _shared(least: list[int], wanted: list[int], spare: int) -> list[int]:
    """Widths of columns, at least `least` and at most `wanted`: `spare` is shared, and small wishes come first."""
    widths = list(least)
    order = sorted(range(len(least)), key=lambda at: wanted[at] - least[at])
    for number, at in enumerate(order):
        more = min(wanted[at] - least[at], spare // (len(order) - number))
        widths[at] += more
        spare -= more
    return widths


def _wrapped(text: str, width: int | None) -> list[str]:
    """Text in lines of `width` at most, broken at blanks only: a longer word gets a line of its own."""
    from rich.cells import cell_len

    if width is None:
        return text.split("\n")
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if line and cell_len(longer) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return lines


def columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of text: a name, then columns of numbers. A long name stands on a line above its numbers."""
    short = max((len(row[0]) for row in rows if len(row[0]) <= LONG_NAME), default=len(names[0]))
    _, *numbers = zip(names, *rows, strict=True)
    widths = [max(short, len(names[0])), *(max(map(len, column)) for column in numbers)]

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *padded]).rstrip()

    lines = [line(names)]
    for row in rows:
        name, *rest = map(visible, row)
        lines += [line([name, *rest])] if len(name) <= widths[0] else [name, line(["", *rest])]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text made safe for rich: neither markup nor control characters take effect."""
    from rich.markup import escape as rich_escape

    return rich_escape(visible(text))


def visible(text: str) -> str:
    """Replace control characters (except newlines), lone surrogates and direction overrides by their codes.

    A name in a file may hold any of these, and could clear the screen or make another verdict appear.
    """
    return text if text.isprintable() else _HIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """Escape control characters (except newlines), lone surrogates and direction overrides in JSON text, as \\uXXXX."""
    return text if text.isprintable() else _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shortened(text: str, longest: int = LONGEST_CELL) -> str:
    """The beginning of a text that is longer than `longest` characters, with … at its end; other texts as they are."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def quoted(name: object) -> str:
    """A name in an error, as Python writes it; a very long one is cut."""
    return repr(shortened(name, LONGEST_QUOTED) if isinstance(name, str) else name)


def plural(count: int, word: str) -> str:
    """`1 label`, `2,000 labels`, `3 classes`."""
    return f"{count:,} {word}{'' if count == 1 else 'es' if word.endswith('s') else 's'}"


def number(value: float | None, digits: int = 3) -> str:
    """A number for people: thousands separated, very small and very large ones in powers of ten; — for None."""
    if value is None:
        return "—"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"
