"""A saved model as a stranger reads it: bytes, digests, JSON and arrays, after docs/format.md and nothing else.

What the parts must be to each other is worked out in `format.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load

from monolayer.checker.format import (
    VERSION,
    examine_config,
    examine_interpolation,
    examine_interpolator,
    examine_memory,
    examine_names,
    examine_tensors,
)
from monolayer.checker.rounding import BFLOAT16, BINARY16, BINARY32, BINARY64, Format
from monolayer.checker.several import INDEX, joined, outlines, parts
from monolayer.data import Names
from monolayer.data.folder import read_together
from monolayer.errors import ModelFileError

FORMATS = {"float64": BINARY64, "float32": BINARY32, "float16": BINARY16, "bfloat16": BFLOAT16}
"""The arithmetic that a claim is about, but for robust models: their short formats are formats of weights only."""
ONE, KEY, CODE, LABEL = 0, 1, 2, 3
NDArrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Stored:
    """The tensors of a saved model by their names, and what its `config.json` says of them.

    No tensors where they are in a format that no proof covers.
    """

    tensors: dict[str, NDArray[Any]]
    config: dict[str, Any]
    vocabulary: Names | None
    classes: Names | None
    format: Format
    memory: NDArray[Any] | None = None
    """Fingerprints `(M,)`, where the model keeps any."""
    in_parts: list[NDArrays] | None = None
    """The steps of the readout part by part, where they lie in several files and were not put together."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]

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


def read(folder: str | os.PathLike[str]) -> Stored:
    """The model in `folder`, once every digest, name, shape and type agrees with the format."""
    return _named(Path(folder), in_parts=False)


def read_in_parts(folder: str | os.PathLike[str]) -> Stored:
    """The same, but steps that lie in several files stay there, as `in_parts`, and are no tensors."""
    return _named(Path(folder), in_parts=True)


def _named(folder: Path, in_parts: bool) -> Stored:
    try:
        return _read(folder, in_parts)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except OSError as error:
        where = "" if error.filename is None else f": {Path(error.filename).name}"
        raise ModelFileError(f"{folder} cannot be read as a model{where}: {error.strerror}") from None
    except ValueError as error:  # NUL or half of a surrogate pair in the path
        raise ModelFileError(f"{str(folder)!r} is no name of a folder: {error}") from None


def _read(folder: Path, in_parts: bool) -> Stored:
    files = read_together(
        folder, "config.json", lambda content: _config(content)["files"], lambda name: name.startswith("model-")
    )
    config = _config(files["config.json"])
    for name, digest in config["files"].items():
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise ModelFileError(f"{name} was changed after it was written: its digest does not match")
    if config["kind"] == "interpolator":
        tensors = _loaded(files["model.safetensors"], load)
        examine_interpolation(config, tensors)
        return Stored(tensors, config, None, None, BINARY64)
    lists = _object("names.json", files["names.json"]) if "names.json" in files else {}
    names = examine_names(config, lists)
    fmt = FORMATS[config["dtype"]]
    steps = None
    if INDEX in files:
        first, steps = parts(files, _object(INDEX, files[INDEX]), config["readout"] == "cascade")
        tensors = first | outlines(steps) if in_parts else joined(first, steps)
    elif config["readout"] == "gates":
        fmt = BINARY64 if fmt is BINARY64 else BINARY32
        tensors = _loaded(files["model.safetensors"], _widened if config["dtype"] == "bfloat16" else load)
    else:
        tensors = _loaded(files["model.safetensors"], _shapes if fmt is BFLOAT16 else load)
    examine_tensors(config, names, tensors)
    memory = _memory(files["memory.safetensors"]) if "memory.safetensors" in files else None
    if in_parts and steps is not None:
        tensors = first
    kept = steps if in_parts else None
    return Stored(tensors if fmt.longest else {}, config, names["vocabulary"], names["classes"], fmt, memory, kept)


class _Shape(NamedTuple):
    """What is known of a tensor that NumPy cannot hold."""

    shape: tuple[int, ...]
    dtype: str


def _shapes(content: bytes) -> dict[str, Any]:
    return {
        name: _Shape(tuple(tensor["shape"]), "bfloat16" if tensor["dtype"] == "BF16" else str(tensor["dtype"]))
        for name, tensor in deserialize(content)  # type: ignore[no-untyped-call]
    }


def _memory(content: bytes) -> NDArray[Any]:
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"memory.safetensors cannot be read: {error!r}") from None
    examine_memory(header, tensors)
    return tensors["fingerprints"]


def _loaded(content: bytes, reader: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    """The tensors of a file, by a reader of safetensors."""
    try:
        return reader(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"model.safetensors cannot be read: {error!r}") from None


def _widened(content: bytes) -> dict[str, NDArray[Any]]:
    """Arrays of bfloat16, which NumPy lacks, as float32: the upper half of its bits."""
    found = {}
    for name, entry in deserialize(content):  # type: ignore[no-untyped-call]
        if entry["dtype"] != "BF16":
            raise ModelFileError(f"{name} is {entry['dtype']}, not bfloat16")
        bits = np.frombuffer(entry["data"], dtype="<u2").astype(np.uint32) << 16
        found[name] = bits.view(np.float32).reshape(entry["shape"])
    return found


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
