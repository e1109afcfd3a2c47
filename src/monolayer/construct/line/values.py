"""What the further stages of a cascade average: one more random number for every token, place and begin token.

Contexts that the keys put too close together are different multisets of tokens, so their shares of the softmax are
different, and so are, with probability 1, their means of numbers drawn anew (Theorem A says so of the keys themselves).
For ids alone: values of vectors would be linear in them, and say little that the key has not said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints, beside, found_at, home, pick
from monolayer.construct.line.cascade import StageArrays, cut, further, least_label, stage
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.exponential import boltzmann_term, boltzmann_terms
from monolayer.construct.line.separate import Separated, places_on_line
from monolayer.construct.target import Target
from monolayer.model.contexts import contexts

LARGEST_RANK = 8
"""Largest value rank that is built."""


@dataclass(frozen=True, eq=False)
class Value:
    """Numbers in [−1, 1] of the tokens `(V,)`, those of positions `(L,)` added, and of the begin token."""

    token: NDArray[Any]
    position: NDArray[Any] | None
    bos: float


def draw_value(tokens: Tokens, seed: int, stage: int) -> Value:
    """The values of stage `stage`, from 2; they depend on the seed and on nothing that came before."""
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

    These are few, so they are brought home from wherever they lie.
    """
    flat = places if target.place is None else home(pick(target.place, beside(places, target.place)))
    row = flat if target.per == "sequence" else found_at(tokens.offsets, flat + 1) - 1
    chosen, which = np.unique(row, return_inverse=True)
    some = tokens.some(chosen).at_home()
    each = value.token.take(some.rows)
    if some.position is not None and value.position is not None:
        each += value.position.take(some.position)
    weight, _ = boltzmann_terms(draw.keys(some.rows, some.position), draw.temperature)
    first, _ = boltzmann_term(draw.bos_key, draw.temperature)
    found = contexts(weight, weight * each.astype(np.float64), some.lengths, (first, first * value.bos), tokens.causal)
    at = which
    if tokens.causal and target.per == "token":
        at = some.offsets[which] + flat - home(pick(tokens.offsets, beside(row, tokens.offsets)))
    return np.asarray(found[at], dtype=np.float64)


def stages_of(found: Separated, tokens: Tokens, seed: int) -> tuple[list[StageArrays], tuple[Value, ...], int]:
    """All stages, the values that they average, and how many points are left in crowds at the largest rank."""
    points, target, draw = found.points, found.target, found.draw
    whole = target.classes is not None
    part = cut(points, found.runs.changes)
    held = places_on_line(points, part.held)
    label = target.values(pick(found.runs.number, beside(part.held, found.runs.number)))
    lowest = least_label(part, home(label)) if whole else np.zeros((len(label), len(part.begin)))
    level = target.values(pick(found.runs.number, part.first))
    level[:, beside(part.plateau, level)] = beside(lowest, level)
    missing = home(label) - np.repeat(lowest, part.end - part.begin, axis=1)
    first = stage(points, part, level)
    values: dict[int, Value] = {}

    def context(number: int, which: Ints) -> Floats:
        values[number] = draw_value(tokens, seed, number)
        return averages(values[number], draw, tokens, target, held[which])

    error = draw.context_error(tokens)
    stages, left = further(part.stretch, missing, part.ends, context, error, points.unit, whole, LARGEST_RANK)
    return [first, *stages], tuple(values.values()), len(left)
