"""Files that appear only when they are complete: written under another name, then moved into place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text file that becomes `path` when the block ends well, and vanishes when it does not."""
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        share(Path(scratch))
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)


def share(path: Path) -> None:
    """The permissions that the user's mask asks for: scratch files and folders are made for their owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
