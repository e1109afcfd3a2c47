"""Activations of enclosed numbers, and where neurons are at rest. Lemma E6."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.enclosed import EXP_ULPS, TURN_ULPS, UNIT, Enclosed

SATURATED = 8.6
"""Beyond this `x/√2` is beyond 6, and `√(2/π)(x + 0.044715 x³)` beyond 10."""
WRONG = 2.0**-20
FUNCTIONS = (
    "erf and tanh within 2^-20, and exactly ±1 from 6 and from 10 on; silu as x/(1 + exp(−x)); powers, cosines and "
    f"sines of rotary positions within {TURN_ULPS} units in the last place of 1"
)
"""Assumed in binary32, in words."""
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _gelu(x: Floats) -> Floats:
    return 0.5 * x * np.asarray(_erfc(-x / math.sqrt(2.0)), dtype=np.float64)


def _tanh_gelu(x: Floats) -> Floats:
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def _silu(x: Floats) -> Floats:
    return np.asarray(x / (1.0 + np.exp(-x)))


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
    absolute: float = 0.0
    """Error of `f` over `|x|`, where it is not saturated."""
    relative: float = 0.0

    def __call__(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The least and the largest value that any evaluation returns between `low` and `high`."""
        ends = [self._at(low), self._at(high)]
        most, least = np.maximum(*ends), np.minimum(*ends)
        least = np.where((low < self.turn) & (high > self.turn), np.minimum(least, self.least), least)
        size = np.maximum(np.abs(low), np.abs(high))
        off = self.absolute * np.minimum(size, SATURATED) + self.relative * np.maximum(np.abs(least), np.abs(most))
        asleep = (high <= self.rests) & (self.sleeping == 0.0)
        return np.where(asleep, 0.0, least - off), np.where(asleep, 0.0, most + off)

    def _at(self, x: Floats) -> Floats:
        if self.absolute == 0.0:
            return self.f(x)
        found = np.maximum(x, 0.0)  # what is left beyond saturation
        middle = np.abs(x) < SATURATED
        found[middle] = self.f(x[middle])
        return found


_GELU = {"rests": -SATURATED, "absolute": 0.5 * WRONG + 8.0 * UNIT, "relative": 8.0 * UNIT}
ACTIVATIONS = {
    "relu": Activation(lambda x: np.maximum(x, 0.0), turn=-np.inf, least=0.0, rests=0.0),
    "relu6": Activation(lambda x: np.clip(x, 0.0, 6.0), turn=-np.inf, least=0.0, rests=0.0),
    "gelu": Activation(_gelu, turn=-0.7518, least=-0.17, **_GELU),
    "gelu_new": Activation(_tanh_gelu, turn=-0.7525, least=-0.171, **_GELU),
    "gelu_pytorch_tanh": Activation(_tanh_gelu, turn=-0.7525, least=-0.171, **_GELU),
    "silu": Activation(
        _silu, turn=-1.2785, least=-0.2785, rests=-24.0, sleeping=1e-9, relative=(2.0 * EXP_ULPS + 16.0) * UNIT
    ),
}


def activation(name: str) -> Activation:
    """The activation of this name."""
    if name not in ACTIVATIONS:
        raise UnhandledError(f"the activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def tanh(x: Enclosed) -> Enclosed:
    """What a pooler of BERT does."""
    x = x.spread()
    return Enclosed.between(np.tanh(x.middle - x.radius) - WRONG, np.tanh(x.middle + x.radius) + WRONG)


def relu(x: Enclosed) -> Enclosed:
    """What a pooler of DistilBERT does."""
    x = x.spread()
    return Enclosed.between(np.maximum(x.middle - x.radius, 0.0), np.maximum(x.middle + x.radius, 0.0))
