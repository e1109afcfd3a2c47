"""What `audit` takes: how a model of monolayer reads data, and how any other module does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from monolayer.auditing.folders import tokenizer_in
from monolayer.auditing.texts import tokenized
from monolayer.data import Names, Sequences
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer


@dataclass(frozen=True, eq=False)
class AuditedModule:
    """Any module of PyTorch: it takes ids or vectors, and texts through a tokenizer."""

    module: nn.Module

    @property
    def causal(self) -> bool | None:
        """Whether it is causal; None if that has to be tried."""
        return None

    @property
    def reads_as(self) -> Monolayer | None:
        """The model whose way of reading data applies; None for modules of others."""
        return None

    def tokenizer(self, folder: Path) -> Any:
        """The tokenizer in its folder; None if there is none."""
        return tokenizer_in(folder)

    def sequences(self, X: object, tokenizer: object) -> Sequences:
        """`X` as sequences of ids or vectors."""
        data = Sequences.of(X) if tokenizer is None else Sequences.of(tokenized(X, tokenizer))
        names = data.vocabulary
        if names is not None and not names.integers:
            raise DataError(
                f"the data hold strings, such as {names.names[0]!r}, and this model takes ids: "
                "tokenize them, or give tokenizer= with texts"
            )
        return data

    def ids(self, data: Sequences) -> Names | None:
        """Which id each number of a token stands for; None if the module takes these numbers, or vectors."""
        return data.vocabulary


@dataclass(frozen=True, eq=False)
class AuditedMonolayer(AuditedModule):
    """A model of monolayer: it takes rows of its own table of tokens, and needs no tokenizer."""

    module: Monolayer

    @property
    def causal(self) -> bool:
        """Its card says so."""
        return self.module.card.causal

    @property
    def reads_as(self) -> Monolayer:
        """The model itself."""
        return self.module

    def tokenizer(self, folder: Path) -> None:
        """None: it has names of its own."""

    def sequences(self, X: object, tokenizer: object) -> Sequences:
        """`X` by the names of the model's tokens."""
        return Sequences.of(X if isinstance(X, Tensor) else self.module.encode(X))

    def ids(self, data: Sequences) -> None:
        """None: it takes rows of its table."""


def audited(model: nn.Module) -> AuditedModule:
    """How `audit` gives data to a model."""
    return AuditedMonolayer(model) if isinstance(model, Monolayer) else AuditedModule(model)


__all__ = ["AuditedModule", "audited"]
