"""What the contexts of a draw are worth: how many are told apart, and how far the closest two of those are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gaps:
    """Of some numbers in order: the `first` and the `last`, how many gaps are wide enough to count, and the least."""

    first: float
    last: float
    count: int
    least: float

    @classmethod
    def of(cls, ordered: Any, error: float) -> Gaps:
        """Those of `ordered` `(N,)`, an array or a tensor, of which each is known to within `error`."""
        gap = ordered[1:] - ordered[:-1]
        apart = gap[gap > 2.0 * error]
        return cls(float(ordered[0]), float(ordered[-1]), len(apart), float(apart.min()) if len(apart) else math.inf)

    def then(self, other: Gaps, error: float) -> Gaps:
        """These numbers and larger ones, as one."""
        between = other.first - self.last
        wide = between > 2.0 * error
        least = min(self.least, other.least, between if wide else math.inf)
        return Gaps(self.first, other.last, self.count + other.count + wide, least)

    @property
    def quality(self) -> tuple[int, float]:
        """What a draw with these contexts is worth."""
        return self.count, self.least / (self.last - self.first) if self.count else 0.0
