"""The formats that real numbers are stored in: one row each, with all that is known of it.

A number of a format is a sign, a significand of `bits` binary digits and a power of two. Below the least normal number
the digits become fewer, and numbers lie evenly, `spacing_at_0` apart.

NumPy has no bfloat16, whose numbers are the upper halves of those of float32: they are read as integers and widened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Array


@dataclass(frozen=True)
class NumberFormat:
    """A format of real numbers. `name` is what PyTorch and `config.json` call it."""

    name: str
    ieee: str
    """What proofs call it; IEEE 754 does, except for bfloat16."""
    code: str
    """What safetensors calls it."""
    stored: str
    """NumPy's type for the numbers as they lie in a file."""
    bits: int
    """The number of binary digits in the significand, including the leading one."""
    largest: float
    """The largest finite number."""
    least_normal: float
    """The least positive number with all `bits` digits."""
    abbreviation: str
    """What switches of PyTorch call it."""

    @property
    def unit(self) -> float:
        """The unit roundoff: rounding changes a normal number by at most this share of itself."""
        return float(2.0**-self.bits)

    @property
    def spacing_at_0(self) -> float:
        """The least positive number, which is the distance between numbers below the least normal one."""
        return 2.0 * self.unit * self.least_normal

    @property
    def bytes(self) -> int:
        """How many bytes one number takes."""
        return np.dtype(self.stored).itemsize

    @property
    def long(self) -> bool:
        """Whether numbers have more digits than float32."""
        return self.bits > 24

    @property
    def short(self) -> bool:
        """Whether numbers have fewer digits than float32."""
        return self.bits < 24

    @property
    def limited(self) -> bool:
        """Whether numbers end so early, below 2^17, that states of a trained model may overflow."""
        return self.largest < 2.0**17

    @property
    def widened(self) -> bool:
        """Whether NumPy lacks the format, so that `numbers` are float32."""
        return np.dtype(self.stored).kind != "f"

    def raw(self, data: Any) -> Array:
        """The numbers in the bytes `data`, as they are stored, flat."""
        return np.frombuffer(data, dtype=self.stored)

    def numbers(self, raw: Array) -> Array:
        """What `raw` gives as numbers that NumPy can compute with; the same numbers."""
        return (raw.astype("<u4") << 16).view("<f4") if self.widened else raw

    def shortened(self, numbers: Array) -> Array:
        """Numbers that the format holds exactly, as they are stored; `numbers` of the result are the same numbers."""
        if not self.widened:
            return numbers.astype(self.stored, copy=False)
        upper: Array = numbers.astype(np.float32, copy=False).view(np.uint32) >> 16
        return upper.astype(self.stored)


FLOAT64 = NumberFormat("float64", "binary64", "F64", "<f8", 53, (2.0 - 2.0**-52) * 2.0**1023, 2.0**-1022, "fp64")
FLOAT32 = NumberFormat("float32", "binary32", "F32", "<f4", 24, (2.0 - 2.0**-23) * 2.0**127, 2.0**-126, "fp32")
FLOAT16 = NumberFormat("float16", "binary16", "F16", "<f2", 11, 65504.0, 2.0**-14, "fp16")
BFLOAT16 = NumberFormat("bfloat16", "bfloat16", "BF16", "<u2", 8, (2.0 - 2.0**-7) * 2.0**127, 2.0**-126, "bf16")
FORMATS = {each.name: each for each in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16)}
"""The formats by the names that PyTorch and `config.json` have for them."""
BY_CODE = {each.code: each for each in FORMATS.values()}
"""The formats by the names that safetensors has for them."""
