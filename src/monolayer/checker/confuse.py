"""Theorem C at work: two sequences that an approximator of value rank 1 confuses, and the error it makes there.

What the readout sees at token 0 is that token's own stream plus one number `c`, continuous in the other tokens. Let two
of their coordinates run around the boundary of a square, `y(t)` with `y(t + 2)` opposite to it, `0 ≤ t ≤ 4`. Then
`g(t) = c(y(t)) − c(y(t + 2))` changes sign between 0 and 2, so at some `t*` both sequences have the same `c`, and the
network answers the same. Bisection brackets `t*`; signs are decided in balls, and the answer over the whole bracket is
enclosed, so what is said holds for the network over the reals, with the weights as stored (docs/uniform.md).

    corner 1 ├──── t → ────┤ corner 2          coordinates (first, second) of the walk:
             │             │                   (low₁, low₂) → (high₁, low₂) → (high₁, high₂) → (low₁, high₂) →
    corner 4 ├─────────────┤ corner 3
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from monolayer.arrays import Floats
from monolayer.checker.codes import read_attention
from monolayer.checker.stored import CODE, KEY, Stored, folder_of, read
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.balls import Ball, interval, precision

Interval = tuple[Fraction, Fraction]

BITS = 256
HALVINGS = 160
"""Bisections at most; they end sooner, where the sign of `g` is no longer certain."""


@dataclass(frozen=True, eq=False)
class Confusion:
    """Two sequences `(n, d)` at which the network gives token 0 one and the same answer, and what is wanted there.

    `X`, `X_prime`: the floats nearest to the true pair, each entry within `width` of it. `answer` encloses the answer,
    `(2, m)`. `error`, `most`: the larger of the two errors lies between them, for the network over the reals; `forced`:
    half the distance of what is wanted, the error that no answer avoids. All leave `L · width` for the function, `L`
    its Lipschitz constant. `bracket`: `t` of the walk between which the true pair lies; at its ends the difference of
    the contexts has opposite signs (or both ends are one, where the keys are the same). Whoever doubts the pair
    evaluates these two sequences, `Walk.at`, in balls of their own.
    """

    X: Floats
    X_prime: Floats
    width: float
    wanted: Floats
    wanted_prime: Floats
    answer: Floats
    error: float
    forced: float
    most: float
    bracket: Interval

    def explain(self) -> str:
        """What was found, in words."""
        low, high = (", ".join(f"{number:.6g}" for number in side) for side in self.answer)
        return "\n".join(
            [
                f"X  = {self.X.tolist()} wants {self.wanted.tolist()} at token 0;",
                f"X' = {self.X_prime.tolist()} wants {self.wanted_prime.tolist()}.",
                f"Within {self.width:.2g} of them the network gives both one answer, between ({low}) and ({high}):",
                f"the error is at least {self.error:.6g} and at most {self.most:.6g};",
                f"no common answer has less than {self.forced:.6g}.",
            ]
        )


def confuse(model: Any, f: Callable[[Any], Any], *, lipschitz: float = 0.0) -> Confusion:
    """Two sequences that an approximator of rank 1 confuses. `model`: a folder, or anything with `save(folder)`.

    `f`: the function it approximates, NumPy in and out. `lipschitz`: its constant in the maximum norm; with 0 the
    errors are those against the values of `f` at the nearest floats.
    """
    with folder_of(model) as folder:
        stored = read(folder)
    if not stored.raw or stored.config["readout"] != "runs":
        raise DataError("only an approximator with the readout 'runs' is walked around: build one with ml.approximate")
    walk = Walk.of(stored)
    with precision(BITS):
        low, high = walk.bracket()
        pair = [tuple(_between(a, b) for a, b in zip(walk.at(low + s), walk.at(high + s), strict=True)) for s in (0, 2)]
        contexts = [walk.context(sequence) for sequence in pair]
        if not contexts[0].overlaps(contexts[1]):
            raise PrecisionError("the contexts in the bracket do not meet, though their difference changes sign there")
        answer = walk.answer(contexts[0].intersection(contexts[1]))
        X, X_prime = (np.array([float(a + b) / 2 for a, b in sequence]).reshape(walk.shape) for sequence in pair)
        ends = [end for sequence, Z in zip(pair, (X, X_prime), strict=True) for end in _reach(sequence, Z)]
    width = math.nextafter(float(max(ends)), math.inf)
    both = np.asarray(f(np.stack([X, X_prime])), dtype=np.float64).reshape(2, walk.shape[0], -1)[:, 0]
    missed = [np.maximum(answer[0] - wanted, wanted - answer[1]).max() for wanted in both]
    slack = lipschitz * width + 2.0**-50 * float(np.abs(both).max() + np.abs(answer).max())  # and for these lines
    error, forced = max(float(max(missed)), 0.0) - slack, float(np.abs(both[0] - both[1]).max()) / 2 - slack
    most = max(float(np.maximum(answer[1] - wanted, wanted - answer[0]).max()) for wanted in both) + slack
    return Confusion(X, X_prime, width, both[0], both[1], answer, max(error, forced), forced, most, (low, high))


@dataclass(frozen=True, eq=False)
class Walk:
    """A stored approximator, its sequences around the square, and what token 0 sees there."""

    stored: Stored
    shape: tuple[int, int]
    middle: Fraction
    first: tuple[int, Fraction, Fraction]
    second: tuple[int, Fraction, Fraction]

    @classmethod
    def of(cls, stored: Stored) -> Walk:
        grid = stored.config["grid"]
        n, d = int(grid["length"]), int(grid["dim"])
        low, high = Fraction(float(grid["low"])), Fraction(float(grid["high"]))
        middle = (low + high) / 2
        if (n - 1) * d < 2:
            raise DataError(
                f"with {n} tokens of {d} coordinate{'s' * (d > 1)} token 0 has fewer than two numbers to tell apart: "
                "one context is enough, and nothing need be confused (docs/uniform.md)"
            )
        # One token's two coordinates over the whole square, or two tokens in the two halves of the domain.
        sides = ((low, middle), (middle, high)) if d == 1 else ((low, high), (low, high))
        places = (d, 2 * d) if d == 1 else (d, d + 1)
        return cls(stored, (n, d), middle, (places[0], *sides[0]), (places[1], *sides[1]))

    def at(self, t: Fraction) -> list[Fraction]:
        """The sequence `y(t)`, entry by entry; `t` modulo 4."""
        side, share = divmod(t % 4, 1)
        corners = ((0, 0), (1, 0), (1, 1), (0, 1))
        here, there = corners[int(side)], corners[(int(side) + 1) % 4]
        entries = [self.middle] * (self.shape[0] * self.shape[1])
        for axis, (place, low, high) in enumerate((self.first, self.second)):
            entries[place] = low + (high - low) * (here[axis] + (there[axis] - here[axis]) * share)
        return entries

    def bracket(self) -> Interval:
        """`t` between which `g` certainly changes sign, as close as the precision allows."""
        low, high = Fraction(0), Fraction(2)
        sign = self.sign(low)
        if sign == 0:
            raise PrecisionError("the walk begins where two contexts cannot be told apart: try another seed")
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = self.sign(middle)
            if found == 0 and self.same(middle):
                return middle, middle
            if found == 0:
                break
            low, high = (middle, high) if found == sign else (low, middle)
        return low, high

    def sign(self, t: Fraction) -> int:
        """Sign of `g(t)`; 0 where it is not certain."""
        one, other = (self.context([(x, x) for x in self.at(t + shift)]) for shift in (0, 2))
        difference = one - other
        return 1 if difference > 0 else -1 if difference < 0 else 0

    def same(self, t: Fraction) -> bool:
        """Whether both sequences have the same keys, exactly: then `g(t) = 0`."""
        one, other = (sorted(self.keys([(x, x) for x in self.at(t + shift)])) for shift in (0, 2))
        return one == other

    def keys(self, entries: Any) -> list[Interval]:
        """Keys of the begin token and of the tokens of a sequence whose entries lie in intervals."""
        n, d = self.shape
        bos, positions = self.stored["bos"], self.stored.config["positions"]
        start = [(Fraction(float(x)), Fraction(float(x))) for x in bos[len(bos) - d :]]
        found = [(start, bos[KEY])]
        for place in range(n):
            added = self.stored["positions.weight"][place, KEY] if positions else 0.0
            found.append((entries[d * place : d * place + d], added))
        intervals = [(self.block(token, KEY), Fraction(float(more))) for token, more in found]
        return [(low + more, high + more) for (low, high), more in intervals]

    def context(self, entries: Any) -> Ball:
        """What attention adds at token 0, `o v B(q k; s)`, for a sequence whose entries lie in intervals."""
        head, keys = read_attention(self.stored)[0], [_ball(key) for key in self.keys(entries)]
        scale = arb(head.q) * arb(head.k)
        weights = [(scale * key).exp() for key in keys]
        above = sum((w * key for w, key in zip(weights, keys, strict=True)), arb(0))
        return arb(head.o) * arb(head.v) * above / sum(weights, arb(0))

    def block(self, token: Any, row: int) -> Interval:
        """What the first block adds to `key` or `code` of a token, over intervals: every neuron is monotone."""
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
        """Enclosure `(2, m)` of the answer at token 0, whose context lies in the ball."""
        token = [(self.middle, self.middle)] * self.shape[1]
        z = _ball(self.block(token, CODE)) + context
        if self.stored.config["positions"]:
            z += arb(float(self.stored["positions.weight"][0, CODE]))
        slope, bias = (self.stored[f"feed_forward.{name}"] for name in ("weight_1", "bias_1"))
        level = self.stored["feed_forward.weight_2"]
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
            found = [arb(a) + part * (arb(b) - arb(a)) for a, b in zip(level[:, j], level[:, j + 1], strict=True)]
            return np.array([interval(value) for value in found]).T
        runs = level[:, low : high + 1].astype(np.float64)
        return np.array([runs.min(axis=1), runs.max(axis=1)])


def _ball(interval: Interval) -> Ball:
    low, high = (arb(end.numerator) / arb(end.denominator) for end in interval)
    return low.union(high)


def _between(one: Fraction, other: Fraction) -> Interval:
    return min(one, other), max(one, other)


def _reach(sequence: Any, Z: Floats) -> list[Fraction]:
    """How far the true entries may be from the floats `Z`."""
    floats = map(Fraction, Z.reshape(-1).tolist())
    return [max(abs(a - x), abs(b - x)) for (a, b), x in zip(sequence, floats, strict=True)]
