"""Reading files that anyone may have put there: regular ones only.

A FIFO would let us wait for ever, and a device may never end.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


def read_regular(path: str | os.PathLike[str], *, inside: int | None = None) -> bytes:
    """The bytes of a regular file, `inside` an opened folder; an `OSError` for anything else. Never waits."""
    with _opened(path, inside) as file:
        return file.read()


def map_regular(path: str | os.PathLike[str], *, inside: int | None = None) -> mmap.mmap:
    """The same bytes, to be read when they are looked at: they take no memory that others could not have."""
    with _opened(path, inside) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise OSError(errno.EINVAL, "this file is empty", str(path))
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _opened(path: str | os.PathLike[str], inside: int | None) -> Iterator[BinaryIO]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "this is no regular file", str(path))
        yield file
