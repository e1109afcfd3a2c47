"""Activations of enclosed numbers, and where neurons are at rest. Lemma E6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.stock.enclosed import EXP_ULPS, TURN_ULPS, UNIT, Enclosed

WRONG = 2.0**-20
FUNCTIONS = (
    "tanh within 2^-20; silu as x/(1 + exp(−x)); powers, cosines and sines of rotary positions within "
    f"{TURN_ULPS} units in the last place of 1"
)
"""Assumed in binary32, in words."""


@dataclass(frozen=True)
class Activation:
    """`f`, which falls to `least` at `turn` and rises from there.

    At or below `rests` it is at most `sleeping` in size; 0 means exactly 0.
    """

    f: Callable[[Floats], Floats]
    turn: float
    least: float
    rests: float
    sleeping: float = 0.0
    relative: float = 0.0
    """Error of `f`, as a share."""

    def __call__(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The least and the largest value that any evaluation returns between `low` and `high`."""
        ends = self.f(low), self.f(high)
        most, least = np.maximum(*ends), np.minimum(*ends)
        least = np.where((low < self.turn) & (high > self.turn), np.minimum(least, self.least), least)
        off = self.relative * np.maximum(np.abs(least), np.abs(most))
        return least - off, most + off


ACTIVATIONS = {
    "relu6": Activation(lambda x: np.clip(x, 0.0, 6.0), turn=-np.inf, least=0.0, rests=0.0),
    "silu": Activation(
        lambda x: np.asarray(x / (1.0 + np.exp(-x))),
        turn=-1.2785,
        least=-0.2785,
        rests=-24.0,
        sleeping=1e-9,
        relative=(2.0 * EXP_ULPS + 16.0) * UNIT,
    ),
}


def tanh(x: Enclosed) -> Enclosed:
    """What a pooler of BERT does."""
    x = x.spread()
    return Enclosed.between(np.tanh(x.middle - x.radius) - WRONG, np.tanh(x.middle + x.radius) + WRONG)


def relu(x: Enclosed) -> Enclosed:
    """What a pooler of DistilBERT does."""
    x = x.spread()
    return Enclosed.between(np.maximum(x.middle - x.radius, 0.0), np.maximum(x.middle + x.radius, 0.0))
