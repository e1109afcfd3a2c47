"""Replace a folder all at once: at every moment either the old folder or the new one is there, and complete.

    .NAME.3f9a01bc.saving/    the new folder, locked by the process that writes it; in the end renamed to NAME
    .NAME.3f9a01bc.old/       the old folder, moved out of its way, then removed

A process that moves folders locks the parent folder, so moves come one after the other. On a file system without locks,
two saves at the same moment may fail, but neither harms the other. A process may be killed at any point. What it leaves
behind is removed by the next save of NAME, once its lock is free. If NAME is missing, the next save or load first moves
the old folder back.

A reader that took `config.json` from before a save and the weights from after it would mix two models. So
`read_together` opens the folder once and reads files inside it. If one is gone because the folder was replaced, it
reads all of them again. Nothing else reads two files of a folder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from safetensors import SafetensorError

from monolayer.data.aside import map_regular, read_regular
from monolayer.data.limits import check_written_sizes
from monolayer.errors import DataError, ModelFileError

ReadResult = TypeVar("ReadResult")
WEIGHTS_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
"""The file with all weights of a model, and the index that says which shard holds what if they are in several files."""
SHARD_NAME = r"model-[0-9]{5}-of-[0-9]{5}\.safetensors"
"""A pattern that matches the names of shards, which are those that `save_pretrained` gives them."""
_TRIES = 1000
"""How often a folder may be replaced while it is read before reading gives up."""
_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]{8}")
"""Matches a file that `aside.py` is writing: hidden, with eight random digits. Other hidden files are the user's."""
_SCRATCH = re.compile(r"\..+\.[0-9a-f]{8}\.(saving|old)")
"""Matches a folder that a save is writing, or has moved out of the way."""


@dataclass(frozen=True)
class FolderKind:
    """How to recognize a folder that may be replaced: `config.json` has `key: "monolayer"`, and no file is unknown.

    A file written aside, `.FILE.3f9a01bc`, counts as FILE. `numbered`: a pattern of further names that are allowed.
    Files may lie in folders, "onnx/model.onnx".
    """

    name: str
    key: str
    files: frozenset[str]
    numbered: str | None = None

    def _own(self, name: str) -> bool:
        """Whether a file of this name belongs to this kind of folder."""
        return name in self.files or (self.numbered is not None and re.fullmatch(self.numbered, name) is not None)

    def objection(self, folder: Path) -> str | None:
        """Why `folder` may not be replaced, as a clause for an error; None if it may."""
        try:
            config = json.loads(read_regular(folder / "config.json"))
            ours = isinstance(config, dict) and config.get(self.key) == "monolayer"
        except (OSError, ValueError, RecursionError):
            ours = False
        if not ours:
            return f'it holds no {self.name}: no config.json that says "{self.key}": "monolayer"'
        foreign = self.foreign(folder)
        return None if foreign is None else f"it holds {foreign!r}, which is not part of a {self.name}"

    def foreign(self, folder: Path, *, unfinished: bool = False) -> str | None:
        """The first name in `folder` that does not belong to this kind of folder, None if all do.

        An `unfinished` folder may also hold files that a library writes aside (safetensors: `.tmp…`) and then renames.
        """
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            beside = _ASIDE.fullmatch(entry.name)
            aside = beside is not None and self._own(beside[1])
            aside |= unfinished and entry.name.startswith(".tmp")
            if entry.is_dir(follow_symlinks=False):
                expected = {file for file in self.files if file.startswith(f"{entry.name}/")}
                known = bool(expected) and {f"{entry.name}/{path.name}" for path in Path(entry).iterdir()} <= expected
            else:
                known = self._own(entry.name) or aside
            if not known:
                return entry.name
        return None


MODEL = FolderKind(
    "model",
    "format",
    frozenset({"config.json", WEIGHTS_FILE, INDEX_FILE, "names.json", "memory.safetensors", "certificate.json"}),
    SHARD_NAME,
)


# -- writing -----------------------------------------------------------------------------------------------


@contextmanager
def new_folder(
    folder: str | os.PathLike[str], *, overwrite: bool | None = False, kind: FolderKind = MODEL
) -> Iterator[Path]:
    """Open a scratch folder that becomes `folder` if the block succeeds, and is removed if it raises.

    `overwrite`: whether an existing folder may be replaced, if it is one of this `kind`; None if users cannot ask for
    that. What the system says when safetensors cannot write a file, most often of a full disk, becomes an `OSError`.
    """
    final = check_output(folder, overwrite=overwrite, kind=kind).resolve()  # '.' has no name to make another from
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = final.with_name(f".{final.name}.{secrets.token_hex(4)}.saving")
    try:
        with _moving_alone(final):
            _clear_leftovers(final, kind)
            scratch.mkdir()
            lock = _lock(scratch, wait=True)
    except OSError as error:  # name the folder that was asked for: users do not know the scratch folder
        raise OSError(error.errno, error.strerror, str(folder)) from None
    try:
        try:
            yield scratch
        except SafetensorError as error:
            raise OSError(f"{folder} cannot be written: {error}") from None
        check_written_sizes(scratch)
        usual = scratch.stat().st_mode & 0o666
        for path in filter(Path.is_file, scratch.rglob("*")):
            path.chmod(usual)  # libraries that write aside make files for their owner alone
        if final.exists():  # before the old folder goes, make sure that the new one survives a power loss
            for path in (*scratch.rglob("*"), scratch):
                _sync(path)
        with _moving_alone(final):
            _move_into_place(scratch, final, overwrite, kind)
    finally:
        if recover(final):
            shutil.rmtree(scratch.with_suffix(".old"), ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)  # still there if it was not finished
        _unlock(lock)


