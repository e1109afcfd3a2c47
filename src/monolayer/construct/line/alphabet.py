"""What tokens are, as far as keys and codes go: ids, vectors, or the cells of a grid.

An alphabet of `size` V proposes a key `s`, in `[−share, share]`, and a code `t` for each of its tokens. Ids are free:
any numbers will do. Keys and codes of vectors are linear in the vectors. Those of cells are sums over the coordinates
of a cell, since the quantizer writes them a coordinate at a time.

`spaced`: codes are whole numbers `stride` apart, so that every token has a cell of its own in `z`. `spacing`: all keys
are multiples of this power of two, and so must be those that are added to them; 0: any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats, Ints
from monolayer.construct.powers import power_above

UNIT = 2.0**-53
"""Unit roundoff of float64."""
_PRODUCTS_AT_ONCE = 1 << 18
"""Products of vectors and weights held at a time: 2 MB stay in cache."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """Keys and codes `(V,)`, the weights that compute them from a token, and how far these may round.

    `lift`: nothing for ids; weights `(2, d)` and biases `(2,)` for vectors; tables `(2, d, D)` for cells.
    """

    key: Array
    code: Array
    lift: tuple[Floats, ...] = ()
    lift_error: float = 0.0


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids `0 … size − 1` as tokens.

    `order` `(first,)`: the rank of each id among the codes; None: its own number. `first`: how many ids there were when
    the codes were drawn; None: all. Ids that came later have their own number as rank.
    """

    size: int
    order: Ints | None = None
    first: int | None = None
    spaced = True
    spacing = 0.0

    def propose(self, random: np.random.Generator, share: float, stride: int) -> Proposal:
        """Random keys in `[−share, share]`, codes `stride` apart. The key of an id does not depend on ids after it."""
        first = self.size if self.first is None else self.first
        rank = np.arange(self.size)
        if self.order is not None:
            rank[:first] = self.order
        return Proposal(random.uniform(-share, share, self.size), (rank - first // 2) * float(stride))


def by_label(last: Floats) -> Ints:
    """Ranks `(V,)` of tokens that put those next to each other whose label `(V, m)` is the same."""
    order = np.empty(len(last), dtype=np.int64)
    order[np.lexsort(last.T[::-1])] = np.arange(len(last))
    return order


@dataclass(frozen=True, eq=False)
class Vectors:
    """The distinct vectors `(V, d)` of the data; `lift` `(2, d + 1)`: weights and bias of a draw that is given."""

    vectors: Floats
    lift: Floats | None = None
    spaced = False
    spacing = 0.0

    @property
    def size(self) -> int:
        """The number of different vectors."""
        return len(self.vectors)

    def propose(self, random: np.random.Generator, share: float, stride: int) -> Proposal:
        """Keys and codes along two directions, and a bound on the rounding error of the map."""
        vectors = self.vectors
        weight, bias = self._directions(random, share) if self.lift is None else (self.lift[:, :-1], self.lift[:, -1])
        seen, size = np.empty((2, len(vectors))), 0.0
        for row, here, product in _products(vectors, weight):
            seen[row, here] = product.sum(axis=1)
            size = max(size, float(np.abs(product, out=product).sum(axis=1).max() + abs(bias[row])))
        key, code = seen + bias[:, None]
        # A bound on the rounding of that map, in any order of summation.
        error = (vectors.shape[1] + 2) * UNIT * size
        return Proposal(key, code, (weight, bias), error)

    def _directions(self, random: np.random.Generator, share: float) -> tuple[Floats, Floats]:
        """Two random directions, scaled and shifted so that keys and codes of the data fill [−share, share]."""
        # Not normal numbers: the rare large ones of NumPy depend on the `log` of the math library.
        direction = random.uniform(-1.0, 1.0, (2, self.vectors.shape[1]))
        # Coordinates of very different size would drown each other: each is first scaled to its own range.
        # One that never changes tells nothing apart and gets no weight.
        extent = np.ptp(self.vectors, axis=0)
        direction = np.where(extent > 0.0, direction / np.where(extent > 0.0, extent, 1.0), 0.0)
        low, high = np.full(2, np.inf), np.full(2, -np.inf)
        for row, _, product in _products(self.vectors, direction):
            seen = product.sum(axis=1)
            low[row], high[row] = min(low[row], seen.min()), max(high[row], seen.max())
        scale = 2.0 * share / np.where(high > low, high - low, 1.0)
        return direction * scale[:, None], -(low + high) / 2.0 * scale


class _Products(NamedTuple):
    """Products `w ∘ x` of one row of weights with some vectors: which row, which vectors, the products `(…, d)`."""

    row: int
    vectors: slice
    product: Floats


def _products(vectors: Floats, weight: Floats) -> Iterator[_Products]:
    """The products of both rows of `weight` `(2, d)` with all `vectors` `(V, d)`, some vectors at a time.

    Rows are summed one by one: what a vector gives has the same bits whatever vectors stand beside it, which an edit
    relies on, and on every processor. A matrix product promises neither.
    """
    step = max(1, _PRODUCTS_AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), step):
        here = slice(start, start + step)
        product = np.empty(vectors[here].shape)  # in the order of C, so that rows are always summed in one order
        for row, factors in enumerate(weight):
            yield _Products(row, here, np.multiply(vectors[here], factors, out=product))


@dataclass(frozen=True, eq=False)
class GridCells:
    """The `V = D^d` cells of a grid; cell `q` has the digits `q_1 … q_d` in base `D`, the first the largest."""

    dim: int
    cells: int
    spaced = True

    @property
    def size(self) -> int:
        """The number of cells of the grid."""
        return int(self.cells**self.dim)

    @property
    def spacing(self) -> float:
        """`2^−q` with `(2D + 4) 2^q ≤ 2^52`: then no sum of keys rounds, in any order.

        What can come together: `d` times the jumps of a table, `2(D − 1)/d` in all at most, the last entries of
        all tables, 1, the key of a position, 1, and that of the begin token before its own cell is added, 2.
        """
        return float(power_above(2.0 * self.cells + 4.0)) * 2.0**-52

    def propose(self, random: np.random.Generator, share: float, stride: int) -> Proposal:
        """`d` tables of `D` random keys in `[−share/d, share/d]`; codes are the cell numbers, with 0 in the middle."""
        # Multiplied here: inside `uniform` some compilers fuse product and sum, and the last bit differs.
        key = random.uniform(-1.0, 1.0, (self.dim, self.cells)) * (share / self.dim)
        key = np.round(key / self.spacing) * self.spacing
        weight = float(stride) * float(self.cells) ** np.arange(self.dim - 1, -1, -1)
        code = weight[:, None] * np.arange(self.cells)
        code[0] -= stride * (self.size // 2)
        table = np.stack([key, code])
        total = table[:, 0]
        for coordinate in range(1, self.dim):
            total = (total[:, :, None] + table[:, coordinate, None, :]).reshape(2, -1)
        return Proposal(total[0], total[1], (table,))


Alphabet = Ids | Vectors | GridCells
