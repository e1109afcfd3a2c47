"""Where steps stand: the ramp between two neighbours, in the middle of its gap and a power of two wide.

Arrays alone, so that processes that build pieces of a readout do without PyTorch.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.construct.line.points import BLOCK

EXPONENT = np.int64(0x7FF0000000000000)
"""Where a float64 keeps its exponent. Gaps are normal numbers: they exceed rounding errors of numbers that are."""


def ramps_at(z: Floats, changes: Ints) -> tuple[Floats, Floats]:
    """Slopes and beginnings of the ramps `(R,)`, a stretch at a time."""
    slope, start = np.empty(len(changes)), np.empty(len(changes))
    for first in range(0, len(changes), BLOCK):
        here = slice(first, first + BLOCK)
        slope[here], start[here] = ramps(z.take(changes[here]), z.take(changes[here] + 1))
    return slope, start


def ramps(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Slope and beginning of the ramp between each two neighbours `(R,)`: it depends on these two alone."""
    gap = right - left
    # The bits of the exponent alone are the power of two below: a quarter of it lies between gap/8 and gap/4.
    width = (gap.view(np.int64) & EXPONENT).view(np.float64) * 0.25
    return 1.0 / width, left + (gap - width) * 0.5


def size_of_jumps(jump: Floats) -> float:
    """`Σ |Δ|`, a stretch at a time."""
    return sum(float(np.abs(jump[:, start : start + BLOCK]).sum()) for start in range(0, jump.shape[1], BLOCK))


def weights(slope: Floats, start: Floats, jump: Floats) -> tuple[Floats, Floats, Floats]:
    """`weight_1`, `bias_1` `(R,)` and `weight_2` `(m, R)` of steps of the exact readout, as `Staircase.from_steps`."""
    return slope, -(start * slope), 0.0 - jump
