"""From `z` to label coordinates, and from those to answers, for whatever neurons and head are stored.

Notation: neuron `j` computes `relu(1 − relu(w_j z + b_j))`, `H` neurons, `m` label coordinates. Rounding is monotone,
so it is exactly 1 for every float `z ≤ low_j` and exactly 0 for every float `z ≥ high_j`, for any `w_j > 0` (Lemma 6).
Steps stand in order, and between two of them nothing switches:

    h_j   1 ────────────╮ low_j
                         ╲
          0               ╰─────────── high_j
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Floats, Ints, slices
from monolayer.checker.network import LABEL, Steps, Stored
from monolayer.checker.rounding import PADDING, Format, UnhandledError


@dataclass(frozen=True, eq=False)
class Staircase:
    """Label coordinates as a function of `z` that is constant where no neuron switches.

    `low`, `high` `(H,)`, each rising. Once `i` neurons are passed, coordinate `a` is `level[a, i]` in every evaluation.
    """

    low: Floats
    high: Floats
    level: Floats

    def passed(self, lowest: Floats, highest: Floats) -> tuple[Ints, Bools]:
        """How many neurons lie left of `[lowest, highest]` `(M,)`, and whether none switches inside (Lemma 7)."""
        i = self._left_of(highest)
        return i, self._before(i) <= lowest

    def room(self, z: Floats, i: Ints) -> Floats:
        """Distance from `z` to the nearest threshold on either side."""
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
        found = self.low.take(i, mode="clip")
        if i.max(initial=0) == len(self.low):
            found[i == len(self.low)] = np.inf
        return found

    def _before(self, i: Ints) -> Floats:
        """Where the first `i` neurons have all switched, `(M,)`; −∞ for none. The whole is never copied."""
        if len(self.high) == 0:
            return np.full(len(i), -np.inf)
        found = self.high.take(i - 1, mode="clip")
        if i.min(initial=1) == 0:
            found[i == 0] = -np.inf
        return found


def read_staircase(stored: Stored, stage: int = 1) -> Staircase:
    """One stage of the stored readout, from 1."""
    block = f"feed_forward.stages.{stage - 1}"
    return staircase(stored.steps(block), stored[f"{block}.bias_2"], stored.format, stored.config["readout"], block)


def staircase(steps: Steps, bias_2: NDArray[Any], fmt: Format, form: str, block: str) -> Staircase:
    """Neurons that read one number, `w`, `b` `(H,)`, and what they write `(m, …)`, of a readout `form`.

    `block` is what they belong to.
    """
    w, b, weight_2 = steps
    check_sizes(w, True, fmt, f"{block}.weight_1")
    check_sizes(b, False, fmt, f"{block}.bias_1")
    low, high = thresholds(w, b)
    if (w < 0).any() or not (low[1:] >= low[:-1]).all():
        raise UnhandledError(f"the steps of {block} must rise, and stand in order")
    np.maximum.accumulate(high, out=high)
    if form == "runs":
        return Staircase(low, high, _labels(weight_2, bias_2, fmt))
    written, bias = weight_2.astype(np.float64, copy=False), bias_2.astype(np.float64)[:, None]
    for values in (written, bias):
        check_sizes(values, False, fmt, f"{block}.weight_2 or bias_2")
    if not sums_are_exact([bias, written], fmt):
        raise UnhandledError(f"sums of what {block} writes may round")
    # Left of all steps every neuron is on; each one that is passed takes what it writes away.
    first = bias + written.sum(axis=1, keepdims=True)
    return Staircase(low, high, np.concatenate([first, first - np.cumsum(written, axis=1)], axis=1))


def _labels(labels: NDArray[Any], bias_2: NDArray[Any], fmt: Format) -> Floats:
    """Lemma 12: one indicator per run is 1 and all others are 0, so the label comes out as it is stored.

    Nothing is asked of the labels `(m, H + 1)` but that they are finite, and not flushed: no two of them are added.
    """
    size = np.abs(labels)
    if not ((size < np.inf) & ((size >= fmt.tiny) | (size == 0))).all():
        raise UnhandledError(
            "a label is not finite, or subnormal: an evaluation may flush it to 0; round it to 0 in the data"
        )
    if bias_2.any():
        raise UnhandledError("a readout of runs must have no bias behind its labels")
    return labels.astype(np.float64)


def sums_are_exact(numbers: list[Floats], fmt: Format) -> bool:
    """Lemma 8: whether no sum of any of these numbers, `(m, …)` each, rounds in any order."""
    total = PADDING * sum((np.abs(part).sum(axis=1) for part in numbers), np.zeros(1))
    if (total * fmt.unit < 1.0).all() and all((np.rint(part) == part).all() for part in numbers):
        return True  # no bit of a whole number is less than 1
    return bool((total * fmt.unit < np.minimum.reduce([_lowest_bit(part) for part in numbers])).all())


def _lowest_bit(numbers: Floats) -> Floats:
    """The last bit that is set in any of the numbers of each row `(m,)`."""
    lowest = np.full(len(numbers), 2.0**900)
    for part in slices(numbers.shape[1]):
        mantissa, exponent = np.frexp(np.where(numbers[:, part] == 0, 2.0**900, numbers[:, part]))
        whole = (mantissa * 2.0**53).astype(np.int64)
        bits = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
        np.minimum(lowest, bits.min(axis=1), out=lowest)
    return lowest


def check_sizes(values: NDArray[Any], nonzero: bool, fmt: Format, name: str) -> None:
    """Lemma 6 asks for numbers that neither overflow nor are flushed to zero."""
    flat = values.reshape(-1)
    for part in slices(len(flat)):
        size = np.abs(flat[part])
        if fmt.smallest <= size.min() and size.max() <= fmt.largest:
            continue
        if not ((size >= fmt.smallest) & (size <= fmt.largest) | (size == 0) & (not nonzero)).all():
            raise UnhandledError(f"{name} goes outside ±[{fmt.smallest:.3g}, {fmt.largest:.3g}]")


def thresholds(w: NDArray[Any], b: NDArray[Any]) -> tuple[Floats, Floats]:
    """Lemma 6, for `w > 0`: left and right of `[low, high]`, neuron `j` is at rest in every evaluation."""
    low, high = np.empty(len(w)), np.empty(len(w))
    for part in slices(len(w)):
        low[part], high[part] = _thresholds(w[part], b[part])
    return low, high


def _thresholds(w: NDArray[Any], b: NDArray[Any]) -> tuple[Floats, Floats]:
    """Those of some neurons."""
    # The least float that is at least 1 − b, in the stored format: the error of a sum of two is a float.
    above = 1 - b
    back = above - 1
    _move(above, (1 - (above - back)) + (-b - back) > 0, np.inf)
    low, high = -b.astype(np.float64) / w, above.astype(np.float64) / w  # w z + b ≤ 0 up to low, ≥ 1 from high on
    # Quotients by powers of two are exact: normal numbers whose bits behind the point are all 0.
    rounded = w.view(f"u{w.itemsize}") & ((1 << np.finfo(w.dtype).nmant) - 1) != 0
    _move(low, rounded, -np.inf)
    _move(high, rounded, np.inf)
    # A binary search passes the step at this float, which is `low` itself where the ramp is below its rounding.
    search = (-b / w + 1 / w).astype(np.float64)
    if not (search > low).all():
        reached = np.flatnonzero(~(search > low))
        low[reached] = np.nextafter(search[reached], -np.inf)
    return low, np.maximum(high, search)


def _move(numbers: NDArray[Any], where: Bools, towards: float) -> None:
    """Put the next float in a direction in the place of some numbers."""
    if where.any():
        some = np.flatnonzero(where)
        numbers[some] = np.nextafter(numbers[some], numbers.dtype.type(towards))


def answers(stored: Stored, value: Floats) -> Ints:
    """Class that every evaluation returns, given its label coordinate `(M,)`; −1: unsure.

    Lemma 10: the head `2 j ŷ − j²` picks the class nearest to `ŷ`.
    """
    check_nearest(stored)
    return nearest(stored, value)


def check_nearest(stored: Stored) -> None:
    """Raise an error unless the head is that of Lemma 10."""
    weight, bias = stored["head.weight"], stored["head.bias"]
    number = np.arange(float(len(bias)))
    wanted = np.zeros(weight.shape)
    wanted[:, LABEL] = 2.0 * number
    if not (np.array_equal(weight, wanted) and np.array_equal(bias, -number * number)):
        raise UnhandledError("the head must read the label slot alone, and be 2 j y − j² for class j")


def nearest(stored: Stored, value: Floats) -> Ints:
    """`answers`, once `check_nearest` has looked at the head."""
    fmt, C = stored.format, len(stored["head.bias"])
    whole = np.rint(value)
    sure = 2.0 * np.abs(value - whole) + 32.0 * fmt.unit * C * C < 1.0
    return np.where(sure, np.clip(whole, 0, C - 1), -1).astype(np.int64)


def copies(stored: Stored) -> bool:
    """Whether the head hands the label slots on as they are."""
    m = stored.config["labels"]
    behind = stored.config["width"] - LABEL - m
    copy = np.concatenate([np.zeros((m, LABEL)), np.eye(m), np.zeros((m, behind))], axis=1)
    return np.array_equal(stored["head.weight"], copy) and not stored["head.bias"].any()
