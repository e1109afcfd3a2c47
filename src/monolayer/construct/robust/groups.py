"""Facts of cells in groups of one label, and the half-spaces that are found for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Ints


@dataclass(frozen=True, eq=False)
class Cells:
    """Points in order of their cells: features `(M, p)`, label numbers `(M,)`, cell `j` at `start[j]:start[j + 1]`."""

    feature: Tensor
    label: Ints
    start: Ints
    base: Ints
    """Label number of each cell that needs no half-space `(K,)`."""

    @property
    def cell(self) -> Ints:
        """The cell of every point `(M,)`."""
        return np.repeat(np.arange(len(self.base)), np.diff(self.start))

    def own(self, cell: int) -> slice:
        """The points of a cell."""
        return slice(int(self.start[cell]), int(self.start[cell + 1]))


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """`H` half-spaces `{normal · z ≥ centre}`, each in its cell, with its label and half-width of the empty slab."""

    cell: Ints
    label: Ints
    normal: Tensor
    centre: NDArray[np.float64]
    half_width: NDArray[np.float64]
    worst: int | None
    """A point of the half-space with the narrowest slab; None without half-spaces."""


@dataclass(frozen=True, eq=False)
class Group:
    """Facts of one label in one cell, by their places in the cell."""

    cell: int
    label: int
    facts: Ints


@dataclass(frozen=True, eq=False)
class Found:
    """One half-space before it is packed with the others: of a group, the slab between `low` and `high`."""

    group: Group
    normal: Tensor
    low: float
    high: float
