"""The readout: a feed-forward block that turns the number `z` of a point into its label.

Notation: `R` steps; step `j` rises over the ramp `[a_j, a_j + 1/w_j]` by the jump `Δ_j` in `R^m`.

    label │            ┌────────          exact:  h = relu(w z − w a);  h ← relu(1 − h);  Δ (1 − h)
          │   ┌───────/                   paper:  Δ (relu(w z − w a) − relu(w z − w a − 1))
          │──/                            both are 0 left of the ramp, Δ right of it, linear on it
          └──────────────────── z
             a  a+1/w

`exact` needs two hidden layers and is exact in floats: `w` is a power of two, so `w z` has no rounding
error, and rounding is monotone, so `h` is exactly 0 at `z ≤ a` and at least 1 at `z ≥ a + 1/w`; then
`relu(1 − h)` is exactly 1 or 0, and jumps on a common binary grid add up without error in any order.
`paper` has one hidden layer: large terms cancel, so its error grows with `R` and with `w`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from monolayer.model.attention import CODE, LABEL

Readout = Literal["exact", "paper"]

_CELLS_AT_ONCE = 1 << 22
"""Points times neurons held at a time by the dense readout: 32 MiB in float64."""
_LARGE = 1 << 15
"""Points and steps from which a search in order pays, by measurement."""


@dataclass(frozen=True)
class Steps:
    """The staircase as a table: slopes `w` `(R,)`, `bias = −w a` `(R,)`, jumps `(R, m)`, levels `(R + 1, m)`."""

    slope: Tensor
    bias: Tensor
    jump: Tensor
    level: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)` by binary search, O(log R) a point."""
        if z.device.type != "cpu" or min(len(z), len(self.slope)) < _LARGE:
            return self._search(z)
        # A search in random order waits for memory at every point; roughly sorted, neighbours share their path.
        order = _rough_order(z)
        found = self._search(z.index_select(0, order))
        label = torch.empty_like(found)
        label[order] = found
        return label

    def _search(self, z: Tensor) -> Tensor:
        start = -self.bias / self.slope
        step = torch.searchsorted(start + 1.0 / self.slope, z, right=True)
        label = self.level[step]
        if len(start):
            # `step` ramps lie wholly left of z; z may still be on the next one.
            ramp = torch.nonzero(z > start[step.clamp(max=len(start) - 1)]).flatten()
            ramp = ramp[step[ramp] < len(start)]
            here = step[ramp]
            part = (self.slope[here] * z[ramp] + self.bias[here]).clamp_(0.0, 1.0)
            label[ramp] += part[:, None] * self.jump[here]
        return label


def rising(slope: Tensor, bias: Tensor) -> bool:
    """Whether steps `(R,)` rise one after the other over ramps that floats can tell from a point. A NaN is no step."""
    start = -bias / slope
    end = start + 1.0 / slope
    return bool((slope > 0).all() and (start < end).all() and (end[:-1] <= start[1:]).all())


def _rough_order(z: Tensor) -> Tensor:
    """An order of `z` `(P,)` up to 1/65,536 of its range: a radix sort of 16 bits, much cheaper than a sort."""
    low, high = float(z.min()), float(z.max())
    share = ((z - low) * (65535.0 / max(high - low, 1e-300))).nan_to_num().clamp_(0.0, 65535.0)
    return torch.from_numpy(np.argsort(share.to(torch.int32).numpy().astype(np.uint16), kind="stable"))


