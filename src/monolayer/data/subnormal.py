"""Whether this process rounds subnormal numbers to zero, and what must not be done while it does.

A processor has a mode in which numbers nearer to 0 than the smallest normal one (2^−1022 in float64) count as 0, as
operands and as results. `torch.set_flush_denormal(True)` sets it for a thread, and so do libraries that were compiled
with `-ffast-math`, when they are loaded. A comparison in that mode says that 1e-310 equals 0, and text such as
`1e-310` is read as 0. Bits are compared as ever.
"""

from __future__ import annotations

import sys

import numpy as np

from monolayer.arrays import Array, Floats
from monolayer.errors import PrecisionError

WAY_OUT = "turn that off with torch.set_flush_denormal(False), or run this in a process of its own"


def subnormals_are_flushed() -> bool:
    """Whether this thread takes subnormal operands for 0, or returns 0 in place of subnormal results."""
    half: float = sys.float_info.min * 0.5  # 0 if results are flushed; below, equal to 0 if operands are
    return half == 0.0


def check_subnormals_count(what: str) -> None:
    """Refuse to go on where subnormal numbers are flushed to zero; `what`: what needs them, in words."""
    if subnormals_are_flushed():
        raise PrecisionError(
            f"this process takes numbers below 2^-1022 for 0 (torch.set_flush_denormal(True), or a library compiled "
            f"with -ffast-math), and {what}: {WAY_OUT}"
        )


def holds_subnormals(values: Array) -> bool:
    """Whether an array of floats holds a subnormal number, by its bits, which no mode changes."""
    info = np.finfo(values.dtype)
    bits = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    exponent, fraction = ((1 << info.nexp) - 1) << info.nmant, (1 << info.nmant) - 1
    return bool((((bits & exponent) == 0) & ((bits & fraction) != 0)).any())


def without_negative_zeros(values: Array) -> Floats:
    """`values` (float64, changed in place) with 0.0 for −0.0, by its bits: a sum would flush subnormal numbers."""
    bits = values.view(np.int64)
    bits[bits == np.iinfo(np.int64).min] = 0
    return bits.view(np.float64)
