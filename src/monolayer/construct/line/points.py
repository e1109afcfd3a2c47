"""Every labelled place as one number: `z = t + κ c`, the code of its token plus the id of its context.

In the layout `cells`, κ is so small that the contexts of a token stay inside its own cell: points come
token by token, and equal labels of one token fall into runs. In the layout `mixed`, codes and contexts
share the line freely, which asks for less precision.

Points are arrays, or tensors where the data lie on a device (`monolayer/arrays.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from monolayer.arrays import (
    Array,
    Floats,
    Ints,
    Numbers,
    ends_of,
    exponent,
    four_by,
    home,
    larger,
    part_by_part,
    pick,
    places,
    plus,
    slices,
)
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.target import Target
from monolayer.kernels import InOrder, order_of, passes, token_major
from monolayer.model.contexts import spread

SLACK = 8.0
"""Neighbours with different labels must lie this many rounding errors apart.

The ramp between them takes at most a quarter of the gap, so 3/8 of it stay free on either side: three
errors. A certificate needs two (docs/proofs.md); the third is room for its stricter count.
"""
WORTH_IT = 4
"""Tokens a sequence from which sorting contexts and then codes is faster than sorting points, by measurement."""


@dataclass(frozen=True, eq=False)
class Points:
    """Labelled places in order of `z` `(P,)`; `order` `(P,)` says which place each one is."""

    z: Numbers
    order: Numbers
    kappa: float
    fixed_error: float
    unit: float = UNIT

    def error(self, z: Numbers) -> Numbers:
        """Bound on the rounding error of `z` itself, in any order of summation."""
        return self.fixed_error + self.unit * abs(z)

    @cached_property
    def room(self) -> Numbers:
        """The gaps `(P − 1,)` in rounding errors of whichever end has the larger one."""
        z = self.z

        def room(part: slice) -> tuple[Numbers]:
            return (self.room_between(z[part], z[part.start + 1 : part.stop + 1]),)

        return part_by_part(max(0, len(z) - 1), z, room)[0]

    def room_between(self, left: Numbers, right: Numbers) -> Numbers:
        """The gaps between points and the next ones in rounding errors of whichever end has the larger one."""
        return (right - left) / self.error_between(left, right)

    def error_between(self, left: Numbers, right: Numbers) -> Numbers:
        """The larger of the rounding errors of `left` and `right`, each `right` being the larger number."""
        error = larger(right, -left)  # the larger of the two sizes
        error *= self.unit
        error += self.fixed_error
        return error

    @cached_property
    def spaced(self) -> Any:
        """The wide and the tight gaps in one pass over many points on a GPU (`fused.Spaced`); else None."""
        fused = passes(self.z)
        return fused and fused.spaced(self.z, self.fixed_error, self.unit, SLACK)

    @cached_property
    def tight(self) -> Ints:
        """The gaps that are too narrow for a step, each by the number of the point before it."""
        return home(self.spaced.tight if self.spaced else places(too_narrow(self.room)))

    def ends(self) -> tuple[float, float]:
        """The least and the largest `z`."""
        return float(self.z[0]), float(self.z[-1])


def too_narrow(room: Numbers) -> Numbers:
    """Which gaps, in rounding errors, are too narrow for a step."""
    return ~(room >= SLACK)  # `not (≥)` rather than `<`: a NaN is no gap either


def contextual_points(encoded: Encoded, target: Target, kappa: float | None = None) -> Points:
    """The contextual mapping: one number for every labelled place, sorted. `kappa`: None: as large as codes allow."""
    if target.labelling.at_tokens:
        low, high = ends_of(encoded.contexts)
        kappa = encoded.kappa_for(high - low) if kappa is None else kappa
        in_order = _by_code(encoded, kappa, high - low, target.place) or _sorted(_sums(encoded, kappa), target.place)
    else:
        kappa, in_order = 1.0, _sorted(encoded.contexts, target.place)
    return Points(*in_order, kappa, encoded.point_error(kappa), encoded.draw.unit)


def labels_on_line(encoded: Encoded, target: Target, label: Array) -> tuple[Floats, Array]:
    """The points of all labelled places in order, `z` `(P,)` of `contextual_points`, and the label of each.

    `label` `(P,)` or `(P, m)`: the labels, which lie in an array, as the tokens do.
    """
    if target.labelling.at_tokens and target.place is None and label.ndim == 1:
        low, high = ends_of(encoded.contexts)
        by_code = _by_code(encoded, encoded.kappa_for(high - low), high - low, None, label)
        if by_code is not None:
            return by_code.numbers, by_code.places
    points, in_order = contextual_points(encoded, target), np.empty(label.shape, label.dtype)
    for part in slices(len(label)):
        in_order[part] = label.take(points.order[part], axis=0)
    return points.z, in_order


def _by_code(
    encoded: Encoded, kappa: float, reach: float, place: Numbers | None, label: Array | None = None
) -> InOrder | None:
    """Points in order of code, then of context, if codes are whole numbers and contexts move them by 1/2 at most.

    `label`: what is wanted of each instead of its place (`token_major`).
    """
    tokens = encoded.tokens
    rectangular = len(tokens.rows) == len(tokens.lengths) * tokens.longest
    worth_it = rectangular and not tokens.causal and tokens.longest >= WORTH_IT
    if not (worth_it and encoded.draw.whole_codes and kappa * reach <= 0.5):
        return None
    digits = encoded.digits()
    return None if digits is None else token_major(digits, kappa * encoded.contexts, place, label)


def _sums(encoded: Encoded, kappa: float) -> Numbers:
    """`t + κ c` of every token `(T,)`."""
    z, moved = encoded.codes, kappa * encoded.contexts
    z += moved if encoded.tokens.causal else spread(moved, encoded.tokens.lengths)
    return z


def _sorted(z: Numbers, place: Numbers | None) -> InOrder:
    """The numbers of the labelled places in order."""
    z = z if place is None else pick(z, place)
    order = order_of(z)
    return InOrder(pick(z, order), order)


def ramps_at(z: Numbers, changes: Numbers) -> tuple[Numbers, Numbers]:
    """Slopes and beginnings of the ramps `(R,)`, each behind the point of its change."""

    def some(part: slice) -> tuple[Numbers, Numbers]:
        here = changes[part]
        return ramps(pick(z, here), pick(z[1:], here))

    fused = passes(changes)
    if fused:
        slope, start = fused.ramps(z, changes)
        return slope, start
    slope, start = part_by_part(len(changes), z, some)
    return slope, start


def ramps(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """Slope and beginning of the ramp between each two neighbours `(R,)`: it depends on these two alone.

    It sits in the middle of its gap `G` and is `2^−k ≤ G/4` wide, so at least `3G/8` stay free on either side. Gaps are
    normal numbers: they exceed rounding errors of numbers that are.
    """
    gap = right - left
    # The power of two below, times a quarter, lies between gap/8 and gap/4. Its multiples by powers of two are exact.
    power = exponent(gap)
    return four_by(power), plus(left, plus(gap, power, -0.25), 0.5)
