"""How much memory there is, and how large pieces may be."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from monolayer.errors import DataError

HOUSE, HUT = 300 << 20, 130 << 20
"""Bytes of a process before it holds any data: the interpreter, NumPy and PyTorch; without PyTorch, with PyArrow."""
TOKEN = 96
"""Bytes a token of a block that is worked on, at the most (bench/out_of_core_within_two_gigabytes.py)."""
POINT = 80
"""Bytes a point of a range that is sorted and turned into steps, at the most."""
READ = 64
"""Bytes a token of a file while it is read, at the most."""
LEAST, MOST = 1 << 16, 1 << 21
"""Tokens of a block and points of a range: fewer are not worth a piece, more do not make it faster."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True)
class Room:
    """Tokens of a block, and points of a range, of which each worker holds one at a time."""

    block: int
    range: int
    total: int = 0
    """Bytes in all; 0 where that does not matter."""

    @classmethod
    def of(cls, memory: str | int | float, workers: int, house: int, largest: int) -> Room:
        """What fits into `memory`; `house`: bytes that a worker needs besides; `largest`: tokens of a file, about."""
        total, houses = size(memory), max(HOUSE, resident()) + workers * house
        least = houses + workers * max(LEAST * max(TOKEN, POINT), largest * READ)
        if total < least:
            way = "; fewer workers or smaller files would need less" if workers > 1 or largest * READ > LEAST else ""
            raise DataError(
                f"memory={memory!r} is too little: {workers} workers and files of up to about {largest:,} tokens need "
                f"at least {-(-least // 10**6):,}MB{way}"
            )
        share = (total - houses) // workers
        return cls(min(MOST, share // TOKEN), min(MOST, share // POINT), total)

    def ranges(self, points: int) -> int:
        """How many ranges to cut points into: four fifths of what fits, for samples do not cut evenly."""
        return -(-5 * points // (4 * self.range))

    def beside(self, reals: int) -> Room:
        """The same where a label is so many real numbers, held up to four times, rather than the number of a class."""
        block, points = self.block * TOKEN // (TOKEN + 32 * reals), self.range * POINT // (POINT + 32 * reals)
        return Room(max(1, block), max(1, points), self.total)


def resident() -> int:
    """Bytes that this process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def size(memory: str | int | float) -> int:
    """A number of bytes, as people write it: 2GB, 500 MB, 1.5GiB, or a number."""
    if isinstance(memory, int | float) and not isinstance(memory, bool) and memory > 0:
        return int(memory)
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?\s*", str(memory).lower())
    if found is None or found[2] == "i" or not float(found[1]):
        raise DataError(f"memory must be a number of bytes such as '2GB' or '500MB', not {memory!r}")
    return int(float(found[1]) * _UNITS[found[2]])
