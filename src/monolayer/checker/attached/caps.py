"""Where neurons fire and where they are silent, for every state there could be. Lemmas A1 to A3."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.attached.files import Folder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError

UNIT = BINARY32.unit
AT_ONCE = 1 << 24
"""Cosines held at a time."""
LONGEST = 1.0 + 2.0**-4
"""|û|, at most, at states that neurons have written to: their mean may be large, and norms lose digits then."""
FINITE = 2.0**60
"""What all neurons together may write, and how long a state may be before: sums of squares stay below 2^123."""
FLUSHED = 2.0**-90
"""More than all that numbers flushed to zero can do to an input: fewer than 2^30 of them, each below 2^−126."""


@dataclass(frozen=True, eq=False)
class Caps:
    """`keys` `(N, D)`, and by neuron `(N,)`: α, b, err, the height `c` of the cap where it is wanted, and the height
    `s` below which it is silent. `response`: T; `length`: η."""

    keys: Floats
    alpha: Floats
    bias: Floats
    err: Floats
    wanted: Floats
    silent: Floats
    response: float
    length: float

    @property
    def most(self) -> Floats:
        """What each neuron returns at most, `(N,)`, at whatever state: activations exceed no input above 0, nor 1."""
        return 1.01 * np.maximum(1.0, self.alpha * LONGEST + self.bias + self.err)

    @property
    def loudest(self) -> float:
        """What any neuron returns at most."""
        return float(np.max(self.most, initial=0.0))

    @property
    def radius(self) -> float:
        """The theorem of locality: outside 1 − cos(k, û) < radius of every key all logits are the host's."""
        return float(np.max(1.0 - self.silent / (1.0 + self.length), initial=0.0))

    @property
    def reach(self) -> float:
        """Every neuron is wanted where 1 − ⟨k, û⟩ is at most this."""
        return float(np.min(1.0 - self.wanted, initial=np.inf))

    @property
    def half(self) -> float:
        """How much ⟨k, û⟩ may fall from where the input is T, for every neuron."""
        return float(np.min(self.response / (2.0 * self.alpha), initial=np.inf))


def caps_of(found: Folder) -> Caps:
    """The caps of all neurons; `UnhandledError` where one could not be silent, could not fire, or could write ∞."""
    D, bias = found.host.width, found.bias
    length = np.sqrt((found.reads * found.reads).sum(axis=1))
    if not (length > 0.0).all():
        raise UnhandledError("a neuron of a fact reads nothing")
    alpha, eta = length * np.sqrt(D), (D + 16) * UNIT
    if not (alpha.max(initial=0.0) <= 2.0**60 and np.abs(bias).max(initial=0.0) <= 2.0**60):
        raise UnhandledError("a neuron reads with weights so large that its input may not be finite")
    T = max(64.0, 8.0 * found.host.silence)
    err = PADDING * (BINARY32.gamma(D + 2.0) * (alpha * (1.0 + eta) + np.abs(bias)) + FLUSHED)
    wanted, silent = (T / 2.0 - bias) / alpha, (-found.host.silence - bias - err) / alpha
    wide = np.flatnonzero(np.minimum(wanted, silent) <= 0.0)
    if len(wide):
        raise UnhandledError(f"neuron {wide[0]} answers to half of all states")
    # At û = k the input is α + b: T in float32; less in short formats, where a rounded state may be longer than √D.
    dull = np.flatnonzero(alpha + bias < 0.625 * T)
    if len(dull):
        raise UnhandledError(
            f"neuron {dull[0]} hardly reaches T/2 = {T / 2.0:g} at any state: its cap is next to empty"
        )
    weak = np.flatnonzero(T / 2.0 - err < T / 8.0)
    if len(weak):
        raise UnhandledError(f"rounding may silence neuron {weak[0]}: the radius is too small for this width")
    caps = Caps(found.reads / length[:, None], alpha, bias, err, wanted, silent, T, eta)
    # Attention of later blocks multiplies states with 0, also those of other places, and 0 · ∞ is not 0.
    written = float((caps.most * np.sqrt((found.writes * found.writes).sum(axis=1))).sum())
    if not PADDING * written <= FINITE:
        raise UnhandledError(
            f"neurons may write up to {written:.3g} in all, and the proof covers {FINITE:.3g}: a state that is not "
            "finite would change other places, through the attention of later blocks"
        )
    return caps


@dataclass(frozen=True, eq=False)
class Near:
    """For each neuron `(N,)`: how many others may fire on its cap, whether one of them could spoil its answer, and the
    first block in which one of all these stands."""

    count: Ints
    spoilt: Bools
    first: Ints
    by: dict[int, int]
    """For some of those that are spoilt, the other neuron."""
    others: dict[int, list[int]]
    """The neurons that may fire on the cap of each that has any."""


def near_pairs(found: Folder, caps: Caps) -> Near:
    """Neurons that may fire where another is wanted (A3), and what comes of it.

    Harmless are those that write the same row and stand in the same block or a later one; in an earlier one, those that
    fire for sure on the whole cap.
    """
    N, reach = len(found.bias), (1.0 + caps.length)
    psi, chi = (np.arccos(np.clip(height / reach, -1.0, 1.0)) for height in (caps.wanted, caps.silent))
    # Products of float32 numbers within 2^−24 of unit vectors, summed in any order.
    slack = 4.0 * (found.host.width + 4) * UNIT
    least = np.cos(min(np.pi, float(psi.max(initial=0.0) + chi.max(initial=0.0)))) - slack
    short = caps.keys.astype(np.float32)
    pairs: dict[int, list[int]] = defaultdict(list)
    step = max(1, AT_ONCE // max(1, N))
    for start in range(0, N, step):
        one, two = np.nonzero(short[start : start + step] @ short.T > least)
        one += start
        other = one != two
        one, two = one[other], two[other]
        gap = caps.keys[one] - caps.keys[two]
        angle = 2.0 * np.arcsin(np.minimum(1.0, np.sqrt((gap * gap).sum(axis=1)) / 2.0)) * (1.0 - 2.0**-20)
        close = angle < psi[one] + chi[two]
        for j, i in zip(one[close].tolist(), two[close].tolist(), strict=True):
            pairs[j].append(i)
    count, spoilt, by = np.zeros(N, np.int64), np.zeros(N, dtype=bool), dict[int, int]()
    first = np.arange(N) // found.host.neurons
    for j, others in pairs.items():
        count[j], first[j] = len(others), min(first[j], min(others) // found.host.neurons)
        for i in others:
            if not _harmless(found, caps, i, j):
                spoilt[j], by[j] = True, i
    return Near(count, spoilt, first, by, dict(pairs))


def _harmless(found: Folder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i`, which may fire on the cap of `j`, leaves its answer alone."""
    if not np.array_equal(found.writes[i], found.writes[j]):
        return False
    H = found.host.neurons
    return i // H >= j // H or fires_for_sure(found, caps, i, j)


def fires_for_sure(found: Folder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i` has an input of at least T/8 on the whole cap of `j`."""
    D = found.host.width
    apart = found.reads[i] - found.reads[j]
    moved = float(np.sqrt(apart @ apart)) * np.sqrt(D) * (1.0 + caps.length) + abs(float(found.bias[i] - found.bias[j]))
    return bool(caps.response / 2.0 - PADDING * moved - caps.err[i] >= caps.response / 8.0)
