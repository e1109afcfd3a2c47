"""Files that commands write: what cannot be written is refused before the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from monolayer.data.aside import new_file
from monolayer.errors import DataError


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears only when it is complete."""
    if path is None:
        yield sys.stdout
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        yield file


def check_file(path: Path, overwrite: bool) -> None:
    """Refuse a file that may not or cannot be written."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: give the name of a file")
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists already: choose another file, or pass --overwrite")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be made: {above} is no folder that can be written into")
