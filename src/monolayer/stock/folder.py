"""A stock model before it is a folder, and the folder: configuration, weights, tokenizer, model card."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from monolayer.data import Sequences
from monolayer.data.folder import Kind, new_folder
from monolayer.stock.architecture import Task, Tensors
from monolayer.stock.card import StockSummary, loading, model_card
from monolayer.stock.tokenizer import Cut, padding_side, tokenizer_config, tokenizer_json
from monolayer.table import as_table

STOCK = Kind(
    "stock model of monolayer",
    "config.json",
    "built_by",
    "monolayer",
    frozenset(
        {
            *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
            *("generation_config.json", "README.md", "certificate.json"),
        }
    ),
)
"""A folder that `save` may replace when asked to. transformers keep the key and make nothing of it."""


@dataclass(frozen=True, eq=False)
class StockModel:
    """Weights and words of an unmodified architecture. Nothing of monolayer is needed to use what `save` writes."""

    architecture: str
    config: Mapping[str, Any]
    tensors: Tensors
    names: tuple[str, ...]
    special: Mapping[str, str]
    cut: Cut
    longest: int
    room: int
    """Tokens that a sequence may have, the begin token among them."""
    task: Task
    attention: tuple[str, ...]
    dtype: str
    data: Sequences
    """What it holds; not written."""
    summary: StockSummary

    @property
    def parameters(self) -> int:
        return sum(tensor.size for tensor in self.tensors.values())

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all."""
        padding = padding_side(self.architecture, self.task, positions=self.summary.positions)
        begin = "bos" if "bos" in self.special else "cls"
        files: dict[str, Any] = {
            "config.json": {**self.config, STOCK.key: STOCK.value},
            "tokenizer.json": tokenizer_json(self.names, self.special, begin, self.cut, recites=self.task == "lm"),
            "tokenizer_config.json": tokenizer_config(self.special, self.room, padding),
        }
        if self.task == "lm":
            ids = {f"{name}_token_id": list(self.special).index(name) for name in ("bos", "eos", "pad")}
            files["generation_config.json"] = {"do_sample": False, "max_length": self.room + 1, **ids}
        with new_folder(folder, overwrite=overwrite, kind=STOCK) as scratch:
            dtype = getattr(torch, self.dtype)
            tensors = {
                name: torch.tensor(np.ascontiguousarray(tensor), dtype=dtype) for name, tensor in self.tensors.items()
            }
            save_file(tensors, scratch / "model.safetensors", metadata={"format": "pt"})
            for name, value in files.items():
                (scratch / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            (scratch / "README.md").write_text(self.card(), encoding="utf-8")
        return Path(folder)

    def card(self) -> str:
        """README.md of the folder."""
        kind, begin = self.config["architectures"][0], self.special.get("bos") or self.special["cls"]
        return model_card(kind, self.task, self.cut, begin, self.attention, self.parameters, self.dtype, self.summary)

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        found = self.summary
        gap = "no label changes inside a cell"
        if found.gap is not None and found.margin is not None:
            gap = f"{found.gap:.3g}, {found.margin:.3g} times the largest rounding error"
        if found.rank is not None:
            gap = (
                "no token has two labels" if found.gap is None else f"{found.gap:.3g}, half-width of the narrowest slab"
            )
        steps = "steps" if found.rank is None else f"half-spaces of rank {found.rank}"
        return [
            ("model", self.config["architectures"][0]),
            ("sequences", f"{found.sequences:,}"),
            ("labels", f"{found.labelled:,}, {found.classes:,} classes"),
            ("vocabulary", f"{found.vocabulary:,}"),
            ("width", f"{found.width:,}, {self.dtype}"),
            (steps, f"{found.steps:,} in {found.neurons:,} neurons"),
            ("smallest gap", gap),
            ("parameters", f"{self.parameters:,}"),
            ("seconds", f"{found.seconds:.2f} to build"),
        ]

    def loads_with(self) -> str:
        """Lines of Python that load the folder."""
        return "\n".join(loading(self.task, self.dtype, self.summary.rank is not None))

    def json(self) -> dict[str, Any]:
        """The same numbers for machines."""
        names = {"architecture": self.architecture, "model": self.config["architectures"][0], "task": self.task}
        names["dtype"] = self.dtype
        return {**names, "parameters": self.parameters, **asdict(self.summary)}
