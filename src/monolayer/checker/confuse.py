"""Finds sequences that an approximator of value rank 1 confuses, and the error that it makes there. Theorems C and C₁.

The readout at token 0 reads the stream of that token plus one number, the context `c`, which is continuous in the other
tokens. Sequences with the same `c` get the same answer. There are two ways to find such sequences. Both bisect in ball
arithmetic, so the results hold for the network over the reals, with the weights as stored (docs/uniform.md).

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
from monolayer.checker.stored import stored_model
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.balls import Ball, precision

BITS = 256
"""Bits of ball arithmetic."""
MOST_BISECTIONS = 96
"""Most bisections; they end earlier where a sign is no longer certain."""
AXIS = 32
"""How many values of `p`, and of `q`, are tried to find a rectangle."""


@dataclass(frozen=True, eq=False)
class Confusion:
    """Two sequences `(n, d)` at which the network gives token 0 the same answer, and the values wanted there.

    `X`, `X_prime`: the floats nearest to the exact pair, each entry within `width` of it. `answer` `(2, m)`: bounds of
    the answer. `error`, `most`: the larger of the two errors, for the network over the reals, lies between them.
    `forced`: half the distance between the wanted values, the least error that a common answer can have. All allow the
    function to change by `L · width`, `L` its Lipschitz constant.

    `brackets` lets others check the result. A walk has one, two values of `t` between which the exact pair lies
    (`Walk.at`): there the difference of the contexts has opposite signs; or both values are the same, where the keys
    are equal. A rectangle has four: `p` twice, and the brackets of `q`, `q'` and `p'` (`Rectangle.at`), at whose ends
    the context lies on different sides of `level`.
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
        """The result in words."""
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


def confuse(model: object, f: Callable[[Any], Any], *, lipschitz: float = 0.0) -> Confusion:
    """Two sequences that an approximator of rank 1 confuses.

    - `model`: a folder, or anything with `save(folder)`.
    - `f`: the function that it approximates, with NumPy arrays in and out.
    - `lipschitz`: the Lipschitz constant of `f` in the maximum norm; with 0, errors are measured against the values of
      `f` at the nearest floats.

    For one output and three tokens or more the pair comes from a rectangle; where the contexts have none, and for more
    outputs, from a walk.

    Example:

        >>> def f(X):
        ...     return np.sort(X, axis=1)[:, :, 0][:, None, :].repeat(3, axis=1)
        >>> model = ml.approximate(f, dim=1, length=3, cells=4)
        >>> confusion = ml.confuse(model, f, lipschitz=1.0)
        >>> print(round(confusion.forced, 2))
        0.25
    """
    stored = stored_model(model)
    if not stored.raw or stored.config["readout"] != "runs":
        raise DataError("only an approximator with the readout 'runs' can be searched: build one with ml.approximate")
    try:
        seen = Seen.of(stored)
    except UnhandledError as why:
        raise DataError(f"the weights are not those of an approximator as it was built: {why}") from None

    def wanted(X: Floats) -> Floats:
        return np.asarray(f(X), dtype=np.float64).reshape(len(X), seen.shape[0], -1)[:, 0]

    with precision(BITS):
        rectangle = Rectangle.of(seen, wanted) if seen.shape[0] > 2 and stored.config["labels"] == 1 else None
        confused = Walk.of(seen).found() if rectangle is None else rectangle.found()
        meet = confused.contexts[0]
        for context in confused.contexts:
            if not meet.overlaps(context):
                raise PrecisionError(
                    "the brackets enclose different contexts, though signs at their ends show a common one"
                )
            meet = meet.intersection(context)
        answer = seen.answer(meet)
        points = np.array([[float(a + b) / 2 for a, b in each] for each in confused.sequences]).reshape(-1, *seen.shape)
        values = wanted(points)
        one, two = max(combinations(range(len(points)), 2), key=lambda pair: np.ptp(values[list(pair)], axis=0).max())
        ends = [end for each in (one, two) for end in _reach(confused.sequences[each], points[each])]
    width, both = math.nextafter(float(max(ends)), math.inf), values[[one, two]]
    missed = [np.maximum(answer[0] - value, value - answer[1]).max() for value in both]
    slack = lipschitz * width + 2.0**-50 * float(np.abs(both).max() + np.abs(answer).max())  # and for these lines
    error, forced = max(float(max(missed)), 0.0) - slack, float(np.abs(both[0] - both[1]).max()) / 2 - slack
    most = max(float(np.maximum(answer[1] - value, value - answer[0]).max()) for value in both) + slack
    pair = points[one], points[two], width, both[0], both[1]
    return Confusion(*pair, answer, max(error, forced), forced, most, confused.brackets, confused.level)


@dataclass(frozen=True, eq=False)
class CommonContext:
    """Sequences with the same context: intervals for the entries of each, a ball for its context, and the brackets.

    `level`: the common context, if it is known exactly.
    """

    sequences: list[list[Interval]]
    contexts: list[Ball]
    brackets: tuple[Interval, ...]
    level: Fraction | None = None


