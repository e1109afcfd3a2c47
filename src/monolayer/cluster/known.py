"""Fingerprints of all points of many files: those of each block sorted by workers, then joined range by range.

Fingerprints are spread evenly over the 64-bit words, so that ranges of equal width hold about equally many. Each range
is joined in memory, and repeats within it are dropped; two equal fingerprints lie in the same range.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Words
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.spill import Spill
from monolayer.data.aside import new_bytes
from monolayer.data.fingerprint import fingerprints, once

ALL = "known-all"
"""The piece with the fingerprints of all files."""


def write_fingerprints(spill: Spill, name: str, block: Block, rules: Rules) -> None:
    """Write the distinct fingerprints of the points of a block, sorted, as the piece `name`."""
    data = block.data(spill, rules)
    words = once(fingerprints(data, rules.per, positions=rules.positions, causal=rules.causal))
    spill.write(name, [words], count=len(words))


def joined_fingerprints(spill: Spill, names: list[str], at_once: int) -> Words:
    """The distinct fingerprints of all pieces `names`, sorted, as a map of a file; about `at_once` are in memory."""
    pieces = [np.memmap(spill.numbers(name), np.uint64, "r") for name in names]
    ranges = max(1, -(-sum(map(len, pieces)) // at_once))
    starts = np.array([(number << 64) // ranges for number in range(ranges)], dtype=np.uint64)
    cuts = [[*np.searchsorted(piece, starts).tolist(), len(piece)] for piece in pieces]
    with new_bytes(spill.numbers(ALL)) as file:
        for number in range(ranges):
            some = [piece[cut[number] : cut[number + 1]] for piece, cut in zip(pieces, cuts, strict=True)]
            file.write(once(np.concatenate(some)).data)
    return np.memmap(spill.numbers(ALL), np.uint64, "r")
