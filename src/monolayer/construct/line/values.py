"""What the further stages of a cascade average: one more random number for every token, place and begin token.

Contexts that the keys put too close together are different multisets of tokens, so their shares of the softmax are
different, and so are, with probability 1, their means of numbers drawn anew (Theorem A says so of the keys themselves).
For ids alone: values of vectors would be linear in them, and say little that the key has not said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Ints
from monolayer.construct.line.cascade import Stage, cut, further, least_label, stage
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.exponential import boltzmann_terms, exponential
from monolayer.construct.line.points import Points
from monolayer.construct.line.separate import margins
from monolayer.construct.target import Target
from monolayer.model.attention import contexts, pick

MOST = 8
"""Largest value rank that is built."""


@dataclass(frozen=True, eq=False)
class Value:
    """Numbers in [−1, 1] of the tokens `(V,)`, those of positions `(L,)` added, and of the begin token."""

    token: Tensor
    position: Tensor | None
    bos: float


def draw_value(tokens: Tokens, seed: int, stage: int) -> Value:
    """The values of stage `stage`, from 2; they depend on the seed and on nothing that came before."""
    random = np.random.default_rng([seed, 2, stage])
    share = 1.0 if tokens.position is None else 0.5
    bos = float(torch.tensor(random.uniform(-1.0, 1.0), dtype=tokens.dtype))
    position = None
    if tokens.position is not None:
        position = torch.from_numpy(random.uniform(-share, share, tokens.longest)).to(tokens.dtype)
    return Value(tokens.alphabet.propose(random, share, 1).key.to(tokens.dtype), position, bos)


def averages(value: Value, draw: Draw, tokens: Tokens, target: Target, places: Ints) -> NDArray[np.float64]:
    """The mean of `value` under the softmax of `draw` at labelled places `(Q,)`, from their own sequences alone."""
    lengths = tokens.lengths.numpy()
    offsets = np.append(0, np.cumsum(lengths))
    flat = places if target.place is None else target.place[places]
    row = flat if target.per == "sequence" else np.searchsorted(offsets, flat, side="right") - 1
    chosen, which = np.unique(row, return_inverse=True)
    size = lengths[chosen]
    start = np.cumsum(size) - size
    token = torch.from_numpy(np.arange(int(size.sum())) + np.repeat(offsets[chosen] - start, size))
    rows = tokens.rows[token]
    position = None if tokens.position is None else tokens.position[token]
    each = pick(value.token, rows)
    if position is not None and value.position is not None:
        each = each.add_(pick(value.position, position))
    weight, _ = boltzmann_terms(draw.keys(rows, position), draw.temperature)
    first = float(exponential(torch.tensor(draw.temperature * draw.bos_key, dtype=torch.float64)))
    begin = first, first * value.bos
    found = contexts(weight, weight * each.double(), torch.from_numpy(size), begin, tokens.causal).numpy()
    at = start[which] + flat - offsets[row] if tokens.causal and target.per == "token" else which
    return np.asarray(found[at], dtype=np.float64)


def stages_of(
    points: Points, changes: Ints, target: Target, draw: Draw, tokens: Tokens, seed: int
) -> tuple[list[Stage], tuple[Value, ...], int]:
    """All stages, the values that they average, and how many points are left in crowds at the largest rank.

    `changes` `(R,)`: the places on the line whose label differs from that of the next.
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
        values[number] = draw_value(tokens, seed, number)
        return averages(values[number], draw, tokens, target, held[which])

    ends, error = (int(part.number[0]), int(part.number[-1])), draw.context_error(tokens)
    stages, left = further(part.stretch, missing, ends, context, error, points.unit, whole, MOST)
    return [first, *stages], tuple(values.values()), len(left)
