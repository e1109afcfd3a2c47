"""The command line: words to calls. No mathematics lives here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from monolayer.cli import approximate as _approximate
from monolayer.cli import construct as _construct
from monolayer.cli import demo as _demo
from monolayer.cli import experiment as _experiment
from monolayer.cli import explain as _explain
from monolayer.cli import inspect as _inspect
from monolayer.cli import proof as _proof
from monolayer.cli import recite as _recite
from monolayer.cli.console import app, complain
from monolayer.errors import MonolayerError

__all__ = ["app", "main"]
_COMMANDS = (_construct, _approximate, _inspect, _explain, _proof, _recite, _demo, _experiment)
"""Modules that add commands to `app` when they are imported."""

BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 2, 130, 141
# Where this class lives differs between versions of typer; every usage error descends from it.
_UsageError: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 0 done or proved, 1 refuted, 2 bad input, 3 undecided."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """`main` without leaving: the exit code of a command. A user's mistake is a message, never a traceback."""
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
        code = code if isinstance(code, int) else 0
        sys.stdout.flush()  # now, while a closed pipe or a full disk can still be told
    except MonolayerError as error:
        complain(str(error))
        return BAD_INPUT
    except typer.Exit as leaving:
        code = leaving.exit_code
    except _UsageError as usage:
        usage.show()
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as leaving:
        # typer and rich turn a closed pipe into exit code 1, which would mean refuted.
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        return _reader_left()
    except OSError as error:
        complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        return BAD_INPUT
    if code == INTERRUPTED:  # some versions of typer turn Ctrl-C into this code themselves
        complain("interrupted; nothing is half-written")
    return code


def _reader_left() -> int:
    """The reader of our output went away (head, a closed pager): no message, and no verdict either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE
