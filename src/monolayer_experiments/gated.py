"""Gates of rank one, as a yardstick: each token is a cell with steps of its own over one number of context.

A token has a word of `m` signs, half of them +, a random key, and its first label; attention returns the mean of the
keys, one number `c` a sequence. A step of token `a` reads `G (⟨p_a, p⟩ − m) + c`: two words differ in two signs or
more, so elsewhere it is at least `4G` lower, below every threshold, and adds 0. In its cell it rises between two
neighbouring contexts with different labels, by their difference. One neuron a step: `relu6`, which is 0, a ramp, and 6.
"""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_HIDDEN_AT_ONCE = 1 << 24
GATE = 1.0
"""`G`: contexts lie in [0, 1], so 4 is more than enough."""


class GatedSteps(nn.Module):
    """Stream of a token: word `(m,)`, key, label; `feed_forward_1` `(H, m + 2)` with its constant, `_2` `(H,)`."""

    def __init__(self, X: Any, Y: Any, seed: int = 0) -> None:
        super().__init__()
        tokens, classes = int(X.max()) + 1, int(Y.max()) + 1
        m = next(m for m in range(2, 64, 2) if comb(m, m // 2) >= tokens)
        word = torch.full((tokens, m), -1.0, dtype=torch.float64)
        for row, chosen in enumerate(islice(combinations(range(m), m // 2), tokens)):
            word[row, list(chosen)] = 1.0
        key = torch.from_numpy(np.random.default_rng(seed).random(tokens))
        context = key[torch.from_numpy(X)].mean(1).repeat_interleave(X.shape[1])
        # Contexts fill [0, 1]: what is left of it decides the gaps.
        low, high = float(context.min()), float(context.max())
        key = (key - low) / (high - low)
        context = (context - low) / (high - low)
        cell, label = X.reshape(-1), Y.reshape(-1)
        order = np.lexsort((context.numpy(), cell))
        change = np.flatnonzero((np.diff(cell[order]) == 0) & (np.diff(label[order]) != 0))
        before, after = order[change], order[change + 1]
        gap = context[after] - context[before]
        slope = 12.0 / gap  # the ramp takes half of its gap
        reads = slope[:, None] * torch.cat([GATE * word[cell[before]], torch.ones_like(slope)[:, None]], dim=1)
        start = torch.zeros(tokens, dtype=torch.float64)
        first = order[np.append(True, np.diff(cell[order]) != 0)]
        start[cell[first]] = torch.from_numpy(label[first]).double()
        lift = torch.cat([word, key[:, None], start[:, None]], dim=1)
        number = torch.arange(classes, dtype=torch.float64)
        self.lift = nn.Parameter(lift)
        self.attention = nn.Parameter(torch.eye(lift.shape[1], dtype=torch.float64)[m])  # reads and writes the key
        self.feed_forward_1 = nn.Parameter(reads)
        constant = -slope * (GATE * m + (context[after] + context[before]) / 2.0) + 3.0
        self.feed_forward_b = nn.Parameter(constant)
        self.feed_forward_2 = nn.Parameter(torch.from_numpy((label[after] - label[before]) / 6.0))
        self.head = nn.Parameter(torch.stack([2.0 * number, -(number**2)], dim=1))

    def forward(self, X: Tensor) -> Tensor:
        """Logits `(N, n, C)` of ids `(N, n)`."""
        stream = self.lift[X]
        context = (stream @ self.attention).mean(1, keepdim=True).expand(X.shape)
        read = torch.cat([stream[..., :-2], context[..., None]], dim=-1).reshape(-1, stream.shape[-1] - 1)
        rows = max(1, _HIDDEN_AT_ONCE // max(1, len(self.feed_forward_b)))
        steps = [
            nn.functional.relu6(part @ self.feed_forward_1.T + self.feed_forward_b) @ self.feed_forward_2
            for part in torch.split(read, rows)
        ]
        label = stream[..., -1] + torch.cat(steps).reshape(X.shape)
        return label[..., None] * self.head[:, 0] + self.head[:, 1]
