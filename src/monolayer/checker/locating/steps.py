"""Stock folders of steps: which neurons of a cell are settled at a fact, and the answers without one of them.

A neuron is on right of its step, at the facts of its own cell: without it, all of these lose its jump, so labels of
other facts than the nearest one become sums of words that no class need have. Which class such a sum is answered with
follows from Lemma S7 in its general form (docs/proofs-stock.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.locating.writers import MEASURED, PROVED, UNKNOWN, Writers
from monolayer.checker.rounding import BINARY64, PADDING
from monolayer.checker.stock.bounds import MEAN, UNIT
from monolayer.checker.stock.check import Seen, look
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import Places
from monolayer.checker.stock.readout import BENT, FAINT, HUGE, bent, coordinates
from monolayer.data import Sequences

Coordinates = tuple[Floats, Floats, Floats]
"""Label coordinates `(K, m)`, their errors, and the mean `(K,)`, as `readout.coordinates` has them."""
_AT_ONCE = 1 << 20
"""Scores held at a time."""


def steps_writers(net: Network, data: Sequences, places: Places) -> Writers:
    """The neurons of the cell of each fact, up to the last that it has passed."""
    seen = look(net, data, places)
    steps, cell, passed = seen.steps, seen.points.cell, seen.passed
    M, H = len(cell), len(steps.cell)
    order = np.lexsort((passed, cell))
    # Neuron k of the sorted ones is settled at the points of its cell that have passed more than k.
    key, k = cell[order] * (H + 2) + passed[order], np.arange(H)
    start, stop = np.zeros((2, len(net.W_1)), dtype=np.int64)
    start[steps.order] = np.searchsorted(key, steps.cell * (H + 2) + k + 1)
    stop[steps.order] = np.searchsorted(key, (steps.cell + 1) * (H + 2))
    rank, place = np.zeros(len(net.W_1), dtype=np.int64), np.empty(M, dtype=np.int64)
    rank[steps.order], place[order] = k, np.arange(M)
    first = np.searchsorted(steps.cell, cell, side="left")
    together = 1 if net.activation == "relu6" else 2
    near = (passed[:, None] - together + np.arange(together)).reshape(-1)
    fact = np.repeat(np.arange(M), together)
    holds = (near >= first[fact]) & seen.sure[fact]
    fact, near = fact[holds], near[holds]

    whole = coordinates(net, seen.found, seen.bound, steps, seen.points, passed)

    def judge(points: Ints, less: Ints | None) -> tuple[NDArray[Any], Ints]:
        """Facts as they are, or each less one of the sorted neurons."""
        answer, state = np.zeros((2, len(points)), dtype=np.int64)
        for cut in np.array_split(np.arange(len(points)), 1 + len(points) * len(net.head) // _AT_ONCE):
            some = points[cut]
            given: Coordinates = tuple(part[some] for part in whole)  # type: ignore[assignment]
            given = given if less is None else _less(net, seen, given, some, less[cut])
            answer[cut], state[cut] = likeliest(net, seen, *given)
        return answer, np.where(seen.sure[points], state, UNKNOWN)

    answer, state = judge(np.arange(M), None)
    return Writers(
        answer=answer,
        state=state,
        order=order,
        start=start,
        stop=stop,
        fact=fact,
        neuron=steps.order[near] if H else near,
        at=place[fact],
        writing=passed - first,
        without=lambda neurons, at: judge(order[at], rank[neurons]),
    )


def _less(net: Network, seen: Seen, given: Coordinates, points: Ints, neuron: Ints) -> Coordinates:
    """What `given` says of some points, less a sorted neuron of each."""
    (value, doubt, mean), steps = given, seen.steps
    jump = steps.level[neuron + 1] - steps.level[neuron]
    size = np.abs(jump)
    if steps.slope is not None:
        slope, feature = steps.slope[neuron + 1] - steps.slope[neuron], seen.points.feature[points, None]
        size = size + np.abs(slope * feature)
        doubt = doubt + PADDING * np.abs(slope) * seen.points.radius[points, None]
        jump = jump + slope * feature
    doubt = PADDING * (doubt + 8.0 * UNIT * (np.abs(value) + size))
    mean = PADDING * (mean + np.abs(jump.sum(axis=1)) / net.width + doubt.max(axis=1))
    return value - jump, doubt, mean


def likeliest(net: Network, seen: Seen, value: Floats, doubt: Floats, mean: Floats) -> tuple[Ints, Ints]:
    """The class with the largest logit for any label coordinates `(K, m)`, and what is known of it.

    A tie, or a tanh that does not return signs, leaves it unknown.
    """
    found, bound, D, m = seen.found, seen.bound, net.width, value.shape[1]
    size, off = np.abs(value), doubt.max(axis=1)
    most, least = (size + doubt).max(axis=1), (size - doubt).min(axis=1)
    largest = np.maximum(most, bound.largest)
    mean = mean + PADDING * MEAN * D * UNIT * largest
    rounding = PADDING * (2.0 * BINARY64.gamma(D + 24.0) + 2.0**-21)
    scale, squares = np.sqrt(largest**2 + net.epsilon), (np.maximum(size - doubt, 0.0) ** 2).sum(axis=1)
    sure = (squares > 64.0 * D**2 * UNIT * largest**2) & (largest <= HUGE) & bool(rounding * m < 4.0)
    pool = None if net.W_P is None else net.pool
    if pool == "tanh":
        returned = np.where(least > 16.0 * mean, bent(net, found, least - mean, most), 0.0)
        best, gap, top = _best(np.sign(value), found.words)
        # Only signs that are not those of the best word speak against it: `(m − top)/2` of them, each at most `BENT`.
        clear = returned * gap - (m - top) * (BENT - returned) > rounding * m * BENT
        return best, np.where(clear, np.where(sure, PROVED, MEASURED), UNKNOWN)
    best, gap, _ = _best(value if pool is None else np.maximum(value, 0.0), found.words)
    moved, rounds = (off, rounding) if pool is None else (off + 2.0 * mean, 4.0 * rounding)
    sure &= (gap - 2.0 * m * moved > rounds * m * (most + mean)) & (gap >= FAINT * scale)
    return best, np.where(sure, PROVED, np.where(gap > rounding * m * most, MEASURED, UNKNOWN))


def _best(label: Floats, words: Bools) -> tuple[Ints, Floats, Floats]:
    """The class whose signs agree most with label coordinates, by how much more than any other, and how much."""
    scores = label @ np.where(words, 1.0, -1.0).T
    best, rows = scores.argmax(axis=1), np.arange(len(scores))
    top = scores[rows, best].copy()
    scores[rows, best] = -np.inf
    return best, top - scores.max(axis=1), top
