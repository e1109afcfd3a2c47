"""From `z` to label coordinates, and from those to answers, for whatever neurons and head are stored.

Notation: neuron `j` computes `relu(w_j z + b_j)`, `H` neurons, `m` label coordinates. Rounding is monotone, so a
step of the exact readout is exactly 1 for every float `z ≤ low_j` and exactly 0 for every float `z ≥ high_j` (the
other way round if `w_j < 0`), for any weights (Lemma 6). Between two sorted thresholds nothing switches:

    h_j   1 ────────────╮ low_j                 h_j of `paper`            ╱
                         ╲                                               ╱
          0               ╰─────────── high_j         ──────────────────╯ low_j ≈ high_j
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import BINARY64, PADDING, Format, UnhandledError
from monolayer.checker.stored import LABEL, Stored


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

    @property
    def exact(self) -> bool:
        """Whether every evaluation that lands on a plateau gives the same bits."""
        return self.slope is None and not self.fixed.any()

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
    w, b, weight_2, bias_2 = (stored[f"{block}.{name}"] for name in ("weight_1", "bias_1", "weight_2", "bias_2"))
    if form == "runs":
        return _runs(w, b, weight_2, bias_2, stored.format)
    return staircase(w, b, weight_2, bias_2, stored.format, form == "exact", block)


def staircase(
    w: NDArray[Any],
    b: NDArray[Any],
    weight_2: NDArray[Any],
    bias_2: NDArray[Any],
    fmt: Format,
    exact: bool,
    block: str,
) -> Staircase:
    """Neurons that read one number, `w`, `b` `(H,)`, sorted by their thresholds; `block` is what they belong to."""
    weight_2, bias_2 = weight_2.astype(np.float64), bias_2.astype(np.float64)[:, None]
    for name, values in (("weight_1", w), ("bias_1", b), ("weight_2", weight_2), ("bias_2", bias_2)):
        check_sizes(values, name == "weight_1", fmt, f"{block}.{name}")
    if not exact and (w < 0).any():
        raise UnhandledError("a neuron of the paper readout falls: weight_1 must be positive")
    low, high = thresholds(w, b, exact)
    order = slice(None) if (low[1:] >= low[:-1]).all() else np.argsort(low, kind="stable")
    w, b = w.astype(np.float64)[order], b.astype(np.float64)[order]
    low, weight_2 = low[order], weight_2[:, order]
    high = high if (high[1:] >= high[:-1]).all() else np.sort(high)
    if not exact:
        return _kinks(low, high, w, b, weight_2, bias_2, fmt)
    start = bias_2 + np.where(w > 0, weight_2, 0.0).sum(axis=1, keepdims=True)
    level = _running(np.where(w > 0, -weight_2, weight_2), start)
    return Staircase(low, high, level, None, _sum_error(weight_2, bias_2, fmt), None)


def mapped_staircase(stored: Stored, scratch: Path) -> Staircase | None:
    """The first stage of a readout whose steps lie apart, with its tables in files of the folder `scratch`.

    None where steps do not rise one after the other, or sums may round: then they must be looked at together.
    """
    assert stored.in_parts is not None
    block = "feed_forward.stages.0" if stored.config["readout"] == "cascade" else "feed_forward"
    bias_2, fmt = stored[f"{block}.bias_2"].astype(np.float64)[:, None], stored.format
    m, total = len(bias_2), sum(len(part[f"{block}.bias_1"]) for part in stored.in_parts)
    low, high, level = (_scratch(scratch / name, shape) for name, shape in _tables(m, total))
    if stored.config["target"] == "reals":
        return _mapped_runs(stored.in_parts, block, bias_2, fmt, (low, high, level))
    size, bit, start = np.abs(bias_2), _lowest_bit(bias_2), bias_2.copy()
    for part in stored.in_parts:
        for name in ("weight_1", "bias_1", "weight_2"):
            check_sizes(part[f"{block}.{name}"], name == "weight_1", fmt, f"{block}.{name}")
        weight_2 = part[f"{block}.weight_2"]
        start += weight_2.sum(axis=1, keepdims=True)
        size += np.abs(weight_2).sum(axis=1, keepdims=True)
        bit = np.minimum(bit, _lowest_bit(weight_2))
    check_sizes(bias_2, False, fmt, f"{block}.bias_2")
    if not (PADDING * size * fmt.unit < bit).all():
        return None
    at, level[:, :1] = 0, start
    for part in stored.in_parts:
        w, b = part[f"{block}.weight_1"], part[f"{block}.bias_1"]
        if not _rises(w, b, low, high, at):
            return None
        level[:, at + 1 : at + 1 + len(w)] = level[:, at : at + 1] - np.cumsum(part[f"{block}.weight_2"], axis=1)
        at += len(w)
    return Staircase(low, high, level, None, np.zeros((m, 1)), None)


def _mapped_runs(
    parts: list[dict[str, NDArray[Any]]], block: str, bias: Floats, fmt: Format, tables: tuple[Floats, Floats, Floats]
) -> Staircase | None:
    """Lemma 12 of labels that lie apart; None where anything is to be said about them, or they may be flushed."""
    (low, high, level), at, column = tables, 0, 0
    for part in parts:
        w, b, labels = (part[f"{block}.{name}"] for name in ("weight_1", "bias_1", "weight_2"))
        for values, least, most in (
            (w, fmt.smallest, fmt.largest),
            (b, fmt.smallest, fmt.largest),
            (labels, fmt.tiny, np.inf),
        ):
            size = np.abs(values)
            if not ((size >= least) & (size <= most) & np.isfinite(size) | (size == 0) & (values is not w)).all():
                return None
        if bias.any() or not _rises(w, b, low, high, at):
            return None
        level[:, column : column + labels.shape[1]] = labels
        at, column = at + len(w), column + labels.shape[1]
    return Staircase(low, high, level, None, np.zeros((len(bias), 1)), None)


def _rises(w: Floats, b: Floats, low: Floats, high: Floats, at: int) -> bool:
    """Whether the steps of a part rise, and stand behind the `at` before them; their thresholds into `low`, `high`."""
    here, ends = slice(at, at + len(w)), thresholds(w, b, True)
    low[here], high[here] = ends
    rises = bool((w > 0).all() and all((np.diff(end) >= 0).all() for end in ends))
    if at and len(w):
        rises = rises and bool(low[at] >= low[at - 1] and high[at] >= high[at - 1])
    return rises


def _tables(m: int, total: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("low", (total,)), ("high", (total,)), ("level", (m, total + 1))


def _scratch(path: Path, shape: tuple[int, ...]) -> Floats:
    """Numbers that lie in a file; NumPy maps no file that is empty."""
    return np.asarray(np.memmap(path, np.float64, "w+", shape=shape)) if 0 not in shape else np.zeros(shape)


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


def whole_sums(weight_2: Floats, others: Floats, fmt: Format) -> bool:
    """Lemma 8: whether no sum of any of these numbers, `(m, H)` and `(m, k)`, can round."""
    return not _sum_error(weight_2, others, fmt).any()


def _sum_error(weight_2: Floats, bias_2: Floats, fmt: Format) -> Floats:
    """Lemma 8: `(m, 1)` bounds on the difference of two sums of any of these numbers; 0 where no sum can round."""
    numbers = np.concatenate([weight_2, bias_2], axis=1)
    total = PADDING * np.abs(numbers).sum(axis=1, keepdims=True)
    whole_sums = total * fmt.unit < _lowest_bit(numbers)
    if whole_sums.all():
        return np.zeros_like(total)
    terms = float(numbers.shape[1])
    rounding = 2.0 * (BINARY64.gamma(2.0 * terms) + fmt.gamma(2.0 * terms))
    return np.where(whole_sums, 0.0, PADDING * (rounding * total + 4.0 * terms * fmt.tiny))


def _runs(w: NDArray[Any], b: NDArray[Any], labels: NDArray[Any], bias: NDArray[Any], fmt: Format) -> Staircase:
    """Lemma 12: one indicator a run is 1 and all others are 0, so the label comes out as it is stored.

    Nothing is asked of the labels `(m, H + 1)` but that they are finite: no two of them are ever added.
    """
    check_sizes(w, True, fmt, "feed_forward.weight_1")
    check_sizes(b, False, fmt, "feed_forward.bias_1")
    low, high = thresholds(w, b, True)
    if not ((w > 0).all() and (low[1:] >= low[:-1]).all()):
        raise UnhandledError("the steps of the readout must rise, and stand in the order of the runs between them")
    level = labels + bias[:, None]  # in the stored format: the one sum of two numbers that are not zero
    if not (np.isfinite(labels).all() and np.isfinite(level).all()):
        raise UnhandledError("the readout holds labels that are no finite numbers")
    flushed = sum(np.where(np.abs(part) < fmt.tiny, np.abs(part), 0.0) for part in (labels, bias[:, None], level))
    return Staircase(low, np.sort(high), level.astype(np.float64), None, 2.0 * np.asarray(flushed, np.float64), None)


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

    Lemma 10: the head `2 j ŷ − j²` picks the class nearest to `ŷ`. Any other head is tried at each integer.
    """
    weight, bias = (stored[name].astype(np.float64) for name in ("head.weight", "head.bias"))
    fmt, C = stored.format, len(bias)
    column, number = weight[:, LABEL], np.arange(float(C))
    size = np.abs(np.stack([column, bias]))
    if not ((size == 0) | (size >= fmt.smallest) & (size <= fmt.largest)).all() or np.delete(weight, LABEL, 1).any():
        raise UnhandledError(
            f"the head must read the label slot alone, with numbers in ±[{fmt.smallest:.3g}, {fmt.largest:.3g}] or 0"
        )
    nearest = np.rint(value)
    off = np.abs(value - nearest) + error
    if np.array_equal(column, 2.0 * number) and np.array_equal(bias, -number * number):
        sure = 2.0 * off + 32.0 * fmt.unit * C * C < 1.0
        return np.where(sure, np.clip(nearest, 0, C - 1), -1).astype(np.int64)
    integers, which = np.unique(nearest, return_inverse=True)
    if len(integers) * C > 1 << 26:
        raise UnhandledError(f"the head is not 2 j y − j², and its {C:,} classes are too many to try one by one")
    logits = integers[:, None] * column + bias
    doubt = PADDING * (
        2.0 * fmt.gamma(4.0) * (np.abs(integers[:, None] * column) + np.abs(bias)) + off.max() * np.abs(column)
    )
    doubt += 8.0 * (1.0 + np.abs(column)) * fmt.tiny  # a difference may underflow, a coordinate be flushed
    best = np.argmax(logits - doubt, axis=1)
    floor = np.take_along_axis(logits - doubt, best[:, None], axis=1)
    alone = ((logits + doubt >= floor).sum(axis=1) == 1) & (np.abs(integers) < 2.0**50)
    return np.where(alone, best, -1)[which]


def copies(stored: Stored) -> bool:
    """Whether the head hands the label slots on as they are."""
    m = stored.config["labels"]
    behind = stored.config["width"] - LABEL - m
    copy = np.concatenate([np.zeros((m, LABEL)), np.eye(m), np.zeros((m, behind))], axis=1)
    return np.array_equal(stored["head.weight"], copy) and not stored["head.bias"].any()
