"""Theorem A's hypotheses, checked exactly.

Theorem A: for algebraic `s`, `t` and `λ ≠ 0`, `B(λ; s) = B(λ; t)` iff the multisets `s` and `t` are
proportional: the same values, with multiplicities in one ratio. Every float is algebraic, and `vᵀx` of
floats is a rational number. So a rank-1 head with direction `v` tells apart all contexts whose token
frequencies differ, at every nonzero temperature, iff `vᵀ` takes different values on different tokens. That
is decided here without rounding: in floats with an error bound, O(|V| log |V|), and in integers where two
values are too close for the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat
from numpy.typing import ArrayLike

from monolayer.arrays import Floats

_UNIT = 2.0**-53
_LEAST_FLOAT = 2.0**-1074


@dataclass(frozen=True)
class Injectivity:
    """Whether `vᵀ` is injective on the vocabulary; if not, `pair` are two rows with one value."""

    injective: bool
    pair: tuple[int, int] | None


def projection_injective(vocabulary: ArrayLike, v: ArrayLike) -> Injectivity:
    """Whether `vᵀx` differs for all rows `x` of `vocabulary` `(V, d)`: exact, with floats as they are."""
    vocabulary, v = np.asarray(vocabulary, dtype=np.float64), np.asarray(v, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        s = vocabulary @ v
        # A dot product in any order errs by γ_d Σ|x_i v_i|, and by half the smallest float for each product
        # that underflows. γ_d ≤ 1.01 d u; two more units cover the rounding of this bound itself.
        error = 1.01 * (len(v) + 2) * _UNIT * (np.abs(vocabulary) @ np.abs(v)) + len(v) * _LEAST_FLOAT
        low, high = s - error, s + error
    unknown = ~(np.isfinite(low) & np.isfinite(high))
    low[unknown], high[unknown] = -np.inf, np.inf
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order])
    alone = np.ones(len(order) + 1, bool)
    alone[1:-1] = low[order][1:] > reach[:-1]
    close = order[~(alone[1:] & alone[:-1])]  # overlaps the bounds of the value before or after
    close.sort()
    values, _ = exact_projection(vocabulary[close], v)
    seen: dict[int, int] = {}
    for row, value in zip(close.tolist(), values, strict=True):
        other = seen.setdefault(value, row)
        if other != row:
            return Injectivity(False, (other, row))
    return Injectivity(True, None)


def exact_projection(vectors: ArrayLike, v: ArrayLike) -> tuple[list[int], int]:
    """`(values, exponent)` with `vᵀx = values · 2^exponent` exactly, for every row `x`."""
    rows, power = exact(np.asarray(vectors, dtype=np.float64))
    weights, weight_power = exact(np.asarray(v, dtype=np.float64)[:, None])
    return [int(value) for value in (rows * weights).entries()], power + weight_power


def exact(array: Floats) -> tuple[fmpz_mat, int]:
    """A matrix of floats as `integers · 2^exponent`, exactly, with the largest such exponent."""
    mantissa, exponent = np.frexp(array)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    # Dropping trailing zero bits keeps the integers of round weights (1, 0.5, -3) small.
    zeros = np.where(whole == 0, 0, np.frexp((whole & -whole).astype(np.float64))[1] - 1)
    whole >>= zeros
    power = exponent - 53 + zeros
    base = int(power[whole != 0].min()) if whole.any() else 0
    shift = np.where(whole == 0, 0, power - base)
    entries = [w << s for w, s in zip(whole.ravel().tolist(), shift.ravel().tolist(), strict=True)]
    rows, columns = array.shape
    return fmpz_mat(rows, columns, entries), base
