"""A Hugging Face folder as one network in one set of letters, whatever its architecture calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.rounding import UnhandledError
from monolayer.huggingface.files import FolderFacts
from monolayer.huggingface.reading import Files, read_folder

FILES_BESIDE_MODEL = frozenset({"README.md", "certificate.json", "draw.json", "onnx"})
"""What transformers does not read."""


@dataclass(frozen=True, eq=False)
class Network(FolderFacts):
    """Facts, and arrays by their letters (`huggingface/architecture.py`), in float64.

    Biases of norms and of the head are there, 0 where the architecture has none. `has_onnx`: whether `onnx/` lies in
    the folder, which other programs read; no verdict is about it.
    """

    arrays: Mapping[str, Floats]
    digest: str
    has_onnx: bool

    def __getitem__(self, letter: str) -> Floats:
        return self.arrays[letter]

    def __contains__(self, letter: str) -> bool:
        return letter in self.arrays


def read_stock(files: Files) -> Network:
    """The network in a folder, in which nothing else may lie: adapters, templates, code and other weights are read
    where they are found."""
    read = read_folder(files)
    known = {*read.content, *FILES_BESIDE_MODEL}
    more = [name for name in files.sizes if name not in known and not name.startswith(".")]
    if more:
        raise UnhandledError(f"{more[0]} lies beside its files, and transformers may read it: move it elsewhere")
    none = {f"shift_{n}": np.zeros(read.facts.width) for n in (1, 2, 3)} | {"b_H": np.zeros(len(read.facts.classes))}
    arrays = {**none, **read.arrays}
    return Network(**vars(read.facts), arrays=arrays, digest=read.digest(), has_onnx="onnx" in files.sizes)
