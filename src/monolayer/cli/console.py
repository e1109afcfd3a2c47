"""What commands print: results to standard output, progress and errors to standard error."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console

from monolayer.bar import bar
from monolayer.errors import DataError, needs_extra
from monolayer.table import Progress, escape, grid_lines, pairs, visible, visible_json

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from monolayer.data.plan import ReadPlan

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def flag(name: str, help: str) -> Any:
    """A command-line flag. The empty metavar keeps typer from showing its type as <bool>."""
    return typer.Option(name, help=help, metavar="")


def output(help: str) -> Any:
    """The option for where a command writes its result, which every command spells alike."""
    return typer.Option("--out", "-o", help=help)


app = typer.Typer(
    name="monolayer",
    help="Build one-layer, rank-1 Transformers that return every label of a dataset. No training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_read: ContextVar[list[Any] | None] = ContextVar("read", default=None)
"""How the data of a command with --json were read, until it prints its object; None for a command without."""
FactsByName = dict[str, Any]
"""What a command found, by name: JSON for machines, or values for the rows of a table."""
Overwrite = Annotated[bool, flag("--overwrite", "Replace what is already there.")]
Json = Annotated[bool, flag("--json", "Print one JSON object instead of a table.")]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, flag("--version", "Print the version and exit.")] = False,
    debug: Annotated[bool, flag("--debug", "Show full tracebacks; may appear anywhere on the command line.")] = False,
) -> None:
    if version:
        from monolayer import __version__

        out.print(f"monolayer {__version__}")
        raise typer.Exit


def as_flags(message: str) -> str:
    """Rewrite keyword arguments in a message of the library as command-line flags.

    `seed=3` becomes `--seed 3`, `causal=True` becomes `--causal`, and `first_block=False` becomes `--no-first-block`.
    """
    commands = [command.callback for command in app.registered_commands if command.callback is not None]
    known = {name for command in commands for name in inspect.signature(command).parameters}

    def flag(match: re.Match[str]) -> str:
        name, given = match[1], match[2]
        if given == "False" and not known.isdisjoint((name, f"no_{name}")):
            return f"--no-{name.replace('_', '-')}"
        if name not in known:
            return match[0]
        value = "" if given in (None, "True") else re.sub(quoted, lambda text: shlex.quote(text[0][1:-1]), given)
        return f"--{name.replace('_', '-')} {value}".rstrip()

    quoted = "'[^']*'|\"[^\"]*\""
    # Some messages name both: the keyword, and the flag in brackets after it. Then the flag is dropped here.
    message = re.sub(rf"(=(?:{quoted}|[\w.+-]*)) \((?:--[a-z-]+(?:, )?)+(?: on the command line)?\)", r"\1", message)
    message = message.replace("path='dense'", "--dense")
    message = re.sub(rf"\b([a-z_]+)=((?:{quoted})(?: or (?:{quoted}))*|True\b|[\w+-][\w.+-]*)?", flag, message)
    message = re.sub(r"\((--[a-z-]+), \1\)", r"(\1)", message)
    message = message.replace("give Y, or --causal", "add labels, or pass --causal")
    return message.replace("give Y", "add labels to the data")


def complain(message: str) -> None:
    """Print an error as one paragraph on standard error, with keyword arguments rewritten as flags."""
    err.print(f"[bold red]error:[/] {escape(as_flags(message))}", soft_wrap=True)


def show_traceback() -> None:
    """Print the traceback of the error that is being handled on standard error."""
    err.print(visible(traceback.format_exc()), markup=False, soft_wrap=True)


def table(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a table of two columns, names and values."""
    _print_lines(pairs(title, rows, _width()))


def print_grid(grid: Table) -> None:
    """Print a table of several columns."""
    _print_lines(grid_lines(grid, _width()))


def _width() -> int | None:
    """The width at which text is wrapped: that of the terminal. None: the output goes elsewhere, and is not wrapped."""
    return out.width if out.is_terminal else None


def _print_lines(lines: list[Text]) -> None:
    for line in lines:
        out.print(line, soft_wrap=True)


def show(as_json: bool, value: object, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a result as JSON or as a table."""
    if as_json:
        print_json(value)
    else:
        table(title, rows)


def wrote(as_json: bool, value: object, path: Path, more: str = "") -> None:
    """Report that a file was written, as JSON or as a sentence; `more` ends the sentence."""
    if as_json:
        print_json(value)
    else:
        out.print(f"wrote {escape(str(path))}{more}", soft_wrap=True)


def check_file(path: Path, overwrite: bool) -> None:
    """Refuse, before any work is done, an output file that exists already or cannot be written."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: give the name of a file")
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists already: choose another file, or pass --overwrite")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be created: {above} is not a folder that you can write to")


def check_picture(path: Path, overwrite: bool) -> None:
    """Refuse, before any work is done, a picture that cannot be written or drawn."""
    check_file(path, overwrite)
    if find_spec("plotly") is None:
        raise needs_extra("pictures need plotly", "report")


def write_picture(path: Path, figure: object) -> None:
    """Write a Plotly figure as one HTML file that loads nothing from elsewhere."""
    from monolayer.data.aside import new_file
    from monolayer.model.plot import picture_page

    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        file.write(picture_page(figure))


@contextmanager
def stating_what_is_read(as_json: bool) -> Iterator[None]:
    """While the block runs, `say_read` states what a command reads: in its JSON object, or on standard error."""
    token = _read.set([] if as_json else None)
    try:
        yield
    finally:
        _read.reset(token)


def say_read(plans: Sequence[ReadPlan]) -> None:
    """State how data were read: on standard error or, with --json, in the object that the command prints."""
    stated = _read.get()
    if stated is not None:
        stated += [plan.to_json() for plan in plans]
        return
    from monolayer.data.plan import plan_lines

    for line in plan_lines(plans):
        err.print(f"read {escape(line)}", soft_wrap=True)


def print_json(value: object) -> None:
    """Print one JSON value on standard output; an object gets the key `read`, if the command read data."""
    plans = _read.get()
    if plans and isinstance(value, dict):
        value = {**value, "read": plans}
    print(json_text(value, sys.stdout, indent=1))


def json_text(value: object, file: TextIO, indent: int | None = None) -> str:
    """JSON text. Characters are escaped if `file` cannot encode them or a terminal would take them as commands."""
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
    try:
        text.encode(file.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Show a bar on standard error, if that is a terminal, while the block runs; `step(stage, share)` moves it."""
    with bar(err, shown=not quiet) as step:
        yield step
