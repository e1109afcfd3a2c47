"""What the readout of a stored approximator reads and answers at token 0, in ball arithmetic over the reals.

Attention adds one number to the stream of token 0, the *context* `o v B(q k; s)`, `s` the keys that the first block
gives the tokens. Entries of a sequence are intervals with rational ends; a point is an interval with equal ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from monolayer.arrays import Floats
from monolayer.checker.cells import read_cells
from monolayer.checker.codes import check_stream, read_attention
from monolayer.checker.network import CODE, KEY, Stored
from monolayer.checker.readout import copies, read_staircase
from monolayer.checker.rounding import UnhandledError
from monolayer.theory.balls import Ball, interval

Interval = tuple[Fraction, Fraction]
Entries = Sequence[Interval]
"""The entries of a sequence: token after token, and within a token coordinate after coordinate."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A stored approximator on sequences of shape `(n, d)` with entries in `[low, high]`."""

    stored: Stored
    shape: tuple[int, int]
    low: Fraction
    high: Fraction

    @classmethod
    def of(cls, stored: Stored) -> Seen:
        """The approximator, once it is checked that this file evaluates everything that is stored."""
        for check in (read_attention, check_stream, read_cells, read_staircase):
            check(stored)
        if not copies(stored) or stored["feed_forward.stages.0.bias_2"].any():
            raise UnhandledError("the head does not copy the label slots, or the readout adds a bias")
        grid = stored.config["grid"]
        low, high = Fraction(float(grid["low"])), Fraction(float(grid["high"]))
        return cls(stored, (int(grid["length"]), int(grid["dim"])), low, high)

    @property
    def middle(self) -> Fraction:
        """The middle of the domain."""
        return (self.low + self.high) / 2

    def moved(self, entries: dict[int, Interval]) -> list[Interval]:
        """The sequence with the given entries, by number, and the middle of the domain everywhere else."""
        return [entries.get(place, (self.middle, self.middle)) for place in range(self.shape[0] * self.shape[1])]

    def keys(self, entries: Entries) -> list[Interval]:
        """Intervals for the keys of the begin token and of all tokens of a sequence."""
        n, d = self.shape
        bos, positions = self.stored["bos"], self.stored.config["positions"]
        start = [(Fraction(float(x)), Fraction(float(x))) for x in bos[len(bos) - d :]]
        entries_and_keys: list[tuple[Entries, Any]] = [(start, bos[KEY])]
        for place in range(n):
            added = self.stored["positions.weight"][place, KEY] if positions else 0.0
            entries_and_keys.append((entries[d * place : d * place + d], added))
        intervals = [(self.block(token, KEY), Fraction(float(more))) for token, more in entries_and_keys]
        return [(low + more, high + more) for (low, high), more in intervals]

    @cached_property
    def head(self) -> tuple[Ball, Ball]:
        """`q k` and `o v`."""
        head = read_attention(self.stored)[0]
        return arb(head.q) * arb(head.k), arb(head.o) * arb(head.v)

    def terms(self, entries: Entries) -> list[tuple[Ball, Ball]]:
        """The weight `e^{q k s}` of the begin token and of every token, and the weight times the key `s`."""
        keys = [ball(key) for key in self.keys(entries)]
        weights = [(self.head[0] * key).exp() for key in keys]
        return [(weight, weight * key) for weight, key in zip(weights, keys, strict=True)]

    def context(self, entries: Entries) -> Ball:
        """What attention adds at token 0 of a sequence."""
        weights, values = zip(*self.terms(entries), strict=True)
        return self.head[1] * sum(values, arb(0)) / sum(weights, arb(0))

    def block(self, token: Entries, row: int) -> Interval:
        """What the first block adds to coordinate `row`, `KEY` or `CODE`, of a token.

        Neurons are monotone in each entry.
        """
        weight_1, bias_1 = self.stored["quantizer.weight_1"], self.stored["quantizer.bias_1"]
        weight_2, bias_2 = self.stored["quantizer.weight_2"][row - KEY], self.stored["quantizer.bias_2"][row - KEY]
        low = high = Fraction(float(bias_2))
        for axis, (left, right) in enumerate(token):
            column = weight_1[:, axis]
            # In floats first: neurons that are surely 0 or surely 1 on the interval need no rational numbers.
            mine = np.flatnonzero(column)
            ends = [column[mine] * float(end) + bias_1[mine] for end in (left, right)]
            on, off = np.maximum(*ends) < -0.5, np.minimum(*ends) > 1.5
            total = sum(map(Fraction, weight_2[mine[on]].tolist()), Fraction(0))
            low, high = low + total, high + total
            for i in mine[~on & ~off].tolist():
                w, b, out = (Fraction(float(number)) for number in (column[i], bias_1[i], weight_2[i]))
                written = [max(Fraction(0), 1 - max(Fraction(0), w * x + b)) * out for x in (left, right)]
                low, high = low + min(written), high + max(written)
        return low, high

    def answer(self, context: Ball) -> Floats:
        """Bounds `(2, m)` of the answer at token 0, if its context lies in the ball."""
        token = [(self.middle, self.middle)] * self.shape[1]
        z = ball(self.block(token, CODE)) + context
        if self.stored.config["positions"]:
            z += arb(float(self.stored["positions.weight"][0, CODE]))
        slope, bias, level = self.stored.steps("feed_forward.stages.0")
        start = -bias / slope
        # Steps within a billionth are looked at in balls: far more than the rounding of `start`.
        room = 1e-9 * max(1.0, abs(float(z.mid())))
        first, last = (int(np.searchsorted(start, end)) for end in (interval(z)[0] - room, interval(z)[1] + room))
        low = high = max(first - 1, 0)
        parts: dict[int, Ball] = {}
        for j in range(max(first - 1, 0), min(last + 1, len(slope))):
            inner = arb(float(slope[j])) * z + arb(float(bias[j]))
            if inner >= 1:
                low = high = j + 1
            elif not inner <= 0:
                parts[j], high = inner, j + 1
        if len(parts) == 1 and high == low + 1:
            ((j, part),) = parts.items()
            part = part.max(arb(0)).min(arb(1))
            interpolated = [
                arb(a) + part * (arb(b) - arb(a)) for a, b in zip(level[:, j], level[:, j + 1], strict=True)
            ]
            return np.array([interval(value) for value in interpolated]).T
        runs = level[:, low : high + 1].astype(np.float64)
        return np.array([runs.min(axis=1), runs.max(axis=1)])


def ball(ends: Interval) -> Ball:
    """A ball that contains the interval."""
    low, high = (arb(end.numerator) / arb(end.denominator) for end in ends)
    return low.union(high)
