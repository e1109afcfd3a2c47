"""The formats in which the weights of hosts are stored, and in which transformers then computes.

An evaluation in a short format is assumed to proceed as in PyTorch. Products are summed in float32, in any order; the
bias is added in float32, and the sum is rounded once. Norms and activations are computed in float32, or step by step,
and rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.data.number_formats import BFLOAT16, FLOAT16, FLOAT32, NumberFormat

SUM_UNIT = FLOAT32.unit
"""`u`: the unit roundoff of float32, in which sums are computed in every format."""
FLUSHED = FLOAT32.least_normal
"""float32 numbers smaller than this in size may be flushed to zero."""


@dataclass(frozen=True)
class HostFormat(NumberFormat):
    """A format, and what attaching facts needs to know besides.

    A norm returns numbers of the format, so the length of û and its product with a key k move by rounding: in a short
    format by about v/√(3D) from one evaluation to the next, and by as much as v where one coordinate is most of û. A
    neuron is therefore built, and claims are made, for the states at which its input lies between `low` T and `high` T,
    and 1 − cos(k, û) ≤ `turned`. `v` is the unit roundoff of the format.
    """

    low: float
    """Claims are made for inputs of a neuron of at least `low` T."""
    narrow: float
    """If another key is near, claims are made only for inputs of at least `narrow` T."""
    high: float
    """Claims are made for inputs of a neuron of at most `high` T."""
    turn: float
    """Claims are made for states with 1 − cos(k, û) ≤ `turn` at least; see `turned`."""
    core: float
    """Whatever other neurons do, claims are made for states with 1 − cos(k, û) ≤ `core`…"""
    near: float
    """…at which the input of the neuron is at most `near` T."""
    state: float
    """The largest length of a state that a neuron outweighs."""
    coordinate: float
    """How large a coordinate of a state of the host may be, so that it stays finite when written vectors are added."""
    beyond: float
    """|û| ≤ 1 + `beyond` at any state, or what rounding alone makes it, whichever is more.

    A norm loses digits where it subtracts a mean that is much longer than the rest. So in float32, and only there, this
    is about states that are no more than `flattest` times as long as they are less their mean."""
    still: float
    """The least default ρ. States turn between kernels by 10⁻⁷ in float32 and by about 10⁻⁵ in bfloat16 (both
    measured)."""

    @property
    def lost(self) -> float:
        """The most that rounding to the format can lose of a number besides the share `unit`.

        float32 and bfloat16 may flush numbers below 2^−126 to zero, and float16 has a spacing of 2^−24 next to 0.
        """
        return max(self.spacing_at_0, FLUSHED)

    def flattest(self, width: int) -> float:
        """`R` of Lemma A1: how many times as long as it is less its mean a state may be, where norms subtract it.

        A norm in float32 is off by 2(D + 16)u R² of its length at most, which is `beyond` for this R. Short formats
        have too few digits for states that would be flat enough to matter.
        """
        return float(np.inf if self.short else np.sqrt(self.beyond / (2.0 * (width + 16) * SUM_UNIT)))

    def turned(self, radius: Any) -> Any:
        """How far 1 − cos(k, û) may rise for a neuron of radius ρ, if all neurons that write something else are silent.

        It is ρ/2, or `turn` if that is more.
        """
        return np.maximum(self.turn, radius / 2.0)

    def spacing(self, numbers: Any) -> Any:
        """The distance from each number to its neighbours in the format: 2^(e−bits) in [2^(e−1), 2^e)."""
        return np.maximum(np.ldexp(1.0, np.frexp(numbers)[1] - self.bits), self.spacing_at_0)


HOST_FORMATS = {
    fmt.name: fmt
    for fmt in (
        HostFormat(
            **vars(FLOAT32),
            low=0.5,
            narrow=0.875,
            high=np.inf,
            turn=2.0,
            core=2.0,
            near=np.inf,
            state=2.0**16,
            coordinate=2.0**50,
            beyond=2.0**-4,
            still=2.0**-14,
        ),
        HostFormat(
            **vars(BFLOAT16),
            low=0.25,
            narrow=0.25,
            high=2,
            turn=2.0**-13,
            core=2.0**-19,
            near=1.0625,
            state=2.0**16,
            coordinate=2.0**50,
            beyond=2.0**-4,
            still=2.0**-11,
        ),
        HostFormat(
            **vars(FLOAT16),
            low=0.5,
            narrow=0.5,
            high=2,
            turn=2.0**-16,
            core=2.0**-22,
            near=1.0625,
            state=2.0**9,
            coordinate=2.0**13,
            beyond=0.0,
            still=2.0**-13,
        ),
    )
}
"""The formats that hosts may have, by their names.

Between kernels, states in bfloat16 turn by 1 − cos ≤ 4·10⁻⁵ (measured with 8 layers of width 512), which is a third of
`turn`; in float16 they turn by 5·10⁻⁷. In float32 neither `high` nor `turn` limits anything, since |û| ≤ 1 + (D + 16)u
there. States in float16 have 11 binary digits, and norms compute with 24. Lengths therefore stay below 1 + 2⁻¹¹ even at
states whose coordinates agree in all but one digit, so `beyond` is 0; in bfloat16 they stay below 1 + 2⁻⁴
(bench/norms_keep_lengths.py)."""
