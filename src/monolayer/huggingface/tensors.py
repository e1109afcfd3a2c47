"""Read the tensors of a Hugging Face folder from one file or several, each only when it is asked for."""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, OpenFolder, Stamp, file_stamps, read_together
from monolayer.data.limits import BYTES_PER_NUMBER, tensor_places
from monolayer.data.number_formats import BY_CODE
from monolayer.data.objects import JsonObject
from monolayer.errors import ModelFileError
from monolayer.huggingface.strict import ForeignError, read_json

EXPONENTS = {"F64": np.uint64(0x7FF << 52), "F32": np.uint32(0xFF << 23), "F16": np.uint16(0x1F << 10)}
EXPONENTS |= {"BF16": np.uint16(0xFF << 7)}
"""The bits of the exponent in each format."""
FINITE_AT_ONCE = 1 << 24
"""How many numbers are looked at at a time."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor in a file: its name, the safetensors code of its type, its shape, and a view of its bytes."""

    name: str
    code: str
    shape: tuple[int, ...]
    data: memoryview

    @property
    def dtype(self) -> str | None:
        """The type as `config.json` names it; None if the tensor does not hold real numbers."""
        return BY_CODE[self.code].name if self.code in BY_CODE else None

    def digest(self) -> str:
        """SHA-256 of the type, shape and bytes."""
        digest = hashlib.sha256(f"{self.code} {list(self.shape)}\n".encode())
        digest.update(self.data)
        return digest.hexdigest()

    def numbers(self, dtype: Any = np.float64) -> Floats:
        """The numbers of the tensor, converted to `dtype`."""
        if self.code not in BY_CODE:
            raise ModelFileError(f"{self.name} holds {self.code}, which are not real numbers")
        fmt = BY_CODE[self.code]
        numbers: Floats = fmt.numbers(fmt.raw(self.data)).astype(dtype).reshape(self.shape)
        return numbers

    def is_finite(self) -> bool:
        """Whether no number of the tensor is infinite or NaN, whose exponents have all bits set."""
        exponent = EXPONENTS.get(self.code)
        if exponent is None:
            return True
        words = np.frombuffer(self.data, dtype=f"<u{BYTES_PER_NUMBER[self.code]}")
        parts = (words[start : start + FINITE_AT_ONCE] for start in range(0, len(words), FINITE_AT_ONCE))
        return not any(((part & exponent) == exponent).any() for part in parts)

    def blocks(self, most: int = 1 << 22) -> Iterator[tuple[slice, Floats]]:
        """The numbers in float64, a block of rows at a time with about `most` numbers, and the rows of each block."""
        each = math.prod(self.shape[1:]) * BYTES_PER_NUMBER[self.code]
        step = max(1, most * BYTES_PER_NUMBER[self.code] // max(1, each))
        for start in range(0, self.shape[0], step):
            stop = min(self.shape[0], start + step)
            part = self.data[start * each : stop * each]
            yield slice(start, stop), Tensor(self.name, self.code, (stop - start, *self.shape[1:]), part).numbers()


@dataclass(frozen=True, eq=False)
class ModelFiles(Mapping[str, Tensor]):
    """The files of a folder of transformers that were read, all from one save, and the tensors in them by their names.

    It differs from `OpenFolder`, which reads them, in that nothing of it changes any more; and from a model in that
    nobody has asked yet what the files mean.

    - `content`: the bytes of each file, a map of a file of weights, or the error of reading it.
    - `sizes`: everything in the folder by its name: the size of a regular file, None for anything else.
    - `stamps`: what tells whether a file that was read was written or replaced since.
    - `tensors`, `weights`: the tensors, and the names of the files that hold them; none before `with_tensors`.
    """

    path: Path
    content: Mapping[str, Any]
    sizes: Mapping[str, int | None]
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    weights: tuple[str, ...] = ()

    def demand(self, name: str) -> Any:
        """The bytes of a file; a `ModelFileError` if it is missing or cannot be read."""
        content = self.content.get(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        if isinstance(content, OSError):
            raise ModelFileError(f"{self.path / name} cannot be read: {content.strerror}")
        return content

    def object(self, name: str) -> JsonObject:
        """The object in a JSON file (`read_json`); a `ModelFileError` if the file is missing or cannot be read."""
        return read_json(self.path / name, self.demand(name))

    def readable(self) -> ModelFiles:
        """These files without those that could not be read."""
        return replace(
            self, content={name: part for name, part in self.content.items() if not isinstance(part, OSError)}
        )

    def with_tensors(self) -> ModelFiles:
        """These files with the tensors in those of weights, which are found as transformers finds them."""
        several = INDEX_FILE in self.content and WEIGHTS_FILE not in self.content
        files = shards_of(self.content[INDEX_FILE]) if several else [WEIGHTS_FILE]
        tensors: dict[str, Tensor] = {}
        places: dict[str, str] = {}
        for name in files:
            if name not in self.content:
                raise ModelFileError(f"{name} is missing, or cannot be read")
            inside = tensors_of(self.content[name], name)
            twice = sorted(tensors.keys() & inside.keys())
            if twice:
                raise ModelFileError(f"{twice[0]} lies in two files")
            tensors |= inside
            places |= dict.fromkeys(inside, name)
        if several and weight_map(self.content[INDEX_FILE]) != places:
            raise ModelFileError(f"{INDEX_FILE} does not say which tensors its files hold")
        return replace(self, tensors=tensors, weights=tuple(files))

    def check_unchanged(self) -> None:
        """Raise a `ModelFileError` if a file that was read is not the one that its path leads to now.

        For libraries that open the files of the folder by their names, as transformers does.
        """
        now = file_stamps(self.path)
        if {name: now.get(name) for name in self.stamps} != self.stamps:
            raise ModelFileError(f"{self.path} changed while it was read: run this again when nothing writes to it")

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def open_folder(folder: Path, needed: Iterable[str] = (), if_there: Iterable[str] = ()) -> ModelFiles:
    """Open `config.json`, the weights and other files of a folder, all from one save (`read_tensors`).

    A file that is missing or cannot be read is a `ModelFileError`.
    """
    try:
        return read_together(folder, lambda opened: read_tensors(opened, needed, if_there))
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{error.filename or folder} cannot be read: {error.strerror}") from None


def opened_files(folder: str | os.PathLike[str] | ModelFiles, read: Callable[[OpenFolder], ModelFiles]) -> ModelFiles:
    """The files of a folder, which `read` reads together; files that are open already stay as they are."""
    return folder if isinstance(folder, ModelFiles) else read_together(Path(folder), read)


def read_tensors(opened: OpenFolder, needed: Iterable[str] = (), if_there: Iterable[str] = ()) -> ModelFiles:
    """The tensors of a folder that is open, with its `config.json`, and the bytes of other files.

    `needed`: files that must be there. `if_there`: files that are read if there is a regular file of that name.
    """
    sizes = opened.sizes()
    beside = (*needed, *(name for name in if_there if sizes.get(name) is not None))
    content: dict[str, Any] = {name: opened.read(name) for name in ("config.json", *beside)}
    files = [WEIGHTS_FILE]
    several = WEIGHTS_FILE not in sizes and INDEX_FILE in sizes  # as transformers does
    if several:
        content[INDEX_FILE] = opened.read(INDEX_FILE)
        files = shards_of(content[INDEX_FILE])
    content |= {name: opened.map(name) for name in files}
    stamps = {name: stamp for name, stamp in opened.stamps().items() if name in content}
    return ModelFiles(opened.path, content, sizes, stamps).with_tensors()


def weight_map(content: bytes) -> dict[str, str]:
    """The file that holds each tensor, by the name of the tensor; `content`: the bytes of the index.

    transformers cannot load an index without an object `metadata`, so that is a `ModelFileError`, too.
    """
    try:
        index = read_json(Path(INDEX_FILE), content)
        weight_map: Any = index["weight_map"]
        if not isinstance(weight_map, dict) or not all(type(name) is str for name in weight_map.values()):
            raise ValueError("weight_map is not an object of names")
        if not isinstance(index["metadata"], dict):
            raise ValueError(f"metadata is {index['metadata']!r:.40}, not an object")
    except (ForeignError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{INDEX_FILE} cannot be read: {error!r}") from None
    return weight_map


def shards_of(content: bytes) -> list[str]:
    """The names of the files in an index with these bytes; a name that leads out of the folder is an error."""
    names = sorted(set(weight_map(content).values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelFileError(f"{INDEX_FILE} names {name!r}, which is not a file of weights in this folder")
    return names


def tensors_of(content: Any, file: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file by their names. `content` is a buffer, of which nothing is copied.

    Errors call the file `file`.
    """
    buffer = memoryview(content)
    try:
        places = tensor_places(bytes(buffer[:8]), lambda count: bytes(buffer[8 : 8 + count]), len(buffer))
    except ValueError as error:
        raise ModelFileError(f"{file} cannot be read as safetensors: {error}") from None
    return {
        name: Tensor(name, place.code, place.shape, buffer[place.begin : place.end]) for name, place in places.items()
    }


def file_digest(content: Any) -> str:
    """SHA-256 of the bytes of a file; `content`: a buffer with them."""
    return hashlib.sha256(content).hexdigest()
