"""What fits: the number of knots is known before anything is built, and a grid that is too large is refused.

`V = D^d` cells make `V C(V + n − 2, n − 1)` knots, or `n V^n` with positions (`grid.py`): the curse of dimension is in
the exponent `d n`, and no construction on a grid escapes it.
"""

from __future__ import annotations

import math

from monolayer.construct.cells.grid import Box
from monolayer.errors import DataError, OutOfMemoryError
from monolayer.model.room import available_bytes

MOST_KNOTS = 1 << 24
"""Knots up to which a grid is built. Rank 1 in float64 ends near there (bench/where_float64_rank_1_ends.py)."""


def afford(box: Box, cells: int, outputs: int, most_knots: int) -> None:
    """Refuse a grid that is too large, before anything is allocated, and say what would fit."""
    knots, needed = box.knots(cells), memory(box, cells, outputs)
    fits = box.most_cells(most_knots)
    shape = f"dim={box.dim} and length={box.length}{' with positions' if box.positions else ''}"
    what = f"{cells:,} cells per coordinate, {shape}, make {_count(knots)} knots and need {_gibibytes(needed)}"
    if knots > most_knots:
        size = f"at most {fits:,} cells fit, {box.knots(fits):,} knots in {_gibibytes(memory(box, fits, outputs))}"
        least = f"not even one cell fits, {_count(box.knots(1))} knots"
        raise DataError(f"{what}; {most_knots:,} knots are the limit: {size if fits else least}. {smaller(box)}")
    free = available_bytes()
    if free is not None and needed > free:
        while fits > 0 and memory(box, fits, outputs) > free:
            fits -= 1
        raise OutOfMemoryError(f"{what}; {_gibibytes(free)} are free: at most {fits:,} cells fit. {smaller(box)}")


def memory(box: Box, cells: int, outputs: int) -> int:
    """Bytes at the peak of a construction with `m` outputs: `6 T + (14 + 4 m) P + 8 d² D` numbers, `T = n S`.

    Measured on grids of 0.06 to 16 million knots, which took between 0.55 and 0.98 of it.
    """
    tokens, knots = box.sequences(cells) * box.length, box.knots(cells)
    return 8 * (6 * tokens + (14 + 4 * outputs) * knots + 8 * box.dim**2 * cells)


def smaller(box: Box) -> str:
    """What would need fewer knots, in words."""
    less = "Fewer tokens, fewer coordinates or a larger error need fewer knots"
    return f"{less}, and so does an equivariant function without positions" if box.positions else less


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"10^{math.log10(number):.0f}"


def _gibibytes(amount: int) -> str:
    return f"{amount / 2**30:,.2f} GiB" if amount < 2**50 else f"10^{math.log10(amount) - 9:.0f} GiB"
