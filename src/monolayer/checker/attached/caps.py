"""Where neurons fire and where they are silent, for every state there could be. Lemmas A1 to A3."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.attached.files import Folder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError
from monolayer.huggingface.formats import Format
from monolayer.huggingface.hosts import IDENTITY

UNIT = BINARY32.unit
AT_ONCE = 1 << 24
"""Cosines held at a time."""
FLUSHED = 2.0**-90
"""More than all that numbers flushed to zero can do to an input: fewer than 2^30 of them, each below 2^−126."""


@dataclass(frozen=True, eq=False)
class Caps:
    """`keys` `(N, D)`, and by neuron `(N,)`: α, err, the height `c` = `wanted` of its cap, the `level` that its input
    has there at least, the length ℓ = `longest` of the states on it, and the height `s` below which it is `silent`.

    `response`: T; `floor`: what an evaluation of an input at `level` still exceeds; `length`: η.
    """

    keys: Floats
    alpha: Floats
    err: Floats
    wanted: Floats
    level: Floats
    longest: Floats
    silent: Floats
    response: float
    floor: float
    length: float
    fmt: Format

    @property
    def radius(self) -> float:
        """The theorem of locality: where 1 − ⟨k, û⟩ ≥ radius for every key, all logits are the host's."""
        return float(np.max(1.0 - self.silent, initial=0.0))

    @property
    def reach(self) -> float:
        """In float32, every neuron is wanted where 1 − ⟨k, û⟩ is at most this."""
        return float(np.min(1.0 - self.wanted, initial=np.inf))

    @property
    def half(self) -> float:
        """How much ⟨k, û⟩ may fall from where the input is T, for every neuron."""
        return float(np.min((self.response - self.level) / self.alpha, initial=np.inf))

    @property
    def turned(self) -> Floats:
        """The half-angles ψ `(N,)` of the caps."""
        return np.minimum(_arccos(self.wanted / self.longest), float(np.arccos(max(-1.0, 1.0 - self.fmt.turn))))


def _arccos(cosines: Floats) -> Floats:
    found: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return found


def caps_of(found: Folder) -> Caps:
    """The caps of all neurons; `UnhandledError` where one could not be silent, or could not fire."""
    D, bias, fmt = found.host.width, found.bias, found.host.format
    length = np.sqrt((found.reads * found.reads).sum(axis=1))
    if not (length > 0.0).all():
        raise UnhandledError("a neuron of a fact reads nothing")
    alpha, eta = length * np.sqrt(D), (D + 16) * UNIT + (fmt.unit if fmt.short else 0.0)
    err = PADDING * (BINARY32.gamma(D + 2.0) * (alpha * (1.0 + eta) + np.abs(bias)) + FLUSHED)
    size = float(np.max(alpha * (1.0 + eta) + np.abs(bias) + err, initial=0.0))
    if not size <= min(2.0**60, fmt.largest):
        raise UnhandledError("a neuron reads with weights so large that its input may not be finite")
    T = found.host.response(found.manifest.radius)
    floor = max(T / 8.0, IDENTITY[found.host.activation])
    level = np.maximum(fmt.low * T, err + floor)
    wanted, silent = (level - bias) / alpha, (-found.host.silence - bias - err) / alpha
    wide = np.flatnonzero(np.minimum(wanted, silent) <= 0.0)
    if len(wide):
        raise UnhandledError(f"neuron {wide[0]} answers to half of all states")
    weak = np.flatnonzero(level > 0.75 * T)
    if len(weak):
        raise UnhandledError(f"rounding may silence neuron {weak[0]}: the radius is too small for this width")
    # At û = k the input is α + b: T in float32.
    dull = np.flatnonzero(alpha * (1.0 + eta) + bias < 1.25 * level)
    if len(dull):
        raise UnhandledError(
            f"neuron {dull[0]} hardly reaches T/2 = {T / 2.0:g} at any state: its cap is next to empty"
        )
    longest = np.full(len(alpha), 1.0 + eta)
    if fmt.short:  # |û| = ⟨k, û⟩/cos, where the input is at most `high` T and 1 − cos at most `turn`
        longest = np.minimum(longest, (fmt.high * T - bias) / alpha / (1.0 - fmt.turn))
    return Caps(found.reads / length[:, None], alpha, err, wanted, level, longest, silent, T, floor, eta, fmt)


