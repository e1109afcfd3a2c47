"""The entry of the command line, for `monolayer` and for `python -m monolayer`.

It imports little, so that Ctrl-C ends a command quietly also while its modules are being imported.
"""

import os
import signal
import sys
from types import FrameType

from monolayer.errors import INTERRUPTED, SAID_WHEN_INTERRUPTED

_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it
_IMPORTING = "<frozen importlib._bootstrap>"
"""The name of the file of every frame that imports a module."""


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a command in the background may ignore Ctrl-C
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from monolayer.cli import main as run

        run()
    except KeyboardInterrupt:
        print(f"error: {SAID_WHEN_INTERRUPTED}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the process if it is importing a module, and raise `KeyboardInterrupt` otherwise.

    An exception inside an import does not always arrive: PyTorch aborts when one comes while its C++ parts are set up,
    and some modules catch everything. Files are written aside and moved into place, so ending at once is safe.
    """
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            cursor = _SHOW_CURSOR if os.isatty(2) else ""
            os.write(2, f"{cursor}error: {SAID_WHEN_INTERRUPTED}\n".encode())
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
