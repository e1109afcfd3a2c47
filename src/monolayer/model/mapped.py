"""A saved model that answers while its readout stays in its files, mapped into memory: for readouts larger than that.

Points are put in order of `z`, and each part of the staircase answers for those that lie on it: all weights are read
once for as many points as are asked for together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.load import parts_of
from monolayer.model.monolayer import Monolayer
from monolayer.model.sharded import SPLIT, Tensors
from monolayer.model.shortcut import Asked, Plan, labels_by, plan
from monolayer.model.staircase import Steps, rising


@dataclass(frozen=True, eq=False)
class PartedSteps:
    """The steps of `parts`, one after the other; `ends`: of the parts; `level`: labels `(m,)` left of each, behind all.

    Parts are looked at by several threads, each of which holds one.
    """

    parts: list[list[NDArray[Any]]]
    ends: list[float]
    level: list[Tensor]

    @classmethod
    def of(cls, parts: list[Tensors], bias: Tensor) -> PartedSteps | None:
        """From weights that rise over all parts, and have `bias` `(m,)` behind them; None if they do not."""
        some = [[next(part[key] for key in part if key.endswith(name)) for name in SPLIT] for part in parts]
        some = [part for part in some if len(part[0])]
        found = [one for one in _at_once(_ends, some) if one is not None]
        begins, ends = [one[0] for one in found], [one[1] for one in found]
        if len(found) < len(some) or any(end > begin for end, begin in zip(ends, begins[1:], strict=False)):
            return None
        level = [bias]
        for one in reversed(found):
            level.insert(0, level[0] + one[2])
        return cls(some, ends, level)

    def __call__(self, z: Tensor) -> Tensor:
        """Labels `(P, m)` of `z` `(P,)`."""
        order = torch.from_numpy(np.argsort(z.numpy()))  # several times faster than PyTorch's
        ordered = z[order]
        bounds = [0, *torch.searchsorted(ordered, torch.tensor(self.ends, dtype=z.dtype)).tolist()]
        label = self.level[-1].expand(len(z), -1).clone()

        def answer(i: int) -> None:
            here = slice(*bounds[i : i + 2])
            if here.start < here.stop:
                w, b, jumps = map(_tensor, self.parts[i])
                levels = torch.cat([self.level[i][None], self.level[i] - jumps.T.cumsum(0)])
                label[order[here]] = Steps(w, b, levels).search(ordered[here])

        _at_once(answer, range(len(self.parts)))
        return label


def _at_once(act: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(act, items))


def _ends(part: list[NDArray[Any]]) -> tuple[float, float, Tensor] | None:
    """Where the steps of a part begin and end, and the sum of their jumps, turned round; None if they do not rise."""
    slope, bias, jumps = map(_tensor, part)
    if not rising(slope, bias):
        return None
    return float(-bias[0] / slope[0]), float(-bias[-1] / slope[-1] + 1.0 / slope[-1]), jumps.sum(1)


def _tensor(values: NDArray[Any]) -> Tensor:
    """A copy that may be written to: PyTorch takes no other."""
    return torch.from_numpy(np.array(values))


class Mapped(Monolayer):
    """A model with a part of its readout only; `way` knows all of it, and answers."""

    way: Plan

    def forward(self, X: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Refused: the network as it stands needs all of the readout."""
        raise DataError("only a part of this readout is in memory: load the model whole (ml.load) for a dense pass")

    @torch.no_grad()
    def labels(self, data: Sequences, *, path: Any = "auto") -> NDArray[Any]:
        """Label values of encoded data, as the whole model gives them by its fast path."""
        return self._values(labels_by(self, Asked.of(self, data), self.way), data)


def load_mapped(folder: str | os.PathLike[str]) -> Mapped | None:
    """The model in `folder` if its readout lies in several files, and its weights are as they were built; else None.

    None for real labels too: their parts are put together.
    """
    found = parts_of(Path(folder))
    if found is None:
        return None
    frame, parts, last = found
    way, steps = plan(frame), PartedSteps.of(parts, last)
    if way is None or not way.stages or steps is None:
        return None
    layers = frame.lift, frame.positions, frame.bos.detach(), frame.attention, frame.feed_forward, frame.head
    model = Mapped(*layers, frame.card)
    model.way = replace(way, stages=(way.stages[0]._replace(steps=steps), *way.stages[1:]))
    return model
