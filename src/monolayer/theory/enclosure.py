"""Differences of Boltzmann values, enclosed at a few hundred bits however small they are.

Let `A(z) = Σ a_x e^{xz}` and `T(z) = Σ t_x e^{xz}` for two multisets with multiplicities `a_x`, `t_x`, so
that `B(λ; a) = A'(λ)/A(λ)`. Then

    B(λ; a) − B(λ; t) = W(λ) / (A(λ) T(λ)),        W = A'T − AT' = Σ_σ C_σ e^{σz},    C_σ = Σ_{x+y=σ} a_x t_y
    (x − y).

In the paper's regime the two values agree in their first 10^5 digits and more, and subtracting them needs as
many. But what agrees is in the `C_σ`, sums of rational numbers that cancel exactly. With integer `x` the
`C_σ` are integers; what is left of `W` is led by its largest exponential, and its sign and logarithm come
out at the precision of the exponents. By Theorem A `W(λ) ≠ 0` for algebraic `λ ≠ 0` unless the multisets are
proportional, so that doubling the precision ends: the order of Boltzmann values is decidable, at every such
temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from itertools import pairwise

from flint import arb

from monolayer.theory.balls import Ball, precision

Multiset = dict[int, int]  # value -> multiplicity


class UndecidedError(ArithmeticError):
    """The sign of a number could not be decided at the precision in force."""


@dataclass(frozen=True)
class Gap:
    """`log` encloses `ln |B(λ; first) − B(λ; second)|`, the smallest over contexts of different groups."""

    log: Ball
    first: int
    second: int
    bits: int


def wronskian(a: Multiset, t: Multiset) -> dict[int, int]:
    """The nonzero `C_σ` of `W = A'T − AT'`; empty iff the multisets are proportional.

    Terms of the common part with itself cancel in pairs and are not formed.
    """
    common = {x: min(m, t[x]) for x, m in a.items() if x in t}
    ours = {x: m - common.get(x, 0) for x, m in a.items() if m > common.get(x, 0)}
    theirs = {x: m - common.get(x, 0) for x, m in t.items() if m > common.get(x, 0)}
    coefficients: dict[int, int] = {}
    for first, second in ((ours, theirs), (ours, common), (common, theirs)):
        for x, m in first.items():
            for y, k in second.items():
                coefficients[x + y] = coefficients.get(x + y, 0) + m * k * (x - y)
    return {sigma: c for sigma, c in coefficients.items() if c}


def log_difference(a: Multiset, t: Multiset, z: Ball) -> tuple[int, Ball]:
    """Sign and log of `|B(z; a) − B(z; t)|`, at the precision in force; sign 0 for proportional multisets."""
    terms = wronskian(a, t)
    if not terms:
        return 0, arb.neg_inf()
    # Nothing overflows once the largest exponential is taken out: the smallest σ for negative z.
    lead = (max if z > 0 else min)(terms)
    total = sum((c * (z * (sigma - lead)).exp() for sigma, c in terms.items()), arb(0))
    if not (total > 0 or total < 0):
        raise UndecidedError
    log = abs(total).log() + z * lead - _log_sum(a, z) - _log_sum(t, z)
    return (1 if total > 0 else -1), log


def _log_sum(a: Multiset, z: Ball) -> Ball:
    lead = (max if z > 0 else min)(a)
    return z * lead + sum((m * (z * (x - lead)).exp() for x, m in a.items()), arb(0)).log()


def smallest_gap(
    contexts: Sequence[Multiset], groups: Sequence[int], z: Callable[[], Ball], *, bits: int, max_bits: int
) -> Gap | None:
    """The two contexts of different groups whose Boltzmann values are closest; None if there is one group.

    `z()` is the inverse temperature, enclosed at the precision in force, and not zero. Contexts are sorted by
    comparisons that are proved, then neighbours of different groups are measured: O(M log M). The precision
    starts at `bits` and doubles; past `max_bits`, `UndecidedError`.
    """
    if len(set(groups)) < 2:
        return None
    while True:
        try:
            with precision(bits):
                return _gap_at(contexts, groups, z(), bits)
        except UndecidedError:
            if 2 * bits > max_bits:
                raise
        bits *= 2


def _gap_at(contexts: Sequence[Multiset], groups: Sequence[int], z: Ball, bits: int) -> Gap:
    if not (z > 0 or z < 0):
        raise UndecidedError

    def sign(i: int, j: int) -> int:
        return log_difference(contexts[i], contexts[j], z)[0]

    order = sorted(range(len(contexts)), key=cmp_to_key(sign))
    first, *rest = (
        Gap(log_difference(contexts[i], contexts[j], z)[1], i, j, bits)
        for i, j in pairwise(order)
        if groups[i] != groups[j]
    )
    for gap in rest:
        # Where the balls of two candidates overlap, the ball covers both.
        place = gap if gap.log.mid() < first.log.mid() else first
        first = replace(place, log=first.log.min(gap.log))
    return first
