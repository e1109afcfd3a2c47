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

from collections.abc import Callable, Iterator
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
        # Columns of a small cell share its points, and with them one factor; one of a large cell has rows of its own.
        whole = T.shape[1] <= most
        normal = latest.normal.clone()
        for cell, g in _columns_together(unsettled) if whole else _columns_alone(unsettled):
            b = cell[:, None]
            signs = T.transpose(1, 2)[b, g] * unsettled[b, g][..., None]
            if whole:
                points = Z[cell]
            else:
                rows = _hardest(signs, latest, chosen, (b, g), most)
                points, signs = Z[b, rows], signs.gather(2, rows[:, None])
            w, hopeless = _iterate(points, signs, normal.transpose(1, 2)[b, g], enough, check)
            normal.transpose(1, 2)[b, g] = w
            unsettled[b, g] &= ~hopeless
        latest = _look(Z, T, normal)
        best = _wider(latest, best)
        unsettled &= best.half_width < enough
        if whole or not bool(unsettled.any()):
            break
    return best


def padded(size: int, step: int = 2) -> int:
    """The size that `size` rows or columns are padded to, so that many cells share it: a quarter more, or to `step`.

    A function of the size alone: a matrix product has the same bits in every batch, but not in every shape.
    """
    step = max(step, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def _columns_together(wanted: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cells `(C,)` with similar numbers of wanted columns `(B, G)`, and columns `(C, G')` that include these."""
    most = wanted.sum(1).tolist()
    size = torch.tensor([min(padded(count), wanted.shape[1]) if count else 0 for count in most])
    order = wanted.to(torch.int8).sort(dim=1, descending=True, stable=True).indices
    for width in sorted(set(size.tolist()) - {0}):
        some = torch.nonzero(size == width)[:, 0]
        yield some, order[some, :width]


def _columns_alone(wanted: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The wanted columns `(B, G)`, some at a time: their cells `(C,)`, and themselves `(C, 1)`."""
    for part in torch.nonzero(wanted).split(PROBLEMS_AT_ONCE):  # type: ignore[no-untyped-call]
        yield part[:, 0], part[:, 1:]


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
    """Rows `(C, count)` of problems with signs `(C, 1, N)`: those in `chosen`, and the deepest on the wrong side.

    Problems are given by their cells and columns, both `(C, 1)`.
    """
    cell, column = problems
    before = chosen.transpose(1, 2)[cell, column]
    centre = ((slabs.high + slabs.low) / 2.0)[cell, 0, column]
    depth = T * (slabs.height.transpose(1, 2)[cell, column] - centre[..., None])
    depth = depth.masked_fill(T == 0, torch.inf).masked_fill(before, -torch.inf)
    rows = depth[:, 0].topk(count, dim=1, largest=False).indices
    chosen[cell, rows, column] = True
    return rows


def _iterate(Z: Tensor, T: Tensor, start: Tensor, enough: float, check: Callable[[], None]) -> tuple[Tensor, Tensor]:
    """`w` `(C, G, p)` for points `(C, R, p)` with signs `(C, G, R)`; and which columns `(C, G)` are hopeless.

    Columns are rows here: the bits of a product with one column depend on how many problems there are.
    """
    Za = torch.cat([Z, torch.full_like(Z[..., :1], INTERCEPT)], dim=2) * T.any(1)[..., None]
    Zt = Za.transpose(1, 2).contiguous()
    factor = Za @ torch.linalg.inv(Zt @ Za + torch.eye(Za.shape[2]) / PENALTY)
    # State q: the constraint's slack is relu(q), its multiplier relu(−q). The target of `w Zᵀ` is T (1 + |q|); rows
    # without a sign keep their value.
    unsigned = (T == 0) & T.any(2, keepdim=True) & T.any(1, keepdim=True)
    free = unsigned.to(T) if bool(unsigned.any()) else None
    height = start @ Z.transpose(1, 2)
    q = T * height
    q = q / q.abs().mean(2, keepdim=True).clamp_min(1e-6) - 1.0
    # A problem is left alone as soon as all of its columns are wide enough or hopeless, whatever the others do.
    problem, done = torch.arange(len(Z)), 0
    weights, lost = start.clone(), torch.zeros_like(T[..., 0], dtype=torch.bool)
    for look in LOOKS:
        check()
        # In place, in memory that the cache holds from one iteration to the next.
        aim, slack, height = torch.empty_like(q), torch.empty_like(q), height.contiguous()
        w = q.new_empty(*q.shape[:2], Za.shape[2])
        for _ in range(look - done):
            torch.abs(q, out=aim).add_(1.0).mul_(T)
            torch.bmm(aim if free is None else aim.addcmul_(free, height), factor, out=w)
            torch.bmm(w, Zt, out=height)
            torch.mul(T, height, out=aim).sub_(torch.clamp(q, min=0.0, out=slack)).sub_(1.0)
            q.add_(aim, alpha=RELAX)
        done = look
        pull = [
            side / side.sum(2, keepdim=True).clamp_min(1e-9) for side in ((-q).relu() * (T > 0), (-q).relu() * (T < 0))
        ]
        sure = torch.minimum(pull[0].sum(2), pull[1].sum(2)) > 0.5
        apart = ((pull[0] - pull[1]) @ Za[..., :-1]).norm(dim=2)
        hopeless = sure & (apart < 2.0 * enough)
        low = torch.where(T < 0, height, -torch.inf).amax(2)
        high = torch.where(T > 0, height, torch.inf).amin(2)
        wide = high - low >= 2.0 * enough * w[..., :-1].norm(dim=2)
        weights[problem], lost[problem] = w[..., :-1], hopeless
        going = ~(wide | hopeless | ~T.any(2)).all(1)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            problem, Za, Zt, T, factor, q, height = (part[going] for part in (problem, Za, Zt, T, factor, q, height))
            free = None if free is None else free[going]
    return weights, lost