def check_output(folder: str | os.PathLike[str], *, overwrite: bool | None = False, kind: FolderKind = MODEL) -> Path:
    """Refuse `folder` if it cannot be written, or exists and may not be replaced; else return its path.

    A folder that a killed process left aside is first put back. `overwrite`: whether an existing folder may be
    replaced, if it is one of this `kind`; None if users cannot ask for that.
    """
    final = Path(folder)
    scratch = next((above for above in final.resolve().parents if _SCRATCH.fullmatch(above.name)), None)
    if scratch is not None:  # it is locked as long as that save lasts, and then it has another name
        raise DataError(
            f"{final} cannot be created: {scratch.name} is a folder that another save is writing or replacing. Save "
            "this one elsewhere"
        )
    with _moving_alone(final.resolve()):
        _check_replaceable(final, overwrite, kind)
    above = next(parent for parent in final.absolute().parents if parent.exists())
    if not above.is_dir():
        raise DataError(f"{final} cannot be created: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{final} cannot be created: there is no permission to write into {above}")
    return final


def recover(final: Path) -> bool:
    """Put the old folder back if a killed save left it aside, and return whether `final` exists."""
    if not os.path.lexists(final):
        with _moving_alone(final):
            _put_back(final)
    return os.path.lexists(final)


def _check_replaceable(final: Path, overwrite: bool | None, kind: FolderKind) -> None:
    """Put back what a killed save left aside, then refuse an existing folder that may not be replaced."""
    _put_back(final.resolve())
    objection = kind.objection(final) if final.exists() else None
    if final.exists() and not overwrite:
        replaceable = overwrite is not None and objection is None
        way_out = ", or ask to overwrite it (overwrite=True, --overwrite)" if replaceable else ""
        raise DataError(f"{final} exists already: choose another folder{way_out}")
    if objection is not None:
        raise DataError(f"{final} exists and is not replaced: {objection}. Nothing was changed")


def _move_into_place(scratch: Path, final: Path, overwrite: bool | None, kind: FolderKind) -> None:
    """Move the old folder, if there is one, out of the way, and the new one into its place."""
    _check_replaceable(final, overwrite, kind)
    if not final.exists():
        scratch.rename(final)
        return
    old = scratch.with_suffix(".old")
    final.rename(old)  # if the process is killed here, `_put_back` undoes this
    foreign = kind.foreign(old)
    if foreign is not None:  # it was created after the check above
        old.rename(final)
        raise DataError(f"{final} is not replaced: {foreign!r} was put into it. Nothing was changed")
    scratch.rename(final)


def _put_back(final: Path) -> None:
    """If `final` is missing because a save was killed between its renames, put the old folder back."""
    if not os.path.lexists(final):
        for old in _scratch_folders(final, "old")[:1]:
            old.rename(final)


def _clear_leftovers(final: Path, kind: FolderKind) -> None:
    """Remove what killed saves of `final` left behind, except folders that hold foreign files."""
    for left in (*_scratch_folders(final, "saving"), *(_scratch_folders(final, "old") if final.exists() else ())):
        lock = _lock(left, wait=False)
        with suppress(OSError):
            if lock is not None and kind.foreign(left, unfinished=True) is None:
                shutil.rmtree(left, ignore_errors=True)
        _unlock(lock)


def _scratch_folders(final: Path, suffix: str) -> list[Path]:
    """The scratch folders of `final` that end in `suffix`, which is `saving` or `old`.

    The random part has no dot, so `.NAME.v2.3f9a01bc.old` belongs to `NAME.v2` alone.
    """
    if not final.parent.is_dir():
        return []
    name = re.compile(rf"\.{re.escape(final.name)}\.[0-9a-f]{{8}}\.{suffix}")
    return sorted(path for path in final.parent.iterdir() if name.fullmatch(path.name))


