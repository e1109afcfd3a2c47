"""Where neurons fire and where they are silent, for every state there could be. Lemmas A1 to A3."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.attached.files import AttachedFolder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError
from monolayer.huggingface.formats import HostFormat
from monolayer.huggingface.hosts import IDENTITY

FLOAT32_UNIT = BINARY32.unit
COSINES_AT_ONCE = 1 << 24
"""Cosines held at a time."""
DIP = 0.3
"""What gelu and silu return at least, below 0: −0.17 and −0.28."""
FINITE = 2.0**60
"""How long a state of the host may be, and what neurons add to it: sums of squares stay below 2^123."""
FLUSHING_ERROR = 2.0**-90
"""More than all that numbers flushed to zero can do to an input: fewer than 2^30 of them, each below 2^−126."""


@dataclass(frozen=True, eq=False)
class Caps:
    """`keys` `(N, D)`, and by neuron `(N,)`: α, b, err, the height `c` = `wanted` of its cap, the `level` that its
    input has there at least, the length ℓ = `longest` of the states on it, the height `s` below which it is `silent`,
    and what it returns at `most`, at whatever state.

    `response`: T; `floor`: what an evaluation of an input at `level` still exceeds; `length`: η; `anywhere`: |û| at
    most, also at states that neurons have written to.
    """

    keys: Floats
    alpha: Floats
    bias: Floats
    err: Floats
    wanted: Floats
    level: Floats
    longest: Floats
    silent: Floats
    most: Floats
    response: float
    floor: float
    length: float
    anywhere: float
    fmt: HostFormat

    @property
    def radius(self) -> float:
        """The theorem of locality: where 1 − ⟨k, û⟩ ≥ radius for every key, all logits are the host's."""
        return float(np.max(1.0 - self.silent, initial=0.0))

    @property
    def narrow(self) -> Bools:
        """Which neurons `(N,)` have a narrow cap, because others are near."""
        return self.level > _wide_level(self.fmt, self.response, self.err, self.floor)

    def reach(self, which: Bools) -> float:
        """In float32, these neurons `(N,)` are wanted where 1 − ⟨k, û⟩ is at most this."""
        return float(np.min(1.0 - self.wanted[which], initial=np.inf))

    @property
    def half(self) -> float:
        """How much ⟨k, û⟩ may fall from where the input is T, for every neuron."""
        return float(np.min((self.response - self.level) / self.alpha, initial=np.inf))

    @property
    def turned(self) -> Floats:
        """The half-angles ψ `(N,)` of the caps."""
        return np.minimum(_arccos(self.wanted / self.longest), float(np.arccos(max(-1.0, 1.0 - self.fmt.turn))))

    def narrowed(self, which: Bools) -> Caps:
        """The same with narrow caps for some neurons `(N,)`; caps that would be next to empty stay as they are."""
        level = np.maximum(self.level, self.fmt.narrow * self.response)
        which = which & (self.alpha * (1.0 + self.length) + self.bias >= 1.0625 * level)
        level = np.where(which, level, self.level)
        return replace(self, level=level, wanted=(level - self.bias) / self.alpha)


def _arccos(cosines: Floats) -> Floats:
    found: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return found


def _wide_level(fmt: HostFormat, T: float, err: Floats, floor: float) -> Floats:
    """The level e `(N,)` of wide caps (A3)."""
    return np.maximum(fmt.low * T, err + floor)


