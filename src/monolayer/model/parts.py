"""The parts of a model, for code that works on them: its shortcut, its files. `Monolayer` is these parts and its face.

`Monolayer` imports that code; nothing here or there imports `Monolayer`.
"""

from __future__ import annotations

from torch import Tensor, nn

from monolayer.errors import DataError
from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Card
from monolayer.model.quantizer import Quantizer
from monolayer.model.staircase import Readout, Staircase


class Parts(nn.Module):
    """`lift`: `nn.Embedding` `(V, D)` for ids or `nn.Linear` `d → D` for vectors; `positions`: `nn.Embedding` `(L, D)`
    or None; `bos` `(D,)`: the begin-of-sequence vector put in front of every sequence; `quantizer`: an approximator's
    first feed-forward block, else None; `attention`, `feed_forward`, `head` (`nn.Linear` `D → C`)."""

    def __init__(
        self,
        lift: nn.Embedding | nn.Linear,
        positions: nn.Embedding | None,
        bos: Tensor,
        attention: RankOneAttention,
        feed_forward: Readout,
        head: nn.Linear,
        card: Card,
        quantizer: Quantizer | None = None,
    ) -> None:
        super().__init__()
        self.lift = lift
        self.positions = positions
        self.bos = nn.Parameter(bos)
        self.quantizer = quantizer
        self.attention = attention
        self.feed_forward: Readout = feed_forward
        self.head = head
        self.card = card


def staircase_of(model: Parts) -> Staircase:
    """The only staircase of a model on a line; an error if it has none, or several."""
    stairs = model.feed_forward.stairs
    if not stairs:
        raise DataError(
            f"this works on the steps of a line, and the readout {model.feed_forward.readout!r} of this model has "
            "none (a robust model has half-spaces instead)"
        )
    if len(stairs) > 1:
        raise DataError(
            f"this works on the one staircase of a line of rank 1, and this model has rank {len(stairs)}: a staircase "
            "per stage. Memorize with rank=1 (--rank 1) if the data allow it"
        )
    return stairs[0]
