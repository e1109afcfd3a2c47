"""Read the tensors of a stock folder from `model.safetensors`, or from its shards and the index that lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import deserialize

from monolayer.arrays import Floats
from monolayer.data.folder import INDEX_FILE, SHARD_NAME, WEIGHTS_FILE
from monolayer.data.number_formats import BY_CODE, FORMATS
from monolayer.huggingface.strict import ForeignError
from monolayer.huggingface.tensors import ModelFiles


@dataclass(frozen=True, eq=False)
class Weights:
    """The `tensors` of a folder by their names, in float64, and the bytes of the `files` that hold or list them."""

    tensors: Mapping[str, Floats]
    files: Mapping[str, bytes]


def read_weights(files: ModelFiles, dtype: object) -> Weights:
    """Read all tensors and widen them to float64. Each must have the type `dtype` of `config.json`, and be finite.

    Like transformers, this reads `model.safetensors` if there is one, else the shards that the index names.
    """
    if type(dtype) is not str or dtype not in FORMATS:
        raise ForeignError(f"config.json says dtype = {dtype!r}; the proofs know {', '.join(FORMATS)}")
    if not isinstance(files.content[WEIGHTS_FILE], OSError) or isinstance(files.content[INDEX_FILE], OSError):
        content = files.demand(WEIGHTS_FILE)
        return Weights(_tensors_of(content, dtype), {WEIGHTS_FILE: content})
    shards = _shards(files)
    read: dict[str, bytes] = {INDEX_FILE: files.demand(INDEX_FILE)}
    tensors: dict[str, Floats] = {}
    for name, held in sorted(shards.items()):
        read[name] = files.demand(name)
        part = _tensors_of(read[name], dtype)
        odd = sorted(part.keys() ^ held)
        if odd:
            raise ForeignError(f"{INDEX_FILE} and {name} do not agree about {odd[0]}")
        tensors |= part
    return Weights(tensors, read)


def _shards(files: ModelFiles) -> dict[str, set[str]]:
    """The names of the tensors in each shard, from the index."""
    index = files.object(INDEX_FILE)
    sizes, place = index.pop("metadata", None), index.pop("weight_map", None)
    if index or not isinstance(sizes, dict) or not isinstance(place, dict):
        raise ForeignError(f"{INDEX_FILE} holds something else than metadata and weight_map")
    if not sizes.keys() <= {"total_size", "total_parameters"} or any(type(size) is not int for size in sizes.values()):
        raise ForeignError(f"{INDEX_FILE} says more of the weights than their sizes")
    tensors_in: dict[str, set[str]] = {}
    for tensor, name in place.items():
        if type(name) is not str or re.fullmatch(SHARD_NAME, name) is None:
            raise ForeignError(f"{INDEX_FILE} says that {tensor} lies in {name!r}")
        tensors_in.setdefault(name, set()).add(tensor)
    return tensors_in


def _tensors_of(content: bytes, dtype: str) -> dict[str, Floats]:
    """The tensors in the bytes of one file, widened to float64; they must be finite and have the type `dtype`."""
    fmt = FORMATS[dtype]
    arrays: dict[str, Any] = {}
    for name, tensor in deserialize(bytes(content)):  # type: ignore[no-untyped-call]
        if tensor["dtype"] != fmt.code:
            other = BY_CODE[tensor["dtype"]].name if tensor["dtype"] in BY_CODE else tensor["dtype"]
            raise ForeignError(f"{name} is {other}, and config.json says {dtype}")
        arrays[name] = fmt.numbers(fmt.raw(tensor["data"])).astype(np.float64).reshape(tensor["shape"])
        if not np.isfinite(arrays[name]).all():
            raise ForeignError(f"{name} holds a number that is not finite")
    return arrays
