"""From `z` to label coordinates, and from those to answers, for whatever neurons and head are stored.

Notation: neuron `j` computes `relu(w_j z + b_j)`, `H` neurons, `m` label coordinates. Rounding is monotone, so a
step of the exact readout is exactly 1 for every float `z ≤ low_j` and exactly 0 for every float `z ≥ high_j` (the
other way round if `w_j < 0`), for any weights (Lemma 6). Between two sorted thresholds nothing switches:

    h_j   1 ────────────╮ low_j                 h_j of `paper`            ╱
                         ╲                                               ╱
          0               ╰─────────── high_j         ──────────────────╯ low_j ≈ high_j
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import BINARY64, PADDING, Format, UnhandledError
from monolayer.checker.stored import LABEL, Steps, Stored


@dataclass(frozen=True, eq=False)
class Staircase:
    """Label coordinates as a function of `z` that is linear where no neuron switches.

    `low`, `high` `(H,)`, each sorted. Once `i` neurons are passed, our evaluation of coordinate `a` is
    `level[a, i] + slope[a, i] z`; `fixed[a, i] + growing[a, i] |z|` bounds what rounding does to it and to another.
    """

    low: Floats
    high: Floats
    level: Floats
    slope: Floats | None
    fixed: Floats
    growing: Floats | None

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
        """Where the last of the first `i` neurons has switched, `(M,)`; −∞ for none. The whole is never copied."""
        found = np.full(len(i), -np.inf)
        some = i > 0
        found[some] = self.high[i[some] - 1]
        return found

    def labels(self, z: Floats, radius: Floats, i: Ints) -> tuple[Floats, Floats]:
        """Coordinates `(m, M)` and how far those of another evaluation may be, `|ẑ − z| ≤ radius`."""
        value, error = self.level[:, i], self.fixed if self.fixed.shape[1] == 1 else self.fixed[:, i]
        if self.slope is not None and self.growing is not None:
            slope, growing = self.slope[:, i], self.growing[:, i]
            value = value + slope * z
            error = PADDING * (error + growing * (np.abs(z) + 2.0 * radius) + np.abs(slope) * radius)
        return value, error


def read_staircase(stored: Stored, stage: int = 1) -> Staircase:
    """The stored readout, or one stage of a cascade, from 1."""
    form, block = stored.config["readout"], "feed_forward"
    if form == "cascade":
        form, block = "exact" if stored.config["target"] == "classes" else "runs", f"feed_forward.stages.{stage - 1}"
    parts, bias_2 = stored.steps(block), stored[f"{block}.bias_2"]
    if form == "runs":
        return _runs(parts, bias_2, stored.format)
    return staircase(parts, bias_2, stored.format, form == "exact", block)


def staircase(parts: list[Steps], bias_2: NDArray[Any], fmt: Format, exact: bool, block: str) -> Staircase:
    """Neurons that read one number, `w`, `b` `(H,)` and what they write `(m, H)`, part by part, sorted by thresholds.

    `block` is what they belong to. Tables of several parts lie in temporary files: no more is held than is looked at.
    """
    bias = bias_2.astype(np.float64)[:, None]
    check_sizes(bias, False, fmt, f"{block}.bias_2")
    for part in parts:
        for name, values in zip(("weight_1", "bias_1", "weight_2"), part, strict=True):
            check_sizes(values, name == "weight_1", fmt, f"{block}.{name}")
        if not exact and (part[0] < 0).any():
            raise UnhandledError("a neuron of the paper readout falls: weight_1 must be positive")
    low, high = _ends(parts, exact)
    if not _rises(low):
        order = np.argsort(low, kind="stable")
        w, b, weight_2 = (np.concatenate(column, axis=-1)[..., order] for column in zip(*parts, strict=True))
        low, parts = low[order], [(w, b, weight_2)]
    if not _rises(high):
        high.sort()
    if not exact:
        w, b, weight_2 = (values.astype(np.float64) for values in parts[0])
        return _kinks(low, high, w, b, weight_2, bias, fmt)
    level, at = _table((len(bias), len(low) + 1), parts), 0
    level[:, :1] = bias
    for w, _, weight_2 in parts:
        level[:, :1] += np.where(w > 0, weight_2, 0.0).sum(axis=1, keepdims=True, dtype=np.float64)
    for w, _, weight_2 in parts:
        here = level[:, at + 1 : at + 1 + len(w)]
        np.cumsum(np.where(w > 0, -weight_2, weight_2), axis=1, dtype=np.float64, out=here)
        here += level[:, at : at + 1]
        at += len(w)
    error = sum_error([bias, *(weight_2.astype(np.float64, copy=False) for _, _, weight_2 in parts)], fmt)
    return Staircase(low, high, level, None, error, None)


def _runs(parts: list[Steps], bias_2: NDArray[Any], fmt: Format) -> Staircase:
    """Lemma 12: one indicator per run is 1 and all others are 0, so the label comes out as it is stored.

    Nothing is asked of the labels `(m, H + 1)` but that they are finite: no two of them are ever added.
    """
    for w, b, _ in parts:
        check_sizes(w, True, fmt, "feed_forward.weight_1")
        check_sizes(b, False, fmt, "feed_forward.bias_1")
    low, high = _ends(parts, True)
    if not (all((w > 0).all() for w, _, _ in parts) and _rises(low)):
        raise UnhandledError("the steps of the readout must rise, and stand in the order of the runs between them")
    if not _rises(high):
        high.sort()
    bias, at = bias_2[:, None], 0
    level, fixed = _table((len(bias), len(low) + 1), parts), np.zeros((len(bias), 1))
    for _, _, labels in parts:
        here = slice(at, at + labels.shape[1])
        own = labels + bias  # in the stored format: the one sum of two numbers that are not zero
        if not (np.isfinite(labels).all() and np.isfinite(own).all()):
            raise UnhandledError("the readout holds labels that are no finite numbers")
        flushed = sum(np.where(np.abs(part) < fmt.tiny, np.abs(part), 0.0) for part in (labels, bias, own))
        if np.any(flushed):
            fixed = fixed if fixed.shape == level.shape else np.zeros(level.shape)
            fixed[:, here] = 2.0 * np.asarray(flushed, np.float64)
        level[:, here], at = own, here.stop
    return Staircase(low, high, level, None, fixed, None)


def _ends(parts: list[Steps], exact: bool) -> tuple[Floats, Floats]:
    """Where the neurons of all parts switch, `low` and `high` `(H,)`."""
    total, at = sum(len(w) for w, _, _ in parts), 0
    low, high = _table((total,), parts), _table((total,), parts)
    for w, b, _ in parts:
        here = slice(at, at + len(w))
        (low[here], high[here]), at = thresholds(w, b, exact), here.stop
    return low, high


def _rises(numbers: Floats) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _table(shape: tuple[int, ...], parts: list[Steps]) -> Floats:
    """Room for numbers: in memory for one part, in a temporary file for several; NumPy maps no file that is empty."""
    if len(parts) == 1 or 0 in shape:
        return np.empty(shape)
    with tempfile.TemporaryFile() as file:
        return np.asarray(np.memmap(file, np.float64, "w+", shape=shape))


def _lowest_bit(numbers: Floats) -> Floats:
    """The last bit that is set in any of the numbers of each row `(m, 1)`."""
    mantissa, exponent = np.frexp(np.where(numbers == 0, 2.0**900, numbers))
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest: Floats = np.ldexp((whole & -whole).astype(np.float64), exponent - 53).min(
        axis=1, keepdims=True, initial=2.0**900
    )
    return lowest


def check_sizes(values: NDArray[Any], nonzero: bool, fmt: Format, name: str) -> None:
    """Lemma 6 asks for numbers that neither overflow nor are flushed to zero."""
    size = np.abs(values)
    if not ((size >= fmt.smallest) & (size <= fmt.largest) | (size == 0) & (not nonzero)).all():
        raise UnhandledError(f"{name} goes outside ±[{fmt.smallest:.3g}, {fmt.largest:.3g}]")


def thresholds(w: NDArray[Any], b: NDArray[Any], exact: bool) -> tuple[Floats, Floats]:
    """Lemma 6: left and right of `[low, high]`, neuron `j` is at rest in every evaluation."""
    rounded = (np.abs(np.frexp(w)[0]) != 0.5) | (
        not exact
    )  # quotients by powers of two are exact; kinks need low < high
    zero = -b.astype(np.float64) / w  # w z + b ≤ 0 from here on
    ends = [zero, zero]
    if exact:
        # The least float that is at least 1 − b, in the stored format: the error of a sum of two is a float.
        above = 1 - b
        back = above - 1
        np.nextafter(above, b.dtype.type(np.inf), out=above, where=(1 - (above - back)) + (-b - back) > 0)
        ends[1] = above.astype(np.float64) / w  # w z + b ≥ 1 from here on
    low, high = np.minimum(*ends), np.maximum(*ends)
    np.nextafter(low, -np.inf, out=low, where=rounded)
    np.nextafter(high, np.inf, out=high, where=rounded)
    if exact:
        # A binary search passes the step at this float, which is `low` itself where the ramp is below its rounding.
        search = (-b / w + 1 / w).astype(np.float64)
        low, high = np.minimum(low, np.nextafter(search, -np.inf)), np.maximum(high, search)
    return low, high


def _running(steps: Floats, start: Floats) -> Floats:
    """`(m, H + 1)`: `start` plus the first `i` columns of `steps`."""
    return np.cumsum(np.concatenate([start, steps], axis=1), axis=1)


def sum_error(numbers: list[Floats], fmt: Format) -> Floats:
    """Lemma 8: `(m, 1)` bounds on the difference of two sums of any of these numbers, `(m, …)` each; 0 where no sum
    can round."""
    total = PADDING * sum((np.abs(part).sum(axis=1, keepdims=True) for part in numbers), np.zeros((1, 1)))
    whole_sums = total * fmt.unit < np.minimum.reduce([_lowest_bit(part) for part in numbers])
    if whole_sums.all():
        return np.zeros_like(total)
    terms = float(sum(part.shape[1] for part in numbers))
    rounding = 2.0 * (BINARY64.gamma(2.0 * terms) + fmt.gamma(2.0 * terms))
    return np.where(whole_sums, 0.0, PADDING * (rounding * total + 4.0 * terms * fmt.tiny))


def _kinks(low: Floats, high: Floats, w: Floats, b: Floats, weight_2: Floats, bias_2: Floats, fmt: Format) -> Staircase:
    """Lemma 9: the paper readout, whose terms are large and cancel, with the bound that any order needs."""
    slope, level = _running(weight_2 * w, 0.0 * bias_2), _running(weight_2 * b, bias_2)
    growing = _running(np.abs(weight_2 * w), 0.0 * bias_2)
    fixed = _running(np.abs(weight_2 * b), np.abs(bias_2))
    terms = len(w) + 5.0
    rounding = PADDING * (BINARY64.gamma(terms) + fmt.gamma(terms))
    underflow = 8.0 * terms * (1.0 + np.abs(weight_2).sum(axis=1, keepdims=True)) * fmt.tiny
    return Staircase(low, high, level, slope, rounding * fixed + underflow, rounding * growing)


def answers(stored: Stored, value: Floats, error: Floats) -> Ints:
    """Class that every evaluation returns, given its label coordinate `(M,)` to within `error`; −1: unsure.

    Lemma 10: the head `2 j ŷ − j²` picks the class nearest to `ŷ`.
    """
    weight, bias = (stored[name].astype(np.float64) for name in ("head.weight", "head.bias"))
    fmt, C, number = stored.format, len(bias), np.arange(float(len(bias)))
    wanted = np.zeros_like(weight)
    wanted[:, LABEL] = 2.0 * number
    if not (np.array_equal(weight, wanted) and np.array_equal(bias, -number * number)):
        raise UnhandledError("the head must read the label slot alone, and be 2 j y − j² for class j")
    nearest = np.rint(value)
    sure = 2.0 * (np.abs(value - nearest) + error) + 32.0 * fmt.unit * C * C < 1.0
    return np.where(sure, np.clip(nearest, 0, C - 1), -1).astype(np.int64)


def copies(stored: Stored) -> bool:
    """Whether the head hands the label slots on as they are."""
    m = stored.config["labels"]
    behind = stored.config["width"] - LABEL - m
    copy = np.concatenate([np.zeros((m, LABEL)), np.eye(m), np.zeros((m, behind))], axis=1)
    return np.array_equal(stored["head.weight"], copy) and not stored["head.bias"].any()
