"""The points in crowds, with their sequences: a matter for further stages, or for an error. They are few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.cluster.finish import Found
from monolayer.cluster.spill import Spill
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.cascade import further
from monolayer.construct.line.draw import Tokens
from monolayer.construct.line.points import SLACK
from monolayer.construct.line.values import Value, averages, draw_value, most_rank
from monolayer.construct.target import Target
from monolayer.data import Names, Sequences
from monolayer.errors import PrecisionError


def with_stages(spill: Spill, found: Found, pieces: list[str], seed: int, allowed: int) -> Found:
    """The stages behind the first, from the points in its crowds; an error if these cannot be told apart."""
    rules, crowds = found.rules, found.crowds
    assert crowds is not None  # asked only where there are some
    facts = [spill.facts(name) for name in pieces]
    z, label, position, lengths, flat = (
        np.concatenate([fact[key] for fact in facts]) for key in ("z", "label", "position", "lengths", "tokens")
    )
    data = Sequences(flat, lengths, Names(range(rules.vocabulary)))
    place = None if rules.per == "sequence" else data.offsets[:-1] + position
    target = Target(np.arange(len(label)), np.zeros((0, 1)), rules.per, None, False, place)
    tokens: Tokens = found.tokens(data)
    order = np.argsort(z, kind="stable")
    which = crowds.which(z[order])
    # Of classes the first stage writes the least of each crowd, of reals nothing.
    missing = label[order].T if rules.reals else (label[order] - crowds.level[which])[None].astype(np.float64)
    values: dict[int, Value] = {}

    def context(stage: int, some: Ints) -> NDArray[np.float64]:
        values[stage] = draw_value(tokens, seed, stage)
        return averages(values[stage], found.draw, tokens, target, order[some])

    def error(stage: int) -> float:
        return found.draw.value_error(tokens, values[stage].error)

    most = most_rank(tokens)
    stages, left = further(crowds.stretch[which], missing, crowds.ends, context, error, UNIT, not rules.reals, most)
    if len(left) or 1 + len(stages) > allowed:
        raise _crowded(found, None if len(left) else 1 + len(stages), most)
    return replace(found, stages=tuple(stages), values=tuple(values.values()))


def _crowded(found: Found, rank: int | None, most: int) -> PrecisionError:
    """The error for data that are consistent but that float64 cannot hold at the rank that is allowed."""
    low, high = found.ends
    holds = int(np.sqrt((high - low) / (SLACK * float(found.errors.error(np.array([low, high])).max()))))
    assert found.crowds is not None
    way = f"no value rank up to {most} tells them apart: split the data over several models, or try another seed"
    if rank is not None:
        way = f"rank={rank} would hold them, or rank='auto'"
    return PrecisionError(
        f"points with different labels fell closer together than {SLACK:g} rounding errors in "
        f"{len(found.crowds.low):,} places. They are different points, not a contradiction: with rank 1 in float64 "
        f"about {holds:,} points of this kind can be held, and there are {found.labelled:,}. {way[0].upper()}{way[1:]}"
    )
