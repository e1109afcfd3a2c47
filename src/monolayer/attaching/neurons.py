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
from monolayer.huggingface.formats import FORMATS, SUM_UNIT, HostFormat
from monolayer.huggingface.host import STEEPEST, Host

AMPLITUDE = 2.0**30
"""`A`: length of what a neuron writes at its own state. Its square is a float32, and 2^−12 of a quarter of it is still
`HostFormat.state`, so the last norm sees the written vector to within about 2^−12."""
PEAK = 10_240.0
"""In float16, the largest coordinate of what a neuron writes at its own state. A neuron returns up to 2.44 T where
norms round lengths up, so what two blocks write, beside a state up to 8,192, is below 65,504: with a third behind them
a proof covers every place (Lemma A2). Less would leave less room to outweigh states in narrow hosts."""
WIDEST = 0.0625
STILL = {"float32": 2.0**-14, "bfloat16": 2.0**-11, "float16": 2.0**-13}
"""ρ by format, at least: states turn between kernels by 10⁻⁷ in float32 and by some 10⁻⁵ in bfloat16 (measured)."""
ROUNDING_STEPS = 3.25
"""In short formats ρ is at least this many v/√D: four standard deviations of ⟨k, û⟩, whose coordinates are rounded. It
falls by up to 2 v/√D below the least that was seen when the key was made (measured: 705 states in four evaluations)."""
KEYS_AT_ONCE = 4096
"""Keys that are rounded at a time."""


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


def least_radius(host: Host) -> float:
    """The smallest ρ that a host takes.

    A sum of `D` products and a bias, all together at most (2 + 2^−4)α in size, is off by at most 2.1(D + 2)u α. Where ρ
    is 4(D + 2)u, that is 0.53 T: an input of 0.66 T is then still T/8 or more (Lemma A3). In float16, where α is
    limited, T must be 14 at least, and more than S.
    """
    least = 4.0 * (host.width + 2) * SUM_UNIT
    return max(least, max(14.0, 1.25 * host.silence) / STEEPEST) if host.dtype == "float16" else least


def steepness(host: Host, radius: float | None = None) -> Steepness:
    """ρ and T for a host; by default ρ is so large that rounding takes a third of T: 6(D + 2)u or more."""
    least = least_radius(host)
    usual = max(STILL[host.dtype], least, 6.0 * (host.width + 2) * SUM_UNIT)
    if host.format.short:
        usual = max(usual, ROUNDING_STEPS * host.format.unit / np.sqrt(host.width))
    chosen = float(usual) if radius is None else radius
    if not isinstance(chosen, float) or not least <= chosen <= WIDEST:
        raise DataError(
            f"radius must be a number from {least:.3g} (below, rounding in {host.width} coordinates could silence a "
            f"fact) to {WIDEST:g}, not {radius!r}"
        )
    return Steepness(chosen, host.response(chosen))


def reading(samples: Floats, steep: Steepness, dtype: str = "float32") -> tuple[Floats, Floats]:
    """`W_1` `(N, D)` and `b_1` `(N,)`, numbers of a format: neurons whose input is T at their own normed states.

    `samples` `(K, N, D)`: the states of the same places in `K` evaluations. A key is the direction of their mean. In
    float32 the bias makes the input T there. In a short format the bias is rounded first, and then the key, so that the
    least input of the samples is T.
    """
    states = samples.mean(axis=0)
    D = states.shape[1]
    square = (states * states).sum(axis=1)
    if dtype == "float32":
        W_1 = rounded(states * (steep.alpha / np.sqrt(D * square))[:, None])
        return W_1, rounded(steep.response - (W_1 * states).sum(axis=1))
    b_1 = rounded(steep.response - steep.alpha * np.sqrt(square / D), dtype)
    W_1 = np.empty_like(states)
    for first in range(0, len(states), KEYS_AT_ONCE):
        some = slice(first, first + KEYS_AT_ONCE)
        own, wanted = states[some], steep.response - b_1[some]
        key = own * (wanted / square[some])[:, None]
        lost = (key * (own - samples[:, some])).sum(axis=2).max(axis=0)
        wanted += lost
        W_1[some] = round_keys(own * (wanted / square[some])[:, None], own, wanted, FORMATS[dtype])
    return W_1, b_1


def round_keys(keys: Floats, states: Floats, wanted: Floats, fmt: HostFormat) -> Floats:
    """Numbers of a short format next to `keys` `(N, D)`, above or below, whose products with the states are `wanted`.

    Each is rounded to the nearest number first. Then, from the coordinate that moves the sum most to the one that moves
    it least, it is rounded the other way where that brings the sum nearer.
    """
    found = rounded(keys, fmt.name)
    other = np.where(found == 0.0, 0.0, found + np.sign(keys - found) * fmt.spacing(found))
    moves = (other - found) * states
    order = np.argsort(-np.abs(moves), axis=1)
    missing = wanted - (found * states).sum(axis=1)
    rows = np.arange(len(found))
    for place in range(found.shape[1]):
        column = order[:, place]
        move = moves[rows, column]
        turn = np.abs(missing - move) < np.abs(missing)
        found[rows[turn], column[turn]] = other[rows[turn], column[turn]]
        missing = np.where(turn, missing - move, missing)
    return found


def writing(directions: Floats, steep: Steepness, dtype: str) -> Floats:
    """`W_2` `(N, D)`: rows along directions, so long that a neuron writes a vector of length A at its own state.

    In float16 that is as long as numbers up to `PEAK` allow.
    """
    length = np.full(len(directions), AMPLITUDE)
    if dtype == "float16":
        length = PEAK / np.abs(directions).max(axis=1)
    return rounded(directions * (length / steep.response)[:, None], dtype)


def rounded(values: Floats, dtype: str = "float32") -> Floats:
    """The nearest numbers of a format."""
    found: Floats = torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, dtype)).double().numpy()
    return found


def normed(states: Floats, host: Host) -> Floats:
    """`u` `(N, D)`: what a norm with weight 1 and bias 0 makes of states `(N, D)`."""
    centred = states if host.kind.rms else states - states.mean(axis=1, keepdims=True)
    found: Floats = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + host.epsilon)
    return found
