"""The files of a stock folder read back: `config.json`, the tensors, the names of the ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monolayer.data.regular import read_regular
from monolayer.errors import ModelFileError


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and the tensors of a stock folder."""
    config = read_object(folder / "config.json")
    try:
        return config, load_file(folder / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelFileError(f"{folder} cannot be read as a stock folder: {error}") from None


def read_names(folder: Path) -> tuple[str, ...]:
    """Names of the ids, in their order, from `tokenizer.json`."""
    path = folder / "tokenizer.json"
    said = read_object(path)
    try:
        table: dict[str, int] = said["model"]["vocab"]
        names = tuple(sorted(table, key=table.__getitem__))
        if sorted(table.values()) != list(range(len(names))):
            raise ValueError("its ids do not count from 0 on")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} is not a tokenizer that memorize_as wrote: {error}") from None
    return names


def read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        found = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ModelFileError(f"{path} does not hold a JSON object")
    return found