class Staircase(nn.Module):
    """Residual feed-forward block that reads `code` and adds the label onto the label slots of the stream.

    `weight_1`, `bias_1` `(H,)` are the one column of the first matrix that is not zero and its bias;
    `weight_2` `(m, H)`, `bias_2` `(m,)` write the label. The second hidden layer of `exact` is
    `relu(1 − h)`: minus the identity and ones, not stored.
    """

    def __init__(self, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor, readout: Readout) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = nn.Parameter(weight_1), nn.Parameter(bias_1)
        self.weight_2, self.bias_2 = nn.Parameter(weight_2), nn.Parameter(bias_2)
        self.readout = readout

    @classmethod
    def from_steps(
        cls, slope: Tensor, start: Tensor, jump: Tensor, first: Tensor, last: Tensor, readout: Readout
    ) -> Staircase:
        """From ramps that begin at `start` `(R,)` with power-of-two `slope` `(R,)`, and jumps `(m, R)`.

        `first`, `last` `(m,)` are the labels left and right of all steps.
        """
        bias = -slope * start
        if readout == "exact":
            return cls(slope, bias, -jump, last, readout)
        # The two kinks of a step stay neighbours: their large terms cancel before others are added.
        weight_2 = torch.stack([jump, -jump], dim=2).flatten(1)
        bias_1 = torch.stack([bias, bias - 1.0], dim=1).flatten()
        return cls(slope.repeat_interleave(2), bias_1, weight_2, first, readout)

    def forward(self, Z: Tensor) -> Tensor:
        """`(…, D)` to `(…, D)`, by dense operations, in blocks of points and neurons."""
        label = self.dense(Z[..., CODE].flatten()).view(*Z.shape[:-1], len(self.bias_2))
        end = LABEL + label.shape[-1]  # an approximator's stream goes on behind the label slots
        return torch.cat([Z[..., :LABEL], Z[..., LABEL:end] + label, Z[..., end:]], dim=-1)

    def dense(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)`: every neuron is evaluated at every point."""
        neurons = max(1, min(len(self.weight_1), _CELLS_AT_ONCE // 64))
        points = max(1, _CELLS_AT_ONCE // neurons)
        return torch.cat([self._points(part, neurons) for part in torch.split(z, points)])

    def _points(self, z: Tensor, neurons: int) -> Tensor:
        out = self.bias_2.expand(len(z), -1)
        pieces = zip(
            torch.split(self.weight_1, neurons),
            torch.split(self.bias_1, neurons),
            torch.split(self.weight_2, neurons, dim=1),
            strict=True,
        )
        for weight_1, bias_1, weight_2 in pieces:
            if torch.is_grad_enabled():
                # Recomputed in the backward pass, so that gradients too need one block at a time.
                out = out + checkpoint(self._block, z, weight_1, bias_1, weight_2, use_reentrant=False)
            else:
                out = out + self._block(z, weight_1, bias_1, weight_2)
        return out

    def _block(self, z: Tensor, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor) -> Tensor:
        hidden = torch.addcmul(bias_1, z[:, None], weight_1).relu()
        if self.readout == "exact":
            hidden = (1.0 - hidden).relu()
        return hidden @ weight_2.T

    def steps(self) -> Steps | None:
        """The same function as a table for binary search, or None if the weights are no staircase (any more)."""
        weight_1, bias_1 = self.weight_1.detach(), self.bias_1.detach()
        weight_2, bias_2 = self.weight_2.detach().T, self.bias_2.detach()
        if self.readout == "exact":
            slope, bias, jump = weight_1, bias_1, -weight_2
            first = bias_2 + weight_2.sum(0)
        else:
            slope, bias, jump, first = weight_1[::2], bias_1[::2], weight_2[::2], bias_2
            paired = torch.equal(slope, weight_1[1::2]) and torch.equal(jump, -weight_2[1::2])
            if not (paired and torch.equal(bias - 1.0, bias_1[1::2])):
                return None
        if not rising(slope, bias):
            return None
        return Steps(slope, bias, jump, torch.cat([first[None], first + jump.cumsum(0)]))

    def extra_repr(self) -> str:
        steps = len(self.weight_1) if self.readout == "exact" else len(self.weight_1) // 2
        return f"steps={steps}, labels={len(self.bias_2)}, readout={self.readout!r}"
