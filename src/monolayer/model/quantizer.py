"""The first feed-forward block of an approximator: it rounds every token to a cell of a grid.

Notation: `d` input coordinates with `D` cells each, so `D − 1` steps each and `H = d (D − 1)` neurons. Step `j`
of a coordinate rises over the ramp `[a_j, a_j + 1/w]` between two cells.

    key, code │        ┌──────      h = relu(w x_i − w a);  h ← relu(1 − h);  jump (1 − h)
              │   ┌───/             0 left of the ramp, the jump right of it, linear on it
              │──/
              └───────────── x_i
                 cell │ cell │ cell

The block writes the number of the cell onto `code` and its random key onto `key`. Like the readout it is exact
in floats off the ramps: `w` is a power of two, so `h` is exactly 0 or at least 1 there, and all jumps are
multiples of one power of two, small enough that no sum of them rounds in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from monolayer.model.attention import KEY, onto
from monolayer.model.device import recording
from monolayer.model.staircase import CELLS_AT_ONCE, Steps


@dataclass(frozen=True)
class CellSteps:
    """The block as one table of steps per coordinate, for binary search."""

    coordinates: tuple[Steps, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Key and code `(P, 2)` of tokens `x` `(P, d)`."""
        first, *rest = (steps(column) for steps, column in zip(self.coordinates, x.T.contiguous(), strict=True))
        for part in rest:
            first += part
        return first

    def on_ramp(self, x: Tensor) -> Tensor:
        """`(P, d)` to `(P,)`: whether some coordinate lies inside a ramp, where the block writes no cell's numbers."""
        ramps = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for steps, column in zip(self.coordinates, x.T.contiguous(), strict=True):
            if len(steps.start):
                place = torch.searchsorted(steps.start, column) - 1  # the last ramp that begins left of x
                ramps |= (place >= 0) & (column < steps.end[place.clamp(min=0)])
        return ramps


class Quantizer(nn.Module):
    """Residual feed-forward block that reads the last `d` coordinates of the stream and adds onto `key` and `code`.

    `weight_1` `(H, d)` has one entry per row that is not zero; `bias_1` `(H,)`; `weight_2` `(2, H)` and `bias_2`
    `(2,)` write key and code. The second hidden layer is `relu(1 − h)`: minus the identity and ones, not stored.
    """

    def __init__(self, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = nn.Parameter(weight_1), nn.Parameter(bias_1)
        self.weight_2, self.bias_2 = nn.Parameter(weight_2), nn.Parameter(bias_2)

    @classmethod
    def from_steps(cls, slope: float, start: Tensor, table: Tensor) -> Quantizer:
        """From ramps that begin at `start` `(D − 1,)` in every coordinate, with a power of two as their `slope`.

        `table` `(2, d, D)`: what each coordinate adds to key and code in each of its cells.
        """
        dim, steps = table.shape[1], len(start)
        weight_1 = torch.zeros(dim, steps, dim, dtype=torch.float64)
        weight_1[torch.arange(dim), :, torch.arange(dim)] = slope
        bias_1 = (-slope * start).repeat(dim)
        jump = table.diff(dim=2).flatten(1)
        return cls(weight_1.flatten(0, 1), bias_1, -jump, table[:, :, -1].sum(1))

    def forward(self, Z: Tensor) -> Tensor:
        """`(…, width)` to `(…, width)`, by dense operations, in blocks of tokens."""
        raw = Z[..., Z.shape[-1] - self.weight_1.shape[1] :]
        return onto(Z, self.dense(raw.flatten(0, -2)).view(*Z.shape[:-1], 2), KEY)

    def dense(self, x: Tensor) -> Tensor:
        """Key and code `(P, 2)` of tokens `x` `(P, d)`: every neuron is evaluated at every token."""
        if recording():
            return self._block(x)
        tokens = max(1, CELLS_AT_ONCE // max(1, len(self.weight_1)))
        return torch.cat([self._block(part) for part in torch.split(x, tokens)])

    def _block(self, x: Tensor) -> Tensor:
        hidden = (1.0 - (x @ self.weight_1.T + self.bias_1).relu()).relu()
        return hidden @ self.weight_2.T + self.bias_2

    def steps(self) -> CellSteps | None:
        """The block as tables for binary search; None if the weights no longer describe a grid."""
        weight_1, bias_1 = self.weight_1.detach(), self.bias_1.detach()
        weight_2, bias_2 = self.weight_2.detach().T, self.bias_2.detach()
        reads = weight_1 != 0
        if not bool((reads.sum(1) == 1).all()):
            return None
        tables = []
        first = bias_2 + weight_2.sum(0)
        for column in range(weight_1.shape[1]):
            mine = reads[:, column]
            slope, bias, jump = weight_1[mine, column], bias_1[mine], -weight_2[mine]
            steps = Steps(slope, bias, torch.cat([first[None], first + jump.cumsum(0)]))
            if not steps.rise:
                return None
            tables.append(steps)
            first = torch.zeros_like(first)
        return CellSteps(tuple(tables))

    def extra_repr(self) -> str:
        """The text that PyTorch prints between the brackets of the module."""
        return f"dim={self.weight_1.shape[1]}, steps={len(self.weight_1)}"
