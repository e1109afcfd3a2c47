"""From labelled points to label coordinates, stage by stage. There are as many stages as the value rank, mostly one.

    stage 1   z₁ = t + y₁    on one plateau in every evaluation?   adds a label and writes a number, both exact
    stage j   z_j = number + y_j    likewise                        adds to the label, writes the next number

Lemma 14 (docs/proofs.md): where every stage is sure of its plateau, all evaluations have the same bits behind each
of them, so the label is one float. Where one is not, nothing is claimed of the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints, slices
from monolayer.checker.codes import Reads, Stream, Sums, read_attention, read_coordinate, read_sums
from monolayer.checker.labelled import Labelled
from monolayer.checker.network import Stored
from monolayer.checker.readout import CheckedStaircase
from monolayer.checker.rounding import UnhandledError
from monolayer.kernels import order_of


class StagePoints(NamedTuple):
    """One stage at `M` points, in an order that is the same for all stages.

    `z` `(M,)`, off by at most `radius`. `plateau`: how many steps lie left of each point; `sure`: whether that is so in
    every evaluation. `margin`: distance from the nearest step over `radius`. `value` `(m, M)`, or `(m + 1, M)` if
    stages follow: what the stage writes.
    """

    stairs: CheckedStaircase
    z: Floats
    radius: Floats
    plateau: Ints
    sure: Bools
    margin: Floats
    value: Floats


class Evaluated(NamedTuple):
    """Labelled points after all stages, in the order of the first `z`, an array `(M,)` per field.

    `order`: number of each point in the data; `answering`: the token or sequence that answers for it; `wanted`: its
    label. `first`: the first stage. `sure`: whether the point lies on one plateau in every evaluation, in every stage.
    `number`: whether `z` is a number at all. `margin`: the least of the stages. `value` `(m, M)`: the label
    coordinates. `beside`: whether a token of the sequence has no finite vector; an evaluation that masks it may still
    multiply it by 0.
    """

    order: Ints
    answering: Ints
    wanted: Any
    first: StagePoints
    sure: Bools
    number: Bools
    margin: Floats
    value: Floats
    beside: Bools

    def at(self, places: Ints | slice) -> Evaluated:
        """Some of the points; `first` stays that of all."""
        return Evaluated(
            self.order[places],
            self.answering[places],
            self.wanted[places],
            self.first,
            self.sure[places],
            self.number[places],
            self.margin[places],
            self.value[:, places],
            self.beside[places],
        )

    def stretches(self) -> Iterator[Evaluated]:
        """All points, some of them at a time."""
        return (self.at(part) for part in slices(len(self.order)))


class Asked(NamedTuple):
    """The labelled points before any stage.

    `sums` `(M,)`: those of the first stage. `unknown` `(N,)`: whether a token of each sequence has no finite vector;
    None if all have one.
    """

    points: Labelled
    sums: Sums
    unknown: Bools | None

    @classmethod
    def of(cls, stored: Stored, points: Labelled, stream: Stream) -> Asked:
        """The points, from what the tokens have in the stream."""
        reads = Reads(read_attention(stored)[0], stream.key, stream.key, stream.code)
        sums = read_sums(stored, points.data, reads, points.places)
        return cls(points, sums, _beside_unknown_tokens(points, stream))

    def answering(self, order: Ints) -> Ints:
        """The tokens or sequences that answer for the points number `order`."""
        return order if self.points.places is None else self.points.places.take(order)

    def beside(self, answering: Ints) -> Bools:
        """Whether a token of the sequence of each point has no finite vector."""
        if self.unknown is None:
            return np.zeros(len(answering), dtype=bool)
        return self.unknown[self.points.labelling.rows(self.points.data, answering)]

    def stretches(self, stairs: CheckedStaircase, numbers: Ints | None = None) -> Iterator[Evaluated]:
        """What `evaluate` finds where there is one stage, for one stretch of the points after the other.

        `numbers`: of the points that are asked for; None for all. What is known of a stretch stays in the cache, and
        `first` is that of the stretch.
        """
        order = order_of(self.sums.z) if numbers is None else numbers[order_of(self.sums.z.take(numbers))]
        for part in slices(len(order)):
            some = order[part]
            one, answering, wanted = _stage(stairs, self.sums.at(some)), self.answering(some), self.wanted(some)
            number, beside = np.isfinite(one.z), self.beside(answering)
            yield Evaluated(some, answering, wanted, one, one.sure, number, one.margin, one.value, beside)

    def wanted(self, order: Ints) -> Any:
        """The labels of the points number `order`."""
        return self.points.wanted.take(order, axis=0)


def evaluate(stored: Stored, points: Labelled, stream: Stream, stairs: list[CheckedStaircase]) -> Evaluated:
    """Take all labelled points through all stages; `stairs` has one staircase per stage."""
    heads, m = read_attention(stored), stored.config["labels"]
    asked = Asked.of(stored, points, stream)
    order = order_of(asked.sums.z)  # NaN comes last; sorted queries make the binary search run through memory once
    answering, wanted, beside = asked.answering(order), asked.wanted(order), asked.beside(asked.answering(order))
    first = current = _whole_stage(stairs[0], asked.sums.at(order))
    value, sure, number, margin = current.value[:m], current.sure, np.isfinite(current.z), current.margin
    for stage in range(2, stored.stages + 1):
        averaged = read_coordinate(stored, points.data, points.rows, stored.value(stage))
        reads = Reads(heads[stage - 1], stream.key, averaged, current.value[-1])
        current = _whole_stage(stairs[stage - 1], read_sums(stored, points.data, reads, answering))
        value = _added(stored, value, current.value[:m])
        margin = np.where(sure, np.minimum(margin, current.margin), margin)
        sure, number = sure & current.sure, number & np.isfinite(current.z)
    return Evaluated(order, answering, wanted, first, sure, number, margin, value, beside)


def _beside_unknown_tokens(points: Labelled, stream: Stream) -> Bools | None:
    """Whether a token of each sequence has no finite vector, `(N,)`; None if all have one."""
    if not np.isnan(stream.key.column.numbers).any():
        return None
    sequences = np.zeros(len(points.data), dtype=bool)
    sequences[points.data.sequence[np.isnan(stream.key.flat)]] = True
    return sequences


def _stage(stairs: CheckedStaircase, sums: Sums) -> StagePoints:
    """One stage, for some points."""
    z, own, other = sums.codes()
    radius = own + other
    passed, sure = stairs.passed(z - radius, z + radius)
    margin = np.where(np.isfinite(z), stairs.room(z, passed) / radius, np.inf)
    return StagePoints(stairs, z, radius, passed, sure, margin, stairs.level.take(passed, axis=1))


def _whole_stage(stairs: CheckedStaircase, sums: Sums) -> StagePoints:
    """One stage, for points in order, a slice of them at a time."""
    M = len(sums.z)
    radius, margin, plateau = np.empty(M), np.empty(M), np.empty(M, dtype=np.int64)
    sure, value = np.empty(M, dtype=bool), np.empty((len(stairs.level), M))
    for part in slices(M):
        some = _stage(stairs, sums.at(part))
        radius[part], plateau[part], sure[part] = some.radius, some.plateau, some.sure
        margin[part], value[:, part] = some.margin, some.value
    return StagePoints(stairs, sums.z, radius, plateau, sure, margin, value)


def _added(stored: Stored, value: Floats, more: Floats) -> Floats:
    """Labels `more` of a stage added to those of the stages before, `(m, M)`: one rounded sum in the stored format."""
    dtype = stored["bos"].dtype
    total: Floats = (value.astype(dtype) + more.astype(dtype)).astype(np.float64)
    if ((total != 0.0) & (np.abs(total) < stored.format.tiny)).any():
        raise UnhandledError("labels of two stages add up to a subnormal number: an evaluation may flush it to 0")
    return total
