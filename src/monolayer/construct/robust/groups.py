"""Facts of cells in groups of one label, and the half-spaces that are found for them (`cover.py`)."""

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

    def size(self, cell: int) -> int:
        return int(self.start[cell + 1] - self.start[cell])


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """`H` half-spaces `{normal · z ≥ centre}`, each in its cell, with its label and half-width of the empty slab."""

    cell: Ints
    label: Ints
    normal: Tensor
    centre: NDArray[np.float64]
    half_width: NDArray[np.float64]
    facts: Ints
    """Facts that each was made for `(H,)`."""
    loud: NDArray[np.float64]
    """1, or more for those that overrule others `(H,)`: what their neurons are at their facts."""
    worst: int | None
    """A point of the half-space with the narrowest slab; None without half-spaces."""


@dataclass(frozen=True, eq=False)
class Group:
    """Facts of one label in one cell, by their places in the cell; `loud` as in `HalfSpaces`."""

    cell: int
    label: int
    facts: Ints
    loud: float = 1.0
    kept: tuple[int, ...] = ()
    """Facts that let these in: these half-spaces never hold them."""
    overrules: int = -1
    """Which of the single facts at hand let these in."""


@dataclass(frozen=True, eq=False)
class Found:
    """One half-space before it is packed with the others."""

    group: Group
    normal: Tensor
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2.0
