"""What the further stages of a cascade average: one more random number for every token, place and begin token.

Contexts that the keys put too close together are different multisets of tokens, so their shares of the softmax are
different, and so are, with probability 1, their means of numbers drawn anew (Theorem A says so of the keys themselves).
For ids alone: values of vectors would be linear in them, and say little that the key has not said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats, Ints, beside, fetched, pick
from monolayer.construct.line.cascade import Contested, ShortLevels, StageArrays, cut_line, further, least_label, stage
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.separate import Separated, places_on_line
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.target import Target

LARGEST_RANK = 8
"""Largest value rank that is built."""


@dataclass(frozen=True, eq=False)
class Value:
    """What one further stage averages: a number in [−1, 1] for every token and for the begin token.

    The number of a token is `token` `(V,)` at its row plus, with positions, `position` `(L,)` at its place.
    """

    token: Array
    position: Array | None
    bos: float


def draw_value(tokens: Tokens, seed: int, stage: int) -> Value:
    """Draw the values that stage `stage`, from 2 on, averages. They depend on the seed, not on earlier stages."""
    random = np.random.default_rng([seed, 2, stage])
    share = 1.0 if tokens.position is None else 0.5
    kind = np.dtype(tokens.dtype)
    bos = float(kind.type(random.uniform(-1.0, 1.0)))
    position = None
    if tokens.position is not None:
        position = random.uniform(-share, share, tokens.longest).astype(kind)
    return Value(tokens.alphabet.propose(random, share, 1).key.astype(kind), position, bos)


def averages(value: Value, draw: Draw, tokens: Tokens, target: Target, places: Ints) -> Floats:
    """The mean of `value` under the softmax of `draw` at labelled places `(Q,)`, from their own sequences alone.

    The places are few, so their sequences are copied to the processor from wherever they lie.
    """
    flat = places if target.place is None else fetched(target.place, places)
    sequence, position = tokens.located(flat) if target.labelling.at_tokens else (flat, None)
    chosen, which = np.unique(sequence, return_inverse=True)
    some = tokens.some(chosen).at_home()
    each = value.token.take(some.rows)
    if some.position is not None and value.position is not None:
        each += value.position.take(some.position)
    averaged = Encoded(draw, some).averages(each.astype(np.float64), value.bos)
    at = some.offsets[which] + position if tokens.causal and position is not None else which
    return np.asarray(averaged[at], dtype=np.float64)


class AllStages(NamedTuple):
    """All stages of a readout; the values that those behind the first average; the points left in crowds at the end."""

    stages: list[StageArrays]
    values: tuple[Value, ...]
    left: int


def stages_of(separated: Separated, tokens: Tokens, seed: int) -> AllStages:
    """The stages that tell all points of `separated` apart, or as many as `LARGEST_RANK` allows."""
    points, target, draw = separated.points, separated.target, separated.draw
    whole = target.classes is not None
    part = cut_line(points, separated.runs.changes)
    in_crowds = places_on_line(points, part.held)
    label = target.values(fetched(separated.runs.number, part.held))
    lowest = least_label(part, label) if whole else np.zeros((len(label), len(part.begin)))
    short = ShortLevels.of(separated.runs.number, part.steps) if whole else None
    level = target.values(pick(separated.runs.number, part.first)) if short is None else short.label[None]
    level[:, beside(part.plateau, level)] = beside(lowest, level) if short is None else beside(lowest, level).to(level)
    missing = label - np.repeat(lowest, part.end - part.begin, axis=1)
    first = stage(points, part, short or level)
    values: dict[int, Value] = {}

    def context(number: int, which: Ints) -> Floats:
        values[number] = draw_value(tokens, seed, number)
        return averages(values[number], draw, tokens, target, in_crowds[which])

    contested = Contested(part.stretch, missing, part.ends)
    error = Encoded(draw, tokens).context_error
    more = further(contested, context, error=error, unit=points.unit, whole=whole, most=LARGEST_RANK)
    return AllStages([first, *more.stages], tuple(values.values()), len(more.left))
