"""A Hugging Face folder as a network whose arrays have the same letters in every architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.rounding import UnhandledError
from monolayer.huggingface.files import FolderFacts
from monolayer.huggingface.reading import read_folder
from monolayer.huggingface.tensors import ModelFiles

_OF_TRAINING = "training_args.bin trainer_state.json optimizer.pt scheduler.pt rng_state.pth"
FILES_BESIDE_MODEL = frozenset({"README.md", "certificate.json", "onnx", *_OF_TRAINING.split()})
"""Names that may lie in a folder next to the model: `from_pretrained` of transformers does not read them."""


@dataclass(frozen=True, eq=False)
class Network(FolderFacts):
    """The facts of a folder, and its arrays in float64 by their letters (`huggingface/architecture.py`).

    Where the architecture has no biases of norms or of the head, these are arrays of 0. `digest`: of the files.
    `has_onnx`: whether the folder also has `onnx/`, which other programs read; no verdict covers it.
    """

    arrays: Mapping[str, Floats]
    digest: str
    has_onnx: bool

    def __getitem__(self, letter: str) -> Floats:
        return self.arrays[letter]

    def __contains__(self, letter: str) -> bool:
        return letter in self.arrays


def read_stock(files: ModelFiles) -> Network:
    """The network in a folder. Files that do not belong to it are refused.

    transformers would read adapters, templates, code or other weights wherever it finds them.
    """
    read = read_folder(files)
    known = {*read.content, *FILES_BESIDE_MODEL}
    more = [name for name in files.sizes if name not in known and not name.startswith(".")]
    if more:
        raise UnhandledError(f"{more[0]} is in the folder, and transformers may read it: move it elsewhere")
    none = {f"shift_{n}": np.zeros(read.facts.width) for n in (1, 2, 3)} | {"b_H": np.zeros(len(read.facts.classes))}
    arrays = {**none, **read.arrays}
    return Network(**vars(read.facts), arrays=arrays, digest=read.digest(), has_onnx="onnx" in files.sizes)
