"""Fingerprints of all points, out of core: what `predict(strict=True)` knows a model was built from.

`seen-B` holds the different fingerprints of block `B`, in order; `words-K` those of all blocks in one share of the
numbers below 2^64. One share after the other they are the fingerprints that a model in memory keeps.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from monolayer.arrays import Words
from monolayer.cluster.blocks import Block, Rules, load
from monolayer.cluster.shares import share_of
from monolayer.cluster.spill import Spill
from monolayer.cluster.work import Work
from monolayer.data.fingerprint import fingerprints, once


def kept(work: Work, rules: Rules, pieces: list[Block]) -> list[Path]:
    """Files that hold, one after the other, the fingerprints of all points in order, each once."""
    spill, names = work.spill, [f"seen-{i:05}" for i in range(len(pieces))]
    tasks = {name: (block, rules) for name, block in zip(names, pieces, strict=True)}
    work.do("taking fingerprints", (0.2, 0.21), seen, tasks)
    counts = [(name, int(spill.facts(name)["count"])) for name in names]
    shares = max(1, -(-2 * sum(count for _, count in counts) // work.room.range))
    joined = {f"words-{k:05}": (counts, k, shares) for k in range(shares)}
    work.do("taking fingerprints", (0.21, 0.22), words, joined)
    spill.drop(*names)
    return [spill.numbers(name) for name in joined]


def seen(spill: Spill, name: str, block: Block, rules: Rules) -> None:
    """The different fingerprints of a block."""
    data = load(spill, block, rules)[0]
    found = once(fingerprints(data, rules.per, positions=rules.positions, causal=rules.causal))
    spill.write(name, [found], count=len(found))


def words(spill: Spill, name: str, pieces: list[tuple[str, int]], share: int, shares: int) -> None:
    """Those of all pieces in one share of the numbers below 2^64, each once."""
    found = [np.zeros(0, np.uint64)]
    for piece, _ in pieces:
        every: Words = np.memmap(spill.numbers(piece), np.uint64, "r")
        found.append(np.array(every[share_of(every, share, shares)]))
    spill.write(name, [once(np.concatenate(found))])
