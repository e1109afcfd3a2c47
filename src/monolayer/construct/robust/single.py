"""Half-spaces of single facts that no group would have, many of them at a time (`hull.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from monolayer.construct.robust.groups import Cells, Found, Group
from monolayer.construct.robust.hull import Problem, widest_slabs

AT_ONCE = 1 << 22
"""Numbers of differences that single facts are looked at with: 32 MiB."""
LOUDER = 4.0
"""A neuron that overrules one at `h` is at `LOUDER (1 + h)`; `5/3 h + 1/8` would do, cosines of classes being ≤ 1/4."""


def alone(cells: Cells, single: list[Group], enough: float, most_in: int) -> Iterator[tuple[Found, list[Group]]]:
    """The half-spaces of single facts, and the facts that each lets in, by their labels; many facts at a time."""
    size = [cells.size(group.cell) * cells.feature.shape[1] for group in single]
    # So many that their differences fit in AT_ONCE numbers: one at least.
    part = np.cumsum(size) // AT_ONCE if single else np.zeros(0, np.int64)
    for number in np.unique(part).tolist():
        yield from _together(cells, [single[i] for i in np.flatnonzero(part == number)], enough, most_in)


def _together(cells: Cells, single: list[Group], enough: float, most_in: int) -> Iterator[tuple[Found, list[Group]]]:
    problems, known = [], []
    for group in single:
        own = slice(int(cells.start[group.cell]), int(cells.start[group.cell + 1]))
        points, label = cells.feature[own].cpu().double().numpy(), cells.label[own]
        fact, others = points[group.facts[0]], np.flatnonzero(label != group.label)
        kept = np.flatnonzero(np.isin(others, group.kept)) if group.kept else None
        problems.append(Problem(fact - points[others], enough, most_in, kept))
        known.append((points, label, fact, others))
    for group, slab, (points, label, fact, others) in zip(single, widest_slabs(problems), known, strict=True):
        high = float(fact @ slab.normal)
        found = Found(group, torch.from_numpy(slab.normal).float(), high - 2.0 * slab.half_width, high)
        inside = others[slab.inside]
        if len(inside) == 0:
            yield found, []
            continue
        top = float((points[inside] @ slab.normal).max())
        loud = LOUDER * (1.0 + max(0.0, (top - high) / slab.half_width + 1.0)) * group.loud
        kept_now = (*group.kept, int(group.facts[0]))
        yield (
            found,
            [
                Group(group.cell, int(name), inside[label[inside] == name], loud, kept_now)
                for name in np.unique(label[inside])
            ],
        )
