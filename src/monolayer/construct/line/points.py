"""Every labelled place as one number: `z = t + κ c`, the code of its token plus the id of its context.

In the layout `cells`, κ is so small that the contexts of a token stay inside its own cell: points come
token by token, and equal labels of one token fall into runs. In the layout `mixed`, codes and contexts
share the line freely, which asks for less precision.

Arrays alone, so that processes that build pieces of a readout do without PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.powers import power_below
from monolayer.construct.target import Target

if TYPE_CHECKING:  # what is sorted already is looked at without PyTorch
    from monolayer.construct.line.draw import Draw, Tokens

SLACK = 8.0
"""Neighbours with different labels must lie this many rounding errors apart.

The ramp between them takes at most a quarter of the gap, so 3/8 of it stay free on either side: three
errors. A certificate needs two (docs/proofs.md); the third is room for its stricter count.
"""
WORTH_IT = 4
"""Tokens a sequence from which sorting contexts and then codes is faster than sorting points, by measurement."""
BLOCK = 1 << 15
"""Points looked at together: their numbers fit into a processor's cache."""


@dataclass(frozen=True, eq=False)
class Points:
    """Labelled places in order of `z` `(P,)`; `order` `(P,)` says which place each one is."""

    z: Floats
    order: NDArray[Any]
    kappa: float
    fixed_error: float
    unit: float = UNIT

    def error(self, z: Floats) -> Floats:
        """Bound on the rounding error of `z` itself, in any order of summation."""
        error: Floats = self.fixed_error + self.unit * np.abs(z)
        return error

    def gaps(self) -> Floats:
        """Distances of neighbours `(P − 1,)`."""
        return np.diff(self.z)

    def gap_errors(self) -> Floats:
        """For every gap `(P − 1,)`, the larger of the rounding errors of its ends."""
        size = np.abs(self.z)
        return self.error(np.maximum(size[1:], size[:-1]))

    def blocks(self) -> Iterator[tuple[slice, Points]]:
        """Stretches of neighbours, each beginning with the last point of the one before, and the gaps they hold.

        What is computed on them a stretch at a time stays in the processor's cache and needs no memory to speak of.
        """
        for start in range(0, max(1, len(self.z) - 1), BLOCK):
            part = slice(start, min(start + BLOCK, len(self.z) - 1))
            here = slice(start, part.stop + 1)
            yield part, Points(self.z[here], self.order[here], self.kappa, self.fixed_error, self.unit)


def contextual_points(draw: Draw, tokens: Tokens, target: Target) -> Points:
    """The contextual mapping: one number for every labelled place, sorted."""
    kappa = draw.kappa
    from monolayer.model.shortcut import spread

    context = draw.contexts(tokens)
    order: NDArray[Any] | None = None
    if target.per == "sequence":
        kappa, z = 1.0, context.numpy()
        z = z if target.place is None else z.take(target.place)
    else:
        code = draw.codes(tokens)
        reach = float(context.max() - context.min())
        if kappa is None:
            room = 1.0 if draw.layout == "mixed" or draw.spaced else code_gap(draw, code.numpy())
            kappa = scale(room, reach, draw.context_error(tokens))
        rectangular = len(code) == len(context) * tokens.longest >= WORTH_IT * len(context)
        if draw.whole_codes and not tokens.causal and rectangular and kappa * reach <= 0.5:
            order = token_major(code.numpy(), context.numpy(), target.place)
        if not tokens.causal:
            context = spread(context, tokens.lengths)
        z = code.add_(context, alpha=kappa).numpy()
        if target.place is not None:
            z = z.take(target.place)
    if order is None:
        order = np.argsort(z)
    return Points(z.take(order), order, kappa, draw.point_error(kappa, tokens), draw.unit)


def scale(room: float, reach: float, error: float) -> float:
    """κ: contexts that differ by `reach` at most stay within half the `room` of a code.

    Those that differ by no more than both their rounding errors may all be equal: then there is nothing to scale.
    """
    return float(power_below(0.5 * room / reach)) if reach > 2.0 * error else 1.0


def token_major(code: Floats, context: Floats, place: Ints | None) -> NDArray[Any] | None:
    """The order of `z = t + κ c` `(P,)` without sorting `P` floats; None where codes are too many for that.

    Codes `(T,)` are whole numbers and `κ c` moves them by less than 1/2 against each other: points are in order of
    code, and of context for equal codes. So it is enough to sort the contexts `(N,)` of sequences that are all of
    one length, and then the codes in that order by a stable radix sort, 16 bits at a time.
    """
    low, high = code.min(), code.max()
    if high - low >= 2.0**32:
        return None
    digits = (code - low).astype(np.uint16 if high - low < 2.0**16 else np.uint32)
    # Half the bytes to move, where the numbers fit.
    kind: Any = np.int32 if len(code) < 2**31 else np.int64
    number: NDArray[Any] = np.arange(len(code), dtype=kind)
    if place is not None:
        number = np.full(len(code), -1, dtype=kind)
        number[place] = np.arange(len(place), dtype=kind)
    by_context = np.argsort(context)
    digits, number = (part.reshape(len(context), -1).take(by_context, axis=0).reshape(-1) for part in (digits, number))
    if place is not None:
        labelled = number >= 0
        digits, number = digits[labelled], number[labelled]
    order = np.argsort(digits.astype(np.uint16), kind="stable")
    if digits.dtype == np.uint32:
        order = order.take(np.argsort((digits >> 16).astype(np.uint16).take(order), kind="stable"))
    return number.take(order)


def code_gap(draw: Draw, code: Floats) -> float:
    """Distance of the closest two codes that are more than a rounding error apart."""
    gap = np.diff(np.sort(code))
    gap = gap[gap > 4.0 * draw.proposal.lift_error]
    return float(gap.min()) if len(gap) else 1.0


def ramps_at(z: Floats, changes: Ints) -> tuple[Floats, Floats]:
    """Slopes and beginnings of the ramps `(R,)`, a stretch at a time."""
    slope, start = np.empty(len(changes)), np.empty(len(changes))
    for first in range(0, len(changes), BLOCK):
        here = slice(first, first + BLOCK)
        slope[here], start[here] = ramps(z.take(changes[here]), z.take(changes[here] + 1))
    return slope, start


def ramps(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Slope and beginning of the ramp between each two neighbours `(R,)`: it depends on these two alone.

    It sits in the middle of its gap `G` and is `2^−k ≤ G/4` wide, so at least `3G/8` stay free on either side.
    """
    gap = right - left
    # Between gap/8 and gap/4. Gaps are normal numbers: they exceed rounding errors of numbers that are.
    width = power_below(gap) * 0.25
    return 1.0 / width, left + (gap - width) * 0.5


def size_of_jumps(jump: Floats) -> float:
    """`Σ |Δ|`, a stretch at a time."""
    return sum(float(np.abs(jump[:, start : start + BLOCK]).sum()) for start in range(0, jump.shape[1], BLOCK))


def weights(slope: Floats, start: Floats, jump: Floats) -> tuple[Floats, Floats, Floats]:
    """`weight_1`, `bias_1` `(R,)` and `weight_2` `(m, R)` of steps of the exact readout, as `Staircase.from_steps`."""
    return slope, -(start * slope), 0.0 - jump
