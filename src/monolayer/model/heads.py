"""Heads without a first block: n − 1 heads of rank 1 look at the tokens themselves, and the readout finds the others.

Notation: `n` = 3 or 4 scalar tokens in [0, 1]; the stream of a token is `(1, x, what the heads write)`, `n + 1` long.
Head `h` shows every token `B(λ_h) = Σ_l x_l e^{λ_h x_l} / Σ_l e^{λ_h x_l}`. The head at 0 shows the mean, hence that of
the others; relative to it the others are given by `q = Σ y²` and `r = Σ y³` (0 for n = 3), which the other heads
determine (docs/first-block.md). `F` as in `theory/heads.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from monolayer.theory.heads import GAINS, HEAD_TEMPERATURES, MOST_SUMS, STEPS

CONSTANT, TOKEN, WRITTEN = 0, 1, 2
"""Coordinates of the stream: the constant 1, the token, and the first that the heads write."""
SERIES_TERMS = {3: 14, 4: 18}
"""By the number of tokens, terms of the series of `A` and `A'` that are added up: the rest is below 2^-56.

On the domain the roots are at most ½ in size for n = 3, with λ = ½, and 2/3 for n = 4, with λ = 1, so the terms of `A'`
that are left out sum up to less than `2·2 (½)^{27}/13!` and `2·3 (2/3)^{18}/17!`.
"""


class RankOneHeads(nn.Module):
    """`Z + Σ_h softmax(Q_h K_hᵀ) V_h W_O^hᵀ`; the matrices are `(H, D, D)`, of rank 1 for every head."""

    def __init__(self, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> None:
        super().__init__()
        self.W_Q, self.W_K = nn.Parameter(W_Q), nn.Parameter(W_K)
        self.W_V, self.W_O = nn.Parameter(W_V), nn.Parameter(W_O)

    @classmethod
    def at(cls, temperatures: tuple[float, ...]) -> RankOneHeads:
        """Heads that average the tokens at these inverse temperatures, each into a coordinate of its own."""
        count = len(temperatures)
        W_Q, W_K, W_V, W_O = (torch.zeros(count, count + 2, count + 2, dtype=torch.float64) for _ in range(4))
        for head, temperature in enumerate(temperatures):
            W_Q[head, TOKEN, CONSTANT], W_K[head, TOKEN, TOKEN] = temperature, 1.0
            W_V[head, TOKEN, TOKEN] = W_O[head, WRITTEN + head, TOKEN] = 1.0
        return cls(W_Q, W_K, W_V, W_O)

    def forward(self, Z: Tensor) -> Tensor:
        """The stream `(N, n, D)` with what all heads write."""
        written = torch.zeros_like(Z)
        for W_Q, W_K, W_V, W_O in zip(self.W_Q, self.W_K, self.W_V, self.W_O, strict=True):
            weights = ((Z @ W_Q.T) @ (Z @ W_K.T).transpose(1, 2)).softmax(dim=-1)
            written = written + (weights @ (Z @ W_V.T)) @ W_O.T
        return Z + written

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        return f"width={self.W_Q.shape[1]}, heads={len(self.W_Q)}, each of rank 1"


class PowerSums(NamedTuple):
    """The power sums `q` and `r` of the other tokens, relative to their mean."""

    q: Tensor
    r: Tensor


class OtherTokens(nn.Module):
    """The other tokens from the own one and what the heads show: a token-wise block, by iteration.

    `P ← P + G (F(P*) − F(P))`, cut to the domain, comes closer to the power sums `P*` by a fixed factor per step
    (`theory.heads.contraction`); the tokens are then the roots of `z² = q/2`, or of `z³ = (q/2) z + r/3`.
    `temperatures` `(n − 1,)`; `gain` `(3,)`, the `(g, a, b)` of `G = (g, ax; bx, g)`.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.temperatures = nn.Parameter(torch.tensor(HEAD_TEMPERATURES[length], dtype=torch.float64))
        self.gain = nn.Parameter(torch.tensor(GAINS[length], dtype=torch.float64))

    def forward(self, x: Tensor, shown: Tensor) -> Tensor:
        """Own tokens `(…, 1)` and heads `(…, n − 1)` to the other tokens `(…, n − 1)`, in rising order."""
        others = self.length - 1
        average = HEAD_TEMPERATURES[self.length].index(0.0)
        mean = (self.length * shown[..., average : average + 1] - x) / others
        own, heads = x - mean, shown - mean
        if self.length == 3:
            wanted = PowerSums(heads[..., 1:], torch.zeros_like(own))
        else:
            low, high = heads[..., :1], heads[..., 2:]
            wanted = PowerSums((high - low) / 2.0, high + low)
        return mean + self._roots(self._power_sums(own, wanted))

    def _power_sums(self, own: Tensor, wanted: PowerSums) -> PowerSums:
        """The power sums whose `F` is `wanted`."""
        most_q, most_r = MOST_SUMS[self.length]
        low, high = (torch.exp(self.temperatures[at] * own) for at in (0, -1))
        q, r = torch.full_like(own, most_q / 2.0), torch.zeros_like(own)
        gain, q_gain, r_gain = self.gain[0], self.gain[1] * own, self.gain[2] * own
        for _ in range(STEPS):
            shown = self._shown(own, low, high, PowerSums(q, r))
            miss = PowerSums(wanted.q - shown.q, wanted.r - shown.r)
            q = (q + (gain * miss.q + q_gain * miss.r)).clamp(0.0, most_q)
            r = (r + (r_gain * miss.q + gain * miss.r)).clamp(-most_r, most_r)
        return PowerSums(q, r)

    def _shown(self, own: Tensor, low: Tensor, high: Tensor, sums: PowerSums) -> PowerSums:
        """`F` at these power sums; `low`, `high` are `e^{λx}` at the lowest and the highest temperature."""
        lam = float(self.temperatures[-1].detach())
        third, second, first = torch.full_like(own, self.length - 1.0), torch.zeros_like(own), sums.q
        even, odd, even_slope, odd_slope = third, second, second, second  # by the parity of the power of λ
        for j in range(2, SERIES_TERMS[self.length]):
            term, slope = first * (lam**j / math.factorial(j)), first * (lam ** (j - 1) / math.factorial(j - 1))
            if j % 2:
                odd, even_slope = odd + term, even_slope + slope
            else:
                even, odd_slope = even + term, odd_slope + slope
            following = sums.r if j == 2 else sums.q / 2.0 * second + sums.r / 3.0 * third
            third, second, first = second, first, following
        top = (own * high + odd_slope + even_slope) / (high + even + odd)
        if self.length == 3:
            return PowerSums(top, torch.zeros_like(own))
        bottom = (own * low + even_slope - odd_slope) / (low + even - odd)
        return PowerSums((top - bottom) / 2.0, top + bottom)

    def _roots(self, sums: PowerSums) -> Tensor:
        """The numbers with these power sums and the sum 0, in rising order."""
        q, r = sums
        if self.length == 3:
            half = (q / 2.0).sqrt()
            return torch.cat([-half, half], dim=-1)
        size = q * q.sqrt()
        # Where all three are equal every angle will do.
        cosine = torch.where(size > 0.0, math.sqrt(6.0) * r / torch.where(size > 0.0, size, 1.0), 0.0)
        angle = torch.arccos(cosine.clamp(-1.0, 1.0))
        turns = torch.tensor([2.0, 4.0, 0.0], dtype=q.dtype, device=q.device) * math.pi
        return 2.0 * (q / 6.0).sqrt() * torch.cos((angle + turns) / 3.0)
