"""The parts of a model, for code that works on them: its shortcut, its files. `Monolayer` is these parts and its face.

`Monolayer` imports that code; nothing here or there imports `Monolayer`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import Bools, Ints
from monolayer.errors import DataError
from monolayer.model.attention import ONE, RankOneAttention
from monolayer.model.card import Card
from monolayer.model.contexts import readable
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

    @property
    def ordered(self) -> bool:
        """Whether it sees the order of tokens."""
        return self.positions is not None

    @property
    def longest(self) -> int | None:
        """How many tokens a sequence may have; None if there is no limit, or a module in its place sets none."""
        rows: int | None = getattr(self.positions, "num_embeddings", None)
        return rows

    def blank(self, rows: Ints) -> Bools:
        """Which of these rows `(T,)` of the table have no finite vector: ids that the model never saw, or forgot."""
        if not isinstance(self.lift, nn.Embedding):
            return np.zeros(len(rows), dtype=bool)
        weight = self.lift.weight.detach()
        few = len(rows) < len(weight)
        lacking: Bools
        if few and readable(weight):  # a look-up: each call of PyTorch's costs more than NumPy's work
            lacking = ~np.isfinite(weight.numpy().take(rows, axis=0)).all(axis=1)
            return lacking
        vectors = weight[torch.from_numpy(rows).to(weight.device)] if few else weight
        lacking = (~vectors.isfinite().all(dim=1)).cpu().numpy()
        return lacking if few else lacking[rows]

    def is_forgotten(self, row: int) -> bool:
        """Whether a row without a vector is one that was forgotten, rather than damaged."""
        return bool(self.lift.weight[row, ONE].isnan())


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
