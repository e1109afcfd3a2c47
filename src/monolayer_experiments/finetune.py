"""Fine-tuning a trained model on a few changed labels: the usual way to edit, on a clock.

Two ways: on the edited sequences alone, or on batches of which half are sequences that shall stay. The clock counts
steps; what is measured on the way is not on it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from monolayer.arrays import Ints
from monolayer_experiments.trainer import Batches, Run

BATCH = 64
"""Sequences per step, at most."""


def finetune(
    model: nn.Module, data: Batches, rows: Ints, kept: Ints | None, rate: float, stops: list[float], seed: int
) -> Iterator[tuple[float, int, nn.Module]]:
    """A copy of `model` trained on `rows` of `data`, with as many of `kept` in every batch unless that is None.

    Yields seconds, steps and the model at each of `stops`, seconds on the clock; a step or more is always taken.
    """
    random = np.random.default_rng(seed)
    run = Run(copy.deepcopy(model), data, rate, weight_decay=0.0)
    spent = 0.0
    for stop in stops:
        run.model.train()
        while run.steps == 0 or spent < stop:
            began = time.perf_counter()
            some = random.choice(rows, min(len(rows), BATCH if kept is None else BATCH // 2), replace=False)
            if kept is not None:
                some = np.concatenate([some, random.choice(kept, len(some), replace=False)])
            chosen = torch.from_numpy(some).to(data.device)
            run.step(*data.batch(chosen, int(data.sizes[chosen].max())), rate)
            data.wait()
            spent += time.perf_counter() - began
        yield spent, run.steps, run.model
