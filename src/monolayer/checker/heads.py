"""Bound how far off any evaluation finds the other tokens in a network without a first block.

This file carries out Lemma H of docs/uniform.md. There are `n` = 3 or 4 scalar tokens in [0, 1]; `u` is the unit
roundoff, and exp, cos and arccos may be off by `g` ulps. Errors are absolute and bounded generously. `P = (q, r)` are
the power sums of the others relative to their mean, with the norm `max(|q|, |r|/2)`. This table says what each error
bounds:

    c(λ)    (26|λ| + 4g + 2n + 12) u             what a head shows
    mean    (n c(0) + 5u + 2nu)/(n − 1) + 2u     the mean of the others
    own     mean + 6u                            the own token minus that mean
    miss    c(λ) + mean + 2 own + 128u + 4u      what a step compares, per head
    δ       ρ^K/3 + step/(1 − ρ) + 2u            the power sums after K steps; `contraction` bounds ρ in balls
    ε       √(δ/2), or 5 (1.2 δ)^{1/3}           the other tokens, up to small terms
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.rounding import BINARY64, EXP_ULPS, UnhandledError
from monolayer.theory.heads import GAINS, HEAD_TEMPERATURES, STEPS, contraction

HEAD_UNIT = BINARY64.unit
HEAD_ROOM = 1.0 + 2.0**-10
"""Covers terms of second order and the rounding of the bounds themselves."""
ROUNDED_HEAD = 128.0
"""By how many `u` a head that is computed from power sums may be off (item 3 of Lemma H)."""
ROUNDED_STEP = 64.0
"""By how many `u` rounding moves a step of the iteration; the terms of a step are at most 16 in size."""
TRIGONOMETRY = 2.0**-25
"""The error that cos and arccos, and the rounding of their arguments, add to a root."""
HEAD_ASSUMPTION = f"cos and arccos within {EXP_ULPS} units in the last place, and square roots rounded to nearest"


class HeadErrors(NamedTuple):
    """Bounds of Lemma H on the errors of the power sums and of the other tokens; over the reals both are nearly 0."""

    sums: float
    tokens: float


def others_error(length: int) -> HeadErrors:
    """How far the power sums and the other tokens that an evaluation finds may be from those of the sequence."""
    u, n = HEAD_UNIT, length
    rate = contraction(length)
    if not rate < 1.0:
        raise UnhandledError("the iteration that finds the other tokens is not shown to come closer")
    mean = (n * _head_error(0.0, n) + 5.0 * u + 2.0 * n * u) / (n - 1) + 2.0 * u
    own = mean + 6.0 * u
    miss = _head_error(HEAD_TEMPERATURES[length][-1], n) + mean + 2.0 * own + (ROUNDED_HEAD + 4.0) * u
    g, a, b = GAINS[length]
    # With four tokens the first number is half the difference of two heads, the second their sum.
    step = g * miss if length == 3 else max(g * miss + a * 2.0 * miss, (b * miss + g * 2.0 * miss) / 2.0)
    sums = HEAD_ROOM * (rate**STEPS / 3.0 + (step + ROUNDED_STEP * u) / (1.0 - rate) + 2.0 * u)
    tokens = (sums / 2.0) ** 0.5 if length == 3 else 5.0 * (1.2 * sums) ** (1.0 / 3.0) + TRIGONOMETRY
    return HeadErrors(sums, HEAD_ROOM * (tokens + mean + 4.0 * u))


def _head_error(lam: float, n: int) -> float:
    """A bound on the error of a head of inverse temperature `lam`, whose scores are at most `|lam|` in size."""
    return (26.0 * abs(lam) + 4 * EXP_ULPS + 2 * n + 12) * HEAD_UNIT


def check_heads(length: int, tensors: dict[str, Floats]) -> None:
    """Raise an `UnhandledError` unless the weights are those that Lemma H is about."""
    temperatures = HEAD_TEMPERATURES[length]
    shape = tensors["attention.W_Q"].shape
    wanted = {f"attention.W_{letter}": np.zeros(shape) for letter in "QKVO"}
    for head, temperature in enumerate(temperatures):
        wanted["attention.W_Q"][head, 1, 0] = temperature
        wanted["attention.W_K"][head, 1, 1] = wanted["attention.W_V"][head, 1, 1] = 1.0
        wanted["attention.W_O"][head, 2 + head, 1] = 1.0
    wanted |= {"others.temperatures": np.array(temperatures), "others.gain": np.array(GAINS[length])}
    for name, tensor in wanted.items():
        if not np.array_equal(tensors[name], tensor):
            raise UnhandledError(f"{name} is not that of the heads, or of the iteration, that docs/uniform.md bounds")
