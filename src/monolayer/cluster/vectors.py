"""Tokens that are vectors, over files: what is different about them once each file has a table of its different ones.

The different vectors of all files are held by the process that leads; all others know the row of each token alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monolayer.cluster.blocks import Block, Rules, load
from monolayer.cluster.room import Room
from monolayer.cluster.spill import Spill
from monolayer.cluster.work import Work
from monolayer.construct.line.points import Floats, code_gap
from monolayer.data.names import Ints
from monolayer.errors import DataError

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.construct.line.draw import Draw

NUMBER, ROW = 32, 400
"""Bytes a number of the different vectors, of which up to four copies are held, and bytes a vector: keys and codes of
four draws, here and on the way to workers."""


def check_room(vectors: Floats, room: Room) -> None:
    """An error if the different vectors `(V, d)` take more than half of the memory."""
    need = 2 * (vectors.size * NUMBER + len(vectors) * ROW)
    if room.total and need > room.total:
        raise DataError(
            f"{len(vectors):,} different vectors of {vectors.shape[1]} numbers are held at once, and need memory="
            f"'{-(-need // 10**6)}MB' (--memory) or more"
        )


def cells(work: Work, rules: Rules, pieces: list[Block]) -> Ints:
    """Vectors at places that occur, as `row · L + place`, in order; without positions the rows alone."""
    if not rules.positions:
        return np.arange(rules.vocabulary)
    names = {f"places-{i:05}": (block, rules) for i, block in enumerate(pieces)}
    work.do("looking at places", (0.2, 0.2), places, names)
    found = np.zeros(0, dtype=np.int64)
    for name in names:
        found = _once(np.concatenate([found, work.spill.facts(name)["cells"]]))
    return found


def places(spill: Spill, name: str, block: Block, rules: Rules) -> None:
    """Those of a block."""
    data = load(spill, block, rules)[0]
    spill.write(name, [], cells=_once(data.tokens * rules.longest + data.position))


def _once(numbers: Ints) -> Ints:
    ordered = np.sort(numbers)
    found: Ints = ordered[np.diff(ordered, prepend=-1) > 0]
    return found


def room_of_codes(draw: Draw, rules: Rules, occurring: Ints) -> float:
    """How much room a code has: the distance of the closest two that are certainly apart, as in memory."""
    if draw.layout == "mixed":
        return 1.0
    if draw.position_code is None:
        return code_gap(draw, draw.proposal.code.numpy())
    row, place = np.divmod(occurring, rules.longest)
    return code_gap(draw, draw.proposal.code.numpy()[row] + draw.position_code.numpy()[place])
