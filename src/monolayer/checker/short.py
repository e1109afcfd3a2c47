"""Stored weights rounded to a short format, as a claim about that format wants them: to nearest, ties to even.

float64 goes through float32, as in torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.checker.rounding import BINARY32
from monolayer.checker.stored import Stored
from monolayer.errors import DataError

LEVELS = {"int8": 127, "int6": 31, "int4": 7}
"""Largest whole number of each integer format; a row is multiplied by one scale, its largest number over this."""
SHORT = ("bfloat16", "float16", *LEVELS)


def rounded(stored: Stored, dtype: str) -> Stored:
    """The same model with every tensor in the short format `dtype`; arithmetic is binary32."""
    if dtype not in SHORT:
        raise DataError(f"dtype must be one of {', '.join(map(repr, SHORT))}, not {dtype!r}")
    tensors = {name: round_to(tensor, dtype) for name, tensor in stored.tensors.items()}
    return replace(stored, tensors=tensors, config=stored.config | {"dtype": dtype}, format=BINARY32)


def round_to(tensor: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """`tensor` rounded to `dtype`, in float32. Integers: per row of a matrix, or for a whole vector, one scale."""
    values = tensor.astype(np.float32)
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = values.view(np.uint32)
        even = (bits >> 16) & 1
        upper = np.where(np.isnan(values), bits, bits + 0x7FFF + even) & np.uint32(0xFFFF0000)
        return upper.astype(np.uint32).view(np.float32)
    top = LEVELS[dtype]
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    scale = (largest / top).astype(np.float32)
    steps = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
    found = np.rint(steps).clip(-top, top).astype(np.float32) * scale
    return np.where(np.isnan(values), values, found).astype(np.float32)
