"""Greedy cover: the exceptional facts of every cell, by half-spaces that hold no fact with another label.

A *cell* is a token; its *base* is its most frequent label, which the embedding carries; the other facts are
*exceptional*. One group of facts a label is tried first. Where its slab is too narrow, the facts that are inside at the
wished width stay if they are at least half, and the others are tried again; else the group is split along its leading
direction, at the widest gap. A group of one fact is the end: it gets the widest slab there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.construct.robust.halfspaces import Slabs, padded, widest
from monolayer.data.names import Ints

AT_ONCE = 1 << 20
"""Numbers in a batch of points: 4 MiB, which stays in the cache through the iterations."""
COLUMNS = 64
"""Problems of one cell in a batch."""
PATIENCE = 20
"""How much longer a single fact is tried before its slab is taken as the widest."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Points in order of their cells: features `(M, p)`, label numbers `(M,)`, cell `j` at `start[j]:start[j + 1]`."""

    feature: Tensor
    label: Ints
    start: Ints
    base: Ints
    """Label number of each cell that needs no half-space `(K,)`."""

    @property
    def cell(self) -> Ints:
        """The cell of every point `(M,)`."""
        return np.repeat(np.arange(len(self.base)), np.diff(self.start))

    def size(self, cell: int) -> int:
        return int(self.start[cell + 1] - self.start[cell])


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """`H` half-spaces `{normal · z ≥ centre}`, each in its cell, with its label and half-width of the empty slab."""

    cell: Ints
    label: Ints
    normal: Tensor
    centre: NDArray[np.float64]
    half_width: NDArray[np.float64]
    facts: Ints
    """Facts that each was made for `(H,)`."""
    worst: int | None
    """A point of the half-space with the narrowest slab; None without half-spaces."""


@dataclass(frozen=True, eq=False)
class Group:
    """Facts of one label in one cell, by their places in the cell."""

    cell: int
    label: int
    facts: Ints


@dataclass(frozen=True, eq=False)
class Found:
    """One half-space before it is packed with the others."""

    group: Group
    normal: Tensor
    low: float
    high: float


