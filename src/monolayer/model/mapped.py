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


@dataclass(frozen=True, eq=False)
class PartedSteps:
    """The steps of `parts`, one after the other. `first` `(m,)` stands left of all; `ends`: of the parts."""

    parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
    first: Tensor
    ends: list[float]

    @classmethod
    def of(cls, parts: list[Tensors], last: Tensor) -> PartedSteps | None:
        """From weights that rise over all parts and end with `last` `(m,)`; None if they do not."""
        held, first = [], last.clone()
        ends: list[float] = []
        for part in parts:
            w, b, weight_2 = (next(part[key] for key in part if key.endswith(name)) for name in SPLIT)
            if len(w) == 0:
                continue
            slope, bias = _tensor(w), _tensor(b)
            start = -bias / slope
            if not rising(slope, bias) or (ends and float(start[0]) < ends[-1]):
                return None
            ends.append(float(start[-1] + 1.0 / slope[-1]))
            held.append((w, b, weight_2))
            first = first + _tensor(weight_2).sum(1)
        return cls(held, first, ends)

    def __call__(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)`."""
        order = z.argsort()
        ordered, level, begin = z[order], self.first, 0
        label = torch.empty(len(z), len(level), dtype=level.dtype)
        for (w, b, weight_2), end in zip(self.parts, self.ends, strict=True):
            stop = int(torch.searchsorted(ordered, end))
            jumps = _tensor(weight_2).T
            if stop > begin:
                steps = Steps(_tensor(w), _tensor(b), torch.cat([level[None], level - jumps.cumsum(0)]))
                label[order[begin:stop]] = steps(ordered[begin:stop])
            level, begin = level - jumps.sum(0), max(begin, stop)
        label[order[begin:]] = level
        return label


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
    way, steps = plan(frame), PartedSteps.of(parts, last)
    return None if way is None or way.steps is None or steps is None else Mapped(frame, way, steps)
