"""A saved model as a stranger reads it: bytes, digests, JSON and arrays, after docs/format.md and nothing else.

What the parts must be to each other is worked out in `format.py`. Weights that lie in several files are mapped, and
stay apart: a part of the readout that is not looked at takes no memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load

from monolayer.checker.format import (
    INDEX,
    VERSION,
    examine_config,
    examine_interpolation,
    examine_interpolator,
    examine_memory,
    examine_names,
    examine_tensors,
    numbered,
)
from monolayer.checker.rounding import BINARY32, BINARY64, Format
from monolayer.data import Names
from monolayer.data.folder import read_together
from monolayer.errors import DataError, ModelFileError

ONE, KEY, CODE, LABEL = 0, 1, 2, 3
PARTED = ("weight_1", "bias_1", "weight_2")
Arrays = dict[str, NDArray[Any]]
Steps = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Stored:
    """The tensors of a saved model by their names, and what its `config.json` says of them.

    Steps that lie in several files are not among them. `format`: the arithmetic that a claim is about; short formats
    are formats of weights only.
    """

    tensors: Arrays
    config: dict[str, Any]
    vocabulary: Names | None
    classes: Names | None
    format: Format
    memory: NDArray[Any] | None = None
    """Fingerprints `(M,)`, where the model keeps any."""
    apart: tuple[Arrays, ...] = ()
    """The steps of the readout, or of its first stage, file by file, where they lie in several."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]

    def steps(self, block: str) -> list[Steps]:
        """`weight_1`, `bias_1` and `weight_2` of a block of the readout: one part unless they lie in several files."""
        names = [f"{block}.{name}" for name in PARTED]
        parts = [self.tensors] if names[0] in self.tensors else self.apart
        return [(part[names[0]], part[names[1]], part[names[2]]) for part in parts]

    @property
    def stages(self) -> int:
        """Stages of a cascade, its value rank; 1 for every other readout."""
        return len(self.config["cascade"]["steps"]) if self.config["readout"] == "cascade" else 1

    def value(self, stage: int) -> int:
        """The coordinate of the stream that stage `stage`, from 2, averages; its code stands behind it."""
        return LABEL + int(self.config["labels"]) + 2 * (stage - 2)

    @property
    def raw(self) -> int:
        """Coordinates of the stream behind the label slots, where an approximator keeps the token itself."""
        return int(self.config["grid"]["dim"]) if self.config["kind"] == "approximator" else 0


@contextmanager
def folder_of(model: Any) -> Iterator[Path]:
    """The folder of a saved model, or a temporary one with what `model.save` writes."""
    if isinstance(model, str | os.PathLike):
        yield Path(model)
        return
    if not callable(getattr(model, "save", None)):
        raise DataError(f"a {type(model).__name__} is no model of monolayer: give one, or the folder of a saved one")
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model")
        yield Path(scratch) / "model"


def read(folder: str | os.PathLike[str]) -> Stored:
    """The model in `folder`, once every digest, name, shape and type agrees with the format."""
    try:
        return _read(Path(folder))
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except OSError as error:
        where = "" if error.filename is None else f": {Path(error.filename).name}"
        raise ModelFileError(f"{folder} cannot be read as a model{where}: {error.strerror}") from None
    except ValueError as error:  # NUL or half of a surrogate pair in the path
        raise ModelFileError(f"{str(folder)!r} is no name of a folder: {error}") from None


