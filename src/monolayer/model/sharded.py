"""Weights in several files: `model-00001-of-00004.safetensors` and so on, and the index that says what lies where.

The first file holds all but the steps of the first stage of the readout. Each other holds some of these, in order: the
tensor `feed_forward.stages.0.weight_1` is its parts `feed_forward.stages.0.weight_1.1`, `.2`, … one after the other; so
are `bias_1` and `weight_2`. The index is the one that Hugging Face uses (docs/format.md).
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from monolayer.arrays import NamedArrays
from monolayer.data.folder import INDEX_FILE
from monolayer.data.objects import JsonObject
from monolayer.errors import ModelFileError

SPLIT = tuple(f"feed_forward.stages.0.{name}" for name in ("weight_1", "bias_1", "weight_2"))
"""The tensors that are split, along their last axis: the steps of the first stage."""
_HEADER = 504
"""Length in bytes of the header of a part."""


def shard_names(count: int) -> list[str]:
    return [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]


def is_shard(name: str) -> bool:
    """Whether a file of this name is one of several files of weights."""
    return name.startswith("model-")


def part_header(number: int, steps: int, rows: int, columns: int | None = None) -> bytes:
    """The beginning of a safetensors file with part `number` of the steps; its three tensors follow it.

    `rows`, `columns`: the shape of `weight_2`; by default it has one column per step. All headers have one length, so
    that a header can be replaced in place.
    """
    columns = steps if columns is None else columns
    entries, end = {}, 0
    for name in SPLIT:
        shape = [rows, columns] if name.endswith("weight_2") else [steps]
        begin, end = end, end + 8 * math.prod(shape)
        entries[f"{name}.{number}"] = {"dtype": "F64", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode().ljust(_HEADER)
    return len(text).to_bytes(8, "little") + text


def index_json(first: list[str], parts: int, size: int) -> str:
    """The index of a model whose first file holds the tensors `first`, the others parts; `size` bytes in all."""
    names = shard_names(parts + 1)
    where = dict.fromkeys(first, names[0])
    for number in range(1, parts + 1):
        where |= {f"{name}.{number}": names[number] for name in SPLIT}
    return json.dumps({"metadata": {"total_size": size}, "weight_map": where}, indent=1, sort_keys=True) + "\n"


def views(content: Any, file: str) -> NamedArrays:
    """The tensors of a safetensors file in a buffer, all of them float64, without copying them."""
    buffer = memoryview(content)
    try:
        size = int.from_bytes(buffer[:8], "little")
        header = json.loads(bytes(buffer[8 : 8 + size]))
        found, reached = {}, 0
        for name, entry in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
            kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            if kind != "F64":
                raise ValueError(f"{name} is {kind}, not float64")
            if begin != reached or any(type(number) is not int or number < 0 for number in shape):
                raise ValueError("holes")
            if len(entry) != 3:
                raise ValueError(f"more than type, shape and place of {name}")
            raw = np.frombuffer(buffer[8 + size + begin : 8 + size + end], dtype="<f8")
            found[name], reached = raw.reshape(shape), end
        if 8 + size + reached != len(buffer):
            raise ValueError("its length")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{file} cannot be read as safetensors: {error!r}") from None
    return found


def joined_tensors(index: JsonObject, files: dict[str, object]) -> NamedArrays:
    """All tensors, in memory of their own. `files`: contents by name, all of those that the index names."""
    names = shard_names(len(files))
    if sorted(files) != names:
        raise ModelFileError(f"the files of weights must be {names[0]} to {names[-1]}")
    held = {name: views(files[name], name) for name in names}
    where = {tensor: name for name, tensors in held.items() for tensor in tensors}
    size = sum(tensor.nbytes for tensors in held.values() for tensor in tensors.values())
    if index != {"metadata": {"total_size": size}, "weight_map": where}:
        raise ModelFileError(f"{INDEX_FILE} does not say what {names[0]} and the others hold")
    parts = []
    for number, name in enumerate(names[1:], 1):
        keys = {f"{key}.{number}": key for key in SPLIT}
        if set(held[name]) != set(keys):
            raise ModelFileError(f"{name} must hold {', '.join(keys)} and nothing else")
        sizes = {tensor.shape[-1:] for tensor in held[name].values()}
        if len(sizes) > 1 and name != names[-1]:
            raise ModelFileError(f"{name} must hold as many numbers of each of {', '.join(keys)}")
        parts.append({keys[key]: tensor for key, tensor in held[name].items()})
    twice = set(held[names[0]]) & set(SPLIT)
    if twice:
        raise ModelFileError(f"{names[0]} holds {', '.join(sorted(twice))}, whose parts are in the other files")
    try:
        steps = {key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]}
    except ValueError as error:
        raise ModelFileError(f"the parts of the readout do not fit together: {error}") from None
    return {name: tensor.copy() for name, tensor in held[names[0]].items()} | steps
