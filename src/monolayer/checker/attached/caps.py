"""Bound where neurons fire and where they are silent, over all states that the host could have (Lemmas A1 to A3)."""

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
from monolayer.huggingface.outweighing import kept_of, lengths_to_prove

FLOAT32_UNIT = BINARY32.unit
FARTHEST = 0.125
"""The largest r that is proved. The largest ρ of `attach` is half of it, and T ≥ 1.25 S, so its neurons are silent from
2ρ on."""
COSINES_AT_ONCE = 1 << 24
"""How many cosines are in memory at a time."""
DIP = 0.3
"""Below 0, gelu and silu return at least −0.17 and −0.28, so never less than −`DIP`."""
FINITE = 2.0**60
"""The bound on the length of a state and on what neurons add to it, so that sums of squares stay below 2^123."""
FLUSHING_ERROR = 2.0**-90
"""More than numbers flushed to zero can change an input by: there are fewer than 2^30, each below 2^−126."""


class Around(NamedTuple):
    """The states around each key `(N,)`: the largest angle to the key, and the largest length."""

    half: Floats
    longest: Floats


@dataclass(frozen=True, eq=False)
class Caps:
    """The cap of each neuron: the states û near its key at which its answer is claimed.

    `keys` has the shape `(N, D)`, and these have one number per neuron, `(N,)`:

    - `alpha`, `bias`, `err`: α, b and err of Lemma A1.
    - `wanted`: c; the cap is where ⟨k, û⟩ ≥ c. `level`: the input where ⟨k, û⟩ = c, the least on the cap.
    - `longest`: ℓ, the largest |û| on the cap.
    - `silent`: s; the neuron is silent where ⟨k, û⟩ ≤ s.
    - `most`: the most that the neuron returns at any state.

    `response`: T. `floor`: an evaluation of an input at `level` is at least this. `length`: η. `anywhere`: λ, the
    largest |û| that is assumed at any state, including those that neurons have written to. `state`: L; answers are
    claimed at states h of the host that are no longer than this. Where neurons are silent does not depend on it.
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
    state: float
    fmt: HostFormat

    @property
    def radius(self) -> float:
        """The radius of the locality theorem: where 1 − ⟨k, û⟩ ≥ radius for every key, all logits are the host's."""
        return float(np.max(1.0 - self.silent, initial=0.0))

    @property
    def narrow(self) -> Bools:
        """Whether each neuron `(N,)` has a narrow cap because others are near."""
        return self.level > _wide_level(self.fmt, self.response, self.err, self.floor)

    def reach(self, which: Bools) -> float:
        """In float32, the neurons `which` `(N,)` all answer where 1 − ⟨k, û⟩ is at most this."""
        return float(np.min(1.0 - self.wanted[which], initial=np.inf))

    @property
    def half(self) -> float:
        """How much ⟨k, û⟩ may fall from the value at which the input is T, for every neuron."""
        return float(np.min((self.response - self.level) / self.alpha, initial=np.inf))

    @property
    def radii(self) -> Floats:
        """ρ of each neuron `(N,)`, which its steepness says: α = T/ρ."""
        radius: Floats = self.response / self.alpha
        return radius

    @property
    def turned(self) -> Floats:
        """The half-angles ψ `(N,)` of the caps."""
        angle: Floats = np.minimum(_arccos(self.wanted / self.longest), _arccos(1.0 - self.fmt.turned(self.radii)))
        return angle

    @property
    def inner(self) -> Around:
        """The part of each cap that no neuron of another token may reach, in short formats; else the cap itself."""
        if not self.fmt.short:
            return Around(self.turned, self.longest)
        longest = np.minimum(
            self.longest, (self.fmt.near * self.response - self.bias) / self.alpha / (1.0 - self.fmt.core)
        )
        half = np.minimum(_arccos(self.wanted / longest), float(np.arccos(1.0 - self.fmt.core)))
        return Around(half, longest)

    def returned_at(self, cosines: Floats, which: Ints) -> Floats:
        """The most that the neurons `which` `(n,)` return where the cosines with their keys are no larger (A2)."""
        return _returned(self.alpha[which] * self.anywhere * cosines + self.bias[which] + self.err[which], self.fmt)

    def narrowed(self, which: Bools) -> Caps:
        """These caps, narrowed for the neurons `which` `(N,)`, except where a narrow cap would be almost empty."""
        level = np.maximum(self.level, self.fmt.narrow * self.response)
        which = which & (self.alpha * (1.0 + self.length) + self.bias >= 1.0625 * level)
        level = np.where(which, level, self.level)
        return replace(self, level=level, wanted=(level - self.bias) / self.alpha)


