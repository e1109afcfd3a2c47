"""Files that appear only when they are complete, written under another name and moved into place; and reading files
that anyone may have put there: regular ones only, for a FIFO would let us wait for ever, and a device may never end.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text file that becomes `path` when the block ends well, and vanishes when it does not."""
    with new_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8") as text:
        yield text


@contextmanager
def new_bytes(path: Path) -> Iterator[BinaryIO]:
    """The same for a file of bytes."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # Made like any other file, so with the permissions that the user's mask asks for.
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:  # about the file that was asked for: nobody knows the name of the scratch file
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


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
