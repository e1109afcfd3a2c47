"""The formats that weights of hosts are stored in, and that transformers then compute in.

What is assumed of an evaluation in a short format is what PyTorch does: products are summed in float32, in any order,
the bias is added there, and the sum is rounded once; norms and activations are computed in float32, or step by step,
and rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SUM_UNIT = 2.0**-24
"""`u`: the unit roundoff of float32, in which sums are computed in every format."""
FLUSHED = 2.0**-126
"""Numbers of float32 below this may be flushed to zero."""


@dataclass(frozen=True)
class HostFormat:
    """What attaching facts needs to know about a format.

    A norm returns numbers of the format, so the length of û and its product with a key k move by rounding, in a short
    format by about v/√(3D) from one evaluation to the next. A neuron is therefore built, and claims are made, for the
    states at which its input lies between `low` T and `high` T, and 1 − cos(k, û) ≤ `turn`.
    """

    name: str
    bits: int
    """Of the significand, the leading one among them."""
    largest: float
    """The largest finite number."""
    tiny: float
    """The spacing of the numbers next to 0."""
    low: float
    narrow: float
    """Where another key is near, claims are made for inputs from `narrow` T on only."""
    high: float
    turn: float
    state: float
    """Length of a state up to which a neuron outweighs it."""
    coordinate: float
    """What a coordinate of a state of the host may reach: written vectors added to it stay finite."""
    beyond: float
    """|û| ≤ 1 + `beyond` at any state, or what rounding alone makes it, whichever is more. A norm loses digits where it
    subtracts a mean that is much longer than the rest."""

    @property
    def unit(self) -> float:
        """`v`: a number is rounded by at most this share of itself."""
        return float(2.0**-self.bits)

    @property
    def lost(self) -> float:
        """What is lost at most, beside a share, where a number is rounded to the format: binary32 and bfloat16 may
        flush numbers below 2^−126 to zero, float16 has a spacing."""
        return max(self.tiny, FLUSHED)

    @property
    def short(self) -> bool:
        """Whether numbers of the format have fewer digits than float32."""
        return self.bits < 24

    def spacing(self, numbers: Any) -> Any:
        """How far the neighbours of numbers are away: in [2^(e−1), 2^e) the spacing is 2^(e−bits)."""
        return np.maximum(np.ldexp(1.0, np.frexp(numbers)[1] - self.bits), self.tiny)


FORMATS = {
    "float32": HostFormat(
        "float32",
        24,
        3.4e38,
        2.0**-149,
        low=0.5,
        narrow=0.875,
        high=np.inf,
        turn=2.0,
        state=2.0**16,
        coordinate=2.0**50,
        beyond=2.0**-4,
    ),
    "bfloat16": HostFormat(
        "bfloat16",
        8,
        3.38e38,
        2.0**-133,
        low=0.25,
        narrow=0.25,
        high=2,
        turn=2.0**-13,
        state=2.0**16,
        coordinate=2.0**50,
        beyond=2.0**-4,
    ),
    "float16": HostFormat(
        "float16",
        11,
        65504.0,
        2.0**-24,
        low=0.5,
        narrow=0.5,
        high=2,
        turn=2.0**-16,
        state=2.0**9,
        coordinate=2.0**13,
        beyond=0.0,
    ),
}
"""States turn by 1 − cos ≤ 4·10⁻⁵ between kernels in bfloat16 (measured, 8 layers of width 512), a third of `turn`,
and by 5·10⁻⁷ in float16. In float32 neither `high` nor `turn` limits anything: |û| ≤ 1 + (D + 16)u there. States in
float16 have 11 digits, and norms compute with 24: lengths stay below 1 + 2⁻¹¹ at states whose
coordinates are all the same but for a digit (bench/norms_in_float16_keep_lengths.py), so `beyond` is 0."""
