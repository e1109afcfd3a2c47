"""Open the files of a stock folder together, so that all come from one save."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, OpenFolder, Stamp, read_together
from monolayer.data.objects import JsonObject
from monolayer.errors import ModelFileError
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.manifest import FILE, says_attached
from monolayer.huggingface.strict import read_json

_JSON = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json"]
FILES_READ = (*_JSON, INDEX_FILE, "certificate.json")
"""The files of a stock folder that monolayer reads, besides weights. Some may be missing."""


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a stock folder that monolayer reads, all from one save.

    `content` holds the bytes of each file, a map of a file of weights, or the error of reading it. `sizes` lists
    everything in the folder, with the sizes of regular files and None for anything else. `stamps`: what tells whether
    a file was written or replaced since.
    """

    folder: Path
    content: Mapping[str, Any]
    sizes: Mapping[str, int | None]
    stamps: Mapping[str, Stamp] = field(default_factory=dict)

    def demand(self, name: str) -> Any:
        """The bytes of a file; a `ModelFileError` if it is missing or cannot be read."""
        found = self.content.get(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        if isinstance(found, OSError):
            raise ModelFileError(f"{self.folder / name} cannot be read: {found.strerror}")
        return found

    def object(self, name: str) -> JsonObject:
        """The object in a JSON file (`read_json`); a `ModelFileError` if the file is missing or cannot be read."""
        return read_json(self.folder / name, self.demand(name))


def said_by_config(opened: OpenFolder) -> object:
    """The content of `config.json` in a folder that is open; None if it is not JSON."""
    try:
        return json.loads(opened.read("config.json"))
    except (ValueError, RecursionError):
        return None


def says_stock(config: object) -> bool:
    """Whether a `config.json` is one of Hugging Face rather than of monolayer, and mentions no attached facts."""
    is_hugging_face = isinstance(config, dict) and "model_type" in config and "format" not in config
    return is_hugging_face and not says_attached(config)


def stock_files(folder: str | os.PathLike[str]) -> Files | None:
    """Read the files of a stock folder together; None if there is no folder, or if it is of another kind."""
    try:
        return read_together(
            Path(folder), lambda opened: read_stock_files(opened) if says_stock(said_by_config(opened)) else None
        )
    except (OSError, ValueError):  # ValueError: NUL or half of a surrogate pair in the path
        return None


def read_stock_files(opened: OpenFolder) -> Files:
    """The files of a stock folder that is open. Files of weights are mapped into memory."""
    sizes = opened.sizes()
    weights = [WEIGHTS_FILE, *(name for name in sizes if name.endswith(".safetensors") and name != WEIGHTS_FILE)]
    others = [*FILES_READ, *(name for name in (*COPIED, FILE) if name in sizes and name not in FILES_READ)]
    content: dict[str, Any] = {name: opened.attempt(name) for name in others}
    content |= {name: opened.attempt_map(name) for name in weights}
    return Files(opened.path, content, sizes, opened.stamps())