def caps_of(found: AttachedFolder) -> Caps:
    """The caps of all neurons; `UnhandledError` where one could not be silent, or could not fire."""
    D, bias, fmt = found.host.width, found.bias, found.host.format
    length = np.sqrt((found.reads * found.reads).sum(axis=1))
    if not (length > 0.0).all():
        raise UnhandledError("a neuron of a fact reads nothing")
    alpha, eta = length * np.sqrt(D), (D + 16) * FLOAT32_UNIT + (fmt.unit if fmt.short else 0.0)
    anywhere = 1.0 + max(eta, fmt.beyond)
    err = PADDING * (BINARY32.gamma(D + 2.0) * (alpha * anywhere + np.abs(bias)) + FLUSHING_ERROR)
    size = float(np.max(alpha * anywhere + np.abs(bias) + err, initial=0.0))
    if not size <= min(FINITE, fmt.largest):
        raise UnhandledError("a neuron reads with weights so large that its input may not be finite")
    T = found.host.response(found.manifest.radius)
    floor = max(T / 8.0, IDENTITY[found.host.activation])
    level = _wide_level(fmt, T, err, floor)
    wanted, silent = (level - bias) / alpha, (-found.host.silence - bias - err) / alpha
    wide = np.flatnonzero(np.minimum(wanted, silent) <= 0.0)
    if len(wide):
        raise UnhandledError(f"neuron {wide[0]} answers to half of all states")
    weak = np.flatnonzero(level > 0.75 * T)
    if len(weak):
        raise UnhandledError(f"rounding may silence neuron {weak[0]}: the radius is too small for this width")
    # At û = k the input is α + b: T in float32; less in short formats, where a rounded state may be longer than √D.
    dull = np.flatnonzero(alpha * (1.0 + eta) + bias < 1.25 * level)
    if len(dull):
        raise UnhandledError(
            f"neuron {dull[0]} hardly reaches T/2 = {T / 2.0:g} at any state: its cap is next to empty"
        )
    longest = np.full(len(alpha), 1.0 + eta)
    if fmt.short:  # |û| = ⟨k, û⟩/cos, where the input is at most `high` T and 1 − cos at most `turn`
        longest = np.minimum(longest, (fmt.high * T - bias) / alpha / (1.0 - fmt.turn))
    # An activation exceeds no input above 0, and is above −1, before its roundings.
    most = (1.01 + 4.0 * fmt.unit) * np.maximum(1.0, alpha * anywhere + bias + err)
    keys = found.reads / length[:, None]
    return Caps(keys, alpha, bias, err, wanted, level, longest, silent, most, T, floor, eta, anywhere, fmt)


def caps_and_neighbours(found: AttachedFolder) -> tuple[Caps, Near]:
    """The caps of all neurons, narrow for those that others would spoil on the wide one, and who is near whom."""
    caps = caps_of(found)
    near = near_pairs(found, caps)
    narrower = caps.narrowed(near.spoilt | ~least_returned(found, caps, near).heard)
    return (caps, near) if (narrower.level == caps.level).all() else (narrower, near_pairs(found, narrower))


@dataclass(frozen=True, eq=False)
class Near:
    """For each neuron `(N,)`: how many others may fire on its cap, whether one of them could spoil its answer, the
    first block in which one of all these stands, and what it and they return together at most."""

    count: Ints
    spoilt: Bools
    first: Ints
    most: Floats
    by: dict[int, int]
    """For some of those that are spoilt, the other neuron."""
    others: dict[int, list[int]]
    """The neurons that may fire on the cap of each that has any."""


class LeastReturned(NamedTuple):
    """What the first block that fires on the cap of each neuron `(N,)` returns at `least`, all that write its row
    together (A4); and whether it is `heard`: whether that is a third at least of what they return in size."""

    least: Floats
    heard: Bools


def least_returned(found: AttachedFolder, caps: Caps, near: Near) -> LeastReturned:
    """Lemma A4: others take off at most `DIP` each."""
    # The activation returns 0.999 of an input from `floor` on, before its roundings.
    kept, dips = 0.999 - 4.0 * caps.fmt.unit, DIP * near.count
    # In that block stands the neuron itself, or one whose input is sure to be `floor` at least.
    itself = near.first == np.arange(len(near.first)) // found.host.neurons
    least = np.where(itself, kept * (caps.level - caps.err) - dips, caps.floor / 2.0)
    return LeastReturned(least, np.where(itself, least >= dips, kept * caps.floor - dips >= least))


