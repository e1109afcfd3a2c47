"""Neurons from states: which half-space each reads, and the constants that say how steeply.

Notation of `attaching/__init__.py`; `u` is 2^−24, the unit roundoff of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.huggingface.host import Host

UNIT = 2.0**-24
AMPLITUDE = 2.0**30
"""`A`: length of what a neuron writes at its own state. Its square is a float32, and 2^−12 of a quarter of it is still
`LARGEST`, so the last norm sees the written vector to within about 2^−12."""
LARGEST = 2.0**16
"""Length of a state up to which a neuron outweighs it."""
WIDEST = 0.0625


class Neurons(NamedTuple):
    """The rows of appended blocks, in the order of the facts: `W_1` `(N, D)`, `b_1` `(N,)`, `W_2` `(N, D)`."""

    W_1: Floats
    b_1: Floats
    W_2: Floats

    def joined(self, other: Neurons) -> Neurons:
        """These, and behind them those of `other`."""
        return Neurons(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Steepness:
    """`ρ` and `T`, the same for all neurons of a host."""

    radius: float
    response: float

    @property
    def alpha(self) -> float:
        """`α = T/ρ`"""
        return self.response / self.radius


def steepness(host: Host, radius: float | None = None) -> Steepness:
    """ρ and T for a host.

    `T ≥ 8 S`, so a neuron is silent from `ρ(1 + 1/8)` on, rounding aside. A sum of `D` products and a bias, each at
    most α in size, is off by at most `2(D + 2)u α`; this is a third of T where `ρ ≥ 6(D + 2)u`.
    """
    least = 6.0 * (host.width + 2) * UNIT
    chosen = max(2.0**-14, least) if radius is None else radius
    if not isinstance(chosen, float) or not least <= chosen <= WIDEST:
        raise DataError(
            f"radius must be a number from {least:.3g} (below, rounding in {host.width} coordinates could silence a "
            f"fact) to {WIDEST:g}, not {radius!r}"
        )
    return Steepness(chosen, max(64.0, 8.0 * host.silence))


def reading(states: Floats, steep: Steepness) -> tuple[Floats, Floats]:
    """`W_1` `(N, D)` and `b_1` `(N,)`, numbers of float32: neurons that answer normed states `u` `(N, D)` with T."""
    D = states.shape[1]
    length = np.sqrt((states * states).sum(axis=1))
    W_1 = rounded(states * (steep.alpha / (np.sqrt(D) * length))[:, None])
    return W_1, rounded(steep.response - (W_1 * states).sum(axis=1))


def rounded(values: Floats, dtype: str = "float32") -> Floats:
    """The nearest numbers of a format."""
    found: Floats = torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, dtype)).double().numpy()
    return found


def normed(states: Floats, host: Host) -> Floats:
    """`u` `(N, D)`: what a norm with weight 1 and bias 0 makes of states `(N, D)`."""
    centred = states if host.kind.rms else states - states.mean(axis=1, keepdims=True)
    found: Floats = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + host.epsilon)
    return found
