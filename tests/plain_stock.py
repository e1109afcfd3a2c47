"""Stock folders in memory, to be changed: read, written, and asked by the plain evaluation of `stock/answers.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from monolayer.huggingface.reading import read_folder
from monolayer.stock.answers import Evaluation

JSON = ("config", "tokenizer", "tokenizer_config", "generation_config")


def read(folder: Path) -> dict[str, Any]:
    """The files by their names without endings, `tensors`, and the facts that an evaluation needs."""
    files = {name: folder / f"{name}.json" for name in JSON}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items() if path.exists()}
    return {**found, "tensors": load_file(folder / "model.safetensors"), "facts": read_folder(folder).facts}


def write(model: dict[str, Any], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    tensors = {name: np.ascontiguousarray(value) for name, value in model["tensors"].items()}
    save_file(tensors, folder / "model.safetensors")
    for name in JSON:
        if name in model:
            (folder / f"{name}.json").write_text(json.dumps(model[name]), encoding="utf-8")
    return folder


def evaluation(model: dict[str, Any]) -> Evaluation:
    facts = model["facts"]
    return Evaluation(facts, facts.architecture.arrays(facts.task, model["tensors"]))
