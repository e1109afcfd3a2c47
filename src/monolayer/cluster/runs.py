"""Parts of the readout `runs`, for real labels: as `parts.py` and `crowds.py` have them for classes.

    z       ──────●────○────●──────       a step between neighbours with different labels
    labels    y0     y1   y2    y3        a part has the label left of each of its steps
    number    −1     −1   0     1         in a cascade also the number of the stretch there

Labels are not jumps, so the one right of all steps stands in a part of its own, `closing`, and numbers of stretches
are known when all crowds are: `numbered` writes them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.cluster import parts
from monolayer.cluster.crowds import outline, with_neighbours
from monolayer.cluster.ranges import Line, Range, gather
from monolayer.cluster.spill import Spill
from monolayer.construct.line.cascade import cut
from monolayer.construct.line.points import ramps_at
from monolayer.construct.line.separate import apart, margins
from monolayer.model.sharded import FIRST_STAGE, LINE, part_header

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import Found


def part(spill: Spill, name: str, range_: Range, cascade: bool) -> None:
    """A range as a part, and what there is to know about its points; of a first stage as `numbered` has it."""
    line = gather(spill, range_, before=True)
    z, label = line.columns(0, len(line))
    here, changes = range_.points(z, np.zeros(0)), _changes(label)
    margin, close = margins(here, changes)
    count, least = apart(here) if len(z) > 1 else (0, np.inf)
    facts: dict[str, Any] = {"count": count, "least": least, "ends": z[[0, -1]] if len(z) else z, "close": len(close)}
    facts["near"] = parts.near(here, close)
    if len(close) > parts.MANY:
        spill.write(name, [], steps=0, **facts)
        return
    if len(close):
        crowded(spill, name, range_, line.some(slice(int(range_.after), None)), **facts)
        return
    slope, start = ramps_at(z, changes)
    spill.write(
        name,
        [_begin(range_.number, len(changes), LINE, range_.form.reals), slope, -slope * start, label[changes].T],
        hashed=True,
        steps=len(changes),
        margin=np.inf if margin is None else margin,
        size=0.0,
        last=label[-1:],
        bounds=0,
        crowds=np.zeros((5, 0)),
        **facts,
    )


def _changes(label: NDArray[Any]) -> Ints:
    return np.flatnonzero((label[1:] != label[:-1]).any(axis=1))


def _begin(number: int, steps: int, block: str, rows: int, columns: int | None = None) -> NDArray[Any]:
    return np.frombuffer(part_header(number + 1, steps, block, rows, columns), dtype=np.uint8)


def crowded(spill: Spill, name: str, range_: Range, own: Line | None = None, **facts: Any) -> None:
    """A range as a part of the first stage of a cascade, but for numbers; as `crowds.crowded` has it for classes."""
    z, label, begin, end = with_neighbours(spill, range_, own)
    here = range_.points(z, np.zeros(0))
    part = cut(here, _changes(label))
    level: NDArray[Any] = label[part.first]
    level[part.plateau] = 0.0  # a later stage writes it
    # The steps of this range are those before its points.
    mine, after = np.searchsorted(part.steps, [begin - 1, end - 1]).tolist()
    steps, passed = part.steps[mine:after], part.number[mine : after + 1] - part.number[mine]
    slope, start = ramps_at(z, steps)
    spill.write(
        name,
        [
            _begin(range_.number, len(steps), FIRST_STAGE, range_.form.reals + 1),
            slope,
            -slope * start,
            level[mine:after].T,
        ],
        steps=len(steps),
        margin=np.inf if len(steps) == 0 else margins(here, steps)[0] or np.inf,
        size=0.0,
        bounds=int(passed[-1]),
        passed=passed[:-1],
        last=level[-1:],
        **outline(z, part, np.zeros(len(level)), begin, end),
        **facts,
    )


def numbered(spill: Spill, name: str, part: str, number: int, steps: int, rows: int, first: int) -> None:
    """A part of the first stage of a cascade with the numbers of its stretches, of which `first` is the first.

    In place, and the same however often it is done.
    """
    file, facts = spill.numbers(part), spill.facts(part)
    header = part_header(number + 1, steps, FIRST_STAGE, rows)
    passed = facts.get("passed", np.zeros(steps, dtype=np.int64))
    with file.open("r+b") as out:
        out.write(header)
        out.seek(len(header) + 8 * steps * (1 + rows))
        out.truncate()
        out.write((first + passed).astype(np.float64).data)
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    spill.write(name, [], digest=np.array([digest]))


def closing(spill: Spill, found: Found) -> dict[str, Any]:
    """The part with what stands right of all steps."""
    block, name = FIRST_STAGE if found.crowds is not None else LINE, f"closing-{found.name}"
    facts: dict[str, Any] = {
        "steps": 0,
        "count": 0,
        "least": np.inf,
        "ends": np.zeros(0),
        "margin": np.inf,
        "size": 0.0,
        "close": 0,
    }
    blocks = [_begin(len(found.parts), 0, block, len(found.last), 1), np.array(found.last)]
    spill.write(name, blocks, hashed=True, **facts)
    return {"name": name, **spill.facts(name)}
