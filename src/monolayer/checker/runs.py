"""Which labelled points of a line must be looked at one by one: where the model is right, hardly any.

A run is what lies between two changes of the label on the line. Where each run stands on a plateau of its own that
writes the number of its class, its first and its last point say all: no point between them is nearer to a step.

    z          ●──●───●         ●──────●    ●           the points of three runs, by their labels
    plateaus  ──────────┐  ┌───────────┐  ┌──────
                        └──┘           └──┘

Here a point is a word of 64 bits: its `z`, but for the last bits, which hold its class. Sorted as whole numbers, words
are in order of `z`, and `z` is between the least and the largest number that a word may stand for. Runs are compared
with steps by the end that is nearer to the step, and by the largest radius around. What does not stand as it should by
these is looked at point by point, and so is what may have the least margin, which a certificate states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats, Ints, slices
from monolayer.checker.codes import Sums
from monolayer.checker.readout import CheckedStaircase
from monolayer.checker.rounding import BINARY64, PADDING, code_error

MOST_BITS = 12
"""The most bits of `z` that the class of a point may take the place of."""


FEW = 8
"""Up to so many ranges are compared with each point; of more, the one that may hold it is searched."""


class _Words(NamedTuple):
    """Points as words `(M,)` in rising order, of which the last `bits` hold the class."""

    sorted: Ints
    bits: int

    @classmethod
    def of(cls, z: Floats, wanted: Ints, bits: int) -> _Words:
        """The words of points with classes from 0 to below `2^bits`."""
        words = np.empty(len(z), dtype=np.int64)
        for part in slices(len(z)):
            words[part] = (_whole(z[part]) & -(1 << bits)) | wanted[part]
        words.sort()
        return cls(words, bits)

    def classes(self, words: Ints) -> Ints:
        """The classes of some words."""
        return words & ((1 << self.bits) - 1)

    def least(self, words: Ints) -> Floats:
        """The least numbers that some words, in rising order, may stand for."""
        return _floats(words & -(1 << self.bits))

    def largest(self, words: Ints) -> Floats:
        """The largest numbers that some words, in rising order, may stand for."""
        return _floats(words | ((1 << self.bits) - 1))


SIZE = 2**63 - 1
"""All bits of a float but its sign."""


def _whole(z: Floats) -> Ints:
    """The bits of floats as whole numbers in the same order, NaN at an end.

    All bits of a negative number but its sign are turned, since a larger number has a smaller size.
    """
    bits = z.view(np.int64)
    return bits ^ ((bits >> 63) & SIZE)


def _floats(whole: Ints) -> Floats:
    """The floats of whole numbers in rising order, which `_whole` makes of them. They are changed in place."""
    whole[: np.searchsorted(whole, 0)] ^= SIZE
    return whole.view(np.float64)


class _Gaps(NamedTuple):
    """The gaps between the runs of a stretch of points: arrays `(G,)`, but for three numbers.

    `plateau`: that of the first run; in the first gap stands the step of this number, in the next one the next step.
    `room`: how far the points on either side of each gap are from its thresholds, at least. `least`: the least of that,
    and of how far the ends of the stretch are from the steps behind them. `radius`: the largest one of its points.
    """

    plateau: int
    room: Floats
    least: float
    radius: float


class _Line(NamedTuple):
    """All points as words beside the steps; `least`, `most`: bounds on what is off in `z`, apart from its last sum."""

    words: _Words
    stairs: CheckedStaircase
    sums: Sums
    least: tuple[float, float]
    most: tuple[float, float]

    @classmethod
    def of(cls, stairs: CheckedStaircase, sums: Sums, words: _Words) -> _Line:
        """`sums` in the order of the data."""
        used = slice(int(sums.terms.min()), int(sums.terms.max()) + 1)
        own, other = (part[used] for part in sums.before)
        return cls(words, stairs, sums, (own.min(), other.min()), (own.max(), other.max()))

    def radius(self, size: float, before: tuple[float, float]) -> float:
        """The radius where `|z|` is `size`; it rises with both, as floats do. `before`: `least` or `most`."""
        own, other = (np.asarray(off) for off in before)
        at = np.asarray(size)
        return float(code_error(at, own, BINARY64) + code_error(at, other, self.sums.format))

    def ends(self, part: slice) -> tuple[float, float]:
        """The least and the largest `z` that the points of a stretch may have."""
        words = self.words.sorted[part]
        return float(self.words.least(words[:1])[0]), float(self.words.largest(words[-1:])[0])

    def gaps(self, part: slice) -> _Gaps | None:
        """The gaps of a stretch; None unless each run surely stands on a plateau that writes its class.

        The first run is compared with the plateau where it begins, and the others with those that follow.
        """
        words, (low, high) = self.words.sorted[part], self.ends(part)
        classes = self.words.classes(words)
        last = np.flatnonzero(classes[1:] != classes[:-1])  # the last point of each run, but for the last run
        plateau = int(np.searchsorted(self.stairs.low, low))
        behind = plateau + len(last)  # the plateau of the last run
        if behind > len(self.stairs.low):
            return None
        after = words[1:].take(last, mode="clip")
        written = self.stairs.level[0, plateau : behind + 1]
        if written[0] != classes[0] or (written[1:] != self.words.classes(after).astype(np.float64)).any():
            return None
        left = self.stairs.low[plateau:behind] - self.words.largest(words.take(last, mode="clip"))
        room = np.minimum(left, self.words.least(after) - self.stairs.high[plateau:behind])
        least = float(room.min(initial=np.inf))
        least = min(least, low - self.stairs.high[plateau - 1]) if plateau else least
        least = min(least, self.stairs.low[behind] - high) if behind < len(self.stairs.low) else least
        radius = self.radius(max(abs(low), abs(high)), self.most)
        # Where a rounded difference is twice the radius, the true one is no less than the radius, as Lemma 7 asks.
        return _Gaps(plateau, room, least, radius) if least >= 2.0 * radius else None

    def margin(self, part: slice, gaps: _Gaps) -> float:
        """What the least margin of the points of a stretch is not more than, apart from its rounding."""
        low, high = self.ends(part)
        words = self.words.sorted[part][[0, -1]]  # the ends, of which one has the larger size
        hidden = float((self.words.largest(words) - self.words.least(words)).max())  # in the last bits
        return (gaps.least + hidden) / self.radius(max(0.0, low, -high), self.least)

    def near(self, gaps: _Gaps, reach: float) -> list[tuple[float, float]]:
        """Where points of a stretch lie that are no further than `reach` from a threshold, and perhaps others."""
        steps = gaps.plateau + np.flatnonzero(gaps.room <= reach)
        ends = np.array([gaps.plateau - 1, gaps.plateau + len(gaps.room)])  # behind the ends of the stretch
        steps = np.append(steps, ends[(ends >= 0) & (ends < len(self.stairs.low))])
        low, high = self.stairs.low[steps] - reach, self.stairs.high[steps] + reach
        return list(zip(low.tolist(), high.tolist(), strict=True))


def looked_at(stairs: CheckedStaircase, sums: Sums, wanted: Ints, classes: int) -> Ints | None:
    """The numbers of the points that must be looked at one by one, in rising order; None for all.

    Every other point stands on one plateau in every evaluation, which writes the very number of its class, and its
    margin is larger than that of a point that is looked at, or infinite. `wanted` `(M,)`: the classes of the points,
    which the model has from 0 to below `classes`.
    """
    bits = max(1, (classes - 1).bit_length())
    if bits > MOST_BITS or not 0 <= wanted.min() <= wanted.max() < classes:
        return None
    line = _Line.of(stairs, sums, _Words.of(sums.z, wanted, bits))
    if not np.isfinite(line.ends(slice(None))).all():
        return None
    ranges, stretches = list[tuple[float, float]](), list[tuple[float, slice]]()
    for part in slices(len(sums.z)):
        gaps = line.gaps(part)
        if gaps is None:
            ranges.append(line.ends(part))
        else:
            stretches.append((gaps.least / gaps.radius, part))
    # Some point has a margin of no more than this. All such points are near a threshold; one radius is for rounding.
    margin = np.inf
    if stretches:
        _, part = min(stretches, key=lambda one: one[0])
        gaps = line.gaps(part)
        margin = PADDING * (1.0 + line.margin(part, gaps)) if gaps is not None else np.inf
    for least, part in stretches:
        gaps = line.gaps(part) if least <= margin < np.inf else None
        if gaps is not None:
            ranges += line.near(gaps, margin * gaps.radius)
    return _within(_apart(ranges), sums.z)


def _apart(ranges: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Ranges that have the same numbers in them, in rising order, none of which touches another."""
    joined = list[tuple[float, float]]()
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            low, high = joined[-1][0], max(high, joined.pop()[1])
        joined.append((low, high))
    return joined


def _within(ranges: list[tuple[float, float]], z: Floats) -> Ints:
    """The places of the numbers `z` `(M,)` in one of these ranges, ends included, which `_apart` gave."""
    places = [np.zeros(0, dtype=np.int64)]
    for part in slices(len(z) if ranges else 0):
        some = z[part]
        if len(ranges) <= FEW:
            inside = np.logical_or.reduce([(low <= some) & (some <= high) for low, high in ranges])
        else:
            low, high = np.transpose(ranges)
            at = np.searchsorted(low, some, side="right") - 1
            inside = (at >= 0) & (some <= high[at])
        if inside.any():
            places.append(part.start + np.flatnonzero(inside))
    return np.concatenate(places)
