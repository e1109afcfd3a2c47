"""Loading: from a saved folder, once its digests and all of its format have been checked, to a model.

Nothing is ever unpickled, and only the files that belong to a model are opened.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as load_numbers
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from monolayer.arrays import Words
from monolayer.data import Names
from monolayer.data.choices import Unit
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, OpenFolder, read_together
from monolayer.data.model_kinds import kind_of
from monolayer.data.objects import Config, JsonFields
from monolayer.errors import DataError, ModelFileError
from monolayer.model.card import Card, Fingerprint
from monolayer.model.device import check_device
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.quantizer import Quantizer
from monolayer.model.readouts import READOUTS
from monolayer.model.save import config_digest, shapes_of
from monolayer.model.schema import CONFIG, MEMORY, NAMES_FILE, check_config, check_names, check_tensors, parse
from monolayer.model.sharded import check_index, is_shard, joined_tensors
from monolayer.model.torch_settings import own_settings
from monolayer.model.uniform import Uniform

_MODEL_FILES = (CONFIG, WEIGHTS_FILE, NAMES_FILE, MEMORY, INDEX_FILE)
Contents = dict[str, Any]
"""Files by name: bytes, or a map of the bytes of a shard."""


@own_settings()
def load_model(folder: str | os.PathLike[str], *, device: torch.device | str | None = None) -> Monolayer | Uniform:
    """Load the model in `folder`, onto `device` if that is given.

    A folder that is truncated, foreign, changed or newer is a `ModelFileError` that says so.
    """
    check_device(device)
    try:
        files = read_together(Path(folder), read_files)
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from None
    return model_in(folder, files, device=device)


@own_settings()
def model_in(
    folder: str | os.PathLike[str], files: Contents, *, device: torch.device | str | None = None
) -> Monolayer | Uniform:
    """The model in the contents of its files, once their digests and format have been checked; errors name `folder`."""
    check_device(device)
    model: Monolayer | Uniform
    try:
        config, names = _checked(files)
        tensors = _load_weights(files)
        if not kind_of(config).has_readout:
            check_tensors(config, names, shapes_of(tensors))
            model = Uniform.stored(config, tensors)
        else:
            model = model_from(config, names, tensors, files.get(MEMORY))
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    return model if device is None else model.to(device)


def unreadable(folder: str | os.PathLike[str], error: Exception) -> ModelFileError:
    """The error for a folder whose files cannot be read, given what reading them raised."""
    return ModelFileError(f"{folder}: {error if isinstance(error, ModelFileError) else _why(Path(folder), error)}")


def load_monolayer(model: Any) -> Monolayer:
    """`model` itself, or the model in that folder; an error for a network without facts and steps (`Uniform`)."""
    loaded = load_model(model) if isinstance(model, str | os.PathLike) else model
    if not isinstance(loaded, Monolayer):
        raise DataError(
            "this is a network for the maximum norm: it holds a function, not facts or steps. predict, inspect and "
            "verify take it (docs/uniform.md)"
        )
    return loaded


def model_from(config: Config, names: JsonFields, tensors: dict[str, Tensor], memory: bytes | None = None) -> Monolayer:
    """The model of a config, its lists of names, its tensors and its memory, if these fit together."""
    check_names(config, names)
    check_tensors(config, names, shapes_of(tensors))

    def layer(prefix: str) -> nn.Linear:
        return linear(tensors[f"{prefix}.weight"], tensors[f"{prefix}.bias"])

    def table(prefix: str) -> nn.Embedding:
        return embedding(tensors[f"{prefix}.weight"])

    def under(prefix: str) -> dict[str, Tensor]:
        start = f"{prefix}."
        return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}

    vocabulary = _names_of(config["vocabulary"], names, config["unit"])
    fingerprint = None if memory is None else Fingerprint(_fingerprints(memory), config["per"], config["causal"])
    card = Card.described(config, vocabulary, _names_of(config["classes"], names), fingerprint)
    four = (tensors[f"attention.{name}"] for name in ("W_Q", "W_K", "W_V", "W_O"))
    row = READOUTS[config["readout"]]
    return Monolayer(
        table("lift") if config["tokens"] == "ids" else layer("lift"),
        table("positions") if config["positions"] else None,
        tensors["bos"],
        row.attention(*four),
        row.readout.stored(config, under("feed_forward")),
        layer("head"),
        card,
        None if card.grid is None else Quantizer(**under("quantizer")),
    )


def _names_of(entry: JsonFields | None, lists: JsonFields, unit: Unit | None = None) -> Names | None:
    if entry is None:
        return None
    return Names(range(entry["range"]) if "range" in entry else tuple(lists[entry["names"]]), unit)


# -- files -------------------------------------------------------------------------------------------------


class CheckedFiles(NamedTuple):
    """The config of a folder and its lists of names."""

    config: Config
    names: JsonFields


def _checked(files: Contents) -> CheckedFiles:
    """The config and the names in these files; a `ModelFileError` unless sizes and digests agree with the config.

    Sizes come first, since weights may be sparse files of any length that take hours to hash.
    """
    config = _checked_config(files[CONFIG])
    names = {}
    if NAMES_FILE in files:
        _check_digests(config, files, [NAMES_FILE])
        names = parse(NAMES_FILE, files[NAMES_FILE])
    if INDEX_FILE in files:
        check_index(parse(INDEX_FILE, files[INDEX_FILE]), {name: files[name] for name in files if is_shard(name)})
    _check_digests(config, files, [name for name in config["files"] if name != NAMES_FILE])
    return CheckedFiles(config, names)


def _check_digests(config: Config, files: Contents, names: list[str]) -> None:
    """Refuse files that do not have the digests that the config gives them."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = list(pool.map(lambda name: sha256(files[name]).hexdigest(), names))
    for name, computed in zip(names, digests, strict=True):
        if computed != config["files"][name]:
            raise ModelFileError(f"{name} is truncated or was changed after it was written: its digest does not match")


