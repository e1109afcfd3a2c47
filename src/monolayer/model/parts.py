"""The parts of a model, for code that works on them without being the model: its shortcut, its files.

`Monolayer` has these parts, and imports that code; nothing here or there imports `Monolayer`.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import nn

from monolayer.errors import DataError
from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Card
from monolayer.model.quantizer import Quantizer
from monolayer.model.staircase import Readout, Staircase


class Parts(Protocol):
    """What a `Monolayer` consists of; `monolayer.model.monolayer` says what each part is."""

    lift: nn.Embedding | nn.Linear
    positions: nn.Embedding | None
    bos: nn.Parameter
    quantizer: Quantizer | None
    attention: RankOneAttention
    feed_forward: Readout
    head: nn.Linear
    card: Card

    def state_dict(self) -> dict[str, Any]:
        """All tensors by name."""
        ...


def staircase_of(model: Parts) -> Staircase:
    """The readout of a line, for what works on steps alone."""
    stairs = model.feed_forward.stairs
    if not stairs:
        raise DataError(
            f"this works on the steps of a line, and the readout {model.feed_forward.readout!r} of this model has "
            "none: a robust model has half-spaces instead"
        )
    if len(stairs) > 1:
        raise DataError(
            f"this works on the one staircase of a line of rank 1, and this model has rank {len(stairs)}: a staircase "
            "per stage. Memorize with rank=1 (--rank 1) if the data allow it"
        )
    return stairs[0]