def _arccos(cosines: Floats) -> Floats:
    angle: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return angle


def _returned(inputs: Floats, fmt: HostFormat) -> Floats:
    """The most that neurons return at such inputs `(n,)` (A2).

    Before its roundings, an activation is at most its input where that is above 0, and above −1 everywhere.
    """
    most: Floats = (1.01 + 4.0 * fmt.unit) * np.maximum(1.0, inputs)
    return most


def _wide_level(fmt: HostFormat, T: float, err: Floats, floor: float) -> Floats:
    """The least input on wide caps, `(N,)`: the level e of Lemma A3."""
    return np.maximum(fmt.low * T, err + floor)


def caps_of(attached: AttachedFolder) -> Caps:
    """The wide caps of all neurons. Raises an `UnhandledError` if a neuron could never be silent, or never fire."""
    D, bias, fmt = attached.host.width, attached.bias, attached.host.format
    length = np.sqrt((attached.reads * attached.reads).sum(axis=1))
    if not (length > 0.0).all():
        raise UnhandledError("a neuron of a fact reads nothing")
    alpha, eta = length * np.sqrt(D), (D + 16) * FLOAT32_UNIT + (fmt.unit if fmt.short else 0.0)
    anywhere = 1.0 + max(eta, fmt.beyond)
    err = PADDING * (BINARY32.gamma(D + 2.0) * (alpha * anywhere + np.abs(bias)) + FLUSHING_ERROR)
    size = float(np.max(alpha * anywhere + np.abs(bias) + err, initial=0.0))
    if not size <= min(FINITE, fmt.largest):
        raise UnhandledError("a neuron reads with weights so large that its input may not be finite")
    T = attached.host.response(attached.manifest.radius)
    floor = max(T / 8.0, IDENTITY[attached.host.activation])
    level = _wide_level(fmt, T, err, floor)
    wanted, silent = (level - bias) / alpha, (-attached.host.silence - bias - err) / alpha
    wide = np.flatnonzero(np.minimum(wanted, silent) <= 0.0)
    if len(wide):
        raise UnhandledError(f"neuron {wide[0]} answers to half of all states")
    weak = np.flatnonzero(level > 0.75 * T)
    if len(weak):
        raise UnhandledError(f"rounding may silence neuron {weak[0]}: the radius is too small for this width")
    # At û = k the input is α + b. That is T in float32. It is less in short formats, where |û| may exceed 1.
    dull = np.flatnonzero(alpha * (1.0 + eta) + bias < 1.25 * level)
    if len(dull):
        raise UnhandledError(
            f"neuron {dull[0]} hardly reaches T/2 = {T / 2.0:g} at any state: its cap is next to empty"
        )
    radius = float(np.max(1.0 - silent, initial=0.0))
    if not radius <= FARTHEST:
        raise UnhandledError(
            f"neuron {int((1.0 - silent).argmax())} may fire up to 1 − ⟨k, û⟩ = {radius:.3g} from its key, and the "
            f"proof covers {FARTHEST:g}: no radius that attach accepts reaches further"
        )
    longest = np.full(len(alpha), 1.0 + eta)
    if fmt.short:  # |û| = ⟨k, û⟩/cos, where the input is at most `high` T and 1 − cos at most `turned`
        longest = np.minimum(longest, (fmt.high * T - bias) / alpha / (1.0 - fmt.turned(T / alpha)))
    most = _returned(alpha * anywhere + bias + err, fmt)
    keys = attached.reads / length[:, None]
    state = next(lengths_to_prove(fmt, attached.manifest.longest))
    return Caps(keys, alpha, bias, err, wanted, level, longest, silent, most, T, floor, eta, anywhere, state, fmt)


