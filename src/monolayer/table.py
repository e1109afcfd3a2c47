"""What commands show: the table of a result, which is also its `repr` in Python, and how far a long call has come."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.table import Table

TABLE_WIDTH = 100
"""Width in characters of the `repr` of a result."""
LONG_WORD = 64
"""Length of a digest. A value at least this long, without a blank, is kept on one line if possible."""
LONG_NAME = 14
"""Longest name that stands on the line of its numbers; a longer one gets its own line."""
_HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Progress = Callable[[str, float], None]
"""A function that a long call tells how far it is: the name of the stage, and the share of the work done, 0 to 1."""


def part_of(progress: Progress, begin: float, end: float) -> Progress:
    """A `Progress` for one part of a longer call, whose 0 to 1 are `begin` to `end` there."""
    return lambda stage, share: progress(stage, begin + (end - begin) * share)


class Tabular(Protocol):
    """A result with rows of text to show; (name, value) pairs, unless it has `columns`."""

    def rows(self) -> Sequence[Sequence[str]]: ...


def as_table(result: Tabular) -> str:
    """The `repr` of a result: the table that its command prints, under the name of its class."""
    from rich.console import Console

    console = Console(width=TABLE_WIDTH, highlight=False, color_system=None)
    with console.capture() as text:
        for grid in pairs(type(result).__name__, ((row[0], row[1]) for row in result.rows())):
            console.print(grid)
    return "\n".join(line.rstrip() for line in text.get().rstrip().split("\n"))


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


def pairs(title: str, rows: Iterable[tuple[str, str]]) -> list[Table]:
    """Tables of two columns, names and values; long values get a second table of their own."""
    from rich.table import Table

    every = list(rows)
    apart = [row for row in every if len(row[1]) >= LONG_WORD and " " not in row[1]]
    grids = []
    # A digest next to a long name would be wrapped at 80 columns, so digests get a table of their own, below.
    for some, heading in (([row for row in every if row not in apart], escape(title)), (apart, None)):
        if not some and heading is None:
            continue
        grid = Table(
            title=heading, title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False
        )
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in some:
            grid.add_row(escape(name), escape(value))
        grids.append(grid)
    return grids


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
