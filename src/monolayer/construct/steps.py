"""From sorted points to a staircase: one step between any two neighbours with different labels.

A run of equal labels costs nothing inside, however many points it holds. The ramp of a step sits in the
middle of its gap `G` and is `2^−k ≤ G/4` wide, so at least `3G/8` stay free on either side of it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.construct.points import Points
from monolayer.construct.target import Target, on_grid
from monolayer.data.names import Ints
from monolayer.errors import PrecisionError
from monolayer.model.staircase import Readout, Staircase

Floats = NDArray[np.float64]


def staircase(points: Points, target: Target, changes: Ints, readout: Readout) -> tuple[Staircase, float]:
    """The readout that gives every point its label, and how far stored labels are from the given ones.

    `changes` `(R,)`: the places `i` where point `i` and point `i + 1` have different labels.
    """
    left, right = points.z[changes], points.z[changes + 1]
    gap = right - left
    # Frexp gives gap = f · 2^e with 1/2 ≤ f < 1, so 2^(e−3) lies between gap/8 and gap/4.
    exponent = np.frexp(gap)[1] - 3
    start = left + (gap - np.exp2(exponent)) / 2.0
    slope = np.exp2(-exponent)
    run = target.number[points.order[np.append(changes, len(points.order) - 1)]]
    table, error = _stored_labels(target, run)
    level = table[run]
    jump = np.diff(level, axis=0).T
    parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in (slope, start, jump, level[0], level[-1])]
    return Staircase.from_steps(parts[0], parts[1], parts[2], parts[3], parts[4], readout), error


def _stored_labels(target: Target, run: Ints) -> tuple[Floats, float]:
    """Label values `(K, m)` on a grid where sums are exact: classes as they are, reals rounded to it."""
    level = target.table[run]
    variation = np.abs(np.diff(level, axis=0)).sum(axis=0) + np.abs(level).max(axis=0)
    if target.classes is not None:
        if float(variation.max()) >= 2.0**53:
            raise PrecisionError(f"{len(run):,} runs of {len(target.table):,} classes add up past 2^53: use fewer")
        return target.table, 0.0
    table = on_grid(target.table, variation)
    return table, float(np.abs(table - target.table).max())


@torch.no_grad()
def dense_error(readout: Staircase, points: Points, target: Target, table_error: float) -> float:
    """Largest error of the dense readout on the points beside the steepest ramps and on others spread evenly.

    The `paper` readout has no useful error bound at scale (its terms are large and cancel), so it is measured.
    """
    neurons = max(1, len(readout.weight_1))
    count = int(min(len(points.z), max(16, min(256, (1 << 27) // neurons))))
    steep = np.argsort(points.gaps())[: count // 2]
    even = np.linspace(0, len(points.z) - 1, count - len(steep)).astype(np.int64)
    tried = np.unique(np.concatenate([steep, even]))
    label = readout.dense(torch.from_numpy(points.z[tried])).numpy()
    wanted = target.table[target.number[points.order[tried]]]
    error = float(np.abs(label - wanted).max())
    if target.classes is not None and error >= 0.5:
        raise PrecisionError(
            f"the one-hidden-layer readout errs by {error:.3g} on these data: its {neurons:,} large terms cancel "
            "in float64, and an error of 0.5 changes a label. Use readout='exact', which has no such error"
        )
    return max(0.0, error - table_error)
