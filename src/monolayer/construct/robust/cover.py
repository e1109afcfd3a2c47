"""Greedy cover: the exceptional facts of every cell, by half-spaces that hold no fact with another label.

A *cell* is a token; its *base* is its most frequent label, which the embedding carries; the other facts are
*exceptional*. One group of facts per label is tried first. Where its slab is too narrow, the facts that are inside at
the wished width stay if they are at least half, and the others are tried again; else the group is split along its
leading direction, at the widest gap. A group of one fact is the end: it gets the widest slab there is, or one that is
wide enough (`hull.py`).

Or a wider one, with a few facts *let in* that have other labels. Those are covered once more, by half-spaces that hold
no fact with another label than theirs, and whose neurons are louder than what they overrule: a neuron at `h` or less is
overruled by one at `4 (1 + h)` or more. So at every fact, what speaks for other labels is outvoted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Ints
from monolayer.construct.robust.groups import Cells, Found, Group, HalfSpaces, at_once, one_thread_each
from monolayer.construct.robust.halfspaces import padded, widest
from monolayer.construct.robust.hull import MOST_IN, alone

COLUMNS = 64
"""Problems of one cell in a batch."""
DEPTH = 3
"""How often what overrules may let in others itself."""
WORTH = 1.25
"""How much wider a slab must become for letting facts in."""
LOUDEST = 2.0**10
"""Loudness from which a narrow slab is taken instead: weights shall fit into float16."""


def cover(
    cells: Cells, enough: float, progress: Callable[[float], None] | None = None, overrule: bool = True
) -> HalfSpaces:
    """Half-spaces that hold every exceptional fact, with slabs of half-width `enough` where that can be.

    Without `overrule` no half-space holds a fact with another label, and all are equally loud.
    """
    groups = list(_first_groups(cells))
    total = sum(len(group.facts) for group in groups)

    def left(facts: float) -> None:
        """Single facts take most of the time: what is done is counted in facts."""
        if progress is not None and total:
            progress(1.0 - facts / total)

    with one_thread_each(cells.feature) as pool:
        found, single = _settled(cells, groups, enough, pool, left)
        bundles = _singles(
            cells, single, enough, pool, 0 if overrule else DEPTH, lambda share: left((1.0 - share) * len(single))
        )
    return _pack(cells, found + [each for bundle in bundles for each in bundle])


def _settled(
    cells: Cells,
    open_groups: list[Group],
    enough: float,
    pool: ThreadPoolExecutor,
    left: Callable[[float], None] = lambda facts: None,
) -> tuple[list[Found], list[Group]]:
    """Half-spaces of groups that could be had at the wished width, and the single facts that are left."""
    found: list[Found] = []
    single: list[Group] = []
    while True:
        single += [group for group in open_groups if len(group.facts) == 1]
        open_groups = [group for group in open_groups if len(group.facts) > 1]
        if not open_groups:
            break
        later: list[Group] = []
        for slabs in pool.map(partial(_solve, cells, enough), _batches(cells, open_groups)):
            for slab in slabs:
                _settle(cells, slab, enough, found, later)
        open_groups = later
        left(float(len(single) + sum(len(group.facts) for group in open_groups)))
    return found, single


def _singles(
    cells: Cells,
    single: list[Group],
    enough: float,
    pool: ThreadPoolExecutor,
    depth: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> list[list[Found]]:
    """For each single fact its half-space, the widest; or a wider one, and those that overrule what it lets in."""
    ends = [[found] for found, _ in alone(cells, single, enough, 0, progress)]
    narrow = [number for number, end in enumerate(ends) if end[0].half_width < enough]
    if depth == DEPTH or not narrow:
        return ends
    wide: dict[int, list[Found]] = {}
    inside: list[Group] = []
    wider_ones = alone(cells, [single[number] for number in narrow], enough, MOST_IN)
    for number, (found, groups) in zip(narrow, wider_ones, strict=True):
        wide[number] = [found]
        inside += [replace(group, overrules=number) for group in groups]
    settled, left = _settled(cells, inside, enough, pool)
    bundles = [[found] for found in settled] + _singles(cells, left, enough, pool, depth + 1)
    for bundle in bundles:
        wide[bundle[0].group.overrules] += bundle
    for number, bundle in wide.items():
        wider = min(found.half_width for found in bundle) > WORTH * ends[number][0].half_width
        if wider and max(found.group.loud for found in bundle) <= LOUDEST:
            ends[number] = bundle
    return ends


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
        step = max(1, at_once(cells.feature) // (rows * max(cells.feature.shape[1], 2 * columns)))
        for i in range(0, len(pieces), step):
            yield pieces[i : i + step]


@dataclass(frozen=True, eq=False)
class _Slab:
    """The slab of a group: its `normal` `(p,)`, its lower end, and the heights of the group's facts `(F,)`."""

    group: Group
    normal: Tensor
    low: float
    height: NDArray[np.float32]


def _solve(cells: Cells, enough: float, part: list[list[Group]]) -> list[_Slab]:
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
    found = widest(Z, torch.from_numpy(sign).to(Z), enough)
    normal, low, height = found.normal.cpu(), found.low.cpu(), found.height.cpu().numpy()
    return [
        _Slab(group, normal[i, :, column].clone(), float(low[i, column]), height[i, group.facts, column])
        for i, groups in enumerate(part)
        for column, group in enumerate(groups)
    ]


def _settle(cells: Cells, slab: _Slab, enough: float, found: list[Found], later: list[Group]) -> None:
    """Keep the half-space of a group, or part of it, or split the group."""
    group, inside = slab.group, slab.height >= slab.low + 2.0 * enough
    if 2 * inside.sum() < len(inside):
        later += [replace(group, facts=part) for part in _halves(cells, group.cell, group.facts)]
        return
    kept = replace(group, facts=group.facts[inside])
    found.append(Found(kept, slab.normal, slab.low, float(slab.height[inside].min())))
    if not inside.all():
        later.append(replace(group, facts=group.facts[~inside]))


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
    found.sort(key=lambda each: (each.group.cell, each.group.label, int(each.group.facts[0]), each.group.loud))
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
        loud=np.array([each.group.loud for each in found]),
        worst=worst,
    )
