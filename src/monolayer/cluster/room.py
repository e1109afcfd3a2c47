"""How much memory there is, and how large pieces may be."""

from __future__ import annotations

import os
import re
import reprlib
from dataclasses import dataclass, replace
from pathlib import Path

from monolayer.errors import DataError

WITH_TORCH, WITHOUT_TORCH = 300 << 20, 130 << 20
"""Bytes of a process before it holds any data: the leading process, with PyTorch; a worker, with NumPy and PyArrow."""
BLOCK_BYTES_PER_TOKEN = 96
"""Bytes per token of a block that is worked on, at the most (bench/out_of_core_within_two_gigabytes.py)."""
RANGE_BYTES_PER_POINT = 80
"""Bytes per point of a range that is sorted and turned into steps, at the most."""
READ_TOKEN = 64
"""Bytes per token of a file while it is read, at the most."""
NAME, COPY = 450, 320
"""Bytes per name of an id, string or class in the process that leads, and in each process that has tables of them."""
LEAST_PIECE, LARGEST_BLOCK, LARGEST_RANGE = 1 << 16, 1 << 20, 1 << 21
"""Tokens of a block and points of a range: fewer are not worth a piece, more do not make it faster."""

ADDRESSABLE = 1 << 64
"""Bytes that a machine can address: a larger number is a mistake."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True)
class Room:
    """Tokens of a block, and points of a range, of which each worker holds one at a time."""

    block: int
    range: int
    total: int = 0
    """Bytes in all; 0 where that does not matter."""
    spare: int = 0
    """Bytes left for data: `total` minus what the processes need without any."""
    workers: int = 1
    name: int = 0
    """Bytes that a name takes in all processes together."""

    @classmethod
    def of(cls, memory: str | int | float, workers: int, idle: int, largest: int) -> Room:
        """The sizes that fit into `memory` for `workers` workers; an error if that is too little.

        `idle`: bytes of a worker without data; `largest`: about how many tokens the largest file has.
        """
        total, before = size(memory), max(WITH_TORCH, resident()) + workers * idle
        least = before + workers * max(
            LEAST_PIECE * max(BLOCK_BYTES_PER_TOKEN, RANGE_BYTES_PER_POINT), largest * READ_TOKEN
        )
        if total < least:
            way = (
                "; fewer workers or smaller files would need less"
                if workers > 1 or largest * READ_TOKEN > LEAST_PIECE
                else ""
            )
            raise DataError(
                f"memory={memory!r} is too little: {workers} workers and files of up to about {largest:,} tokens need "
                f"at least {-(-least // 10**6):,}MB{way}"
            )
        share = (total - before) // workers
        name = NAME + (workers * COPY if idle else 0)  # a cluster has memory of its own
        return cls(
            min(LARGEST_BLOCK, share // BLOCK_BYTES_PER_TOKEN),
            min(LARGEST_RANGE, share // RANGE_BYTES_PER_POINT),
            total,
            total - before,
            workers,
            name,
        )

    @classmethod
    def fitting(cls, memory: str | int | float, workers: int | None, idle: int, largest: int) -> Room:
        """`Room.of` for `workers` workers; None: for one per processor, or for as many as fit if those do not.

        A single worker is the leading process, whose own memory is counted already.
        """
        for count in range(os.cpu_count() or 1, 1, -1) if workers is None else ():
            try:
                return cls.of(memory, count, idle, largest)
            except DataError:
                continue
        count = workers or 1
        return cls.of(memory, count, 0 if count == 1 else idle, largest)

    def beside(self, names: int, reals: int) -> Room:
        """The sizes that still fit beside tables of `names` names; an error if that is too little.

        `reals`: how many real numbers a label has, which are held up to four times; 0: labels are class numbers.
        """
        if not self.spare:
            return self
        left, least = (
            self.spare - names * self.name,
            self.workers * LEAST_PIECE * max(BLOCK_BYTES_PER_TOKEN, RANGE_BYTES_PER_POINT),
        )
        if left < least:
            raise DataError(
                f"{names:,} different tokens and classes have names, which all processes hold, and need memory="
                f"'{-(-(self.total + least - left) // 10**6)}MB' (--memory) or more; fewer workers need less"
            )
        share = left // self.workers
        block, points = share // (BLOCK_BYTES_PER_TOKEN + 32 * reals), share // (RANGE_BYTES_PER_POINT + 32 * reals)
        return replace(self, block=max(1, min(self.block, block)), range=max(1, min(self.range, points)))

    def ranges(self, points: int) -> int:
        """How many ranges to cut `points` points into.

        Each aims at four fifths of what fits, since splitters from a sample do not cut evenly.
        """
        return -(-5 * points // (4 * self.range))


def resident() -> int:
    """Bytes that this process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def size(memory: str | int | float) -> int:
    """A number of bytes, as people write it: 2GB, 500 MB, 1.5GiB, or a number."""
    if isinstance(memory, int | float) and not isinstance(memory, bool):
        number: float = memory
    else:
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?\s*", str(memory).lower())
        number = float(match[1]) * _UNITS[match[2]] if match is not None and match[2] in _UNITS else 0.0
    if not 0 < number <= ADDRESSABLE:  # NaN is not
        raise DataError(
            f"memory must be a number of bytes such as '2GB' or '500MB', up to 2^64, not {reprlib.repr(memory)}"
        )
    return int(number)
