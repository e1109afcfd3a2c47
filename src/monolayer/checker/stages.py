"""From labelled points to label coordinates, stage by stage. There are as many stages as the value rank, mostly one.

    stage 1   z₁ = t + y₁    on one plateau in every evaluation?   adds a label and writes a number, both exact
    stage j   z_j = number + y_j    likewise                        adds to the label, writes the next number

Lemma 14 (docs/proofs.md): where every stage is sure of its plateau, all evaluations have the same bits behind each
of them, so the label is one float. Where one is not, nothing is claimed of the point.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """All labelled points after all stages, in the order of the first `z`, an array `(M,)` per field.

    `order`: number of each point in the data; `answering`: the token or sequence that answers for it. `first`: the
    first stage. `sure`: whether the point lies on one plateau in every evaluation, in every stage. `number`: whether
    `z` is a number at all. `margin`: the least of the stages. `value` `(m, M)`: the label coordinates. `beside`:
    whether a token of the sequence has no finite vector; an evaluation that masks it may still multiply it by 0.
    """

    order: Ints
    answering: Ints
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
            self.first,
            self.sure[places],
            self.number[places],
            self.margin[places],
            self.value[:, places],
            self.beside[places],
        )


def evaluate(stored: Stored, points: Labelled, stream: Stream, stairs: list[CheckedStaircase]) -> Evaluated:
    """Take all labelled points through all stages; `stairs` has one staircase per stage."""
    heads, m = read_attention(stored), stored.config["labels"]
    reads = Reads(heads[0], stream.key, stream.key, stream.code)
    sums = read_sums(stored, points.data, reads, points.places)
    order = order_of(sums.z)  # NaN comes last; sorted queries make the binary search run through memory once
    answering = order if points.places is None else points.places[order]
    first = current = _stage(stairs[0], sums.at(order))
    value, sure, number, margin = current.value[:m], current.sure, np.isfinite(current.z), current.margin
    for stage in range(2, stored.stages + 1):
        averaged = read_coordinate(stored, points.data, points.rows, stored.value(stage))
        reads = Reads(heads[stage - 1], stream.key, averaged, current.value[-1])
        current = _stage(stairs[stage - 1], read_sums(stored, points.data, reads, answering))
        value = _added(stored, value, current.value[:m])
        margin = np.where(sure, np.minimum(margin, current.margin), margin)
        sure, number = sure & current.sure, number & np.isfinite(current.z)
    return Evaluated(
        order, answering, first, sure, number, margin, value, _beside_unknown_tokens(points, stream, answering)
    )


def _beside_unknown_tokens(points: Labelled, stream: Stream, answering: Ints) -> Bools:
    """Whether a token of the sequence of each point has no finite vector, `(M,)`."""
    blank = np.flatnonzero(np.isnan(stream.key.flat))
    if len(blank) == 0:
        return np.zeros(len(answering), dtype=bool)
    sequences = np.zeros(len(points.data), dtype=bool)
    sequences[points.data.sequence[blank]] = True
    return sequences[points.labelling.rows(points.data, answering)]


def _stage(stairs: CheckedStaircase, sums: Sums) -> StagePoints:
    """One stage, for points in order, a slice of them at a time."""
    M = len(sums.z)
    radius, margin, plateau = np.empty(M), np.empty(M), np.empty(M, dtype=np.int64)
    sure, value = np.empty(M, dtype=bool), np.empty((len(stairs.level), M))
    for part in slices(M):
        z, own, other = sums.at(part).codes()
        off = own + other
        passed, sure[part] = stairs.passed(z - off, z + off)
        margin[part] = np.where(np.isfinite(z), stairs.room(z, passed) / off, np.inf)
        radius[part], plateau[part], value[:, part] = off, passed, stairs.level.take(passed, axis=1)
    return StagePoints(stairs, sums.z, radius, plateau, sure, margin, value)


def _added(stored: Stored, value: Floats, more: Floats) -> Floats:
    """Labels `more` of a stage added to those of the stages before, `(m, M)`: one rounded sum in the stored format."""
    dtype = stored["bos"].dtype
    total: Floats = (value.astype(dtype) + more.astype(dtype)).astype(np.float64)
    if ((total != 0.0) & (np.abs(total) < stored.format.tiny)).any():
        raise UnhandledError("labels of two stages add up to a subnormal number: an evaluation may flush it to 0")
    return total
