"""A range of points as its part of the staircase: three tensors, in the safetensors file that they stay in.

    z       ──────●────○────●──────       a step between neighbours with different labels
    classes       │ Δ  │ Δ  │             a part has the jump at each of its steps
    reals     y0     y1   y2    y3        … or the label left of each; `closing` has the label right of all steps
    number    −1     −1   0     1         where further stages follow: also the number of the stretch

A part is written for the only stage, or for the first of several stages. Parts of classes are written for several at
once where crowds are expected; `staged` converts a part where the guess was wrong.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Floats, Ints, rising_at, slices, stretches_of
from monolayer.cluster.points import Range, differ
from monolayer.cluster.spill import Spill
from monolayer.construct.line.cascade import cut_line, least_label
from monolayer.construct.line.points import Points, ramps
from monolayer.construct.line.separate import crowds, gaps, margins
from monolayer.model.sharded import PartFormats, format_of_whole_numbers, part_header, shortened, stored_type

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import BuildState

NEAR = 1 << 10
"""Stretches of a range, at the most, that are looked at for contradictions."""

MANY = 1 << 12
"""Label changes of a range too close for a step from which it is no part yet: so many are contradictions, not crowds.

By chance a thousand million points have some hundred pairs too close, in all ranges together (docs/large.md).
"""


def part(spill: Spill, name: str, range_: Range, strict: bool, staged: bool) -> None:
    """Write a range as the part `name`, with the facts about its points.

    `staged`: write it for the first of several stages, if its labels are classes; a part of reals needs the numbers of
    its stretches, which depend on the other parts. Unless `strict`, a range that looks as if labels contradicted each
    other is not written: its fact `whole` is false.
    """
    z, label, clean = range_.gather(spill, strict)
    points, differs = range_.points(z), differ(label)
    changes = np.flatnonzero(differs)
    seen = gaps(points, differs)
    margin, close = seen.margin, margins(points, changes).close if seen.narrow else changes[:0]
    facts: dict[str, Any] = {"count": seen.wide, "least": seen.least, "close": len(close)}
    whole = strict or len(close) == 0 or (clean and len(close) <= MANY)
    staged = staged and not range_.reals
    facts |= {"near": near(points, close), "whole": whole, "steps": 0, "staged": staged}
    if not whole:
        spill.write(name, [], **facts)
        return
    steps, facts["bounds"], facts["crowds"] = changes, changes[:0], np.zeros((4, 0))
    level = _levels(label, steps)
    if len(close):
        line = cut_line(points, changes)
        steps, level, facts["bounds"] = line.steps, _levels(label, line.steps), np.flatnonzero(np.diff(line.number))
        lowest = 0.0 if range_.reals else least_label(line, label[line.held])  # of reals a later stage writes all
        level[line.plateau] = lowest
        stretch = line.crowd_stretch - line.ends[0]
        facts["crowds"] = np.stack([z[line.begin], z[line.end - 1], stretch, np.broadcast_to(lowest, stretch.shape)])
        margin = margins(points, steps).least
    formats = _formats(range_, z)
    tensors = _part_tensors(z, steps, level, range_.reals, formats)
    weight_2 = [tensors.weight_2, _passed(facts["bounds"], len(steps), formats)] if staged else [tensors.weight_2]
    header = _begin(range_.number, len(steps), max(1, range_.reals) + staged, formats)
    last = level[-1:].reshape(-1, max(1, range_.reals)).T.astype(np.float64)
    facts |= {"steps": len(steps), "margin": np.inf if margin is None else margin, "last": last, "size": tensors.size}
    facts["formats"] = np.array(formats)
    spill.write(name, [header, tensors.bias_1, tensors.weight_1, *weight_2], hashed=True, **facts)


def count_crowds(spill: Spill, name: str, range_: Range) -> None:
    """How many crowds a range has."""
    z, label, _ = range_.gather(spill, strict=True)
    points, differs = range_.points(z), differ(label)
    count = len(crowds(points, np.flatnonzero(differs)).begin) if gaps(points, differs).narrow else 0
    spill.write(name, [], count=count)


def _levels(label: Array, steps: Ints) -> Array:
    """The labels of the points before each step, and of the last point: `(R + 1,)` or `(R + 1, m)`; of no points, none.

    Labels change at steps alone, but for those in crowds.
    """
    if len(label) == 0:
        return label
    level = np.empty((len(steps) + 1, *label.shape[1:]), label.dtype)
    for part in slices(len(steps)):
        label.take(steps[part], axis=0, out=level[:-1][part], mode="clip")
    level[-1] = label[-1]
    return level


def _formats(range_: Range, z: Floats) -> PartFormats:
    """The shortest formats that hold `weight_1`, which are powers of two, and `weight_2`.

    Steps stand in gaps `G` of 8 rounding errors or more, and slopes lie from `4/G` to `8/G`: bfloat16 holds powers of
    two from 2^−126 to 2^127. Classes of one byte differ by 255 at most, of two by 65,535.
    """
    moderate = range_.error >= 2.0**-120 and (len(z) == 0 or z[-1] - z[0] <= 2.0**120)
    most = 2 ** (8 * range_.label_type.itemsize) - 1
    return PartFormats("BF16" if moderate else "F64", "F64" if range_.reals else format_of_whole_numbers(most))


class PartTensors(NamedTuple):
    """What a part holds, as it is stored: `bias_1`, `weight_1` `(R,)` and `weight_2` `(m, R)`; `Σ |Δ|` of classes."""

    bias_1: Floats
    weight_1: Array
    weight_2: Array
    size: float


def _part_tensors(z: Floats, steps: Ints, level: Array, reals: int, formats: PartFormats) -> PartTensors:
    """The tensors of a part, without the row of the stretches.

    `steps` `(R,)` are given by the point before each; `level` `(R + 1,)` or `(R + 1, m)`: the labels between them. A
    stretch of steps goes through all operations before the next does, so that it stays in the cache.
    """
    bias, slopes = np.empty(len(steps)), np.empty(len(steps), stored_type(formats.weight_1))
    rows, size = np.empty((max(1, reals), len(steps)), stored_type(formats.weight_2)), 0.0
    signed = np.promote_types(level.dtype, np.int16)
    for part in stretches_of(len(steps), z):
        here = steps[part]
        slope, start = ramps(z.take(here, mode="clip"), z[1:].take(here, mode="clip"))  # without a look at each place
        start *= slope
        np.negative(start, out=bias[part])
        slopes[part] = shortened(slope, formats.weight_1)
        if reals:
            rows[:, part] = level[part].T
        else:
            drop = level[part].astype(signed)
            drop -= level[part.start + 1 : part.stop + 1]  # whole numbers: 0 has no sign
            rows[0, part] = shortened(drop, formats.weight_2)
            size += float(np.abs(drop, out=drop).sum())
    return PartTensors(bias, slopes, rows, size)


def _passed(bounds: Ints, steps: int, formats: PartFormats) -> Array:
    """The row of a part of classes that says where the number of the stretch rises: −1 at these steps, 0 elsewhere."""
    row = np.zeros(steps, stored_type(formats.weight_2))
    row[bounds] = shortened(np.array([-1.0]), formats.weight_2)
    return row


def _begin(number: int, steps: int, rows: int, formats: PartFormats, columns: int | None = None) -> NDArray[np.uint8]:
    """The header of a part's file, which precedes its tensors."""
    return np.frombuffer(part_header(number + 1, steps, rows, formats, columns), dtype=np.uint8)


