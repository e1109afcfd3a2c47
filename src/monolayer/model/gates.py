"""The robust readout: neurons that are half-spaces of contexts, each gated by its token; and the attention before it.

Coordinates of the stream, from the left:

    token   code of the token, and constant ones    `(t,)`
    place   code of the position                    `(p,)`      none without positions
    context value of the token, plus what attention adds  `(k,)`
    key     cosine and sine of the position         `(2,)`      read by attention only
    label   code of a class                         `(m,)`

A neuron reads token, place and the context at length `√k`, writes the code of its class, and is silent at every other
token, whatever the context: `⟨w, c⟩ ≤ |w| √k` (docs/robust.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from monolayer.model.attention import CODE, RankOneAttention

EPSILON = 2.0**-20
"""Added to the mean square before its root, as usual; far below any context that is built."""
KEYS = 2
"""Coordinates of the stream that only attention reads: logits have rank 2."""
_HIDDEN_AT_ONCE = 1 << 24
"""Hidden numbers held at a time by the dense readout: 64 MiB in float32."""


@dataclass(frozen=True)
class Layout:
    """Widths of the parts of the stream."""

    token: int
    place: int
    rank: int
    label: int

    @property
    def reads(self) -> int:
        """`R`: coordinates that the readout reads."""
        return self.token + self.place + self.rank

    @property
    def context(self) -> slice:
        return slice(self.token + self.place, self.reads)

    @property
    def key(self) -> slice:
        return slice(self.reads, self.reads + KEYS)

    @property
    def width(self) -> int:
        """`D`."""
        return self.reads + KEYS + self.label

    def to_json(self) -> dict[str, int]:
        """What a file says of it; the label part is known from elsewhere."""
        return {"token": self.token, "place": self.place, "rank": self.rank}


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

    def shortcut(self, onto: int = CODE) -> tuple[float, float] | None:
        """None: this attention does not make one number of a sequence."""
        return None

    def extra_repr(self) -> str:
        return f"width={self.W_Q.shape[1]}, heads=1, value rank {len(self.W_V)}"


class Gates(nn.Module):
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

    def steps(self) -> None:
        """None: this readout is no staircase."""
        return

    @property
    def step_count(self) -> int:
        """`H`: neurons."""
        return len(self.weight_1)

    def extra_repr(self) -> str:
        return f"readout=gates, neurons={len(self.weight_1)}, {self.layout}"


def unit(z: Tensor) -> Tensor:
    """`z` `(…, w)` at mean square 1."""
    return z * torch.rsqrt(z.square().mean(-1, keepdim=True) + EPSILON)
