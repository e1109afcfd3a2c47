"""From sorted points to a staircase: one step between any two neighbours with different labels.

A run of equal labels costs nothing inside, however many points it holds. The ramp of a step sits in the
middle of its gap `G` and is `2^−k ≤ G/4` wide, so at least `3G/8` stay free on either side of it.
"""

from __future__ import annotations

import numpy as np
import torch

from monolayer.arrays import Floats
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.points import size_of_jumps
from monolayer.errors import PrecisionError
from monolayer.model.staircase import Staircase


def staircase(slope: Floats, start: Floats, level: Floats, classes: bool, unit: float = UNIT) -> Staircase:
    """The readout with ramps of this slope and beginning `(R,)`, and labels `level` `(m, R + 1)` between them.

    `classes`: labels are whole numbers, whose sums must not round in a format with unit roundoff `unit`.
    """
    ramps = torch.from_numpy(slope), torch.from_numpy(start)
    if not classes:
        return Staircase.from_runs(*ramps, torch.from_numpy(np.ascontiguousarray(level)))
    jump = np.diff(level, axis=1)
    most = max(size_of_jumps(row[None]) for row in jump) + max(float(level.max()), -float(level.min()))
    if most * unit >= 1.0:
        raise PrecisionError(
            f"{level.shape[1]:,} runs of labels add up to {most:,.0f}, and sums of whole numbers are exact only below "
            f"{1.0 / unit:,.0f} in this format: use fewer classes{'' if unit == UNIT else ', or float64'}"
        )
    return Staircase.from_steps(*ramps, torch.from_numpy(jump), torch.from_numpy(level[:, -1].copy()))
