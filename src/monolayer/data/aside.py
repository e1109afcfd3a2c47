"""Files that appear only when they are complete: written under another name, then moved into place."""

from __future__ import annotations

import io
import os
import secrets
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
