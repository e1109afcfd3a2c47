"""Many small Transformers trained on functions at once: the same clock, steps and batches for every member.

A fleet has `E` members with one shape and a leading index on every weight, so that one step trains them all: what one
member costs alone in launches, `E` cost together. Members differ in their target, learning rate, seed and value rank;
no sum runs over the leading index but that of the losses, so each member trains as it would alone.

    token-wise embedding (two layers), then layers: Z + attention(norm Z), Z + feed-forward(norm Z); a linear head

With one layer this is *FF ∘ SA ∘ FF*, the shape of Proposition 1. Everything is float32 (no TF32): the largest error
is what is asked about. Adam, gradients clipped per member, warm-up and cosine decay over the whole clock. There is no
search: every learning rate runs for the whole clock, and validation points choose.

Notation: `P` points `(P, n, d)`, `m` outputs per token, `D` the width, `r` the rank of `W_Q`, `W_K`, `W_V`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from monolayer.arrays import Floats
from monolayer_experiments.trainer import wait

WARM_UP, LAST = 0.05, 0.01
"""Share of the clock in which rates rise, and the share of a rate that is left at its end."""
BLOCK = 1 << 24
"""Numbers of the stream, over all members, that an evaluation holds at a time, per layer."""


@dataclass(frozen=True)
class Shape:
    """What all members share: layers, rank (None: full rank and a head for every 32 coordinates), width, `d`, `m`."""

    layers: int
    rank: int | None
    width: int
    dim: int
    out: int

    @property
    def heads(self) -> int:
        return max(1, self.width // 32) if self.rank is None else 1

    @property
    def parameters(self) -> int:
        """Numbers that one member trains."""
        fleet = Fleet(self, 1, 0)
        return sum(weight.numel() for weight in fleet.weights.values())


class Fleet:
    """`E` Transformers; after `sail`, with the steps they made and the seconds they took.

    `value_ranks` `(E,)`: how many of the `r` value directions each may use.
    """

    def __init__(
        self, shape: Shape, members: int, seed: int, device: str = "cpu", value_ranks: list[int] | None = None
    ) -> None:
        D, r = shape.width, shape.rank
        self.shape, self.members = shape, members
        self.steps, self.seconds = 0, 0.0
        self.mean: Any = 0.0
        self.std: Any = 1.0
        random = torch.Generator().manual_seed(seed)
        self.weights: dict[str, Tensor] = {}

        def draw(name: str, *size: int, scale: float) -> None:
            drawn = torch.randn(members, *size, generator=random) * scale
            self.weights[name] = drawn.to(device).requires_grad_()

        def linear(name: str, into: int, out: int) -> None:
            draw(f"{name}.weight", into, out, scale=1.0 / math.sqrt(into))
            draw(f"{name}.bias", 1, out, scale=0.0)

        linear("embed_1", shape.dim, D)
        draw("embed_1.bias", 1, D, scale=1.0)  # kinks all over the domain, not at 0 alone
        linear("embed_2", D, D)
        for layer in range(shape.layers):
            if r is None:
                linear(f"{layer}.inward", D, 3 * D)
            else:
                # Scores start at size 1, as in `transformer.py`.
                draw(f"{layer}.right", D, 3 * r, scale=1.0 / math.sqrt(D))
                draw(f"{layer}.left", 3 * r, D, scale=1.0 / math.sqrt(r))
            linear(f"{layer}.outward", D, D)
            linear(f"{layer}.up", D, 4 * D)
            linear(f"{layer}.down", 4 * D, D)
        linear("head", D, shape.out)
        self.open = None
        if value_ranks is not None:
            assert r is not None  # a value rank is one of low-rank attention
            self.open = (torch.arange(r) < torch.tensor(value_ranks)[:, None]).float()[:, None].to(device)

    @property
    def device(self) -> torch.device:
        return self.weights["head.weight"].device

    def __call__(self, X: Tensor) -> Tensor:
        """`(1 or E, P, n, d)` to `(E, P, n, m)`."""
        _, count, length, dim = X.shape
        x = X.reshape(len(X), -1, dim).expand(self.members, -1, -1)
        Z = self._linear("embed_2", functional.gelu(self._linear("embed_1", x)))
        for layer in range(self.shape.layers):
            Z = Z + self._attention(layer, functional.layer_norm(Z, Z.shape[-1:]), count, length)
            hidden = self._linear(f"{layer}.up", functional.layer_norm(Z, Z.shape[-1:]))
            Z = Z + self._linear(f"{layer}.down", functional.gelu(hidden))
        return self._linear("head", Z).view(self.members, count, length, -1)

    def _linear(self, name: str, Z: Tensor) -> Tensor:
        return torch.baddbmm(self.weights[f"{name}.bias"], Z, self.weights[f"{name}.weight"])

    def _attention(self, layer: int, Z: Tensor, count: int, length: int) -> Tensor:
        D, rank, heads = self.shape.width, self.shape.rank, self.shape.heads
        if rank is None:
            query, key, value = self._linear(f"{layer}.inward", Z).chunk(3, dim=-1)
        else:
            inner = torch.split(torch.bmm(Z, self.weights[f"{layer}.right"]), rank, dim=-1)
            left = torch.split(self.weights[f"{layer}.left"], rank, dim=1)
            if self.open is not None:
                inner = (inner[0], inner[1], inner[2] * self.open)
            query, key, value = (torch.bmm(z, w) for z, w in zip(inner, left, strict=True))
        query, key, value = (
            part.reshape(self.members, count, length, heads, D // heads).transpose(2, 3) for part in (query, key, value)
        )
        weights = (query @ key.mT / math.sqrt(D // heads)).softmax(-1)
        mixed = (weights @ value).transpose(2, 3).reshape(self.members, -1, D)
        return self._linear(f"{layer}.outward", mixed)

    @torch.no_grad()
    def predict(self, X: Any) -> Floats:
        """Answers `(E, P, n, m)` in units of the targets, block by block; `X` `(P, n, d)` or `(E, P, n, d)`."""
        points = torch.as_tensor(np.asarray(X), dtype=torch.float32, device=self.device)
        points = points[None] if points.ndim == 3 else points
        block = max(1, BLOCK // (self.members * points.shape[2] * 4 * self.shape.width))
        found = torch.cat([self(part).double().cpu() for part in torch.split(points, block, dim=1)], dim=1)
        answers: Floats = found.numpy() * self.std + self.mean
        return answers


def sail(fleet: Fleet, X: Floats, Y: Floats, which: list[int], rates: list[float], seconds: float, batch: int) -> None:
    """Train member `e` on target `which[e]` of `Y` `(T, P, n, m)` at points `X` `(P, n, d)`, at `rates[e]`.

    Targets are brought to mean 0 and size 1 by constants of each; the clock begins after a step that warms up.
    """
    device = fleet.device
    mean, std = Y.mean(axis=(1, 2, 3), keepdims=True), Y.std(axis=(1, 2, 3), keepdims=True)
    points = torch.as_tensor(X, dtype=torch.float32, device=device)
    wanted = torch.as_tensor((Y - mean) / std, dtype=torch.float32, device=device)
    member = torch.tensor(which, device=device)
    random = torch.Generator(device).manual_seed(0)
    adam = _Adam(fleet, rates)

    def step(factor: float) -> None:
        rows = torch.randint(len(points), (batch,), generator=random, device=device)
        error = fleet(points[rows][None]) - wanted[:, rows][member]
        adam.step(error.square().flatten(1).mean(1).sum(), factor)

    step(0.0)
    wait(device)
    began, part = time.perf_counter(), 0.0
    while part < 1.0:
        rise = min(1.0, part / WARM_UP + 1e-3)
        step(rise * (LAST + (1.0 - LAST) * 0.5 * (1.0 + math.cos(math.pi * part))))
        fleet.steps += 1
        if fleet.steps % 8 == 0:
            wait(device)  # a GPU works behind the program's back, and the clock is that of the work
        part = (time.perf_counter() - began) / seconds
    wait(device)
    fleet.seconds = time.perf_counter() - began
    fleet.mean, fleet.std = mean[which], std[which]


def best_of(groups: list[Any], errors: Floats) -> dict[Any, int]:
    """For each group the member `e` with the smallest of `errors` `(E,)`; `groups[e]` is its group."""
    best: dict[Any, int] = {}
    for member, group in enumerate(groups):
        if group not in best or errors[member] < errors[best[group]]:
            best[group] = member
    return best


class _Adam:
    """Adam with a rate for each member, and the gradient of each member clipped to norm 1."""

    def __init__(self, fleet: Fleet, rates: list[float]) -> None:
        self.weights = list(fleet.weights.values())
        self.first = [torch.zeros_like(weight) for weight in self.weights]
        self.second = [torch.zeros_like(weight) for weight in self.weights]
        self.rates = torch.tensor(rates, device=fleet.device)
        self.steps = 0

    def step(self, loss: Tensor, factor: float) -> None:
        gradients = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():
            squares = torch.stack([each.square().flatten(1).sum(1) for each in gradients]).sum(0)
            clip = squares.sqrt().clamp(min=1.0).reciprocal()
            gradients = [each * _shaped(clip, each) for each in gradients]
            self.steps += 1
            torch._foreach_lerp_(self.first, gradients, 0.1)
            torch._foreach_mul_(self.second, 0.999)
            torch._foreach_addcmul_(self.second, gradients, gradients, 0.001)
            scale = math.sqrt(1.0 - 0.999**self.steps)
            size = torch._foreach_sqrt(self.second)
            torch._foreach_add_(size, 1e-8)
            moved = torch._foreach_div(self.first, size)
            rate = self.rates * (-factor * scale / (1.0 - 0.9**self.steps))
            torch._foreach_add_(self.weights, [each * _shaped(rate, each) for each in moved])


def _shaped(numbers: Tensor, like: Tensor) -> Tensor:
    return numbers.view(-1, *[1] * (like.ndim - 1))
