"""Networks with every weight changed, and what they still answer."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

import monolayer as ml
from monolayer.arrays import Array
from monolayer_experiments.packed import Packed

ENOUGH = 0.99
"""Share of labels that must be right for a model to count as tolerating a noise."""


@torch.no_grad()
def recall(model: nn.Module, X: Array, Y: Array) -> float:
    if isinstance(model, (ml.Monolayer, Packed)):
        try:
            return float((model.predict(X) == Y).mean())
        except ml.DataError:  # weights that overflow a short format give no number
            return 0.0
    answers = [model(part).argmax(-1) for part in torch.split(torch.from_numpy(X), 512)]
    return float((torch.cat(answers).numpy() == Y).mean())


def changed(model: nn.Module, change: Callable[[Tensor], Tensor]) -> nn.Module:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.copy_(change(weight))
    return other


def noisy(model: nn.Module, sigma: float, seed: int) -> nn.Module:
    """A copy with every weight multiplied by `1 + σ g`, `g` Gaussian."""
    random = torch.Generator().manual_seed(seed)

    def change(weight: Tensor) -> Tensor:
        return weight * (1.0 + sigma * torch.randn(weight.shape, generator=random, dtype=torch.float64)).to(weight)

    return changed(model, change)


NOISE_DRAWS = 3
"""How many draws of the noise are tried; enough labels must be right in each of them."""


def tolerance(model: nn.Module, X: Array, Y: Array, seed: int) -> float | None:
    """The largest σ with enough labels right in every draw, to a fiftieth of a decade; None: below 10^−15."""

    def holds(sigma: float) -> bool:
        return all(recall(noisy(model, sigma, seed + 1000 * draw), X, Y) >= ENOUGH for draw in range(NOISE_DRAWS))

    low, high = -15.0, 0.0
    if not holds(10.0**low):
        return None
    while high - low > 0.02:
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(10.0**middle) else (low, middle)
    return float(10.0**low)
