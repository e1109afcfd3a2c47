"""Reads a saved model from its files: bytes, digests, JSON and arrays, by docs/format.md and nothing else.

`format.py` checks that the parts fit together.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load

from monolayer.arrays import Array, NamedArrays
from monolayer.checker.format import (
    FORMAT_VERSION,
    examine_config,
    examine_interpolation,
    examine_interpolator,
    examine_memory,
    examine_names,
    examine_tensors,
    numbered_weights,
)
from monolayer.checker.network import Stored
from monolayer.checker.rounding import BINARY32, BINARY64
from monolayer.data.folder import INDEX_FILE, OpenFolder, read_together
from monolayer.data.limits import tensor_places
from monolayer.data.model_kinds import kind_of
from monolayer.data.number_formats import BFLOAT16, BY_CODE, FLOAT32, FLOAT64, FORMATS
from monolayer.data.objects import Config
from monolayer.errors import DataError, ModelFileError


def stored_model(model: object) -> Stored:
    """A model in monolayer's own format: that in a folder, or what `save` of a model writes."""
    with folder_of(model) as folder:
        return read_model(folder)


@contextmanager
def folder_of(model: Any) -> Iterator[Path]:
    """The folder of a model: the folder itself, or a temporary one that `model.save` writes."""
    if isinstance(model, str | os.PathLike):
        yield Path(model)
        return
    if not callable(getattr(model, "save", None)):
        raise DataError(f"a {type(model).__name__} is not a model of monolayer: give one, or the folder of a saved one")
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model")
        yield Path(scratch) / "model"


def read_model(folder: str | os.PathLike[str]) -> Stored:
    """The model in `folder`, once all digests, names, shapes and types have been checked against the format."""
    try:
        files = read_together(Path(folder), files_of_model)
        return replace(examined(files.contents), certificate=files.certificate)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except OSError as error:
        where = "" if error.filename is None else f": {Path(error.filename).name}"
        raise ModelFileError(f"{folder} cannot be read as a model{where}: {error.strerror}") from None
    except ValueError as error:  # NUL or half of a surrogate pair in the path
        raise ModelFileError(f"{str(folder)!r} is not the name of a folder: {error}") from None


class OwnFiles(NamedTuple):
    """The contents of `config.json` and of the files that it names, by name; and the certificate beside them.

    Files of weights in several parts are mapped into memory, not read. `certificate`: its bytes, or the error of
    reading it.
    """

    contents: dict[str, Any]
    certificate: bytes | OSError


def files_of_model(opened: OpenFolder) -> OwnFiles:
    """The files of a model in an open folder."""
    content = opened.read("config.json")
    files: dict[str, Any] = {"config.json": content}
    for name in _config(content)["files"]:
        files[name] = opened.map(name) if name.startswith("model-") else opened.read(name)
    return OwnFiles(files, opened.attempt("certificate.json"))


def examined(files: dict[str, Any]) -> Stored:
    """The model in these files, once digests and format have been checked."""
    config = _config(files["config.json"])
    if INDEX_FILE in files:  # sizes first: weights may be sparse files of any length, which take hours to hash
        stored = sum(_bytes_of_tensors(name, files[name]) for name in files if name.startswith("model-"))
        if _object(INDEX_FILE, files[INDEX_FILE]).get("metadata") != {"total_size": stored}:
            raise ModelFileError(f"{INDEX_FILE} does not agree with the files of weights")
    for name, digest in config["files"].items():
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise ModelFileError(f"{name} was changed after it was written: its digest does not match")
    if not kind_of(config).has_readout:
        tensors = _tensors("model.safetensors", files["model.safetensors"])
        examine_interpolation(config, tensors)
        return Stored(tensors, config, None, None, BINARY64)
    names = examine_names(config, _object("names.json", files["names.json"]) if "names.json" in files else {})
    if INDEX_FILE in files:
        tensors = _several(files)
    else:
        reader = _widened if FORMATS[config["dtype"]].widened else _in_place
        tensors = _tensors("model.safetensors", files["model.safetensors"], reader)
    examine_tensors(config, names, tensors)
    memory = None
    if "memory.safetensors" in files:
        contents = _tensors("memory.safetensors", files["memory.safetensors"])
        examine_memory(contents)
        memory = contents["fingerprints"]
    fmt = BINARY64 if FORMATS[config["dtype"]].long else BINARY32
    return Stored(tensors, config, names["vocabulary"], names["classes"], fmt, memory)


def _bytes_of_tensors(name: str, content: Any) -> int:
    """How many bytes the tensors of a safetensors file take, according to its header."""
    try:
        places = tensor_places(bytes(content[:8]), lambda count: bytes(content[8 : 8 + count]), len(content))
    except ValueError as error:
        raise ModelFileError(f"{name} cannot be read: {error}") from None
    return sum(place.end - place.begin for place in places.values())


