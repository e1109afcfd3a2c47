"""A model that somebody has, and that blocks are appended to: what `Host` and `Encoder` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from monolayer.huggingface.formats import HOST_FORMATS, HostFormat
from monolayer.huggingface.hosts import FLOAT16_SILENCE, SILENCE
from monolayer.huggingface.tensors import Tensor


@dataclass(frozen=True, eq=False)
class GivenModel(ABC):
    """What the files of somebody's model mean: its architecture, its `config.json`, and its tensors by their names.

    It differs from `ModelFiles` in that all of it was checked to be a model of a known architecture, and from a model
    that was built in that it holds nothing of ours.
    """

    kind: Any
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    called: ClassVar[str]
    """What errors call such a model."""

    @property
    @abstractmethod
    def words(self) -> Tensor:
        """The table with a row per token."""

    @property
    @abstractmethod
    def places(self) -> int | None:
        """How many tokens a text may have; None if `config.json` does not say."""

    @property
    @abstractmethod
    def activation(self) -> str:
        """The name of the activation function."""

    @property
    @abstractmethod
    def width(self) -> int:
        """`D`, the width of a state."""

    @property
    def model(self) -> str:
        """The transformers class that its files are of."""
        return str(self.kind.model)

    @property
    def layers(self) -> int:
        """`L`, the number of layers."""
        return int(self.config[self.kind.depth])

    @property
    def vocabulary(self) -> int:
        """`V`, the number of tokens."""
        return self.words.shape[0]

    @property
    def dtype(self) -> str:
        """The format of the weights, as `config.json` calls it."""
        dtype = self.words.dtype
        assert dtype is not None  # host_of and encoder_of checked it
        return dtype

    @property
    def format(self) -> HostFormat:
        """What appending blocks, and their proofs, need to know about the format of the weights."""
        return HOST_FORMATS[self.dtype]

    @property
    def silence(self) -> float:
        """`S`: neurons return 0 at every input up to −S."""
        return (FLOAT16_SILENCE if self.format.limited else SILENCE)[self.activation]

    def misfit(self, ids: Sequence[int]) -> str | None:
        """Why the model cannot read a text of these ids, in words; None if it can."""
        if self.places is not None and len(ids) > self.places:
            return f"it has {len(ids):,} tokens, and the {self.called} has {self.places:,} places: shorten it"
        odd = next((token for token in ids if token >= self.vocabulary), None)
        if odd is None:
            return None
        return f"the tokenizer gives id {odd}, and the {self.called} has {self.vocabulary:,} tokens"
