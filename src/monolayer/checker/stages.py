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
from monolayer.checker.codes import Codes, Stream, Value, read_attention, read_codes, read_value, true_codes
from monolayer.checker.labelled import Labelled
from monolayer.checker.readout import Staircase, read_staircase
from monolayer.checker.rounding import BINARY64, PADDING, Attention, UnhandledError
from monolayer.checker.stored import Stored

CLOSE_CALLS = 1 << 17
"""Keys of the points too close for binary64 up to which these are tried again in ball arithmetic."""


class Line(NamedTuple):
    """A stage and the points on it `(M,)`, in one order for all stages: their `plateau`.

    `level` `(m, …)`: label coordinates that plateaus write, and behind them, but for the last stage, `stretch` `(…,)`;
    `before` `(H,)`: the plateau left of each step. `read` `(M,)`: the number of the stretch that the stage reads, None
    for the first; `reach`: how far from it a point may lie.
    """

    low: Floats
    high: Floats
    level: Floats
    stretch: Floats | None
    before: Ints
    z: Floats
    radius: Floats
    plateau: Ints
    read: Floats | None
    reach: float
    exact: bool


class Evaluated(NamedTuple):
    """Labelled points in `order` `(M,)` of `z`, and the places `answering` for them.

    `z`, `radius`, `passed` are those of the first stage; `sure`: one plateau in every evaluation and stage; `number`:
    there is a number at all; `margin`: room over radius, the least of the stages; `value`, `doubt` `(m, M)`: the label
    coordinates, and how far another evaluation may be from them.
    """

    order: Ints
    answering: Ints
    z: Floats
    radius: Floats
    passed: Ints
    sure: Bools
    number: Bools
    margin: Floats
    value: Floats
    doubt: Floats


def evaluate(
    stored: Stored,
    points: Labelled,
    stream: Stream,
    given: list[Staircase] | None = None,
    limits: list[int] | None = None,
    asked: list[int] | None = None,
    lines: list[Line] | None = None,
) -> Evaluated:
    """Every point through every stage.

    `given`: the staircases, where they were read before. `limits`: for each stage, `CLOSE_CALLS` or
    less; `asked` gets the keys of its points that are too close for binary64. `lines` gets the stages and their points.
    """
    data, heads = points.data, read_attention(stored)
    each = given or [read_staircase(stored, stage) for stage in range(1, stored.stages + 1)]
    most, keys = limits or [CLOSE_CALLS] * stored.stages, [] if asked is None else asked
    codes = read_codes(stored, data, stream, heads[0], points.places)
    order = np.argsort(codes.z)  # NaN comes last; sorted queries make the binary search run through memory once
    answering = order if points.places is None else points.places[order]
    stairs, m = each[0], stored.config["labels"]
    close = most[0], keys
    found = _stage(stored, points, stream, heads[0], stairs, _in_order(codes, order), answering, None, None, close)
    if lines is not None:
        lines.append(_line(stairs, found, None, 0.0, m))
    for stage in range(2, stored.stages + 1):
        value, number = _handed_on(stairs, found)
        stairs, close = each[stage - 1], (most[stage - 1], keys)
        means = read_value(stored, data, points.rows, stored.value(stage))
        means = replace(means, reach=stream.values[stage - 2] if stream.values else 0.0)
        back = np.empty_like(number)
        back[order] = number
        codes = read_codes(stored, data, stream, heads[stage - 1], points.places, means, back)
        own = _stage(
            stored, points, stream, heads[stage - 1], stairs, _in_order(codes, order), answering, means, number, close
        )
        if lines is not None:
            lines.append(_line(stairs, own, number, abs(heads[stage - 1].o * heads[stage - 1].v), m))
        found = _together(stored, found, value, own)
    return found._replace(order=order)


def _line(stairs: Staircase, found: Evaluated, read: Floats | None, reach: float, m: int) -> Line:
    level, exact = stairs.level, stairs.slope is None
    stretch = level[m] if len(level) > m else None
    before = np.arange(len(stairs.low))
    return Line(
        stairs.low, stairs.high, level[:m], stretch, before, found.z, found.radius, found.passed, read, reach, exact
    )


def _in_order(codes: Codes, order: Ints) -> Codes:
    return Codes(codes.z[order], codes.own[order], codes.other[order], codes.before[order])


def _stage(
    stored: Stored,
    points: Labelled,
    stream: Stream,
    head: Attention,
    stairs: Staircase,
    codes: Codes,
    answering: Ints,
    means: Value | None,
    number: Floats | None,
    calls: tuple[int, list[int]],
) -> Evaluated:
    """One stage by itself, points in order."""
    z, radius = codes.z, codes.own + codes.other
    finite = np.isfinite(z)
    passed, sure = stairs.passed(z - radius, z + radius)
    margin = np.where(finite, stairs.room(z, passed) / radius, np.inf)
    close = np.flatnonzero(~sure & finite)
    most, asked = calls
    asked.append(_keys(points, answering[close]))
    if len(close) and asked[-1] <= most:
        error = codes.before[close] + 2.0 * BINARY64.tiny if stored.format is BINARY64 else codes.other[close]
        code = None if number is None else number[close]
        lowest, highest = true_codes(
            stored, points.data, stream, head, answering[close], error, value=means, number=code
        )
        passed[close], sure[close] = stairs.passed(lowest, highest)
        radius[close] = np.maximum(highest - z[close], z[close] - lowest)
    value, doubt = stairs.labels(z, radius, passed)
    return Evaluated(answering, answering, z, radius, passed, sure, finite, margin, value, doubt)


def _handed_on(stairs: Staircase, found: Evaluated) -> tuple[Floats, Floats]:
    """Label coordinates `(m, M)` and the number that the next stage reads `(M,)`, exact both of them."""
    if stairs.slope is not None or (found.doubt[-1] != 0.0).any():
        raise UnhandledError("the numbers of stretches that a stage of the cascade writes must add up without rounding")
    return found.value[:-1], found.value[-1]


def _together(stored: Stored, before: Evaluated, value: Floats, own: Evaluated) -> Evaluated:
    """A stage after those before it, whose labels are `value` `(m, M)`: one rounded sum in the stored format."""
    dtype = stored["bos"].dtype
    m = len(value)
    total = (value.astype(dtype) + own.value[:m].astype(dtype)).astype(np.float64)
    doubt = before.doubt[:m] + own.doubt[:m]
    # Sums of equal bits are equal bits. Of numbers that may differ, each may round, and so may their sum.
    size = np.abs(value) + np.abs(own.value[:m]) + doubt
    doubt = np.where(doubt > 0.0, PADDING * (doubt + 4.0 * stored.format.unit * size), doubt)
    more = own.value[m:]
    return before._replace(
        sure=before.sure & own.sure,
        number=before.number & own.number,
        margin=np.where(before.sure, np.minimum(before.margin, own.margin), before.margin),
        value=np.concatenate([total, more]),
        doubt=np.concatenate([doubt, np.broadcast_to(own.doubt[m:], more.shape)]),
    )


def _keys(points: Labelled, answering: Ints) -> int:
    """Keys that the answers at these places look at, at most."""
    rows = points.data.sequence[answering] if points.per_token else answering
    return int(points.data.lengths[rows].sum()) + len(rows)
