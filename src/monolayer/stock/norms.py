"""LayerNorm as one constant factor, and then as a monotone function of the context. The lemmas, and what floats do.

`LN(x) = (x − mean) / √(var + ε)`. Coordinates come in pairs `(v, −v)` and balanced words, so the mean is 0; the norm
`K = |x|²` of every stream vector is one constant, so

    LN(x) = f x,   f = 1/√(K/D + ε)          before attention: a constant factor
    LN(x + (g, −g)) = F(g) (x + (g, −g)),    F(g) = 1/√((K + 2g²)/D + ε)

where attention wrote `g` and `−g` onto two coordinates that were 0. What the neurons read of it is `φ = g F(g)`, and
`φ' > 0`: sorting by `φ` is sorting by context.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Floats
from monolayer.construct.line.draw import EXP_ULPS

FLOAT64_UNIT = 2.0**-53


def completed(v: Floats) -> Floats:
    """`(v, −v, r, −r)` with `v² + r² = 2`: mean 0 and squared norm 4, whatever `v` in `[−1, 1]` is."""
    r = np.sqrt(2.0 - v * v)
    return np.stack([v, -v, r, -r], axis=1)


def factor(norm: float | Floats, width: int, epsilon: float) -> Floats:
    """`1/√(K/D + ε)`: what LayerNorm multiplies a vector of mean 0 and squared norm `K` by."""
    return 1.0 / np.sqrt(norm / width + epsilon)


def arriving(g: Floats, norm: float, width: int, epsilon: float) -> Floats:
    """`φ(g) = g F(g)`: what arrives on the context coordinate when attention wrote `(g, −g)`."""
    return g * factor(norm + 2.0 * g * g, width, epsilon)


def rounding(width: int, largest: float, gate: float, write: float, scores: float, terms: int) -> tuple[float, float]:
    """How far an evaluation of `φ` may be from the true one: at worst, and commonly.

    The first is the bound of `docs/proofs-stock.md` to first order, rounded up: norms within `8 D X²` roundings, a
    softmax of `terms` terms in any order and in blocks, a sum of `D` products in a neuron whose terms add up to `gate`.
    The second lets errors of random sign cancel: `√` of their number in place of their number.
    """
    norms, exponent = 8.0 * width * largest**2, 8.0 * scores + 2.0 * EXP_ULPS
    worst = write * (8.0 * terms + 2.0 * exponent + 48.0 * norms * (1.0 + scores)) + 4.0 * (width + 24.0) * gate
    common = write * (8.0 * terms**0.5 + exponent + 8.0 * width**0.5) + 4.0 * width**0.5 * gate
    return worst * FLOAT64_UNIT, common * FLOAT64_UNIT
