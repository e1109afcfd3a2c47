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

from monolayer.arrays import Floats
from monolayer.data import Sequences
from monolayer.data.folder import Kind, new_folder
from monolayer.errors import ModelFileError
from monolayer.huggingface.files import Facts, config, written
from monolayer.huggingface.reading import read_folder
from monolayer.huggingface.strict import ForeignError
from monolayer.stock.card import StockSummary, loading, margin_of, model_card
from monolayer.stock.draw import FILE, Draw
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
"""A folder that `save` may replace when asked to."""


@dataclass(frozen=True, eq=False)
class Neurons:
    """The feed-forward block: `W_1` `(H, D)`, `b_1` `(H,)`, `W_2` `(H, D)`; `steps` of one or two neurons each."""

    W_1: Floats
    b_1: Floats
    W_2: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class StockModel:
    """Weights and words of an unmodified architecture. Nothing of monolayer is needed to use what `save` writes."""

    facts: Facts
    """All that its files say besides the weights."""
    tensors: Mapping[str, Floats]
    draw: Draw
    data: Sequences | None = None
    """What it holds; not written, so a model that was loaded has none."""
    summary: StockSummary | None = None
    """What its construction found; not written either."""

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> StockModel:
        """A folder that `save` wrote, read back: its weights and its draw."""
        folder = Path(folder)
        try:
            read, draw = read_folder(folder), Draw.read(folder)
            draw.check(read.facts)
        except (ForeignError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{folder} is not a folder that memorize_as wrote: {error}") from None
        return cls(read.facts, read.tensors, draw)

    @property
    def architecture(self) -> str:
        return self.facts.kind

    @property
    def task(self) -> str:
        return self.facts.task

    @property
    def dtype(self) -> str:
        return self.facts.dtype

    @property
    def config(self) -> dict[str, Any]:
        """What `config.json` says."""
        return config(self.facts)

    @property
    def arrays(self) -> dict[str, Floats]:
        """The tensors by their letters (`huggingface/architectures.py`)."""
        return self.facts.architecture.arrays(self.facts.task, self.tensors)

    @property
    def neurons(self) -> Neurons:
        arrays = self.arrays
        return Neurons(arrays["W_1"], arrays["b_1"], arrays["W_2"], self.facts.neurons)

    @property
    def parameters(self) -> int:
        return sum(tensor.size for tensor in self.tensors.values())

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all."""
        with new_folder(folder, overwrite=overwrite, kind=STOCK) as scratch:
            dtype = getattr(torch, self.dtype)
            tensors = {
                name: torch.tensor(np.ascontiguousarray(tensor), dtype=dtype) for name, tensor in self.tensors.items()
            }
            save_file(tensors, scratch / "model.safetensors", metadata={"format": "pt"})
            for name, value in written(self.facts).items():
                (scratch / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            (scratch / FILE).write_text(self.draw.to_json(), encoding="utf-8")
            (scratch / "README.md").write_text(self.card(), encoding="utf-8")
        return Path(folder)

    def card(self) -> str:
        """README.md of the folder."""
        return model_card(self.facts, self.parameters, self.summary)

    @property
    def sizes(self) -> dict[str, Any]:
        """What the files alone say."""
        facts = self.facts
        return {
            "architecture": facts.kind,
            "model": facts.architecture.models[facts.task],
            "task": facts.task,
            "dtype": facts.dtype,
            "vocabulary": len(facts.names) - len(facts.architecture.special),
            "classes": len(facts.classes),
            "width": facts.width,
            "neurons": facts.neurons,
            "activation": facts.activation,
            "positions": facts.positions,
            "places": facts.max_positions,
            "parameters": self.parameters,
        }

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        sizes, found = self.sizes, self.summary
        positions = "the order of tokens counts" if sizes["positions"] else "the order of tokens does not count"
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
        return "\n".join(loading(self.facts))

    def json(self) -> dict[str, Any]:
        """The same numbers for machines."""
        return {**self.sizes, **({} if self.summary is None else asdict(self.summary))}
