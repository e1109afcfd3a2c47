"""The points, out of core: cut by `z` into ranges, each sorted and turned into its part of the staircase.

`points-B` holds `z` of block `B` in order, then the label numbers; `part-R` holds the weights of range `R` as the
safetensors file that it will be. Every neighbour of a point is in its range, but for the last point before it, which
is looked up.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.cluster import tables
from monolayer.cluster.blocks import Block, Rules, load
from monolayer.cluster.measure import cut
from monolayer.cluster.spill import Spill
from monolayer.construct.line.points import Floats, Points
from monolayer.construct.line.ramps import ramps_at, weights
from monolayer.construct.line.separate import apart, margins
from monolayer.data.names import Ints
from monolayer.model.sharded import LINE, part_header

NEAR = 1 << 10
"""Stretches of a range, at the most, that are looked at for contradictions."""

Numbers = NDArray[np.unsignedinteger[Any]]

_REST = np.int64(0x7FFFFFFFFFFFFFFF)


def points(spill: Spill, name: str, block: Block, rules: Rules, draw: Any, kappa: float, splitters: Floats) -> None:
    """The points of a block in order, and where the ranges begin."""
    data, target = load(spill, block, rules)
    z, order = tables.in_order(draw, data, target, rules, kappa)
    number = target.number.astype(label_type(rules)).take(order)
    spill.write(name, [z, number], bounds=cut(z, splitters))


def label_type(rules: Rules) -> np.dtype[Any]:
    """The smallest type that holds label numbers."""
    return np.min_scalar_type(rules.labels)


Slices = list[tuple[str, int, int, int]]
"""Pieces that hold points of a range: the name, where the range begins and ends in it, and how many points it has."""


def part(
    spill: Spill, name: str, number: int, slices: Slices, rules: Rules, kappa: float, error: float, most: int
) -> None:
    """Range `number` as a part of the staircase, and what there is to know about its points."""
    z, label = gather(spill, slices, rules, most)
    before = _last_before(spill, slices, rules)
    if before is not None:
        z, label = np.concatenate([[before[0]], z]), np.concatenate([[before[1]], label]).astype(label.dtype)
    here = Points(z, label, kappa, error)
    changes = np.flatnonzero(label[1:] != label[:-1])
    if len(z) < 2 or len(changes) == 0:
        margin, close = None, changes
    else:
        margin, close = margins(here, changes)
    count, least = apart(here) if len(z) > 1 else (0, np.inf)
    level = label.take(np.append(changes, len(z) - 1)).astype(np.float64)[None] if len(z) else np.zeros((1, 1))
    with np.errstate(all="ignore"):  # what is too close is not used
        tensors = weights(*ramps_at(z, changes), np.diff(level))
    blocks: list[NDArray[Any]] = [
        np.frombuffer(part_header(number + 1, len(changes), LINE, 1), dtype=np.uint8),
        *tensors,
    ]
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(np.ascontiguousarray(block).data)
    spill.write(
        name,
        blocks,
        digest=np.array([digest.hexdigest()]),
        steps=len(changes),
        margin=np.inf if margin is None else margin,
        count=count,
        least=least,
        ends=z[[0, -1]] if len(z) else np.zeros(0),
        last=label[-1:],
        size=float(np.abs(tensors[2]).sum()),
        close=len(close),
        near=_near(here, close),
    )


def _near(points: Points, close: Ints) -> Floats:
    """Stretches `(2, J)` with every point within four rounding errors of a label change that is too close.

    They may hold more: of many, those with the least between them become one.
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


def gather(spill: Spill, slices: Slices, rules: Rules, most: int) -> tuple[Floats, Numbers]:
    """The points of a range in order of `z`, then of label. Of more than `most`, equal ones are kept once."""
    held: list[tuple[Floats, Numbers]] = [(np.zeros(0), np.zeros(0, label_type(rules)))]
    count = 0
    for name, begin, end, total in slices:
        held.append(piece(spill, name, total, begin, end, rules))
        count += end - begin
        if count > most:
            held = [_once(*in_order(held, rules))]
            count = len(held[0][0])
    return in_order(held, rules)


def piece(spill: Spill, name: str, total: int, begin: int, end: int, rules: Rules) -> tuple[Floats, Numbers]:
    """Points `begin` to `end` of a piece that has `total`."""
    kind, file = label_type(rules), spill.numbers(name)
    z = np.fromfile(file, np.float64, end - begin, offset=8 * begin)
    label = np.fromfile(file, kind, end - begin, offset=8 * total + kind.itemsize * begin)
    if len(z) < end - begin or len(label) < end - begin:
        raise OSError(f"{file} was cut short while it was in use")
    return z, label


def _last_before(spill: Spill, slices: Slices, rules: Rules) -> tuple[float, int] | None:
    """The point before a range, in order of `z`, then of label."""
    found = []
    for name, begin, _, total in slices:
        if begin > 0:
            z, label = piece(spill, name, total, begin - 1, begin, rules)
            found.append((float(z[0]), int(label[0])))
    return max(found) if found else None


def in_order(held: list[tuple[Floats, Numbers]], rules: Rules) -> tuple[Floats, Numbers]:
    """Points in order of `z`, then of label: as one whole number each, if 64 bits hold both, else by two keys.

    Floats are in the order of their bits once those of negative ones are turned round; what all have in common is
    taken off.
    """
    z, label = (np.concatenate(column) for column in zip(*held, strict=True))
    if len(z) == 0:
        return z, label
    bits = z.view(np.int64)
    bits = bits ^ ((bits >> 63) & _REST)
    low, room = int(bits.min()), max(1, (rules.labels - 1).bit_length())
    if (int(bits.max()) - low).bit_length() + room > 64:
        order = np.lexsort((label, z))
        return z.take(order), label.take(order)
    key = (bits - low).view(np.uint64)
    key <<= np.uint64(room)
    key |= label
    key.sort()
    label = (key & np.uint64((1 << room) - 1)).astype(label.dtype)
    key >>= np.uint64(room)
    bits = key.view(np.int64)
    bits += low
    bits ^= (bits >> 63) & _REST
    return bits.view(np.float64), label


def _once(z: Floats, label: Numbers) -> tuple[Floats, Numbers]:
    new = np.ones(len(z), dtype=bool)
    new[1:] = (z[1:] != z[:-1]) | (label[1:] != label[:-1])
    return z[new], label[new]
