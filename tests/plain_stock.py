"""Stock folders in memory, to be changed: read, written, and asked by the plain evaluation of `stock/answers.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from monolayer.huggingface.opened import stock_files
from monolayer.huggingface.reading import read_folder
from monolayer.stock.answers import Evaluation

JSON = ("config", "tokenizer", "tokenizer_config", "generation_config")


class Stock(dict[str, Any]):
    """The files by their names without endings, `tensors`, and the facts that an evaluation needs."""

    def write(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        tensors = {name: np.ascontiguousarray(value) for name, value in self["tensors"].items()}
        save_file(tensors, folder / "model.safetensors")
        for name in self.keys() & set(JSON):
            (folder / f"{name}.json").write_text(json.dumps(self[name]), encoding="utf-8")
        return folder

    def evaluation(self) -> Evaluation:
        facts = self["facts"]
        return Evaluation(facts, facts.architecture.arrays(facts.task, self["tensors"]))


def read(folder: Path) -> Stock:
    files = {name: folder / f"{name}.json" for name in JSON}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items() if path.exists()}
    return Stock(found, tensors=load_file(folder / "model.safetensors"), facts=read_folder(stock_files(folder)).facts)
