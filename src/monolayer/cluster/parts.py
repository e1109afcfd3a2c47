"""A range of points as its part of the staircase: three tensors, in the safetensors file that they stay in.

A step depends on two neighbours alone. Every neighbour of a point is in its range, but for the last point before it,
which is looked up. A range that holds a crowd becomes a part of the first stage of a cascade (`crowds.py`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.cluster.crowds import begin_of_part, crowded
from monolayer.cluster.ranges import Line, Range, gather
from monolayer.cluster.spill import Spill
from monolayer.construct.line.points import BLOCK, Points, ramps, weights
from monolayer.construct.line.separate import narrow

NEAR = 1 << 10
"""Stretches of a range, at the most, that are looked at for contradictions."""

MANY = 1 << 12
"""Label changes of a range too close for a step from which it is no part yet: so many are contradictions, not crowds.

By chance a thousand million points have some hundred pairs too close, in all ranges together (docs/large.md).
"""


def part(spill: Spill, name: str, range_: Range, cascade: bool) -> None:
    """A range as a part, and what there is to know about its points; `cascade`: of the first stage of one."""
    line = gather(spill, range_, before=True)
    found = _steps(line, range_)
    ends = np.concatenate([line.columns(i, i + 1)[0] for i in (0, len(line) - 1)]) if len(line) else np.zeros(0)
    facts: dict[str, Any] = {
        "count": found.count,
        "least": found.least,
        "ends": ends,
        "close": found.close,
        "near": found.near,
    }
    if found.close > MANY:
        spill.write(name, [], steps=0, **facts)
        return
    if found.close:
        crowded(spill, name, range_, line.some(slice(int(range_.after), None)), **facts)
        return
    steps = len(found.tensors[0])
    spill.write(
        name,
        [begin_of_part(range_.number, steps, cascade), *found.tensors],
        zeros=8 * steps if cascade else 0,  # no step begins a stretch
        hashed=True,
        cascade=cascade,
        steps=steps,
        margin=found.margin,
        last=line.columns(max(0, len(line) - 1), len(line))[1],
        size=found.size,
        crowds=np.zeros((5, 0)),
        **facts,
    )


@dataclass(frozen=True, eq=False)
class _Steps:
    """`weight_1`, `bias_1`, `weight_2` `(R,)`; the least gap in rounding errors, and how many are too close.

    `near` `(2, J)`: where those are; `count`, `least`: as `separate.apart` says; `size`: `Σ |Δ|`.
    """

    tensors: list[Floats]
    margin: float
    close: int
    near: Floats
    count: int
    least: float
    size: float


def _steps(line: Line, range_: Range) -> _Steps:
    """The steps of points in order, and what `separate.margins` and `separate.apart` say about them, in one pass."""
    tensors = [np.empty(len(line)) for _ in range(3)]  # what is not filled takes no memory
    done = close = count = 0
    margin, least, size, found = np.inf, np.inf, 0.0, [np.zeros((2, 0))]
    for start in range(0, len(line) - 1, BLOCK):
        z, label = line.columns(start, min(start + BLOCK, len(line) - 1) + 1)
        here = range_.points(z, label)
        gap, errors = here.gaps(), here.gap_errors()
        far = gap > 2.0 * errors
        wide = int(np.count_nonzero(far))
        count += wide
        least = min(least, float((gap if wide == len(gap) else gap[far]).min(initial=np.inf)))
        change = np.flatnonzero(label[1:] != label[:-1])
        jump = np.diff(label.astype(np.float64))
        size += float(np.abs(jump).sum())
        # All gaps first, then those that get a step: most do where labels are at random, and few where it matters less.
        with np.errstate(all="ignore"):  # what is too close is not used
            room = (gap / errors).take(change)
            made = weights(*ramps(z[:-1], z[1:]), jump)
        for row, values in zip(tensors, made, strict=True):
            values.take(change, out=row[done : done + len(change)], mode="clip")
        done += len(change)
        margin = min(margin, float(room.min(initial=np.inf)))
        few = narrow(room)
        if few.any():
            close += int(np.count_nonzero(few))
            found.append(near(here, change[few]))
    tensors = [row[:done] for row in tensors]
    return _Steps(tensors, margin, close, _joined(*np.concatenate(found, axis=1)), count, least, size)


def near(points: Points, close: Ints) -> Floats:
    """Stretches `(2, J)` with every point within four rounding errors of a label change that is too close."""
    left, right = points.z.take(close), points.z.take(close + 1)
    error = 4.0 * points.error(np.maximum(np.abs(left), np.abs(right)))
    return _joined(left - error, right + error)


def _joined(low: Floats, high: Floats) -> Floats:
    """Stretches in order, with those joined that meet; of many, those with the least between them become one."""
    if len(low) == 0:
        return np.zeros((2, 0))
    high = np.maximum.accumulate(high)
    gap = low[1:] - high[:-1]
    kept = np.flatnonzero(gap > 0)
    if len(kept) >= NEAR:
        kept = np.sort(kept[np.argpartition(gap[kept], -NEAR)[-NEAR:]])
    return np.stack([low.take(np.append(0, kept + 1)), high.take(np.append(kept, len(high) - 1))])


def rewritten(spill: Spill, name: str, part: str, number: int, steps: int, cascade: bool) -> None:
    """A part without crowds as one of the first stage of a cascade, where no step begins a stretch; or back.

    In place, and the same however often it is done: another header of the same length, and zeros at the end or none.
    """
    file, header = spill.numbers(part), begin_of_part(number, steps, cascade)
    with file.open("r+b") as out:
        out.write(header.data)
        out.truncate(len(header) + 24 * steps)
        out.truncate(len(header) + (32 if cascade else 24) * steps)
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    spill.write(name, [], digest=np.array([digest]), cascade=cascade)
