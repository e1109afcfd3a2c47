"""The certificate of data in many files, of which no more than one is held at a time.

Files are read once, and kept in a temporary folder. `verify_files` says where all data must be held at once.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from monolayer.checker.certificate import Certificate
from monolayer.checker.check import Asked, Claims, compared_with_old, judge
from monolayer.checker.labelled import Load
from monolayer.checker.stored import read
from monolayer.data import Sequences
from monolayer.data import read as read_data
from monolayer.data.shards import kinds, strangers
from monolayer.huggingface.reading import is_stock


def verify_files(
    folder: str | os.PathLike[str],
    files: list[str],
    *,
    progress: Callable[[str, float], None] = lambda stage, share: None,
    **options: Any,
) -> Certificate | None:
    """`verify` of a saved model and the labelled data in `files`, read with `options`, a file at a time.

    None where that cannot be: for stock folders, robust models, vectors, and files without a next token.
    """
    if is_stock(Path(folder)):
        return None
    stored = read(folder)
    if stored.config.get("tokens") != "ids" or stored.config["readout"] == "gates":
        return None
    with tempfile.TemporaryDirectory() as scratch:
        parts: list[Load] = []
        first = ""
        for number, name in enumerate(files):
            progress("reading", 0.4 * number / len(files))
            data = read_data(name, **options)
            data.check_no_prompts()
            own, first = kinds(data), first or kinds(data)
            if own != first:
                raise strangers(files[0], first, name, own)
            if data.labels is None and data.lengths.max() == 1:  # the others may have next tokens
                return None
            kept = Path(scratch) / str(number)
            with kept.open("wb") as file:
                pickle.dump(data, file, protocol=5)
            parts.append(partial(_load, kept))
        progress("checking", 0.5)
        found = judge(stored, lambda: Asked(parts), Claims())
    return compared_with_old(folder, found)


def _load(kept: Path) -> Sequences:
    with kept.open("rb") as file:
        data: Sequences = pickle.load(file)  # written above, into a folder of our own
    return data
