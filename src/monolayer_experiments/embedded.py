"""Facts in the embedding: one fixed random network for all tokens, and what a token knows in its own row.

    stream    [u | e]: a random code `u` of signs and the facts `e` of a token, `k + f` numbers per row
    attends   c = u − n · mean of the codes of the sequence: minus the sum of the codes of the other tokens
    answers   label = A (gelu(S c) ⊙ e), one number per bit of the class; logits are words · label

`S` and `A` are random signs, drawn once; the patterns of signs that a neuron can have for the bits are equally frequent
in `A`. A label is linear in `e`, so the row of a token is one convex problem over the facts of that token alone: a
perceptron of wide margin (`widest`). Nothing is trained. An edit changes one row.

`certain` bounds the share by which every weight may change at once: see its docstring for the proof.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from monolayer.arrays import Floats, Ints
from monolayer.errors import DataError

ARGUMENT_SIZE = 1.5
"""Standard deviation of the arguments of the neurons; 1 to 2 were equally good in a trial on the data of `frontier`."""
SLACK = 0.002
"""Weight of the length of a row against its margins; chosen in a trial on the data of `frontier`, with relu."""
STEEPEST, MOST_BENT = 1.13, math.sqrt(2.0 / math.pi)
"""Bounds on |gelu'| (largest at √2: Φ(√2) + √2 φ(√2) < 1.13) and on |gelu''| = |φ(x)(2 − x²)| (largest at 0)."""


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
        label = (functional.gelu(context @ self.feed_forward_gate.T) * facts) @ self.feed_forward_down.T
        return label @ self.head.T


def memorize_embedded(X: Ints, Y: Ints, rank: int, neurons: int, seed: int = 0) -> Embedded:
    """The network of sequences `X` `(N, n)` of different tokens and classes `Y` `(N, n)`; `rank` k, `neurons` f.

    Where the facts of a token do not all fit into its row, some come back wrong: ask `recall`.
    """
    V, n = int(X.max()) + 1, X.shape[1]
    if n < 2:
        raise DataError("sequences of one token have no context; at least two tokens are wanted")
    random = torch.Generator().manual_seed(seed)
    bits = max(1, int(Y.max()).bit_length())
    codes, S = signs(random, V, rank), signs(random, neurons, rank)
    S = S * ARGUMENT_SIZE / math.sqrt(rank * (n - 1))  # each coordinate of a context has variance n − 1
    order = torch.randperm(neurons, generator=random) % 2**bits
    A = words_of(order, bits).T / math.sqrt(neurons)
    words = words_of(torch.arange(int(Y.max()) + 1), bits)
    model = Embedded(codes, torch.zeros(V, neurons), S, A, words, -float(n))
    with torch.no_grad():
        hidden = functional.gelu(model.context(torch.from_numpy(X))[0] @ S.T).flatten(0, 1)
        shown, read, bit = (part.double().numpy() for part in (hidden, A, words[torch.from_numpy(Y).flatten()]))
        model.embed[:, rank:] = torch.from_numpy(solve(shown, read, bit, X.reshape(-1), V))
    return model


def signs(random: torch.Generator, *shape: int) -> Tensor:
    return 2.0 * torch.randint(0, 2, shape, generator=random).float() - 1.0


def words_of(numbers: Tensor, bits: int) -> Tensor:
    """The binary digits of `numbers` `(C,)` as signs `(C, bits)`."""
    return 2.0 * ((numbers[:, None] >> torch.arange(bits)) & 1).float() - 1.0


def solve(hidden: Floats, A: Floats, bit: Floats, token: Ints, V: int) -> Floats:
    """Facts `(V, f)`, from what the neurons show at the points `(P, f)`, the bits wanted and the tokens there."""
    order = np.argsort(token, kind="stable")
    start = np.searchsorted(token[order], np.arange(V + 1))
    facts = np.zeros((V, hidden.shape[1]))
    read = A * math.sqrt(A.shape[1])
    for x in np.unique(token):
        point = order[start[x] : start[x + 1]]
        h = hidden[point] / np.linalg.norm(hidden[point], axis=1, keepdims=True)
        facts[x] = widest((bit[point][..., None] * read * h[:, None, :]).reshape(-1, h.shape[1]))
    return facts


def widest(rows: Floats, slack: float = SLACK) -> Floats:
    """The `e` `(f,)` with the least `slack |e|² + Σ max(0, 1 − row · e)²`: `rows e ≥ 1` as far as that can be.

    Newton's method on a function that is quadratic in pieces: exact as soon as the rows that fall short stay the same.
    """

    def cost(e: Floats) -> float:
        return float(slack * e @ e + np.sum(np.maximum(0.0, 1.0 - rows @ e) ** 2))

    e = np.zeros(rows.shape[1])
    short = np.ones(len(rows), dtype=bool)
    for _ in range(200):
        some = rows[short]
        aim = np.linalg.solve(some.T @ some + slack * np.eye(rows.shape[1]), some.sum(axis=0))
        step = 1.0
        while cost(e + step * (aim - e)) > cost(e) and step > 1e-9:
            step /= 2.0
        e = e + step * (aim - e)
        again = rows @ e < 1.0
        if step == 1.0 and np.array_equal(again, short):
            break
        short = again
    return e


def certain(model: Embedded, X: Ints, Y: Ints) -> float:
    """A share η such that every change of every weight by at most η of itself leaves every label right; 0: none found.

    Exact arithmetic is assumed. Write `tₘ = (1 + η)^m − 1`: a product of m weights changes by at most that share.
    A coordinate of the context is a sum of products of three weights or fewer, so it moves by at most `t₃ size`, `size`
    the sum of their absolute values, and the argument `a = S c` of a neuron by at most `p = t₄ |S| size`. By Taylor
    gelu moves by `gelu'(a)` times that, up to `½ MOST_BENT p²`. So with `w = Σ A e gelu'(a) S` a label moves by at most

        t₃ |w| size + Σ |A e| (|gelu'(a)| η |S| (|c| + t₃ size) + ½ MOST_BENT p² + t₂ (|gelu(a)| + STEEPEST p))

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
    k, gain = S.shape[1], float(torch.diagonal(model.W_O)[0])
    t2, t3, t4 = ((1.0 + share) ** m - 1.0 for m in (2, 3, 4))
    for x, y in zip(torch.split(torch.from_numpy(X), 64), torch.split(torch.from_numpy(Y), 64), strict=True):
        u, e = embed[x][..., :k], embed[x][..., k:]
        c = u + gain * u.mean(1, keepdim=True)
        size = u.abs() + abs(gain) * u.abs().mean(1, keepdim=True)
        argument, sizes = c @ S.T, size @ S.abs().T
        shown, moved = functional.gelu(argument), t4 * sizes
        density = torch.exp(-0.5 * argument**2) / math.sqrt(2.0 * math.pi)
        slope = torch.special.ndtr(argument) + argument * density
        each = slope.abs() * share * (c.abs() @ S.abs().T + t3 * sizes)
        each = each + 0.5 * MOST_BENT * moved**2 + t2 * (shown.abs() + STEEPEST * moved)
        change = (each * e.abs()) @ A.abs().T
        for bit, row in enumerate(A):
            change[..., bit] += t3 * (((slope * e * row) @ S).abs() * size).sum(-1)
        label = (shown * e) @ A.T
        # A billionth of all terms is more than binary64 rounds here.
        least = label * words[y] - change - 1e-9 * ((shown.abs() * e.abs()) @ A.abs().T)
        most = label.abs() + change
        if not ((1.0 - share) * least > share * (most.sum(-1, keepdim=True) - most)).all():
            return False
    return True
