"""Fewer weights than labels, in exact arithmetic: one wide number holds the labels of a group (docs/rate.md).

For `M` labels of sequences of one length `n`. Letters: `G` points per group, `h` bits of a hash, `l` bits of a label,
`k = G(h + l)` bits per group.

1. *Attention* has λ = 0 and whole random keys `s`: `n` times its mean is the sum of the keys. With whole random codes
   `t` of the tokens every point gets a whole number `u = t + Σ s`; they are drawn again until all differ.
2. *Selection.* Sorted by `u` and cut into groups, the points of group `j` share one number `A_j < 1` with `k` digits 0
   or 3 in base 4. Steps of width 1, between whole numbers, return it: `1 − relu(1 − relu(u − p))` is 0 for whole
   `u ≤ p`, and 1 above.
3. *Hash.* `v = u mod 2^h`, which no two points of a group share: the bits of `u` above are taken off, highest first.
   `relu(v − 2^i + 1) − relu(v − 2^i)` is 1 for whole `v ≥ 2^i`, and 0 below.
4. *Extraction.* If the leading digit of `y` is 0, `y ≤ 1/4`; if it is 3, `y ≥ 3/4`. So its bit is
   `e = 2 relu(y − 1/4) − 2 relu(y − 3/4)`, and `4y − 3e` is what follows. This needs no wide number.
   `w ← 2w + e` reads a hash, then a label. `g = relu(v − w + 1) − 2 relu(v − w) + relu(v − w − 1)` is 1 if `w = v`,
   else 0, and `relu(label + 2^l g − 2^l)` is the label or 0.

Every layer is an affine map and ReLU. So the same weights run exactly in whole numbers, and in floats as far as these
go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from monolayer.arrays import Ints
from monolayer.errors import DataError

STEP_WEIGHTS, DIGIT_WEIGHTS, POINT_WEIGHTS = 5, 16, 20
"""About how many weights a step, a digit and a point of a group cost; the size of groups is chosen by them."""
DRAWS = 64
"""How often keys and codes are drawn until all points have different numbers; a draw mostly succeeds."""

Row = dict[str, Fraction | int]
"""An affine form: a weight for each number that it reads, and the bias under the name `1`."""


@dataclass(frozen=True, eq=False)
class WideNetwork:
    """Keys `s` and codes `t` of the tokens, the layers behind attention, the answer as an affine form of the last.

    A layer has its neurons by name, each `relu` of an affine form of the layer before; the first one reads `u`.
    `digits` of a wide number: `k`.
    """

    keys: list[int]
    codes: list[int]
    layers: list[dict[str, Row]]
    answer: Row
    length: int
    digits: int

    def weights(self) -> list[Fraction | int]:
        """All weights and biases that are not 0: tables, value and output of attention (1 and `n`), layers, answer."""
        rows = [row for layer in self.layers for row in layer.values()]
        inside = [weight for row in [*rows, self.answer] for weight in row.values()]
        return [weight for weight in [*self.keys, *self.codes, 1, self.length, *inside] if weight != 0]

    def bits(self) -> int:
        """Significant bits of all weights, and a bit for each sign; exponents are not counted."""
        return sum(significant(weight) + 1 for weight in self.weights())

    def predict(self, X: ArrayLike) -> Ints:
        """The labels `(N, n)` of ids, exactly: numbers are whole multiples of `4^−k`, in Python's integers."""
        X, unit = np.asarray(X, dtype=np.int64), 4**self.digits

        def times(weight: Fraction | int, value: Any) -> Any:
            product = value * weight.numerator
            if weight.denominator > 1 and (product % weight.denominator != 0).any():
                raise ArithmeticError("a number of the network is no multiple of 4^-k")
            return product // weight.denominator

        keys, codes = (np.array(table, dtype=object) for table in (self.keys, self.codes))
        mean = [Fraction(total, self.length) for total in keys[X].sum(axis=1)]
        u = codes[X] + np.array([int(self.length * each) for each in mean], dtype=object)[:, None]
        readout = self._run(u.ravel() * unit, times, unit)
        if (readout % unit != 0).any():
            raise ArithmeticError("an answer is not whole")
        labels: Ints = (readout // unit).astype(np.int64).reshape(X.shape)
        return labels

    def predict_in_floats(self, X: ArrayLike) -> Ints:
        """The same with every weight rounded to float64 and every operation in it: wide numbers lose their ends."""
        X = np.asarray(X, dtype=np.int64)
        keys, codes = (np.array(table, dtype=np.float64) for table in (self.keys, self.codes))
        u = codes[X] + (self.length * keys[X].mean(axis=1))[:, None]
        readout = self._run(u.ravel(), lambda weight, value: float(weight) * value, 1.0)
        labels: Ints = np.round(readout).astype(np.int64).reshape(X.shape)
        return labels

    def _run(self, u: Any, times: Callable[[Fraction | int, Any], Any], one: Any) -> Any:
        def form(row: Row, state: dict[str, Any]) -> Any:
            return sum(times(weight, state[name]) for name, weight in row.items())

        bias = np.full(u.shape, one, dtype=u.dtype)
        state = {"u": u, "1": bias}
        for layer in self.layers:
            state = {name: np.maximum(form(row, state), 0) for name, row in layer.items()} | {"1": bias}
        return form(self.answer, state)


def significant(weight: Fraction | int) -> int:
    """Bits from the first 1 to the last of a fraction whose denominator is a power of two."""
    numerator = abs(weight.numerator)
    return (numerator // (numerator & -numerator)).bit_length()


def wide(X: ArrayLike, Y: ArrayLike, *, group: int | None = None, seed: int = 0) -> WideNetwork:
    """A network of exact weights that returns the labels `Y` `(N, n)` of the ids `X` `(N, n)`.

    `group`: points per wide number; None: about as many as need the fewest weights.
    """
    X, Y = np.asarray(X, dtype=np.int64), np.asarray(Y, dtype=np.int64)
    if X.ndim != 2 or X.shape != Y.shape or X.size == 0:
        raise DataError(f"ids have shape {X.shape} and labels {Y.shape}: both (N, n), with at least one, are needed")
    if X.min() < 0 or Y.min() < 0 or (group is not None and group < 1):
        raise DataError("ids and labels are whole numbers from 0 on, and a group has a point or more")
    keys, codes, u = _numbered(X, seed)
    order = np.argsort(u, axis=None)
    points, labels = u.ravel()[order].tolist(), Y.ravel()[order].tolist()
    label_bits = max(1, max(labels).bit_length())
    size = group or _best_group(len(points), label_bits)
    groups = [range(start, min(start + size, len(points))) for start in range(0, len(points), size)]
    hash_bits = _hash_bits([[points[place] for place in each] for each in groups])
    read = [
        "".join(f"{points[i] % 2**hash_bits:0{hash_bits}b}{labels[i]:0{label_bits}b}" for i in each) for each in groups
    ]
    net = _Builder()
    net.select([points[each[-1]] for each in groups], [Fraction(3 * int(bits, 4), 4 ** len(bits)) for bits in read])
    net.low_bits(points[-1].bit_length(), hash_bits)
    for _ in range(size):
        net.read_point(hash_bits, label_bits)
    return WideNetwork(keys, codes, net.layers, net.finish(label_bits), X.shape[1], size * (hash_bits + label_bits))


def _numbered(X: Ints, seed: int) -> tuple[list[int], list[int], Ints]:
    """Keys, codes and the different numbers `u` of all points."""
    highest = 1 << (2 * X.size.bit_length())
    for draw in range(DRAWS):
        keys, codes = np.random.default_rng([seed, draw]).integers(0, highest, (2, int(X.max()) + 1))
        u = codes[X] + keys[X].sum(axis=1)[:, None]
        if len(np.unique(u)) == u.size:
            return keys.tolist(), codes.tolist(), u
    raise DataError("two points have one number in every draw: a token repeats, or two sequences have the same tokens")


def _best_group(count: int, label_bits: int) -> int:
    digits = label_bits + count.bit_length() + 2  # hashes are about as long as that
    return max(1, min(count, round(math.sqrt(STEP_WEIGHTS * count / (POINT_WEIGHTS + DIGIT_WEIGHTS * digits)))))


def _hash_bits(groups: Sequence[Sequence[int]]) -> int:
    """The fewest low bits that no two points of a group share."""
    bits = 1
    while any(len({point % 2**bits for point in group}) < len(group) for group in groups):
        bits += 1
    return bits


@dataclass
class _Builder:
    """Layers so far, and the numbers of the stream as affine forms of the last one; what has no form is 0."""

    layers: list[dict[str, Row]] = field(default_factory=list)
    forms: dict[str, Row] = field(default_factory=lambda: {"u": {"u": 1}})

    def layer(self, neurons: dict[str, Row], *kept: str) -> None:
        """A layer of `neurons`, affine forms of the stream, that passes on `kept` numbers, which are not negative."""
        rows = {name: self.expanded(row) for name, row in (neurons | {name: {name: 1} for name in kept}).items()}
        self.layers.append({name: row for name, row in rows.items() if row})
        self.forms = {name: {name: 1} for name in self.layers[-1]}

    def expanded(self, row: Row) -> Row:
        """A form of the stream as one of the last layer."""
        terms: Row = {}
        for name, weight in row.items():
            for inner, factor in ({"1": 1} if name == "1" else self.forms.get(name, {})).items():
                terms[inner] = terms.get(inner, 0) + weight * factor
        return {name: weight for name, weight in terms.items() if weight != 0}

    def become(self, **rows: Row) -> None:
        """Numbers of the stream become these forms of it, all at once."""
        self.forms |= {name: self.expanded(row) for name, row in rows.items()}

    def select(self, last: Sequence[int], numbers: Sequence[Fraction]) -> None:
        """`y` becomes the number of the group of `u`, and `v` becomes `u`; `last`: the largest `u` of each group."""
        inner = range(len(numbers) - 1)
        self.layer({f"p{j}": {"u": 1, "1": -last[j]} for j in inner}, "u")
        self.layer({f"q{j}": {f"p{j}": -1, "1": 1} for j in inner}, "u")
        # q_j is 1 up to the end of group j and 0 from the next whole number on.
        steps: Row = {f"q{j}": numbers[j] - numbers[j + 1] for j in inner}
        self.layer({"y": {**steps, "1": numbers[-1]}, "v": {"u": 1}})

    def low_bits(self, bits: int, kept: int) -> None:
        """`v`, below `2^bits`, becomes `v mod 2^kept`."""
        for bit in reversed(range(kept, bits)):
            power = 1 << bit
            self.layer({"a": {"v": 1, "1": 1 - power}, "b": {"v": 1, "1": -power}}, "v", "y")
            self.become(v={"v": 1, "a": -power, "b": power})

    def read_point(self, hash_bits: int, label_bits: int) -> None:
        """Read a hash and a label from `y`; if the hash is `v`, the label is added to `r`."""
        for digit in range(hash_bits):
            # The label of the point before, once it is read, is gated in the same layer as this digit is read.
            self.digit(self.gate(label_bits) if digit == 0 else {}, "v", "r")
        beside: list[Row] = [{"v": 1, "w": -1, "1": by} for by in (1, 0, -1)]
        for digit in range(label_bits):
            self.digit(dict(zip(("c", "d", "e"), beside, strict=True)) if digit == 0 else {}, "v", "r", "g")
            if digit == 0:
                self.become(g={"c": 1, "d": -2, "e": 1})

    def digit(self, neurons: dict[str, Row], *kept: str) -> None:
        """Read the leading digit of `y` into `w`; new `neurons`, which use up `w`, make it start from 0."""
        carried = kept if neurons else (*kept, "w")
        quarters: dict[str, Row] = {"a": {"y": 1, "1": Fraction(-1, 4)}, "b": {"y": 1, "1": Fraction(-3, 4)}}
        self.layer(neurons | quarters, "y", *carried)
        self.become(y={"y": 4, "a": -6, "b": 6}, w={"w": 2, "a": 2, "b": -2})
        if "o" in neurons:
            self.become(r={"r": 1, "o": 1})

    def gate(self, label_bits: int) -> dict[str, Row]:
        """The neuron that holds the label in `w` if the gate is 1; before the first point there is none."""
        whole = 1 << label_bits
        return {"o": {"w": 1, "g": whole, "1": -whole}} if "g" in self.forms else {}

    def finish(self, label_bits: int) -> Row:
        """The answer, once the last label has passed its gate."""
        self.layer(self.gate(label_bits), "r")
        return self.expanded({"r": 1, "o": 1})
