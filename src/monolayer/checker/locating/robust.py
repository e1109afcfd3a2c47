"""Robust models: the half-spaces that may be on at a fact, and the answers without one of them.

Each pair of a fact and a neuron is judged as a point of its own, at which the other neurons of the fact are on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.gates import Gated, Pairs
from monolayer.checker.labelled import Labelled
from monolayer.checker.locating.writers import MEASURED, PROVED, UNKNOWN, Writers, listed
from monolayer.checker.noise import Shares, answers, errors, silent
from monolayer.checker.robust import question_of
from monolayer.checker.stored import Stored

_AT_ONCE = 1 << 22
"""Logits held at a time."""


def robust_writers(stored: Stored, points: Labelled) -> Writers:
    """The neurons that may be on at each fact, at no noise."""
    asked = question_of(stored, points)
    gated, shares = asked.gated, Shares.of(0.0, asked.gated, asked.longest, asked.format)
    quiet = silent(asked.top, asked.size, shares)
    error = errors(asked.found, gated, shares)
    on = asked.found.value + error > 0.0
    found, error = _chosen(asked.found, np.flatnonzero(on)), error[on]
    M = len(asked.rows)

    def judge(pairs: Pairs, off: Floats, rows: Ints) -> tuple[Ints, Ints]:
        known = rows >= 0
        likely = _likely(gated, pairs, rows.clip(0))
        right = answers(pairs, off, gated, rows.clip(0), likely, shares).right
        return likely, np.where(known, np.where(right & quiet, PROVED, MEASURED), UNKNOWN)

    answer, state = judge(found, error, asked.rows)
    kept, point = _others(found.point, M)
    rest = _chosen(found, kept)._replace(point=point)
    answer_without, state_without = judge(rest, error[kept], asked.rows[found.point])

    return listed(
        (answer, state), found.point, found.neuron, found.value > 0.0, (answer_without, state_without), len(gated.bias)
    )


def _chosen(found: Pairs, which: Ints) -> Pairs:
    columns: list[Any] = [column[which] for column in found]
    return Pairs(*columns)


def _others(point: Ints, count: int) -> tuple[Ints, Ints]:
    """For every pair the other pairs of its point: their numbers, and the number of the pair that is left out."""
    times = np.bincount(point, minlength=count)
    first = np.cumsum(times) - times
    size = times[point]
    left_out = np.repeat(np.arange(len(point)), size)
    begin = np.repeat(np.cumsum(size) - size, size)
    other = first[point[left_out]] + np.arange(len(left_out)) - begin
    stays = other != left_out
    return other[stays], left_out[stays]


def _likely(gated: Gated, pairs: Pairs, rows: Ints) -> Ints:
    """The class with the largest logit at each of the `rows`, in float64; `pairs.point` numbers them."""
    found = np.zeros(len(rows), dtype=np.int64)
    hidden = np.maximum(pairs.value, 0.0)[:, None]
    step = max(1, _AT_ONCE // max(1, len(gated.head)))
    for begin in range(0, len(rows), step):
        label = gated.label[rows[begin : begin + step]].copy()
        one, two = np.searchsorted(pairs.point, [begin, begin + step])
        np.add.at(label, pairs.point[one:two] - begin, hidden[one:two] * gated.weight_2[pairs.neuron[one:two]])
        found[begin : begin + step] = (label @ gated.head.T + gated.head_bias).argmax(axis=1)
    return found
