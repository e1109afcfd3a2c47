"""How often real labels come in all files, for their entropy: they need not fit into memory.

`tally-B` holds a word for every label of block `B`, in order; words of one share of the numbers below 2^64 are counted
together, share after share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints, Words
from monolayer.cluster.blocks import Block, Rules, label_of, load
from monolayer.cluster.spill import Spill
from monolayer.cluster.work import Work
from monolayer.data.distinct import scramble


def counts(work: Work, rules: Rules, pieces: list[Block]) -> tuple[Ints, Ints]:
    """How often labels come, in order, and how many labels come so often."""
    spill, names = work.spill, [f"tally-{i:05}" for i in range(len(pieces))]
    work.do("counting labels", (0.98, 0.99), tally, {name: (pieces[i], rules) for i, name in enumerate(names)})
    held = sum(int(spill.facts(name)["count"]) for name in names)
    shares = max(1, -(-4 * held // work.room.range))
    tasks = {f"often-{k:05}": (names, k, shares) for k in range(shares)}
    work.do("counting labels", (0.99, 0.995), often, tasks)
    spill.drop(*names)
    often_, times = np.concatenate([spill.facts(name)["often"] for name in tasks], axis=1)
    size, which = np.unique(often_, return_inverse=True)
    return size, np.bincount(which, times).astype(np.int64)


def tally(spill: Spill, name: str, block: Block, rules: Rules) -> None:
    """A word for every label of a block, 64 bits that tell different ones apart but for chance."""
    found: Words = np.uint64(0)  # type: ignore[assignment]
    for column in words(label_of(load(spill, block, rules)[1])):
        found = scramble(found ^ column)
    spill.write(name, [np.sort(found)], count=len(found))


def words(label: NDArray[Any]) -> list[NDArray[Any]]:
    """Labels, `(P,)` numbers or `(P, m)` reals, as columns that are equal where they are."""
    return [label] if label.ndim == 1 else list(np.ascontiguousarray(label).view(np.uint64).T)


def often(spill: Spill, name: str, pieces: list[str], share: int, shares: int) -> None:
    """How often words of a share come in all pieces, and how many words come so often `(2, …)`."""
    every = (np.memmap(spill.numbers(piece), np.uint64, "r") for piece in pieces)
    count = np.unique(np.concatenate([part[share_of(part, share, shares)] for part in every]), return_counts=True)[1]
    spill.write(name, [], often=np.stack(np.unique(count, return_counts=True)))


def share_of(ordered: Words, share: int, shares: int) -> slice:
    """Where the numbers of one of so many equal shares of those below 2^64 stand."""
    bounds = np.array([at * 2**64 // shares for at in (share, share + 1) if at < shares], dtype=np.uint64)
    begin, *end = np.searchsorted(ordered, bounds).tolist()
    return slice(begin, end[0] if end else len(ordered))