def near_pairs(found: AttachedFolder, caps: Caps) -> Near:
    """Neurons that may fire where another is wanted (A3), and what comes of it.

    Harmless are those that write the same row and stand in the same block or a later one; in an earlier one, those that
    fire for sure on the whole cap. `UnhandledError` where neurons could write numbers that are not finite (A2).
    """
    N = len(found.bias)
    written = _Written(found, caps)
    pairs: dict[int, list[int]] = defaultdict(list)
    if N:
        psi = caps.turned
        around, awake = _arccos(caps.silent / (1.0 + caps.length)), _arccos(caps.silent / caps.anywhere)
        # Products of float32 numbers within 2^−24 of unit vectors, summed in any order.
        slack = 4.0 * (found.host.width + 4) * FLOAT32_UNIT
        widest = float(psi.max() + around.max())
        least = np.cos(min(np.pi, widest if written.fits else max(widest, 2.0 * float(awake.max())))) - slack
        short = caps.keys.astype(np.float32)
        step = max(1, COSINES_AT_ONCE // N)
        for start in range(0, N, step):
            stop = min(N, start + step)
            one, two = np.nonzero(short[start:stop] @ short[:stop].T > least)
            one += start
            before = two < one
            one, two = one[before], two[before]
            gap = caps.keys[one] - caps.keys[two]
            angle = 2.0 * np.arcsin(np.minimum(1.0, np.sqrt((gap * gap).sum(axis=1)) / 2.0)) * (1.0 - 2.0**-20)
            if not written.fits:
                written.add(one, two, angle < awake[one] + awake[two])
            for mine, theirs in ((one, two), (two, one)):
                close = angle < psi[mine] + _arccos(caps.silent[theirs] / caps.longest[mine])
                for j, i in zip(mine[close].tolist(), theirs[close].tolist(), strict=True):
                    pairs[j].append(i)
    written.check()
    count, spoilt, by = np.zeros(N, np.int64), np.zeros(N, dtype=bool), dict[int, int]()
    first, most = np.arange(N) // found.host.neurons, caps.most.copy()
    for j, others in pairs.items():
        count[j], first[j] = len(others), min(first[j], min(others) // found.host.neurons)
        most[j] += caps.most[others].sum()
        for i in others:
            if not _harmless(found, caps, i, j):
                spoilt[j], by[j] = True, i
    return Near(count, spoilt, first, most, by, dict(pairs))


class _Written:
    """How much neurons can add to a coordinate of a state, whatever the state is (A2).

    Attention of later blocks multiplies states with 0, also those of other places, and 0 · ∞ is not 0. So all blocks
    but the last, behind which there is no attention, must leave finite numbers, whichever of their neurons fire.
    """

    def __init__(self, found: AttachedFolder, caps: Caps) -> None:
        fmt = caps.fmt
        self.block = np.arange(len(found.bias)) // found.host.neurons
        self.blocks = range(int(self.block.max(initial=0)))
        # Sums of up to `neurons` terms in float32, and two roundings to the format.
        most = caps.most * PADDING * (1.0 + 2.0 * BINARY32.gamma(found.host.neurons + 8.0) + 4.0 * fmt.unit)
        self.room = min(fmt.largest - fmt.coordinate, FINITE / np.sqrt(found.host.width))
        parts = [np.flatnonzero(self.block == number) for number in self.blocks]
        self.sums = sum((most[part] @ np.abs(found.writes[part]) for part in parts), np.zeros(found.host.width))
        self.fits = bool(self.sums.max() <= self.room)
        self.total = np.zeros((0, 0)) if self.fits else most[:, None] * np.abs(found.writes)
        self.each = self.total.copy()

    def add(self, one: Ints, two: Ints, awake: Bools) -> None:
        """Pairs of neurons that may be awake at one state: all that are awake there are such pairs with each other."""
        both = awake & (self.block[one] == self.block[two])
        np.add.at(self.total, one[both], self.each[two[both]])
        np.add.at(self.total, two[both], self.each[one[both]])

    def check(self) -> None:
        """`UnhandledError` if blocks in front of the last one together may leave a number that is not finite."""
        if self.fits:
            return
        sums = sum((self.total[self.block == number].max(axis=0) for number in self.blocks), np.zeros(len(self.sums)))
        if not sums.max() <= self.room:
            raise UnhandledError(
                f"neurons of {len(self.blocks) + 1} blocks may add up to {sums.max():.3g} to a coordinate of a state "
                f"in front of the last block, and the proof covers {self.room:.3g}: a state that is not finite would "
                "change other places, through the attention of later blocks"
            )


def _harmless(found: AttachedFolder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i`, which may fire on the cap of `j`, leaves its answer alone."""
    if not np.array_equal(found.writes[i], found.writes[j]):
        return False
    H = found.host.neurons
    return i // H >= j // H or fires_for_sure(found, caps, i, j)


def fires_for_sure(found: AttachedFolder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i` has an input of at least `floor` on the whole cap of `j`, rounding included."""
    D = found.host.width
    apart = found.reads[i] - found.reads[j]
    moved = float(np.sqrt(apart @ apart)) * np.sqrt(D) * (1.0 + caps.length) + abs(float(found.bias[i] - found.bias[j]))
    return bool(caps.level[j] - PADDING * moved - caps.err[i] >= caps.floor)
