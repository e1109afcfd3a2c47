"""The ordinary Transformers that are trained beside the constructions: `Tagger` on labels, `Approximator` on functions.

Pre-norm encoder layers with GELU; attention of full rank with many heads, or one head of rank `r`. `trainer.py` says
how a tagger is trained, `fleet.py` how many approximators are.

Notation: `N` sequences of at most `n` tokens, `D` the width, `r` the rank of `W_Q`, `W_K`, `W_V`, `C` classes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class TrainedAttention(nn.Module):
    """Softmax attention: multi-head of full rank, or one head of rank `r`. `(N, n, D)` to `(N, n, D)`."""

    def __init__(self, width: int, rank: int | None) -> None:
        super().__init__()
        self.heads = max(1, width // 32) if rank is None else 1
        self.rank = rank
        if rank is None:
            self.inward = nn.Linear(width, 3 * width)
        else:
            # Scores start at size 1: Bz has entries of size 1 for a normalized z, and A_Qᵀ A_K is of size √D.
            self.left = nn.Parameter(torch.randn(3, width, rank) / math.sqrt(rank))
            self.right = nn.Parameter(torch.randn(3, rank, width) / math.sqrt(width))
        self.outward = nn.Linear(width, width)

    def matrices(self) -> Tensor:
        """`W_Q`, `W_K`, `W_V`, stacked `(3, D, D)`."""
        if self.rank is None:
            return self.inward.weight.view(3, -1, self.inward.in_features)
        return self.left @ self.right

    def forward(self, Z: Tensor, inside: Tensor | None) -> Tensor:
        count, length, width = Z.shape
        parts = self.inward(Z) if self.rank is None else Z @ self.matrices().flatten(0, 1).T
        query, key, value = parts.view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = None if inside is None else inside[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        out: Tensor = self.outward(mixed.transpose(1, 2).reshape(count, length, width))
        return out


class Layer(nn.Module):
    """`Z + attention(norm Z)`, then `Z + feed_forward(norm Z)`."""

    def __init__(self, width: int, rank: int | None) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = TrainedAttention(width, rank)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, Z: Tensor, inside: Tensor | None) -> Tensor:
        """The stream after attention, before the feed-forward block."""
        out: Tensor = Z + self.attention(self.norm_1(Z), inside)
        return out

    def forward(self, Z: Tensor, inside: Tensor | None) -> Tensor:
        Z = self.attend(Z, inside)
        out: Tensor = Z + self.feed_forward(self.norm_2(Z))
        return out


class Tagger(nn.Module):
    """Embedding (and learned positions), encoder layers, linear head; on a GPU bfloat16, or TF32 for low rank."""

    def __init__(self, vocabulary: int, classes: int, layers: int, rank: int | None, width: int, places: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(places, width) if places else None
        self.layers = nn.ModuleList(Layer(width, rank) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        # With rank r the context travels in r numbers, and bfloat16 would cut each to 8 bits.
        self.mixed = rank is None

    def stream(self, X: Tensor) -> Tensor:
        """The stream before the first layer `(N, n, D)`."""
        Z: Tensor = self.embed(X)
        return Z if self.positions is None else Z + self.positions.weight[: X.shape[1]]

    def forward(self, X: Tensor, inside: Tensor | None = None) -> Tensor:
        """Logits `(N, n, C)`; `inside` `(N, n)` is False at padding."""
        with torch.autocast(X.device.type, torch.bfloat16, enabled=self.mixed and X.is_cuda):
            Z = self.stream(X)
            for layer in self.layers:
                Z = layer(Z, inside)
            logits: Tensor = self.head(self.norm(Z))
        return logits.float()


class Approximator(nn.Module):
    """A token-wise network of two layers, encoder layers, a linear head: `(P, n, d)` to `(P, n, m)`.

    With one layer this is *FF ∘ SA ∘ FF*, the shape of Proposition 1.
    """

    def __init__(self, layers: int, rank: int | None, width: int, dim: int, out: int) -> None:
        super().__init__()
        first = nn.Linear(dim, width)
        nn.init.normal_(first.bias)  # kinks all over the domain, not at 0 alone
        self.embed = nn.Sequential(first, nn.GELU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Layer(width, rank) for _ in range(layers))
        self.head = nn.Linear(width, out)

    def forward(self, X: Tensor) -> Tensor:
        Z = self.embed(X)
        for layer in self.layers:
            Z = layer(Z, None)
        answers: Tensor = self.head(Z)
        return answers


def width_for(parameters: int, vocabulary: int, classes: int, layers: int, rank: int | None, least: int) -> int:
    """The smallest multiple of 64, from `least`, at which a model has that many parameters or more."""
    width, square = least, (12 if rank is None else 9) * layers  # W_Q, W_K, W_V, W_O, and 8 of the feed-forward block
    while square * width * width + (vocabulary + classes) * width < parameters:
        width += 64
    return width
