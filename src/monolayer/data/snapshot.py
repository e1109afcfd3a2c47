"""Several files of a folder, all out of one and the same folder, though it may be replaced while they are read.

`monolayer.data.folder` replaces a folder in one step and deletes the old one. Whoever read `config.json` before and
the weights after would mix two saves. So the folder is opened once, files are opened inside it, and if one is gone
because the folder was replaced, all is read again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from monolayer.data.folder import recover
from monolayer.data.regular import map_regular, read_regular

_TRIES = 1000
"""How often a folder may be replaced while it is read."""


def read_together(
    folder: Path,
    first: str,
    others: Callable[[bytes], Iterable[str]],
    mapped: Callable[[str], bool] = lambda name: False,
) -> dict[str, Any]:
    """The file `first` of a folder and those that `others` finds named in it; regular files only.

    Bytes; of files that are `mapped` a map of their bytes, which takes no memory before it is read. `OSError`, with the
    full path, for one that is missing or cannot be read. What `others` raises goes through.
    """
    if os.open not in os.supports_dir_fd:  # then paths must do
        found = {first: read_regular(folder / first)}
        return found | {name: _read(folder / name, None, mapped(name)) for name in others(found[first])}
    for _ in range(_TRIES):
        there = recover(folder.resolve())
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if there:  # a moment ago: it is being replaced by two renames
                continue
            raise
        name = first
        try:
            found = {first: read_regular(first, inside=opened)}
            for name in others(found[first]):
                found[name] = _read(name, opened, mapped(name))
            return found
        except OSError as error:
            if _is(folder, opened):
                raise OSError(error.errno, error.strerror, str(folder / name)) from None
        finally:
            os.close(opened)
    raise OSError(errno.EBUSY, "it is replaced again and again while it is read", str(folder))


def _read(path: str | Path, inside: int | None, mapped: bool) -> Any:
    return map_regular(path, inside=inside) if mapped else read_regular(path, inside=inside)


def _is(folder: Path, opened: int) -> bool:
    """Whether `folder` still names the folder that was opened."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
