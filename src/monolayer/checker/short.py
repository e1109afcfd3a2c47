"""The short formats that weights may be rounded to, each with its rounding: to nearest, ties to even.

Numbers are rounded through float32, as PyTorch does, and returned as float32, which holds them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array

Float32s = NDArray[np.float32]


def round_to(tensor: Array, dtype: str) -> Float32s:
    """`tensor` rounded to `dtype`, one of `SHORT_FORMATS`."""
    return SHORT_FORMATS[dtype](tensor.astype(np.float32))


def _to_bfloat16(values: Float32s) -> Float32s:
    """The upper half of float32; what is cut off is rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    even = (bits >> 16) & 1
    upper = np.where(np.isnan(values), bits, bits + 0x7FFF + even) & np.uint32(0xFFFF0000)
    return upper.astype(np.uint32).view(np.float32)


def _to_float16(values: Float32s) -> Float32s:
    """NumPy has this format."""
    return values.astype(np.float16).astype(np.float32)


def _to_int8(values: Float32s) -> Float32s:
    """Whole multiples of one scale per row of a matrix, or for a whole vector, its largest number over 127."""
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    scale = (largest / 127).astype(np.float32)
    steps = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
    multiples = np.rint(steps).clip(-127, 127).astype(np.float32) * scale
    return np.where(np.isnan(values), values, multiples).astype(np.float32)


SHORT_FORMATS: Mapping[str, Callable[[Float32s], Float32s]] = {
    "bfloat16": _to_bfloat16,
    "float16": _to_float16,
    "int8": _to_int8,
}
"""Formats with fewer digits than float32: weights are stored in them or rounded to them, and arithmetic is not."""
