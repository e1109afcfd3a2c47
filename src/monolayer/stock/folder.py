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
from monolayer.errors import ModelFileError
from monolayer.stock.architecture import Frame, Task, Tensors, choose
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.card import StockSummary, loading, margin_of, model_card
from monolayer.stock.draw import FILE, Draw
from monolayer.stock.reading import read_folder, read_names
from monolayer.stock.tokenizer import DECODER, ENCODER, Cut, padding, tokenizer_config, tokenizer_json
from monolayer.table import as_table, plural

STOCK = Kind(
    "stock model of monolayer",
    "built_by",
    frozenset(
        {
            *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
            *("generation_config.json", "README.md", "certificate.json", FILE),
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
    room: int
    """Tokens that a sequence may have, the begin token among them."""
    task: Task
    attention: tuple[str, ...]
    dtype: str
    draw: Draw
    data: Sequences | None = None
    """What it holds; not written, so a model that was loaded has none."""
    summary: StockSummary | None = None
    """What its construction found; not written either."""
    frame: Frame | None = None
    """Its matrices in our own letters, as they were built."""

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> StockModel:
        """A folder that `save` wrote, read back: its weights and its draw."""
        folder = Path(folder)
        config, stored = read_folder(folder)
        tensors = {name: tensor.double().numpy() for name, tensor in stored.items()}
        kind = choose(str(config.get("model_type")), ARCHITECTURES)
        names, draw = read_names(folder), Draw.read(folder)
        special = DECODER if kind.causal else ENCODER
        task = next((task for task, name in kind.models.items() if config.get("architectures") == [name]), None)
        if task is None or names[: len(special)] != tuple(special.values()):
            raise ModelFileError(f"{folder} is not a folder that memorize_as wrote: its class or tokenizer is another")
        try:
            table: Any = config["id2label"] if task != "lm" else {str(row): name for row, name in enumerate(names)}
            draw.check(names, len(special), tuple(table[str(row)] for row in range(len(table))), config["dtype"])
            kind.neurons(tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{folder} is not a folder that memorize_as wrote: {error}") from None
        return cls(
            architecture=kind.name,
            config={key: value for key, value in config.items() if key != STOCK.key},
            tensors=tensors,
            names=names,
            special=special,
            cut=draw.cut,
            room=draw.places + kind.hidden_rows - kind.offset,
            task=task,
            attention=kind.attention,
            dtype=str(config.get("dtype")),
            draw=draw,
        )

    @property
    def parameters(self) -> int:
        return sum(tensor.size for tensor in self.tensors.values())

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all."""
        side, _ = padding(self.architecture, self.task, positions=self.draw.positions)
        begin = "bos" if "bos" in self.special else "cls"
        files: dict[str, Any] = {
            "config.json": {**self.config, STOCK.key: "monolayer"},
            "tokenizer.json": tokenizer_json(self.names, self.special, begin, self.cut, recites=self.task == "lm"),
            "tokenizer_config.json": tokenizer_config(self.special, self.room, side),
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
            (scratch / FILE).write_text(self.draw.to_json(), encoding="utf-8")
            (scratch / "README.md").write_text(self.card(), encoding="utf-8")
        return Path(folder)

    def card(self) -> str:
        """README.md of the folder."""
        kind, begin = self.config["architectures"][0], self.special.get("bos") or self.special["cls"]
        return model_card(
            kind,
            self.task,
            self.cut,
            begin,
            self.attention,
            self.parameters,
            self.dtype,
            self.draw.positions,
            padding(self.architecture, self.task, positions=self.draw.positions)[1],
            self.summary,
        )

    @property
    def sizes(self) -> dict[str, Any]:
        """What the weights alone say."""
        block = ARCHITECTURES[self.architecture].neurons(self.tensors)
        return {
            "architecture": self.architecture,
            "model": self.config["architectures"][0],
            "task": self.task,
            "dtype": self.dtype,
            "vocabulary": len(self.names) - len(self.special),
            "classes": len(self.names) if self.task == "lm" else len(self.config["id2label"]),
            "width": block.W_1.shape[1],
            "neurons": len(block.W_1),
            "activation": self.draw.activation,
            "positions": self.draw.positions,
            "places": self.draw.places,
            "parameters": self.parameters,
        }

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        sizes, found = self.sizes, self.summary
        positions = "the order of tokens counts" if self.draw.positions else "the order of tokens does not count"
        rows = [
            ("model", sizes["model"]),
            ("vocabulary", f"{plural(sizes['vocabulary'], 'token')}, {plural(sizes['classes'], 'class')}"),
            ("width", f"{sizes['width']:,}, {self.dtype}"),
            ("neurons", f"{sizes['neurons']:,}, {sizes['activation']}"),
            ("places", f"{sizes['places']:,}; {positions}"),
            ("parameters", f"{self.parameters:,}"),
        ]
        if found is None:
            return rows
        return [
            *rows,
            ("sequences", f"{found.sequences:,}"),
            ("labels", f"{found.labelled:,}"),
            ("margin", margin_of(found)),
            ("seconds", f"{found.seconds:.2f} to build"),
        ]

    def loads_with(self) -> str:
        """Lines of Python that load the folder."""
        return "\n".join(loading(self.task, self.dtype, self.draw.robust))

    def json(self) -> dict[str, Any]:
        """The same numbers for machines."""
        return {**self.sizes, **({} if self.summary is None else asdict(self.summary))}
