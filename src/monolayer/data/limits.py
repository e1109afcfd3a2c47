"""How large a file in the folder of a model may be, decided before it is read.

Anyone may have written the folder, and a file may be sparse: a terabyte that takes no space on the disk. So what is
read is bounded by what the file says about itself.

    any file            up to `SMALL` bytes: whoever reads it says what is wrong with it
    certificate.json    no more than that
    .safetensors        as long as its own header says, and that header at most `LONGEST_HEADER`
    others              at most `LARGEST_FILE`, and JSON has been written from end to end
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from monolayer.data.number_formats import BY_CODE
from monolayer.errors import DataError

SMALL = 1 << 24
"""Files of this many bytes are read, whatever they hold. A certificate is no larger: it quotes a few rows of data."""
LONGEST_HEADER = 100_000_000
"""The most bytes in the header of a safetensors file. The library safetensors has the same limit."""
LARGEST_FILE = 1 << 30
"""The most bytes in a file that holds no weights. In JSON, almost all of them are names of tokens and classes: this has
room for 64 million names, as many points as a model of rank 2 is known to hold, of 16 bytes each."""
BYTES_PER_NUMBER = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
BYTES_PER_NUMBER |= {code: each.bytes for code, each in BY_CODE.items()}
"""Bytes per number, by the codes of types in safetensors."""


class TensorPlace(NamedTuple):
    """A tensor of a safetensors file: the code of its type, its shape, and where its bytes begin and end."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


def check_size(file: BinaryIO, path: str | os.PathLike[str]) -> None:
    """Raise an `OSError` if an open file is larger than a file of its name may be. At most its header is read."""
    name, size = Path(path).name, os.fstat(file.fileno()).st_size
    if size <= SMALL:
        return
    if name.endswith(".safetensors"):
        try:
            tensor_places(file.read(8), file.read, size)
        except ValueError as error:
            raise OSError(errno.EINVAL, f"it is not a whole safetensors file: {error}", str(path)) from None
        file.seek(0)
        return
    most = SMALL if name == "certificate.json" else LARGEST_FILE
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} are read", str(path))
    if name.endswith(".json") and _first_hole(file) < size:  # a hole reads as NUL bytes
        raise OSError(errno.EINVAL, "it is not JSON: parts of it were never written", str(path))


def check_written_sizes(folder: Path) -> None:
    """Refuse to save a model that could not be read again, because the names in it take too many bytes."""
    for path in folder.glob("*.json"):
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(
                f"the names of tokens and labels take {size:,} bytes in {path.name}, and a model may have "
                f"{LARGEST_FILE:,}: give keys and labels shorter names, or integers"
            )


def _first_hole(file: BinaryIO) -> int:
    """Where the first part of a file begins that was never written; its size if there is none, or nobody knows."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE)
    except (OSError, AttributeError):  # an empty file, or a system that does not tell
        return os.fstat(file.fileno()).st_size
    finally:
        file.seek(0)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict. Readers disagree on which value of a key that occurs twice counts, so it is refused."""
    values = dict(pairs)
    if len(values) < len(pairs):
        often = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"its header has the key {often!r:.80} twice")
    return values


def _no_number(text: str) -> None:
    """Refuse NaN and infinity, which are not JSON, though Python reads them."""
    raise ValueError(f"its header holds {text}")


def tensor_places(start: bytes, read: Callable[[int], bytes], size: int) -> dict[str, TensorPlace]:
    """Where the tensors of a safetensors file with `size` bytes lie, by their names.

    `start`: its first 8 bytes. `read`: gives as many of the next bytes as asked. A `ValueError` says what is wrong.
    """
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, LONGEST_HEADER):
        raise ValueError("its header is longer than the file, or than a header may be")
    places: dict[str, TensorPlace] = {}
    try:
        # What the library safetensors refuses is refused: other text than UTF-8, NaN, metadata that are not strings.
        text = str(read(length), "utf-8")
        header = json.loads(text, object_pairs_hook=_each_key_once, parse_constant=_no_number)
        said = header.pop("__metadata__", None) or {}
        if not (isinstance(said, dict) and all(isinstance(value, str) for value in said.values())):
            raise ValueError("its metadata are not strings")
        reached = 0
        for name, entry in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
            code, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if code not in BYTES_PER_NUMBER:
                raise ValueError(f"{name} is of type {code}")
            if begin != reached or any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
                raise ValueError(f"{name} is not where it should be")
            if end - begin != BYTES_PER_NUMBER[code] * math.prod(shape):
                raise ValueError(f"{name} does not have the number of bytes that its shape needs")
            places[name] = TensorPlace(code, shape, 8 + length + begin, 8 + length + end)
            reached = end
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header cannot be read: {error!r:.80}") from None
    if 8 + length + reached != size:
        raise ValueError(f"its length, {size:,} bytes, is not what its header says, {8 + length + reached:,}")
    return places