def caps_and_neighbours(attached: AttachedFolder) -> tuple[Caps, Near]:
    """The caps of all neurons and their neighbours; a cap is narrow if others would spoil a wide one."""
    caps = caps_of(attached)
    near = near_pairs(attached, caps)
    narrower = caps.narrowed(near.spoilt | ~least_returned(attached, caps, near).heard)
    return (caps, near) if (narrower.level == caps.level).all() else (narrower, near_pairs(attached, narrower))


@dataclass(frozen=True, eq=False)
class Near:
    """The neighbours of each neuron `(N,)`: the other neurons that may fire on its cap.

    `spoilt`: whether one of them could spoil the answer; in short formats, whether it could do so on the inner part of
    the cap. `guarded`: whether one could do so further out. There the answer is claimed where such neurons are silent,
    and the others are counted: `count`: how many there are. `first`: the first block that holds the neuron or one of
    them. `most`: the most that the neuron and these return together.
    """

    count: Ints
    spoilt: Bools
    guarded: Bools
    first: Ints
    most: Floats
    by: dict[int, int]
    """For each spoilt neuron, one neighbour that could spoil its answer."""
    others: dict[int, list[int]]
    """The neighbours of each neuron that has any."""


class LeastReturned(NamedTuple):
    """What the first block that fires on the cap of each neuron `(N,)` returns at `least`, all that write its row
    together (A4); and whether it is `heard`: whether that is a third at least of what they return in size."""

    least: Floats
    heard: Bools


def least_returned(attached: AttachedFolder, caps: Caps, near: Near) -> LeastReturned:
    """The least that the first block which fires on each cap returns (A4); every neighbour takes off at most `DIP`."""
    # The activation returns 0.999 of an input from `floor` on, before its roundings.
    dips = DIP * near.count
    # That block holds the neuron itself, or a neighbour whose input is certainly at least `floor`.
    itself = near.first == np.arange(len(near.first)) // attached.host.neurons
    least = np.where(itself, kept_of(caps.level - caps.err, caps.fmt) - dips, caps.floor / 2.0)
    return LeastReturned(least, np.where(itself, least >= dips, kept_of(caps.floor, caps.fmt) - dips >= least))


