"""Many small Transformers trained on functions at once: the same steps and batches for every member.

The `E` members have one shape and a leading index on every weight, so that one step trains them all: what one member
costs alone in launches, `E` cost together. Members differ in their target, learning rate and seed; no sum
runs over the leading index but that of the losses, so each member trains as it would alone.

Everything is float32 (no TF32): the largest error is what is asked about. Adam, gradients clipped per member, warm-up
and cosine decay over all steps. There is no search: every learning rate takes all steps, and validation points choose.

Notation: `P` points `(P, n, d)`, `m` outputs per token.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state
from torch.nn.attention import SDPBackend, sdpa_kernel

from monolayer.arrays import Floats
from monolayer_experiments.adam import Adam
from monolayer_experiments.trainer import wait
from monolayer_experiments.transformer import Approximator

WARM_UP, LAST_RATE_SHARE = 0.05, 0.01
"""Share of the steps in which rates rise, and the share of a rate that is left at their end."""
STREAM_NUMBERS_AT_ONCE = 1 << 24
"""Numbers of the stream, over all members, that an evaluation holds at a time, per layer."""


class Fleet:
    """`E` Transformers of one `shape`, as `Approximator` takes it; after `sail`, with their steps and seconds.

    `parameters`: numbers that one trains.
    """

    def __init__(self, shape: tuple[Any, ...], members: int, seed: int, device: str = "cpu") -> None:
        with torch.random.fork_rng(devices=[]):  # weights are drawn on the processor
            torch.manual_seed(seed)
            models = [Approximator(*shape) for _ in range(members)]
        self.body, self.members, self.device = models[0].to(device), members, torch.device(device)
        self.parameters = sum(weight.numel() for weight in self.body.parameters())
        self.weights, _ = stack_module_state([model.to(device) for model in models])
        self.steps, self.seconds = 0, 0.0
        self.mean: Any = 0.0
        self.std: Any = 1.0

    def __call__(self, X: Tensor) -> Tensor:
        """`(P, n, d)` to `(E, P, n, m)`."""
        with sdpa_kernel(SDPBackend.MATH):  # the one kernel that a leading index of members does not slow down
            every: Tensor = torch.vmap(lambda weights: functional_call(self.body, weights, (X,)))(self.weights)
        return every

    @torch.no_grad()
    def predict(self, X: Floats) -> Floats:
        """Answers `(E, P, n, m)` in units of the targets, block by block."""
        points = torch.as_tensor(X, dtype=torch.float32, device=self.device)
        block = max(1, STREAM_NUMBERS_AT_ONCE // (self.members * points.shape[1] * 4 * self.body.head.in_features))
        labels = torch.cat([self(part).double().cpu() for part in torch.split(points, block)], dim=1).numpy()
        answers: Floats = labels * self.std + self.mean
        return answers


def sail(fleet: Fleet, X: Floats, Y: Floats, which: list[int], rates: list[float], steps: int, batch: int) -> None:
    """Train member `e` on target `which[e]` of `Y` `(T, P, n, m)` at points `X` `(P, n, d)`, at `rates[e]`.

    Targets are brought to mean 0 and size 1 by constants of each; seconds are counted after a step that warms up.
    """
    device = fleet.device
    mean, std = Y.mean(axis=(1, 2, 3), keepdims=True), Y.std(axis=(1, 2, 3), keepdims=True)
    points = torch.as_tensor(X, dtype=torch.float32, device=device)
    wanted = torch.as_tensor((Y - mean) / std, dtype=torch.float32, device=device)
    member = torch.tensor(which, device=device)
    random = torch.Generator(device).manual_seed(0)
    weights = list(fleet.weights.values())
    adam = Adam(weights, torch.tensor(rates, device=device), epsilon=1e-8)

    def step(factor: float) -> None:
        rows = torch.randint(len(points), (batch,), generator=random, device=device)
        error = fleet(points[rows]) - wanted[:, rows][member]
        adam.step(clipped(torch.autograd.grad(error.square().flatten(1).mean(1).sum(), weights)), factor)

    step(0.0)
    wait(device)
    began = time.perf_counter()
    for done in range(steps):
        step(share_of_rate(done / steps))
    wait(device)
    fleet.steps, fleet.seconds = steps, time.perf_counter() - began
    fleet.mean, fleet.std = mean[which], std[which]


def share_of_rate(part: float) -> float:
    """The share of its rate that a step takes, after that part of all steps: warm-up, and decay along a cosine."""
    rise = min(1.0, part / WARM_UP + 1e-3)
    return rise * (LAST_RATE_SHARE + (1.0 - LAST_RATE_SHARE) * 0.5 * (1.0 + math.cos(math.pi * part)))


def clipped(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Gradients with a leading index of members, those of each member shrunk to norm 1 where they are longer."""
    squares = torch.stack([each.square().flatten(1).sum(1) for each in gradients]).sum(0)
    clip = squares.sqrt().clamp(min=1.0).reciprocal()
    return [each * clip.view(-1, *[1] * (each.ndim - 1)) for each in gradients]
