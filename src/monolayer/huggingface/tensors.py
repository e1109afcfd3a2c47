"""Read the tensors of a Hugging Face folder from one file or several, each only when it is asked for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, OpenFolder, read_together
from monolayer.errors import ModelFileError

FLOATS = {"F64": ("float64", "<f8"), "F32": ("float32", "<f4"), "F16": ("float16", "<f2"), "BF16": ("bfloat16", "<u2")}
"""The names of real types in `config.json` and in NumPy, by their codes in safetensors.

NumPy has no bfloat16, so its bits are read as integers."""
BYTES_PER_NUMBER = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
BYTES_PER_NUMBER |= {"I8": 1, "U8": 1, "BOOL": 1}


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
        return FLOATS[self.code][0] if self.code in FLOATS else None

    def digest(self) -> str:
        """SHA-256 of the type, shape and bytes."""
        found = hashlib.sha256(f"{self.code} {list(self.shape)}\n".encode())
        found.update(self.data)
        return found.hexdigest()

    def numbers(self, dtype: Any = np.float64) -> Floats:
        """The numbers of the tensor, converted to `dtype`."""
        if self.code not in FLOATS:
            raise ModelFileError(f"{self.name} holds {self.code}, which are not real numbers")
        raw = np.frombuffer(self.data, dtype=FLOATS[self.code][1])
        if self.code == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        found: Floats = raw.astype(dtype).reshape(self.shape)
        return found

    def blocks(self, most: int = 1 << 22) -> Iterator[tuple[slice, Floats]]:
        """The numbers in float64, a block of rows at a time with about `most` numbers, and the rows of each block."""
        each = math.prod(self.shape[1:]) * BYTES_PER_NUMBER[self.code]
        step = max(1, most * BYTES_PER_NUMBER[self.code] // max(1, each))
        for start in range(0, self.shape[0], step):
            stop = min(self.shape[0], start + step)
            part = self.data[start * each : stop * each]
            yield slice(start, stop), Tensor(self.name, self.code, (stop - start, *self.shape[1:]), part).numbers()


@dataclass(frozen=True, eq=False)
class TensorFolder(Mapping[str, Tensor]):
    """The tensors of a folder by their names.

    `content` holds the bytes of the other files that were read, and memory maps of the files of weights.
    """

    path: Path
    tensors: Mapping[str, Tensor]
    content: Mapping[str, Any]
    weights: tuple[str, ...]
    """The names of the files of weights."""

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def open_folder(folder: Path, beside: Iterable[str] = ()) -> TensorFolder:
    """Open `config.json`, the weights, and the files `beside` them in a folder, all from one save.

    A file that is missing or cannot be read is a `ModelFileError`.
    """

    def content(opened: OpenFolder) -> dict[str, Any]:
        """The bytes of the files, and maps of the weights, by their names."""
        found: dict[str, Any] = {name: opened.read(name) for name in ("config.json", *beside)}
        names = [WEIGHTS_FILE]
        index = opened.attempt(INDEX_FILE)
        if isinstance(index, bytes) and WEIGHTS_FILE not in opened.sizes():  # as transformers does
            found[INDEX_FILE], names = index, shards_of(index)
        return found | {name: opened.map(name) for name in names}

    try:
        found = read_together(folder, content)
    except OSError as error:
        raise ModelFileError(f"{error.filename or folder} cannot be read: {error.strerror}") from None
    several = INDEX_FILE in found
    files = shards_of(found[INDEX_FILE]) if several else [WEIGHTS_FILE]
    tensors: dict[str, Tensor] = {}
    places: dict[str, str] = {}
    for name in files:
        inside = tensors_of(found[name], name)
        twice = sorted(tensors.keys() & inside.keys())
        if twice:
            raise ModelFileError(f"{folder}: {twice[0]} lies in two files")
        tensors |= inside
        places |= dict.fromkeys(inside, name)
    if several and weight_map(found[INDEX_FILE]) != places:
        raise ModelFileError(f"{folder}: {INDEX_FILE} does not say which tensors its files hold")
    return TensorFolder(folder, tensors, found, tuple(files))


def weight_map(content: bytes) -> dict[str, str]:
    """The file that holds each tensor, by the name of the tensor; `content`: the bytes of the index."""
    try:
        said = json.loads(content)["weight_map"]
        if not isinstance(said, dict) or not all(type(name) is str for name in said.values()):
            raise ValueError("weight_map is not an object of names")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{INDEX_FILE} cannot be read: {error!r}") from None
    return said


def shards_of(content: bytes) -> list[str]:
    """The names of the files in an index with these bytes; a name that leads out of the folder is an error."""
    names = sorted(set(weight_map(content).values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelFileError(f"{INDEX_FILE} names {name!r}, which is not a file of weights in this folder")
    return names


def header_digest(content: Any) -> str:
    """SHA-256 of the header of a safetensors file: of all its bytes but those of the tensors."""
    buffer = memoryview(content)
    return hashlib.sha256(buffer[: 8 + int.from_bytes(buffer[:8], "little")]).hexdigest()


def tensors_of(content: Any, file: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file by their names. `content` is a buffer, of which nothing is copied.

    Errors call the file `file`.
    """
    buffer = memoryview(content)
    found: dict[str, Tensor] = {}
    try:
        size = int.from_bytes(buffer[:8], "little")
        header = json.loads(bytes(buffer[8 : 8 + size]))
        header.pop("__metadata__", None)
        reached = 0
        for name, entry in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
            code, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if code not in BYTES_PER_NUMBER:
                raise ValueError(f"{name} is of type {code}")
            if begin != reached or any(type(number) is not int or number < 0 for number in shape):
                raise ValueError(f"{name} is not where it should be")
            if end - begin != BYTES_PER_NUMBER[code] * math.prod(shape):
                raise ValueError(f"{name} does not have the number of bytes that its shape needs")
            found[name] = Tensor(name, code, shape, buffer[8 + size + begin : 8 + size + end])
            reached = end
        if 8 + size + reached != len(buffer):
            raise ValueError("its length is not what its header says")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{file} cannot be read as safetensors: {error}") from None
    return found
