"""The spill folder: what is done so far, next to the model that is being built, so that a stopped build goes on.

    .NAME.building/             beside the folder NAME
        lock                    locked while a build runs
        journal.json            what is built: options, and the files with their sizes and times
        encoded-00003.bin       a piece: its numbers, if it has any …
        encoded-00003.facts     … and what is known about them, written last: small arrays, what they are in front

A piece is finished when its facts are there. Both are written aside and renamed, so a worker may be killed anywhere.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from monolayer.arrays import Array
from monolayer.data.aside import new_bytes, new_file
from monolayer.data.objects import JsonFields, JsonObject
from monolayer.errors import DataError, MonolayerError, OutOfMemoryError

PACKAGE = Path(__file__).parents[1]
JOURNAL, LOCK = "journal.json", "lock"
_PIECE = r"lock|journal\.json|[a-z]+-[A-Za-z0-9_.+-]*\.(bin|facts)"
_SPILL_FILE = re.compile(rf"{_PIECE}|\.({_PIECE})\.[0-9a-f]{{8}}")
"""Names of the files in a spill folder, and of those that are being written."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""The error numbers by which the system says that a disk is full."""


class FileIdentity(TypedDict):
    """Name, size, time of the last change and inode of a file."""

    name: str
    size: int
    time: int
    inode: int


_DELETING: list[threading.Thread] = []
"""Threads that delete files of a build; they end before the build does."""
_FREEING = ThreadPoolExecutor(thread_name_prefix="free")
"""Threads in which the system frees what deleted files held: several at a time, as that is quicker."""
_OPEN = threading.BoundedSemaphore(128)
"""How many deleted files are open at a time: half of what a process may open where systems allow the fewest, 256."""


class PausedError(DataError):
    """One file is at fault, and what was made of the others is worth keeping."""


@dataclass(frozen=True)
class Spill:
    """An open spill folder. Picklable, so that workers find it."""

    path: Path

    def numbers(self, name: str) -> Path:
        """The file that holds the numbers of the piece `name`."""
        return self.path / f"{name}.bin"

    def finished(self, name: str) -> bool:
        """Whether the piece `name` was written to its end."""
        return (self.path / f"{name}.facts").exists()

    def facts(self, name: str) -> dict[str, Array]:
        """The facts of the finished piece `name`, as small arrays by name."""
        content = (self.path / f"{name}.facts").read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        arrays = {}
        for key, (kind, shape) in json.loads(content[8:begin]).items():
            array = np.frombuffer(content, kind, math.prod(shape), begin)
            arrays[key], begin = array.reshape(shape).copy(), begin + array.nbytes
        return arrays

    def write(self, name: str, blocks: list[Array], *, hashed: bool = False, **facts: object) -> None:
        """Write a finished piece: `blocks` one after the other, then its facts. `hashed`: the digest is one of them."""
        if blocks:
            digest = hashlib.sha256()
            with new_bytes(self.numbers(name)) as file:
                for block in blocks:
                    content = np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
                    file.write(content)
                    if hashed:
                        digest.update(content)
            if hashed:
                facts["digest"] = np.array([digest.hexdigest()])
        with new_bytes(self.path / f"{name}.facts") as file:
            file.write(_facts_bytes({key: np.asarray(value) for key, value in facts.items()}))

    def drop(self, *names: str) -> None:
        """Delete the numbers of pieces that are not needed any more. Their facts stay, so they count as finished.

        The build goes on meanwhile: a system may wait for the disk before it frees a file that was just written.
        """
        _DELETING.append(threading.Thread(target=_unlink, args=([self.numbers(name) for name in names],)))
        _DELETING[-1].start()


def _facts_bytes(facts: dict[str, Array]) -> bytes:
    """Arrays one after the other, and before them, as JSON with its length in front, their types and shapes.

    Pieces are many and facts are small: NumPy's archives take twenty times as long.
    """
    head = json.dumps({key: (array.dtype.str, array.shape) for key, array in facts.items()}).encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in facts.values())])


@contextmanager
def open_spill(out: Path, journal: JsonObject, resume: bool) -> Iterator[tuple[Spill, JsonFields]]:
    """Open and lock the spill folder of the model `out`; it is deleted when the block ends well, and else kept.

    Yields the folder and the journal. The journal of a resumed build has the sizes of pieces that the build began with:
    they depend on how much memory the process held then.
    """
    folder = out.resolve().parent / f".{out.resolve().name}.building"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder)
        if resume and not (folder / JOURNAL).exists():
            raise DataError(
                f"there is nothing to resume: no build of {out} was stopped. Leave resume=True (--resume) out"
            )
        folder.mkdir(exist_ok=True)
    except OSError as error:  # the user chose `out`, and has not heard of the other name
        raise OSError(error.errno, error.strerror, str(out)) from None
    with (folder / LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"another process is building {out} now: wait for it, or choose another folder") from None
        except OSError:  # a file system without locks
            pass
        if resume:
            journal = journal | {"sizes": _resumed_journal(folder, journal, out)["sizes"]}
            _delete_files(folder, lambda name: name.startswith("."))  # written aside by those who were stopped
        else:
            _delete_files(folder, lambda name: name != LOCK)
        with new_file(folder / JOURNAL) as file:
            json.dump(journal, file, indent=1, sort_keys=True)
        try:
            yield Spill(folder), journal
        except (PausedError, OutOfMemoryError):
            raise
        except MonolayerError:  # the data cannot be built as they are: nothing to go on from
            _remove(folder)
            raise
        else:
            _remove(folder)
        finally:
            while _DELETING:
                _DELETING.pop().join()


