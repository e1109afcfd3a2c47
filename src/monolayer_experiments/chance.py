"""Whether shares of labels differ by more than chance.

A share `p` of `n` labels varies by about `√(p(1 − p)/n)` from one draw of the labels to the next. Two shares are called
different if they differ by more than `SIGMAS` times that; what is not called different is not put into words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

SIGMAS = 3.0


def apart(one: float, other: float, labels: int) -> bool:
    """Whether two shares, each of `labels` labels, differ by more than chance."""
    spread = math.sqrt((one * (1.0 - one) + other * (1.0 - other)) / labels)
    return abs(one - other) > SIGMAS * spread


def above(share: float, chance: float, labels: int) -> bool:
    """Whether a share of `labels` labels is more than guessing, which is right for a share `chance`, would give."""
    return share - chance > SIGMAS * math.sqrt(chance * (1.0 - chance) / labels)


def decided(grid: Mapping[str, float], labels: int, chance: float) -> bool:
    """Whether trials of several rates show which is best: one ended without a wrong label, or leads beyond chance."""
    first, *rest = sorted(grid.values(), reverse=True)
    return first == 1.0 or (above(first, chance, labels) and all(apart(first, each, labels) for each in rest))