def bisect(sign: Callable[[Fraction], int], low: Fraction, high: Fraction) -> Interval:
    """Two numbers between `low` and `high`, as close as the precision allows, with certain and opposite signs."""
    first = sign(low)
    if first == 0 or sign(high) != -first:
        raise PrecisionError("a bisection begins where two contexts cannot be told apart: try another seed")
    for _ in range(MOST_BISECTIONS):
        middle = (low + high) / 2
        side = sign(middle)
        if side == 0:
            break
        low, high = (middle, high) if side == first else (low, middle)
    return low, high


@dataclass(frozen=True, eq=False)
class Walk:
    """A walk of sequences around a square.

    `first`, `second`: the two entries that move, each as its number in the sequence and the ends of its side.
    """

    seen: Seen
    first: tuple[int, Fraction, Fraction]
    second: tuple[int, Fraction, Fraction]

    @classmethod
    def of(cls, seen: Seen) -> Walk:
        """The walk of an approximator; an error if its other tokens have fewer than two coordinates."""
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
        """The entries of the sequence `y(t)`; `t` counts modulo 4."""
        side, share = divmod(t % 4, 1)
        corners = ((0, 0), (1, 0), (1, 1), (0, 1))
        here, there = corners[int(side)], corners[(int(side) + 1) % 4]
        entries = [self.seen.middle] * (self.seen.shape[0] * self.seen.shape[1])
        for axis, (place, low, high) in enumerate((self.first, self.second)):
            entries[place] = low + (high - low) * (here[axis] + (there[axis] - here[axis]) * share)
        return entries

    def found(self) -> CommonContext:
        """Two opposite sequences with the same context."""
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
        """Whether `y(t)` and `y(t + 2)` have exactly the same keys: the difference of their contexts is then 0."""
        one, other = (sorted(self.seen.keys([(x, x) for x in self.at(t + shift)])) for shift in (0, 2))
        return one == other


@dataclass(frozen=True, eq=False)
class Rectangle:
    """A level of the context, `p`, and the intervals in which to look for `q`, `q'` and `p'` (first, second, third)."""

    seen: Seen
    level: Fraction
    p: Fraction
    first: Interval
    second: Interval
    third: Interval

    @classmethod
    def of(cls, seen: Seen, wanted: Callable[[Floats], Floats]) -> Rectangle | None:
        """Among the rectangles that a grid in floats shows, the one over whose corners the function differs most.

        `wanted`: the values of the function at token 0. None if the grid shows no rectangle.
        """
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
        best, widest = 0.0, None
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
                best, widest = spread.max(), (T, axis[i], *((axis[edge], axis[edge + 1]) for edge in edges))
        return None if widest is None else cls(seen, Fraction(float(seen.head[1]) * widest[0]), *widest[1:])

    @staticmethod
    def at(seen: Seen, p: Fraction | Interval, q: Fraction | Interval) -> list[Interval]:
        """The sequence with the first coordinates `p` of token 1 and `q` of token 2, and the middle elsewhere."""
        ends = [each if isinstance(each, tuple) else (each, each) for each in (p, q)]
        return seen.moved({seen.shape[1]: ends[0], 2 * seen.shape[1]: ends[1]})

    def found(self) -> CommonContext:
        """The four corners, which have one context."""
        one, two = (bisect(lambda q: self.sign(self.p, q), *ends) for ends in (self.first, self.second))
        three = bisect(lambda p: self.sign(p, one), *self.third)
        corners = [self.at(self.seen, p, q) for p in (self.p, three) for q in (one, two)]
        contexts = [self.seen.context(each) for each in corners]
        return CommonContext(
            corners, [ball((self.level, self.level)), *contexts], ((self.p, self.p), one, two, three), self.level
        )

    def sign(self, p: Fraction | Interval, q: Fraction | Interval) -> int:
        """Sign of the context minus the level, with `p` and `q`; 0 where it is not certain."""
        return _sign(self.seen.context(self.at(self.seen, p, q)) - ball((self.level, self.level)))


def _crossings(numbers: Floats) -> Ints:
    """Where a number and the next one have opposite signs, both well away from 0."""
    room = 1e-9 * float(np.abs(numbers).max())
    sure = np.where(np.abs(numbers) > room, np.sign(numbers), 0.0)
    return np.flatnonzero(sure[:-1] * sure[1:] < 0)


def _sign(difference: Ball) -> int:
    """Sign of a ball; 0 where it is not certain."""
    return 1 if difference > 0 else -1 if difference < 0 else 0


def _reach(sequence: Entries, Z: Floats) -> list[Fraction]:
    """How far each exact entry of a sequence may be from the float in `Z`."""
    floats = map(Fraction, Z.reshape(-1).tolist())
    return [max(abs(a - x), abs(b - x)) for (a, b), x in zip(sequence, floats, strict=True)]