def _refuse_foreign(folder: Path) -> None:
    """Refuse a spill folder that is not ours or holds anything but pieces, since all of it will be deleted."""
    why = None
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            why = "it is not a folder"
        elif status.st_uid != os.getuid():
            why = "it belongs to another user"
        else:
            foreign = sorted(
                entry.name
                for entry in os.scandir(folder)
                if not (entry.is_file(follow_symlinks=False) and _SPILL_FILE.fullmatch(entry.name))
            )
            why = f"it holds {foreign[0]!r}, which is not part of a build" if foreign else None
    except FileNotFoundError:
        return
    if why is not None:
        raise DataError(f"{folder} is where the build keeps its pieces, but {why}: move it away. Nothing was changed")


def _delete_files(folder: Path, unwanted: Callable[[str], bool]) -> None:
    _unlink([entry for entry in folder.iterdir() if _SPILL_FILE.fullmatch(entry.name) and unwanted(entry.name)])


def _unlink(files: list[Path]) -> None:
    """Delete files that may be missing. Their names are gone in the end, and nobody waits for what they held.

    A system takes long to free a file that was just written, up to seconds per gigabyte. A file that is open it frees
    only once it is closed, which threads do afterwards: it takes a name away slowly while it frees something.
    """
    held: list[int] = []
    try:
        for file in files:
            with suppress(FileNotFoundError):
                if not _OPEN.acquire(blocking=False):
                    _close_later(held)
                    _OPEN.acquire()
                held.append(_opened(file))
                file.unlink()
                # Otherwise it has another name: of a part of the model, or one that a file system hides it under.
                if os.fstat(held[-1]).st_nlink > 0:
                    _free(held.pop())
    finally:
        _close_later(held)


def _opened(file: Path) -> int:
    """The descriptor of a file to be deleted, which `_free` closes; without one, the permit for it is given back."""
    try:
        return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except BaseException:
        _OPEN.release()
        raise


def _close_later(handles: list[int]) -> None:
    """Close these files in threads, and forget them."""
    for handle in handles:
        _FREEING.submit(_free, handle)
    handles.clear()


def _free(handle: int) -> None:
    try:
        os.close(handle)
    finally:
        _OPEN.release()


def _remove(folder: Path) -> None:
    """Remove the pieces and their folder; what somebody else has put into it stays."""
    _delete_files(folder, lambda name: True)
    with suppress(OSError):
        folder.rmdir()


def _resumed_journal(folder: Path, journal: JsonObject, out: Path) -> JsonFields:
    """The journal of the build that is resumed; an error if it began with other options or other files."""
    try:
        then = json.loads((folder / JOURNAL).read_text(encoding="utf-8"))
        _check_journal(then)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the build of {out} cannot be resumed: its journal cannot be read ({error})") from None
    now = json.loads(json.dumps(journal))
    if then.get("code") != now["code"]:
        raise DataError(
            f"the build of {out} was started by another version of monolayer, whose pieces differ: start over "
            "without resume"
        )
    for key in sorted({*then, *now} - {"shards", "sizes"}):
        if then.get(key) != now.get(key):
            raise DataError(
                f"the build of {out} began with {key}={then.get(key)!r} and cannot continue with "
                f"{key}={now.get(key)!r}: resume with the same options, or start over without resume"
            )
    for number, (one, two) in enumerate(zip_longest(then["shards"], now["shards"])):
        # A file that was not read yet may have been fixed meanwhile.
        other = one is None or two is None or one["name"] != two["name"]
        if other or (one != two and (folder / f"encoded-{number:05}.facts").exists()):
            raise DataError(
                f"{(two or one)['name']} is not file {number} that the build of {out} began with, or it was changed "
                "since: start over without resume"
            )
    return dict(then)


def _check_journal(then: Any) -> None:
    """Refuse a journal that `memorize_files` did not write, as far as `_resumed_journal` and its caller use it."""
    sizes = then.get("sizes") if isinstance(then, dict) else None
    if not isinstance(sizes, list) or len(sizes) != 3 or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("sizes are not three whole numbers")
    shards = then.get("shards")
    if not isinstance(shards, list) or not all(isinstance(shard, dict) and "name" in shard for shard in shards):
        raise ValueError("shards are not a list of files")


def code(package: Path = PACKAGE) -> str:
    """A digest of the whole package, by which a resumed build knows that its pieces were made by the same code.

    A piece depends on how data are read and contexts are computed as much as on the code of this folder.
    """
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name, content = str(file.relative_to(package)).encode(), file.read_bytes()
        digest.update(hashlib.sha256(name).digest() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def identity(name: str) -> FileIdentity:
    """Name, size, time and inode of a file: if they are the same later, the file has not changed."""
    try:
        status = Path(name).stat()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from None
    return {"name": name, "size": status.st_size, "time": status.st_mtime_ns, "inode": status.st_ino}
