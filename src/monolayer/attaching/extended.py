"""A model that somebody has, with texts and their answers stored in it: what `Attached` and `Recognizer` share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from monolayer.data import Sequences
from monolayer.data.readers import prompts_of
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.table import as_html, as_table


class ExtendedModel(ABC):
    """A model in memory, made of a `GivenModel` and what was stored, that saves a folder which transformers load.

    It differs from what was read of a folder in that it can be asked, edited and saved.
    """

    lists_facts: ClassVar = True
    """Its own JSON file says what it holds, so it is compared by that, not as a language model."""

    @property
    @abstractmethod
    def card(self) -> Card:
        """How the model reads data."""

    @abstractmethod
    def unanswerable(self, data: Sequences) -> dict[int, str]:
        """The rows of texts that cannot be answered, each with the reason in words."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""

    def encode(self, X: object) -> Sequences:
        """The texts `X` as data. Raises a `DataError` for a text that cannot be answered."""
        data = prompts_of(X, like=self.card.manner)
        refused = self.unanswerable(data)
        if refused:
            raise DataError(f"{data.named(min(refused))}: {refused[min(refused)]}")
        return data

    __repr__ = as_table
    _repr_html_ = as_html
