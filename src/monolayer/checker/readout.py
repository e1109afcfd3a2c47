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

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.network import LABEL, StepWeights, Stored
from monolayer.checker.rounding import PADDING, Format, UnhandledError


@dataclass(frozen=True, eq=False)
class CheckedStaircase:
    """Label coordinates as a function of `z` that is constant where no neuron switches.

    `low`, `high` `(H,)`, each rising. Once `i` neurons are passed, coordinate `a` is `level[a, i]` in every evaluation.
    """

    low: Floats
    high: Floats
    level: Floats

    def passed(self, lowest: Floats, highest: Floats) -> tuple[Ints, Bools]:
        """How many neurons lie left of `[lowest, highest]` `(M,)`, and whether none switches inside (Lemma 7)."""
        i = np.searchsorted(self.low, highest, side="left")
        return i, self._before(i) <= lowest

    def room(self, z: Floats, i: Ints) -> Floats:
        """Distance from `z` to the nearest threshold on either side."""
        behind = np.full(len(z), np.inf)
        some = i < len(self.low)
        behind[some] = self.low[i[some]]
        distance: Floats = np.minimum(behind - z, z - self._before(i))
        return distance

    def _before(self, i: Ints) -> Floats:
        """Where the first `i` neurons have all switched, `(M,)`; −∞ for none. The whole is never copied."""
        found = np.full(len(i), -np.inf)
        some = i > 0
        found[some] = self.high[i[some] - 1]
        return found


def read_staircase(stored: Stored, stage: int = 1) -> CheckedStaircase:
    """One stage of the stored readout, from 1."""
    block = f"feed_forward.stages.{stage - 1}"
    return checked_staircase(
        stored.steps(block), stored[f"{block}.bias_2"], stored.format, stored.config["readout"], block
    )


def checked_staircase(steps: StepWeights, bias_2: NDArray[Any], fmt: Format, form: str, block: str) -> CheckedStaircase:
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
        return CheckedStaircase(low, high, _labels(weight_2, bias_2, fmt))
    written, bias = weight_2.astype(np.float64, copy=False), bias_2.astype(np.float64)[:, None]
    for values in (written, bias):
        check_sizes(values, False, fmt, f"{block}.weight_2 or bias_2")
    if not sums_are_exact([bias, written], fmt):
        raise UnhandledError(f"sums of what {block} writes may round")
    # Left of all steps every neuron is on; each one that is passed takes what it writes away.
    first = bias + written.sum(axis=1, keepdims=True)
    return CheckedStaircase(low, high, np.concatenate([first, first - np.cumsum(written, axis=1)], axis=1))


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
    return bool((total * fmt.unit < np.minimum.reduce([_lowest_bit(part) for part in numbers])).all())


def _lowest_bit(numbers: Floats) -> Floats:
    """The last bit that is set in any of the numbers of each row `(m,)`."""
    mantissa, exponent = np.frexp(np.where(numbers == 0, 2.0**900, numbers))
    whole = (mantissa * 2.0**53).astype(np.int64)
    bits = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
    return np.asarray(bits.min(axis=1, initial=2.0**900))


def check_sizes(values: NDArray[Any], nonzero: bool, fmt: Format, name: str) -> None:
    """Lemma 6 asks for numbers that neither overflow nor are flushed to zero."""
    size = np.abs(values)
    if not ((size >= fmt.smallest) & (size <= fmt.largest) | (size == 0) & (not nonzero)).all():
        raise UnhandledError(f"{name} goes outside ±[{fmt.smallest:.3g}, {fmt.largest:.3g}]")


def thresholds(w: NDArray[Any], b: NDArray[Any]) -> tuple[Floats, Floats]:
    """Lemma 6, for `w > 0`: left and right of `[low, high]`, neuron `j` is at rest in every evaluation."""
    # The least float that is at least 1 − b, in the stored format: the error of a sum of two is a float.
    above = 1 - b
    back = above - 1
    np.nextafter(above, b.dtype.type(np.inf), out=above, where=(1 - (above - back)) + (-b - back) > 0)
    low, high = -b.astype(np.float64) / w, above.astype(np.float64) / w  # w z + b ≤ 0 up to low, ≥ 1 from high on
    rounded = np.frexp(w)[0] != 0.5  # quotients by powers of two are exact
    np.nextafter(low, -np.inf, out=low, where=rounded)
    np.nextafter(high, np.inf, out=high, where=rounded)
    # A binary search passes the step at this float, which is `low` itself where the ramp is below its rounding.
    search = (-b / w + 1 / w).astype(np.float64)
    return np.minimum(low, np.nextafter(search, -np.inf)), np.maximum(high, search)


def head_classes(stored: Stored, value: Floats) -> Ints:
    """Class that every evaluation returns, given its label coordinate `(M,)`; −1: unsure.

    Lemma 10: the head `2 j ŷ − j²` picks the class nearest to `ŷ`.
    """
    weight, bias = (stored[name].astype(np.float64) for name in ("head.weight", "head.bias"))
    fmt, C, number = stored.format, len(bias), np.arange(float(len(bias)))
    wanted = np.zeros_like(weight)
    wanted[:, LABEL] = 2.0 * number
    if not (np.array_equal(weight, wanted) and np.array_equal(bias, -number * number)):
        raise UnhandledError("the head must read the label slot alone, and be 2 j y − j² for class j")
    nearest = np.rint(value)
    sure = 2.0 * np.abs(value - nearest) + 32.0 * fmt.unit * C * C < 1.0
    return np.where(sure, np.clip(nearest, 0, C - 1), -1).astype(np.int64)


def copies(stored: Stored) -> bool:
    """Whether the head hands the label slots on as they are."""
    m = stored.config["labels"]
    behind = stored.config["width"] - LABEL - m
    copy = np.concatenate([np.zeros((m, LABEL)), np.eye(m), np.zeros((m, behind))], axis=1)
    return np.array_equal(stored["head.weight"], copy) and not stored["head.bias"].any()
