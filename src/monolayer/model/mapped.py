"""A saved model that answers while its readout stays in its files, mapped into memory: for readouts larger than that.

Points are put in order of `z`, and each part of the staircase answers for those that lie on it: all weights are read
once for as many points as are asked for together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.data import Sequences
from monolayer.model.card import Card, Summary
from monolayer.model.load import parts_of
from monolayer.model.monolayer import Monolayer
from monolayer.model.sharded import SPLIT, Tensors
from monolayer.model.shortcut import Plan, labels_by, plan
from monolayer.model.staircase import Steps, rising

Part = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PartedSteps:
    """The steps of `parts`, one after the other; `ends`: of the parts. `bias` `(m,)`: the `bias_2` of all.

    `after`: of the readout `runs`, the labels `(m,)` behind each part. Else `first` `(m,)` stands left of all parts.
    """

    parts: list[Part]
    first: Tensor
    bias: Tensor
    ends: list[float]
    after: list[Tensor] | None

    @classmethod
    def of(cls, parts: list[Tensors], bias: Tensor, runs: bool = False) -> PartedSteps | None:
        """From weights that rise over all parts, and have `bias` `(m,)` behind them; None if they do not."""
        every = [_three(part) for part in parts]
        held = [part for part in every if len(part[0])]
        ends: list[float] = []
        for w, b, _ in held:
            slope, start = _tensor(w), _tensor(-b / w)
            if not rising(slope, _tensor(b)) or (ends and float(start[0]) < ends[-1]):
                return None
            ends.append(float(start[-1] + 1.0 / slope[-1]))
        if not runs:
            first = bias + sum(_tensor(part[2]).sum(1) for part in held) if held else bias
            return cls(held, first, bias, ends, None)
        if any(part[2].shape[1] != len(part[0]) + (i == len(every) - 1) for i, part in enumerate(every)):
            return None
        label = [_tensor(part[2][:, 0]) + bias for part in (*held, every[-1])]
        label[-1] = _tensor(every[-1][2][:, -1]) + bias
        return cls(held, label[0], bias, ends, label[1:])

    def __call__(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)`."""
        order = z.argsort()
        ordered, level, begin = z[order], self.first, 0
        label = torch.empty(len(z), len(level), dtype=level.dtype)
        for i, ((w, b, weight_2), end) in enumerate(zip(self.parts, self.ends, strict=True)):
            stop = int(torch.searchsorted(ordered, end))
            rows = _tensor(weight_2).T
            if stop > begin:
                if self.after is None:
                    levels = torch.cat([level[None], level - rows.cumsum(0)])
                else:
                    levels = torch.cat([rows[: len(w)] + self.bias, self.after[i][None]])
                label[order[begin:stop]] = Steps(_tensor(w), _tensor(b), levels)(ordered[begin:stop])
            level = level - rows.sum(0) if self.after is None else self.after[i]
            begin = max(begin, stop)
        label[order[begin:]] = level
        return label


def _three(part: Tensors) -> Part:
    w, b, weight_2 = (next(part[key] for key in part if key.endswith(name)) for name in SPLIT)
    return w, b, weight_2


def _tensor(values: NDArray[Any]) -> Tensor:
    """A copy that may be written to: PyTorch takes no other."""
    return torch.from_numpy(np.array(values))


@dataclass(frozen=True, eq=False)
class Mapped:
    """What `predict` needs of a model: `frame` is the model with a part of its readout only, `steps` all of it."""

    frame: Monolayer
    way: Plan
    steps: PartedSteps

    @property
    def card(self) -> Card:
        return self.frame.card

    @property
    def summary(self) -> Summary | None:
        return self.frame.summary

    def encode(self, X: Any) -> Sequences:
        """`Monolayer.encode`."""
        return self.frame.encode(X)

    def check_seen(self, data: Sequences) -> None:
        """`Monolayer.check_seen`."""
        self.frame.check_seen(data)

    @torch.no_grad()
    def labels(self, data: Sequences, *, path: str = "auto") -> NDArray[Any]:
        """Label values of encoded data, as the whole model gives them by its fast path."""
        return self.frame._values(labels_by(self.frame, data, self.way, self.steps), data)


def load_mapped(folder: str | os.PathLike[str]) -> Mapped | None:
    """The model in `folder` if its readout lies in several files, and its weights are as they were built; else None."""
    found = parts_of(Path(folder))
    if found is None:
        return None
    frame, parts, last = found
    way, steps = plan(frame), PartedSteps.of(parts, last, frame.card.classes is None)
    return None if way is None or way.steps is None or steps is None else Mapped(frame, way, steps)
