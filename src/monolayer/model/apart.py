"""Gates: code and context apart, so that the context has all bits of a float for itself (docs/construction.md).

The stream is `(one, key, code, label, context)`: attention writes the context `c` onto a coordinate of its own, and
`code` keeps the whole number of the cell, a token or a token at a place. The readout has a gate for each cell `a`, with
code `t_a`, and steps that belong to one cell each:

    first layer    relu(t − t_a)   relu(t_a − t)     h_j = relu(w_j c − w_j a_j)
    second         g_a = relu(1 − both)              r_j = relu(1 − h_j)
    third          g_a                               i_j = relu(g_a − r_j)         a the cell of step j
    label          Σ base_a g_a + Σ Δ_j i_j

Codes are whole, so exactly one gate is 1 and all others are 0; `r_j` is exactly 1 before a step and 0 behind it, so
`i_j` is 1 behind the steps of that one cell and 0 everywhere else. All sums are of whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from monolayer.model.attention import CODE, LABEL
from monolayer.model.recording import recording
from monolayer.model.staircase import CELLS_AT_ONCE, Ramps

CONTEXT = LABEL + 1
"""The coordinate that attention writes onto; classes have one label slot."""


@dataclass(frozen=True, eq=False)
class Cells(Ramps):
    """The readout as a table: `gate` `(V,)` in order, `offset` `(V + 1,)` of their steps, `level` `(H + V,)`.

    `level[offset[a] + a + i]` is the label of cell `a` behind `i` of its steps; `slope`, `bias` `(H,)` are the steps'.
    """

    gate: Tensor
    offset: Tensor
    slope: Tensor
    bias: Tensor
    level: Tensor
    elsewhere: float

    def find(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """The cell of each code `(P,)`, and whether there is one."""
        cell = torch.searchsorted(self.gate, code).clamp_(max=len(self.gate) - 1)
        return cell, self.gate[cell] == code

    def passed(self, cell: Tensor, context: Tensor) -> Tensor:
        """How many of all steps lie left of `context` `(P,)` or in cells before its own: a search inside its cell."""
        low, high = self.offset[cell], self.offset[cell + 1]
        for _ in range(int((self.offset[1:] - self.offset[:-1]).max()).bit_length() if len(self.slope) else 0):
            open_ = low < high
            middle = (low + high) // 2
            right = open_ & (self.end[middle.clamp(max=len(self.end) - 1)] <= context)
            low, high = torch.where(right, middle + 1, low), torch.where(open_ & ~right, middle, high)
        return low

    def __call__(self, code: Tensor, context: Tensor) -> Tensor:
        """Labels `(P, 1)`."""
        cell, there = self.find(code)
        step = self.passed(cell, context)
        label = self.level[step + cell]
        if len(self.slope):
            # The next step of the cell, if there is one: its ramp may have begun.
            next_ = step.clamp(max=len(self.slope) - 1)
            ramp = torch.nonzero((step < self.offset[cell + 1]) & (context > self.start[next_])).flatten()
            here, at = step[ramp], (step + cell)[ramp]
            part = (self.slope[here] * context[ramp] + self.bias[here]).clamp_(0.0, 1.0)
            label[ramp] = (1.0 - part) * self.level[at] + part * self.level[at + 1]
        return torch.where(there, label, self.elsewhere)[:, None]


class Apart(nn.Module):
    """Residual feed-forward block that reads `code` and `context` and adds the label.

    `gate`, `base` and `count` `(V,)`: codes of the cells, in order, their first labels, and how many steps each has;
    `weight_1`, `bias_1` `(H,)` and `weight_2` `(1, H)`: the steps, cell by cell, in order; `bias_2` `(1,)`.
    """

    readout = "apart"

    def __init__(
        self,
        weight_1: Tensor,
        bias_1: Tensor,
        weight_2: Tensor,
        bias_2: Tensor,
        gate: Tensor,
        base: Tensor,
        count: Tensor,
    ) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = nn.Parameter(weight_1), nn.Parameter(bias_1)
        self.weight_2, self.bias_2 = nn.Parameter(weight_2), nn.Parameter(bias_2)
        self.gate, self.base, self.count = nn.Parameter(gate), nn.Parameter(base), nn.Parameter(count)
        cell = torch.arange(len(gate), device=gate.device).repeat_interleave(count.detach().long())
        self.cell: Tensor
        self.register_buffer("cell", cell, persistent=False)

    @property
    def step_count(self) -> int:
        """`H`."""
        return len(self.weight_1)

    def forward(self, Z: Tensor) -> Tensor:
        """`(…, D)` to `(…, D)`, by dense operations, in blocks of points and neurons."""
        label = self.dense(Z[..., CODE].flatten(), Z[..., CONTEXT].flatten()).view(*Z.shape[:-1], 1)
        return torch.cat([Z[..., :LABEL], Z[..., LABEL:CONTEXT] + label, Z[..., CONTEXT:]], dim=-1)

    def dense(self, code: Tensor, context: Tensor) -> Tensor:
        """Labels `(P, 1)` of codes and contexts `(P,)`: every neuron is evaluated at every point."""
        if recording():
            gates = self._gates(code, self.gate)
            steps = self._steps(gates, context, self.weight_1, self.bias_1, self.weight_2, self.cell)
            return self.bias_2 + gates @ self.base[:, None] + steps
        points = max(1, CELLS_AT_ONCE // max(1, len(self.gate), min(self.step_count, CELLS_AT_ONCE // 64)))
        parts = zip(torch.split(code, points), torch.split(context, points), strict=True)
        return torch.cat([self._points(*part) for part in parts])

    def _points(self, code: Tensor, context: Tensor) -> Tensor:
        gates = self._gates(code, self.gate)
        out = self.bias_2 + gates @ self.base[:, None]
        neurons = max(1, CELLS_AT_ONCE // 64)
        for first in range(0, self.step_count, neurons):
            here = slice(first, first + neurons)
            parts = gates, context, self.weight_1[here], self.bias_1[here], self.weight_2[:, here], self.cell[here]
            if torch.is_grad_enabled():
                out = out + checkpoint(self._steps, *parts, use_reentrant=False)
            else:
                out = out + self._steps(*parts)
        return out

    @staticmethod
    def _gates(code: Tensor, gate: Tensor) -> Tensor:
        """Which cell each code `(P,)` is: `(P, V)`, ones and zeros."""
        off = (code[:, None] - gate).relu() + (gate - code[:, None]).relu()
        return (1.0 - off).relu()

    @staticmethod
    def _steps(
        gates: Tensor, context: Tensor, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, cell: Tensor
    ) -> Tensor:
        """What some steps add to labels `(P, 1)`."""
        before = (1.0 - torch.addcmul(bias_1, context[:, None], weight_1).relu()).relu()
        return (gates.index_select(1, cell) - before).relu() @ weight_2.T

    def steps(self) -> None:
        """None: there is a staircase for each cell; `table` has them all."""
        return

    def table(self) -> Cells | None:
        """The same function as a table to search, or None if the weights are no staircases behind gates (any more)."""
        gate, count, slope, bias = (part.detach() for part in (self.gate, self.count, self.weight_1, self.bias_1))
        whole = count.long()
        cell = torch.arange(len(gate), device=gate.device).repeat_interleave(whole.clamp(min=0))
        if not (torch.equal(whole.to(count), count) and torch.equal(cell, self.cell) and bool(gate.isfinite().all())):
            return None
        if not (bool((gate[1:] > gate[:-1]).all()) and torch.equal(gate.round(), gate)):
            return None
        offset = torch.cat([whole.new_zeros(1), whole.cumsum(0)])
        start = -bias / slope
        end = start + 1.0 / slope
        inside = cell[1:] == cell[:-1]
        if not bool((slope > 0).all() and (start < end).all() and (end[:-1] <= start[1:])[inside].all()):
            return None
        # One more number a cell than steps: its base, then its jumps.
        first = offset[:-1] + torch.arange(len(gate), device=gate.device)
        # In float64: what the cells before have added up must not cost a cell its own last bits.
        jump = torch.zeros(len(slope) + len(gate), dtype=torch.float64, device=slope.device)
        jump[torch.arange(len(slope), device=slope.device) + cell + 1] = self.weight_2.detach()[0].double()
        total = jump.cumsum(0)
        own = torch.arange(len(gate), device=gate.device).repeat_interleave(whole + 1)
        level = (total - total[first][own] + self.base.detach()[own] + self.bias_2.detach()).to(slope.dtype)
        return Cells(gate, offset, slope, bias, level, float(self.bias_2.detach()[0]))

    def extra_repr(self) -> str:
        return f"cells={len(self.gate)}, steps={self.step_count}"
