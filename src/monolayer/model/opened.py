"""A saved folder, opened: its files, once its digests and all of its format have been checked.

Nothing is ever unpickled, and no file is opened but those that a model has.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor, from_numpy

from monolayer.data.folder import read_together
from monolayer.errors import ModelFileError
from monolayer.model.save import config_digest
from monolayer.model.schema import (
    CONFIG,
    MEMORY,
    NAMES,
    WEIGHTS,
    Config,
    check_config,
    check_names,
    check_tensors,
    parse,
)
from monolayer.model.sharded import INDEX, is_shard, join, split_block, whole

_OWN = (CONFIG, WEIGHTS, NAMES, MEMORY, INDEX)


def open_folder(folder: Path) -> tuple[Config, dict[str, list[Any]], dict[str, Any]]:
    """Config and names of a folder and its files, once all digests agree."""
    try:
        files = read_together(folder, CONFIG, lambda content: _config(content)["files"], is_shard)
    except (OSError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(_why(folder, error)) from None
    config = _config(files[CONFIG])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = list(pool.map(lambda name: sha256(files[name]).hexdigest(), config["files"]))
    for (name, digest), found in zip(config["files"].items(), digests, strict=True):
        if found != digest:
            raise ModelFileError(f"{name} is truncated or was changed after it was written: its digest does not match")
    names = parse(NAMES, files[NAMES]) if NAMES in files else {}
    if config["kind"] != "interpolator":
        check_names(config, names)
    return config, names, files


def read_tensors(config: Config, names: dict[str, list[Any]], files: dict[str, Any]) -> dict[str, Tensor]:
    """All tensors, in the shapes and the format that the config asks for."""
    tensors = _tensors(files, config)
    found = {name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in tensors.items()}
    check_tensors(config, names, found)
    return tensors


def _tensors(files: dict[str, Any], config: Config) -> dict[str, Tensor]:
    if INDEX in files:
        held = whole(*join(parse(INDEX, files[INDEX]), shards(files), split_block(config["readout"])))
        return {name: from_numpy(value) for name, value in held.items()}
    try:
        return load_tensors(files[WEIGHTS])
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{WEIGHTS} cannot be read as safetensors: {error}") from None


def shards(files: dict[str, Any]) -> dict[str, Any]:
    """Those that hold weights, where there are several."""
    return {name: files[name] for name in files if is_shard(name)}


def _why(folder: Path, error: Exception) -> str:
    """Why files cannot be read, in words."""
    if not isinstance(error, OSError):  # NUL or half of a surrogate pair in a path
        return f"this is no name of a folder: {error}"
    name = Path(error.filename or folder).name
    if isinstance(error, FileNotFoundError) and (name in _OWN or is_shard(name)):
        return f"this is no saved model: it has no {CONFIG}" if name == CONFIG else f"{name} is missing"
    if isinstance(error, FileNotFoundError):
        return "this folder does not exist"
    if isinstance(error, NotADirectoryError):
        return "this is no folder"
    return f"{name} cannot be read: {error.strerror}"


def _config(content: bytes) -> Config:
    """`config.json`, after its version, its digest and its fields have been checked."""
    config = parse(CONFIG, content)
    if isinstance(config, dict) and isinstance(config.get("model_type"), str) and "format" not in config:
        raise ModelFileError(
            f"this is a Hugging Face model ({config['model_type']}): load it with transformers; monolayer verify "
            "proves what it returns"
        )
    try:
        check_config(config, config_digest(config))
    except RecursionError:
        raise ModelFileError(f"{CONFIG} is nested too deeply") from None
    return config
