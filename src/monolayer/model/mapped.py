"""A saved model that answers while its readout stays in its files, mapped into memory: for readouts larger than that.

Points are put in order of `z`, and each part of the staircase answers for those that lie on it: all weights are read
once for as many points as are asked for together.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
from monolayer.model.shortcut import Asked, Plan, labels_by, plan
from monolayer.model.staircase import Steps, rising

Part = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PartedSteps:
    """The steps of `parts`, one after the other; `ends`: of the parts; `level`: labels `(m,)` left of each, behind all.

    `bias` `(m,)`: the `bias_2` of all; `runs`: they are of that readout, and hold labels rather than jumps. Parts are
    looked at by several threads, each of which holds one.
    """

    parts: list[Part]
    ends: list[float]
    level: list[Tensor]
    bias: Tensor
    runs: bool

    @classmethod
    def of(cls, parts: list[Tensors], bias: Tensor, runs: bool = False) -> PartedSteps | None:
        """From weights that rise over all parts, and have `bias` `(m,)` behind them; None if they do not."""
        every = [_three(part) for part in parts]
        held = [part for part in every if len(part[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = [one for one in pool.map(_ends, held) if one is not None]
        begins, ends = [one[0] for one in found], [one[1] for one in found]
        if len(found) < len(held) or any(end > begin for end, begin in zip(ends, begins[1:], strict=False)):
            return None
        if not runs:
            level = [bias]
            for one in reversed(found):
                level.append(level[-1] + one[2])
            return cls(held, ends, level[::-1], bias, runs)
        if any(part[2].shape[1] != len(part[0]) + (i == len(every) - 1) for i, part in enumerate(every)):
            return None
        level = [_tensor(part[2][:, 0]) + bias for part in (*held, every[-1])]
        level[-1] = _tensor(every[-1][2][:, -1]) + bias
        return cls(held, ends, level, bias, runs)

    def __call__(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)`."""
        order = torch.from_numpy(np.argsort(z.numpy()))  # several times faster than PyTorch's
        ordered = z[order]
        bounds = [0, *torch.searchsorted(ordered, torch.tensor(self.ends, dtype=z.dtype)).tolist()]
        label = torch.empty(len(z), len(self.bias), dtype=self.bias.dtype)
        label[order[bounds[-1] :]] = self.level[-1]

        def answer(i: int) -> None:
            here = slice(*bounds[i : i + 2])
            if here.start < here.stop:
                w, b, rows = self.parts[i][0], self.parts[i][1], _tensor(self.parts[i][2]).T
                if self.runs:
                    levels = torch.cat([rows[: len(w)] + self.bias, self.level[i + 1][None]])
                else:
                    levels = torch.cat([self.level[i][None], self.level[i] - rows.cumsum(0)])
                label[order[here]] = Steps(_tensor(w), _tensor(b), levels).search(ordered[here])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(answer, range(len(self.parts))))
        return label


def _ends(part: Part) -> tuple[float, float, Tensor] | None:
    """Where the steps of a part begin and end, and the sum of their jumps, turned round; None if they do not rise."""
    slope, bias = _tensor(part[0]), _tensor(part[1])
    if not rising(slope, bias):
        return None
    return float(-bias[0] / slope[0]), float(-bias[-1] / slope[-1] + 1.0 / slope[-1]), _tensor(part[2]).sum(1)


def _three(part: Tensors) -> Part:
    w, b, weight_2 = (next(part[key] for key in part if key.endswith(name)) for name in SPLIT)
    return w, b, weight_2


def _tensor(values: NDArray[Any]) -> Tensor:
    """A copy that may be written to: PyTorch takes no other."""
    return torch.from_numpy(np.array(values))


@dataclass(frozen=True, eq=False)
class Mapped:
    """What `predict` needs of a model: `frame` is the model with a part of its readout only, `way` knows all of it."""

    frame: Monolayer
    way: Plan

    @property
    def card(self) -> Card:
        return self.frame.card

    @property
    def summary(self) -> Summary | None:
        return self.frame.summary

    def encode(self, X: Any) -> Sequences:
        """`Monolayer.encode`."""
        return self.frame.encode(X)

    def check_strict(self) -> None:
        """`Monolayer.check_strict`."""
        self.frame.check_strict()

    def known(self, data: Sequences) -> NDArray[np.bool_]:
        """`Monolayer.known`."""
        return self.frame.known(data)

    @torch.no_grad()
    def labels(self, data: Sequences, *, path: str = "auto") -> NDArray[Any]:
        """Label values of encoded data, as the whole model gives them by its fast path."""
        return self.frame._values(labels_by(self.frame, Asked.of(self.frame, data), self.way), data)


def load_mapped(folder: str | os.PathLike[str]) -> Mapped | None:
    """The model in `folder` if its readout lies in several files, and its weights are as they were built; else None."""
    found = parts_of(Path(folder))
    if found is None:
        return None
    frame, parts, last = found
    way, steps = plan(frame), PartedSteps.of(parts, last, frame.card.classes is None)
    if way is None or not way.stages or steps is None:
        return None
    first, *further = way.stages
    return Mapped(frame, replace(way, stages=(first._replace(steps=steps), *further)))
