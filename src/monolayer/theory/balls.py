"""Balls: real numbers known to lie in [midpoint ± radius], computed by python-flint's Arb.

A comparison of balls is true only where it holds for every real number in them, so what they decide is
decided. Arb's working precision is one number for the whole process; `precision` changes it for a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flint import ctx

Ball = Any  # flint ships no types
precision = ctx.workprec
"""`with precision(bits):` works with so many bits inside the block, and with what was set before after it."""


@contextmanager
def series_terms(count: int) -> Iterator[None]:
    """Inside the block power series keep `count` terms, after it as many as before."""
    before, ctx.cap = ctx.cap, count
    try:
        yield
    finally:
        ctx.cap = before


def interval(ball: Ball) -> tuple[float, float]:
    """Two floats that enclose the ball: a step further out than its ends, for the rounding of the ends."""
    low, high = float(ball.lower()), float(ball.upper())
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
