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
SHARED_ROWS = 512
"""Points of a cell, at most, that many problems are solved on together: one factor for all of them saves more than few
rows do. With more points the iteration takes longer to settle, and 64 of it find narrower slabs."""
PROBLEMS_AT_ONCE = 32
"""Problems that are iterated together: their matrices stay in the cache from one iteration to the next."""
ALIGNED = 16
"""Rows are padded to a multiple of this: the bits of a product may depend on where a matrix begins."""


class Slabs(NamedTuple):
    """Unit normals `(B, G, p)`, the points' heights `(B, G, N)` along them, the slabs' ends `(B, G, 1)`."""

    normal: Tensor
    height: Tensor
    low: Tensor
    """Largest height of a point with sign −1."""
    high: Tensor
    """Smallest height of a point with sign +1."""

    @property
    def half_width(self) -> Tensor:
        """Half of the width of every slab `(B, G)`."""
        return ((self.high - self.low) / 2.0)[..., 0]


def widest(Z: Tensor, T: Tensor, enough: float, check: Callable[[], None] = lambda: None) -> Slabs:
    """Slabs for points `Z` `(B, N, p)` with signs `T` `(B, G, N)`, as wide as they come, or at least `enough`.

    Rows of padding are zero in `Z` and `T`; so are columns without a problem. What comes out for a cell depends on the
    cell alone, not on the others of the batch. `check` is called every few iterations, and may raise to give up.
    """
    # The start: a least squares fit of the signs, every kind with the same weight.
    inside, outside = T > 0, T < 0
    share = [kind.sum(2, keepdim=True).clamp_min(1).reciprocal() for kind in (inside, outside)]
    fit = torch.where(inside, share[0], torch.where(outside, -share[1], 0.0))
    gram = Z.transpose(1, 2) @ Z / Z.shape[1] + 0.05 * torch.eye(Z.shape[2])
    best = latest = _look(Z, T, torch.linalg.solve(gram, (fit @ Z).transpose(1, 2)).transpose(1, 2))
    unsettled = (best.half_width < enough) & T.any(2)
    chosen = torch.zeros_like(T, dtype=torch.bool)
    for most in HARDEST_ROWS:
        # Columns of a small cell, or many of a larger one, share its points and so one factor; others have own rows.
        whole = T.shape[2] <= max(most, min(SHARED_ROWS, most * T.shape[1] // 2))
        normal = latest.normal.clone()
        for cell, g in _columns_together(unsettled) if whole else _columns_alone(unsettled):
            b = cell[:, None]
            if whole:
                points, signs = Z[cell], T[b, g] * unsettled[b, g][..., None]
            else:
                rows = _hardest(T, latest, chosen, (b, g), most)
                points, signs = Z[b, rows], T[b, g].gather(2, rows[:, None])
            # What is too narrow on some rows is no wider on all of them.
            normal[b, g], wide = _iterate(points, signs, normal[b, g], enough, check)
            unsettled[b, g] &= wide
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
    normal = (w / w.norm(dim=2, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)).contiguous()
    height = normal @ Z.transpose(1, 2)
    low = torch.where(T < 0, height, -torch.inf).amax(2, keepdim=True)
    high = torch.where(T > 0, height, torch.inf).amin(2, keepdim=True)
    # A column without facts on one side has no slab: its ends are those of the other side.
    low = torch.where(low.isinf(), high - 2.0, low)
    return Slabs(normal, height, low, high)


def _wider(one: Slabs, two: Slabs) -> Slabs:
    better = (one.half_width > two.half_width)[..., None]
    return Slabs(*(torch.where(better, *parts) for parts in zip(one, two, strict=True)))


def _hardest(T: Tensor, slabs: Slabs, chosen: Tensor, problems: tuple[Tensor, Tensor], count: int) -> Tensor:
    """Rows `(C, count)` of problems: those in `chosen` `(B, G, N)`, and the deepest on the wrong side.

    Problems are given by their cells and columns, both `(C, 1)`. The rows come into `chosen`.
    """
    cell, column = problems
    signs, centre = T[problems][:, 0], ((slabs.high + slabs.low) / 2.0)[problems][:, 0]
    depth = slabs.height[problems][:, 0].sub_(centre).mul_(signs)
    depth = depth.masked_fill_(signs == 0, torch.inf).masked_fill_(chosen[problems][:, 0], -torch.inf)
    rows = depth.topk(count, dim=1, largest=False, sorted=False).indices
    chosen[cell, column, rows] = True
    return rows


def _iterate(Z: Tensor, T: Tensor, start: Tensor, enough: float, check: Callable[[], None]) -> tuple[Tensor, Tensor]:
    """`w` `(C, G, p)` for points `(C, R, p)` with signs `(C, G, R)`; and which columns `(C, G)` became wide enough.

    Columns are rows here: the bits of a product with one column depend on how many problems there are.
    """
    Za = torch.cat([Z, torch.full_like(Z[..., :1], INTERCEPT)], dim=2) * T.any(1)[..., None]
    depth = T * (start @ Z.transpose(1, 2))
    q = depth / depth.abs().mean(2, keepdim=True).clamp_min(1e-6) - 1.0
    # Rows without a sign, of a column that has signs, keep their value, whichever it is.
    unsigned = (T == 0) & T.any(2, keepdim=True) & T.any(1, keepdim=True)
    free = unsigned.to(T) if bool(unsigned.any()) else None
    # The signs of a column alone stand in its points; F are the signs that are left beside them.
    alone = T.shape[1] == 1
    Za, F = (Za * T[:, 0, :, None], T.abs()) if alone else (Za, T)
    # One layout in memory, whether or not problems were left alone meanwhile. `half` is L⁻¹ Zaᵀ, ZaᵀZa + 1/ρ = L Lᵀ.
    lower = torch.linalg.cholesky(Za.transpose(1, 2) @ Za + torch.eye(Za.shape[2]) / PENALTY).contiguous()
    half = torch.linalg.solve_triangular(lower, Za.transpose(1, 2), upper=False).contiguous()
    # State s = F q, where the constraint's slack is relu(q) and its multiplier relu(−q). The target of `w Zaᵀ` is
    # a = F (1 + |q|), and the w closest to it has the heights a K, K = halfᵀ half. The new state, with r = RELAX,
    # s + r (a K − F relu(q) − F), is (1 − r/2) s + a (r K − r/2) − (r/2) F: one product, in place.
    if alone:
        step = (RELAX * half).transpose(1, 2) @ half
        step.diagonal(dim1=1, dim2=2).sub_(RELAX / 2.0)
    else:  # more rows, for which K would be large
        step = half.transpose(1, 2).contiguous()
    s, keep = F * q, 1.0 - RELAX / 2.0
    # A problem is left alone as soon as all of its columns are wide enough or hopeless, whatever the others do.
    problem, done = torch.arange(len(Z)), 0
    weights, enough_wide = start.clone(), torch.zeros_like(T[..., 0], dtype=torch.bool)
    for look in LOOKS:
        check()
        a, shift = torch.empty_like(s), F * (RELAX / 2.0)
        for _ in range(look - done):
            _aim(s, F, free, a)
            if alone:
                s.baddbmm_(a, step, beta=keep).sub_(shift)
            else:
                s.baddbmm_(a @ step, half, beta=keep, alpha=RELAX).sub_(a, alpha=RELAX / 2.0).sub_(shift)
        done = look
        w = torch.linalg.solve_triangular(lower, _aim(s, F, free, a) @ half.transpose(1, 2), upper=False, left=False)
        depth, multiplier = F * (w @ Za.transpose(1, 2)), (-F * s).relu()
        inside, outside = T > 0, T < 0
        pull = [multiplier * inside, multiplier * outside]
        pull = [side / side.sum(2, keepdim=True).clamp_min(1e-9) for side in pull]
        sure = torch.minimum(pull[0].sum(2), pull[1].sum(2)) > 0.5
        apart = ((F * (pull[0] + pull[1])) @ Za[..., :-1]).norm(dim=2)
        hopeless = sure & (apart < 2.0 * enough)
        width = torch.where(inside, depth, torch.inf).amin(2) + torch.where(outside, depth, torch.inf).amin(2)
        wide = width >= 2.0 * enough * w[..., :-1].norm(dim=2)
        weights[problem], enough_wide[problem] = w[..., :-1], wide
        going = ~(wide | hopeless | ~T.any(2)).all(1)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            parts = (problem, Za, T, F, lower, half, step, s)
            problem, Za, T, F, lower, half, step, s = (part[going] for part in parts)
            free = None if free is None else free[going]
    return weights, enough_wide


def _aim(s: Tensor, F: Tensor, free: Tensor | None, out: Tensor) -> Tensor:
    """The target `F (1 + |s|)` of the heights, in `out`; that of free rows is the state itself."""
    torch.addcmul(F, F, torch.abs(s, out=out), out=out)
    return out if free is None else out.addcmul_(free, s)
