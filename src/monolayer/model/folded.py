"""A network of another kind than `Monolayer` as a folder: `config.json` with digests, and `model.safetensors`.

The same care as for a model (`save.py`, `load.py`): written all at once, nothing pickled, damage noticed, and no file
opened but these two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from monolayer.data.folder import Kind, new_folder
from monolayer.data.snapshot import read_together
from monolayer.errors import ModelFileError
from monolayer.model.save import config_digest
from monolayer.model.schema import CONFIG, WEIGHTS, parse

Fields = dict[str, Callable[[Any], bool]]
VERSION = 1


def write_folder(
    folder: str | os.PathLike[str], kind: Kind, about: dict[str, Any], tensors: dict[str, Tensor], *, overwrite: bool
) -> Path:
    """Write `tensors` and `about` as a folder of its kind, whose value is the format."""
    content = save_tensors({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
    config = {**about, "format": kind.value, "version": VERSION, "files": {WEIGHTS: sha256(content).hexdigest()}}
    config["digest"] = config_digest(config)
    with new_folder(folder, overwrite=overwrite, kind=kind) as scratch:
        (scratch / WEIGHTS).write_bytes(content)
        (scratch / CONFIG).write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return Path(folder)


def read_folder(folder: str | os.PathLike[str], kind: Kind, fields: Fields) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `write_folder` wrote, once its digests and fields have been checked; tensors are finite float64."""
    try:
        files = read_together(Path(folder), CONFIG, lambda content: [WEIGHTS] if _config(content, kind, fields) else [])
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{folder} cannot be read as a model: {error}") from None
    config = _config(files[CONFIG], kind, fields)
    if sha256(files[WEIGHTS]).hexdigest() != config["files"][WEIGHTS]:
        raise ModelFileError(f"{folder}: {WEIGHTS} is truncated or was changed after it was written")
    try:
        tensors = load_tensors(files[WEIGHTS])
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{folder}: {WEIGHTS} cannot be read as safetensors: {error}") from None
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float64 or not bool(torch.isfinite(tensor).all()):
            raise ModelFileError(f"{folder}: {name} does not hold finite float64 numbers")
    return {key: config[key] for key in fields}, tensors


def _config(content: bytes, kind: Kind, fields: Fields) -> dict[str, Any]:
    config = parse(CONFIG, content)
    if not isinstance(config, dict) or config.get("format") != kind.value:
        raise ModelFileError(f"{CONFIG} does not describe a folder of the format {kind.value}")
    if config.get("version") != VERSION:
        raise ModelFileError(f"the format version is {config.get('version')!r}; this monolayer reads {VERSION}")
    if config_digest(config) != config.get("digest"):
        raise ModelFileError(f"{CONFIG} was changed after it was written: its digest does not match")
    if set(config) != {*fields, "format", "version", "files", "digest"}:
        raise ModelFileError(f"{CONFIG} lacks fields, or has others than {', '.join(fields)}")
    for key, right in fields.items():
        if not right(config[key]):
            raise ModelFileError(f"{CONFIG}: {key} cannot be {config[key]!r}")
    files = config["files"]
    if not isinstance(files, dict) or set(files) != {WEIGHTS} or not isinstance(files[WEIGHTS], str):
        raise ModelFileError(f"{CONFIG}: files must name {WEIGHTS} and its digest")
    return config
