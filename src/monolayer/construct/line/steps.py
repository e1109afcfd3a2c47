"""From sorted points to a staircase: one step between any two neighbours with different labels.

A run of equal labels costs nothing inside, however many points it holds. The ramp of a step sits in the
middle of its gap `G` and is `2^−k ≤ G/4` wide, so at least `3G/8` stay free on either side of it.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.construct.line.points import Points, ramps_at, size_of_jumps
from monolayer.construct.target import Target
from monolayer.errors import PrecisionError
from monolayer.model.staircase import Staircase

Choice = Literal["exact", "paper"]
"""Exact: `runs` for real labels, integer jumps for classes; or one hidden layer, as in the paper."""

LARGEST = 2.0**1022
"""What the jumps of real labels may add up to in the `paper` readout: rounding to a grid then keeps all sums finite."""


def staircase(points: Points, changes: Ints, level: Floats, classes: bool, readout: Choice) -> tuple[Staircase, float]:
    """The readout that gives every point its label, and how far the labels that it stores are from the given ones.

    `changes` `(R,)`: the places `i` where point `i` and point `i + 1` have different labels; `level` `(m, R + 1)`:
    the labels of the runs between them; `classes`: they are class numbers.
    """
    slope, start = map(torch.from_numpy, ramps_at(points.z, changes))
    if readout == "exact" and not classes:
        return Staircase.from_runs(slope, start, torch.from_numpy(np.ascontiguousarray(level))), 0.0
    stored = level if classes else np.stack([_on_grid(given) for given in level])
    jump = np.diff(stored, axis=1)
    if classes and (size_of_jumps(jump) + float(stored.max())) * points.unit >= 1.0:
        bits = round(-np.log2(points.unit))
        way = "use fewer" if bits == 53 else "use fewer, or dtype='float64'"
        raise PrecisionError(f"{level.shape[1]:,} runs of {int(level.max()) + 1:,} classes add up past 2^{bits}: {way}")
    first, last = (torch.from_numpy(stored[:, end].copy()) for end in (0, -1))
    error = 0.0 if classes else float(np.abs(stored - level).max())
    return Staircase.from_steps(slope, start, torch.from_numpy(jump), first, last, readout), error


def _on_grid(given: Floats) -> Floats:
    """One coordinate of real labels, rounded to a binary grid on which the `paper` readout adds up all jumps exactly.

    `variation` bounds the absolute sum of every set of numbers that the network may add up. With spacing `2^−q`
    and `variation · 2^q ≤ 2^52`, each partial sum, in any order, is a multiple of the spacing below `2^53`
    multiples: a float, so no addition rounds. The spacing is a normal number, so no sum is subnormal either.
    """
    with np.errstate(over="ignore"):  # infinity is refused below
        variation = float(np.abs(np.diff(given)).sum()) + max(float(given.max()), -float(given.min()))
    if variation > LARGEST:
        raise PrecisionError(
            f"the real labels run from {given.min():.3g} to {given.max():.3g}, and the sum of their "
            f"{len(given) - 1:,} jumps passes the largest float64: multiply them by a small power of two, which is "
            "exact, or use readout='exact', which adds up nothing"
        )
    if variation == 0:
        return given
    spacing = math.ldexp(1.0, -min(1022, 52 - math.ceil(math.log2(variation))))
    return np.rint(given / spacing) * spacing


@torch.no_grad()
def dense_error(readout: Staircase, points: Points, target: Target, stored_error: float) -> float:
    """Largest error of the dense readout on the points beside the steepest ramps and on others spread evenly.

    The `paper` readout has no useful error bound at scale (its terms are large and cancel), so it is measured. It is
    never less than `stored_error`, how far stored labels are from the given ones.
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
    return max(error, stored_error)
