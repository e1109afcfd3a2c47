"""From labelled points to label coordinates, stage by stage: most models have one, a cascade has as many as its rank.

    stage 1   z₁ = t + y₁    on one plateau in every evaluation?   adds a label and writes a number, both exact
    stage j   z_j = number + y_j    likewise                        adds to the label, writes the next number

Lemma 14 (docs/proofs.md): where every stage is sure of its plateau, all evaluations have the same bits behind each
of them, so the label is one float. Where one is not, nothing is claimed of the point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.codes import Codes, Reads, Stream, read_attention, read_codes, read_coordinate
from monolayer.checker.labelled import Labelled
from monolayer.checker.readout import Staircase
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.stored import Stored


class Stage(NamedTuple):
    """A stage and the points on it `(M,)`, in one order for all stages.

    `plateau`: steps left of the point; `sure`: the same in every evaluation; `margin`: room over `radius`; `value`,
    `doubt` `(m, M)` or `(m + 1, M)`: what the stage writes, and how far another evaluation may be from it. `read`
    `(M,)`: the number that the stage before wrote, None for the first; `reach`: how far from it a point may lie.
    """

    stairs: Staircase
    z: Floats
    radius: Floats
    plateau: Ints
    sure: Bools
    margin: Floats
    value: Floats
    doubt: Floats
    read: Floats | None
    reach: float


class Evaluated(NamedTuple):
    """Labelled points in `order` `(M,)` of the first `z`, and the places `answering` for them.

    `sure`: one plateau in every evaluation and stage; `number`: there is a number at all; `margin`: the least of the
    stages; `value`, `doubt` `(m, M)`: the label coordinates, and how far another evaluation may be from them.
    """

    order: Ints
    answering: Ints
    stages: list[Stage]
    sure: Bools
    number: Bools
    margin: Floats
    value: Floats
    doubt: Floats


def evaluate(
    stored: Stored, points: Labelled, stream: Stream, stairs: list[Staircase], reach: tuple[float, ...] = ()
) -> Evaluated:
    """Every point through every stage. `reach`: the largest number that each averages, in other parts of the data."""
    heads, m = read_attention(stored), stored.config["labels"]
    reads = Reads(heads[0], stream.key, stream.key, stream.code)
    codes = read_codes(stored, points.data, reads, points.places)
    order = np.argsort(codes.z)  # NaN comes last; sorted queries make the binary search run through memory once
    answering = order if points.places is None else points.places[order]
    own = _stage(reads, stairs[0], Codes(*(each[order] for each in codes)))
    value, doubt = own.value[:m], own.doubt[:m]
    stages, sure, number, margin = [own], own.sure, np.isfinite(own.z), own.margin
    for stage in range(2, stored.stages + 1):
        written = _handed_on(own)
        averaged = read_coordinate(stored, points.data, points.rows, stored.value(stage))
        averaged = replace(averaged, reach=reach[stage - 1] if reach else 0.0)
        reads = Reads(heads[stage - 1], stream.key, averaged, written)
        own = _stage(reads, stairs[stage - 1], read_codes(stored, points.data, reads, answering))
        stages.append(own)
        value, doubt = _added(stored, value, doubt, own)
        margin = np.where(sure, np.minimum(margin, own.margin), margin)
        sure, number = sure & own.sure, number & np.isfinite(own.z)
    return Evaluated(order, answering, stages, sure, number, margin, value, doubt)


def _stage(reads: Reads, stairs: Staircase, codes: Codes) -> Stage:
    """One stage by itself, points in order."""
    z, radius = codes.z, codes.own + codes.other
    passed, sure = stairs.passed(z - radius, z + radius)
    margin = np.where(np.isfinite(z), stairs.room(z, passed) / radius, np.inf)
    value, doubt = stairs.labels(z, radius, passed)
    read, reach = (reads.code, abs(reads.head.o * reads.head.v)) if isinstance(reads.code, np.ndarray) else (None, 0.0)
    return Stage(stairs, z, radius, passed, sure, margin, value, doubt, read, reach)


def _handed_on(own: Stage) -> Floats:
    """The number that the next stage reads `(M,)`, exact."""
    if own.stairs.slope is not None or (own.doubt[-1] != 0.0).any():
        raise UnhandledError("the numbers of stretches that a stage of the cascade writes must add up without rounding")
    number: Floats = own.value[-1]
    return number


def _added(stored: Stored, value: Floats, doubt: Floats, own: Stage) -> tuple[Floats, Floats]:
    """A stage's labels added to those of the stages before it, `(m, M)`: one rounded sum in the stored format."""
    dtype, m = stored["bos"].dtype, len(value)
    total = (value.astype(dtype) + own.value[:m].astype(dtype)).astype(np.float64)
    doubt = doubt + own.doubt[:m]
    # Sums of equal bits are equal bits. Of numbers that may differ, each may round, and so may their sum.
    size = np.abs(value) + np.abs(own.value[:m]) + doubt
    return total, np.where(doubt > 0.0, PADDING * (doubt + 4.0 * stored.format.unit * size), doubt)
