"""What an edit needs of a model, and the way there from what a caller has: a model, or the folder of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.sequences import Per
from monolayer.editing.content import Content
from monolayer.editing.own import Own
from monolayer.editing.stock import Stock
from monolayer.errors import DataError
from monolayer.huggingface.reading import is_stock
from monolayer.model.load import load, load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.model.uniform import Uniform
from monolayer.stock.folder import StockModel


class Subject(Protocol):
    """What an edit needs of a model, whatever its construction."""

    @property
    def model(self) -> Any: ...

    @property
    def per(self) -> Per: ...

    @property
    def ordered(self) -> bool:
        """Whether the order of tokens counts."""

    @property
    def by_token(self) -> bool:
        """Whether every neuron depends on the facts of one token alone."""

    @property
    def only(self) -> bool:
        """Whether `certify(only=True)` can prove from the weights that the model holds nothing else."""

    @property
    def may_change(self) -> frozenset[str]:
        """Keys of the configuration that an edit may change."""

    @property
    def content(self) -> Content: ...

    def with_content(self, content: Content) -> Self:
        """The same kind of model with other tensors, configuration and names."""

    def adopt(self, data: Sequences) -> Sequences:
        """`data` in the numbers of the model's names; new names come behind them, where there may be any."""

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """Ids, or vectors, as the model sees them."""

    def task(self, data: Sequences) -> Task:
        """What a model of adopted data must answer, and where."""

    def again(self, data: Sequences, only: Ints | None = None) -> Self:
        """What the draw of this model makes of other data; `only`: tokens whose facts changed."""

    def answers(self, data: Sequences) -> list[Any]:
        """What the model answers at every token, or for every sequence, by name.

        `REFUSED` in sequences with a token that it does not know. A `DataError` where it cannot be asked here.
        """


def subject_of(model: Any) -> Subject:
    """The subject of a model, or of the model in a folder."""
    if isinstance(model, str | os.PathLike):
        model = StockModel.load(model) if is_stock(Path(model)) else load(model)
    if isinstance(model, StockModel):
        return Stock(model)
    if isinstance(model, Monolayer | Uniform):
        return Own(load_monolayer(model))
    raise DataError(f"{type(model).__name__} is neither a model of monolayer nor the folder of one")