def near(points: Points, close: Ints) -> Floats:
    """Stretches `(2, J)` with every point within four rounding errors of a label change that is too close.

    Stretches that touch are joined. If there are too many, those with the smallest gaps between them are joined too.
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


def staged(spill: Spill, name: str, part: str, number: int, reals: int, first: int | None) -> None:
    """Rewrite a part in place for the first of several stages, adding the numbers of its stretches, from `first` on.

    Without a `first`, rewrite it for the only stage. Doing so again changes nothing: the new header has the same
    length, and one row is added or removed.
    """
    facts, file = spill.facts(part), spill.numbers(part)
    steps, rows, bounds = int(facts["steps"]), max(1, reals), facts["bounds"]
    formats = PartFormats(*facts["formats"].tolist())
    header = _begin(number, steps, rows + (first is not None), formats)
    per_step = 8 + stored_type(formats.weight_1).itemsize + rows * stored_type(formats.weight_2).itemsize
    with file.open("r+b") as out:
        out.write(header.data)
        out.seek(len(header) + steps * per_step)
        out.truncate()
        if first is not None and reals:
            out.write((first + rising_at(bounds + 1, steps, header)).data)
        elif first is not None:
            out.write(_passed(bounds, steps, formats).data)
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    spill.write(name, [], digest=np.array([digest]))


def closing(spill: Spill, state: BuildState) -> dict[str, Any]:
    """Write the part with the real labels that stand right of all steps."""
    name = f"closing-{state.name}"
    blocks = [_begin(len(state.parts), 0, len(state.last), PartFormats(), 1), np.array(state.last)]
    spill.write(name, blocks, hashed=True, steps=0, count=0, least=np.inf, margin=np.inf, size=0.0)
    return {"name": name, **spill.facts(name)}
