"""How far rounding can move `z`, in any order of summation. Lemmas are numbered as in docs/proofs.md.

Notation: `u` unit roundoff, `τ` smallest normal number, `γ_k = ku / (1 − ku)` for real `k`, `g` the ulps that
`exp` may be wrong; `q k v o` the one nonzero entry of `W_Q W_K W_V W_O`; `S ≥ |s_l|` for every key of every
evaluation; `R ≥ |q k| S`; `n` the terms of a softmax, the begin-of-sequence token included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.data.number_formats import FLOAT32, FLOAT64

EXP_ULPS = 4
"""`g`: how many units in the last place `exp` may be wrong. Measured by bench/exp_is_within_four_ulps.py.

`construct/line/draw.py` leaves room for the same number, by the same name; neither side imports the other."""

NUMPY_ASSUMPTION = "NumPy on the checking machine keeps to the same rules, and flushes nothing to zero, which was tried"
"""What every certificate assumes of the checker itself."""


class UnhandledError(Exception):
    """The stored weights have a form that the proofs do not cover.

    The message says which; the claim stays undecided.
    """


@dataclass(frozen=True)
class BinaryFormat:
    """A binary floating-point format.

    `unit` is `u`, `tiny` is `τ`. The other numbers are the sizes within which the proofs exclude overflow (Lemma 2):
    largest attention score, smallest and largest weight, most terms of a softmax.
    """

    name: str
    unit: float
    tiny: float
    largest_score: float
    smallest: float
    largest: float
    longest: int

    def gamma(self, k: Any) -> Any:
        """`γ_k`: a product of `k` factors `(1 + δ)^±1`, `|δ| ≤ u`, lies within `1 ± γ_k` (Lemma 1).

        `k`: a number or an array.
        """
        if np.max(k, initial=0.0) * self.unit > 0.125:
            raise UnhandledError(f"{np.max(k):,.0f} roundings in a row are too many for {self.name}")
        return k * self.unit / (1.0 - k * self.unit)


BINARY64 = BinaryFormat(FLOAT64.ieee, FLOAT64.unit, FLOAT64.least_normal, 64.0, 2.0**-400, 2.0**128, 2**31)
BINARY32 = BinaryFormat(FLOAT32.ieee, FLOAT32.unit, FLOAT32.least_normal, 16.0, 2.0**-100, 2.0**30, 2**20)

PADDING = 1.0 + 2.0**-20
"""Covers the rounding of the bounds themselves, which are computed in binary64 from positive numbers."""


@dataclass(frozen=True)
class Attention:
    """The one nonzero entry of each of the four matrices."""

    q: float
    k: float
    v: float
    o: float


def lift_error(size: object, terms: int, fmt: BinaryFormat) -> Any:
    """Lemma 3: bound on the error of a sum of `terms` products, biases or positions, whose sizes sum to `size`."""
    return PADDING * (fmt.gamma(terms) * size + (4 * terms + 3) * fmt.tiny)


def context_error(n: Any, head: Attention, S: float, ds: float, fmt: BinaryFormat, values: tuple[float, float]) -> Any:
    """Lemma 4: bound on `|ŷ − y|`, `y` what attention writes, for `n` keys known to within `ds`.

    `n`: terms of the softmax, a number or an array. `S`: bounds the keys. `values` `(T, dt)`: what is averaged is at
    most `T` in absolute value and known to within `dt`.
    """
    q, k, v, o = abs(head.q), abs(head.k), abs(head.v), abs(head.o)
    R = PADDING * q * k * S
    T, dt = values
    size = max(q, k, v, o, S, T, o * v, v * T, o * v * T)
    if not (fmt.largest_score >= R and size <= fmt.largest and np.max(n) <= fmt.longest):
        raise UnhandledError(
            f"scores reach {R:.3g}, weights and their products {size:.3g}, and softmax has up to {np.max(n):,.0f} "
            f"terms; the bound for {fmt.name} covers {fmt.largest_score:g}, {fmt.largest:.3g} and {fmt.longest:,}"
        )
    # Number of factors 1 + δ in one weight exp(q k s − m): those of its exponent, then those of exp itself.
    weight = R * 4.0 / (1.0 - 4.0 * fmt.unit) + 3.0 * (1.0 + q + k + S) * fmt.tiny / fmt.unit + 2.0 * EXP_ULPS
    above, below = fmt.gamma(n + 4.0 + weight), fmt.gamma(n - 1.0 + weight)
    underflow = 64.0 * n * (1.0 + o) * (1.0 + v) * (1.0 + max(S, T)) * np.exp(2.0 * R) * fmt.tiny
    moved = dt + 2.0 * PADDING * q * k * T * ds
    return PADDING * (o * v * (T * (above + below) / (1.0 - below) + moved) + underflow)


def code_error(z: Floats, before: Floats, fmt: BinaryFormat) -> Floats:
    """Lemma 5: bound on `|ẑ − z|` `(M,)` for the rounded sum `z = t + y`.

    `z` `(M,)`: any evaluation of it, in this format or a finer one. `before` `(M,)`: bounds the errors of `t` and `y`
    together.
    """
    bound: Floats = PADDING * (((1.0 + fmt.unit) * before + fmt.unit * np.abs(z)) / (1.0 - fmt.unit) + fmt.tiny)
    return bound
