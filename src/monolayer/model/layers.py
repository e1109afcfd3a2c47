"""Ready-made weights as standard layers.

Not by way of the meta device: its first use in a process imports PyTorch's whole compiler, over a second.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """An `nn.Linear` with weight `(out, in)` and bias `(out,)`."""
    with torch.random.fork_rng(devices=[]):  # its own random weights are thrown away: the caller's stream goes on
        layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    return layer


def embedding(weight: Tensor) -> nn.Embedding:
    """An `nn.Embedding` with the rows of `weight` `(V, D)`."""
    return nn.Embedding(weight.shape[0], weight.shape[1], _weight=weight)
