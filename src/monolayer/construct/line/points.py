"""Every labelled place as one number: `z = t + κ c`, the code of its token plus the id of its context.

In the layout `cells`, κ is so small that the contexts of a token stay inside its own cell: points come
token by token, and equal labels of one token fall into runs. In the layout `mixed`, codes and contexts
share the line freely, which asks for less precision.

Points are arrays, or tensors where the data lie on a device (`monolayer/arrays.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from monolayer.arrays import (
    Ints,
    Numbers,
    ends_of,
    exponent,
    home,
    int32,
    larger,
    nowhere,
    part_by_part,
    pick,
    places,
    plus,
    whole_numbers,
)
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.draw import Digits, Draw, Tokens
from monolayer.construct.target import Target
from monolayer.kernels import InOrder, digits_in_order, order_of, rows_of
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
    def tight(self) -> Ints:
        """The gaps that are too narrow for a step, each by the number of the point before it."""
        return home(places(too_narrow(self.room)))

    def ends(self) -> tuple[float, float]:
        """The least and the largest `z`."""
        return float(self.z[0]), float(self.z[-1])


def too_narrow(room: Numbers) -> Numbers:
    """Which gaps, in rounding errors, are too narrow for a step."""
    return ~(room >= SLACK)  # `not (≥)` rather than `<`: a NaN is no gap either


def contextual_points(draw: Draw, tokens: Tokens, target: Target) -> Points:
    """The contextual mapping: one number for every labelled place, sorted."""
    context, kappa = draw.contexts(tokens), 1.0
    ordered: InOrder | None = None
    if not target.labelling.at_tokens:
        z = context
    else:
        low, high = ends_of(context)
        reach = high - low
        kappa = draw.kappa_for(tokens, reach)
        rectangular = len(tokens.rows) == len(context) * tokens.longest >= WORTH_IT * len(context)
        if draw.whole_codes and not tokens.causal and rectangular and kappa * reach <= 0.5:
            digits = draw.digits(tokens)
            ordered = None if digits is None else token_major(digits, kappa * context, target.place)
        if ordered is None:
            z = draw.codes(tokens)
            z += kappa * context if tokens.causal else spread(kappa * context, tokens.lengths)
    if ordered is None:
        z = z if target.place is None else pick(z, target.place)
        order = order_of(z)
        ordered = InOrder(pick(z, order), order)
    return Points(*ordered, kappa, draw.point_error(kappa, tokens), draw.unit)


def token_major(code: Digits, moved: Numbers, place: Numbers | None) -> InOrder:
    """`z = t + κ c` `(P,)` in order without sorting `P` floats; `moved` `(N,)` is `κ c` of each sequence.

    Codes `(T,)` are whole numbers and `κ c` moves them by less than 1/2 against each other: points are in order of
    code, and of context for equal codes. So it is enough to sort the contexts of sequences that are all of one length,
    and then the codes in that order by a stable sort of short numbers. Contexts and sequences are then picked in the
    order in which they lie, over and over, once for each code: points are computed faster than moved.
    """
    count, total = len(moved), len(code.numbers)
    width = total // count
    by_context = order_of(moved)
    digits, kept, number = rows_of(code.numbers, count, by_context), None, None
    if place is not None:
        labelled, number = nowhere(total, place), whole_numbers(total, place, short=True)
        labelled[place], number[place] = True, whole_numbers(len(place), place, short=True)
        kept = places(rows_of(labelled, count, by_context))
        digits = pick(digits, kept)
    whole, there = digits_in_order(digits)
    moved = pick(moved, by_context)
    # From a token's place in order of context to its own: by so much, the same for all tokens of a sequence.
    back = int32((by_context - whole_numbers(count, by_context)) * width, total)

    def points(part: slice) -> InOrder:
        at = int32(there[part] if kept is None else pick(kept, there[part]), total)
        row = at // width  # of what was put in order of context
        z = pick(moved, row)
        z += whole[part] if code.low == 0.0 else whole[part] + code.low  # whole numbers: this sum is exact
        at = pick(back, row) + at
        return InOrder(z, at if number is None else pick(number, at))

    return InOrder(*part_by_part(len(there), there, points))


def ramps_at(z: Numbers, changes: Numbers) -> tuple[Numbers, Numbers]:
    """Slopes and beginnings of the ramps `(R,)`, each behind the point of its change."""

    def some(part: slice) -> tuple[Numbers, Numbers]:
        here = changes[part]
        return ramps(pick(z, here), pick(z[1:], here))

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
    return 4.0 / power, plus(left, plus(gap, power, -0.25), 0.5)
