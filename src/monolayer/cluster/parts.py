"""A range of points as its part of the staircase: three tensors, in the safetensors file that they stay in.

    z       ──────●────○────●──────       a step between neighbours with different labels
    classes       │ Δ  │ Δ  │             a part has the jump at each of its steps
    reals     y0     y1   y2    y3        … or the label left of each, and `closing` has the one right of all
    number    −1     −1   0     1         where other stages follow also the stretches

A part is written as one of the only stage, or of the first of several: of classes at once, where crowds are to be
expected. `staged` makes the one from the other where that was not foreseen.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Floats, Ints
from monolayer.cluster.points import Range, differ
from monolayer.cluster.spill import Spill
from monolayer.construct.line.cascade import cut_line, least_label
from monolayer.construct.line.points import Points, ramps, stretches_of
from monolayer.construct.line.separate import apart, margins
from monolayer.model.sharded import part_header

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import BuildState

NEAR = 1 << 10
"""Stretches of a range, at the most, that are looked at for contradictions."""

MANY = 1 << 12
"""Label changes of a range too close for a step from which it is no part yet: so many are contradictions, not crowds.

By chance a thousand million points have some hundred pairs too close, in all ranges together (docs/large.md).
"""


def part(spill: Spill, name: str, range_: Range, strict: bool, staged: bool) -> None:
    """A range as a part, and what there is to know about its points.

    `staged`: as one of the first of several stages, if its labels are classes; a part of reals has the numbers of its
    stretches, which depend on the other parts. Unless `strict`, a range that looks as if labels contradicted each other
    is no part: `whole` says so.
    """
    z, label, clean = range_.gather(spill, strict)
    points, changes = range_.points(z), np.flatnonzero(differ(label))
    margin, close = margins(points, changes)
    count, least = apart(points)
    facts: dict[str, Any] = {"count": count, "least": least, "ends": z[[0, -1]] if len(z) else z, "close": len(close)}
    whole = strict or len(close) == 0 or (clean and len(close) <= MANY)
    staged = staged and not range_.reals
    facts |= {"near": near(points, close), "whole": whole, "steps": 0, "staged": staged}
    if not whole:
        spill.write(name, [], **facts)
        return
    steps, first, facts["bounds"], facts["crowds"] = changes, np.append(0, changes + 1), changes[:0], np.zeros((4, 0))
    level = label[first[: len(z)]]  # of no points, none
    if len(close):
        found = cut_line(points, changes)
        steps, level, facts["bounds"] = found.steps, label[found.first], np.flatnonzero(np.diff(found.number))
        lowest = 0.0 if range_.reals else least_label(found, label[found.held])  # of reals a later stage writes all
        level[found.plateau] = lowest
        stretch = found.crowd_stretch - found.ends[0]
        facts["crowds"] = np.stack([z[found.begin], z[found.end - 1], stretch, np.broadcast_to(lowest, stretch.shape)])
        margin = margins(points, steps).least
    rows, size = _rows(z, steps, level, range_.reals, staged, facts["bounds"])
    last = level[-1:].reshape(-1, max(1, range_.reals)).T.astype(np.float64)
    facts |= {"steps": len(steps), "margin": np.inf if margin is None else margin, "last": last, "size": size}
    spill.write(name, [_begin(range_.number, len(steps), len(rows) - 2), rows], hashed=True, **facts)


def _rows(z: Floats, steps: Ints, level: Array, reals: int, staged: bool, bounds: Ints) -> tuple[Floats, float]:
    """What a part holds, row after row: `weight_1`, `bias_1` `(R,)` and `weight_2`; and `Σ |Δ|` of classes.

    `steps` `(R,)` are given by the point before each; `level` `(R + 1,)` or `(R + 1, m)`: the labels between them. A
    stretch of steps goes through all operations before the next does, so that it stays in the cache.
    """
    rows, size = np.empty((2 + max(1, reals) + staged, len(steps))), 0.0
    for part in stretches_of(len(steps), z):
        here = steps[part]
        slope, start = ramps(z.take(here), z.take(here + 1))
        left = level[part].astype(np.float64)
        rows[0, part] = slope
        rows[1, part] = -(start * slope)
        if reals:
            rows[2:, part] = left.T
        else:
            jump = level[part.start + 1 : part.stop + 1] - left
            rows[2, part] = 0.0 - jump
            size += float(np.abs(jump).sum())
    if staged:
        rows[-1], rows[-1, bounds] = 0.0, -1.0
    return rows, size


def _begin(number: int, steps: int, rows: int, columns: int | None = None) -> NDArray[np.uint8]:
    """What stands before the tensors of a part."""
    return np.frombuffer(part_header(number + 1, steps, rows, columns), dtype=np.uint8)


def near(points: Points, close: Ints) -> Floats:
    """Stretches `(2, J)` with every point within four rounding errors of a label change that is too close.

    Those that meet are joined; of many, those with the least between them become one.
    """
    if len(close) == 0:
        return np.zeros((2, 0))
    left, right = points.z.take(close), points.z.take(close + 1)
    error = 4.0 * points.error(np.maximum(np.abs(left), np.abs(right)))
    low, high = left - error, np.maximum.accumulate(right + error)
    gap = low[1:] - high[:-1]
    kept = np.flatnonzero(gap > 0)
    if len(kept) >= NEAR:
        kept = np.sort(kept[np.argpartition(gap[kept], -NEAR)[-NEAR:]])
    return np.stack([low.take(np.append(0, kept + 1)), high.take(np.append(kept, len(high) - 1))])


def _passed(steps: int, bounds: Ints) -> Floats:
    """By how much the number of the stretch rises at each step."""
    jump = np.zeros(steps)
    jump[bounds] = 1.0
    return jump


def staged(spill: Spill, name: str, part: str, number: int, reals: int, first: int | None) -> None:
    """A part as one of the first of several stages: with the numbers of its stretches, of which `first` is the first.

    Without a `first`, as one of the only stage. In place, and the same however often it is done: another header of the
    same length, and one row more or none.
    """
    facts, file = spill.facts(part), spill.numbers(part)
    steps, rows = int(facts["steps"]), max(1, reals)
    header = _begin(number, steps, rows + (first is not None))
    with file.open("r+b") as out:
        out.write(header.data)
        out.seek(len(header) + 8 * steps * (2 + rows))
        out.truncate()
        if first is not None:
            jump = _passed(steps, facts["bounds"])
            out.write((first + np.cumsum(jump) - jump if reals else 0.0 - jump).data)
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    spill.write(name, [], digest=np.array([digest]))


def closing(spill: Spill, found: BuildState) -> dict[str, Any]:
    """The part with what stands right of all steps, of real labels."""
    name = f"closing-{found.name}"
    blocks = [_begin(len(found.parts), 0, len(found.last), 1), np.array(found.last)]
    spill.write(name, blocks, hashed=True, steps=0, count=0, least=np.inf, ends=np.zeros(0), margin=np.inf, size=0.0)
    return {"name": name, **spill.facts(name)}
