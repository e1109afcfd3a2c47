"""Greedy cover: the exceptional facts of every cell, by half-spaces that hold no fact with another label.

A *cell* is a token; its *base* is its most frequent label, which the embedding carries; the other facts are
*exceptional*. One group of facts per label is tried first. Where its slab is too narrow, the facts that are inside at
the wished width stay if they are at least half, and the others are tried again; else the group is split along its
leading direction, at the widest gap. A group of one fact is the end: it gets the widest slab there is, or one that is
wide enough (`hull.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Ints
from monolayer.construct.robust.halfspaces import ALIGNED, padded, widest
from monolayer.construct.robust.hull import widest_slabs
from monolayer.model.device import one_thread_each

GROUPS_AT_ONCE = 16
"""Groups of one cell whose slabs are searched for in one batch: threads share the groups of a large cell."""
SINGLES_AT_ONCE = 2
"""Facts of one cell whose slabs a thread finds before progress is told: each takes longer than reading its cell."""
NUMBERS_PER_BATCH = 1 << 20
"""Numbers in a batch: 4 MiB, which stay in the cache through the iterations."""


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

    def own(self, cell: int) -> slice:
        """The points of the cell `cell`, as a slice of all points."""
        return slice(int(self.start[cell]), int(self.start[cell + 1]))


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """`H` half-spaces `{normal · z ≥ centre}`, each in its cell, with its label and half-width of the empty slab."""

    cell: Ints
    label: Ints
    normal: Tensor
    centre: NDArray[np.float64]
    half_width: NDArray[np.float64]
    worst: int | None
    """A point of the half-space with the narrowest slab; None without half-spaces."""


class Group(NamedTuple):
    """Facts of one label in one cell, by their places in the cell."""

    cell: int
    label: int
    facts: Ints


class FoundSlab(NamedTuple):
    """One half-space before it is packed with the others: of a group, the slab between `low` and `high`."""

    group: Group
    normal: Tensor
    low: float
    high: float


def cover(cells: Cells, enough: float, progress: Callable[[int, int], None] = lambda done, total: None) -> HalfSpaces:
    """Half-spaces that hold every exceptional fact, with slabs of half-width `enough` where that can be.

    `progress` is told how many of how many facts have their half-space.
    """
    groups = list(_first_groups(cells))
    done, total = 0, sum(len(group.facts) for group in groups)
    covering: list[FoundSlab] = []
    stopped = Event()
    # Batches are small, and threads that share one wait for one another at every product. A batch alone on one thread
    # also gives the same bits whatever the number of threads is.
    with one_thread_each() as pool, _stopping(stopped):
        while groups:
            several = [group for group in groups if len(group.facts) > 1]
            single = [group for group in groups if len(group.facts) == 1]
            solved = pool.map(partial(_solve, cells, enough, stopped), _alike_batches(cells, several))
            # Single facts leave nothing to solve, so a thread that has no batch of this round left takes those.
            alone = pool.map(partial(_single_slabs, cells, enough, stopped), _few_singles(single))
            open_groups: list[list[Group]] = []  # in the order of their batches
            for settled in solved:
                done += _settle(settled, covering, open_groups)
                progress(done, total)
            for slabs in alone:
                covering += slabs
                done += len(slabs)
                progress(done, total)
            groups = [group for part in reversed(open_groups) for group in part]
    return _pack(cells, covering)


@contextmanager
def _stopping(stopped: Event) -> Iterator[None]:
    """When the block fails or is interrupted, `stopped` ends the batches that run, which the pool would wait for."""
    try:
        yield
    except BaseException:
        stopped.set()
        raise


def _first_groups(cells: Cells) -> Iterator[Group]:
    cell = cells.cell
    order = np.lexsort((cells.label, cell))
    label = cells.label[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (label[1:] != label[:-1]) | (cell[1:] != cell[:-1])
    cuts = np.append(np.flatnonzero(new), len(order))
    begin, end = cuts[:-1], cuts[1:]
    exceptional = label[begin] != cells.base[cell[begin]]
    for first, last in zip(begin[exceptional].tolist(), end[exceptional].tolist(), strict=True):
        own = int(cell[first])
        yield Group(own, int(label[first]), order[first:last] - cells.start[own])


def _by_cell(groups: list[Group]) -> dict[int, list[Group]]:
    by_cell: dict[int, list[Group]] = {}
    for group in groups:
        by_cell.setdefault(group.cell, []).append(group)
    return by_cell


def _few_singles(groups: list[Group]) -> Iterator[tuple[int, list[Group]]]:
    """Groups of one fact, a few of one cell at a time, so that threads share a large cell and progress shows."""
    for cell, every in _by_cell(groups).items():
        for i in range(0, len(every), SINGLES_AT_ONCE):
            yield cell, every[i : i + SINGLES_AT_ONCE]


def _alike_batches(cells: Cells, groups: list[Group]) -> list[list[list[Group]]]:
    """Cells that are padded to one shape together, each with some of its groups; the largest cells first.

    A thread that began the largest batch last would keep the others waiting.
    """
    alike: dict[tuple[int, int], list[list[Group]]] = {}
    for cell, every in _by_cell(groups).items():
        for i in range(0, len(every), GROUPS_AT_ONCE):
            piece = every[i : i + GROUPS_AT_ONCE]
            alike.setdefault((padded(len(cells.label[cells.own(cell)]), ALIGNED), padded(len(piece))), []).append(piece)
    batches = []
    for (rows, columns), pieces in sorted(alike.items()):
        step = max(1, NUMBERS_PER_BATCH // (rows * max(cells.feature.shape[1], 2 * columns)))
        batches += [pieces[i : i + step] for i in range(0, len(pieces), step)]
    return batches[::-1]


class Slab(NamedTuple):
    """The slab of a group: its normal `(p,)`, its lower end, and the heights of the group's facts along it `(F,)`."""

    group: Group
    normal: Tensor
    low: float
    height: NDArray[np.float32]