def read_files(opened: OpenFolder) -> Contents:
    """`config.json` and the files that it names: bytes, or a map of the bytes of a shard."""
    content = opened.read(CONFIG)
    named = _checked_config(content)["files"]
    return {CONFIG: content} | {name: opened.map(name) if is_shard(name) else opened.read(name) for name in named}


def _load_weights(files: Contents) -> dict[str, Tensor]:
    if INDEX_FILE in files:
        shards = {name: files[name] for name in files if is_shard(name)}
        joined = joined_tensors(parse(INDEX_FILE, files[INDEX_FILE]), shards)
        return {name: torch.from_numpy(value) for name, value in joined.items()}
    try:
        return load_tensors(files[WEIGHTS_FILE])
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{WEIGHTS_FILE} cannot be read as safetensors: {error}") from None


def _fingerprints(content: bytes) -> Words:
    try:
        tensors = load_numbers(content)
        words = tensors.pop("fingerprints")
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"{MEMORY} cannot be read: {error!r}") from None
    if tensors or words.dtype != np.uint64 or words.ndim != 1 or (words[1:] <= words[:-1]).any():
        raise ModelFileError(f"{MEMORY} must hold one row of 64-bit words, each larger than the one before")
    return words


def _why(folder: Path, error: Exception) -> str:
    """Why files cannot be read, in words."""
    if not isinstance(error, OSError):  # NUL or half of a surrogate pair in a path
        return f"not the name of a folder: {error}"
    name = Path(error.filename or folder).name
    if isinstance(error, FileNotFoundError) and (name in _MODEL_FILES or is_shard(name)):
        return f"not a saved model: it has no {CONFIG}" if name == CONFIG else f"{name} is missing"
    if isinstance(error, FileNotFoundError):
        return "this folder does not exist"
    if isinstance(error, NotADirectoryError):
        return "not a folder"
    return f"{name} cannot be read: {error.strerror}"


def _checked_config(content: bytes) -> Config:
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
