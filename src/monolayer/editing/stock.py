"""Models in stock architectures as edits see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.sequences import Per
from monolayer.editing.content import REFUSED, Content
from monolayer.editing.difference import Array, array_of
from monolayer.errors import DataError
from monolayer.stock.again import adopt, again, job_of
from monolayer.stock.answers import answers
from monolayer.stock.folder import StockModel

WIDTHS = frozenset({"intermediate_size", "n_inner", "ffn_dim", "hidden_dim"})
"""Keys of `config.json` that say how many neurons there are."""
DRAW = "draw.json"
"""Stands among the keys of the configuration for the file of that name."""


@final
@dataclass(frozen=True, eq=False)
class Stock:
    """A model that `memorize_as` built."""

    model: StockModel

    @property
    def per(self) -> Per:
        return "sequence" if self.model.task == "sequence" else "token"

    @property
    def ordered(self) -> bool:
        return self.model.facts.positions or self.model.facts.causal

    @property
    def by_token(self) -> bool:
        """Where the begin token answers for sequences, all facts are its own."""
        model = self.model
        return model.draw.robust and (model.task != "sequence" or model.facts.causal)

    @property
    def only(self) -> bool:
        return not self.model.draw.robust

    @property
    def may_change(self) -> frozenset[str]:
        return WIDTHS

    @cached_property
    def content(self) -> Content:
        model = self.model
        dtype = getattr(torch, model.dtype)
        parts = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in model.tensors.items()}
        tensors = {name: array_of(part.to(dtype)) for name, part in parts.items()}
        kind = model.facts.architecture
        names = kind.names(model.facts.task)
        axes = {"W_1": int(kind.transposed), "b_1": 0, "W_2": int(not kind.transposed)}
        blocks = {"feed_forward": {names[letter]: axis for letter, axis in axes.items()}}
        config = {**model.config, DRAW: model.draw.to_json()}
        return Content(tensors, config, {"tokens": list(model.facts.names)}, blocks)

    def with_content(self, content: Content) -> Stock:
        tensors = {name: self._numbers(part) for name, part in content.tensors.items()}
        config = {key: value for key, value in content.config.items() if key != DRAW}
        old = self.model
        try:
            neurons = len(old.facts.architecture.arrays(old.facts.task, tensors)["W_1"])
            model = replace(old, facts=replace(old.facts, neurons=neurons), tensors=tensors, data=None, summary=None)
        except (KeyError, ValueError):
            model = old
        if model.config != config or content.config[DRAW] != old.draw.to_json() or model is old:
            raise DataError("the record does not lead to a model of this architecture")
        return Stock(model)

    def _numbers(self, array: Array) -> NDArray[np.float64]:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        tensor = tensor.view(torch.bfloat16) if self.model.dtype == "bfloat16" else tensor
        return tensor.double().numpy()

    def adopt(self, data: Sequences) -> Sequences:
        return adopt(self.model, data)

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        return tokens

    def task(self, data: Sequences) -> Task:
        return job_of(self.model, data).task

    def again(self, data: Sequences, only: Ints | None = None) -> Stock:
        return Stock(again(self.model, data, only=only))

    def answers(self, data: Sequences) -> list[Any]:
        return [REFUSED if each is None else each for each in answers(self.model, data)]
