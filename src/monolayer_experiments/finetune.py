"""Fine-tuning a trained model on a few changed labels: the usual way to edit, on a clock.

Two ways: on the edited sequences alone, or on batches of which half are sequences that shall stay. The clock counts
steps; what is measured on the way is not on it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from monolayer.arrays import Ints

BATCH = 64
"""Sequences a step, at most."""
NO_LABEL = -100


@dataclass(frozen=True, eq=False)
class Padded:
    """Sequences `X` `(N, n)` with classes `Y` `(N, n)` and `lengths` `(N,)`."""

    X: Ints
    Y: Ints
    lengths: Ints

    def batch(self, rows: Ints, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens, labels and the mask of some rows, no wider than the longest of them."""
        width = int(self.lengths[rows].max())
        inside = np.arange(width) < self.lengths[rows, None]
        labels = np.where(inside, self.Y[rows, :width], NO_LABEL)
        x, y, mask = (torch.from_numpy(part) for part in (self.X[rows, :width], labels, inside))
        return x.to(device), y.to(device), mask.to(device)

    @torch.no_grad()
    def answers(self, model: nn.Module, rows: Ints, size: int = 1024) -> Ints:
        """The classes that `model` gives to the tokens of `rows`, flat, row after row."""
        device = next(model.parameters()).device
        model.eval()
        found = []
        for start in range(0, len(rows), size):
            x, _, mask = self.batch(rows[start : start + size], device)
            found.append(model(x, mask).argmax(-1)[mask].cpu().numpy())
        return np.concatenate(found)

    def labels(self, rows: Ints) -> Ints:
        """The classes of the tokens of `rows`, flat."""
        inside = np.arange(self.X.shape[1]) < self.lengths[rows, None]
        flat: Ints = self.Y[rows][inside]
        return flat


@dataclass(frozen=True)
class Stop:
    """Where a run is looked at: seconds on its clock and steps so far."""

    seconds: float
    steps: int


def finetune(
    model: nn.Module, data: Padded, rows: Ints, kept: Ints | None, rate: float, stops: list[float], seed: int
) -> Iterator[tuple[Stop, nn.Module]]:
    """A copy of `model` trained on `rows` of `data`, with as many of `kept` in every batch unless that is None.

    Yields at each of `stops`, seconds on the clock; a step or more is always taken.
    """
    model = copy.deepcopy(model)
    device = next(model.parameters()).device
    random = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    spent, steps = 0.0, 0
    for stop in stops:
        model.train()
        while steps == 0 or spent < stop:
            began = time.perf_counter()
            some = random.choice(rows, min(len(rows), BATCH if kept is None else BATCH // 2), replace=False)
            if kept is not None:
                some = np.concatenate([some, random.choice(kept, len(some), replace=False)])
            x, y, mask = data.batch(some, device)
            optimizer.zero_grad(set_to_none=True)
            loss: Any = functional.cross_entropy(model(x, mask).flatten(0, 1), y.flatten(), ignore_index=NO_LABEL)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            spent += time.perf_counter() - began
            steps += 1
        yield Stop(spent, steps), model
