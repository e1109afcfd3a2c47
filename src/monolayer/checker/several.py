"""Weights that lie in several files, as the checker reads them: docs/format.md and nothing else.

Files are mapped, so that a part of the readout that is not looked at takes no memory.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.errors import ModelFileError

INDEX = "model.safetensors.index.json"
PARTED = ("weight_1", "bias_1", "weight_2")
_NUMBERED = re.compile(r"model-([0-9]{5})-of-([0-9]{5})\.safetensors")

Arrays = dict[str, NDArray[Any]]


def numbered(names: list[str]) -> list[str]:
    """Those that are `model-K-of-N.safetensors`; `[]` unless `K` runs from 1 to `N`, which is 2 or more."""
    found = sorted(name for name in names if _NUMBERED.fullmatch(name))
    wanted = [f"model-{number:05d}-of-{len(found):05d}.safetensors" for number in range(1, len(found) + 1)]
    return found if found == wanted and len(found) > 1 else []


def arrays(name: str, content: Any) -> Arrays:
    """The float64 arrays of a safetensors file: a length, a JSON header, and the numbers without gaps."""
    raw = np.frombuffer(content, dtype=np.uint8)
    try:
        length = int(raw[:8].view("<u8")[0])
        header = json.loads(raw[8 : 8 + length].tobytes().decode("utf-8")) if length < 1 << 32 else {}
        entries = [(tuple(entry["data_offsets"]), key, entry) for key, entry in header.items()]
        body, at, found = raw[8 + length :], 0, {}
        for (begin, end), key, entry in sorted(entries, key=lambda entry: entry[0]):
            shape = entry["shape"]
            fits = entry["dtype"] == "F64" and all(type(n) is int and n >= 0 for n in shape)
            if set(entry) != {"dtype", "shape", "data_offsets"} or not fits or begin != at:
                raise ValueError(key)
            # One reader may take what stands in a row for aligned, another may not: a copy where it is not.
            part = body[begin:end]
            values = part.view("<f8") if (8 + length + begin) % 8 == 0 else part.copy().view("<f8")
            found[key], at = values.reshape(shape), end
        if at != len(body):
            raise ValueError("its length")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{name} is no safetensors file of float64: {error!r}") from None
    return found


def parts(files: dict[str, Any], index: dict[str, Any], cascade: bool) -> tuple[Arrays, list[Arrays]]:
    """What the first file holds, and part by part the steps, under the names that the whole would have.

    Of a cascade only the steps of the first stage are parted.
    """
    keys = [f"feed_forward.{'stages.0.' if cascade else ''}{key}" for key in PARTED]
    names = numbered(list(files))
    held = [arrays(name, files[name]) for name in names]
    where, total = {}, 0
    for name, tensors in zip(names, held, strict=True):
        for key, values in tensors.items():
            if key in where:
                raise ModelFileError(f"{key} lies in two files")
            where[key] = name
            total += 8 * values.size
    if index.get("weight_map") != where or index.get("metadata") != {"total_size": total} or len(index) != 2:
        raise ModelFileError(f"{INDEX} says otherwise than the files of weights")
    steps = []
    for number, tensors in enumerate(held[1:], 1):
        if set(tensors) != {f"{key}.{number}" for key in keys}:
            raise ModelFileError(f"{names[number]} does not hold part {number} of the steps, or more than that")
        steps.append({key: tensors[f"{key}.{number}"] for key in keys})
    if any(key in held[0] for key in keys):
        raise ModelFileError(f"{names[0]} holds steps, and so do the others: which of them count is not said")
    return held[0], steps


def joined(first: Arrays, steps: list[Arrays]) -> Arrays:
    """All of them as one file would hold them."""
    try:
        return first | {key: np.concatenate([part[key] for part in steps], axis=-1) for key in steps[0]}
    except ValueError as error:
        raise ModelFileError(f"the parts of the steps do not fit together: {error}") from None


def outlines(steps: list[Arrays]) -> Arrays:
    """Arrays of the shapes that the parts would have together, and without their numbers."""
    found = {}
    for key, values in steps[0].items():
        if any(part[key].shape[:-1] != values.shape[:-1] for part in steps):
            raise ModelFileError(f"the parts of {key} do not fit together")
        shape = *values.shape[:-1], sum(part[key].shape[-1] for part in steps)
        found[key] = np.broadcast_to(np.float64(0.0), shape)
    return found
