"""Value rank k: one softmax returns k numbers, and a readout in k stages uses one after the other.

The stream of a line, `(one, key, code, label …)`, goes on with a value and a code for each further stage:

    one  key  code  label …  value_2  code_2  value_3  code_3 …

Attention has scores of rank 1, one query and one key, and values of rank k: it writes `κ_j c_j` onto `code_j`, where
`c_j` is the mean of value `j` (the first is the key) under the one softmax. Stage `j` reads `code_j`. Onto the label it
writes what it knows, and onto `code_{j+1}` the number of a *stretch* of its line. Points that it could not tell apart
share a stretch of their own, and stage `j + 1` tells them apart; all other stretches are flat there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from monolayer.model.attention import CODE, KEY, LABEL, ONE, RankOneAttention
from monolayer.model.staircase import Staircase, Steps


def value_slot(stage: int, labels: int) -> int:
    """The coordinate that holds what stage `stage`, from 1, averages; `labels` is `m`."""
    return KEY if stage == 1 else LABEL + labels + 2 * (stage - 2)


def code_slot(stage: int, labels: int) -> int:
    """The coordinate that it reads."""
    return CODE if stage == 1 else value_slot(stage, labels) + 1


def stream_width(rank: int, labels: int) -> int:
    """`D`."""
    return LABEL + labels + 2 * (rank - 1)


class CascadeAttention(RankOneAttention):
    """One head with one query and one key; `W_V` and `W_O` `(D, D)` have rank k."""

    @classmethod
    def values(cls, temperature: float, kappas: Sequence[float], labels: int) -> CascadeAttention:
        """The query reads `one`, so `λ_k = λ` for every token; value `j` is written, times `κ_j`, onto code `j`."""
        width = stream_width(len(kappas), labels)
        W_Q, W_K, W_V, W_O = torch.zeros(4, width, width, dtype=torch.float64).unbind()
        W_Q[KEY, ONE], W_K[KEY, KEY] = temperature, 1.0
        for stage, kappa in enumerate(kappas, 1):
            value = value_slot(stage, labels)
            W_V[value, value], W_O[code_slot(stage, labels), value] = 1.0, kappa
        return cls(W_Q.clone(), W_K.clone(), W_V.clone(), W_O.clone())

    def shortcut(self) -> tuple[float, float] | None:
        """None: this attention makes more than one number of a sequence; `shortcuts` has them."""
        return None

    @torch.no_grad()
    def shortcuts(self, rank: int, labels: int) -> tuple[float, tuple[float, ...]] | None:
        """`λ` and `κ_1 … κ_k` if attention reads and writes what it was built to, and nothing else; else None."""
        score, write = self.W_K.T @ self.W_Q[:, ONE], self.W_O @ self.W_V
        temperature, score[KEY] = score[KEY].item(), 0.0
        kappas = []
        for stage in range(1, rank + 1):
            at = code_slot(stage, labels), value_slot(stage, labels)
            kappas.append(write[at].item())
            write[at] = 0.0
        plain = not (self.W_Q[:, ONE + 1 :].any() or score.any() or write.any())
        return (temperature, tuple(kappas)) if plain else None

    def extra_repr(self) -> str:
        return f"width={len(self.W_Q)}, heads=1, value rank {int(torch.linalg.matrix_rank(self.W_V))}"


class Cascade(nn.Module):
    """Residual feed-forward blocks, one a stage: `labels` coordinates each, and a stretch's number but for the last.

    Every stage is the staircase of the line, `exact` for classes and `runs` for real labels. A label is the sum of what
    the stages write: whole numbers for classes; for real labels all but one are 0.
    """

    readout = "cascade"

    def __init__(self, stages: Sequence[Staircase], labels: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.labels = labels

    @property
    def stairs(self) -> list[Staircase]:
        """The stages."""
        return [cast("Staircase", stage) for stage in self.stages]

    @property
    def rank(self) -> int:
        """`k`."""
        return len(self.stages)

    @property
    def bias_2(self) -> Tensor:
        """Of the last stage, which writes the label alone: `(m,)`, as in every readout."""
        return self.stairs[-1].bias_2

    @property
    def step_count(self) -> int:
        """`R`, all stages together."""
        return sum(stage.step_count for stage in self.stairs)

    def forward(self, Z: Tensor) -> Tensor:
        """`(…, D)` to `(…, D)`, stage by stage."""
        end = LABEL + self.labels
        for number, stage in enumerate(self.stairs, 1):
            found = stage.dense(Z[..., code_slot(number, self.labels)].flatten())
            found = found.view(*Z.shape[:-1], found.shape[-1])
            parts = [Z[..., :LABEL], Z[..., LABEL:end] + found[..., : self.labels]]
            if number < self.rank:
                onto = code_slot(number + 1, self.labels)
                parts += [Z[..., end:onto], Z[..., onto : onto + 1] + found[..., self.labels :], Z[..., onto + 1 :]]
            else:
                parts.append(Z[..., end:])
            Z = torch.cat(parts, dim=-1)
        return Z

    def steps(self) -> None:
        """None: one table does not say it all; `tables` has one a stage."""
        return

    def tables(self) -> tuple[Steps, ...] | None:
        """Every stage as a table for binary search, or None if one of them is no staircase (any more)."""
        found = [stage.steps() for stage in self.stairs]
        return None if None in found else tuple(steps for steps in found if steps is not None)

    def extra_repr(self) -> str:
        return f"rank={self.rank}, labels={self.labels}"
