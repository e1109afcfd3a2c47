"""Weights in several files: `model-00001-of-00004.safetensors` and so on, and the index that says what lies where.

The first file holds all but the steps of the first stage of the readout. Each other holds some of these, in order: the
tensor `feed_forward.stages.0.weight_1` is its parts `feed_forward.stages.0.weight_1.1`, `.2`, … one after the other; so
are `bias_1` and `weight_2`. The index is the one that Hugging Face uses (docs/format.md).

Numbers of a part are stored in a shorter format where that holds them exactly: powers of two and differences of small
class numbers in bfloat16. So a step takes 12 bytes of a file and not 24, which are written, hashed and read.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from monolayer.arrays import Array, Floats, NamedArrays
from monolayer.data.folder import INDEX_FILE
from monolayer.data.number_formats import BFLOAT16, FLOAT32, FLOAT64
from monolayer.data.objects import JsonObject
from monolayer.errors import ModelFileError

SPLIT = tuple(f"feed_forward.stages.0.{name}" for name in ("bias_1", "weight_1", "weight_2"))
"""The tensors that are split, along their last axis, as they lie in a part: the steps of the first stage."""
_HEADER = 504
"""Length in bytes of the header of a part."""
PartFormat = Literal["BF16", "F32", "F64"]
"""The formats in which a part may hold its numbers, by the names that safetensors has for them, the shortest first."""
_FORMATS = {each.code: each for each in (BFLOAT16, FLOAT32, FLOAT64)}
"""These formats, the shortest first."""


def format_of_whole_numbers(most: int) -> PartFormat:
    """The shortest format that holds all whole numbers up to `most` in size: of 8 bits each, of 24, or of 53."""
    formats: tuple[PartFormat, ...] = get_args(PartFormat)
    return next((code for code in formats if most <= 2 ** _FORMATS[code].bits), formats[-1])


def stored_type(format: PartFormat) -> np.dtype[Any]:
    """The type of the array that holds numbers of a format as they are stored."""
    return np.dtype(_FORMATS[format].stored)


def shortened(numbers: Array, format: PartFormat) -> Array:
    """Numbers in a format that holds them exactly, as they are stored."""
    return _FORMATS[format].shortened(numbers)


def _as_numbers(stored: Array) -> Array:
    """Read back what `shortened` stored, in float64 or float32."""
    return BFLOAT16.numbers(stored) if stored.dtype == BFLOAT16.stored else stored


def shard_names(count: int) -> list[str]:
    """The names of the files of weights that lie in `count` files."""
    return [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]


def is_shard(name: str) -> bool:
    """Whether a file of this name is one of several files of weights."""
    return name.startswith("model-")


class PartFormats(NamedTuple):
    """The formats of `weight_1` and `weight_2` in a part; `bias_1` is in float64."""

    weight_1: PartFormat = "F64"
    weight_2: PartFormat = "F64"


def part_header(number: int, steps: int, rows: int, formats: PartFormats, columns: int | None = None) -> bytes:
    """The beginning of a safetensors file with part `number` of the steps; its three tensors follow it.

    `rows`, `columns`: the shape of `weight_2`; by default it has one column per step. All headers have one length, so
    that a header can be replaced in place.
    """
    shapes: list[tuple[list[int], PartFormat]] = [
        ([steps], "F64"),
        ([steps], formats.weight_1),
        ([rows, steps if columns is None else columns], formats.weight_2),
    ]
    entries, end = {}, 0
    for name, (shape, format) in zip(SPLIT, shapes, strict=True):
        begin, end = end, end + _FORMATS[format].bytes * math.prod(shape)
        entries[f"{name}.{number}"] = {"dtype": format, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode().ljust(_HEADER)
    return len(text).to_bytes(8, "little") + text


def part_bytes(part: Path) -> int:
    """Bytes of the tensors in the file of a part."""
    return part.stat().st_size - 8 - _HEADER


def index_json(first: list[str], parts: int, size: int) -> str:
    """The index of a model whose first file holds the tensors `first`, the others parts; `size` bytes in all."""
    names = shard_names(parts + 1)
    where = dict.fromkeys(first, names[0])
    for number in range(1, parts + 1):
        where |= {f"{name}.{number}": names[number] for name in SPLIT}
    return json.dumps({"metadata": {"total_size": size}, "weight_map": where}, indent=1, sort_keys=True) + "\n"


def views(content: Any, file: str) -> NamedArrays:
    """The tensors of a safetensors file in a buffer as they are stored, without copying them."""
    buffer = memoryview(content)
    try:
        size = int.from_bytes(buffer[:8], "little")
        header = json.loads(bytes(buffer[8 : 8 + size]))
        tensors, reached = {}, 0
        for name, entry in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
            kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            if kind not in _FORMATS:
                raise ValueError(f"{name} is {kind}, not one of {', '.join(_FORMATS)}")
            if begin != reached or any(type(number) is not int or number < 0 for number in shape):
                raise ValueError("holes")
            if len(entry) != 3:
                raise ValueError(f"more than type, shape and place of {name}")
            raw = _FORMATS[kind].raw(buffer[8 + size + begin : 8 + size + end])
            tensors[name], reached = raw.reshape(shape), end
        if 8 + size + reached != len(buffer):
            raise ValueError("its length")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{file} cannot be read as safetensors: {error!r}") from None
    return tensors


def check_index(index: JsonObject, files: dict[str, object]) -> dict[str, NamedArrays]:
    """The tensors of each file, without copying them, once the index is seen to describe what the files hold.

    `files`: contents by name, all of those that the index names. Only their headers are read.
    """
    names = shard_names(len(files))
    if sorted(files) != names:
        raise ModelFileError(f"the files of weights must be {names[0]} to {names[-1]}")
    by_file = {name: views(files[name], name) for name in names}
    where = {tensor: name for name, tensors in by_file.items() for tensor in tensors}
    size = sum(tensor.nbytes for tensors in by_file.values() for tensor in tensors.values())
    if index != {"metadata": {"total_size": size}, "weight_map": where}:
        raise ModelFileError(f"{INDEX_FILE} does not say what {names[0]} and the others hold")
    return by_file


def joined_tensors(index: JsonObject, files: dict[str, object]) -> NamedArrays:
    """All tensors, in memory of their own. `files`: contents by name, all of those that the index names."""
    tensors = check_index(index, files)
    names = list(tensors)
    parts = []
    for number, name in enumerate(names[1:], 1):
        keys = {f"{key}.{number}": key for key in SPLIT}
        if set(tensors[name]) != set(keys):
            raise ModelFileError(f"{name} must hold {', '.join(keys)} and nothing else")
        sizes = {tensor.shape[-1:] for tensor in tensors[name].values()}
        if len(sizes) > 1 and name != names[-1]:
            raise ModelFileError(f"{name} must hold as many numbers of each of {', '.join(keys)}")
        parts.append({keys[key]: tensor for key, tensor in tensors[name].items()})
        if parts[-1][SPLIT[0]].dtype != FLOAT64.stored:
            raise ModelFileError(f"{SPLIT[0]}.{number} in {name} must be F64")
    twice = set(tensors[names[0]]) & set(SPLIT)
    if twice:
        raise ModelFileError(f"{names[0]} holds {', '.join(sorted(twice))}, whose parts are in the other files")
    steps = {key: _joined([part[key] for part in parts]) for key in parts[0]}
    return {name: _as_numbers(tensor).copy() for name, tensor in tensors[names[0]].items()} | steps


def _joined(parts: list[Array]) -> Floats:
    """The parts of one tensor, put together along their last axis; each is widened only while it is copied."""
    shapes = {part.shape[:-1] for part in parts}
    if len(shapes) > 1:
        raise ModelFileError(f"the parts of the readout do not fit together: their shapes begin with {sorted(shapes)}")
    ends = np.cumsum([0, *(part.shape[-1] for part in parts)]).tolist()
    joined = np.empty((*shapes.pop(), ends[-1]))
    for part, begin, end in zip(parts, ends, ends[1:], strict=False):
        joined[..., begin:end] = _as_numbers(part)
    return joined
