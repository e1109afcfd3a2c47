"""One head of softmax attention with rank-1 weights.

Notation: the stream `Z` is `(N, n, D)`; `Q = Z W_Qᵀ`, `K = Z W_Kᵀ`, `V = Z W_Vᵀ`, and the layer is
`Z + softmax(Q Kᵀ) V W_Oᵀ`, as in the paper (no scaling). With rank 1, `Q Kᵀ` at query `k` and key `l` is
`λ_k s_l`, and the head returns the Boltzmann operator `B(λ_k; s) = Σ s_l e^{λ_k s_l} / Σ e^{λ_k s_l}`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from monolayer.model.device import recording

ONE, KEY, CODE, LABEL = 0, 1, 2, 3
"""Coordinates of the stream: the constant 1, the key `s`, the code `t` (later `z`), the first label slot.

`checker/network.py` has the same four by the same names, because the checker imports nothing of the model."""
Slots = Sequence[tuple[int, int]]
"""For every stage of a readout: the coordinate of the stream that attention averages, and the one it writes onto."""

SCORES_AT_ONCE = 1 << 22
"""Attention scores held at a time by the dense layer: 32 MiB in float64."""


def onto(Z: Tensor, written: Tensor, first: int) -> Tensor:
    """The stream `(…, D)` with `written` `(…, w)` added onto its coordinates from `first` on."""
    end = first + written.shape[-1]
    return torch.cat([Z[..., :first], Z[..., first:end] + written, Z[..., end:]], dim=-1)


class RankOneAttention(nn.Module):
    """`Z + softmax(Q Kᵀ) V W_Oᵀ`, one head; `W_Q`, `W_K`, `W_V`, `W_O` are real `(D, D)` matrices."""

    def __init__(self, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> None:
        super().__init__()
        self.W_Q, self.W_K = nn.Parameter(W_Q), nn.Parameter(W_K)
        self.W_V, self.W_O = nn.Parameter(W_V), nn.Parameter(W_O)

    @classmethod
    def constant_query(
        cls, width: int, temperature: float, kappas: Sequence[float], slots: Slots = ((KEY, CODE),)
    ) -> RankOneAttention:
        """The query reads `one`, so `λ_k = λ` for every token; a mean is written, times its `κ`, onto its coordinate.

        `slots`: for every stage the coordinate that is averaged and the one that the mean is written onto. With one
        stage, all four matrices have rank 1; with k, `W_V` and `W_O` have rank k.
        """
        W_Q, W_K, W_V, W_O = torch.zeros(4, width, width, dtype=torch.float64).unbind()
        W_Q[KEY, ONE], W_K[KEY, KEY] = temperature, 1.0
        for kappa, (value, code) in zip(kappas, slots, strict=True):
            W_V[value, value], W_O[code, value] = 1.0, kappa
        return cls(W_Q.clone(), W_K.clone(), W_V.clone(), W_O.clone())

    def forward(self, Z: Tensor, seen: Tensor, causal: bool = False) -> Tensor:
        """`Z` `(N, n, D)`; `seen` `(N or 1, 1, n)`: which keys there are; `causal`: a query sees none behind itself.

        By sequences and queries in blocks, so that memory grows with `N n`, not with `N n²`.
        """
        n = Z.shape[1]
        if recording() or len(Z) * n * n <= SCORES_AT_ONCE:
            return Z + self._written(Z, Z, seen, 0, causal)
        queries = max(1, min(n, SCORES_AT_ONCE // n))
        rows = max(1, SCORES_AT_ONCE // (n * queries))
        parts = []
        for z, keys in zip(torch.split(Z, rows), torch.split(seen.expand(len(Z), -1, -1), rows), strict=True):
            starts = range(0, n, queries)
            parts += [self._written(z[:, start : start + queries], z, keys, start, causal) for start in starts]
        # A block is some whole sequences, or some queries of one: in either case they follow each other.
        return Z + torch.cat([part.flatten(0, 1) for part in parts]).view(Z.shape)

    def _written(self, queries: Tensor, Z: Tensor, seen: Tensor, start: int, causal: bool) -> Tensor:
        """What attention adds at the places `start, start + 1, …`, whose stream is `queries` `(N, q, D)`."""
        scores = (queries @ self.W_Q.T) @ (Z @ self.W_K.T).transpose(1, 2)
        if causal:
            place = torch.arange(Z.shape[1], device=Z.device)
            seen = seen & (place <= place[start : start + queries.shape[1], None])
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        return (weights @ (Z @ self.W_V.T)) @ self.W_O.T

    @torch.no_grad()
    def shortcuts(self, slots: Slots) -> tuple[float, tuple[float, ...]] | None:
        """`λ` and the `κ` of every stage, if attention averages and writes these coordinates and no others; else None.

        `slots`: for every stage the coordinate that is averaged and the one that the mean is written onto. Then, for a
        stream with `one = 1`, a stage is `z = t + κ B(λ; s)`: one number per sequence, in O(n) rather than O(n²).
        """
        if not slots or self.W_Q.shape != self.W_O.shape:
            return None
        score, write = self.W_K.T @ self.W_Q[:, ONE], self.W_O @ self.W_V
        temperature, score[KEY] = score[KEY].item(), 0.0
        kappas = []
        for value, code in slots:
            kappas.append(write[code, value].item())
            write[code, value] = 0.0
        plain = not (self.W_Q[:, ONE + 1 :].any() or score.any() or write.any())
        return (temperature, tuple(kappas)) if plain else None

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        return f"width={self.W_Q.shape[1]}, heads=1, value rank {int(torch.linalg.matrix_rank(self.W_V))}"
