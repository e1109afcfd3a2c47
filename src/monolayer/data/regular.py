"""Reading files that anyone may have put there: regular ones only.

A FIFO would let us wait for ever, and a device may never end.
"""

from __future__ import annotations

import errno
import os
import stat

_PLAIN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: str | os.PathLike[str], *, inside: int | None = None) -> bytes:
    """The bytes of a regular file, `inside` an opened folder; an `OSError` for anything else. Never waits."""
    handle = os.open(path, _PLAIN, dir_fd=inside)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "this is no regular file", str(path))
        return file.read()
