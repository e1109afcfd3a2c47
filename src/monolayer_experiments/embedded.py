"""Facts in the embedding: one fixed random network for all tokens, and what a token knows in its own row.

    stream    [u | e]: a random code `u` of signs and the facts `e` of a token, `k + f` numbers per row
    attends   c = u + gain · mean of the codes `u` of the sequence (logits 0, values of rank k)
    answers   label = A (relu(S c) ⊙ e), one number per bit of the class; logits are words · label

`S` and `A` are random signs, drawn once. A label is linear in `e`, so the row of a token is one convex problem over
the facts of that token alone: the least `e` with `bit · label ≥ |relu(S c)|` for every fact and bit, a perceptron of
largest margin. Nothing is trained. An edit changes one row.

`certain` bounds the share by which every weight may change at once: see its docstring for the proof.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from monolayer.arrays import Floats, Ints
from monolayer.errors import PrecisionError

CONTEXT_GAIN = 4.0
"""Weight of the mixture against the token's own code, in units of √n: what a token adds to itself is no context."""
TIGHT = 1e-9
"""A square of the margin below which facts do not fit."""


class Embedded(nn.Module):
    """One layer, one head: `embed` `(V, k + f)`, `W_V` `(k, k + f)`, `W_O` `(k + f, k)`, `S`, `A`, words of classes."""

    def __init__(self, codes: Tensor, facts: Tensor, S: Tensor, A: Tensor, words: Tensor, gain: float) -> None:
        super().__init__()
        k, width = codes.shape[1], codes.shape[1] + facts.shape[1]
        reads = torch.eye(k, width, dtype=codes.dtype)
        self.embed = nn.Parameter(torch.cat([codes, facts], dim=1))
        self.W_Q, self.W_K = (nn.Parameter(codes.new_zeros(1, width)) for _ in range(2))
        self.W_V, self.W_O = nn.Parameter(reads), nn.Parameter(gain * reads.T.clone())
        self.feed_forward_gate, self.feed_forward_down = nn.Parameter(S), nn.Parameter(A)
        self.head = nn.Parameter(words)

    def context(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The stream after attention: contexts `(N, n, k)` and facts `(N, n, f)`."""
        Z = self.embed[X]
        weights = torch.softmax((Z @ self.W_Q.T) @ (Z @ self.W_K.T).transpose(1, 2), dim=2)
        Z = Z + weights @ (Z @ self.W_V.T) @ self.W_O.T
        k = len(self.W_V)
        return Z[..., :k], Z[..., k:]

    def forward(self, X: Tensor) -> Tensor:
        """Logits `(N, n, C)`."""
        context, facts = self.context(X)
        label = (torch.relu(context @ self.feed_forward_gate.T) * facts) @ self.feed_forward_down.T
        return label @ self.head.T


def memorize_embedded(X: Ints, Y: Ints, rank: int, neurons: int, seed: int = 0) -> Embedded:
    """The network of sequences `X` `(N, n)` of different tokens and classes `Y` `(N, n)`; `rank` k, `neurons` f."""
    random = torch.Generator().manual_seed(seed)
    bits = max(1, int(Y.max()).bit_length())
    V, n = int(X.max()) + 1, X.shape[1]
    codes, S, A = (signs(random, *shape) for shape in ((V, rank), (neurons, rank), (bits, neurons)))
    words = 2.0 * ((torch.arange(int(Y.max()) + 1)[:, None] >> torch.arange(bits)) & 1).float() - 1.0
    S, A = S / math.sqrt(rank), A / math.sqrt(neurons)
    model = Embedded(codes, torch.zeros(V, neurons), S, A, words, CONTEXT_GAIN * math.sqrt(n))
    with torch.no_grad():
        hidden = torch.relu(model.context(torch.from_numpy(X))[0] @ S.T).flatten(0, 1)
        shown, read, bit = (part.double().numpy() for part in (hidden, A, words[torch.from_numpy(Y).flatten()]))
        model.embed[:, rank:] = torch.from_numpy(solve(shown, read, bit, X.reshape(-1), V))
    return model


def signs(random: torch.Generator, *shape: int) -> Tensor:
    return 2.0 * torch.randint(0, 2, shape, generator=random).float() - 1.0


def solve(hidden: Floats, A: Floats, bit: Floats, token: Ints, V: int) -> Floats:
    """Facts `(V, f)`, from what the neurons show at the points `(P, f)`, the bits wanted and the tokens there."""
    order = np.argsort(token, kind="stable")
    start = np.searchsorted(token[order], np.arange(V + 1))
    facts = np.zeros((V, hidden.shape[1]))
    for x in np.unique(token):
        point = order[start[x] : start[x + 1]]
        h = hidden[point] / np.linalg.norm(hidden[point], axis=1, keepdims=True)
        rows = (bit[point][..., None] * A * h[:, None, :]).reshape(-1, h.shape[1])
        facts[x] = least(rows)
    return facts


def least(rows: Floats) -> Floats:
    """The shortest `e` `(f,)` with `rows e ≥ 1`, by non-negative least squares (Lawson and Hanson's way).

    Let `u ≥ 0` bring `(rowsᵀ u, Σ u)` nearest to `(0, 1)`, and `r` be what is left: `e = −r[:f]/r[f]`. None if `r = 0`.
    """
    wide = np.concatenate([rows.T, np.ones((1, len(rows)))])
    goal = np.zeros(len(wide))
    goal[-1] = 1.0
    left = wide @ nnls(wide, goal, maxiter=100 * len(rows))[0] - goal
    if left[-1] > -TIGHT:
        raise PrecisionError(f"a token has {len(rows):,} bits to hold, too many for {rows.shape[1]:,} neurons")
    return np.asarray(-left[:-1] / left[-1])


def certain(model: Embedded, X: Ints, Y: Ints) -> float:
    """A share η such that every change of every weight by at most η of itself leaves every label right; 0: none found.

    Exact arithmetic is assumed. Write `tₘ = (1 + η)^m − 1`: a product of m weights changes by at most that share.
    A coordinate of the context is a sum of products of three weights or fewer, so it moves by at most `t₃ size`, `size`
    the sum of their absolute values, and the argument of a neuron by at most `p = t₄ |S| size`. A neuron whose argument
    is larger than p keeps its side, and where it is on it is linear. So with `w = Σ_on A e S`, a label moves by at most

        t₃ |w| size + Σ_on |A e| (t₂ |S c| + (1 + t₂) η |S| |c| + ((1 + t₂) η + t₂) t₃ |S| size)
                    + Σ_others |A e| (1 + t₂) (relu(S c) + p)

    The right class beats every other if `(1 − η) low_b > η Σ_{b' ≠ b} high_b'` for every bit b, `low` and `high` being
    what is left of a label, and the most it can be.
    """
    low, high = -6.0, -1.0
    while high - low > 0.01:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _survives(model, X, Y, 10.0**middle) else (low, middle)
    return float(10.0**low) if low > -6.0 else 0.0


@torch.no_grad()
def _survives(model: Embedded, X: Ints, Y: Ints, share: float) -> bool:
    S, A, words, embed = (
        part.double() for part in (model.feed_forward_gate, model.feed_forward_down, model.head, model.embed)
    )
    k, gain = S.shape[1], float(model.W_O.abs().max())
    t2, t3, t4 = ((1.0 + share) ** m - 1.0 for m in (2, 3, 4))
    for x, y in zip(torch.split(torch.from_numpy(X), 64), torch.split(torch.from_numpy(Y), 64), strict=True):
        u, e = embed[x][..., :k], embed[x][..., k:]
        c = u + gain * u.mean(1, keepdim=True)
        size = u.abs() + gain * u.abs().mean(1, keepdim=True)
        argument, sizes = c @ S.T, size @ S.abs().T
        on, moved = argument > t4 * sizes, t4 * sizes
        unsure = argument.abs() <= moved
        label = (torch.relu(argument) * e) @ A.T
        each = t2 * argument.abs() + (1.0 + t2) * share * (c.abs() @ S.abs().T)
        each = on * (each + ((1.0 + t2) * share + t2) * t3 * sizes)
        each = each + unsure * (1.0 + t2) * (torch.relu(argument) + moved)
        change = (each * e.abs()) @ A.abs().T
        for bit, row in enumerate(A):
            change[..., bit] += t3 * (((on * e * row) @ S).abs() * size).sum(-1)
        # A billionth of all terms is more than binary64 rounds here.
        least = label * words[y] - change - 1e-9 * ((torch.relu(argument) * e.abs()) @ A.abs().T)
        most = label.abs() + change
        if not ((1.0 - share) * least > share * (most.sum(-1, keepdim=True) - most)).all():
            return False
    return True
