"""Prove that what heads without a first block see of the other tokens determines these tokens (docs/first-block.md).

Notation: there are `n` scalar tokens, and `x` is the own one. The mean of the `n − 1` others may be taken as 0, since a
shift of all tokens shifts every head by as much. The others enter by their power sums `p_0 = n − 1`, `p_1 = 0`,
`q = p_2`, and `r = p_3`, which is 0 for n = 3. `h_j` are their complete symmetric functions.

    A(λ) = e^{λx} + Σ_j p_j λ^j/j!              B(λ) = A'(λ)/A(λ)
    p_j = (q/2) p_{j−2} + (r/3) p_{j−3}         h_j likewise, from h_0 = 1, h_1 = 0
    ∂p_j/∂q = (j/2) h_{j−2}                     ∂p_j/∂r = (j/3) h_{j−3}

All of these are defined for every q and r, also where no real numbers have such power sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from flint import arb

from monolayer.theory.balls import Ball

HEAD_TEMPERATURES: dict[int, tuple[float, ...]] = {2: (0.0,), 3: (0.0, 0.5), 4: (-1.0, 0.0, 1.0)}
"""By the number of tokens, inverse temperatures of n − 1 heads that provably determine the other tokens in [0, 1]."""
GAINS: dict[int, tuple[float, float, float]] = {3: (6.0, 0.0, 0.0), 4: (4.375, 0.75, 3.0)}
"""By the number of tokens, `(g, a, b)` of the iteration that finds the power sums, whose gain is `G = (g, ax; bx, g)`.

