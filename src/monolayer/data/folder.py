"""A folder that is replaced all at once: at every moment the old one or the new one is there, and whole.

    .NAME.3f9a01bc.saving/    the new folder, locked by the process that writes it; exchanged with NAME in one step,
                              after which it is the old one, and is removed
    .NAME.3f9a01bc.old/       the old folder, only where the system cannot exchange: then two renames are needed

A process may be killed anywhere. What it leaves is cleared by the next save of NAME, once its lock is free; and if NAME
is missing, the next save or load first moves the old folder back.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monolayer.data.exchange import exchange, rename_new
from monolayer.data.regular import read_regular
from monolayer.errors import DataError

fcntl: Any
try:
    import fcntl
except ImportError:  # no locks that die with their process: what the dead leave stays
    fcntl = None

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
    _clear(final, kind)
    try:
        scratch, lock = _make(final)
    except OSError as error:  # about the folder that was asked for: nobody knows the name of a scratch folder
        raise OSError(error.errno, error.strerror, str(folder)) from None
    try:
        yield scratch
        usual = scratch.stat().st_mode & 0o666
        for path in scratch.iterdir():
            path.chmod(usual)  # libraries that write aside make files for their owner alone
        if final.exists():  # the old one goes: first see to it that the new one survives a loss of power
            for path in (*scratch.iterdir(), scratch):
                _sync(path)
        _move_into_place(scratch, final, overwrite, kind)
    finally:
        recover(final)
        shutil.rmtree(scratch, ignore_errors=True)  # the old folder, or one that was not finished
        if final.exists():
            shutil.rmtree(scratch.with_suffix(".old"), ignore_errors=True)
        if lock is not None:
            os.close(lock)


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


def recover(final: Path) -> bool:
    """If `final` is missing because a save was stopped between its two renames, put the old folder back.

    Whether it is there now, or was a moment ago: a save that still runs takes it away once more.
    """
    if os.path.lexists(final):
        return True
    aside = _beside(final, "old")
    for old in aside:
        with suppress(OSError):
            rename_new(old, final)
    return bool(aside) or os.path.lexists(final)


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


def _move_into_place(scratch: Path, final: Path, overwrite: bool, kind: Kind) -> None:
    for _ in range(_TRIES):
        try:
            rename_new(scratch, final)
            return
        except FileExistsError:
            check_output(final, overwrite=overwrite, kind=kind)
        try:
            exchanged = exchange(scratch, final)
        except FileNotFoundError:  # another process took it away: look again
            continue
        if exchanged:
            foreign = None
            with suppress(FileNotFoundError):  # another save cleared it, which looks for foreign files itself
                foreign = kind.foreign(scratch)
            if foreign is not None:  # it came after we had looked
                exchange(scratch, final)
                raise DataError(f"{final} is not replaced: {foreign!r} was put into it. Nothing was changed")
            return
        # The system cannot exchange: two renames. If it ends between them, `recover` undoes the first.
        old = scratch.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)  # from the last round, in which another process put a folder there
        with suppress(FileNotFoundError):
            final.rename(old)
    raise DataError(f"{final} cannot be replaced: other processes keep replacing it")


# -- what lies beside ------------------------------------------------------------------------------------


def _make(final: Path) -> tuple[Path, int | None]:
    """A new scratch folder for `final`, and its lock, where there are locks."""
    for _ in range(_TRIES):
        scratch = final.with_name(f".{final.name}.{secrets.token_hex(4)}.saving")
        scratch.mkdir()
        lock = _lock(scratch, wait=True)
        if scratch.exists():  # else cleared by another save before it was locked
            return scratch, lock
        if lock is not None:
            os.close(lock)
    raise DataError(f"{final} cannot be written: other processes keep clearing its scratch folders")


def _lock(scratch: Path, *, wait: bool) -> int | None:
    """The lock of a scratch folder, which ends with its process; None if it has none or, unless `wait`, is in use."""
    if fcntl is None:
        return None
    try:
        handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # in use, or a file system without locks: then nobody clears
        os.close(handle)
        return None
    return handle


def _beside(final: Path, suffix: str) -> list[Path]:
    """Scratch folders of `final`: the random part has no dot, so `.NAME.v2.3f9a01bc.old` belongs to `NAME.v2` alone."""
    if not final.parent.is_dir():
        return []
    name = re.compile(rf"\.{re.escape(final.name)}\.[0-9a-f]{{8}}\.{suffix}")
    return sorted(path for path in final.parent.iterdir() if name.fullmatch(path.name))


def _clear(final: Path, kind: Kind) -> None:
    """Remove what processes left that died while they saved `final`; a folder that holds anything foreign stays."""
    for scratch in _beside(final, "saving"):
        lock = _lock(scratch, wait=False)
        if lock is not None:
            with suppress(OSError):
                if kind.foreign(scratch, unfinished=True) is None:
                    shutil.rmtree(scratch, ignore_errors=True)
            os.close(lock)
    for old in _beside(final, "old"):
        with suppress(OSError):
            if final.exists() and not old.with_suffix(".saving").exists() and kind.foreign(old) is None:
                shutil.rmtree(old, ignore_errors=True)


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
