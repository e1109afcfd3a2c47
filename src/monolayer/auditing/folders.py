"""Load the model in a folder, and its tokenizer, for `audit`.

Nothing is downloaded, and no code that lies in the folder is run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from monolayer.data.folder import read_together
from monolayer.errors import DataError, needs_extra
from monolayer.model.load import load_monolayer

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model")
"""A folder with a tokenizer has at least one of these files."""


def load_any(folder: Path) -> nn.Module:
    """Load the model in `folder`: a saved model of monolayer, or the Hugging Face model that config.json names."""
    try:
        config: Any = json.loads(read_together(folder, lambda opened: opened.read("config.json")))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder} is not a saved model: its config.json cannot be read ({error})") from None
    if not isinstance(config, dict) or "architectures" not in config:
        return load_monolayer(folder)
    transformers = _transformers()
    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()  # the command shows its own progress bar
    names = config["architectures"]
    model_class: Any = getattr(transformers, str(names[0]), None) if isinstance(names, list) and names else None
    if not (isinstance(model_class, type) and issubclass(model_class, transformers.PreTrainedModel)):
        model_class = transformers.AutoModel
    try:
        loaded: nn.Module = model_class.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged file can make transformers and safetensors raise any exception
        raise DataError(f"{folder} cannot be loaded by transformers: {type(error).__name__}: {error}") from None
    return loaded


def tokenizer_in(folder: Path) -> Any:
    """Load the tokenizer in `folder`; None if there is none."""
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        return None
    try:
        return _transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged file can make transformers raise any exception
        raise DataError(
            f"the tokenizer in {folder} cannot be loaded by transformers: {type(error).__name__}: {error}"
        ) from None


def _transformers() -> Any:
    """Import transformers; a `DataError` says how to install it if it is missing."""
    try:
        import transformers
    except ImportError:
        raise needs_extra("a Hugging Face folder needs the package transformers", "stock") from None
    return transformers
