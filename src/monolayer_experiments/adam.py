"""Adam on tensors that hold many networks side by side: a few kernels per step where the library has many.

The first index of every tensor counts the networks. They share their steps and nothing else: each has its own moments
and, if wanted, its own learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Adam:
    """Adam on `weights`, changed in place; `rate`: one number, or a tensor with one rate per network.

    `epsilon` is added to the root of the second moment. The size of a gradient hardly matters then, so that sums may
    stand for means.
    """

    def __init__(self, weights: Sequence[Tensor], rate: float | Tensor, epsilon: float) -> None:
        self.weights, self.rate, self.epsilon, self.taken = list(weights), rate, epsilon, 0
        self.means = [torch.zeros_like(weight) for weight in weights]
        self.squares = [torch.zeros_like(weight) for weight in weights]

    def some(self, rows: Tensor) -> Adam:
        """The same for some of the networks, copied."""
        rate = self.rate[rows] if isinstance(self.rate, Tensor) else self.rate
        other = Adam([weight[rows] for weight in self.weights], rate, self.epsilon)
        other.means, other.squares = [part[rows] for part in self.means], [part[rows] for part in self.squares]
        other.taken = self.taken
        return other

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], factor: float = 1.0) -> None:
        """One step along these gradients, at the rate times `factor`."""
        self.taken += 1
        root, rest = math.sqrt(1.0 - 0.999**self.taken), 1.0 - 0.9**self.taken
        for weight, gradient, mean, square in zip(self.weights, gradients, self.means, self.squares, strict=True):
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            size = square.sqrt().add_(self.epsilon)
            if isinstance(self.rate, Tensor):
                rate = self.rate * (factor * root / rest)
                weight.sub_(rate.view(-1, *[1] * (weight.ndim - 1)) * mean / size)
            else:  # one kernel does all three operations
                weight.addcdiv_(mean, size, value=-self.rate * factor * (root / rest))
