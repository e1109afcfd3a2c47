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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.data.aside import new_bytes, new_file
from monolayer.errors import DataError, MonolayerError, OutOfMemoryError

PACKAGE = Path(__file__).parents[1]
JOURNAL, LOCK = "journal.json", "lock"
_PIECE = r"lock|journal\.json|[a-z]+-[A-Za-z0-9_.+-]*\.(bin|facts)"
_SPILL_FILE = re.compile(rf"{_PIECE}|\.({_PIECE})\.[0-9a-f]{{8}}")
"""Names of the files in a spill folder, and of those that are being written."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What the system says when there is no room left."""


class PausedError(DataError):
    """One file is at fault, and what was made of the others is worth keeping."""


@dataclass(frozen=True)
class Spill:
    """An open spill folder. Picklable, so that workers find it."""

    path: Path

    def numbers(self, name: str) -> Path:
        """Where the numbers of a piece lie."""
        return self.path / f"{name}.bin"

    def finished(self, name: str) -> bool:
        return (self.path / f"{name}.facts").exists()

    def facts(self, name: str) -> dict[str, NDArray[Any]]:
        """What is known about a finished piece."""
        content = (self.path / f"{name}.facts").read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        found = {}
        for key, (kind, shape) in json.loads(content[8:begin]).items():
            array = np.frombuffer(content, kind, math.prod(shape), begin)
            found[key], begin = array.reshape(shape).copy(), begin + array.nbytes
        return found

    def write(self, name: str, blocks: list[NDArray[Any]], *, hashed: bool = False, **facts: Any) -> None:
        """A finished piece: `blocks` one after the other, and its facts; `hashed`: one is the digest of all blocks."""
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
        """The numbers of pieces that nobody needs any more. Their facts stay: they are finished all the same."""
        for name in names:
            self.numbers(name).unlink(missing_ok=True)


def _facts_bytes(facts: dict[str, NDArray[Any]]) -> bytes:
    """Arrays one after the other, and before them, as JSON with its length in front, their types and shapes.

    Pieces are many and facts are small: NumPy's archives take twenty times as long.
    """
    head = json.dumps({key: (array.dtype.str, array.shape) for key, array in facts.items()}).encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in facts.values())])


@contextmanager
def open_spill(out: Path, journal: dict[str, Any], resume: bool) -> Iterator[tuple[Spill, dict[str, Any]]]:
    """The spill folder of the model `out`, ours while the block runs; gone when it ends well, kept when it does not.

    And the journal, with the sizes that pieces had from the beginning: they depend on how much this process held then.
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
        _remove(folder)


def _refuse_foreign(folder: Path) -> None:
    """Everything in the spill folder will be deleted: so it must be ours, and hold nothing but pieces."""
    why = None
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            why = "it is no folder"
        elif found.st_uid != os.getuid():
            why = "it belongs to another user"
        else:
            foreign = sorted(
                entry.name
                for entry in os.scandir(folder)
                if not (entry.is_file(follow_symlinks=False) and _SPILL_FILE.fullmatch(entry.name))
            )
            why = f"it holds {foreign[0]!r}, which is no part of a build" if foreign else None
    except FileNotFoundError:
        return
    if why is not None:
        raise DataError(f"{folder} is where the build keeps its pieces, but {why}: move it away. Nothing was changed")


def _delete_files(folder: Path, unwanted: Callable[[str], bool]) -> None:
    for entry in folder.iterdir():
        if _SPILL_FILE.fullmatch(entry.name) and unwanted(entry.name):
            entry.unlink()


def _remove(folder: Path) -> None:
    """Remove the pieces and their folder; what somebody else has put into it stays."""
    _delete_files(folder, lambda name: True)
    with suppress(OSError):
        folder.rmdir()


def _resumed_journal(folder: Path, journal: dict[str, Any], out: Path) -> dict[str, Any]:
    """What the build began with; refuse to go on with other options or other files."""
    try:
        then = json.loads((folder / JOURNAL).read_text(encoding="utf-8"))
        _check_journal(then)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the build of {out} cannot be resumed: its journal cannot be read ({error})") from None
    now = json.loads(json.dumps(journal))
    if then.get("code") != now["code"]:
        raise DataError(
            f"the build of {out} was begun by another version of monolayer, whose pieces are others: start anew "
            "without resume"
        )
    for key in sorted({*then, *now} - {"shards", "sizes"}):
        if then.get(key) != now.get(key):
            raise DataError(
                f"the build of {out} began with {key}={then.get(key)!r} and cannot go on with {key}={now.get(key)!r}: "
                "resume with the same options, or start anew without resume"
            )
    for number, (one, two) in enumerate(zip_longest(then["shards"], now["shards"])):
        # One that was not read yet may have been mended.
        other = one is None or two is None or one["name"] != two["name"]
        if other or (one != two and (folder / f"encoded-{number:05}.facts").exists()):
            raise DataError(
                f"{(two or one)['name']} is not file {number} that the build of {out} began with, or it was changed "
                "since: start anew without resume"
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
    """What tells that pieces were made by the code that is here, and hold what it expects: a digest of the package.

    All of it, since a piece depends on how data are read and contexts are computed as much as on this folder.
    """
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name, content = str(file.relative_to(package)).encode(), file.read_bytes()
        digest.update(hashlib.sha256(name).digest() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def identity(name: str) -> dict[str, Any]:
    """What tells that a file has not changed since."""
    try:
        found = Path(name).stat()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from None
    return {"name": name, "size": found.st_size, "time": found.st_mtime_ns, "inode": found.st_ino}
