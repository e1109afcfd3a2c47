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
USUAL = {"float32": 2.0**-14, "bfloat16": 2.0**-10}
"""ρ by format, at least: states move between kernels by 10⁻⁷ in float32 and by some 10⁻⁴ in bfloat16 (measured)."""
SIGNIFICAND = {"bfloat16": 8}
"""Bits, the leading one among them."""


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
    usual = max(USUAL[host.dtype], least)
    if host.dtype != "float32":
        # D coordinates, each rounded by up to 2^−8 of itself, move ⟨k, û⟩ by about 2^−9/√D: this is 8 times as much.
        usual = max(usual, 2.0**-6 / np.sqrt(host.width))
    chosen = float(usual) if radius is None else radius
    if not isinstance(chosen, float) or not least <= chosen <= WIDEST:
        raise DataError(
            f"radius must be a number from {least:.3g} (below, rounding in {host.width} coordinates could silence a "
            f"fact) to {WIDEST:g}, not {radius!r}"
        )
    return Steepness(chosen, max(64.0, 8.0 * host.silence))


def reading(states: Floats, steep: Steepness, dtype: str = "float32") -> tuple[Floats, Floats]:
    """`W_1` `(N, D)` and `b_1` `(N,)`, numbers of a format: neurons that answer normed states `u` `(N, D)` with T.

    In a short format the bias is rounded first, and then the key, so that the sum of both is T again.
    """
    D = states.shape[1]
    square = (states * states).sum(axis=1)
    if dtype == "float32":
        W_1 = rounded(states * (steep.alpha / np.sqrt(D * square))[:, None])
        return W_1, rounded(steep.response - (W_1 * states).sum(axis=1))
    b_1 = rounded(steep.response - steep.alpha * np.sqrt(square / D), dtype)
    wanted = steep.response - b_1
    return _rounded_to(states * (wanted / square)[:, None], states, wanted, dtype), b_1


def _rounded_to(key: Floats, states: Floats, wanted: Floats, dtype: str) -> Floats:
    """Numbers of a short format next to `key` `(N, D)`, above or below, whose products with the states are `wanted`.

    Each is rounded to the nearest number first. Then, from the coordinate that moves the sum most to the one that moves
    it least, it is rounded the other way where that brings the sum nearer.
    """
    found = rounded(key, dtype)
    # A number of p bits in [2^(e−1), 2^e) has its neighbours at 2^(e−p).
    spacing = np.ldexp(1.0, np.frexp(found)[1] - SIGNIFICAND[dtype])
    other = np.where(found == 0.0, 0.0, found + np.sign(key - found) * spacing)
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


def rounded(values: Floats, dtype: str = "float32") -> Floats:
    """The nearest numbers of a format."""
    found: Floats = torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, dtype)).double().numpy()
    return found


def normed(states: Floats, host: Host) -> Floats:
    """`u` `(N, D)`: what a norm with weight 1 and bias 0 makes of states `(N, D)`."""
    centred = states if host.kind.rms else states - states.mean(axis=1, keepdims=True)
    found: Floats = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + host.epsilon)
    return found