def near_pairs(attached: AttachedFolder, caps: Caps) -> Near:
    """Find the neurons that may fire on the cap of another (A3), and whether they could spoil its answer there.

    A neighbour is harmless if it writes the same row and is in the same block or a later one, or in an earlier one and
    certain to fire on the whole cap. Raises an `UnhandledError` if neurons could write infinite numbers (A2).
    """
    N = len(attached.bias)
    written = _Written(attached, caps)
    pairs: dict[int, list[int]] = defaultdict(list)
    inside: dict[int, set[int]] = defaultdict(set)
    if N:
        psi, inner = caps.turned, caps.inner
        around, awake = _arccos(caps.silent / (1.0 + caps.length)), _arccos(caps.silent / caps.anywhere)
        # How far a product of two keys is off: they are rounded to float32, and it is summed in any order.
        slack = 4.0 * (attached.host.width + 4) * FLOAT32_UNIT
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
                written.add(one, two, angle, angle < awake[one] + awake[two])
            for mine, theirs in ((one, two), (two, one)):
                close = angle < psi[mine] + _arccos(caps.silent[theirs] / caps.longest[mine])
                for j, i in zip(mine[close].tolist(), theirs[close].tolist(), strict=True):
                    pairs[j].append(i)
                close &= angle < inner.half[mine] + _arccos(caps.silent[theirs] / inner.longest[mine])
                for j, i in zip(mine[close].tolist(), theirs[close].tolist(), strict=True):
                    inside[j].add(i)
    written.check()
    count, by = np.zeros(N, np.int64), dict[int, int]()
    spoilt, guarded = np.zeros(N, dtype=bool), np.zeros(N, dtype=bool)
    first, most = np.arange(N) // attached.host.neurons, caps.most.copy()
    for j, others in pairs.items():
        spoiling = [i for i in others if not _harmless(attached, caps, i, j)]
        worst = [i for i in spoiling if i in inside[j]]
        spoilt[j], guarded[j] = bool(worst), bool(spoiling)
        if worst:
            by[j] = worst[-1]
        # Where the neurons that could spoil the answer are silent, only the others matter.
        beside = sorted(set(others) - set(spoiling)) if caps.fmt.short else others
        if beside:
            count[j], first[j] = len(beside), min(first[j], min(beside) // attached.host.neurons)
            most[j] += caps.most[beside].sum()
    return Near(count, spoilt, guarded & ~spoilt, first, most, by, dict(pairs))


class _Written:
    """How much neurons can add to a coordinate of any state (A2).

    Attention of later blocks multiplies the states of all places by 0, and 0 · ∞ is not 0. So every block but the last,
    which no attention follows, must leave finite numbers, whichever of its neurons fire.
    """

    def __init__(self, attached: AttachedFolder, caps: Caps) -> None:
        fmt = caps.fmt
        self.caps = caps
        self.block = np.arange(len(attached.bias)) // attached.host.neurons
        self.blocks = range(int(self.block.max(initial=0)))
        # The factor covers sums of up to `neurons` terms in float32 and two roundings to the format.
        factor = PADDING * (1.0 + 2.0 * BINARY32.gamma(attached.host.neurons + 8.0) + 4.0 * fmt.unit)
        most = caps.most * factor
        self.room = min(fmt.largest - fmt.coordinate, FINITE / np.sqrt(attached.host.width))
        parts = [np.flatnonzero(self.block == number) for number in self.blocks]
        self.sums = sum((most[part] @ np.abs(attached.writes[part]) for part in parts), np.zeros(attached.host.width))
        self.fits = bool(self.sums.max() <= self.room)
        # What each neuron adds per unit that it returns.
        self.each = np.zeros((0, 0)) if self.fits else factor * np.abs(attached.writes)
        self.total = self.each.copy() if self.fits else caps.most[:, None] * self.each

    def add(self, one: Ints, two: Ints, angle: Floats, awake: Bools) -> None:
        """Add pairs of neurons, whose keys have an angle of at least `angle`, that may be awake at the same state.

        Any two of the neurons of a block that are awake at a state form such a pair. One of them has the key that is
        nearest to the state, and the state is at least half the angle of their keys away from the key of any other. So
        the largest `total` in a block bounds what it writes.
        """
        both = awake & (self.block[one] == self.block[two])
        half = np.cos(angle[both] / 2.0)
        for mine, other in ((one[both], two[both]), (two[both], one[both])):
            np.add.at(self.total, mine, self.caps.returned_at(half, other)[:, None] * self.each[other])

    def check(self) -> None:
        """Raise an `UnhandledError` if the blocks in front of the last one may leave a number that is not finite."""
        if self.fits:
            return
        sums = sum((self.total[self.block == number].max(axis=0) for number in self.blocks), np.zeros(len(self.sums)))
        if not sums.max() <= self.room:
            raise UnhandledError(
                f"neurons of {len(self.blocks) + 1} blocks may add up to {sums.max():.3g} to a coordinate of a state "
                f"in front of the last block, and the proof covers {self.room:.3g}: a state that is not finite would "
                "change other places, through the attention of later blocks"
            )


def _harmless(attached: AttachedFolder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i`, which may fire on the cap of neuron `j`, cannot change the answer of `j`."""
    if not np.array_equal(attached.writes[i], attached.writes[j]):
        return False
    H = attached.host.neurons
    return i // H >= j // H or fires_for_sure(attached, caps, i, j)


def fires_for_sure(attached: AttachedFolder, caps: Caps, i: int, j: int) -> bool:
    """Whether neuron `i` has an input of at least `floor` on the whole cap of `j`, rounding included."""
    D = attached.host.width
    apart = attached.reads[i] - attached.reads[j]
    moved = float(np.sqrt(apart @ apart)) * np.sqrt(D) * (1.0 + caps.length) + abs(
        float(attached.bias[i] - attached.bias[j])
    )
    return bool(caps.level[j] - PADDING * moved - caps.err[i] >= caps.floor)
