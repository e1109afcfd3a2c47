"""Every labelled place as one number: `z = t + κ c`, the code of its token plus the id of its context.

In the layout `cells`, κ is so small that the contexts of a token stay inside its own cell: points come
token by token, and equal labels of one token fall into runs. In the layout `mixed`, codes and contexts
share the line freely, which asks for less precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monolayer.construct.draw import UNIT, Draw, Tokens
from monolayer.construct.target import Target
from monolayer.data.names import Ints
from monolayer.model.shortcut import spread

Floats = NDArray[np.float64]

SLACK = 8.0
"""Neighbours with different labels must lie this many rounding errors apart.

The ramp between them takes at most a quarter of the gap, so 3/8 of it stay free on either side: three
errors. A certificate needs two (docs/certificate.md); the third is room for its stricter count.
"""


@dataclass(frozen=True, eq=False)
class Points:
    """Labelled places in order of `z` `(P,)`; `order` `(P,)` says which place each one is."""

    z: Floats
    order: Ints
    kappa: float
    fixed_error: float

    def error(self, z: Floats) -> Floats:
        """Bound on the rounding error of `z` itself, in any order of summation."""
        error: Floats = self.fixed_error + UNIT * np.abs(z)
        return error

    def gaps(self) -> Floats:
        """Distances of neighbours `(P − 1,)`."""
        return np.diff(self.z)

    def told_apart(self) -> NDArray[np.bool_]:
        """`(P − 1,)`: whether neighbours are certainly different points: further apart than both errors."""
        return self.gaps() > 2.0 * self.error(np.maximum(np.abs(self.z[1:]), np.abs(self.z[:-1])))


def contextual_points(draw: Draw, tokens: Tokens, target: Target) -> Points:
    """The contextual mapping: one number for every labelled place, sorted."""
    context = draw.contexts(tokens)
    reach = float(context.max() - context.min())
    if target.per == "sequence":
        kappa, z = 1.0, context.numpy()
    else:
        code = draw.codes(tokens)
        room = 1.0 if draw.layout == "mixed" or draw.lift is None else _code_gap(draw, code.numpy())
        kappa = _power_of_two(0.5 * room / reach) if reach > 0 else 1.0
        if not tokens.causal:
            context = spread(context, tokens.lengths)
        z = code.add_(context, alpha=kappa).numpy()
        if target.place is not None:
            z = z[target.place]
    error = kappa * draw.context_error(tokens) + draw.lift_error
    order = np.argsort(z)
    return Points(z[order], order, kappa, error)


def _code_gap(draw: Draw, code: Floats) -> float:
    """Distance of the closest two codes that are more than a rounding error apart."""
    gap = np.diff(np.sort(code))
    gap = gap[gap > 4.0 * draw.lift_error]
    return float(gap.min()) if len(gap) else 1.0


def _power_of_two(value: float) -> float:
    """The largest power of two up to `value`: scaling by it is exact."""
    return float(np.exp2(np.floor(np.log2(value))))
