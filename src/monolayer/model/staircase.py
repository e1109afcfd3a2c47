"""A staircase: the neurons of one stage, which turn the number `z` of a point into its label; and what a readout is.

Notation: `R` steps; step `j` rises over the ramp `[a_j, a_j + 1/w_j]` by the jump `Δ_j` in `R^m`, from the label of
one run of points to that of the next. Run `r`, from 0 to `R`, lies between step `r` and step `r + 1`.

    label │            ┌────────          exact:  h = relu(w z − w a);  h ← relu(1 − h);  Σ Δ (1 − h)
          │   ┌───────/                   runs:   the same h;  i_r = relu(h_{r+1} − h_r);  Σ label_r i_r
          │──/                            both are flat off the ramps and linear on them
          └──────────────────── z
             a  a+1/w

`exact`, for classes, has two hidden layers and is exact in floats: `w` is a power of two, so `w z` has no
rounding error, and rounding is monotone, so `h` is exactly 0 at `z ≤ a` and at least 1 at `z ≥ a + 1/w`; then
`relu(1 − h)` is exactly 1 or 0, and jumps that are integers add up without error in any order.
`runs`, for real labels, has a third: of the neighbours `h_r` and `h_{r+1}` exactly one pair differs, so exactly one
indicator `i_r` is 1 and all others are 0. Products with 0 and 1 and sums with zeros are exact, so the label itself
comes out, whatever float it is. (`h_0 = 0` and `h_{R+1} = 1`.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import slices
from monolayer.data import Sequences
from monolayer.kernels import order_of, passes
from monolayer.model.attention import Slots
from monolayer.model.contexts import readable
from monolayer.model.device import recording

Form = Literal["exact", "runs"]

BLOCK = ("weight_1", "bias_1", "weight_2", "bias_2")
"""The tensors of a block of neurons."""

CELLS_AT_ONCE = 1 << 22
"""Points times neurons held at a time by the dense readout: 32 MiB in float64."""
_MANY_POINTS, _MANY_STEPS = 1 << 13, 1 << 10
"""Points and steps from which a processor is quicker if it sorts the points first, by measurement."""
_MANY_ON_A_DEVICE = 1 << 20
"""Points and steps from which a device is quicker if it sorts the points roughly, by measurement."""


@dataclass(frozen=True)
class Steps:
    """The staircase as a table: slopes `w` `(R,)`, `bias = −w a` `(R,)`, levels `(R + 1, m)`."""

    slope: Tensor
    bias: Tensor
    level: Tensor

    @cached_property
    def _ramps(self) -> tuple[Tensor, Tensor, bool]:
        """Beginnings and ends of the ramps, and whether they rise."""
        fused = passes(self.slope)
        if fused:
            start, end, rise = fused.ramp_ends(self.slope, self.bias)
            return start, end, rise
        start = -self.bias / self.slope
        end = torch.addcdiv(start, torch.ones_like(self.slope[:1]), self.slope)
        return start, end, bool((start < end).all() and (end[:-1] <= start[1:]).all())

    @property
    def start(self) -> Tensor:
        """Where the ramps begin, `(R,)`."""
        return self._ramps[0]

    @property
    def end(self) -> Tensor:
        """Where they end, `(R,)`."""
        return self._ramps[1]

    @property
    def rise(self) -> bool:
        """Whether the steps rise one after the other, over ramps wide enough for floats. A NaN is not a step.

        Where a ramp ends behind its beginning its slope is positive: `1 / slope` was added.
        """
        return self._ramps[2]

    @cached_property
    def index(self) -> Any:
        """Where many steps on a GPU lie on the line (`fused.Index`); None for others."""
        fused = passes(self.end)
        return fused and fused.index_of(self.end)

    def __call__(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)` by binary search, O(log R) per point; NaN where `z` is."""
        if min(len(z), len(self.slope)) >= _MANY_ON_A_DEVICE and self.index is not None:
            return self._search_by_index(z).T
        label, lacking = self._label(z), z.isnan()
        return label.masked_fill(lacking[:, None], torch.nan) if bool(lacking.any()) else label

    def _search_by_index(self, z: Tensor) -> Tensor:
        """What `search` returns, on a GPU, and NaN where `z` is."""
        label: Tensor = passes(z).plateau_labels(z, self.index, self.start, self.end, self.level)
        there = torch.nonzero(any_nan(label)).flatten()
        some = z[there]
        there = there[~some.isnan()]
        if len(there):
            label[:, there] = self.search(z[there])
        return label

    def _label(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)`; where `z` is NaN, any."""
        # A search in random order waits for memory at every point; in order, neighbours share their path.
        if readable(z):
            many = len(z) >= _MANY_POINTS and len(self.slope) >= _MANY_STEPS
            return (self._search_in_order(z) if many else self.search(z)).T
        if min(len(z), len(self.slope)) < _MANY_ON_A_DEVICE:
            return self.search(z).T
        order = _rough_order(z)
        levels = self.search(z.index_select(0, order))
        label = torch.empty_like(levels)
        for coordinate, value in zip(label, levels, strict=True):
            coordinate.scatter_(0, order, value)  # on a device several times faster than by an index
        return label.T

    def _search_in_order(self, z: Tensor) -> Tensor:
        """What `search` returns, on a processor: points are looked up in rising order, a cacheful of them at a time."""
        order = order_of(z.double().numpy())
        values, start, end = z.numpy(), self.start.numpy(), self.end.numpy()
        label = z.new_empty(self.level.shape[1], len(z))
        on_ramp, ramp = [], []
        for part in slices(len(z)):
            here = order[part]
            some = values.take(here)
            first, last = end.searchsorted(some[[0, -1]], side="right")
            step = end[first:last].searchsorted(some, side="right")
            step += first
            for row, level in zip(label.numpy(), self.level.numpy().T, strict=True):
                row[here] = level.take(step)
            # `step` ramps lie wholly left of a point; it may still be on the next one.
            begun = np.flatnonzero(some > start.take(step, mode="clip"))
            begun = begun[step[begun] < len(start)]
            on_ramp.append(here[begun])
            ramp.append(step[begun])
        there = torch.from_numpy(np.concatenate(on_ramp))
        if len(there):
            label[:, there] = self.on_ramps(z[there], torch.from_numpy(np.concatenate(ramp)))
        return label

    def search(self, z: Tensor) -> Tensor:
        """Labels `(m, P)`, best of points in the order of `z`.

        Coordinate by coordinate: numbers are moved much faster than short rows, on a device most of all.
        """
        step = torch.searchsorted(self.end, z, right=True, out_int32=len(self.end) < 2**31 - 1)
        columns = [level.index_select(0, step) for level in self.level.unbind(1)]
        label = torch.stack(columns) if len(columns) > 1 else columns[0][None]
        if len(self.start):
            # `step` ramps lie wholly left of z; z may still be on the next one.
            ramp = torch.nonzero(z > self.start.index_select(0, step.clamp(max=len(self.start) - 1))).flatten()
            if len(ramp):
                ramp = ramp[step[ramp] < len(self.start)]
                label[:, ramp] = self.on_ramps(z[ramp], step[ramp].long())
        return label

    def on_ramps(self, z: Tensor, here: Tensor) -> Tensor:
        """Labels `(m, Q)` of `z` `(Q,)` on the ramps `here` `(Q,)`."""
        part = (self.slope[here] * z + self.bias[here]).clamp_(0.0, 1.0)[:, None]
        # Not level + part · jump: between labels such as ±1e308 there is no jump that is a float.
        return ((1.0 - part) * self.level[here] + part * self.level[here + 1]).T


@dataclass(frozen=True)
class Plateaus(Steps):
    """Steps of which only the plateaus are known: NaN on their ramps."""

    def on_ramps(self, z: Tensor, here: Tensor) -> Tensor:
        """NaN at every `z` `(P,)` on a ramp, since only plateaus are known."""
        return torch.full((self.level.shape[1], len(z)), torch.nan, dtype=z.dtype, device=z.device)


def any_nan(label: Tensor) -> Tensor:
    """Which points `(P,)` have a NaN among their labels `(m, P)`."""
    return label[0].isnan() if len(label) == 1 else label.isnan().any(dim=0)


def _rough_order(z: Tensor) -> Tensor:
    """An order of `z` `(P,)` up to 1/65,536 of its range, by sorting 16-bit integers: much cheaper than sorting `z`."""
    low, high = torch.stack(z.aminmax()).tolist()
    if not 65536.0 * torch.finfo(z.dtype).tiny < high - low < math.inf:
        return torch.arange(len(z), device=z.device)  # beside a NaN or an infinity, or all alike: any order will do
    scale = 65535.0 / (high - low)
    short = torch.add(torch.tensor(-32768.0 - scale * low, dtype=z.dtype), z, alpha=scale)
    return short.to(torch.int16).sort().indices


class Readout(nn.Module):
    """A residual feed-forward block that turns what attention wrote into the label; `(…, D)` to `(…, D)`.

    The defaults are those of a readout without steps.
    """

    readout: str
    """Its name in files (`readouts.py`)."""
    labels: int
    """`m`: label coordinates that it writes."""
    slots: Slots = ()
    """For every stage, the coordinate that attention averages and the one that the stage reads."""

    @property
    def stairs(self) -> Sequence[Staircase]:
        """The staircases that it consists of, one per stage."""
        return ()

    @property
    def step_count(self) -> int:
        """Steps of all stages, or neurons."""
        # Whoever put another module in the place of a stage gets the dense pass, not an error.
        return sum(getattr(stage, "step_count", 0) for stage in self.stairs)

    @property
    def later_numbers(self) -> int:
        """Numbers of later hidden layers, which a dense pass multiplies by or adds and no file need hold."""
        return sum(stage.later_numbers for stage in self.stairs)

    def tables(self) -> tuple[Steps, ...] | None:
        """The steps of every stage, from which answers, explanations, pages and comparisons are read; None: none."""
        every_stage = [stage.steps() for stage in self.stairs]
        return (
            tuple(steps for steps in every_stage if steps is not None)
            if every_stage and None not in every_stage
            else None
        )

    def layers(self) -> list[tuple[Tensor, Tensor]] | None:
        """Dense matrices and biases of the block, with relu between them; None if it is not such a chain."""
        return None

    def fast(self, model: Any, data: Sequences) -> Tensor | None:
        """Class numbers `(P, 1)`, for a readout whose tables do not give them (`shortcut.py`)."""
        return None

    def to_json(self) -> dict[str, object]:
        """What `config.json` says of it besides its name: the steps of every stage, or how many neurons it has."""
        return {"steps": [stage.step_count for stage in self.stairs]}

    @classmethod
    def stored(cls, config: dict[str, object], tensors: Mapping[str, Tensor]) -> Self:
        """The readout that a file describes; `tensors` by their names without `feed_forward.`."""
        raise NotImplementedError


class Staircase(nn.Module):
    """One stage of a readout: it reads a number `z` and writes `w` numbers, the label and maybe that of a stretch.

    `weight_1`, `bias_1` `(R,)` are the one column of the first matrix that is not zero and its bias;
    `weight_2` `(w, R)`, of `runs` `(w, R + 1)`, and `bias_2` `(w,)` write. Not stored: the second hidden
    layer of `exact` and `runs`, `relu(1 − h)`, minus the identity and ones; the third of `runs`, `relu(h_{r+1} − h_r)`,
    whose matrix has 1 on the diagonal and −1 beside it.
    """

    def __init__(self, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor, form: Form) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = nn.Parameter(weight_1), nn.Parameter(bias_1)
        self.weight_2, self.bias_2 = nn.Parameter(weight_2), nn.Parameter(bias_2)
        self.form = form

    @classmethod
    def from_steps(cls, slope: Tensor, start: Tensor, fall: Tensor, last: Tensor) -> Staircase:
        """A stage of `exact`: ramps that begin at `start` `(R,)` with power-of-two `slope` `(R,)`.

        `fall` `(m, R)`: the label left of each step less the one right of it, `−Δ`; `last` `(m,)`: the label right of
        all steps. All four are handed over: they become the weights, and `start` is overwritten on the way.
        """
        return cls(slope, start.mul_(slope).neg_(), fall, last, "exact")

    @classmethod
    def from_runs(cls, slope: Tensor, start: Tensor, level: Tensor) -> Staircase:
        """A stage of `runs`: ramps as in `from_steps`, and the labels `level` `(m, R + 1)` between them."""
        return cls(slope, -slope * start, level, torch.zeros(len(level), dtype=level.dtype), "runs")

    def forward(self, z: Tensor) -> Tensor:
        """What is written `(P, w)` at `z` `(P,)`, by dense operations: every neuron is evaluated at every point."""
        if recording():
            return self._block(z)
        points = max(1, CELLS_AT_ONCE // max(1, self.weight_2.shape[1]))
        return torch.cat([self._block(part) for part in torch.split(z, points)])

    def _block(self, z: Tensor) -> Tensor:
        hidden = (1.0 - torch.addcmul(self.bias_1, z[:, None], self.weight_1).relu()).relu()
        if self.form == "runs":
            # Left of all runs stands a step that is always passed, right of all one that never is.
            ends = torch.zeros_like(z[:, None]), torch.ones_like(z[:, None])
            hidden = torch.cat([ends[0], hidden, ends[1]], dim=1)
            hidden = (hidden[:, 1:] - hidden[:, :-1]).relu()
        return hidden @ self.weight_2.T + self.bias_2

    def steps(self) -> Steps | None:
        """This function as a table for binary search; None if the weights are not a staircase (any more)."""
        slope, bias = self.weight_1.detach(), self.bias_1.detach()
        weight_2, bias_2 = self.weight_2.detach(), self.bias_2.detach()[:, None]
        if self.form == "runs":
            level = weight_2 + bias_2
            sums = level
        else:
            sums = first = bias_2[:, 0] + weight_2.sum(1)
            level = weight_2.new_empty(len(weight_2), weight_2.shape[1] + 1)
            level[:, 0] = first
            # A row at a time: few long rows keep no device busy.
            for begin, jumps, row in zip(first, weight_2, level[:, 1:], strict=True):
                torch.sub(begin, torch.cumsum(jumps, 0, out=row), out=row)
        if not bool(sums.isfinite().all()):  # 0 times NaN makes NaN of every answer of the dense pass
            return None
        as_steps = Steps(slope, bias, level.T)
        return as_steps if as_steps.rise else None

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """`w z + b`; `1 − h`; of `runs` the differences of neighbours; the label."""
        one = torch.diag(torch.ones_like(self.bias_1))
        weights = [(self.weight_1[:, None], self.bias_1), (-one, torch.ones_like(self.bias_1))]
        if self.form == "runs":
            none = torch.zeros_like(one[:1])
            last = torch.zeros_like(self.weight_2[0])
            last[-1] = 1.0  # right of all runs stands a step that is never passed
            weights.append((torch.cat([one, none]) - torch.cat([none, one]), last))
        return [*weights, (self.weight_2, self.bias_2)]

    @property
    def step_count(self) -> int:
        """`R`."""
        return len(self.weight_1)

    @property
    def later_numbers(self) -> int:
        """A neuron `relu(1 − h)` multiplies by −1 and adds 1; one of `runs`, `relu(h' − h)`, multiplies by 1 and −1.

        But for the first, which has one neighbour.
        """
        steps = len(self.bias_1)
        return 2 * steps if self.form == "exact" else 4 * steps + 1

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        return f"steps={self.step_count}, writes={len(self.bias_2)}, form={self.form!r}"
