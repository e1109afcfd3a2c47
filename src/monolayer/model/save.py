"""Saving: safetensors for weights, JSON for the rest (docs/format.md). Nothing is ever pickled.

`config.json` carries the digest of every other file and of itself, so damage is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.torch import save_file
from torch import Tensor, nn

from monolayer.arrays import Words, slices
from monolayer.data import Names
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, new_folder
from monolayer.data.objects import Config, JsonObject
from monolayer.errors import DataError, ModelFileError
from monolayer.model.card import SAME, Fingerprint
from monolayer.model.fields import NameLists
from monolayer.model.parts import Parts
from monolayer.model.schema import CONFIG, MEMORY, NAMES_FILE, VERSION, check_config, check_tensors
from monolayer.model.sharded import SPLIT, index_json, part_bytes, shard_names


def save(
    model: Parts, folder: str | os.PathLike[str], *, parts: Sequence[tuple[Path, str]] = (), overwrite: bool = False
) -> Path:
    """Write `model` as `folder`, all at once or not at all; returns its path.

    `parts`: files that already hold the readout, part after part, with their digests. Then only the sizes of the
    readout's tensors in `model` are read. `overwrite`: True replaces a folder that exists.
    """
    config, names = described(model)
    content = FolderContent(config, dict(model.state_dict()), names, model.card.fingerprint)
    return write(folder, content, parts=parts, overwrite=overwrite)


class FolderContent(NamedTuple):
    """What the folder of a model holds: its config without digests, tensors, lists of names, and memory of the data."""

    config: Config
    state: dict[str, Tensor]
    names: NameLists
    fingerprint: Fingerprint | None = None


def write(
    folder: str | os.PathLike[str],
    content: FolderContent,
    *,
    parts: Sequence[tuple[Path, str]] = (),
    overwrite: bool = False,
) -> Path:
    """Write `content` as a folder, and add the digests to its config.

    `parts`: files that already hold tensors, with their digests. `overwrite`: True replaces a folder that exists.
    """
    config, state, names, fingerprint = content
    digests, split = {}, SPLIT if parts else ()
    tensors = {name: value.detach().cpu().contiguous() for name, value in state.items() if name not in split}
    shards = shard_names(len(parts) + 1) if parts else [WEIGHTS_FILE]
    with new_folder(folder, overwrite=overwrite) as scratch:
        save_file(tensors, scratch / shards[0])
        for name, (path, digest) in zip(shards[1:], parts, strict=True):
            try:
                (scratch / name).hardlink_to(path)  # so that nothing is lost if this save fails
            except OSError:
                shutil.copyfile(path, scratch / name)
            digests[name] = digest
        if parts:
            size = sum(value.numel() * value.element_size() for value in tensors.values())
            size += sum(part_bytes(path) for path, _ in parts)
            (scratch / INDEX_FILE).write_text(index_json(list(tensors), len(parts), size), encoding="utf-8")
        if fingerprint is not None:
            _write_words(fingerprint.words, scratch / MEMORY)
        if names:
            (scratch / NAMES_FILE).write_bytes(_utf8(names))
        config["files"] = {path.name: digests.get(path.name) or file_digest(path) for path in sorted(scratch.iterdir())}
        config["digest"] = config_digest(config)
        try:
            check_config(config, config["digest"])
            check_tensors(config, names, shapes_of(state))
        except ModelFileError as error:
            raise DataError(f"the format cannot store this model, so it was not saved: {error}") from None
        (scratch / CONFIG).write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return Path(folder)


def _write_words(words: Words, path: Path) -> None:
    """Write fingerprints as safetensors. They may be a map of a file, and larger than memory."""
    entry = {"dtype": "U64", "shape": [len(words)], "data_offsets": [0, words.nbytes]}
    text = json.dumps({"fingerprints": entry}, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // 8) * 8)  # numbers begin at a multiple of 8 bytes
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for some in slices(len(words)):
            file.write(np.ascontiguousarray(words[some], dtype="<u8").data)


def described(model: Parts) -> tuple[Config, NameLists]:
    """The config without digests, and the lists of names that it refers to."""
    card, readout = model.card, model.feed_forward
    names: NameLists = {}
    config: Config = readout.to_json() | {key: getattr(card, key) for key in SAME}
    config |= {
        "format": "monolayer",
        "version": VERSION,
        "tokens": "ids" if isinstance(model.lift, nn.Embedding) else "vectors",
        "width": model.bos.numel(),
        "labels": readout.labels,
        "target": "reals" if card.classes is None else "classes",
        "readout": readout.readout,
        "positions": model.positions is not None,
        "dtype": _dtype(model.bos),
        "vocabulary": _names_to_json("vocabulary", card.vocabulary, names),
        "unit": None if card.vocabulary is None else card.vocabulary.unit,
        "classes": _names_to_json("classes", card.classes, names),
        "script": None if card.script is None else asdict(card.script),
        "form": None if card.form is None else card.form.to_json(),
        "grid": card.grid_json(),
        "summary": card.summary_json(),
    }
    return config, names


def shapes_of(tensors: dict[str, Tensor]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of every tensor."""
    return {name: (tuple(tensor.shape), _dtype(tensor)) for name, tensor in tensors.items()}


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _names_to_json(key: str, names: Names | None, lists: NameLists) -> JsonObject | None:
    if names is None:
        return None
    if names.identity:
        return {"range": len(names)}
    lists[key] = list(names.names)
    return {"names": key}


def _utf8(value: object) -> bytes:
    """JSON as UTF-8. Where a string holds half of a surrogate pair, which UTF-8 cannot, all characters are escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def config_digest(config: Config) -> str:
    """SHA-256 of all fields of a config but its own digest."""
    rest = {key: value for key, value in config.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of the file at `path`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
