"""Models that `audit` takes from a folder, and their tokenizers: nothing is downloaded, no code of a folder runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from monolayer.data.folder import read_together
from monolayer.errors import DataError
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model")
"""Files of which a folder with a tokenizer has at least one."""


def load_any(folder: Path) -> nn.Module:
    """A saved model of monolayer, or the Hugging Face model that config.json names."""
    try:
        said: Any = json.loads(read_together(folder, lambda opened: opened.read("config.json")))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder} is not a saved model: its config.json cannot be read ({error})") from None
    if not isinstance(said, dict) or "architectures" not in said:
        return load_monolayer(folder)
    transformers = _transformers()
    bars: Any = transformers.utils.logging
    bars.disable_progress_bar()  # the command shows its own progress bar
    names = said["architectures"]
    kind: Any = getattr(transformers, str(names[0]), None) if isinstance(names, list) and names else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        kind = transformers.AutoModel
    try:
        loaded: nn.Module = kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers and safetensors raise whatever a damaged file makes them raise
        raise DataError(f"{folder} cannot be loaded by transformers: {type(error).__name__}: {error}") from None
    return loaded


def tokenizer_in(folder: Path, model: nn.Module) -> Any:
    """The tokenizer in a Hugging Face folder; None if it has none, or if the model reads strings by itself."""
    if isinstance(model, Monolayer) or not any((folder / name).exists() for name in _TOKENIZER_FILES):
        return None
    try:
        return _transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers raise whatever a damaged file makes them raise
        raise DataError(
            f"the tokenizer in {folder} cannot be loaded by transformers: {type(error).__name__}: {error}"
        ) from None


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise DataError("a Hugging Face folder needs the package transformers: pip install transformers") from None
    return transformers
