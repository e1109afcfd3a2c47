"""Facts of cells in groups of one label, half-spaces that are found for them, and threads that find them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
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


_AT_ONCE = 1 << 20
"""Numbers in a batch on the processor: 4 MiB, which stays in the cache through the iterations."""
_ON_DEVICE = 1 << 25
"""On a GPU, which has many more units to keep busy."""


def at_once(points: Tensor) -> int:
    """Numbers in a batch of points."""
    return _ON_DEVICE if points.is_cuda else _AT_ONCE


@contextmanager
def one_thread_each(points: Tensor) -> Iterator[ThreadPoolExecutor]:
    """As many workers as torch has threads, or one that feeds a GPU; inside, torch itself uses one.

    Batches are small, and threads that share one wait for one another at every product. A batch alone on one thread
    also gives the same bits whatever the number of threads is.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(
            1 if points.is_cuda else threads, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
