"""Widest half-spaces, many at once: one convex problem per column, each with a certificate of its own.

A problem is a set of points `z` with signs `T`: +1 for the facts that must lie inside the half-space, −1 for those that
must lie outside, 0 for the rest. The widest slab between the two kinds solves the hard-margin problem

    minimize |w|²  subject to  T (Z w + b) ≥ 1,      half-width κ* = 1/|w*|.

*Primal*: any `w` gives the half-width `κ(w) = (min₊ z·w − max₋ z·w) / 2|w|` that it really has. *Dual*: any point of
the hull of one kind and any point of the other are at least `2κ*` apart, and the multipliers of the iteration are such
points, so a width that cannot be reached is known before the iteration has converged. Problems of one cell share `Z`,
and with it one factor; problems of many cells are one batch. The iteration is ADMM with relaxation.

Letters: `B` cells, `N` points in each (padded), `p` features, `G` columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

PENALTY = 0.03
"""ρ of the iteration; it decides speed only. Good between 0.01 and 0.1 for features of size 1."""
INTERCEPT = 3.0
"""The constant feature that stands for `b` in the iteration, which shrinks `b / 3` a little; the slab does not."""
RELAX = 1.6
"""Over-relaxation of the iteration, in (1, 2)."""
LOOKS = (12, 24, 64)
"""Iterations after which the batch is looked at: it stops when every column is wide enough or known to be hopeless."""
HARDEST_ROWS = 384
"""Points of a cell that an iteration works on: the hardest ones. The rest are looked at between the iterations."""
CHOICE_ROUNDS = 4
"""How often the hardest points are chosen again; those chosen before stay, so no choice is undone."""


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

    def of(self, cells: Tensor) -> Slabs:
        """The slabs of the cells in the mask `cells` `(B,)`."""
        return Slabs(*(part[cells] for part in self))

    def with_cells(self, cells: Tensor, other: Slabs) -> Slabs:
        """These slabs, with those of the cells `cells` `(B',)` replaced by the slabs `other`."""
        return Slabs(*(own.index_copy(0, cells, new) for own, new in zip(self, other, strict=True)))


def widest(Z: Tensor, T: Tensor, enough: float, check: Callable[[], None] = lambda: None) -> Slabs:
    """Slabs for points `Z` `(B, N, p)` with signs `T` `(B, N, G)`, as wide as they come, or at least `enough`.

    Rows of padding are zero in `Z` and `T`; so are columns without a problem. What comes out for a cell depends on the
    cell alone, not on the others of the batch. `check` is called every few iterations, and may raise to give up.
    """
    # The start: a least squares fit of the signs, every kind with the same weight.
    weight = T.abs() / (T > 0).sum(1, keepdim=True).clamp_min(1) * (T > 0) + (T < 0) / (T < 0).sum(
        1, keepdim=True
    ).clamp_min(1)
    gram = Z.transpose(1, 2) @ Z / Z.shape[1] + 0.05 * torch.eye(Z.shape[2])
    result = best = latest = _look(Z, T, torch.linalg.solve(gram, Z.transpose(1, 2) @ (weight * T)))
    unsettled = (best.half_width < enough) & T.any(1)
    chosen = torch.zeros(T.shape[:2], dtype=torch.bool)
    cell = torch.arange(len(Z))  # those that are still worked on
    for turn in range(CHOICE_ROUNDS):
        going = unsettled.any(1)
        if not bool(going.all()):
            cell, Z, T, unsettled, chosen = (part[going] for part in (cell, Z, T, unsettled, chosen))
            best, latest = best.of(going), latest.of(going)
        if len(cell) == 0:
            break
        hardest = _hardest(T, latest, ~unsettled, chosen, HARDEST_ROWS << turn)
        Zr = Z if hardest is None else Z.gather(1, hardest[..., None].expand(-1, -1, Z.shape[2]))
        Tr = T if hardest is None else T.gather(1, hardest[..., None].expand(-1, -1, T.shape[2]))
        normal = latest.normal.clone()
        for some, column in _columns_together(unsettled):
            index = column[:, None].expand(-1, Z.shape[2], -1)
            signs = Tr[some].gather(2, column[:, None].expand(-1, Tr.shape[1], -1))
            signs = signs * unsettled[some].gather(1, column)[:, None]
            w, hopeless = _iterate(Zr[some], signs, normal[some].gather(2, index), enough, check)
            normal[some] = normal[some].scatter(2, index, w)
            unsettled[some] = unsettled[some] & ~torch.zeros_like(unsettled[some]).scatter(1, column, hopeless)
        latest = _look(Z, T, normal)
        best = _wider(latest, best)
        unsettled = unsettled & (best.half_width < enough)
        result = result.with_cells(cell, best)
        if hardest is None:
            break
    return result


def padded(size: int) -> int:
    """The size that `size` rows or columns are padded to, so that many cells share it: even, at most a quarter more.

    A function of the size alone: a matrix product has the same bits in every batch, but not in every shape.
    """
    step = max(2, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def _columns_together(wanted: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cells `(B',)` with similar numbers of wanted columns `(B, G)`, and columns `(B', G')` that include these."""
    most = wanted.sum(1).tolist()
    size = torch.tensor([min(padded(max(1, count)), wanted.shape[1]) for count in most])
    order = wanted.to(torch.int8).sort(dim=1, descending=True, stable=True).indices
    for width in sorted(set(size.tolist())):
        some = torch.nonzero(size == width)[:, 0]
        yield some, order[some, :width]


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