class Settled(NamedTuple):
    """What became of a group: the half-space of it or of a part, and the groups that are left to solve."""

    found: FoundSlab | None
    left: list[Group]


def _solve(cells: Cells, enough: float, stopped: Event, part: list[list[Group]]) -> list[Settled]:
    check = partial(_check, stopped)
    check()
    place = [cells.own(groups[0].cell) for groups in part]
    rows, columns = padded(place[0].stop - place[0].start, ALIGNED), padded(len(part[0]))  # the same for all of them
    Z = torch.zeros(len(part), rows, cells.feature.shape[1])
    label, wanted = (np.full((len(part), size), -1, dtype=np.int64) for size in (rows, columns))
    for i, (groups, own) in enumerate(zip(part, place, strict=True)):
        Z[i, : own.stop - own.start] = cells.feature[own]
        label[i, : own.stop - own.start] = cells.label[own]
        wanted[i, : len(groups)] = [group.label for group in groups]
    other = label[:, None, :] != wanted[:, :, None]
    other &= (label >= 0)[:, None, :]
    other &= (wanted >= 0)[:, :, None]
    sign = np.negative(other, dtype=np.float32)
    for i, groups in enumerate(part):
        for column, group in enumerate(groups):
            sign[i, column, group.facts] = 1.0
    solved = widest(Z, torch.from_numpy(sign), enough, check)
    normal, low, height = solved.normal, solved.low[..., 0].tolist(), solved.height.numpy()
    slabs = (
        Slab(group, normal[i, column].clone(), low[i][column], height[i, column, group.facts])
        for i, groups in enumerate(part)
        for column, group in enumerate(groups)
    )
    return [_kept_or_split(cells, slab, enough) for slab in slabs]


def _check(stopped: Event) -> None:
    if stopped.is_set():
        raise CancelledError


def _kept_or_split(cells: Cells, slab: Slab, enough: float) -> Settled:
    """The half-space for a group or a part of it, or the group split."""
    group, normal, low, height = slab
    inside = height >= low + 2.0 * enough
    if 2 * inside.sum() < len(inside):
        return Settled(None, [group._replace(facts=part) for part in _halves(cells, group.cell, group.facts)])
    found = FoundSlab(group._replace(facts=group.facts[inside]), normal, low, float(height[inside].min()))
    return Settled(found, [] if inside.all() else [group._replace(facts=group.facts[~inside])])


def _settle(settled: list[Settled], slabs: list[FoundSlab], left: list[list[Group]]) -> int:
    """Collect what became of the groups of a batch. Returns how many facts now have their half-space."""
    found = [one.found for one in settled if one.found is not None]
    slabs += found
    left.append([group for one in settled for group in one.left])
    return sum(len(one.group.facts) for one in found)


def _halves(cells: Cells, cell: int, facts: Ints) -> list[Ints]:
    """Two parts of some facts along their leading direction, at the widest gap of the middle half."""
    points = cells.feature[torch.from_numpy(facts + cells.start[cell])]
    spread = points - points.mean(0)
    # Eight steps of the power method, by squaring.
    power = spread.T @ spread
    power /= power.diagonal().sum().clamp_min(1e-30)
    for _ in range(3):
        power = power @ power
    direction = power @ spread[spread.norm(dim=1).argmax()]
    place = (spread @ direction).numpy()
    order = np.argsort(place, kind="stable")
    first, last = max(1, len(order) // 4), max(2, len(order) - len(order) // 4)
    cut = first + int(np.argmax(np.diff(place[order])[first - 1 : last - 1]))
    return [facts[order[:cut]], facts[order[cut:]]]


def _single_slabs(cells: Cells, enough: float, stopped: Event, single: tuple[int, list[Group]]) -> list[FoundSlab]:
    """The half-spaces of single facts `single[1]` of the cell `single[0]`."""
    _check(stopped)
    cell, groups = single
    facts_of_cell = cells.own(cell)
    points = cells.feature[facts_of_cell].double().numpy()
    facts = [int(group.facts[0]) for group in groups]
    slabs = []
    found = widest_slabs(points, cells.label[facts_of_cell], facts, enough)
    for group, (normal, half_width) in zip(groups, found, strict=True):
        high = float(points[group.facts[0]] @ normal)
        slabs.append(FoundSlab(group, torch.from_numpy(normal).float(), high - 2.0 * half_width, high))
    return slabs


def _pack(cells: Cells, slabs: list[FoundSlab]) -> HalfSpaces:
    slabs.sort(key=lambda each: (each.group.cell, each.group.label, int(each.group.facts[0])))
    low, high = np.array([each.low for each in slabs]), np.array([each.high for each in slabs])
    worst = None
    if slabs:
        narrow = slabs[int(np.argmin(high - low))].group
        worst = int(cells.start[narrow.cell] + narrow.facts[0])
    width = cells.feature.shape[1]
    return HalfSpaces(
        cell=np.array([each.group.cell for each in slabs], dtype=np.int64),
        label=np.array([each.group.label for each in slabs], dtype=np.int64),
        normal=torch.stack([each.normal for each in slabs]) if slabs else torch.zeros(0, width),
        centre=(high + low) / 2.0,
        half_width=(high - low) / 2.0,
        worst=worst,
    )
