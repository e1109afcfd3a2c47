"""The robust readout: neurons that are half-spaces of contexts, each gated by its token; and the attention before it.

A neuron reads token, place and the context at length `√k`, writes the code of its class, and is silent at every other
token, whatever the context: `⟨w, c⟩ ≤ |w| √k` (docs/robust.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import RankOneAttention
from monolayer.model.live import live_classes
from monolayer.model.parts import Parts
from monolayer.model.places import KEYS, Layout, unit
from monolayer.model.staircase import Block, Readout

_HIDDEN_AT_ONCE = 1 << 24
"""Hidden numbers held at a time by the dense readout: 64 MiB in float32."""


class RankAttention(RankOneAttention):
    """`Z + softmax(Q Kᵀ) V W_Oᵀ`, one head: `W_Q`, `W_K` `(2, D)`, `W_V` `(k, D)`, `W_O` `(D, k)`."""

    @classmethod
    def over_places(cls, layout: Layout, temperature: float, turn: float, gain: float) -> RankAttention:
        """Logits `λ cos(ω (i − l) + φ)` from the keys of two places, `turn` the angle φ; values times `gain`."""
        W_Q, W_K = torch.zeros(2, KEYS, layout.width, dtype=torch.float64).unbind()
        angle = torch.tensor(turn, dtype=torch.float64)
        rotation = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
        W_Q[:, layout.key] = temperature * rotation
        W_K[:, layout.key] = torch.eye(KEYS, dtype=torch.float64)
        W_V = torch.zeros(layout.rank, layout.width, dtype=torch.float64)
        W_V[:, layout.context] = torch.eye(layout.rank, dtype=torch.float64)
        return cls(W_Q.clone(), W_K.clone(), W_V, gain * W_V.T.clone())

    def extra_repr(self) -> str:
        return f"width={self.W_Q.shape[1]}, heads=1, value rank {len(self.W_V)}"


class Gates(Readout):
    """`label += weight_2 relu(weight_1 z + bias_1) + bias_2`, `z` the first `R` coordinates with the context at `√k`.

    `weight_1` `(H, R)`, `bias_1` `(H,)`, `weight_2` `(m, H)`, `bias_2` `(m,)`. `even`: the token part is brought to
    mean square 1 too, for tokens that are vectors.
    """

    readout = "gates"

    def __init__(
        self, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor, layout: Layout, even: bool
    ) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = nn.Parameter(weight_1), nn.Parameter(bias_1)
        self.weight_2, self.bias_2 = nn.Parameter(weight_2), nn.Parameter(bias_2)
        self.layout, self.even = layout, even

    def forward(self, Z: Tensor) -> Tensor:
        """`Z` `(…, D)` with the code of a class added to the label coordinates."""
        flat = self.read(Z).reshape(-1, self.layout.reads)
        rows = max(1, _HIDDEN_AT_ONCE // max(1, len(self.weight_1)))
        parts = [torch.relu(z @ self.weight_1.T + self.bias_1) @ self.weight_2.T for z in torch.split(flat, rows)]
        label = torch.cat(parts).reshape(*Z.shape[:-1], -1) + self.bias_2
        return torch.cat([Z[..., : -self.layout.label], Z[..., -self.layout.label :] + label], dim=-1)

    def read(self, Z: Tensor) -> Tensor:
        """What the neurons read `(…, R)`."""
        widths = [self.layout.token, self.layout.place, self.layout.rank]
        token, place, context = torch.split(Z[..., : self.layout.reads], widths, dim=-1)
        return torch.cat([unit(token) if self.even else token, place, unit(context)], dim=-1)

    # -- the protocol of readouts (`staircase.Readout`) ------------------------------------------------------

    @property
    def labels(self) -> int:
        """`m`."""
        return len(self.bias_2)

    @property
    def step_count(self) -> int:
        """`H`: neurons."""
        return len(self.weight_1)

    def fast(self, model: Parts, data: Sequences) -> Tensor | None:
        """Class numbers `(P, 1)`, from the neurons that a token can wake."""
        classes = live_classes(model, self, data)
        return None if classes is None else classes[:, None].double()

    def to_json(self) -> dict[str, Any]:
        """The widths of the stream."""
        return {"gates": self.layout.to_json()}

    @classmethod
    def stored(cls, config: dict[str, Any], block: Block) -> Gates:
        """The readout of a file."""
        layout = Layout(**config["gates"], label=config["labels"])
        return cls(*block("feed_forward"), layout, config["tokens"] == "vectors")

    def extra_repr(self) -> str:
        return f"readout=gates, neurons={len(self.weight_1)}, {self.layout}"


def gates_of(model: Parts) -> Gates:
    """The readout of a robust model, for what works on half-spaces."""
    if not isinstance(model.feed_forward, Gates):
        raise DataError("this is no robust model: it has steps, not half-spaces")
    return model.feed_forward