def cover(cells: Cells, enough: float, progress: Callable[[float], None] | None = None) -> HalfSpaces:
    """Half-spaces that hold every exceptional fact, with slabs of half-width `enough` where that can be.

    On one thread: the batches are small, and threads that wait for one another at every product cost more than they do.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _cover(cells, enough, progress)
    finally:
        torch.set_num_threads(threads)


def _cover(cells: Cells, enough: float, progress: Callable[[float], None] | None) -> HalfSpaces:
    open_groups = list(_first_groups(cells))
    total = sum(len(group.facts) for group in open_groups)
    found: list[Found] = []
    hard: list[Group] = []
    while open_groups:
        later: list[Group] = []
        for part in _batches(cells, open_groups):
            slabs = _solve(cells, part, enough, 1)
            for row, groups in enumerate(part):
                for column, group in enumerate(groups):
                    _settle(cells, group, _Slab(slabs, row, column), enough, found, later, hard)
        open_groups = later
        if progress is not None and total:
            progress(1.0 - sum(len(group.facts) for group in open_groups) / total)
    for part in _batches(cells, hard):
        slabs = _solve(cells, part, enough, PATIENCE)
        for row, groups in enumerate(part):
            for column, group in enumerate(groups):
                _settle(cells, group, _Slab(slabs, row, column), -np.inf, found, [], [])
    return _pack(cells, found)


def _first_groups(cells: Cells) -> Iterator[Group]:
    cell = cells.cell
    order = np.lexsort((cells.label, cell))
    label = cells.label[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (label[1:] != label[:-1]) | (cell[1:] != cell[:-1])
    cuts = np.append(np.flatnonzero(new), len(order))
    for begin, end in pairwise(cuts.tolist()):
        own = int(cell[begin])
        if label[begin] != cells.base[own]:
            yield Group(own, int(label[begin]), order[begin:end] - cells.start[own])


def _batches(cells: Cells, groups: list[Group]) -> Iterator[list[list[Group]]]:
    """Cells that are padded to one shape together, each with some of its groups."""
    by_cell: dict[int, list[Group]] = {}
    for group in groups:
        by_cell.setdefault(group.cell, []).append(group)
    alike: dict[tuple[int, int], list[list[Group]]] = {}
    for cell, every in by_cell.items():
        for i in range(0, len(every), COLUMNS):
            piece = every[i : i + COLUMNS]
            alike.setdefault((padded(cells.size(cell)), padded(len(piece))), []).append(piece)
    for (rows, columns), pieces in sorted(alike.items()):
        step = max(1, AT_ONCE // (rows * max(cells.feature.shape[1], 2 * columns)))
        for i in range(0, len(pieces), step):
            yield pieces[i : i + step]


def _solve(cells: Cells, part: list[list[Group]], enough: float, patience: int) -> Slabs:
    device = cells.feature.device
    sizes = [cells.size(groups[0].cell) for groups in part]
    rows, columns = padded(sizes[0]), padded(len(part[0]))  # the same for all of them
    index = np.full((len(part), rows), -1)
    label, wanted = np.full((len(part), rows), -1), np.full((len(part), columns), -2)
    for i, groups in enumerate(part):
        own = slice(int(cells.start[groups[0].cell]), int(cells.start[groups[0].cell + 1]))
        index[i, : sizes[i]] = np.arange(own.start, own.stop)
        label[i, : sizes[i]] = cells.label[own]
        wanted[i, : len(groups)] = [group.label for group in groups]
    sign = -((label[:, :, None] != wanted[:, None, :]) & (label >= 0)[:, :, None] & (wanted >= 0)[:, None, :]).astype(
        np.float32
    )
    for i, groups in enumerate(part):
        for column, group in enumerate(groups):
            sign[i, group.facts, column] = 1.0
    real = torch.from_numpy(index >= 0).to(device)
    Z = cells.feature[torch.from_numpy(index.clip(0)).to(device)] * real[:, :, None]
    return _on_host(widest(Z, torch.from_numpy(sign).to(Z), enough, patience))


def _on_host(slabs: Slabs) -> Slabs:
    return Slabs(slabs.normal.cpu(), slabs.height.cpu(), slabs.low.cpu(), slabs.high.cpu())


@dataclass(frozen=True, eq=False)
class _Slab:
    """One column of a batch."""

    slabs: Slabs
    row: int
    column: int

    @property
    def low(self) -> float:
        return float(self.slabs.low[self.row, self.column])

    def height(self, facts: Ints) -> NDArray[np.float32]:
        heights: NDArray[np.float32] = self.slabs.height[self.row, :, self.column].numpy()[facts]
        return heights

    def found(self, group: Group) -> Found:
        normal = self.slabs.normal[self.row, :, self.column].clone()
        return Found(group, normal, self.low, float(self.height(group.facts).min()))


def _settle(
    cells: Cells, group: Group, slab: _Slab, enough: float, found: list[Found], later: list[Group], hard: list[Group]
) -> None:
    """Keep the half-space of a group, or part of it, or split the group; a single fact may be too hard for now."""
    facts = group.facts
    inside = slab.height(facts) >= slab.low + 2.0 * enough
    if inside.all():
        found.append(slab.found(group))
    elif len(facts) == 1:
        hard.append(group)
    elif 2 * inside.sum() >= len(facts):
        found.append(slab.found(Group(group.cell, group.label, facts[inside])))
        later.append(Group(group.cell, group.label, facts[~inside]))
    else:
        later += [Group(group.cell, group.label, part) for part in _halves(cells, group.cell, facts)]


def _halves(cells: Cells, cell: int, facts: Ints) -> list[Ints]:
    """Two parts of some facts along their leading direction, at the widest gap of the middle half."""
    points = cells.feature[torch.from_numpy(facts + cells.start[cell])]
    spread = points - points.mean(0)
    direction = spread[spread.norm(dim=1).argmax()]
    for _ in range(8):
        direction = spread.T @ (spread @ direction)
        direction = direction / direction.norm().clamp_min(1e-30)
    place = (spread @ direction).cpu().numpy()
    order = np.argsort(place, kind="stable")
    first, last = max(1, len(order) // 4), max(2, len(order) - len(order) // 4)
    cut = first + int(np.argmax(np.diff(place[order])[first - 1 : last - 1]))
    return [facts[order[:cut]], facts[order[cut:]]]


def _pack(cells: Cells, found: list[Found]) -> HalfSpaces:
    found.sort(key=lambda each: (each.group.cell, each.group.label, int(each.group.facts[0])))
    low, high = np.array([each.low for each in found]), np.array([each.high for each in found])
    worst = None
    if found:
        narrow = found[int(np.argmin(high - low))].group
        worst = int(cells.start[narrow.cell] + narrow.facts[0])
    width = cells.feature.shape[1]
    return HalfSpaces(
        cell=np.array([each.group.cell for each in found], dtype=np.int64),
        label=np.array([each.group.label for each in found], dtype=np.int64),
        normal=torch.stack([each.normal for each in found]) if found else torch.zeros(0, width),
        centre=(high + low) / 2.0,
        half_width=(high - low) / 2.0,
        facts=np.array([len(each.group.facts) for each in found], dtype=np.int64),
        worst=worst,
    )