G is near the inverse of the derivative of `F` everywhere, since the off-diagonal entries of that derivative are nearly
proportional to the own token.
"""
STEPS = 32
"""How many steps the iteration takes; at the rates that `contraction` proves, an error below 2^-43 is left."""
MOST_SUMS = {3: (1.0 / 2.0, 0.0), 4: (2.0 / 3.0, 2.0 / 9.0)}
"""By the number of tokens, the largest `q` and `|r|` of others in [0, 1], reached by tokens at the ends."""
BOXES = {3: (16, 8, 1), 4: (16, 4, 4)}
"""By the number of tokens, into how many pieces along `x`, `q` and `r` the proofs below cut the domain to succeed."""
TERMS = 40
"""How many terms of each series are added up; `_dropped` bounds the rest."""


class Slopes(NamedTuple):
    """The value of a head, and its derivatives by the power sums `q` and `r`."""

    value: Ball
    by_q: Ball
    by_r: Ball


def head_slopes(lam: float, x: Ball, q: Ball, r: Ball, others: int) -> Slopes:
    """Enclose `B(λ)` and its derivatives, for own token `x` and power sums `q`, `r` of 2 or 3 others."""
    p, h = [arb(others), arb(0), q, r], [arb(1), arb(0), q / 2, r / 3]
    for j in range(4, TERMS):
        p.append(q / 2 * p[j - 2] + r / 3 * p[j - 3])
        h.append(q / 2 * h[j - 2] + r / 3 * h[j - 3])
    power = [arb(lam) ** j / math.factorial(j) for j in range(TERMS)]
    own, rest = (arb(lam) * x).exp(), arb(0, _dropped(lam))
    A = own + _sum(p[j] * power[j] for j in range(TERMS)) + rest
    A_slope = x * own + _sum(p[j] * power[j - 1] for j in range(1, TERMS)) + rest
    value, by = A_slope / A, []
    for k in (2, 3):  # ∂p_j/∂p_k = (j/k) h_{j−k}
        A_by = arb(lam) * _sum(h[j - k] * power[j - 1] for j in range(k, TERMS)) / k + rest
        A_slope_by = _sum(j * h[j - k] * power[j - 1] for j in range(k, TERMS)) / k + rest
        by.append((A_slope_by - value * A_by) / A)
    return Slopes(value, *by)


def _sum(terms: Iterator[Ball]) -> Ball:
    return sum(terms, arb(0))


def _dropped(lam: float) -> float:
    """A bound on the terms from `TERMS` on of each series above, if all roots of `z³ = (q/2) z + r/3` are in `|z| ≤ 1`.

    Then `|p_j| ≤ 3` and `|h_j| ≤ (j + 1)(j + 2)/2`, so term `j` is at most `3j² |λ|^{j−1}/(j − 2)!` or, for |λ| < 1,
    `3j²/(j − 2)!`. From 40 on, with |λ| ≤ 8, each is at most half of the one before, so they add up to at most
    twice the first. The factor is 4 rather than 2 to leave room for the rounding of this bound.
    """
    size = max(1.0, abs(lam))
    assert size <= 8.0
    return 4.0 * 3.0 * TERMS**2 * size ** (TERMS - 1) / math.factorial(TERMS - 2)


class PieceCounts(NamedTuple):
    """Into how many pieces a domain is cut along `x`, `q` and `r`."""

    own: int
    squares: int
    cubes: int


class Jacobian(NamedTuple):
    """The derivative of `F` by `(q, r)`, row by row. For three tokens all entries but `first` are 0."""

    first: Ball
    first_by_r: Ball
    last_by_q: Ball
    last: Ball


def least_slope(length: int, boxes: PieceCounts, high: float | None = None) -> float:
    """A lower bound, in balls, on how fast the heads of 3 or 4 tokens in [0, 1] move with the other tokens.

    With `F(q) = B(high)` for three tokens, and `F(q, r) = ((B(high) − B(−high))/2, B(high) + B(−high))` for four, it is
    the smallest eigenvalue of the symmetric part of the derivative of F, over all own tokens and a box that holds all
    power sums. If it is positive, F is injective there: `(P − P')·(F(P) − F(P')) ≥ least_slope |P − P'|²`. The head at
    0 gives the mean, so the heads at 0, `high` and, for four tokens, `−high` determine the other tokens.

    `high`: by default the largest of `HEAD_TEMPERATURES`. With few boxes the bound may be negative though the slope is
    positive.
    """
    lam = HEAD_TEMPERATURES[length][-1] if high is None else high
    return min(_smallest_eigenvalue(slope, length) for _, slope in _jacobians(length, boxes, lam))


def contraction(length: int, boxes: PieceCounts | None = None) -> float:
    """An upper bound, in balls, on the rate at which `P ← P + G (F(P*) − F(P))` approaches the power sums `P*`.

    It is the largest norm of `I − G F'` over the domain of `least_slope`, for the norm `max(|q|, |r|/2)`, in which the
    iteration, cut to the domain, brings any two points closer by this factor.
    """
    (g, a, b), largest = GAINS[length], 0.0
    pieces = PieceCounts(*BOXES[length]) if boxes is None else boxes
    for x, slope in _jacobians(length, pieces, HEAD_TEMPERATURES[length][-1]):
        first = 1 - g * slope.first - a * x * slope.last_by_q
        first_by_r = g * slope.first_by_r + a * x * slope.last
        last_by_q = b * x * slope.first + g * slope.last_by_q
        last = 1 - b * x * slope.first_by_r - g * slope.last
        norms = [abs(first) + 2 * abs(first_by_r)]
        if length == 4:
            norms.append(abs(last_by_q) / 2 + abs(last))
        largest = max(largest, *(math.nextafter(float(norm.upper()), math.inf) for norm in norms))
    return largest


def _jacobians(length: int, boxes: PieceCounts, lam: float) -> Iterator[tuple[Ball, Jacobian]]:
    """For each piece of the domain, balls that enclose the own token and the derivative of `F` there."""
    # The numbers in `MOST_SUMS` are rounded, so a little is added.
    most_q, most_r = (arb(most) * (1 + arb(2) ** -50) for most in MOST_SUMS[length])
    most_own = 1 + arb(2) ** -40  # with room for the rounding of the own token
    own = _pieces(-most_own, most_own, boxes.own)
    squares, cubes = _pieces(arb(0), most_q, boxes.squares), _pieces(-most_r, most_r, boxes.cubes)
    for x, q, r in itertools.product(own, squares, cubes):
        up = head_slopes(lam, x, q, r, length - 1)
        if length == 3:
            yield x, Jacobian(up.by_q, arb(0), arb(0), arb(0))
            continue
        down = head_slopes(-lam, x, q, r, length - 1)
        both = Jacobian(up.by_q - down.by_q, up.by_r - down.by_r, up.by_q + down.by_q, up.by_r + down.by_r)
        yield x, both._replace(first=both.first / 2, first_by_r=both.first_by_r / 2)


def _smallest_eigenvalue(matrix: Jacobian, length: int) -> float:
    """A lower bound on the smallest eigenvalue of the symmetric part of `matrix`."""
    if length == 3:
        return math.nextafter(float(matrix.first.lower()), -math.inf)
    across = (matrix.first_by_r + matrix.last_by_q) / 2
    half_sum, half_difference = (matrix.first + matrix.last) / 2, (matrix.first - matrix.last) / 2
    eigenvalue = half_sum - (half_difference**2 + across**2).sqrt()
    return math.nextafter(float(eigenvalue.lower()), -math.inf)


def _pieces(low: Ball, high: Ball, count: int) -> list[Ball]:
    """Balls that cover the interval from `low` to `high`."""
    edges = [low + (high - low) * j / count for j in range(count + 1)]
    return [left.union(right) for left, right in itertools.pairwise(edges)]