def _read(folder: Path) -> Stored:
    files = read_together(
        folder, "config.json", lambda content: _config(content)["files"], lambda name: name.startswith("model-")
    )
    config = _config(files["config.json"])
    for name, digest in config["files"].items():
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise ModelFileError(f"{name} was changed after it was written: its digest does not match")
    if config["kind"] == "interpolator":
        tensors = _tensors("model.safetensors", files["model.safetensors"])
        examine_interpolation(config, tensors)
        return Stored(tensors, config, None, None, BINARY64)
    names = examine_names(config, _object("names.json", files["names.json"]) if "names.json" in files else {})
    apart = tuple[Arrays, ...]()
    if INDEX in files:
        tensors, apart = _several(files, config["readout"] == "cascade")
    else:
        reader = _widened if config["dtype"] == "bfloat16" else load
        tensors = _tensors("model.safetensors", files["model.safetensors"], reader)
    examine_tensors(config, names, tensors | _outlines(apart))
    memory = None
    if "memory.safetensors" in files:
        content = files["memory.safetensors"]
        held = _tensors("memory.safetensors", content)
        examine_memory(json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]), held)
        memory = held["fingerprints"]
    fmt = BINARY64 if config["dtype"] == "float64" else BINARY32
    return Stored(tensors, config, names["vocabulary"], names["classes"], fmt, memory, apart)


def _config(content: bytes) -> dict[str, Any]:
    config = _object("config.json", content)
    if config.get("format") != "monolayer":
        raise ModelFileError("config.json does not describe a model written by monolayer")
    if config.get("version") != VERSION or isinstance(config["version"], bool | float):
        raise ModelFileError(f"the format version is {config.get('version')!r}; this checker reads version {VERSION}")
    rest = {key: value for key, value in config.items() if key != "digest"}
    try:
        canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ModelFileError("config.json is nested too deeply") from None
    if hashlib.sha256(canonical.encode()).hexdigest() != config.get("digest"):
        raise ModelFileError("config.json was changed after it was written: its digest does not match")
    (examine_interpolator if config.get("kind") == "interpolator" else examine_config)(config)
    return config


def _object(name: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(str(content, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{name} does not hold a JSON object")
    return value


def _tensors(name: str, content: bytes, reader: Callable[[bytes], Arrays] = load) -> Arrays:
    """The tensors of a file, by a reader of safetensors."""
    try:
        return reader(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"{name} cannot be read: {error!r}") from None


def _widened(content: bytes) -> Arrays:
    """Arrays of bfloat16, which NumPy lacks, as float32: the upper half of its bits."""
    found = {}
    for name, entry in deserialize(content):  # type: ignore[no-untyped-call]
        if entry["dtype"] != "BF16":
            raise ModelFileError(f"{name} is {entry['dtype']}, not bfloat16")
        bits = np.frombuffer(entry["data"], dtype="<u2").astype(np.uint32) << 16
        found[name] = bits.view(np.float32).reshape(entry["shape"])
    return found


# -- several files -----------------------------------------------------------------------------------------


def _several(files: dict[str, Any], cascade: bool) -> tuple[Arrays, tuple[Arrays, ...]]:
    """What the first file holds, and the steps file by file, under the names that the whole would have.

    Of a cascade only the steps of the first stage are parted.
    """
    keys = [f"feed_forward.{'stages.0.' if cascade else ''}{key}" for key in PARTED]
    names, index = numbered(list(files)), _object(INDEX, files[INDEX])
    held = [_mapped(name, files[name]) for name in names]
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
    return held[0], tuple(steps)


def _mapped(name: str, content: Any) -> Arrays:
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


def _outlines(apart: tuple[Arrays, ...]) -> Arrays:
    """Arrays of the shapes that the parts would have together, and without their numbers."""
    found = {}
    for key, values in apart[0].items() if apart else ():
        if any(part[key].ndim == 0 or part[key].shape[:-1] != values.shape[:-1] for part in apart):
            raise ModelFileError(f"the parts of {key} do not fit together")
        shape = *values.shape[:-1], sum(part[key].shape[-1] for part in apart)
        found[key] = np.broadcast_to(np.float64(0.0), shape)
    # Steps are looked at part by part. Sizes of the whole are checked later: the last part fits if the others do.
    for number, part in enumerate(apart[:-1], 1):
        if len({values.shape[-1] for values in part.values()}) > 1:
            raise ModelFileError(f"part {number} holds more of one of {', '.join(part)} than of the others")
    return found
