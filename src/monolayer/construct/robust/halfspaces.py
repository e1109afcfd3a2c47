"""Widest half-spaces, many at once: one convex problem per column, each with a certificate of its own.

A problem is a set of points `z` with signs `T`: +1 for the facts that must lie inside the half-space, −1 for those that
must lie outside, 0 for the rest. The widest slab between the two kinds solves the hard-margin problem

    minimize |w|²  subject to  T (Z w + b) ≥ 1,      half-width κ* = 1/|w*|.

*Primal*: any `w` gives the half-width `κ(w) = (min₊ z·w − max₋ z·w) / 2|w|` that it really has. *Dual*: any point of
the hull of one kind and any point of the other are at least `2κ*` apart, and the multipliers of the iteration are such
points, so a width that cannot be reached is known before the iteration has converged. The iteration is ADMM with
relaxation. No more than `p + 1` points carry a solution, so every problem is solved on its own hardest points, and each
answer is measured on all points of its cell; problems of many cells, of one size, are one batch.

Letters: `B` cells, `N` points in each (padded), `p` features, `G` columns, `C` open problems, `R` of their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

PENALTY = 0.1
"""ρ of the iteration; it decides speed only. Good between 0.03 and 0.2 for features of size 1."""
INTERCEPT = 3.0
"""The constant feature that stands for `b` in the iteration, which shrinks `b / 3` a little; the slab does not."""
RELAX = 1.6
"""Over-relaxation of the iteration, in (1, 2)."""
LOOKS = (12, 24, 64)
"""Iterations after which problems are looked at: those wide enough, or known to be hopeless, are done."""
HARDEST_ROWS = (128, 192)
"""Points that a problem is solved on: the hardest ones; then again with as many, those chosen before among them."""
PROBLEMS_AT_ONCE = 32
"""Problems that are iterated together: their matrices stay in the cache from one iteration to the next."""
ALIGNED = 16
"""Rows are padded to a multiple of this: the bits of a product may depend on where a matrix begins."""


class Slabs(NamedTuple):
    """Unit normals `(B, p, G)`, the points' heights `(B, N, G)` along them, the slabs' ends `(B, 1, G)`."""

    normal: Tensor
    height: Tensor
    low: Tensor
    """Largest height of a point with sign −1."""
    high: Tensor
    """Smallest height of a point with sign +1."""

    @property
    def half_width(self) -> Tensor:
        """Half of the width of every slab `(B, G)`."""
        return ((self.high - self.low) / 2.0)[:, 0]


def widest(Z: Tensor, T: Tensor, enough: float, check: Callable[[], None] = lambda: None) -> Slabs:
    """Slabs for points `Z` `(B, N, p)` with signs `T` `(B, N, G)`, as wide as they come, or at least `enough`.

    Rows of padding are zero in `Z` and `T`; so are columns without a problem. What comes out for a cell depends on the
    cell alone, not on the others of the batch. `check` is called every few iterations, and may raise to give up.
    """
    # The start: a least squares fit of the signs, every kind with the same weight.
    inside, outside = T > 0, T < 0
    share = [kind.sum(1, keepdim=True).clamp_min(1).reciprocal() for kind in (inside, outside)]
    fit = torch.where(inside, share[0], torch.where(outside, -share[1], 0.0))
    gram = Z.transpose(1, 2) @ Z / Z.shape[1] + 0.05 * torch.eye(Z.shape[2])
    best = latest = _look(Z, T, torch.linalg.solve(gram, Z.transpose(1, 2) @ fit))
    unsettled = (best.half_width < enough) & T.any(1)
    chosen = torch.zeros_like(T, dtype=torch.bool)
    for most in HARDEST_ROWS:
        cell, column = torch.nonzero(unsettled, as_tuple=True)
        if len(cell) == 0:
            break
        rows = _hardest(T, latest, chosen, (cell, column), min(most, T.shape[1]))
        normal = latest.normal.clone()
        for some in torch.arange(len(cell)).split(PROBLEMS_AT_ONCE):
            b, g, row = cell[some], column[some], rows[some]
            signs = T[b[:, None], row, g[:, None]]
            w, hopeless = _iterate(Z[b[:, None], row], signs, normal[b, :, g], enough, check)
            normal[b, :, g] = w
            unsettled[b, g] = ~hopeless
        latest = _look(Z, T, normal)
        best = _wider(latest, best)
        unsettled &= best.half_width < enough
        if most >= T.shape[1]:
            break
    return best


def padded(size: int, step: int = 2) -> int:
    """The size that `size` rows or columns are padded to, so that many cells share it: a quarter more, or to `step`.

    A function of the size alone: a matrix product has the same bits in every batch, but not in every shape.
    """
    step = max(step, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def _look(Z: Tensor, T: Tensor, w: Tensor) -> Slabs:
    # One layout in memory whatever came before: a product's bits depend on it.
    normal = (w / w.norm(dim=1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)).contiguous()
    height = Z @ normal
    low = torch.where(T < 0, height, -torch.inf).amax(1, keepdim=True)
    high = torch.where(T > 0, height, torch.inf).amin(1, keepdim=True)
    # A column without facts on one side has no slab: its ends are those of the other side.
    low = torch.where(low.isinf(), high - 2.0, low)
    return Slabs(normal, height, low, high)


def _wider(one: Slabs, two: Slabs) -> Slabs:
    better = (one.half_width > two.half_width)[:, None]
    return Slabs(*(torch.where(better, *parts) for parts in zip(one, two, strict=True)))


def _hardest(T: Tensor, slabs: Slabs, chosen: Tensor, problems: tuple[Tensor, Tensor], count: int) -> Tensor:
    """Rows `(C, count)` of some problems: those chosen before, which `chosen` says, and the deepest on the wrong side.

    Problems are the cells `problems[0]` and columns `problems[1]`, both `(C,)`.
    """
    cell, column = problems
    sign, before = (part.transpose(1, 2)[cell, column] for part in (T, chosen))
    centre = ((slabs.high + slabs.low) / 2.0)[cell, 0, column]
    depth = sign * (slabs.height.transpose(1, 2)[cell, column] - centre[:, None])
    depth = depth.masked_fill(sign == 0, torch.inf).masked_fill(before, -torch.inf)
    rows = depth.topk(count, dim=1, largest=False).indices
    chosen[cell[:, None], rows, column[:, None]] = True
    return rows


def _iterate(Z: Tensor, T: Tensor, start: Tensor, enough: float, check: Callable[[], None]) -> tuple[Tensor, Tensor]:
    """`w` `(C, p)` for points `(C, R, p)` with signs `(C, R)`, and which problems `(C,)` cannot be `enough` wide."""
    # With every row times its sign the constraint is A w ≥ 1. Rows without a sign are zero, and pull nowhere.
    A = torch.cat([Z, torch.full_like(Z[..., :1], INTERCEPT)], dim=2) * T[..., None]
    inside, outside = (T > 0)[:, None], (T < 0)[:, None]
    factor = torch.linalg.inv(A.transpose(1, 2) @ A + torch.eye(A.shape[2]) / PENALTY) @ A.transpose(1, 2)
    # State q: the constraint's slack is relu(q), its multiplier relu(−q). One iteration is w = factor (1 + |q|) and
    # q ← q + RELAX (A w − relu(q) − 1). Since relu(q) = (q + |q|) / 2, it is one product, of a symmetric matrix.
    step = torch.diag_embed(torch.full_like(T, -RELAX / 2.0)).add_(A @ factor, alpha=RELAX)
    # Vectors are rows in every product: with a column, its bits depend on how many problems there are.
    q = start[:, None] @ A[..., :-1].transpose(1, 2)
    q = q / q.abs().mean(2, keepdim=True).clamp_min(1e-6) - 1.0
    problem, done = torch.arange(len(A)), 0
    weights, lost = start.clone(), torch.zeros(len(A), dtype=torch.bool)
    for look in LOOKS:
        check()
        aim = torch.empty_like(q)  # in memory that the cache holds from one iteration to the next
        for _ in range(look - done):
            torch.abs(q, out=aim).add_(1.0)
            q.baddbmm_(aim, step, beta=1.0 - RELAX / 2.0).sub_(RELAX / 2.0)
        done = look
        w = (q.abs() + 1.0) @ factor.transpose(1, 2)
        pull = [
            side / side.sum(2, keepdim=True).clamp_min(1e-9) for side in ((-q).relu() * inside, (-q).relu() * outside)
        ]
        sure = torch.minimum(pull[0].sum(2), pull[1].sum(2))[:, 0] > 0.5
        apart = ((pull[0] + pull[1]) @ A[..., :-1]).norm(dim=2)[:, 0]
        hopeless = sure & (apart < 2.0 * enough)
        height = w @ A.transpose(1, 2)
        low, high = (torch.where(kind, height, torch.inf).amin(2)[:, 0] for kind in (outside, inside))
        w = w[:, 0, :-1]
        wide = low + high >= 2.0 * enough * w.norm(dim=1)
        weights[problem], lost[problem] = w, hopeless
        going = ~(wide | hopeless)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            problem, A, factor, step, q, inside, outside = (
                part[going] for part in (problem, A, factor, step, q, inside, outside)
            )
    return weights, lost
