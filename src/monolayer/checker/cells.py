"""The first block of an approximator, read from the file: the cell of each float, and the key and code of each cell.

Lemma 11 (docs/proofs.md): off its ramps every neuron of the block is exactly 0 or 1, so on a cell, a product of
plateaus, all evaluations give one and the same key and code. What is proved at its centre holds on the whole cell,
and the network is a function of finitely many sequences of cells.

    x_i   low ├──────────┤ramp├──────────┤ramp├──────────┤ high        plateaus [left_j, right_j] of a coordinate
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from monolayer.arrays import Floats, Ints
from monolayer.checker.network import CODE, KEY, LABEL, StepWeights, Stored
from monolayer.checker.readout import CheckedStaircase, checked_staircase, sums_are_exact
from monolayer.checker.rounding import BINARY64, UnhandledError
from monolayer.data import Labels, Sequences
from monolayer.data.labelling import TOKEN
from monolayer.errors import DataError

AskedFunction = Callable[[Floats], ArrayLike]
"""A function that an approximator is compared with: sequences `(B, n, d)` to values `(B, n, m)`."""
MOST_TOKENS = 1 << 27
"""Most tokens that all sequences of cells together may have, since each is tried: about ten gigabytes."""
SEQUENCES_AT_ONCE = 1 << 14
"""How many sequences the function gets at a time."""
EVERY = 1 << 20
"""Tokens of all sequences of cells up to which the function is tried in all orders; beyond, in a random sample."""
ROUNDING = 2.0**-20
"""Share of the largest value by which the function may miss equivariance: this covers its own rounding in binary32."""


@dataclass(frozen=True, eq=False)
class CellBlock:
    """The stored block: one staircase per coordinate of a token, on the domain `[low, high]`.

    Each staircase has two outputs; their sums over the coordinates are the key and the code of the token.
    """

    stored: Stored
    coordinates: tuple[CheckedStaircase, ...]
    low: float
    high: float

    def numbers(self, data: Sequences) -> tuple[Floats, Floats]:
        """Keys and codes of all tokens `(2, T)`, and of the begin token `(2,)`. They are exact, since no sum rounds."""
        bos = self.stored["bos"]
        tokens = np.concatenate([bos[None, -len(self.coordinates) :], data.tokens])
        total = np.zeros((2, len(tokens)))
        for stairs, column in zip(self.coordinates, tokens.T, strict=True):
            passed, sure = stairs.passed(column, column)
            if not sure.all():
                raise UnhandledError("the begin token, or the centre of a cell, lies on a ramp between two cells")
            total += stairs.level[:, passed]
        return total[:, 1:], bos[KEY : CODE + 1] + total[:, 0]

    @property
    def plateaus(self) -> list[tuple[Floats, Floats]]:
        """Left and right ends of the plateaus of each coordinate inside the domain, `(D,)` each."""
        found_stairs = []
        for stairs in self.coordinates:
            left, right = np.append(self.low, stairs.high), np.append(stairs.low, self.high)
            if not (left < right).all():
                raise UnhandledError("the ramps of the quantizer overlap, or leave the domain")
            found_stairs.append((left, right))
        return found_stairs

    @property
    def reach(self) -> float:
        """`h`: the largest distance of a coordinate off the ramps from the centre of its cell."""
        ends = [np.maximum(_middle(*pair) - pair[0], pair[1] - _middle(*pair)).max() for pair in self.plateaus]
        return float(max(ends)) * (1.0 + 2.0**-50)

    @property
    def ramp_share(self) -> float:
        """Share of all sequences of the domain in which some coordinate of some token lies on a ramp."""
        free = [float((right - left).sum()) / (self.high - self.low) for left, right in self.plateaus]
        return 1.0 - float(np.prod(free)) ** int(self.stored.config["grid"]["length"])

    def centres(self) -> Floats:
        """Centres of all cells `(V, d)`."""
        axes = np.meshgrid(*(_middle(*pair) for pair in self.plateaus), indexing="ij")
        return np.stack([axis.reshape(-1) for axis in axes], axis=1)


def read_cells(stored: Stored) -> CellBlock:
    """The stored block, once everything that Lemma 11 needs has been checked."""
    if stored.format is not BINARY64:
        raise UnhandledError("an approximator is covered in float64, as it is built")
    weight_1, bias_1 = stored["quantizer.weight_1"], stored["quantizer.bias_1"]
    weight_2, bias_2 = stored["quantizer.weight_2"], stored["quantizer.bias_2"]
    dim, end = stored.raw, LABEL + int(stored.config["labels"])
    lift, extra = stored["lift.weight"], [stored["bos"][KEY : CODE + 1, None]]
    if not (np.array_equal(lift[end:], np.eye(dim)) and not lift[:end].any() and not stored["lift.bias"][1:].any()):
        raise UnhandledError("the lift must copy the token behind the label slots and write nothing else but `one`")
    if stored.config["positions"]:
        if stored["positions.weight"][:, end:].any():
            raise UnhandledError("positions must not touch the coordinates that hold the token")
        extra.append(stored["positions.weight"][:, KEY : CODE + 1].T)
    reads = weight_1 != 0
    if not (reads.sum(axis=1) == 1).all():
        raise UnhandledError("every neuron of the quantizer must read exactly one coordinate")
    others = np.concatenate([bias_2[:, None], *extra], axis=1).astype(np.float64)
    if not np.isfinite(others).all() or not sums_are_exact([weight_2.astype(np.float64), others], stored.format):
        raise UnhandledError("the sums that make keys and codes of cells may round")
    coordinates = []
    for i in range(dim):
        mine = reads[:, i]
        start = bias_2 if i == 0 else np.zeros_like(bias_2)
        steps = StepWeights(weight_1[mine, i], bias_1[mine], weight_2[:, mine])
        coordinates.append(checked_staircase(steps, start, stored.format, "exact", "quantizer"))
    return CellBlock(
        stored, tuple(coordinates), float(stored.config["grid"]["low"]), float(stored.config["grid"]["high"])
    )


# -- the function ------------------------------------------------------------------------------------------
#
# A model without positions is permutation equivariant: `f(X π) = f(X) π` for every order π of the tokens. So it is
# compared with the function in one order of each multiset of cells. The function itself may not be equivariant, so it
# is asked in other orders too.


def function_values(f: AskedFunction, X: Floats, outputs: int) -> Floats:
    """The values of `f` at sequences `X` `(B, n, d)`, as `(B, n, m)`, `m` = `outputs`.

    An error if `f` fails, or returns other shapes or numbers that are not finite.
    """
    try:
        values = np.asarray(f(X.copy()), dtype=np.float64)
    except Exception as error:  # whatever the function of the caller raises is about that function
        raise DataError(
            f"the function failed on a batch of shape {X.shape}: {type(error).__name__}: {error}"
        ) from error
    wanted = (*X.shape[:2], outputs)
    if values.shape not in (wanted, X.shape[:2] if outputs == 1 else ()):
        raise DataError(
            f"the function returned an array of shape {values.shape} for a batch of shape {X.shape}: it must be "
            f"{wanted}"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).reshape(len(X), -1).all(axis=1))[0])
        raise DataError(f"the function is not finite at {X[row].tolist()}: it returned {values[row].tolist()}")
    return values.reshape(wanted)


class CellFunction(NamedTuple):
    """The sequences of cell centres that decide a claim about a function, each token labelled with the value there.

    `condition`: what the claim has to say about the order of tokens. `apart`: how far the function is from
    equivariance, None if it is equivariant, up to rounding, wherever it was asked.
    """

    data: Sequences
    condition: str = ""
    apart: float | None = None


def cell_function(stored: Stored, f: AskedFunction) -> CellFunction:
    """Ask `f` at all sequences of cell centres.

    Without positions, each multiset of cells is asked in one order; if `f` is found not to be equivariant, one more
    sequence shows it.
    """
    n, outputs = int(stored.config["grid"]["length"]), int(stored.config["labels"])
    centre, positions = read_cells(stored).centres(), bool(stored.config["positions"])

    def ask(rows: Ints) -> Floats:
        parts = [
            function_values(f, centre[rows[i : i + SEQUENCES_AT_ONCE]], outputs)
            for i in range(0, len(rows), SEQUENCES_AT_ONCE)
        ]
        return np.concatenate(parts)

    def labelled(rows: Ints, values: Floats) -> Sequences:
        labels = Labels(values.reshape(-1, outputs), TOKEN.name, None, bool(stored.config["scalar"]))
        return Sequences(centre[rows.reshape(-1)], np.full(len(rows), n), None, labels)

    rows = _sequences_of_cells(len(centre), n, positions)
    values = ask(rows)
    if positions or n == 1 or len(centre) == 1:
        return CellFunction(labelled(rows, values))
    V, every = len(centre), n * len(centre) ** n <= EVERY
    if every:
        tried = np.stack(np.unravel_index(np.arange(V**n), (V,) * n), axis=1)
    else:  # the seed is fixed, so that a certificate can be made again
        tried = np.random.default_rng(0).integers(V, size=(max(1, EVERY // n), n))
    order = np.argsort(tried, axis=1, kind="stable")
    there, in_order = ask(tried), ask(np.take_along_axis(tried, order, axis=1))
    off = np.abs(np.take_along_axis(there, order[:, :, None], axis=1) - in_order).max(axis=(1, 2))
    worst, apart = [int(off.argmax())], float(off.max())
    if apart > ROUNDING * np.abs(there).max():
        words = "; in one order each, and in one other order in which the function is not what equivariance makes it"
        return CellFunction(
            labelled(np.append(rows, tried[worst], 0), np.append(values, there[worst], 0)), words, apart
        )
    how = "exactly" if apart == 0.0 else f"to within {apart:.3g}"
    words = f"; in one order each, and in all others, where the function, asked there, is equivariant {how}"
    if not every:
        words = "; in one order each, and in all others if the function is permutation equivariant, as it was "
        words += f"{how} in {len(tried):,} that were tried"
    return CellFunction(labelled(rows, values), words)


def _sequences_of_cells(V: int, n: int, positions: bool) -> Ints:
    """All rows of `n` numbers below `V`; without positions only the non-decreasing ones, one per multiset."""
    rows = np.arange(V)[:, None]
    for _ in range(n - 1):
        first = np.zeros(len(rows), np.int64) if positions else rows[:, -1]
        count = V - first
        if int(count.sum()) * n > MOST_TOKENS:
            raise DataError(f"{V:,} cells make too many sequences of {n} tokens to try them one by one")
        rows = np.repeat(rows, count, axis=0)
        start = np.repeat(np.cumsum(count) - count, count)
        last = np.repeat(first, count) + np.arange(len(rows)) - start
        rows = np.concatenate([rows, last[:, None]], axis=1)
    return rows


def _middle(left: Floats, right: Floats) -> Floats:
    """The middles of intervals."""
    return left + (right - left) / 2.0