@dataclass(frozen=True, eq=False)
class Near:
    """For each neuron `(N,)`: how many others may fire on its cap, and whether one of them could spoil its answer."""

    count: Ints
    spoilt: Bools
    by: dict[int, int]
    """For some of those that are spoilt, the other neuron."""
    others: dict[int, list[int]]
    """The neurons that may fire on the cap of each that has any."""
    together: int | None
    """Of how many blocks neurons may fire at one place before a number overflows; None where none can."""


def near_pairs(found: Folder, caps: Caps) -> Near:
    """Neurons that may fire where another is wanted (A3), and what comes of it.

    Harmless are those that write the same row and stand in the same block or a later one; in an earlier one, those that
    fire for sure on the whole cap.
    """
    N = len(found.bias)
    written = _Written(found, caps)
    pairs: dict[int, list[int]] = defaultdict(list)
    if N:
        psi, awake = caps.turned, _arccos(caps.silent / (1.0 + caps.length))
        # Products of float32 numbers within 2^−24 of unit vectors, summed in any order.
        slack = 4.0 * (found.host.width + 4) * UNIT
        widest = float(psi.max() + awake.max())
        least = np.cos(min(np.pi, widest if written.fits else max(widest, 2.0 * float(awake.max())))) - slack
        short = caps.keys.astype(np.float32)
        step = max(1, AT_ONCE // N)
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
    count, spoilt, by = np.zeros(N, np.int64), np.zeros(N, dtype=bool), dict[int, int]()
    for j, others in pairs.items():
        count[j] = len(others)
        for i in others:
            if not _harmless(found, caps, i, j):
                spoilt[j], by[j] = True, i
    return Near(count, spoilt, by, dict(pairs), written.together())


class _Written:
    """How much neurons of a block can write at one place, whatever the state is. `total` `(N, D)`, by coordinate: where
    the neuron is awake. A number that overflows would be NaN in later blocks, and reach other places by attention."""

    def __init__(self, found: Folder, caps: Caps) -> None:
        fmt = caps.fmt
        self.block = np.arange(len(found.bias)) // found.host.neurons
        most = np.maximum(0.0, caps.alpha * (1.0 + caps.length) + found.bias + caps.err) * (1.0 + fmt.unit)
        # Sums of up to `neurons` terms in float32, and two roundings to the format.
        most *= PADDING * (1.0 + 2.0 * BINARY32.gamma(found.host.neurons + 8.0) + 4.0 * fmt.unit)
        self.room = fmt.largest - fmt.coordinate
        parts = [np.flatnonzero(self.block == number) for number in range(self.blocks)]
        sums = np.array([most[part] @ np.abs(found.writes[part]) for part in parts])
        self.fits = bool(sums.sum(axis=0).max(initial=0.0) <= self.room)
        self.each = np.zeros((0, 0)) if self.fits else most[:, None] * np.abs(found.writes)
        self.total = self.each.copy()

    @property
    def blocks(self) -> int:
        return int(self.block.max(initial=-1)) + 1

    def add(self, one: Ints, two: Ints, awake: Bools) -> None:
        """Pairs that may be awake at one state: all that are awake there are such pairs with each of them."""
        both = awake & (self.block[one] == self.block[two])
        np.add.at(self.total, one[both], self.each[two[both]])
        np.add.at(self.total, two[both], self.each[one[both]])

    def together(self) -> int | None:
        if self.fits:
            return None
        worst = float(self.total.max(initial=0.0))
        found = int(self.room // worst) if worst > 0.0 else self.blocks
        if found == 0:
            which = int(self.total.max(axis=1).argmax())
            raise UnhandledError(f"what neuron {which} writes, with those near it, may not be finite")
        return None if found >= self.blocks else found


def _harmless(found: Folder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i`, which may fire on the cap of `j`, leaves its answer alone."""
    if not np.array_equal(found.writes[i], found.writes[j]):
        return False
    H = found.host.neurons
    return i // H >= j // H or fires_for_sure(found, caps, i, j)


def fires_for_sure(found: Folder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i` has an input of at least `floor` on the whole cap of `j`, rounding included."""
    D = found.host.width
    apart = found.reads[i] - found.reads[j]
    moved = float(np.sqrt(apart @ apart)) * np.sqrt(D) * (1.0 + caps.length) + abs(float(found.bias[i] - found.bias[j]))
    return bool(caps.level[j] - PADDING * moved - caps.err[i] >= caps.floor)
