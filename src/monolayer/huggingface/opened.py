"""Open the files of a stock folder together, so that all come from one save."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, OpenFolder, read_together
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.manifest import FILE
from monolayer.huggingface.marks import said_by_config, says_stock
from monolayer.huggingface.tensors import ModelFiles

_JSON = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json"]
FILES_READ = (*_JSON, INDEX_FILE, "certificate.json")
"""The files of a stock folder that monolayer reads, besides weights. Some may be missing."""


def stock_files(folder: str | os.PathLike[str]) -> ModelFiles | None:
    """Read the files of a stock folder together; None if there is no folder, or if it is of another kind."""
    try:
        return read_together(
            Path(folder), lambda opened: read_stock_files(opened) if says_stock(said_by_config(opened)) else None
        )
    except (OSError, ValueError):  # ValueError: NUL or half of a surrogate pair in the path
        return None


def read_stock_files(opened: OpenFolder) -> ModelFiles:
    """The files of a stock folder that is open. Files of weights are mapped into memory."""
    sizes = opened.sizes()
    weights = [WEIGHTS_FILE, *(name for name in sizes if name.endswith(".safetensors") and name != WEIGHTS_FILE)]
    others = [*FILES_READ, *(name for name in (*COPIED, FILE) if name in sizes and name not in FILES_READ)]
    content: dict[str, Any] = {name: opened.attempt(name) for name in others}
    content |= {name: opened.attempt_map(name) for name in weights}
    return ModelFiles(opened.path, content, sizes, opened.stamps())
