"""Make neurons from states: the half-space that each reads, and how steeply its input rises there.

The notation is that of `attaching/__init__.py`, except that `u` is 2^−24, the unit roundoff of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Bools, Floats
from monolayer.errors import DataError
from monolayer.huggingface.formats import HOST_FORMATS, SUM_UNIT, HostFormat
from monolayer.huggingface.host import STEEPEST, Host
from monolayer.huggingface.hosts import IDENTITY

AMPLITUDE = 2.0**30
"""`A`, the length of what a neuron writes at its own state. A² fits into float32. A state is no longer than
`HostFormat.state`, which is 2^−12 A/4, so the last norm sees the written vector to within about 2^−12."""
OUTWEIGHS = 50.0
"""In float16, what a neuron writes at its own state is at least this many times as long as `HostFormat.state`,
unless `PEAK` forbids it. If it were longer, fewer blocks would fit (Lemma A2)."""
ROOM_TAKEN = 0.8
"""In float16, what a neuron writes is also so long that σ, to within which the last norm sees its direction (Lemma A4),
takes this share of what its token leaves room for (`Directions.room`) at states of length `Steepness.state`. The rest
is for rounding in the head."""
PEAK = 10_240.0
"""In float16, the largest coordinate of what a neuron writes at its own state, where more is asked for, as it is in
narrow hosts. A neuron returns up to 2.44 T where norms round lengths up, so a state with coordinates up to
8,192 stays below 65,504 when two blocks add to it. Lemma A2 needs this in front of the last block, so proofs cover
three blocks at least, unless many keys are near each other."""
WIDEST = 0.0625
"""The largest ρ that `attach` accepts, and that a neuron gets of its own."""
ROUNDING_STEPS = 3.25
"""In short formats the default ρ is at least this many v/√D: four standard deviations of ⟨k, û⟩, because coordinates of
û are rounded. In 705 states and four evaluations, ⟨k, û⟩ fell by up to 2 v/√D below the least value seen when the key
was made."""
LATER = 2.0 / 3.0
"""In float32, by which factor the radius of later tokens of an answer is smaller: 4 (D + 2)u in place of 6 (D + 2)u."""
FLIPS, TURNS = 1.25, 3.0
"""In short formats ⟨k, û⟩ is expected to fall by less than s + `FLIPS` ς + `TURNS` θ below the least value seen when a
key was made (`Steepness.radii`). In 290 states of a host of 30 layers and six evaluations it fell by up to 0.65 of that
in bfloat16, and by 0.5 in 97 states in float16; 1 − cos(k, û) reached 0.2 ρ."""
KEYS_AT_ONCE = 4096
"""How many keys are rounded at a time."""


class Neurons(NamedTuple):
    """The rows of appended blocks, in the order of the facts: `W_1` `(N, D)`, `b_1` `(N,)`, `W_2` `(N, D)`."""

    W_1: Floats
    b_1: Floats
    W_2: Floats

    def joined(self, other: Neurons) -> Neurons:
        """These neurons, followed by those of `other`."""
        return Neurons(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Steepness:
    """`T`, the same for all neurons of a host, and `ρ`: the least of a neuron, or that of all neurons.

    `state`: the length of a state that written vectors are sized to outweigh, where their format limits them. `own`:
    whether each neuron has a radius of its own, which follows from its states (`radii`).
    """

    radius: float
    response: float
    state: float
    own: bool = False

    def radii(self, samples: Floats, later: Bools, host: Host) -> Floats:
        """ρ of each neuron `(N,)`, from normed states `(K, N, D)` in `K` evaluations.

        `later` `(N,)`: whether it holds a token of an answer other than the first. A text may come near to its state
        that comes near to no state of the prompt, because the text goes on with the same answer. So in float32, where
        states move by far less than the rounding that ρ is there for, it gets a smaller radius.

        In short formats a norm rounds coordinates, and where one of them is rounded up once and down another time,
        ⟨k, û⟩ moves by its share: its spacing times that coordinate of k, over √D. s is the largest of these shares,
        and ς the root of the sum of the squares of the others. In many trained models one coordinate is most of a
        state, and s is up to v. θ is the largest 1 − cos between two of the evaluations.
        """
        radii = np.full(samples.shape[1], self.radius)
        if not self.own:
            return radii
        fmt = host.format
        if not fmt.short:
            return np.where(later, max(least_radius(host), LATER * self.radius), radii)
        states = samples.mean(axis=0)
        key = states / np.sqrt((states * states).sum(axis=1, keepdims=True))
        flips = np.sort(np.abs(key) * fmt.spacing(states) / np.sqrt(samples.shape[2]), axis=1)
        across = np.sqrt((samples * samples).sum(axis=2))
        pairs = combinations(range(len(samples)), 2)
        cosines = [(samples[i] * samples[j]).sum(axis=1) / (across[i] * across[j]) for i, j in pairs]
        turned = 1.0 - np.min(cosines, axis=0, initial=1.0)
        others = np.sqrt((flips[:, :-1] ** 2).sum(axis=1))
        moves = flips[:, -1] + FLIPS * others + TURNS * turned
        widened: Floats = np.maximum(radii, moves / (1.0 - fmt.low))
        return widened


def least_radius(host: Host) -> float:
    """The smallest ρ that `attach` accepts for a host.

    A sum of `D` products and a bias, whose sizes add up to at most (2 + 2^−4)α, is off by at most 2.1(D + 2)u α. For
    ρ = 4(D + 2)u that is 0.53 T, so an input of 0.66 T is still evaluated as T/8 or more (Lemma A3). In float16, where
    α is limited, T must be at least 14 and more than S.
    """
    least = 4.0 * (host.width + 2) * SUM_UNIT
    return max(least, max(14.0, 1.25 * host.silence) / STEEPEST) if host.format.limited else least


def steepness(host: Host, radius: float | None = None) -> Steepness:
    """ρ and T for a host. By default each neuron has its own ρ, which is no less than the one that is returned here.

    That is at least 6(D + 2)u, so that rounding changes an input by at most 0.35 T; `LATER` times that for later tokens
    of answers in float32. States are taken to be as long as usual (`HostFormat.state`).
    """
    least = least_radius(host)
    usual = max(host.format.still, least, 6.0 * (host.width + 2) * SUM_UNIT)
    if host.format.short:
        usual = max(usual, ROUNDING_STEPS * host.format.unit / np.sqrt(host.width))
    chosen: object = usual if radius is None else radius
    if not isinstance(chosen, float | np.floating) or not least <= chosen <= WIDEST:
        raise DataError(
            f"radius must be a number from {least:.3g} (below, rounding in {host.width} coordinates could silence a "
            f"fact) to {WIDEST:g}, not {radius!r}"
        )
    return Steepness(float(chosen), host.response(float(chosen)), host.format.state, own=radius is None)


def reading(samples: Floats, alpha: Floats, T: float, dtype: str = "float32") -> tuple[Floats, Floats]:
    """`W_1` `(N, D)` and `b_1` `(N,)` of neurons whose input is T at their own normed states, rounded to `dtype`.

    `samples` `(K, N, D)`: the states of the same places in `K` evaluations. A key is the direction of their mean, and
    `alpha` `(N,)` is how fast an input rises with ⟨k, û⟩. In float32 the bias makes the input T at that mean. In a
    short format the bias is rounded first, and then the key, so that the least input of the samples is T.
    """
    states = samples.mean(axis=0)
    D = states.shape[1]
    square = (states * states).sum(axis=1)
    fmt = HOST_FORMATS[dtype]
    if not fmt.short:
        W_1 = rounded(states * (alpha / np.sqrt(D * square))[:, None])
        return W_1, rounded(T - (W_1 * states).sum(axis=1))
    b_1 = rounded(T - alpha * np.sqrt(square / D), dtype)
    W_1 = np.empty_like(states)
    for first in range(0, len(states), KEYS_AT_ONCE):
        some = slice(first, first + KEYS_AT_ONCE)
        middle, wanted = states[some], T - b_1[some]
        key = middle * (wanted / square[some])[:, None]
        lost = (key * (middle - samples[:, some])).sum(axis=2).max(axis=0)
        wanted += lost
        W_1[some] = round_keys(middle * (wanted / square[some])[:, None], middle, wanted, fmt)
    return W_1, b_1


def round_keys(keys: Floats, states: Floats, wanted: Floats, fmt: HostFormat) -> Floats:
    """Round `keys` `(N, D)` to a short format so that their products with `states` come near to `wanted`.

    Every coordinate is first rounded to the nearest number. Then, from the coordinate that moves the product most to
    the one that moves it least, a coordinate is rounded the other way if that brings the product nearer to `wanted`.
    """
    chosen = rounded(keys, fmt.name)
    other = np.where(chosen == 0.0, 0.0, chosen + np.sign(keys - chosen) * fmt.spacing(chosen))
    moves = (other - chosen) * states
    order = np.argsort(-np.abs(moves), axis=1)
    missing = wanted - (chosen * states).sum(axis=1)
    rows = np.arange(len(chosen))
    for place in range(chosen.shape[1]):
        column = order[:, place]
        move = moves[rows, column]
        turn = np.abs(missing - move) < np.abs(missing)
        chosen[rows[turn], column[turn]] = other[rows[turn], column[turn]]
        missing = np.where(turn, missing - move, missing)
    return chosen


def writing(directions: Floats, room: Floats | None, steep: Steepness, host: Host) -> Floats:
    """`W_2` `(N, D)`: rows along `directions`, scaled so that a neuron writes a vector of length A at its own state.

    `room` `(N,)`, given in float16: what each direction leaves room for. The vector is then as long as that and
    `OUTWEIGHS` ask, or as `PEAK` allows.
    """
    length = np.full(len(directions), AMPLITUDE)
    if room is not None:
        # σ is about 2L/(a|w_2|) at states of length L, if the neuron returns a, and a|w_2| is a/T of the length.
        outweighs = 2.0 * steep.response / (_least_returned(steep, host) * ROOM_TAKEN * room)
        asked = np.maximum(OUTWEIGHS * host.format.state, outweighs * steep.state)
        length = np.minimum(asked, PEAK / np.abs(directions).max(axis=1))
    return rounded(directions * (length / steep.response)[:, None], host.dtype)


def _least_returned(steep: Steepness, host: Host) -> float:
    """What a neuron returns at least where it is claimed to answer, apart from its own rounding (Lemma A3)."""
    rounding = 2.1 * (host.width + 2) * SUM_UNIT * steep.response / steep.radius
    return max(host.format.low * steep.response - rounding, kept_from(steep, host))


def kept_from(steep: Steepness, host: Host) -> float:
    """`f` of Lemma A3: the input from which on the activation returns 0.999 of it, T/8 at least."""
    return max(steep.response / 8.0, IDENTITY[host.activation])


def rounded(values: Floats, dtype: str = "float32") -> Floats:
    """The values rounded to the nearest numbers of the format `dtype`."""
    nearest: Floats = torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, dtype)).double().numpy()
    return nearest


def normed(states: Floats, host: Host) -> Floats:
    """What a norm with weight 1 and bias 0 returns for states `(N, D)`."""
    centred = states if host.kind.rms else states - states.mean(axis=1, keepdims=True)
    scaled: Floats = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + host.epsilon)
    return scaled