def _sync(path: Path) -> None:
    """Write a file or folder from the system's cache to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- locks -------------------------------------------------------------------------------------------------


@contextmanager
def _moving_alone(final: Path) -> Iterator[None]:
    """Hold the lock of the folder around `final`, so that no other process moves folders in it."""
    lock = _lock(final.parent, wait=True)
    try:
        yield
    finally:
        _unlock(lock)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until `_unlock` or the end of the process, and return the lock.

    None if the folder cannot be locked or, unless `wait`, if its lock is in use.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the lock is in use, or the file system has no locks: then leftovers are not removed
        os.close(handle)
        return None
    return handle


def _unlock(lock: int | None) -> None:
    """Release a lock of `_lock`; None is no lock."""
    if lock is not None:
        fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a process forked meanwhile shares the lock
        os.close(lock)


# -- reading -----------------------------------------------------------------------------------------------


class OpenFolder:
    """A folder that was opened once.

    All files read from it come from one save, even if its name now leads elsewhere. It differs from everything that
    is made of it in that it is still open, and knows of no file what it means.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        # Whether a file was missing, or the folder was listed. Both answers may be wrong if the folder was replaced
        # meanwhile, since the files of the old one are removed one by one.
        self._asked_what_is_there = False

    def read(self, name: str) -> bytes:
        """The bytes of the regular file `name`; an `OSError` with the full path if it is missing or cannot be read."""
        return self._file(read_regular, name)

    def map(self, name: str) -> mmap.mmap:
        """Map the regular file `name` into memory; an `OSError` with the full path if that fails."""
        return self._file(map_regular, name)

    def attempt(self, name: str) -> bytes | OSError:
        """The bytes of the regular file `name`, or the `OSError` of reading it, which is not raised."""
        try:
            return self.read(name)
        except OSError as error:
            return error

    def attempt_map(self, name: str) -> mmap.mmap | OSError:
        """A map of the regular file `name`, or the `OSError` of mapping it, which is not raised."""
        try:
            return self.map(name)
        except OSError as error:
            return error

    def sizes(self) -> dict[str, int | None]:
        """Everything in the folder by its name: the size of a regular file, None for anything else."""
        self._asked_what_is_there = True
        sizes_of_files: dict[str, int | None] = {}
        for entry in sorted(os.scandir(self._handle), key=lambda entry: entry.name):
            try:
                sizes_of_files[entry.name] = entry.stat().st_size if entry.is_file() else None
            except OSError:  # a broken link, or a temporary file that is gone by now
                sizes_of_files[entry.name] = None
        return sizes_of_files

    def stamps(self) -> dict[str, Stamp]:
        """What tells whether a file was written or replaced, for every file by its name."""
        return file_stamps(self._handle)

    def _file(self, reader: Callable[..., ReadResult], name: str) -> ReadResult:
        """What `reader` returns for the file `name` of this folder; an `OSError` names its full path."""
        try:
            return reader(name, inside=self._handle)
        except OSError as error:
            self._asked_what_is_there = True
            raise OSError(error.errno, error.strerror, str(self.path / name)) from None

    def is_whole(self) -> bool:
        """Whether everything that was read or found missing belongs to one save, even if the folder was replaced."""
        return not self._asked_what_is_there or _still_names(self.path, self._handle)


def read_together(folder: Path, reader: Callable[[OpenFolder], ReadResult]) -> ReadResult:
    """Call `reader` with the folder, opened once so that all files come from one save, and return its result.

    If a file is gone because the folder was replaced meanwhile, `reader` is called again. A folder that a killed save
    left aside is put back first. Errors of `reader`, and `OSError` for a folder that cannot be opened, are raised.
    """
    for _ in range(_TRIES):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if recover(folder.resolve()):  # it was being replaced, or a save was killed
                continue
            raise
        opened = OpenFolder(folder, handle)
        try:
            result = reader(opened)
            if opened.is_whole():
                return result
        except Exception:  # if the folder was replaced meanwhile, a reader may raise anything: read it again
            if opened.is_whole():
                raise
        finally:
            os.close(handle)
    raise OSError(errno.EBUSY, "it is replaced again and again while it is read", str(folder))


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Raise a `ModelFileError` at the end of the block if a file of `folder` was written or replaced meanwhile.

    This is for callers whose libraries, such as transformers, open files by name, so that `read_together` cannot help.
    """
    before = file_stamps(folder)
    yield
    if file_stamps(folder) != before:
        raise ModelFileError(f"{folder} changed while it was read: run this again when nothing writes to it")


class Stamp(NamedTuple):
    """The inode, size and modification time of a file."""

    inode: int
    size: int
    modified: int


def file_stamps(folder: Path | int) -> dict[str, Stamp]:
    """The stamp of every file in `folder`, a path or a descriptor, by its name; none if it is not a folder."""
    stamps = {}
    with suppress(NotADirectoryError, FileNotFoundError):
        for entry in os.scandir(folder):
            with suppress(OSError):  # it was removed meanwhile
                status = entry.stat()
                stamps[entry.name] = Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
    return stamps


def _still_names(folder: Path, opened: int) -> bool:
    """Whether the path `folder` still leads to the folder with the descriptor `opened`."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
