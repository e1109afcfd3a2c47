"""Write files so that they appear only when complete, and read only regular files of a size that is bounded.

A new file is written under a temporary name and then moved into place. Reading refuses FIFOs and devices that
lie in the place of a file: a FIFO may block for ever, and a device may never end. `limits.py` says how large a file may
be, which is decided before it is read.
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

from monolayer.data.limits import check_size


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """Open a new UTF-8 text file that becomes `path` if the block succeeds, and is removed if it raises."""
    with new_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8") as text:
        yield text


@contextmanager
def new_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a new binary file that becomes `path` if the block succeeds, and is removed if it raises."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # Created with mode 0o666, so that the user's umask sets the permissions as for any other file.
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:  # name the file that was asked for: the user does not know the temporary name
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def read_regular(path: str | os.PathLike[str], *, inside: int | None = None) -> bytes:
    """Read the bytes of the regular file at `path`. Anything else is an `OSError`. This never blocks.

    `inside` is the descriptor of an opened folder that a relative path starts from.
    """
    with _opened(path, inside) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            # A number of bytes is read where it stays; all of a file whose header was looked at is copied twice more.
            content = file.read(size + 1)
            return content if len(content) <= size else content + file.read()
        except (MemoryError, OverflowError):
            raise OSError(errno.ENOMEM, f"its {size:,} bytes do not fit into memory", str(path)) from None


def map_regular(path: str | os.PathLike[str], *, inside: int | None = None) -> mmap.mmap:
    """Map the regular file at `path` into memory: bytes are read on access, and the system may drop them again.

    `inside` is the descriptor of an opened folder that a relative path starts from. An empty file is an `OSError`.
    """
    with _opened(path, inside) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise OSError(errno.EINVAL, "this file is empty", str(path))
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _opened(path: str | os.PathLike[str], inside: int | None) -> Iterator[BinaryIO]:
    """Open a regular file for reading without ever blocking; an `OSError` for anything else, or too large a file."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        check_size(file, path)
        yield file
