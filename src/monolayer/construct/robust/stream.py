"""What tokens, places and classes look like in the stream, and the contexts that attention makes of them.

Token codes, place codes and class codes are words of good codes; values are random signs; the logits of attention are
`λ cos(ω (i − l) + φ)`, so nearer places weigh more. With `φ = ω/4` the angles `ω (i − l + 1/4)` of all places differ in
absolute value: no two places have one weight, and order binds.

Letters: `V` tokens, `L` places, `k` the value rank, `P` labelled points, `D` the width of the stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monolayer.arrays import Ints
from monolayer.construct.robust.codes import code_for, largest_cosine, words
from monolayer.construct.robust.linear import LIFT
from monolayer.construct.robust.stored import ONES, RobustDraw
from monolayer.construct.task import Task
from monolayer.model.gates import RankAttention
from monolayer.model.layers import embedding, linear
from monolayer.model.places import Layout, mixtures, read_places, unit

GAIN = 8.0
"""How much louder than its own value a token hears what attention returns."""
TEMPERATURE = 2.5
"""λ: the nearest place weighs up to e^(2λ) as much as the farthest; noise on logits grows with it."""
PERIOD = 24.0
"""Places of a full turn, at least; a longer sequence gets a longer turn, half of which it fills."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The parts of the network up to attention, in the format that they will be stored in, and the class codes."""

    draw: RobustDraw
    layout: Layout
    lift: nn.Embedding | nn.Linear
    positions: nn.Embedding | None
    bos: Tensor
    attention: RankAttention
    classes: NDArray[np.float64]
    """Codes of the classes `(C, m)`: rows of the head."""
    bias: NDArray[np.float64]
    """Of the head `(C,)`; 0 but for linear cells."""
    token: NDArray[np.float64]
    """The token part of every token `(V, t)`, or of the begin token alone where it answers, at mean square 1."""
    base: Ints
    """Class that every cell has without neurons `(V,)`, or `(1,)` where the begin token answers."""
    start: NDArray[np.float64]
    """Class code that the readout itself adds `(m,)`: the base of vectors; else 0, and embeddings carry it."""

    @property
    def even(self) -> bool:
        return isinstance(self.lift, nn.Linear)

    def cosine(self, cells: Ints) -> NDArray[np.float64]:
        """A bound on the cosine of the token part of each of these cells with that of any other token.

        Words of a code have that of their code, whichever of them are in use: gates do not depend on other tokens.
        """
        if self.even:
            return largest_cosine(self.token, cells)
        return np.full(len(cells), code_for(self.draw.tokens).cosine)


