"""The header of a safetensors file as text. With the tensors it is the whole file, byte for byte.

A file is the length of the header in 8 bytes, the header (JSON, with white space behind it), and the bytes of the
tensors, one behind the other without gaps. So whoever keeps the header can write the file again from the tensors,
wherever these lie by then: in other files, under other names, or as parts of a larger matrix.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from monolayer.data.limits import BYTES_PER_NUMBER, tensor_places
from monolayer.errors import ModelFileError

ALIGNED = 8
"""Headers that are written here have a multiple of so many bytes, as those of safetensors."""


class Listed(NamedTuple):
    """A tensor in a header: its name, the safetensors code of its type, and its shape."""

    name: str
    code: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return BYTES_PER_NUMBER[self.code] * math.prod(self.shape)


def header_of(content: Any) -> str:
    """The header of a safetensors file, as text; `content`: a buffer with its bytes."""
    buffer = memoryview(content)
    length = int.from_bytes(buffer[:8], "little")
    try:
        return bytes(buffer[8 : 8 + length]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"the header of a file of weights is not UTF-8: {error}") from None


def read_header(header: str) -> list[Listed]:
    """The tensors that a header lists, in the order of their bytes; a `ModelFileError` if it cannot be read."""
    content = header.encode("utf-8")
    try:
        entries = json.loads(content)
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        size = 8 + len(content) + max(ends, default=0)
        places = tensor_places(len(content).to_bytes(8, "little"), lambda count: content[:count], size)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"the header of a file of weights cannot be read: {error!r:.80}") from None
    return [Listed(name, place.code, place.shape) for name, place in places.items()]


def header_listing(tensors: Iterable[Listed], like: str) -> str:
    """A header that lists these tensors, in this order, with the metadata of the header `like`."""
    entries: dict[str, Any] = {}
    metadata = json.loads(like).get("__metadata__")
    if metadata is not None:
        entries["__metadata__"] = metadata
    begin = 0
    for each in tensors:
        end = begin + each.size
        entries[each.name] = {"dtype": each.code, "shape": list(each.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    return text + " " * (-len(text.encode("utf-8")) % ALIGNED)


def write_file(path: Path, header: str, pieces: Iterable[memoryview]) -> None:
    """Write a safetensors file: its header, then the bytes of its tensors in their order."""
    content = header.encode("utf-8")
    with path.open("wb") as file:
        file.write(len(content).to_bytes(8, "little"))
        file.write(content)
        for piece in pieces:
            file.write(piece)


__all__ = ["Listed", "header_listing", "header_of", "read_header", "write_file"]
