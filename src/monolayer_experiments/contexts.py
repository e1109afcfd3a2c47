"""Contexts that a readout may be given, the stream that it sees, a readout constructed on it, and the best of all.

Notation: `N` sequences of `n` tokens; a context is `k` numbers per token, `(N, n, k)`; `D` the width of the stream;
`transformer.py` has the model whose heads and streams are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import Floats, Ints
from monolayer.theory.corollary import possible
from monolayer_experiments.transformer import Tagger

FORMATS = ("float32", "float16", "bfloat16")


def untrained(vocabulary: int, classes: int, rank: int | None, width: int, seed: int) -> Tagger:
    """The model of one layer as it is before training from that seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Tagger(vocabulary, classes, 1, rank, width, 0)


def constructed(X: Ints, vocabulary: int, k: int, seed: int) -> Floats:
    """`c` `(N, n, k)` of one head with a constant query: random keys, the key as the first value, random others."""
    table = np.random.default_rng([seed, 3]).uniform(-1.0, 1.0, (k, vocabulary))
    weights = np.exp(table[0][X])
    c = (table[:, X] * weights).sum(-1) / weights.sum(-1)
    return np.repeat(c.T[:, None], X.shape[1], axis=1)


def of_first_head(model: Tagger, X: Ints) -> Floats:
    """What the rank-1 head of the first layer adds to each token, along its one direction, `(N, n, 1)`."""
    with torch.no_grad():
        layer: Any = model.double().layers[0]
        Z = layer.norm_1(model.stream(torch.from_numpy(X)))
        W_Q, W_K, _ = layer.attention.matrices()
        weights = ((Z @ W_Q.T) @ (Z @ W_K.T).mT / W_Q.shape[0] ** 0.5).softmax(-1)
        found: Floats = (weights @ (Z @ layer.attention.right[2].T)).numpy()
        model.float()
    return found


def any_readout(features: Floats, Y: Ints) -> dict[str, float]:
    """What the best of all readouts could return from features in each format; whole numbers are ids, and kept."""
    seen, whole = torch.from_numpy(features), features == np.round(features)
    rounded = {name: seen.to(getattr(torch, name)).double().numpy() for name in FORMATS}
    return {name: possible(np.where(whole, features, values), Y.ravel()) for name, values in rounded.items()}


@torch.no_grad()
def after_attention(model: Tagger, X: Ints) -> Floats:
    """The stream after the last attention `(N, n, D)`."""
    Z = model.stream(torch.from_numpy(np.ascontiguousarray(X)))
    *before, last = model.layers
    for layer in before:
        Z = layer(Z, None)
    found: Floats = last.attend(Z, None).numpy()  # type: ignore[operator]
    return found


def constructed_readout(features: Floats, again: Floats, Y: Ints, seed: int) -> float:
    """The share of labels that a readout in the way of the proof returns on the features `a` of any attention.

    A random direction `w` makes one number `z = wᵀa` of every token, the numbers are sorted, and a step between each
    two neighbours returns the label of each. It is read at `z` computed `again`, the same number but for rounding.
    """
    direction = np.random.default_rng(seed).standard_normal(features.shape[-1])
    z, label = (features @ direction).ravel(), Y.ravel()
    order = np.argsort(z)
    steps = (z[order][1:] + z[order][:-1]) / 2.0
    answer = label[order][np.searchsorted(steps, (again @ direction).ravel())]
    return float((answer == label).mean())


class ReadoutAlone(nn.Module):
    """The readout of the trained model with its token embedding: `embed(x) + W c`, feed-forward block, head."""

    def __init__(self, vocabulary: int, classes: int, width: int, k: int) -> None:
        super().__init__()
        self.embed, self.context = nn.Embedding(vocabulary, width), nn.Linear(k, width)
        nn.init.normal_(self.context.weight)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, X: Tensor, inside: Tensor | None = None) -> Tensor:
        Z = self.embed(X[..., 0].long()) + self.context(X[..., 1:])
        logits: Tensor = self.head(self.norm_2(Z + self.feed_forward(self.norm_1(Z))))
        return logits
