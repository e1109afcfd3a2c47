"""Theorem A's hypotheses, checked exactly.

Theorem A: for algebraic `s`, `t` and `λ ≠ 0`, `B(λ; s) = B(λ; t)` iff the multisets `s` and `t` are
proportional: the same values, with multiplicities in one ratio. Every float is algebraic, and `vᵀx` of
floats is a rational number. So a rank-1 head with direction `v` tells apart all contexts whose token
frequencies differ, at every nonzero temperature, iff `vᵀ` takes different values on different tokens. That
is decided here without rounding: in floats with an error bound, O(|V| log |V|), and in integers where two
values are too close for the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_UNIT = 2.0**-53
_TINY = 2.0**-1074


@dataclass(frozen=True)
class Injectivity:
    """Whether `vᵀ` is injective on the vocabulary; if not, `pair` are two rows with one value.

    `resolved` counts the values that needed integers.
    """

    injective: bool
    pair: tuple[int, int] | None
    resolved: int


def projection_injective(vocabulary: ArrayLike, v: ArrayLike) -> Injectivity:
    """Whether `vᵀx` differs for all rows `x` of `vocabulary` `(V, d)`: exact, with floats as they are."""
    vocabulary, v = np.asarray(vocabulary, dtype=np.float64), np.asarray(v, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        s = vocabulary @ v
        # A dot product in any order errs by γ_d Σ|x_i v_i|, and by half the smallest float for each product
        # that underflows. γ_d ≤ 1.01 d u; two more units cover the rounding of this bound itself.
        error = 1.01 * (len(v) + 2) * _UNIT * (np.abs(vocabulary) @ np.abs(v)) + len(v) * _TINY
        low, high = s - error, s + error
    unknown = ~(np.isfinite(low) & np.isfinite(high))
    low[unknown], high[unknown] = -np.inf, np.inf
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order])
    alone = np.ones(len(order) + 1, bool)
    alone[1:-1] = low[order][1:] > reach[:-1]
    close = order[~(alone[1:] & alone[:-1])]  # overlaps the bounds of the value before or after
    values, _ = exact_projection(vocabulary[close], v)
    seen: dict[int, int] = {}
    for row, value in zip(np.sort(close).tolist(), values[np.argsort(close)].tolist(), strict=True):
        other = seen.setdefault(value, row)
        if other != row:
            return Injectivity(False, (other, row), len(close))
    return Injectivity(True, None, len(close))


def theorem_a(vocabulary: ArrayLike, v: ArrayLike, lam: float) -> tuple[str, ...]:
    """What keeps Theorem A from holding for this direction and temperature, in words; empty if nothing."""
    broken = []
    if lam == 0 or not math.isfinite(lam):
        broken.append(f"λ = {lam}: the temperature must be finite and not zero")
    check = projection_injective(vocabulary, v)
    if check.pair is not None:
        first, second = check.pair
        broken.append(f"vᵀ has the same value at vocabulary rows {first} and {second}: choose another direction")
    return tuple(broken)


def exact_projection(vectors: ArrayLike, v: ArrayLike) -> tuple[NDArray[Any], int]:
    """`(values, exponent)` with `vᵀx = values · 2^exponent` exactly; `values` `(V,)` are Python integers."""
    fractions, powers = np.frexp(np.asarray(vectors, dtype=np.float64))
    weight, weight_powers = np.frexp(np.asarray(v, dtype=np.float64))
    exponents = powers.astype(np.int64) + weight_powers - 106
    mantissas = np.ldexp(fractions, 53).astype(np.int64).astype(object)
    products = mantissas * np.ldexp(weight, 53).astype(np.int64).astype(object)
    nonzero = products != 0
    base = int(exponents[nonzero].min()) if nonzero.any() else 0
    shifts = np.where(nonzero, exponents - base, 0).astype(object)
    return (products << shifts).sum(axis=1), base
