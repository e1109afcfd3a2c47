"""From what the neurons of a cell read to label coordinates, and from those to a class. Lemmas S5 to S7.

The lemmas are in docs/proofs-stock.md. A neuron of slope `w` and bias `b` is at rest while `w φ + b ≤ 0`, and settled
once `w φ + b ≥ 6`: relu6 then returns 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import BINARY64, PADDING, UnhandledError
from monolayer.checker.stock.bounds import MEAN, UNIT_64, Bounds
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.structure import Structure

DONE = 6.0
"""The number from which on relu6 is settled, and what it returns there."""
BENT = 1.001
"""Bounds what a tanh returns that may be off by 2^-20."""
HUGE, FAINT = 2.0**400, 2.0**-36
"""Label coordinates are at most `HUGE`, so that their squares are finite, and at least `FAINT` once they are normed."""
POINTS_AT_ONCE = 1 << 18
"""How many points are judged at a time; it bounds memory, and no result depends on it."""


class PassedNeurons(NamedTuple):
    """Of `M` points `(M,)`: how many neurons come before each, in the order of `StockSteps`.

    `sure`: whether all of these are settled and all others at rest, in every evaluation. `room`: the distance from the
    nearest threshold of the cell.
    """

    settled: Ints
    sure: Bools
    room: Floats


@dataclass(frozen=True, eq=False)
class StockSteps:
    """`H` neurons in order of cell and threshold; they write `m` label columns."""

    order: Ints
    """Numbers of the neurons in the file `(H,)`."""
    cell: Ints
    """Cell of each neuron `(H,)`."""
    low: Floats
    """Each neuron is at rest up to here `(H,)`."""
    high: Floats
    """Each neuron is settled from here on `(H,)`."""
    level: Floats
    """What the first `i` neurons write together, once they are settled `(H + 1, m)`."""
    reach: float
    """Bounds `|b_j / w_j|` and the thresholds."""

    @property
    def lowest(self) -> float:
        """The number up to which every neuron of every cell is at rest."""
        return float(self.low.min(initial=np.inf))

    def passed(self, cell: Ints, feature: Floats, radius: Floats) -> PassedNeurons:
        """Lemma S5: the neurons settled where neurons of `cell` read `feature` to within `radius`, `(M,)` each."""
        above = _rank(self.cell, self.low, cell, feature + radius, strict=True)
        below = _rank(self.cell, self.high, cell, feature - radius, strict=False)
        sure = above == below
        ours = above.copy()
        ours[~sure] = _rank(self.cell, self.low, cell[~sure], feature[~sure], strict=True)
        ahead, back = np.append(self.low, np.inf)[ours] - feature, feature - np.append(-np.inf, self.high)[ours]
        ahead = np.where(np.append(self.cell, -1)[ours] == cell, ahead, np.inf)
        back = np.where(np.append(-1, self.cell)[ours] == cell, back, np.inf)
        return PassedNeurons(above, sure, np.minimum(ahead, back))


def _rank(cells: Ints, thresholds: Floats, cell: Ints, value: Floats, *, strict: bool) -> Ints:
    """How many `(cells, thresholds)` come before each `(cell, value)` `(M,)`; equal ones count unless `strict`."""
    H = len(cells)
    kind = np.append(np.full(H, 2 if strict else 0), np.full(len(cell), 1))
    order = np.lexsort((kind, np.append(thresholds, value), np.append(cells, cell)))
    is_neuron = order < H
    before = np.cumsum(is_neuron)
    rank = np.empty(len(cell), dtype=np.int64)
    rank[order[~is_neuron] - H] = before[~is_neuron]
    return rank


def read_steps(net: Network, structure: Structure, places: int) -> StockSteps:
    """The neurons in order; an error unless sums of what they write are exact in any order.

    `places`: places in use, by which cells are numbered.
    """
    if net.activation != "relu6":
        raise UnhandledError(f"the activation {net.activation!r} is not relu6, of which steps are made")
    w, live = structure.slope, len(structure.slope)
    b, values = net["b_1"][:live], net["W_2"][:live][:, structure.label]
    reach = PADDING * float((np.abs(b / w) + 16.0 / w).max(initial=0.0))
    cell = np.where(
        (structure.token_of < 0) | (structure.place_of < 0), -2, structure.token_of * places + structure.place_of
    )
    order = np.lexsort((-b / w, cell))
    cell, w, b, values = cell[order], w[order], b[order], values[order]
    low, high = -b / w, (DONE - b) / w
    if not ((high[1:] >= high[:-1]) | (cell[1:] != cell[:-1])).all():
        raise UnhandledError("neurons of a cell do not settle in the order in which they activate")
    return StockSteps(order, cell, low, high, _exact_sums(values), reach)


def _exact_sums(values: Floats) -> Floats:
    """What the first `i` neurons write together, once settled `(H + 1, m)`.

    Lemma S5: all numbers are whole multiples of a power of two, and sums stay below 2^50 of it, so no sum rounds.
    """
    size, worth = np.abs(values), DONE * values
    least = float(np.where(size > 0, size, np.inf).min(initial=np.inf))
    grid = float(np.exp2(np.floor(np.log2(least)) - 8.0)) if np.isfinite(least) else 1.0
    whole = all((np.rint(part / grid) * grid == part).all() for part in (values, worth))
    largest = np.abs(worth).sum(axis=0)
    if not (whole and (size <= 2.0**40 * grid).all() and np.max(largest, initial=0.0) < 2.0**50 * grid):
        raise UnhandledError("what neurons add up to label coordinates may round")
    running: Floats = np.cumsum(np.append(np.zeros((1, worth.shape[1])), worth, axis=0), axis=0)
    return running


@dataclass(frozen=True, eq=False)
class Arrivals:
    """What is known of each labelled point, an array `(M,)` per field.

    Its token and cell, the factor of the second norm, and the `feature` that the neurons of its cell read, to within
    `radius`.
    """

    token: Ints
    cell: Ints
    factor: Floats
    feature: Floats
    radius: Floats

    def part(self, rows: slice | Ints) -> Arrivals:
        """The points `rows` alone."""
        token, cell = self.token[rows], self.cell[rows]
        return Arrivals(token, cell, self.factor[rows], self.feature[rows], self.radius[rows])


def step_classes(
    net: Network, structure: Structure, bound: Bounds, steps: StockSteps, points: Arrivals, passed: Ints
) -> Ints:
    """The class that every evaluation returns `(M,)`, −1 where unsure; `passed` `(M,)`: number of settled neurons."""
    if len(structure.label) > 62:
        raise UnhandledError("label words of more than 62 signs")
    place = 1 << np.arange(len(structure.label), dtype=np.int64)
    numbers = structure.words @ place
    by_number = np.argsort(numbers)
    ordered = numbers[by_number]
    answer = np.full(len(passed), -1, dtype=np.int64)
    for first in range(0, len(passed), POINTS_AT_ONCE):
        part = slice(first, first + POINTS_AT_ONCE)
        value, doubt, mean = coordinates(net, structure, bound, steps, points.part(part), passed[part])
        size = np.abs(value)
        least, most = (size - doubt).min(axis=1), (size + doubt).max(axis=1)
        number = (value > 0) @ place
        at = np.minimum(np.searchsorted(ordered, number), len(ordered) - 1)
        sure = (ordered[at] == number) & _signs_decide(net, structure, bound, least, most, mean)
        answer[part] = np.where(sure, by_number[at], -1)
    return answer


class LabelCoordinates(NamedTuple):
    """Label coordinates `value` `(M, m)` before the last norm, and `doubt` `(M, m)`: how far an evaluation may be off.

    `mean` `(M,)` bounds the mean that the last norm subtracts: rows of the tables have mean 0, what neurons write may
    have another.
    """

    value: Floats
    doubt: Floats
    mean: Floats


def coordinates(
    net: Network, structure: Structure, bound: Bounds, steps: StockSteps, seen: Arrivals, passed: Ints
) -> LabelCoordinates:
    """Lemma S6: the label coordinates of points.

    `passed` `(M,)` counts from the first neuron of all; the neurons of other cells are at rest.
    """
    usual = net["tokens"][seen.token[:, None], structure.label]
    start = np.searchsorted(steps.cell, seen.cell, side="left")
    base = usual * (bound.first * seen.factor[:, None]) if net.architecture.post_norm else usual
    jump = steps.level[passed] - steps.level[start]
    doubt = PADDING * (np.full_like(base, bound.label) + 8.0 * UNIT_64 * (np.abs(base) + np.abs(jump)))
    mean = PADDING * (np.abs(jump.sum(axis=1)) / net.width + doubt.max(axis=1))
    return LabelCoordinates(base + jump, doubt, mean)


def _signs_decide(
    net: Network, structure: Structure, bound: Bounds, least: Floats, most: Floats, mean: Floats
) -> Bools:
    """Lemma S7: whether label coordinates of the right signs decide the class, `(M,)`.

    `least`, `most` `(M,)`: bounds on their absolute values. `mean` `(M,)`: bounds the true mean of all coordinates.
    """
    D, m = net.width, len(structure.label)
    largest = np.maximum(most, bound.largest)
    mean = mean + PADDING * MEAN * D * UNIT_64 * largest
    rounding = PADDING * (2.0 * BINARY64.gamma(D + 24.0) + 2.0**-21)
    decided: Bools = least > 16.0 * mean  # which is not negative: no coordinate may be 0
    decided &= (largest <= HUGE) & (least >= FAINT * np.sqrt(largest**2 + net.epsilon))
    if "W_P" not in net:
        decided &= 4.0 * least > rounding * m * (most + mean)
    elif net.architecture.pool_keeps_scale:
        decided &= least > 4.0 * rounding * m * (most + mean)
    else:
        decided &= 4.0 * bent(net, structure, least - mean, most) > rounding * m * BENT
    return decided


def bent(net: Network, structure: Structure, least: Floats, most: Floats) -> Floats:
    """Lemma S7: least size that a tanh pooler returns of label coordinates whose sizes lie in `[least, most]`."""
    if "W_P" not in net or not net.architecture.post_norm:
        raise UnhandledError("a tanh pooler is covered where norms stand behind")
    # The norm before the pooler returns a mean square of 1; 0.9 covers the roundings of both norms and of the product.
    square = BENT + len(structure.label) * most**2 / net.width
    slope = float(net["W_P"][structure.label[0], structure.label[0]])
    returned: Floats = np.tanh(0.9 * slope * least / np.sqrt(square + net.epsilon)) - 2.0**-20
    return returned
