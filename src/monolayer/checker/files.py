"""The certificate of data in many files, of which no more than one is held at a time.

Files are read once, and kept as numbers in a temporary folder. `verify_files` says where all data must be held at once.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from monolayer.checker.certificate import Certificate
from monolayer.checker.check import Asked, Claims, compared_with_old, judge
from monolayer.checker.labelled import Load
from monolayer.checker.line import Progress
from monolayer.checker.stored import read
from monolayer.data import Labels, Sequences
from monolayer.data import read as read_data
from monolayer.data.shards import kinds, strangers
from monolayer.huggingface.reading import is_stock


def verify_files(
    folder: str | os.PathLike[str], files: list[str], *, progress: Progress | None = None, **options: Any
) -> Certificate | None:
    """`verify` of a saved model and the labelled data in `files`, read with `options`, a file at a time.

    None where that cannot be: for stock folders, robust models, vectors, and files without a next token.
    """
    report = progress or (lambda stage, share: None)
    if is_stock(Path(folder)):
        return None
    stored = read(folder)
    if stored.config.get("tokens") != "ids" or stored.config["readout"] == "gates":
        return None
    with tempfile.TemporaryDirectory() as scratch:
        parts: list[Load] = []
        first = ""
        for number, name in enumerate(files):
            report("reading", 0.4 * number / len(files))
            data = read_data(name, **options)
            data.check_no_prompts()
            own, first = kinds(data), first or kinds(data)
            if own != first:
                raise strangers(files[0], first, name, own)
            if data.labels is None and data.lengths.max() == 1:  # the others may have next tokens
                return None
            parts.append(_kept(Path(scratch) / f"{number:05}.npz", data))
        found = judge(stored, lambda: Asked(parts), Claims(), progress=report)
    return compared_with_old(folder, found)


def _kept(path: Path, data: Sequences) -> Load:
    """The data written into a file, names apart; what comes back reads them."""
    vocabulary, labels = data.vocabulary, data.labels
    arrays = {"tokens": data.tokens, "lengths": data.lengths} | ({} if labels is None else {"values": labels.values})
    arrays |= {} if labels is None or labels.place is None else {"place": labels.place}
    small = {
        name: array if array.dtype.kind == "f" else array.astype(np.min_scalar_type(array.max()))
        for name, array in arrays.items()
    }
    np.savez(path, **small)  # type: ignore[arg-type]
    kind = None if labels is None else (labels.per, labels.classes, labels.scalar)

    def load() -> Sequences:
        with np.load(path, allow_pickle=False) as kept:
            found = {name: kept[name] for name in kept}
        whole = {name: array if array.dtype.kind == "f" else array.astype(np.int64) for name, array in found.items()}
        labels = None if kind is None else Labels(whole["values"], *kind, whole.get("place"))
        return Sequences(whole["tokens"], whole["lengths"], vocabulary, labels)

    return load
