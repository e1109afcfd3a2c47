"""What tokens, places and classes look like in the stream, and the contexts that attention makes of them.

Token codes, place codes and class codes are words of good codes; values are random signs; the logits of attention are
`λ cos(ω (i − l) + φ)`, so nearer places weigh more. With `φ = ω/4` the angles `ω (i − l + 1/4)` of all places differ in
absolute value: no two places have the same weight, so order matters.

Letters: `V` tokens, `L` places, `k` the value rank, `P` labelled points, `D` the width of the stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from flint import arb
from numpy.typing import NDArray
from torch import Tensor, nn

from monolayer.arrays import Floats, Ints
from monolayer.construct.robust.codes import words
from monolayer.construct.robust.stored import ONES, RobustDraw
from monolayer.construct.task import Task
from monolayer.model.device import one_thread_each
from monolayer.model.gates import RankAttention
from monolayer.model.layers import embedding
from monolayer.model.places import SequencePart, StreamWidths, mixed_together, mixtures_of, read_places, unit
from monolayer.theory.balls import precision

GAIN = 8.0
"""Factor on what attention returns, relative to the value of the token itself."""
TEMPERATURE = 2.5
"""λ: the nearest place weighs up to e^(2λ) as much as the farthest; noise on logits grows with it."""
PERIOD = 24.0
"""Places of a full turn, at least; a longer sequence gets a longer turn, half of which it fills."""


@dataclass(frozen=True, eq=False)
class RobustStream:
    """The parts of the network up to attention, in the format that they will be stored in, and the class codes."""

    draw: RobustDraw
    layout: StreamWidths
    lift: nn.Embedding
    positions: nn.Embedding | None
    bos: Tensor
    attention: RankAttention
    classes: Floats
    """Codes of the classes `(C, m)`: rows of the head."""
    code: Floats
    """Codes of the tokens `(V, t)`; `(V, 0)` where the begin token answers, since there is only one cell."""
    base: Ints
    """Class that every cell has without neurons `(V,)`, or `(1,)` where the begin token answers."""


def draw_stream(task: Task, draw: RobustDraw) -> RobustStream:
    """The stream for a task, its numbers rounded to the format of the draw and kept in float64."""
    data, target, at_tokens = task.data, task.target, task.target.labelling.at_tokens
    dtype = getattr(torch, draw.dtype)
    assert data.vocabulary is not None  # vectors were refused before
    assert target.classes is not None  # and so were reals
    label = draw.class_words(target.classes)
    place, key = _places(task, draw.longest)
    code = draw.token_words(data.vocabulary) if at_tokens else np.zeros((len(data.vocabulary), 0))
    signs_end, base = code.shape[1], base_of(task, len(code))
    layout = StreamWidths(signs_end + ONES, place.shape[1], draw.rank, label.shape[1])

    bos = np.zeros(layout.width)
    bos[signs_end : layout.token] = 1.0
    bos[layout.context] = signs(draw, 0, 1)[0]
    if task.context.positions:
        bos[layout.key] = key[0]
    table = np.zeros((len(code), layout.width))
    table[:, :signs_end] = code
    table[:, signs_end : layout.token] = 1.0
    table[:, layout.context] = signs(draw, 1, len(code))
    if at_tokens:
        table[:, -layout.label :] = label[base]
    else:
        bos[-layout.label :] = label[base[0]]
    unseen = np.bincount(task.context.rows, minlength=len(code)) == 0
    lift = embedding(_rounded_to(np.where(unseen[:, None], np.nan, table), dtype))
    positions = None
    if task.context.positions:
        rows = np.zeros((len(key) - 1, layout.width))
        rows[:, layout.token : layout.token + layout.place] = place
        rows[:, layout.key] = key[1:]
        positions = embedding(_rounded_to(rows, dtype))
    strength = TEMPERATURE if task.context.positions else 0.0
    turn = rotations(np.array([math.pi / 2.0 / period(len(key) - 1)]))[0]
    attention = RankAttention.over_places(layout, strength, torch.from_numpy(turn), GAIN).to(dtype).to(torch.float64)
    return RobustStream(draw, layout, lift, positions, _rounded_to(bos, dtype), attention, label, code, base)


def context_features(task: Task, stream: RobustStream, wanted: NDArray[np.bool_]) -> tuple[Ints, Tensor]:
    """Wanted points, as numbers of labels, and the features of each `(P', p + k)` that neurons read: place, context."""
    data, layout, attention = task.data, stream.layout, stream.attention
    at_tokens = task.target.labelling.at_tokens
    number = np.full(task.target.labelling.count(data), -1)
    number[np.arange(len(number)) if task.target.place is None else task.target.place] = np.arange(len(wanted))
    number = np.where((number >= 0) & wanted[number.clip(0)], number, -1)
    places = read_places(stream.positions, stream.bos, attention, layout, task.context.causal, task.target.per)
    read, write = attention.W_V.detach()[:, layout.context], attention.W_O.detach()[layout.context]
    rows, vectors, bos = torch.from_numpy(task.context.rows), stream.lift.weight.detach(), stream.bos[layout.context]
    vectors = vectors[:, layout.context]
    value, begin = (write @ read @ vectors.T).T.float(), (write @ read @ bos).float()
    vectors, bos = vectors.float(), bos.float()
    feature = torch.empty(int((number >= 0).sum()), layout.place + layout.rank)
    label = np.empty(len(feature), dtype=np.int64)
    code = None
    if stream.positions is not None and layout.place:
        code = stream.positions.weight.detach()[:, layout.token : layout.token + layout.place].float()

    def fill(part: SequencePart, done: int) -> None:
        """The features of some sequences, from row `done` on."""
        for at, mixed in mixtures_of(places, value, begin, part, rows):
            chosen = torch.from_numpy(number[at.numpy()] >= 0)
            at, mixed = at[chosen], mixed[chosen]
            place = slice(done, done + len(at))
            feature[place, layout.place :] = unit((vectors[rows[at]] if at_tokens else bos) + mixed)
            if code is not None:
                feature[place, : layout.place] = code[torch.from_numpy(data.position[at.numpy()])]
            label[place] = number[at.numpy()]
            done = place.stop

    parts = list(mixed_together(places, layout.rank, torch.from_numpy(data.lengths)))
    answering = (at if at_tokens else sequence for sequence, at in parts)
    count = [int((number[where.numpy()] >= 0).sum()) for where in answering]
    with one_thread_each() as pool:
        list(pool.map(fill, parts, np.cumsum([0, *count[:-1]]).tolist()))
    return label, feature


def _places(task: Task, longest: int | None) -> tuple[Floats, Floats]:
    """Codes `(L, p)` and keys `(L + 1, 2)` of the places, the begin token first; empty without positions."""
    if longest is None:
        return np.zeros((0, 0)), np.zeros((1, 2))
    # The begin token has no place code, and where it answers no token's place is read.
    code = words(longest) if task.target.labelling.at_tokens else np.zeros((longest, 0))
    angle = 2.0 * math.pi / period(longest) * np.arange(longest + 1, dtype=np.float64)
    return code, circle(angle)


def circle(angle: Floats) -> Floats:
    """Cosine and sine of each angle `(L, 2)`.

    By balls of 128 bits, so that no weight depends on the last bits of a math library.
    """
    with precision(128):
        points = np.array([[float(arb(x).cos()), float(arb(x).sin())] for x in angle.tolist()])
    points[np.abs(points) < 2.0**-30] = 0.0  # a cosine of π/2 is 0, not a rounding error
    return points


def rotations(angle: Floats) -> Floats:
    """The rotation of the plane by each angle `(L, 2, 2)`."""
    cos, sin = circle(angle).T
    return np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2)


def period(longest: int) -> float:
    """How many places make a full turn, for sequences of up to `longest` tokens."""
    return max(PERIOD, 1.25 * (longest + 1))


def several(task: Task, cells: int) -> NDArray[np.bool_]:
    """Which cells `(cells,)` have more than one class."""
    size = len(task.target.table)
    pairs = np.unique(cell_of(task) * size + task.target.number) // size
    return np.asarray(np.bincount(pairs, minlength=cells) > 1)


def cell_of(task: Task) -> Ints:
    """The cell of every labelled place `(P,)`: its token, or the one cell of the begin token."""
    target = task.target
    rows: Ints = task.context.rows
    if not target.labelling.at_tokens:
        return np.zeros(len(target.number), dtype=np.int64)
    return rows if target.place is None else rows[target.place]


def base_of(task: Task, count: int) -> Ints:
    """The most frequent class of every cell `(count,)`, or `(1,)` where the begin token answers."""
    target, size = task.target, len(task.target.table)
    pair, often = np.unique(cell_of(task) * size + target.number, return_counts=True)
    order = np.lexsort((-often, pair // size))
    first = np.r_[True, np.diff(pair[order] // size) > 0]
    base = np.zeros(count if target.labelling.at_tokens else 1, dtype=np.int64)
    base[pair[order][first] // size] = pair[order][first] % size
    return base


def signs(draw: RobustDraw, part: int, rows: int) -> Floats:
    """Random signs `(rows, k)`, those of a row whatever rows come after it; `part`: 0: the begin token, 1: tokens."""
    random = np.random.default_rng([draw.seed, 17, part])
    return np.asarray(1.0 - 2.0 * random.integers(0, 2, (rows, draw.rank)), dtype=np.float64)


def in_format(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor` in another format, NaN as one and the same pattern of bits: conversion to bfloat16 makes two of it."""
    short = tensor.detach().to(dtype)
    return short.masked_fill(short.isnan(), torch.nan)


def _rounded_to(array: Floats, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype).to(torch.float64)
