"""The command line: words to calls. No mathematics lives here."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import Any

import typer

from monolayer.cli.console import app, complain, err, out, show_traceback
from monolayer.cli.examples import GREETING, show_examples
from monolayer.errors import INTERRUPTED, SAID_WHEN_INTERRUPTED, MonolayerError

__all__ = ["app", "main"]
# Each module adds its commands to `app` when it is imported, and `--help` lists them in this order.
for _module in (
    *("memorize", "predict", "proof", "looking", "stock", "attach", "recognize", "recite"),
    *("editing", "approximate", "theory", "demo", "experiment"),
):
    import_module(f"monolayer.cli.{_module}")
show_examples(app)

STYLED, PIPED_WIDTH = app.rich_markup_mode, 140
"""How help is shown in a terminal, and how wide it is in a pipe."""
PROGRAM, COMPLETING = "monolayer", "_MONOLAYER_COMPLETE"
"""The name of the command, and the environment variable by which a shell asks it how a line may go on."""
BAD_INPUT, UNEXPECTED, CLOSED_PIPE = 2, 70, 141
# Every usage error is a ClickException. Its module differs between versions of typer, so it is found by name.
_UsageError: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE, None}
"""Error numbers that are the machine's fault (exit code 70). All others are about the path that the user gave (2)."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code: 0 done or proved, 1 refuted, 2 bad input, 3 undecided, 70 failed."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. A user's mistake prints a message, never a traceback.

    Exit code 1 means *refuted*, so no failure may return it: an unexpected error returns 70.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words[: words.index("--") if "--" in words else None]
    if debug:
        words.remove("--debug")  # it may appear anywhere, also after the command
    for console in (out, err):
        console.soft_wrap = not console.is_terminal  # whatever is piped is not wrapped
    # Piped help is plain text without boxes, wide enough for the whole sentence that describes a command.
    app.rich_markup_mode, width = (STYLED, None) if out.is_terminal else (None, PIPED_WIDTH)
    if not words and COMPLETING not in os.environ:
        print(GREETING)
        return 0
    try:
        code = _asked(words)(args=words, prog_name=PROGRAM, standalone_mode=False, terminal_width=width)
        code = code if isinstance(code, int) else 0
        sys.stdout.flush()  # now, while a closed pipe or a full disk can still be reported
    except MonolayerError as error:
        return _fail(BAD_INPUT, str(error), debug)
    except typer.Exit as leaving:
        code = leaving.exit_code
    except _UsageError as usage:
        return _misused(usage)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        return _drop_output(CLOSED_PIPE)
    except SystemExit as leaving:
        # typer and rich turn a closed pipe into exit(1), which would mean refuted; a user's function may call exit too.
        if isinstance(leaving.__context__, BrokenPipeError):
            return _drop_output(CLOSED_PIPE)
        if COMPLETING in os.environ and isinstance(leaving.code, int):  # the shell asked typer for words to offer
            return leaving.code
        return _fail(UNEXPECTED, f"internal error: unexpected exit({leaving.code!r})", debug)
    except OSError as error:
        message = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        if error.errno not in _MACHINE:
            return _fail(BAD_INPUT, message, debug)
        return _drop_output(_fail(UNEXPECTED, f"{message}; nothing is half-written, and nothing was decided", debug))
    except MemoryError:
        return _fail(UNEXPECTED, "out of memory; nothing is half-written, and nothing was decided", debug)
    except Exception as error:  # a bug of ours: said in one line, with exit code 70, and never as a raw traceback
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        way_out = "" if debug else "; --debug shows the traceback"
        return _fail(UNEXPECTED, f"internal error: {what}{way_out}", debug)
    if code == INTERRUPTED:  # some versions of typer turn Ctrl-C into this code themselves
        complain(SAID_WHEN_INTERRUPTED)
    return code


def _asked(words: list[str]) -> typer.Typer:
    """`app` with as much of it as these arguments need, since typer takes long to build all commands.

    That is the command that they begin with, or names and descriptions for the list of all commands.
    """
    if COMPLETING in os.environ:
        return app
    smaller = copy(app)
    smaller.registered_commands = [each for each in app.registered_commands if each.name == words[0]]
    if words[0] in ("-h", "--help"):
        smaller.registered_commands = [copy(each) for each in app.registered_commands]
        for each in smaller.registered_commands:
            each.callback = _nothing
    return smaller if smaller.registered_commands else app


def _nothing() -> None:
    """A command without options."""


def _misused(usage: Any) -> int:
    """Report arguments that the command does not take, as one error in the style of all others."""
    # A command without the arguments that it needs: in a pipe the help is the message, and no error.
    if type(usage).__name__ == "NoArgsIsHelpError" or not usage.format_message():
        usage.show()
        return BAD_INPUT
    context = getattr(usage, "ctx", None)
    way_out = "" if context is None else f". {context.command_path} --help lists what it takes"
    complain(f"{usage.format_message().rstrip('.')}{way_out}")
    return BAD_INPUT


def _fail(code: int, message: str, debug: bool) -> int:
    if debug:
        show_traceback()
    complain(message)
    return code


def _drop_output(code: int) -> int:
    """Discard the rest of the output, because its reader is gone (head, a closed pager) or it cannot be written.

    Otherwise Python would try to flush it again at exit, and change the exit code.
    """
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is not a file, so Python does not flush it again
        return code
    return code
