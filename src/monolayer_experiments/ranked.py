"""Many small Transformers of one layer and one head, side by side, that differ in the ranks of scores and of values.

`W_Q`, `W_K` and `W_V` are products of `(D, D)` factors whose inner index is cut at the rank, so that members of all
ranks have one shape and share each step: the leading index `E` of every weight counts them. *FF ∘ SA ∘ FF* with GELU
and normalization before each part, as in `transformer.py`; the first block of a member that reads ids is a table.

Notation: `B` sequences of `n` tokens per member and step, `D` the width, `m` numbers answered per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from monolayer.table import Progress
from monolayer_experiments.adam import Adam
from monolayer_experiments.fleet import clipped, share_of_rate


class Ranks(NamedTuple):
    """Rank of `W_Q` and `W_K`, and rank of `W_V`."""

    scores: int
    values: int


class Members:
    """`E` networks: what they read is ids below `vocabulary`, or tokens of `dim` numbers if that is 0."""

    def __init__(self, ranks: Sequence[Ranks], width: int, out: int, vocabulary: int, dim: int, seed: int) -> None:
        random, E, D = torch.Generator().manual_seed(seed), len(ranks), width
        # One draw for all members, so that they differ in ranks and rates alone.

        def drawn(*shape: int, size: float = 1.0) -> Tensor:
            return (size * torch.randn(shape, generator=random)).expand(E, *shape).clone()

        inner = torch.tensor([(each.scores, each.scores, each.values) for each in ranks])
        self.inside = (torch.arange(D) < inner[..., None])[:, :, None, :].float()
        """`(E, 3, 1, D)`: 1 where the inner index of the factors is below the rank."""
        root = D**-0.5
        first = [drawn(vocabulary, D)] if vocabulary else [drawn(dim, D), drawn(1, D), drawn(D, D, size=root)]
        self.weights = [
            *first,
            drawn(3, D, D) * inner[:, :, None, None].rsqrt(),
            drawn(3, D, D, size=root),
            drawn(D, D, size=root),
            drawn(D, 4 * D, size=root),
            drawn(1, 4 * D, size=0.0),
            drawn(4 * D, D, size=root / 2),
            drawn(D, out, size=root),
            drawn(1, out, size=0.0),
        ]
        self.width, self.reads_ids = D, bool(vocabulary)
        for weight in self.weights:
            weight.requires_grad_()

    def __call__(self, X: Tensor) -> Tensor:
        """`(E, B, n)` ids or `(E, B, n, dim)` tokens to `(E, B, n, m)`."""
        *first, left, right, outward, rise, kinks, fall, head, shift = self.weights
        E, B, n = X.shape[:3]
        if self.reads_ids:
            # A row per member and id of one long table: one gather reads them all.
            offset = torch.arange(E)[:, None] * first[0].shape[1]
            Z = functional.embedding(X.view(E, -1) + offset, first[0].flatten(0, 1))
        else:
            Z = functional.gelu(torch.baddbmm(first[1], X.flatten(1, 2), first[0])) @ first[2]
        W = (left * self.inside) @ right
        parts = self._normal(Z) @ W.flatten(1, 2).mT
        query, key, value = parts.view(E * B, n, 3, self.width).unbind(2)
        weights = (query @ key.mT / math.sqrt(self.width)).softmax(-1)
        Z = Z + (weights @ value).view(E, B * n, -1) @ outward
        Z = Z + functional.gelu(torch.baddbmm(kinks, self._normal(Z), rise)) @ fall
        return torch.baddbmm(shift, self._normal(Z) if self.reads_ids else Z, head).view(E, B, n, -1)

    def _normal(self, Z: Tensor) -> Tensor:
        return functional.layer_norm(Z, (self.width,))


def sail(
    members: Members,
    rates: Sequence[float],
    steps: int,
    loss: Callable[[int], Tensor],
    progress: Progress,
) -> None:
    """Train every member at its rate; `loss(step)` is the sum of their losses on a batch of that step."""
    adam = Adam(members.weights, torch.tensor(list(rates)), epsilon=1e-8)
    for done in range(steps):
        part = done / steps
        if done % max(1, steps // 50) == 0:
            progress(f"step {done:,} of {steps:,}", part)
        adam.step(clipped(torch.autograd.grad(loss(done), members.weights)), share_of_rate(part))