def draw_stream(task: Task, draw: RobustDraw) -> Stream:
    """The stream for a task, its numbers rounded to the format of the draw and kept in float64."""
    data, target, per_sequence = task.data, task.target, task.target.per == "sequence"
    dtype = getattr(torch, draw.dtype)
    assert target.classes is not None  # reals were refused before
    label, bias = draw.class_words(target.classes)
    place, key = _places(task, draw.longest)
    # Where only the begin token answers, there is nothing to tell it from.
    code = np.zeros((len(data.vocabulary or ()), 0))
    if data.vocabulary is not None and not per_sequence:
        code = draw.token_words(data.vocabulary)
    code_width = code.shape[1] if task.vectors is None else task.vectors.shape[1]
    layout = Layout(code_width + ONES, place.shape[1], draw.rank, label.shape[1])
    base = base_of(task, len(code)) if task.vectors is None or per_sequence else np.full(len(task.vectors), draw.usual)
    usual = usual_labels(task, base, label, draw.base)

    bos = np.zeros(layout.width)
    bos[code_width : layout.token] = 1.0
    bos[layout.context] = signs(draw, 0, 1, draw.rank)[0]
    if task.context.positions:
        bos[layout.key] = key[0]
    lift: nn.Embedding | nn.Linear
    start = np.zeros(layout.label)
    if task.vectors is None:
        table = np.zeros((len(code), layout.width))
        table[:, :code_width] = code
        table[:, code_width : layout.token] = 1.0
        table[:, layout.context] = signs(draw, 1, len(code), draw.rank)
        if not per_sequence:
            table[:, -layout.label :] = usual
        token = table[:, : layout.token]
        unseen = np.bincount(task.context.rows, minlength=len(code)) == 0
        lift = embedding(_rounded(np.where(unseen[:, None], np.nan, table), dtype))
    else:
        lift = linear(*(_rounded(part, dtype) for part in _vector_lift(draw, layout, code_width)))
        token = token_parts(lift, layout, task.vectors)
        start = start if per_sequence else label[draw.usual]
    if per_sequence:
        token, bos[-layout.label :] = bos[None, : layout.token], usual[0]
    positions = None
    if task.context.positions:
        rows = np.zeros((len(key) - 1, layout.width))
        rows[:, layout.token : layout.token + layout.place] = place
        rows[:, layout.key] = key[1:]
        positions = embedding(_rounded(rows, dtype))
    strength = TEMPERATURE if task.context.positions else 0.0
    turn = math.pi / 2.0 / period(len(key) - 1)
    attention = RankAttention.over_places(layout, strength, turn, GAIN).to(dtype).to(torch.float64)
    return Stream(draw, layout, lift, positions, _rounded(bos, dtype), attention, label, bias, token, base, start)


def usual_labels(task: Task, base: Ints, label: NDArray[np.float64], digit_base: int | None) -> NDArray[np.float64]:
    """What the embedding of each cell holds in the label part `(cells, m)`; `label` `(C, m)`: codes of the classes."""
    usual = label[base]
    if digit_base is not None:
        # A cell of one class has its digits; the others start below all digits, and neurons add up from there.
        usual = np.where(several(task, len(base))[:, None], -LIFT - (digit_base - 1) / 2.0, usual / 2.0)
    return np.asarray(usual)