def _config(content: bytes) -> Config:
    """`config.json`, once its version, its digest and its fields have been checked."""
    config = _object("config.json", content)
    if config.get("format") != "monolayer":
        raise ModelFileError("config.json does not describe a model written by monolayer")
    if config.get("version") != FORMAT_VERSION or isinstance(config["version"], bool | float):
        raise ModelFileError(
            f"the format version is {config.get('version')!r}; this checker reads version {FORMAT_VERSION}"
        )
    rest = {key: value for key, value in config.items() if key != "digest"}
    try:
        canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ModelFileError("config.json is nested too deeply") from None
    if hashlib.sha256(canonical.encode()).hexdigest() != config.get("digest"):
        raise ModelFileError("config.json was changed after it was written: its digest does not match")
    (examine_config if kind_of(config).has_readout else examine_interpolator)(config)
    return config


def _object(name: str, content: bytes) -> dict[str, object]:
    """The JSON object in the file `name`."""
    try:
        value = json.loads(str(content, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{name} does not hold a JSON object")
    return value


def _tensors(name: str, content: bytes, reader: Callable[[bytes], NamedArrays] = load) -> NamedArrays:
    """The tensors of the file `name`; `reader`: turns its bytes into arrays."""
    try:
        return reader(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"{name} cannot be read: {error!r}") from None


def _in_place(content: bytes) -> NamedArrays:
    """Tensors of real numbers, which stay where they are: large weights are not copied."""
    places = tensor_places(content[:8], lambda count: content[8 : 8 + count], len(content))
    if not all(place.code in BY_CODE and not BY_CODE[place.code].widened for place in places.values()):
        return load(content)
    view = memoryview(content)
    return {name: BY_CODE[at.code].raw(view[at.begin : at.end]).reshape(at.shape) for name, at in places.items()}


def _widened(content: bytes) -> NamedArrays:
    """Tensors stored in bfloat16, which NumPy lacks, as float32."""
    widened = {}
    for name, entry in deserialize(content):  # type: ignore[no-untyped-call]
        if entry["dtype"] != BFLOAT16.code:
            raise ModelFileError(f"{name} is {entry['dtype']}, not bfloat16")
        widened[name] = BFLOAT16.numbers(BFLOAT16.raw(entry["data"])).reshape(entry["shape"])
    return widened


def _as_stored(content: bytes) -> NamedArrays:
    """Tensors of a file of several: float64, float32, or the 16 bits of bfloat16, which NumPy lacks."""
    kinds, tensors_read = {each.code: each for each in (FLOAT64, FLOAT32, BFLOAT16)}, {}
    for name, entry in deserialize(content):  # type: ignore[no-untyped-call]
        if entry["dtype"] not in kinds:
            raise ModelFileError(f"{name} is {entry['dtype']}, not one of {', '.join(kinds)}")
        tensors_read[name] = kinds[entry["dtype"]].raw(entry["data"]).reshape(entry["shape"])
    return tensors_read


def _exact(stored: Array) -> Array:
    """Numbers as `_as_stored` gives them, in a format that NumPy has: the same numbers."""
    return BFLOAT16.numbers(stored) if stored.dtype == np.uint16 else stored


def _several(files: dict[str, Any]) -> NamedArrays:
    """The tensors of weights in several files, over which the steps of the first stage are split."""
    keys = [f"feed_forward.stages.0.{key}" for key in ("weight_1", "bias_1", "weight_2")]
    names, index = numbered_weights(list(files)), _object(INDEX_FILE, files[INDEX_FILE])
    held, total = list[NamedArrays](), 0
    for name in names:
        tensors = _tensors(name, bytes(files[name]), _as_stored)
        total += sum(values.nbytes for values in tensors.values())
        held.append(tensors if name == names[0] else {key: _exact(values) for key, values in tensors.items()})
    where = {key: name for name, tensors in zip(names, held, strict=True) for key in tensors}
    if index != {"metadata": {"total_size": total}, "weight_map": where} or len(where) != sum(map(len, held)):
        raise ModelFileError(f"{INDEX_FILE} does not agree with the files of weights")
    for number, tensors in enumerate(held[1:], 1):
        if set(tensors) != {f"{key}.{number}" for key in keys}:
            raise ModelFileError(f"{names[number]} does not hold part {number} of the steps, or more than that")
        sizes = {values.shape[-1:] for values in tensors.values()}
        long = tensors[f"feed_forward.stages.0.bias_1.{number}"].dtype == np.float64
        if not long or (len(sizes) > 1 and tensors is not held[-1]):  # the last may hold one label more
            raise ModelFileError(
                f"part {number} holds a bias that is not float64, or more of one of its tensors than of the others"
            )
    if any(key in held[0] for key in keys):
        raise ModelFileError(f"{names[0]} holds steps, and so do the others: it is unclear which of them count")
    try:
        parts = [[tensors[f"{key}.{number}"] for number, tensors in enumerate(held[1:], 1)] for key in keys]
        steps = {key: np.concatenate(part, axis=-1, dtype=np.float64) for key, part in zip(keys, parts, strict=True)}
        return held[0] | steps
    except ValueError:
        raise ModelFileError("the parts of the steps do not fit together") from None
