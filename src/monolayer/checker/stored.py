"""A saved model as a stranger reads it: bytes, digests, JSON and arrays, after docs/format.md and nothing else.

Letters: `D` the width of the stream, `m` label coordinates, `H` hidden neurons, `V` vocabulary rows, `C` classes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from monolayer.checker.rounding import BINARY32, BINARY64, Format
from monolayer.data import Names
from monolayer.errors import ModelFileError

FORMATS = {"float64": BINARY64, "float32": BINARY32}
ONE, KEY, CODE, LABEL = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Stored:
    """The tensors of a saved model by their names, and what its `config.json` says of them."""

    tensors: dict[str, NDArray[Any]]
    config: dict[str, Any]
    vocabulary: Names | None
    classes: Names | None
    format: Format

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]

    @property
    def raw(self) -> int:
        """Coordinates of the stream behind the label slots, where an approximator keeps the token itself."""
        return int(self.config["grid"]["dim"]) if self.config["kind"] == "approximator" else 0


def read(folder: str | os.PathLike[str]) -> Stored:
    """The model in `folder`, once every digest, name, shape and type agrees with the format."""
    folder = Path(folder)
    config = _object(folder / "config.json", _bytes(folder / "config.json"))
    if config.get("format") != "monolayer" or config.get("kind") not in ("memorizer", "approximator"):
        raise ModelFileError(f"{folder / 'config.json'} does not describe a model written by monolayer")
    if config.get("version") not in (1, 2):
        raise ModelFileError(f"{folder} has format version {config.get('version')!r}; this checker reads 1 and 2")
    rest = {key: value for key, value in config.items() if key != "digest"}
    if _sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()) != config.get("digest"):
        raise ModelFileError(f"{folder / 'config.json'} was changed after it was written: its digest does not match")
    files = {}
    for name, digest in config.get("files", {}).items():
        if Path(name).name != name:
            raise ModelFileError(f"{folder / 'config.json'} names {name!r}, which lies outside the folder")
        files[name] = _bytes(folder / name)
        if _sha256(files[name]) != digest:
            raise ModelFileError(f"{folder / name} was changed after it was written: its digest does not match")
    try:
        tensors = load(files["model.safetensors"])
        names = _object(folder / "names.json", files["names.json"]) if "names.json" in files else {}
        vocabulary, classes = _names(config["vocabulary"], names), _names(config["classes"], names)
        stored = Stored(tensors, config, vocabulary, classes, FORMATS[config["dtype"]])
        _check(stored)
    except (KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ModelFileError(f"{folder} lacks or garbles a part that the format demands: {error!r}") from None
    return stored


def _check(stored: Stored) -> None:
    """Every tensor has the shape and the type that `config` says, and there is no other tensor."""
    config, tensors = stored.config, stored.tensors
    D, m, R = config["width"], config["labels"], config["steps"]
    sizes = {"exact": (R, R), "paper": (2 * R, 2 * R)} | ({"runs": (R, R + 1)} if config["version"] >= 2 else {})
    H, last = sizes[config["readout"]]
    V = None if stored.vocabulary is None else len(stored.vocabulary)
    C = {"classes": 0 if stored.classes is None else len(stored.classes), "reals": m}[config["target"]]
    shapes: dict[str, tuple[int | None, ...]] = {f"attention.W_{letter}": (D, D) for letter in "QKVO"}
    shapes |= {"feed_forward.weight_1": (H,), "feed_forward.bias_1": (H,), "feed_forward.weight_2": (m, last)}
    shapes |= {"feed_forward.bias_2": (m,), "head.weight": (C, D), "head.bias": (C,), "bos": (D,)}
    shapes |= {"ids": {"lift.weight": (V, D)}, "vectors": {"lift.weight": (D, None), "lift.bias": (D,)}}[
        config["tokens"]
    ]
    shapes |= {"positions.weight": (None, D)} if config["positions"] else {}
    if stored.raw:
        shapes |= {"quantizer.weight_1": (None, stored.raw), "quantizer.bias_1": (None,)}
        shapes |= {"quantizer.weight_2": (2, None), "quantizer.bias_2": (2,), "lift.weight": (D, stored.raw)}
    kinds = {"per": ("token", "sequence"), "causal": (True, False), "positions": (True, False)}
    for key, allowed in kinds.items():
        if config[key] not in allowed:
            raise ModelFileError(f"config.json says {key} = {config[key]!r}, which must be one of {allowed}")
    if set(tensors) != set(shapes):
        raise ModelFileError(f"tensors missing or unknown to the format: {sorted(set(tensors) ^ set(shapes))}")
    if (
        LABEL + m + stored.raw != D
        or m < 1
        or C < 1
        or (config["target"] == "classes") != (m == 1 and stored.classes is not None)
    ):
        raise ModelFileError(f"width {D}, {m} label slots and {C} outputs do not fit together")
    for name, shape in shapes.items():
        tensor = tensors[name]
        fits = tensor.ndim == len(shape) and all(b in (None, a) for a, b in zip(tensor.shape, shape, strict=True))
        if not fits or tensor.dtype != config["dtype"]:
            raise ModelFileError(f"{name} is {tensor.dtype} {tensor.shape}, not {config['dtype']} {shape}")
    if stored.raw:
        _check_grid(stored)


def _check_grid(stored: Stored) -> None:
    """An approximator's grid has the numbers that the format demands, and its block one length throughout."""
    grid, block = stored.config["grid"], [stored[f"quantizer.{name}"] for name in ("weight_1", "bias_1", "weight_2")]
    whole = all(type(grid[key]) is int and grid[key] >= 1 for key in ("dim", "length", "cells"))
    low, high = float(grid["low"]), float(grid["high"])
    fits = stored.config["tokens"] == "vectors" and stored.config["per"] == "token" and not stored.config["causal"]
    if not (whole and fits and -math.inf < low < high < math.inf):
        raise ModelFileError(f"config.json describes no approximator: grid = {grid!r}")
    if not len(block[0]) == len(block[1]) == block[2].shape[1]:
        raise ModelFileError(f"the quantizer has {[part.shape for part in block]}: its parts do not fit together")


def _names(entry: dict[str, Any] | None, lists: dict[str, Any]) -> Names | None:
    if entry is None:
        return None
    if "range" in entry:
        return Names(range(entry["range"]))
    names = tuple(lists[entry["names"]])
    if len(set(names)) != len(names) or not all(type(name) in (str, int) for name in names):
        raise ModelFileError(f"the list {entry['names']!r} in names.json must hold different strings or integers")
    return Names(names)


def _object(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ModelFileError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} does not hold a JSON object")
    return value


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
