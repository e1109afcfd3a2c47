"""Every labelled place as one number: `z = t + κ c`, the code of its token plus the id of its context.

In the layout `cells`, κ is so small that the contexts of a token stay inside its own cell: points come
token by token, and equal labels of one token fall into runs. In the layout `mixed`, codes and contexts
share the line freely, which asks for less precision.

Points are arrays, or tensors where the data lie on a device (`monolayer/arrays.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monolayer.arrays import (
    Floats,
    Ints,
    Numbers,
    ends_of,
    exponent,
    home,
    in_order,
    is_array,
    larger,
    order_of,
    order_of_digits,
    pick,
    places,
    rows_of,
    short,
    whole_numbers,
)
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.powers import power_below
from monolayer.construct.target import Target
from monolayer.model.contexts import spread

SLACK = 8.0
"""Neighbours with different labels must lie this many rounding errors apart.

The ramp between them takes at most a quarter of the gap, so 3/8 of it stay free on either side: three
errors. A certificate needs two (docs/proofs.md); the third is room for its stricter count.
"""
WORTH_IT = 4
"""Tokens a sequence from which sorting contexts and then codes is faster than sorting points, by measurement."""
POINTS_IN_CACHE = 1 << 15
"""Points that a processor looks at together: their numbers fit into its cache. A device looks at all of them."""


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

    def gaps(self) -> Numbers:
        """Distances of neighbours `(P − 1,)`."""
        return self.z[1:] - self.z[:-1]

    @cached_property
    def room(self) -> Numbers:
        """The gaps `(P − 1,)` in rounding errors of whichever end has the larger one."""
        if not is_array(self.z):
            return self._room(self.z[:-1], self.z[1:])
        found = np.empty(max(0, len(self.z) - 1))
        for part in stretches_of(len(found), self.z):
            found[part] = self._room(self.z[part], self.z[part.start + 1 : part.stop + 1])
        return found

    def _room(self, left: Numbers, right: Numbers) -> Numbers:
        error = larger(right, -left)  # the larger of the two sizes
        error *= self.unit
        error += self.fixed_error
        return (right - left) / error

    @cached_property
    def tight(self) -> Ints:
        """The gaps that are too narrow for a step, each by the number of the point before it."""
        return home(places(too_narrow(self.room)))

    def ends(self) -> tuple[float, float]:
        """The least and the largest `z`."""
        return float(self.z[0]), float(self.z[-1])


def too_narrow(room: Numbers) -> Numbers:
    """Which gaps, in rounding errors, are too narrow for a step."""
    return ~(room >= SLACK)  # `not (≥)` rather than `<`: a NaN is no gap either


def stretches_of(count: int, like: Numbers) -> Iterator[slice]:
    """So many numbers in stretches that are looked at together where `like` lies; at least one stretch."""
    at_once = POINTS_IN_CACHE if is_array(like) else max(1, count)
    for start in range(0, max(1, count), at_once):
        yield slice(start, min(start + at_once, count))


def contextual_points(draw: Draw, tokens: Tokens, target: Target) -> Points:
    """The contextual mapping: one number for every labelled place, sorted."""
    kappa, order = draw.kappa, None
    context = draw.contexts(tokens)
    if target.per == "sequence":
        kappa, z = 1.0, context
    else:
        z = draw.codes(tokens)
        low, high = ends_of(context)
        reach = high - low
        if kappa is None:
            room = 1.0 if draw.layout == "mixed" or draw.spaced else code_gap(draw, z)
            kappa = scale(room, reach, draw.context_error(tokens))
        rectangular = len(z) == len(context) * tokens.longest >= WORTH_IT * len(context)
        if draw.whole_codes and not tokens.causal and rectangular and kappa * reach <= 0.5:
            order = token_major(z, context, target.place)
        z += kappa * context if tokens.causal else spread(kappa * context, tokens.lengths)
    if target.place is not None:
        z = pick(z, target.place)
    if order is None:
        order = order_of(z)
    return Points(pick(z, order), order, kappa, draw.point_error(kappa, tokens), draw.unit)


def scale(room: float, reach: float, error: float) -> float:
    """κ: contexts that differ by `reach` at most stay within half the `room` of a code.

    Those that differ by no more than both their rounding errors may all be equal: then there is nothing to scale.
    """
    return float(power_below(0.5 * room / reach)) if reach > 2.0 * error else 1.0


def token_major(code: Numbers, context: Numbers, place: Numbers | None) -> Numbers | None:
    """The order of `z = t + κ c` `(P,)` without sorting `P` floats; None where codes are too many for that.

    Codes `(T,)` are whole numbers and `κ c` moves them by less than 1/2 against each other: points are in order of
    code, and of context for equal codes. So it is enough to sort the contexts `(N,)` of sequences that are all of
    one length, and then the codes in that order by a stable radix sort, 16 bits at a time.
    """
    low, high = ends_of(code)
    most = high - low
    if most >= 2.0**32:
        return None
    digits, by_context = short(code - low, int(most)), order_of(context)
    if not is_array(code) and place is None:
        width = len(code) // len(context)
        there = order_of_digits(rows_of(digits, len(context), by_context))
        row = there // width  # of what was put in order of context; numbers are computed faster than moved
        return pick(by_context, row).mul_(width).add_(there.sub_(row.mul_(width)))
    number = whole_numbers(len(code), code, short=True)
    if place is not None:
        number[:] = -1
        number[place] = whole_numbers(len(place), code, short=True)
    digits, number = (rows_of(part, len(context), by_context) for part in (digits, number))
    if place is not None:
        labelled = number >= 0
        digits, number = digits[labelled], number[labelled]
    return pick(number, order_of_digits(digits))


def code_gap(draw: Draw, code: Numbers) -> float:
    """Distance of the closest two codes that are more than a rounding error apart."""
    ordered = in_order(code)
    gap = ordered[1:] - ordered[:-1]
    gap = gap[gap > 4.0 * draw.proposal.lift_error]
    return float(gap.min()) if len(gap) else 1.0


def ramps_at(z: Numbers, changes: Numbers) -> tuple[Numbers, Numbers]:
    """Slopes and beginnings of the ramps `(R,)`, a stretch at a time."""
    if not is_array(z):
        return ramps(pick(z, changes), pick(z[1:], changes))
    slope, start = np.empty(len(changes)), np.empty(len(changes))
    for part in stretches_of(len(changes), z):
        here = changes[part]
        slope[part], start[part] = ramps(z.take(here), z.take(here + 1))
    return slope, start


def ramps(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """Slope and beginning of the ramp between each two neighbours `(R,)`: it depends on these two alone.

    It sits in the middle of its gap `G` and is `2^−k ≤ G/4` wide, so at least `3G/8` stay free on either side. Gaps are
    normal numbers: they exceed rounding errors of numbers that are.
    """
    gap = right - left
    # The power of two below, times a quarter, lies between gap/8 and gap/4.
    width = exponent(gap) * 0.25
    return 1.0 / width, left + (gap - width) * 0.5


def size_of_jumps(jump: Numbers) -> float:
    """`Σ |Δ|` of jumps `(m, R)`, a stretch at a time."""
    if not is_array(jump):
        return float(jump.norm(1))
    return sum(float(abs(jump[:, part]).sum()) for part in stretches_of(jump.shape[1], jump))


class StepTensors(NamedTuple):
    """What a file stores of `R` steps: `weight_1` and `bias_1` `(R,)`, `weight_2` `(m, R)`."""

    weight_1: Floats
    bias_1: Floats
    weight_2: Floats


def step_tensors(slope: Floats, start: Floats, jump: Floats) -> StepTensors:
    """The tensors of steps of the exact readout, as `Staircase.from_steps` computes them."""
    return StepTensors(slope, -(start * slope), 0.0 - jump)
