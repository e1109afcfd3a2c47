"""A model that somebody has, with texts and their answers stored in it: what `Attached` and `Recognizer` share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from monolayer.data import Sequences
from monolayer.data.folder import FolderKind
from monolayer.data.readers import prompts_of
from monolayer.errors import DataError
from monolayer.huggingface.given import GivenModel
from monolayer.huggingface.headers import Listed
from monolayer.huggingface.original import OriginalManifest
from monolayer.huggingface.tensors import ModelFiles, Tensor
from monolayer.model.card import Card
from monolayer.table import as_html, as_table


class WeightFile(NamedTuple):
    """A file of weights of the original model: its name, its header, and its tensors in the order of their bytes."""

    name: str
    header: str
    listed: list[Listed]


class ExtendedModel(ABC):
    """A model in memory, made of a `GivenModel` and what was stored, that saves a folder which transformers load.

    It differs from what was read of a folder in that it can be asked, edited, detached and saved.
    """

    source: ModelFiles
    """The folder that it was read from: that of the original model, or one with something stored."""
    manifest: OriginalManifest
    rewritten: Mapping[str, str] = MappingProxyType({})
    """The files beside the weights that were written anew and mean the same, or are gone, each in words."""
    lists_facts: ClassVar = True
    """Its own JSON file says what it holds, so it is compared by that, not as a language model."""
    folders: ClassVar[FolderKind]
    """The folders that `save` writes, and may replace."""
    was_stored: ClassVar[str]
    """What was done to the original model, for errors: 'facts were attached'."""

    @property
    @abstractmethod
    def original(self) -> GivenModel:
        """The model without what was stored in it."""

    @abstractmethod
    def original_weights(self) -> Iterator[WeightFile]:
        """Its files of weights, as they were."""

    @abstractmethod
    def original_tensors(self) -> Iterator[tuple[str, str, Tensor]]:
        """Each of its tensors: the name, the digest that it had, and the tensor as it is now."""

    @property
    @abstractmethod
    def weights(self) -> Mapping[str, Tensor]:
        """The tensors by all names that the files of the original model have for them."""

    @property
    @abstractmethod
    def beside(self) -> dict[str, bytes]:
        """The files beside the weights, as they were wherever that is known."""

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

    @abstractmethod
    def json(self) -> dict[str, object]:
        """The numbers of the model for JSON output."""

    @abstractmethod
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all."""

    def encode(self, X: object) -> Sequences:
        """The texts `X` as data. Raises a `DataError` for a text that cannot be answered."""
        data = prompts_of(X, like=self.card.manner)
        refused = self.unanswerable(data)
        if refused:
            raise DataError(f"{data.named(min(refused))}: {refused[min(refused)]}")
        return data

    __repr__ = as_table
    _repr_html_ = as_html
