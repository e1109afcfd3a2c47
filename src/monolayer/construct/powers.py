"""Powers of two near a number, from the bits of its exponent.

Exact on every machine: `log2` of a math library may round a number just below a power of two up to it. For positive
normal float64 numbers, or arrays of them; infinity stays. Products with what is returned are exact.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Floats, exponent


def power_below(value: float | Floats) -> Floats:
    """The largest power of two that is at most `value`."""
    power: Floats = exponent(np.asarray(value, dtype=np.float64))
    return power


def power_above(value: float | Floats) -> Floats:
    """The least power of two that is at least `value`."""
    below = power_below(value)
    return np.where(below < value, 2.0 * below, below)


def power_near(value: float | Floats) -> Floats:
    """The power of two whose ratio to `value` is nearest to 1: at most `√2` either way."""
    below = power_below(value)
    share = value / below
    return np.where(share * share > 2.0, 2.0 * below, below)
