"""A folder that is replaced all at once: at every moment the old one or the new one is there, and whole.

    .NAME.x7f3.saving/          a workshop beside the folder NAME, made by one process for one save
        lock                    locked while that process lives, so others know whether it still does
        made/                   the new folder; exchanged with NAME in one step, after which it is the old one
        old/                    the old folder, only where the system cannot exchange: then two renames are needed

A process may be killed anywhere. What it leaves is a workshop whose lock is free; the next save of NAME clears it,
and if NAME is missing, the next save or load first moves `old` back.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from monolayer.data.exchange import exchange, rename_new
from monolayer.data.regular import read_regular
from monolayer.errors import DataError

fcntl: Any
try:
    import fcntl
except ImportError:  # no locks that die with their process: workshops of the dead stay
    fcntl = None

_SUFFIX = ".saving"
_TRIES = 1000
"""Renames tried before giving up; only another process that saves at the same moment costs one."""


@dataclass(frozen=True)
class Kind:
    """How to know a folder that may be replaced: one of its files is JSON with `key: value`, and all are of `files`.

    A file written aside, `.FILE.…`, counts as FILE. `numbered`: a pattern of names that are among them too.
    """

    name: str
    marker: str
    key: str
    value: str
    files: frozenset[str]
    numbered: str | None = None

    def _own(self, name: str) -> bool:
        return name in self.files or (self.numbered is not None and re.fullmatch(self.numbered, name) is not None)

    def objection(self, folder: Path) -> str | None:
        """Why `folder` may not be replaced, or None."""
        try:
            said = json.loads(read_regular(folder / self.marker))
            ours = isinstance(said, dict) and said.get(self.key) == self.value
        except (OSError, ValueError, RecursionError):
            ours = False
        if not ours:
            return f"it holds no {self.name}: no {self.marker} that says {json.dumps({self.key: self.value})[1:-1]}"
        foreign = self.foreign(folder)
        return None if foreign is None else f"it holds {foreign!r}, which is no part of a {self.name}"

    def foreign(self, folder: Path, *, unfinished: bool = False) -> str | None:
        """The first thing in `folder` that is none of its files, if there is one.

        In an `unfinished` one may lie what a library writes aside (safetensors: `.tmp…`) and renames in the end.
        """
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            aside = entry.name.startswith(".") and self._own(entry.name[1:].rpartition(".")[0])
            aside |= unfinished and entry.name.startswith(".tmp")
            if not (self._own(entry.name) or aside) or entry.is_dir(follow_symlinks=False):
                return entry.name
        return None


MODEL = Kind(
    "model",
    "config.json",
    "format",
    "monolayer",
    frozenset(
        {"config.json", "model.safetensors", "names.json", "memory.safetensors", "certificate.json"}
        | {"model.safetensors.index.json"}
    ),
    r"model-[0-9]{5}-of-[0-9]{5}\.safetensors",
)


@contextmanager
def new_folder(folder: str | os.PathLike[str], *, overwrite: bool = False, kind: Kind = MODEL) -> Iterator[Path]:
    """A scratch folder that becomes `folder` when the block ends well, and vanishes when it does not."""
    final = check_output(folder, overwrite=overwrite, kind=kind).resolve()  # '.' has no name to make another from
    final.parent.mkdir(parents=True, exist_ok=True)
    for dead in _workshops(final):
        _clear(dead, kind)
    workshop, lock = _open_workshop(final)
    try:
        made = workshop / "made"
        made.mkdir()
        yield made
        usual = (workshop / "lock").stat().st_mode & 0o777
        for path in made.iterdir():
            path.chmod(usual)  # libraries that write aside make files for their owner alone
        if final.exists():  # the old one goes: first see to it that the new one survives a loss of power
            for path in (*made.iterdir(), made):
                _sync(path)
        _move_into_place(made, final, overwrite, kind)
    finally:
        _put_back(workshop, final)
        _remove(workshop)
        lock.close()


def check_output(folder: str | os.PathLike[str], *, overwrite: bool = False, kind: Kind = MODEL) -> Path:
    """Refuse a folder that exists, unless it may be replaced; bring back one that a killed process left aside."""
    final = Path(folder)
    recover(final.resolve())
    if final.exists() and not overwrite:
        raise DataError(
            f"{final} exists already: choose another folder, or ask to overwrite it (overwrite=True, --overwrite)"
        )
    objection = _objection(final, kind)
    if objection is not None:
        raise DataError(f"{final} exists and is not replaced: {objection}. Nothing was changed")
    above = next(parent for parent in final.absolute().parents if parent.exists())
    if not above.is_dir():
        raise DataError(f"{final} cannot be made: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{final} cannot be made: there is no permission to write into {above}")
    return final


def recover(final: Path) -> None:
    """If `final` is missing because a save was stopped between its two renames, put the old folder back.

    A save that still runs is waited for.
    """
    if os.path.lexists(final):
        return
    for workshop in _workshops(final):
        if (workshop / "old").is_dir():
            lock = _lock(workshop, wait=True)
            if lock is not None:
                with lock:
                    _put_back(workshop, final)


def being_saved(final: Path) -> bool:
    """Whether some process is saving `final` now, so that it may be missing for a moment."""
    for workshop in _workshops(final):
        lock = _lock(workshop, wait=False)
        if lock is None:  # in use, or finished while we looked
            return True
        lock.close()
    return False


def _objection(final: Path, kind: Kind) -> str | None:
    """Why `final` may not be replaced, looked at while nobody else replaces it."""
    for _ in range(_TRIES):
        before = _identity(final)
        try:
            objection = None if before is None else kind.objection(final)
        except FileNotFoundError:  # another save took it away while we looked
            continue
        if objection is None or _identity(final) == before:
            return objection
    return "other processes keep replacing it"


def _move_into_place(made: Path, final: Path, overwrite: bool, kind: Kind) -> None:
    for _ in range(_TRIES):
        try:
            rename_new(made, final)
            return
        except FileExistsError:
            check_output(final, overwrite=overwrite, kind=kind)
        with suppress(FileNotFoundError):  # another process took it away: look again
            if exchange(made, final):
                foreign = kind.foreign(made)
                if foreign is not None:  # it came after we had looked
                    exchange(made, final)
                    raise DataError(f"{final} is not replaced: {foreign!r} was put into it. Nothing was changed")
                return
            # The system cannot exchange: two renames. If it ends here, `_put_back` or `recover` undoes the first.
            final.rename(made.parent / "old")
            with suppress(FileExistsError):
                rename_new(made, final)
                return
            shutil.rmtree(made.parent / "old")  # another process put a whole folder there in between
    raise DataError(f"{final} cannot be replaced: other processes keep replacing it")


def _put_back(workshop: Path, final: Path) -> None:
    """The old folder back to its place, if no other stands there."""
    if not os.path.lexists(final):
        with suppress(FileExistsError, FileNotFoundError):
            rename_new(workshop / "old", final)


# -- workshops --------------------------------------------------------------------------------------------


def _open_workshop(final: Path) -> tuple[Path, BinaryIO]:
    """A new workshop for `final`, and the open file that locks it."""
    for _ in range(_TRIES):
        workshop = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=_SUFFIX, dir=final.parent))
        with suppress(FileNotFoundError):  # cleared by another save before it was locked: make another one
            (workshop / "lock").touch()
            lock = _lock(workshop, wait=True)
            if lock is not None:
                return workshop, lock
    raise DataError(f"{final} cannot be written: other processes keep clearing its scratch folders")


def _lock(workshop: Path, *, wait: bool) -> BinaryIO | None:
    """The lock of a workshop, held until the file is closed; None if the workshop is gone or, unless `wait`, in use."""
    try:
        file = (workshop / "lock").open("r+b")
    except OSError:
        return None
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif not wait:
            raise BlockingIOError
        if os.path.samestat(os.fstat(file.fileno()), (workshop / "lock").stat()):
            return file
    except FileNotFoundError:  # cleared while we waited
        pass
    except OSError:
        if wait:  # a file system without locks: nobody clears there either
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def _workshops(final: Path) -> list[Path]:
    if not final.parent.is_dir():
        return []
    # Eight characters, as `tempfile` draws them: `.NAME.v2.x7f3q_0a.saving` is a workshop of `NAME.v2`, not of `NAME`.
    name = re.compile(rf"\.{re.escape(final.name)}\.[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")
    return sorted(path for path in final.parent.iterdir() if name.fullmatch(path.name))


def _clear(workshop: Path, kind: Kind) -> None:
    """Remove the workshop of a process that died; one that holds anything foreign stays."""
    with suppress(OSError):
        workshop.rmdir()  # killed before it had a lock, or after it had none any more
        return
    lock = _lock(workshop, wait=False)
    if lock is not None:
        with lock, suppress(FileNotFoundError):
            if not any(kind.foreign(inside, unfinished=True) for inside in _inside(workshop)):
                _remove(workshop)


def _remove(workshop: Path) -> None:
    """Remove a workshop whose lock is ours; the lock last, so that whoever is stopped here leaves something to lock."""
    for folder in _inside(workshop):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        (workshop / "lock").unlink(missing_ok=True)
        workshop.rmdir()


def _inside(workshop: Path) -> list[Path]:
    return [workshop / name for name in ("made", "old") if (workshop / name).is_dir()]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sync(path: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
