"""Theorems C and C₁ at work: sequences that an approximator of value rank 1 confuses, and the error it makes there.

What the readout sees at token 0 is that token's own stream plus one number, the context `c`, continuous in the other
tokens. Where `c` is the same, so is the answer. Two ways to such sequences; both bisect in balls, so what is said holds
for the network over the reals, with the weights as stored (docs/uniform.md).

*The walk*, for answers of several numbers. Two coordinates of the other tokens run around the boundary of a square,
`y(t)` with `y(t + 2)` opposite to it. `c(y(t)) − c(y(t + 2))` changes sign between 0 and 2, so somewhere it is 0.

    corner 1 ├──── t → ────┤ corner 2          coordinates (first, second) of the walk:
             │             │                   (low₁, low₂) → (high₁, low₂) → (high₁, high₂) → (low₁, high₂) →
    corner 4 ├─────────────┤ corner 3

*The rectangle*, for one number and `n ≥ 3`. Tokens 1 and 2 move their first coordinates, `p` and `q`. Since numerators
add values and denominators add weights, `c(p, q) = T` says `α(p) + β(q) = 0`. Three bisections find `c(p, q) = T`,
`c(p, q') = T` and `c(p', q) = T`; then `c(p', q') = T`. Four sequences, one answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.seen import Entries, Interval, Seen, ball
from monolayer.checker.stored import opened
from monolayer.errors import DataError, PrecisionError
from monolayer.huggingface.reading import Files
from monolayer.theory.balls import Ball, precision

BITS = 256
MOST_BISECTIONS = 96
"""Bisections at most; they end sooner, where a sign is no longer certain."""
AXIS = 32
"""Values of `p` and of `q` among which a rectangle is looked for."""


@dataclass(frozen=True, eq=False)
class Confusion:
    """Two sequences `(n, d)` at which the network gives token 0 one and the same answer, and what is wanted there.

    `X`, `X_prime`: the floats nearest to the true pair, each entry within `width` of it. `answer` encloses the answer,
    `(2, m)`. `error`, `most`: the larger of the two errors lies between them, for the network over the reals; `forced`:
    half the distance of what is wanted, the error that no answer avoids. All leave `L · width` for the function, `L`
    its Lipschitz constant.

    `brackets` is the certificate. Of a walk: one, the `t` between which the true pair lies (`Walk.at`); at its ends the
    difference of the contexts has opposite signs, or both ends are one, where the keys are the same. Of a rectangle:
    `p` itself, twice, and the brackets of `q`, `q'` and `p'` (`Rectangle.at`); at their ends the context lies on either
    side of `level`.
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
    brackets: tuple[Interval, ...]
    level: Fraction | None = None

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
    errors are those against the values of `f` at the nearest floats. For one output and three tokens or more the pair
    is that of a rectangle; where the contexts have none, and for more outputs, it is that of the walk.
    """
    stored = opened(model)
    if isinstance(stored, Files) or not stored.raw or stored.config["readout"] != "runs":
        raise DataError("only an approximator with the readout 'runs' is walked around: build one with ml.approximate")
    try:
        seen = Seen.of(stored)
    except UnhandledError as why:
        raise DataError(f"the weights are not those of an approximator as it was built: {why}") from None

    def wanted(X: Floats) -> Floats:
        return np.asarray(f(X), dtype=np.float64).reshape(len(X), seen.shape[0], -1)[:, 0]

    with precision(BITS):
        rectangle = Rectangle.of(seen, wanted) if seen.shape[0] > 2 and stored.config["labels"] == 1 else None
        found = Walk.of(seen).found() if rectangle is None else rectangle.found()
        meet = found.contexts[0]
        for context in found.contexts:
            if not meet.overlaps(context):
                raise PrecisionError("the contexts in the brackets do not meet, though the signs at their ends say so")
            meet = meet.intersection(context)
        answer = seen.answer(meet)
        points = np.array([[float(a + b) / 2 for a, b in each] for each in found.sequences]).reshape(-1, *seen.shape)
        values = wanted(points)
        one, two = max(combinations(range(len(points)), 2), key=lambda pair: np.ptp(values[list(pair)], axis=0).max())
        ends = [end for each in (one, two) for end in _reach(found.sequences[each], points[each])]
    width, both = math.nextafter(float(max(ends)), math.inf), values[[one, two]]
    missed = [np.maximum(answer[0] - value, value - answer[1]).max() for value in both]
    slack = lipschitz * width + 2.0**-50 * float(np.abs(both).max() + np.abs(answer).max())  # and for these lines
    error, forced = max(float(max(missed)), 0.0) - slack, float(np.abs(both[0] - both[1]).max()) / 2 - slack
    most = max(float(np.maximum(answer[1] - value, value - answer[0]).max()) for value in both) + slack
    pair = points[one], points[two], width, both[0], both[1]
    return Confusion(*pair, answer, max(error, forced), forced, most, found.brackets, found.level)


@dataclass(frozen=True, eq=False)
class CommonContext:
    """Sequences in intervals that have one context, a ball around it for each, and the brackets that say so."""

    sequences: list[list[Interval]]
    contexts: list[Ball]
    brackets: tuple[Interval, ...]
    level: Fraction | None = None


def bisect(sign: Callable[[Fraction], int], low: Fraction, high: Fraction) -> Interval:
    """Between these two, numbers at which the sign is certain and opposite, as close as the precision allows."""
    first = sign(low)
    if first == 0 or sign(high) != -first:
        raise PrecisionError("a bisection begins where two contexts cannot be told apart: try another seed")
    for _ in range(MOST_BISECTIONS):
        middle = (low + high) / 2
        found = sign(middle)
        if found == 0:
            break
        low, high = (middle, high) if found == first else (low, middle)
    return low, high


@dataclass(frozen=True, eq=False)
class Walk:
    """Sequences around a square: two coordinates of the other tokens, with the ends of their sides."""

    seen: Seen
    first: tuple[int, Fraction, Fraction]
    second: tuple[int, Fraction, Fraction]

    @classmethod
    def of(cls, seen: Seen) -> Walk:
        (n, d), low, middle, high = seen.shape, seen.low, seen.middle, seen.high
        if (n - 1) * d < 2:
            raise DataError(
                f"with {n} tokens of {d} coordinate{'s' * (d > 1)} token 0 has fewer than two numbers to tell apart: "
                "one context is enough, and nothing need be confused (docs/uniform.md)"
            )
        # One token's two coordinates over the whole square, or two tokens in the two halves of the domain.
        sides = ((low, middle), (middle, high)) if d == 1 else ((low, high), (low, high))
        places = (d, 2 * d) if d == 1 else (d, d + 1)
        return cls(seen, (places[0], *sides[0]), (places[1], *sides[1]))

    def at(self, t: Fraction) -> list[Fraction]:
        """The sequence `y(t)`, entry by entry; `t` modulo 4."""
        side, share = divmod(t % 4, 1)
        corners = ((0, 0), (1, 0), (1, 1), (0, 1))
        here, there = corners[int(side)], corners[(int(side) + 1) % 4]
        entries = [self.seen.middle] * (self.seen.shape[0] * self.seen.shape[1])
        for axis, (place, low, high) in enumerate((self.first, self.second)):
            entries[place] = low + (high - low) * (here[axis] + (there[axis] - here[axis]) * share)
        return entries

    def found(self) -> CommonContext:
        """The pair of opposite sequences with one context."""
        low, high = bisect(self.sign, Fraction(0), Fraction(2))
        if self.same((low + high) / 2):
            low = high = (low + high) / 2
        ends = [zip(self.at(low + shift), self.at(high + shift), strict=True) for shift in (0, 2)]
        pair = [[(min(a, b), max(a, b)) for a, b in each] for each in ends]
        return CommonContext(pair, [self.seen.context(each) for each in pair], ((low, high),))

    def sign(self, t: Fraction) -> int:
        """Sign of `c(y(t)) − c(y(t + 2))`; 0 where it is not certain."""
        one, other = (self.seen.context([(x, x) for x in self.at(t + shift)]) for shift in (0, 2))
        return _sign(one - other)

    def same(self, t: Fraction) -> bool:
        """Whether both sequences have the same keys, exactly: then the difference of their contexts is 0."""
        one, other = (sorted(self.seen.keys([(x, x) for x in self.at(t + shift)])) for shift in (0, 2))
        return one == other


@dataclass(frozen=True, eq=False)
class Rectangle:
    """A level of the context, `p`, and where to look for `q`, `q'` and `p'`."""

    seen: Seen
    level: Fraction
    p: Fraction
    first: Interval
    second: Interval
    third: Interval

    @classmethod
    def of(cls, seen: Seen, wanted: Callable[[Floats], Floats]) -> Rectangle | None:
        """The rectangle, of those that a grid shows in floats, over whose corners the function differs most."""
        step = (seen.high - seen.low) / (2 * AXIS)
        axis, between = ([seen.low + step * i for i in range(start, 2 * AXIS, 2)] for start in (1, 2))
        terms = np.array([[[float(x.mid()) for x in term] for term in seen.terms(cls.at(seen, p, p))] for p in axis])
        weight, value = terms.transpose(2, 1, 0)  # of begin token, token 0, token 1, …, by `p` or `q`
        rest = [0, 1, *range(4, weight.shape[0])]
        above, below = (each[rest, 0].sum() + each[2][:, None] + each[3] for each in (value, weight))
        context = above / below
        corners = [(p, q) for p in axis for q in between] + [(p, q) for p in between for q in between]
        points = np.array([[float(x) for x, _ in cls.at(seen, p, q)] for p, q in corners]).reshape(-1, *seen.shape)
        values = wanted(points)[:, 0].reshape(-1, AXIS - 1)
        on, off = values[:AXIS], values[AXIS:]  # `p` on the axis, and between; `q` always between
        best, found = 0.0, None
        for i, j in product(range(AXIS), range(AXIS - 1)):
            T = (context[i, j] + context[i, j + 1]) / 2
            alpha = value[2] - T * weight[2]
            near, along = _crossings(context[i] - T), _crossings(alpha - alpha[i])
            across = near[near != j]
            if j not in near or not len(across) or not len(along):
                continue
            four = np.broadcast_arrays(on[i, j], on[i, across], off[along, j][:, None], off[np.ix_(along, across)])
            spread = np.ptp(np.stack(four), axis=0)
            if spread.max() > best:
                row, column = divmod(int(spread.argmax()), len(across))
                edges = (j, int(across[column]), int(along[row]))
                best, found = spread.max(), (T, axis[i], *((axis[edge], axis[edge + 1]) for edge in edges))
        return None if found is None else cls(seen, Fraction(float(seen.head[1]) * found[0]), *found[1:])

    @staticmethod
    def at(seen: Seen, p: Fraction | Interval, q: Fraction | Interval) -> list[Interval]:
        """The sequence with the first coordinates `p` of token 1 and `q` of token 2, and the middle elsewhere."""
        ends = [each if isinstance(each, tuple) else (each, each) for each in (p, q)]
        return seen.moved({seen.shape[1]: ends[0], 2 * seen.shape[1]: ends[1]})

    def found(self) -> CommonContext:
        """The four corners."""
        one, two = (bisect(lambda q: self.sign(self.p, q), *ends) for ends in (self.first, self.second))
        three = bisect(lambda p: self.sign(p, one), *self.third)
        corners = [self.at(self.seen, p, q) for p in (self.p, three) for q in (one, two)]
        contexts = [self.seen.context(each) for each in corners]
        return CommonContext(
            corners, [ball((self.level, self.level)), *contexts], ((self.p, self.p), one, two, three), self.level
        )

    def sign(self, p: Fraction | Interval, q: Fraction | Interval) -> int:
        """On which side of the level the context is; 0 where that is not certain."""
        return _sign(self.seen.context(self.at(self.seen, p, q)) - ball((self.level, self.level)))


def _crossings(numbers: Floats) -> Ints:
    """Where neighbours have opposite signs, both well away from 0."""
    room = 1e-9 * float(np.abs(numbers).max())
    sure = np.where(np.abs(numbers) > room, np.sign(numbers), 0.0)
    return np.flatnonzero(sure[:-1] * sure[1:] < 0)


def _sign(difference: Ball) -> int:
    return 1 if difference > 0 else -1 if difference < 0 else 0


def _reach(sequence: Entries, Z: Floats) -> list[Fraction]:
    """How far the true entries may be from the floats `Z`."""
    floats = map(Fraction, Z.reshape(-1).tolist())
    return [max(abs(a - x), abs(b - x)) for (a, b), x in zip(sequence, floats, strict=True)]
