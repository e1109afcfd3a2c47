"""The command line: words to calls. No mathematics lives here."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from monolayer.cli.console import app, complain, show_traceback
from monolayer.errors import MonolayerError

__all__ = ["app", "main"]
# They add their commands to `app` when they are imported, and `--help` shows them in this order.
for _module in (
    *("memorize", "predict", "proof", "looking", "stock", "attach", "recite"),
    *("editing", "approximate", "theory", "demo", "experiment"),
):
    import_module(f"monolayer.cli.{_module}")

BAD_INPUT, UNEXPECTED, INTERRUPTED, CLOSED_PIPE = 2, 70, 130, 141
# Where this class lives differs between versions of typer; every usage error descends from it.
_UsageError: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE, None}
"""What the system says when it fails itself; everything else it says is about the path that it was given."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code: 0 done or proved, 1 refuted, 2 bad input, 3 undecided, 70 failed."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """`main` without leaving: the exit code of a command. A user's mistake is a message, never a traceback.

    No failure may leave with 1, which says *refuted*: what nobody thought of leaves with 70.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words[: words.index("--") if "--" in words else None]
    if debug:
        words.remove("--debug")  # it may stand anywhere, also behind the command
    try:
        code = app(args=words, standalone_mode=False)
        code = code if isinstance(code, int) else 0
        sys.stdout.flush()  # now, while a closed pipe or a full disk can still be told
    except MonolayerError as error:
        return _fail(BAD_INPUT, str(error), debug)
    except typer.Exit as leaving:
        code = leaving.exit_code
    except _UsageError as usage:
        usage.show()
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        return _drop_output(CLOSED_PIPE)
    except SystemExit as leaving:
        # typer and rich turn a closed pipe into exit code 1, which would mean refuted; so would a user's function.
        if isinstance(leaving.__context__, BrokenPipeError):
            return _drop_output(CLOSED_PIPE)
        return _fail(UNEXPECTED, f"something called exit({leaving.code!r}): this is no verdict", debug)
    except OSError as error:
        said = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        if error.errno not in _MACHINE:
            return _fail(BAD_INPUT, said, debug)
        return _drop_output(_fail(UNEXPECTED, f"{said}; nothing is half-written, and this is no verdict", debug))
    except MemoryError:
        return _fail(UNEXPECTED, "out of memory; nothing is half-written, and this is no verdict", debug)
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        way_out = "" if debug else "; --debug shows where"
        return _fail(UNEXPECTED, f"unexpected failure, which is no verdict: {what}{way_out}", debug)
    if code == INTERRUPTED:  # some versions of typer turn Ctrl-C into this code themselves
        complain("interrupted; nothing is half-written")
    return code


def _fail(code: int, message: str, debug: bool) -> int:
    if debug:
        show_traceback()
    complain(message)
    return code


def _drop_output(code: int) -> int:
    """Nobody reads our output any more (head, a closed pager), or it cannot be written: the rest of it goes nowhere.

    Otherwise Python tries again when it ends, and changes the exit code.
    """
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is no file: nothing is tried again
        return code
    return code
