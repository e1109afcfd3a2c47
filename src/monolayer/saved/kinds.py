"""The table of all kinds of saved models, and the one way to open one."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from monolayer.data.folder import OpenFolder, read_together
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.marks import said_by_config
from monolayer.saved.attached import WithFacts
from monolayer.saved.own import Own
from monolayer.saved.questions import WithQuestions
from monolayer.saved.saved import Saved
from monolayer.saved.stock import Stock

KINDS: list[type[Saved]] = [WithFacts, WithQuestions, Stock, Own]
"""Every kind of folder. The first that recognizes a `config.json` reads the folder; the last takes what is left."""


def open_model(model: object) -> Saved:
    """Open a saved model, once: what kind it is of and all that it holds come from one save.

    `model`: a folder; anything with `save(folder)`, which is saved to a temporary folder; or a `Saved`. A folder that
    cannot be read is a `ModelFileError`.
    """
    if isinstance(model, Saved):
        return model
    if isinstance(model, str | os.PathLike):
        return _read(Path(model))
    saving: Any = getattr(model, "save", None)
    if not callable(saving):
        raise DataError(f"a {type(model).__name__} is not a model of monolayer: give one, or the folder of a saved one")
    scratch = tempfile.mkdtemp()
    try:
        saving(Path(scratch) / "model")
        saved = _read(Path(scratch) / "model")
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    removing = weakref.finalize(saved, shutil.rmtree, scratch, ignore_errors=True)
    if not saved.needs_folder:
        removing()
    return saved


def _read(folder: Path) -> Saved:
    """Read the model in a folder; errors name the folder."""
    try:
        return read_together(folder, _read_any)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{folder}: {_why(folder, error)}") from None


def _read_any(opened: OpenFolder) -> Saved:
    """The model in an open folder, of whichever kind."""
    config = said_by_config(opened)
    return next(kind for kind in KINDS if kind.recognizes(config)).read(opened)


def _why(folder: Path, error: Exception) -> str:
    """Why files cannot be read, in words."""
    if not isinstance(error, OSError):  # NUL or half of a surrogate pair in a path
        return f"not the name of a folder: {error}"
    name = Path(error.filename or folder).name
    if isinstance(error, FileNotFoundError):
        if error.filename is None or Path(error.filename) == folder:
            return "this folder does not exist"
        return "not a saved model: it has no config.json" if name == "config.json" else f"{name} is missing"
    if isinstance(error, NotADirectoryError):
        return "not a folder"
    return f"{name} cannot be read: {error.strerror}"
