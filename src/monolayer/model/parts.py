"""The parts of a model, for code that works on them without being the model: its shortcut, its files.

`Monolayer` has these parts, and imports that code; nothing here or there imports `Monolayer`.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import nn

from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Card
from monolayer.model.quantizer import Quantizer
from monolayer.model.staircase import Staircase


class Parts(Protocol):
    """What a `Monolayer` consists of; `monolayer.model.monolayer` says what each part is."""

    lift: nn.Embedding | nn.Linear
    positions: nn.Embedding | None
    bos: nn.Parameter
    quantizer: Quantizer | None
    attention: RankOneAttention
    feed_forward: Staircase
    head: nn.Linear
    card: Card

    def state_dict(self) -> dict[str, Any]:
        """All tensors by name."""
        ...