def token_parts(lift: nn.Linear, layout: Layout, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The token part of vectors `(V, t)` at mean square 1, by the weights as they are stored."""
    weight, bias = (part.detach().double().numpy()[: layout.token] for part in (lift.weight, lift.bias))
    token = vectors @ weight.T + bias
    return np.asarray(token / np.sqrt((token**2).mean(axis=1, keepdims=True)))


def contexts(task: Task, stream: Stream, wanted: NDArray[np.bool_], device: torch.device) -> tuple[Ints, Tensor]:
    """Wanted points, as numbers of labels, and the features of each `(P', p + k)` that neurons read: place, context."""
    data, layout, attention = task.data, stream.layout, stream.attention
    number = np.full(len(data.tokens) if task.target.per == "token" else len(data), -1)
    number[np.arange(len(number)) if task.target.place is None else task.target.place] = np.arange(len(wanted))
    number = np.where((number >= 0) & wanted[number.clip(0)], number, -1)
    places = read_places(stream.positions, stream.bos, attention, layout, task.context.causal, task.target.per)
    read, write = attention.W_V.detach()[:, layout.context], attention.W_O.detach()[layout.context]
    if isinstance(stream.lift, nn.Embedding):
        rows, own = torch.from_numpy(task.context.rows), stream.lift.weight.detach()[:, layout.context]
    else:
        x = torch.from_numpy(task.vectors)
        own = (x @ stream.lift.weight.T + stream.lift.bias).detach()[:, layout.context]
        rows = torch.from_numpy(task.context.rows)
    bos = stream.bos[layout.context]
    value, begin = (write @ read @ own.T).T, write @ read @ bos
    value, own, rows = (part.to(device) for part in (value.float(), own.float(), rows))
    feature = torch.empty(int((number >= 0).sum()), layout.place + layout.rank, device=device)
    label = np.empty(len(feature), dtype=np.int64)
    lengths = torch.from_numpy(data.lengths).to(device)
    code = (
        None
        if stream.positions is None
        else stream.positions.weight.detach()[:, layout.token : layout.token + layout.place]
    )
    position = data.position
    done = 0
    for at, mixed in mixtures(places.to(device), value, begin.float().to(device), lengths, rows):
        chosen = number[at.cpu().numpy()] >= 0
        if not chosen.any():
            continue
        at, mixed = at[torch.from_numpy(chosen).to(device)], mixed[torch.from_numpy(chosen).to(device)]
        flat = at.cpu().numpy()
        end = done + len(flat)
        mine = bos.float().to(device) if task.target.per == "sequence" else own[rows[at]]
        feature[done:end, layout.place :] = unit(mine + mixed)
        if code is not None and layout.place:
            feature[done:end, : layout.place] = code[torch.from_numpy(position[flat])].float().to(device)
        label[done:end] = number[flat]
        done = end
    return label, feature


def _places(task: Task, longest: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Codes `(L, p)` and keys `(L + 1, 2)` of the places, the begin token first; empty without positions."""
    if longest is None:
        return np.zeros((0, 0)), np.zeros((1, 2))
    # The begin token has no place code, and where it answers no token's place is read.
    code = words(longest) if task.target.per == "token" else np.zeros((longest, 0))
    angle = 2.0 * math.pi / period(longest) * np.arange(longest + 1)
    key = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    key[np.abs(key) < 2.0**-30] = 0.0
    return code, key  # a cosine of π/2 is 0, not a rounding error


def period(longest: int) -> float:
    return max(PERIOD, 1.25 * (longest + 1))


def several(task: Task, cells: int) -> NDArray[np.bool_]:
    """Which cells `(cells,)` have more than one class."""
    pairs = np.unique(np.stack([cell_of(task), task.target.number], axis=1), axis=0)[:, 0]
    return np.asarray(np.bincount(pairs, minlength=cells) > 1)


def cell_of(task: Task) -> Ints:
    """The cell of every labelled place `(P,)`: its token, or the one cell of the begin token."""
    target, rows = task.target, task.context.rows
    if target.per == "sequence":
        return np.zeros(len(target.number), dtype=np.int64)
    return rows if target.place is None else rows[target.place]


def base_of(task: Task, count: int) -> Ints:
    """The most frequent class of every cell `(count,)`, or `(1,)` where the begin token answers."""
    target, size = task.target, len(task.target.table)
    pair, often = np.unique(cell_of(task) * size + target.number, return_counts=True)
    order = np.lexsort((-often, pair // size))
    first = np.r_[True, np.diff(pair[order] // size) > 0]
    base = np.zeros(count if target.per == "token" else 1, dtype=np.int64)
    base[pair[order][first] // size] = pair[order][first] % size
    return base


def _vector_lift(draw: RobustDraw, layout: Layout, code: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight `(D, d)` and bias `(D,)`: the vector, centred and as long as the ones on average; its random mixtures."""
    assert draw.centre is not None  # the draw is one of vectors
    weight = np.zeros((layout.width, len(draw.centre)))
    weight[:code] = np.eye(code) / draw.size
    weight[layout.context] = signs(draw, 1, layout.rank, len(draw.centre)) / draw.size
    bias = -weight @ draw.centre
    bias[code : layout.token] = 1.0
    return weight, bias


def signs(draw: RobustDraw, part: int, rows: int, columns: int) -> NDArray[np.float64]:
    """Random signs, those of a row whatever rows come after it; `part`: 0 for the begin token, 1 for tokens."""
    random = np.random.default_rng([draw.seed, 17, part])
    return np.asarray(1.0 - 2.0 * random.integers(0, 2, (rows, columns)), dtype=np.float64)


def in_format(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor` in another format, NaN as one and the same pattern of bits: conversion to bfloat16 makes two of it."""
    short = tensor.detach().to(dtype)
    return short.masked_fill(short.isnan(), torch.nan)


def _rounded(array: NDArray[np.float64], dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype).to(torch.float64)