def _hardest(T: Tensor, slabs: Slabs, settled: Tensor, chosen: Tensor, rows: int) -> Tensor | None:
    """Rows `(B, rows)`: those chosen before, and those deepest on the wrong side of open columns; None: all rows."""
    if T.shape[1] <= rows + rows // 4:
        return None
    centre = (slabs.high + slabs.low) / 2.0
    depth = torch.where((T != 0) & ~settled[:, None], T * (slabs.height - centre), torch.inf)
    hardest = depth.amin(2).masked_fill(chosen, -torch.inf).topk(rows, dim=1, largest=False).indices
    chosen.scatter_(1, hardest, True)
    return hardest


def _iterate(Z: Tensor, T: Tensor, start: Tensor, enough: float, check: Callable[[], None]) -> tuple[Tensor, Tensor]:
    """`w` `(B, p, G)`, and which columns `(B, G)` cannot be as wide as `enough`."""
    one = torch.full_like(Z[..., :1], INTERCEPT) * T.any(2, keepdim=True)
    Za = torch.cat([Z, one], dim=2)
    Zt = Za.transpose(1, 2)
    factor = torch.linalg.inv(Zt @ Za + torch.eye(Za.shape[2]) / PENALTY) @ Zt
    # State q: the constraint's slack is relu(q), its multiplier relu(−q). The target of `Z w` is T (1 + |q|); rows
    # without a sign keep their value.
    unsigned = (T == 0) & T.any(1, keepdim=True) & T.any(2, keepdim=True)
    free = unsigned.to(T) if bool(unsigned.any()) else None
    height = Z @ start
    q = T * height
    q = q / q.abs().mean(1, keepdim=True).clamp_min(1e-6) - 1.0
    # A cell is left alone as soon as all of its columns are wide enough or hopeless, whatever the others do.
    cell, done = torch.arange(len(Z)), 0
    weights, lost = start.clone(), torch.zeros_like(T[:, 0], dtype=torch.bool)
    for look in LOOKS:
        check()
        # In place, in memory that the cache holds from one iteration to the next.
        aim, slack, height = torch.empty_like(q), torch.empty_like(q), height.contiguous()
        w = q.new_empty(len(q), Za.shape[2], q.shape[2])
        for _ in range(look - done):
            torch.abs(q, out=aim).add_(1.0).mul_(T)
            torch.bmm(factor, aim if free is None else aim.addcmul_(free, height), out=w)
            torch.bmm(Za, w, out=height)
            torch.mul(T, height, out=aim).sub_(torch.clamp(q, min=0.0, out=slack)).sub_(1.0)
            q.add_(aim, alpha=RELAX)
        done = look
        pull = [
            side / side.sum(1, keepdim=True).clamp_min(1e-9) for side in ((-q).relu() * (T > 0), (-q).relu() * (T < 0))
        ]
        sure = torch.minimum(pull[0].sum(1), pull[1].sum(1)) > 0.5
        apart = (Za[..., :-1].transpose(1, 2) @ (pull[0] - pull[1])).norm(dim=1)
        hopeless = sure & (apart < 2.0 * enough)
        low = torch.where(T < 0, height, -torch.inf).amax(1)
        high = torch.where(T > 0, height, torch.inf).amin(1)
        wide = high - low >= 2.0 * enough * w[:, :-1].norm(dim=1)
        weights[cell], lost[cell] = w[:, :-1], hopeless
        going = ~(wide | hopeless | ~T.any(1)).all(1)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            cell, Za, T, factor, q, height = (part[going] for part in (cell, Za, T, factor, q, height))
            free = None if free is None else free[going]
    return weights, lost
