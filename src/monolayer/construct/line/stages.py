"""The stages of a cascade, from points of a first line that is too crowded: what they write, and what they average."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.line.cascade import Stage, cut, further, least_label, stage
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.points import Points
from monolayer.construct.line.separate import margins
from monolayer.construct.line.values import Value, averages, most_rank
from monolayer.construct.target import Target


def stages_of(
    points: Points, changes: Ints, target: Target, draw: Draw, tokens: Tokens, value: Callable[[int], Value]
) -> tuple[list[Stage], tuple[Value, ...], int]:
    """All stages, the values that they average, and how many points are left in crowds at the largest rank.

    `changes` `(R,)`: the places on the line whose label differs from that of the next; `value(j)`: those of stage `j`.
    """
    whole = target.classes is not None
    part = cut(points, changes)
    held = points.order[part.held]
    level = target.table.T.take(target.number[points.order[part.first]], axis=1)
    level[:, part.plateau] = least_label(part, target.number[points.order]) if whole else 0.0
    written = np.repeat(level[:, part.plateau], part.end - part.begin, axis=1)
    missing = target.table.T.take(target.number[held], axis=1) - written
    first = stage(points, part, level, margins(points, part.steps)[0])
    values: dict[int, Value] = {}

    def context(number: int, which: Ints) -> NDArray[np.float64]:
        values[number] = value(number)
        return averages(values[number], draw, tokens, target, held[which])

    ends = int(part.number[0]), int(part.number[-1])

    def error(number: int) -> float:
        return draw.value_error(tokens, values[number].error)

    stages, left = further(part.stretch, missing, ends, context, error, points.unit, whole, most_rank(tokens))
    return [first, *stages], tuple(values.values()), len(left)
