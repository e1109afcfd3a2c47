"""Half-spaces of single facts that no group would have, cell by cell (`hull.py`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from monolayer.construct.robust.groups import Cells, Found, Group
from monolayer.construct.robust.hull import Crowd, Problem, Slab, widest_slabs

LOUDER = 4.0
"""A neuron that overrules one at `h` is at `LOUDER (1 + h)`; `5/3 h + 1/8` would do, cosines of classes being ≤ 1/4."""


def alone(
    cells: Cells,
    single: list[Group],
    enough: float,
    most_in: int,
    progress: Callable[[float], None] = lambda share: None,
) -> list[tuple[Found, list[Group]]]:
    """The half-spaces of single facts, and the facts that each lets in, by their labels; in the order of `single`."""
    by_cell: dict[int, list[int]] = {}
    for number, group in enumerate(single):
        by_cell.setdefault(group.cell, []).append(number)
    found: dict[int, tuple[Found, list[Group]]] = {}
    for cell, numbers in by_cell.items():
        own = slice(int(cells.start[cell]), int(cells.start[cell + 1]))
        crowd = Crowd(cells.feature[own].cpu().double().numpy(), cells.label[own])
        problems = [Problem(int(single[i].facts[0]), enough, most_in, single[i].kept) for i in numbers]
        for number, slab in zip(numbers, widest_slabs(crowd, problems), strict=True):
            found[number] = _half_space(crowd, single[number], slab)
            progress(len(found) / len(single))
    return [found[number] for number in range(len(single))]


def _half_space(crowd: Crowd, group: Group, slab: Slab) -> tuple[Found, list[Group]]:
    fact = int(group.facts[0])
    high = float(crowd.points[fact] @ slab.normal)
    found = Found(group, torch.from_numpy(slab.normal).float(), high - 2.0 * slab.half_width, high)
    inside = slab.inside
    if len(inside) == 0:
        return found, []
    top = float((crowd.points[inside] @ slab.normal).max())
    loud = LOUDER * (1.0 + max(0.0, (top - high) / slab.half_width + 1.0)) * group.loud
    label, kept = crowd.label[inside], (*group.kept, fact)
    return found, [Group(group.cell, int(name), inside[label == name], loud, kept) for name in np.unique(label)]
