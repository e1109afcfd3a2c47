"""From `z` to label coordinates, and from these to answers, as read from the stored neurons and head.

Notation: `H` neurons, `m` label coordinates; neuron `j` computes `relu(1 − relu(w_j z + b_j))`. Rounding is monotone,
so for any `w_j > 0` it returns exactly 1 for every float `z ≤ low_j` and exactly 0 for every float `z ≥ high_j` (Lemma
6). Steps come in order, and no neuron switches between two of them:

    h_j   1 ────────────╮ low_j
                         ╲
          0               ╰─────────── high_j
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Array, Bools, Floats, Ints, overlapping, slices
from monolayer.checker.network import LABEL, StepWeights, Stored
from monolayer.checker.rounding import PADDING, BinaryFormat, UnhandledError


@dataclass(frozen=True, eq=False)
class CheckedStaircase:
    """Label coordinates as a function of `z` that is constant where no neuron switches.

    `low`, `high` `(H,)`, each rising. `level` `(m, H + 1)`: right of the first `i` steps and left of all others,
    coordinate `a` is `level[a, i]` in every evaluation.
    """

    low: Floats
    high: Floats
    level: Floats

    def passed(self, lowest: Floats, highest: Floats) -> tuple[Ints, Bools]:
        """Lemma 7: how many steps lie left of each `[lowest, highest]` `(M,)`; whether no neuron switches inside."""
        i = self._left_of(highest)
        return i, self._before(i) <= lowest

    def room(self, z: Floats, i: Ints) -> Floats:
        """Distance of each `z` `(M,)`, which has `i` steps to its left, from the nearest threshold on either side."""
        distance: Floats = np.minimum(self._behind(i) - z, z - self._before(i))
        return distance

    def _left_of(self, z: Floats) -> Ints:
        """How many of `low` are less than each `z` `(M,)`."""
        if len(z) == 0 or not z.min() <= z.max():  # none, or a NaN, which has no neighbourhood
            return np.searchsorted(self.low, z, side="left")
        # Numbers near each other lie among few steps: the search then stays in the cache.
        first, last = np.searchsorted(self.low, [z.min(), z.max()], side="left").tolist()
        return np.asarray(np.searchsorted(self.low[first:last], z, side="left") + first)

    def _behind(self, i: Ints) -> Floats:
        """Where the next neuron begins to switch once `i` are passed, `(M,)`; ∞ for none."""
        if len(self.low) == 0:
            return np.full(len(i), np.inf)
        edge = self.low.take(i, mode="clip")
        if i.max(initial=0) == len(self.low):
            edge[i == len(self.low)] = np.inf
        return edge

    def _before(self, i: Ints) -> Floats:
        """The number from which on the first `i` neurons have all switched `(M,)`; −∞ for `i = 0`.

        It is looked up without copying `high`.
        """
        if len(self.high) == 0:
            return np.full(len(i), -np.inf)
        edge = self.high.take(i - 1, mode="clip")
        if i.min(initial=1) == 0:
            edge[i == 0] = -np.inf
        return edge


def read_staircase(stored: Stored, stage: int = 1) -> CheckedStaircase:
    """Stage number `stage` of the stored readout; the first is 1."""
    block = f"feed_forward.stages.{stage - 1}"
    return checked_staircase(
        stored.steps(block), stored[f"{block}.bias_2"], stored.format, stored.config["readout"], block
    )


def checked_staircase(steps: StepWeights, bias_2: Array, fmt: BinaryFormat, form: str, block: str) -> CheckedStaircase:
    """The staircase of neurons that read one number, once all that the lemmas need has been checked.

    `bias_2` `(m,)`: what is added behind them. `fmt`: the arithmetic. `form`: the readout, `exact` or `runs`. `block`:
    name of the block, for errors.
    """
    w, b, weight_2 = steps
    check_sizes(w, True, fmt, f"{block}.weight_1")
    check_sizes(b, False, fmt, f"{block}.bias_1")
    low, high = thresholds(w, b)
    if w.min(initial=0.0) < 0 or not _rises(low):
        raise UnhandledError(f"the steps of {block} must rise, and stand in order")
    if not _rises(high):
        np.maximum.accumulate(high, out=high)
    if form == "runs":
        return CheckedStaircase(low, high, _labels(weight_2, bias_2, fmt))
    written, bias = weight_2.astype(np.float64, copy=False), bias_2.astype(np.float64)[:, None]
    for values in (written, bias):
        check_sizes(values, False, fmt, f"{block}.weight_2 or bias_2")
    if not sums_are_exact([bias, written], fmt):
        raise UnhandledError(f"sums of what {block} writes may round")
    # Left of all steps every neuron is on. Right of its step, what a neuron writes is missing.
    level = np.empty((len(written), len(w) + 1))
    level[:, :1], level[:, 1:] = bias + written.sum(axis=1, keepdims=True), written
    return CheckedStaircase(low, high, np.subtract.accumulate(level, axis=1, out=level))


def _rises(numbers: Floats) -> bool:
    """Whether none of these is less than the one before it."""
    return all((numbers[part][1:] >= numbers[part][:-1]).all() for part in overlapping(len(numbers)))


def _labels(labels: Array, bias_2: Array, fmt: BinaryFormat) -> Floats:
    """The labels of runs `(m, H + 1)`. Lemma 12: one indicator is 1 and all others are 0, so each comes out as stored.

    No two labels are added, so it is enough that they are finite and not subnormal.
    """
    size = np.abs(labels)
    if not ((size < np.inf) & ((size >= fmt.tiny) | (size == 0))).all():
        raise UnhandledError(
            "a label is not finite, or subnormal: an evaluation may flush it to 0; round it to 0 in the data"
        )
    if bias_2.any():
        raise UnhandledError("a readout of runs must have no bias behind its labels")
    return labels.astype(np.float64)


def sums_are_exact(numbers: list[Floats], fmt: BinaryFormat) -> bool:
    """Lemma 8: whether every sum of some of these numbers is exact, in any order.

    Each array is `(m, …)`, summed by row.
    """
    total, whole = np.zeros(len(numbers[0])), True
    for part in numbers:
        for some in slices(part.shape[1]):
            total += np.abs(part[:, some]).sum(axis=1)
            whole = whole and bool((np.rint(part[:, some]) == part[:, some]).all())
    total *= PADDING
    if whole and (total * fmt.unit < 1.0).all():
        return True  # no bit of a whole number is less than 1
    return bool((total * fmt.unit < np.minimum.reduce([_lowest_bit(part) for part in numbers])).all())


def _lowest_bit(numbers: Floats) -> Floats:
    """Value of the lowest bit that is set in any number of each row `(m,)`."""
    lowest = np.full(len(numbers), 2.0**900)
    for part in slices(numbers.shape[1]):
        mantissa, exponent = np.frexp(np.where(numbers[:, part] == 0, 2.0**900, numbers[:, part]))
        whole = (mantissa * 2.0**53).astype(np.int64)
        bits = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
        np.minimum(lowest, bits.min(axis=1), out=lowest)
    return lowest


def check_sizes(values: Array, nonzero: bool, fmt: BinaryFormat, name: str) -> None:
    """Refuse numbers that may overflow or be flushed to zero, as Lemma 6 needs; 0 is allowed unless `nonzero`."""
    flat = values.reshape(-1)
    for part in slices(len(flat)):
        size = np.abs(flat[part])
        if size.min() >= fmt.smallest and size.max() <= fmt.largest:
            continue
        if not ((size >= fmt.smallest) & (size <= fmt.largest) | (size == 0) & (not nonzero)).all():
            raise UnhandledError(f"{name} goes outside ±[{fmt.smallest:.3g}, {fmt.largest:.3g}]")


def thresholds(w: Array, b: Array) -> tuple[Floats, Floats]:
    """Lemma 6, for `w > 0`: every evaluation of neuron `j` is 1 up to `low` and 0 from `high` on, `(H,)` each."""
    low, high = np.empty(len(w)), np.empty(len(w))
    for part in slices(len(w)):
        low[part], high[part] = _thresholds(w[part], b[part])
    return low, high


def _thresholds(w: Array, b: Array) -> tuple[Floats, Floats]:
    """The thresholds of some neurons, all operations on them at once."""
    down, up = -b, 1 - b
    # The least float that is at least 1 − b, in the stored format: the error of a sum of two is a float.
    larger = np.abs(b).min(initial=1) >= 1  # than 1, so that a shorter sum finds the error
    error = 1 - (up - down) if larger else (1 - (up - (back := up - 1))) + (down - back)
    above = _moved(up, error > 0, np.inf)
    low, high = down.astype(np.float64, copy=False) / w, above.astype(np.float64, copy=False) / w
    # w z + b ≤ 0 up to low, ≥ 1 from high on. Quotients by powers of two, all bits of which are 0 behind the point, are
    # exact: normal numbers.
    rounded = w.view(w.dtype.str.replace("f", "u")) & ((1 << np.finfo(w.dtype).nmant) - 1) != 0
    low, high = _moved(low, rounded, -np.inf), _moved(high, rounded, np.inf)
    # A binary search passes the step at the float `search`. By a power of two that is `up / w`, which is no more than
    # `high`, and more than `low` but where the ramp is below its rounding.
    if rounded.any() or not (up > down).all():
        search = (down / w + 1 / w).astype(np.float64)
        reached = np.flatnonzero(~(search > low))
        low[reached] = np.nextafter(search[reached], -np.inf)
        np.maximum(high, search, out=high)
    return low, high


def _moved(numbers: Array, where: Bools, towards: float) -> Array:
    """Numbers, some of them replaced by the next float in a direction."""
    return np.where(where, np.nextafter(numbers, numbers.dtype.type(towards)), numbers) if where.any() else numbers


def head_classes(stored: Stored, value: Floats) -> Ints:
    """The class that every evaluation returns `(M,)`, given label coordinates `value` `(M,)`; −1 where unsure.

    Lemma 10: the head `2 j ŷ − j²` picks the class `j` nearest to `ŷ`.
    """
    check_nearest(stored)
    return nearest_classes(stored, value)


def check_nearest(stored: Stored) -> None:
    """Raise an error unless the head is that of Lemma 10."""
    weight, bias = stored["head.weight"], stored["head.bias"]
    number = np.arange(float(len(bias)))
    wanted = np.zeros(weight.shape)
    wanted[:, LABEL] = 2.0 * number
    if not (np.array_equal(weight, wanted) and np.array_equal(bias, -number * number)):
        raise UnhandledError("the head must read the label slot alone, and be 2 j y − j² for class j")


def nearest_classes(stored: Stored, value: Floats) -> Ints:
    """`head_classes`, once `check_nearest` has looked at the head."""
    C, whole = len(stored["head.bias"]), np.rint(value)
    sure = 2.0 * np.abs(value - whole) + _rounding_of_head(stored) < 1.0
    return np.where(sure, np.clip(whole, 0, C - 1), -1).astype(np.int64)


def takes_numbers(stored: Stored) -> bool:
    """Whether the number of a class itself, as label coordinate, gets that class from the head of `check_nearest`."""
    return _rounding_of_head(stored) < 1.0


def _rounding_of_head(stored: Stored) -> float:
    """What rounding may add to twice the distance from a whole number, in Lemma 10."""
    classes = len(stored["head.bias"])
    return 32.0 * stored.format.unit * classes * classes


def copies(stored: Stored) -> bool:
    """Whether the head returns the label slots unchanged."""
    m = stored.config["labels"]
    behind = stored.config["width"] - LABEL - m
    copy = np.concatenate([np.zeros((m, LABEL)), np.eye(m), np.zeros((m, behind))], axis=1)
    return np.array_equal(stored["head.weight"], copy) and not stored["head.bias"].any()
