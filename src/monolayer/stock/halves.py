"""Half-spaces as the neurons of a stock model that stores cells: rounded to the format, measured again, gated by token.

Every product has the shape of one cell, so that the neurons of a token are a function of its facts, bit for bit.
Letters: `H` neurons, `p` columns of places and of `u` behind them, `k` of the context.

`cover` makes slabs as wide as other labels allow, so that a key which the data lack falls onto some side. `caps` makes
half-spaces around single facts instead, for folders that answer `unknown` to whatever is not in their data. Behind the
second norm all that can arrive lies on a sphere,

    β² u² + |F c|² = D,    u = F s,    β² = K + D ε/s²

(`K` the squared norm of the stream before the context `c` is added, over `s²`). So `w · z = D − |z − z_f|²/2` with
`w = (β² u_f, F_f c_f)`, and the half-space of a fact `f` is a cap of that sphere: a ball around it. Its half-width `h`,
in the units of `w/|w|`, is `NARROW`, or half of what is left to the nearest fact with another label, if that is less.

`misread_points` evaluates the facts in the arithmetic of a short format. A plain `from_pretrained` computes in the
format that the weights are stored in, and no proof covers bfloat16 or float16 arithmetic. So every fact is evaluated as
`from_pretrained` would do it, with sums in float32 and every result rounded to the format, up to the neurons of the
token that answers. Logits and weights of attention are not rounded, as in the fused kernels that are the default
(sdpa); eager attention rounds them, and may lose more. Kernels sum and round in different orders, so a neuron must keep
at least `LEFT` of its margin here, and a multiple of what independent roundings of the numbers that it reads add up to,
whose sizes may be thousands of margins. What comes behind the neurons is sums of words with cosines of at most 1/2,
which rounding does not turn; the neurons of other tokens are below −1 whatever the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.construct.powers import power_above
from monolayer.construct.robust.build import LOUD, NARROWEST
from monolayer.construct.robust.cover import Cells, HalfSpaces
from monolayer.data.number_formats import FORMATS
from monolayer.huggingface.architecture import BEGIN
from monolayer.stock.columns import USUAL_SIZE, plus_minus
from monolayer.stock.folder import NeuronWeights
from monolayer.stock.labelled import StockTask
from monolayer.stock.norms import factor
from monolayer.stock.stream import CellStream, written_contexts

U_WEIGHT = {"float32": 8.0, "bfloat16": 1.0, "float16": 1.0}
"""How much the `u` behind the places counts beside a coordinate of the context, a power of two. Facts would lie on a
sphere at about 10; but a short format rounds `u` once, for all of it, so there it counts as one coordinate."""
RADII = 64
"""Pieces of the lengths that a context can have, for the bound of the gate."""
NARROW = 2.0**-5
"""`h`, about as narrow as a half-space may be that is still proved. The ball has radius `√(2 h |w|)`, which is about 1,
where contexts are some 10 long."""
PRODUCTS_HELD = 1 << 23
"""Products held in memory at a time, at most."""
LEFT = 0.5
"""Share of a margin that must be left."""
ROUNDINGS = 1.0
"""A margin must also exceed so many times what independent roundings of all numbers that a neuron reads add up to."""
SHARP = {"relu6": 1.0, "silu": 32.0}
"""What neurons are multiplied by, so that −1 is silence: silu(−32) is below 10⁻¹²."""


def rounded_to(array: Floats, dtype: str) -> Floats:
    """`array` rounded to a format, in float64."""
    rounded: Floats = torch.from_numpy(np.ascontiguousarray(array)).to(getattr(torch, dtype)).double().numpy()
    return rounded


class CellFacts(NamedTuple):
    """The facts of tokens that have several classes, in the order of their tokens.

    `tokens` `(c,)`: the ids of these tokens, one per cell. `cells`: what arrives at their facts, cell by cell. `u` and
    `point` `(Q,)`: the size of code and ones there, and the number of the labelled point, for each fact.
    """

    tokens: Ints
    cells: Cells
    u: Floats
    point: Ints


@dataclass(frozen=True, eq=False)
class Half:
    """Half-spaces as neurons will store them, `(H, p + k)` and `(H,)`, each with its cell, class and margin."""

    cell: Ints
    label: Ints
    weight: Floats
    slight: Floats
    """The part of the weight of `u` `(H,)` that is read from `−u`: in a short format two numbers are more exact."""
    bias: Floats
    width: Floats
    """Half-width of each slab, in the units of what arrives."""
    place: Floats
    """The most that a place's word can add to `w · z`, over `u`."""


def settled(known: CellFacts, half_spaces: HalfSpaces, dtype: str, codes: Floats, *, narrow: bool = False) -> Half:
    """Half-spaces rounded to the format, and their slabs measured again on the facts of their cells.

    `codes` `(L, p)`: the words of places (`CellStream.place_codes`). `narrow`: keeps slabs no wider than they were
    found, even if no fact is in the way.
    """
    facts, p = known.cells, codes.shape[1]
    wide = np.maximum(half_spaces.half_width, NARROWEST)
    wish = power_above(1.0 / wide)  # a power of two: margins of 1 to 2, and no new rounding
    exact = half_spaces.normal.double().numpy() * wish[:, None]
    weight = rounded_to(exact, dtype)
    coarse = weight[:, p - 1].copy()
    slight = rounded_to(exact[:, p - 1] - coarse, dtype)
    weight[:, p - 1] += slight
    low, high, place, usual_u = np.zeros((4, len(weight)))
    cuts = np.searchsorted(half_spaces.cell, np.arange(len(known.tokens) + 1))
    covered = facts.label == facts.base[facts.cell]
    for cell, (begin, end) in enumerate(pairwise(cuts.tolist())):
        facts_of_cell = slice(int(facts.start[cell]), int(facts.start[cell + 1]))
        features = facts.feature[facts_of_cell].double().numpy()
        part = slice(begin, end)
        height = features @ weight[part].T
        mine = facts.label[facts_of_cell][:, None] == half_spaces.label[part]
        centre, reach = (x[part] * wish[part] for x in (half_spaces.centre, wide))
        # Facts of a cell may lie close together far from 0. What rounding adds at all of them moves the slab.
        centre = centre + features.mean(axis=0) @ (weight[part] - exact[part]).T
        inside = mine & (height >= centre + 0.9 * reach)
        low[part] = np.where(mine, -np.inf, height).max(axis=0, initial=-np.inf)
        high[part] = np.where(inside, height, np.inf).min(axis=0, initial=np.inf)
        if narrow:
            low[part] = np.maximum(low[part], centre - reach)
        covered[facts_of_cell] |= inside.any(axis=1)
        usual_u[part] = np.median(known.u[facts_of_cell])
        place[part] = (weight[part, :p] @ codes.T).max(axis=1)
    high = np.where(np.isfinite(high), high, low)  # rounding lost all facts of the slab: width 0
    low = np.where(np.isfinite(low), low, high - 2.0)
    margin = np.where(covered.all(), (high - low) / 2.0, 0.0)
    length = np.maximum(np.linalg.norm(weight, axis=1), 1e-30)  # equal facts leave no direction
    bias = rounded_to(-(high + low) / 2.0, dtype)
    # The column of `u` adds what a bias in a short format lacks.
    one = U_WEIGHT[dtype]
    finer = rounded_to(slight + (-(high + low) / 2.0 - bias) / (one * usual_u), dtype)
    weight[:, p - 1] = coarse + finer
    return Half(
        cell=known.tokens[half_spaces.cell],
        label=half_spaces.label,
        weight=weight,
        slight=finer,
        bias=bias,
        width=margin / length,
        place=place + one * np.abs(finer - slight),
    )


def neurons(stream: CellStream, half: Half, dtype: str, activation: str) -> NeuronWeights:
    """Rows that read code, ones, `u`, place and context; what they write is the word of their class."""
    columns, H = stream.columns, len(half.cell)
    p = columns.place.stop - columns.place.start + 1
    sharp = SHARP[activation]
    W_1, W_2 = np.zeros((2, H, stream.width))
    if not columns.begin_answers:
        gate, signs = _gate(stream, half, p), stream.tokens[BEGIN, columns.ones]
        W_1[:, columns.code] = (gate / (columns.code.stop - columns.code.start))[:, None] * stream.tokens[
            half.cell, columns.code
        ]
        W_1[:, columns.ones] = -(gate / len(signs))[:, None] * signs
    W_1[:, columns.place], W_1[:, columns.slot] = half.weight[:, : p - 1], half.weight[:, p:]
    plus, minus = plus_minus(columns.u)
    share = U_WEIGHT[dtype] / (stream.u_size * len(plus))  # a power of two
    W_1[:, plus] = share * (half.weight[:, p - 1] - half.slight)[:, None]
    W_1[:, minus] = -share * half.slight[:, None]
    W_2[:, columns.label] = USUAL_SIZE * LOUD / sharp * stream.words[half.label]
    return NeuronWeights(rounded_to(sharp * W_1, dtype), rounded_to(sharp * half.bias, dtype), W_2)


def _gate(stream: CellStream, half: Half, p: int) -> Floats:
    """`A`, a power of two that silences each neuron at every other token, whatever the context.

    There `A u (1 − cos) ≥ u P + F |w| r + b + 1` must hold for every length `r` of a context, with `u = F s`. Divided
    by `F` the right side is bounded piece by piece: `r` at the upper end, `(b + 1)/F` at the end where it is larger.
    """
    if len(stream.tokens) < 2 or len(half.cell) == 0:
        return np.zeros(len(half.cell))
    apart = 1.0 - stream.cosine(half.cell)
    longest = float(np.linalg.norm(stream.values, axis=1).max())
    radius = np.linspace(0.0, longest, RADII + 1)
    over = 1.0 / stream.factor(radius**2)
    lift = half.bias[:, None] + 1.0
    most = np.linalg.norm(half.weight[:, p:], axis=1)[:, None] * radius[1:]
    most = (most + np.where(lift > 0.0, lift * over[1:], lift * over[:-1])).max(axis=1) / stream.scale + half.place
    return np.where(most > 0.0, power_above(np.maximum(most, 1e-30) / apart), 0.0)


def caps(facts: Cells, stream: CellStream, one: float) -> HalfSpaces:
    """A narrow half-space for every fact whose label is not that of its cell.

    `one`: the weight of `u` in the features (`U_WEIGHT`).
    """
    context = facts.feature.shape[1] - stream.values.shape[1]
    places = context - 1  # their signs are features of their own, and have their share of the norm
    beta = (stream.rest + stream.width * stream.epsilon) / stream.scale**2 - places
    weight = facts.feature.clone()
    weight[:, context - 1] *= beta / one**2
    size = weight.double().norm(dim=1).numpy()
    normal = weight / torch.from_numpy(size).float()[:, None]
    top = (normal * facts.feature).double().sum(dim=1).numpy()
    room = np.full(len(top), np.inf)
    for start, stop in pairwise(facts.start.tolist()):
        rows = max(1, PRODUCTS_HELD // (stop - start))
        for first in range(start, stop, rows):
            some = slice(first, min(stop, first + rows))
            height = (normal[some] @ facts.feature[start:stop].T).double().numpy()
            height[facts.label[some][:, None] == facts.label[start:stop]] = -np.inf
            room[some] = top[some] - height.max(axis=1)
    half_width = np.maximum(np.minimum(NARROW, room / 2.0), 1e-9)
    chosen = np.flatnonzero(facts.label != facts.base[facts.cell])
    return HalfSpaces(
        cell=facts.cell[chosen],
        label=facts.label[chosen],
        normal=normal[torch.from_numpy(chosen)],
        centre=(top - half_width)[chosen],
        half_width=half_width[chosen],
        worst=int(chosen[half_width[chosen].argmin()]) if len(chosen) else None,
    )


def misread_points(job: StockTask, stream: CellStream, half: Half, label: Ints, dtype: str) -> Ints:
    """Numbers of the labelled points whose answer is wrong, or nearly so, in the arithmetic of `dtype`.

    `label` `(P,)`: the classes that the points should have.
    """
    wrong: list[Ints] = []
    cuts = np.searchsorted(half.cell, np.arange(len(stream.usual) + 1))
    weight = half.weight
    for point, feature in _arriving(job, _as_computed(stream, dtype), dtype):
        token = job.points.token[point]
        order = np.argsort(token, kind="stable")
        names, first = np.unique(token[order], return_index=True)
        for name, rows in zip(names.tolist(), np.split(order, first[1:]), strict=True):
            facts_of_cell = slice(int(cuts[name]), int(cuts[name + 1]))
            if facts_of_cell.start == facts_of_cell.stop:
                continue
            value = rounded_to(feature[rows] @ weight[facts_of_cell].T + half.bias[facts_of_cell], dtype)
            noise = (
                ROUNDINGS * FORMATS[dtype].unit * np.sqrt(np.square(feature[rows]) @ np.square(weight[facts_of_cell]).T)
            )
            need = np.maximum(LEFT, noise)
            mine = half.label[facts_of_cell] == label[point[rows], None]
            right = np.where(mine, value - need, -np.inf).max(axis=1) >= 0
            right |= label[point[rows]] == stream.usual[name]
            quiet = np.where(mine, -np.inf, value + need).max(axis=1) <= 0
            wrong.append(point[rows[~(right & quiet)]])
    return np.sort(np.concatenate(wrong)) if wrong else np.zeros(0, np.int64)


def _as_computed(stream: CellStream, dtype: str) -> CellStream:
    """The stream as a short format computes it: first norm, queries, keys and values, each rounded."""
    norm = stream.rest / stream.scale**2
    exact = float(factor(norm, stream.width, stream.epsilon))  # of the first norm
    first = float(rounded_to(np.array([exact]), dtype)[0])
    scale = first if stream.scale == exact else 1.0  # a norm in front of the stream rounds the stream
    gain = stream.kept.gain
    return replace(
        stream,
        query=None if stream.query is None else rounded_to(stream.query, dtype),
        key=None if stream.key is None else rounded_to(stream.key, dtype),
        values=gain * rounded_to(stream.values / gain * (first / exact), dtype),
        scale=scale,
        rest=scale**2 * norm,
    )


def _arriving(job: StockTask, stream: CellStream, dtype: str) -> Iterator[tuple[Ints, Floats]]:
    """What arrives at labelled points on the columns that half-spaces read, rounded step by step, batch by batch."""
    codes = stream.place_codes(U_WEIGHT[dtype])
    for point, context in written_contexts(job, stream):
        written = rounded_to(context.double().numpy(), dtype)
        F = stream.factor(np.square(written).sum(axis=1))[:, None]
        u = rounded_to(F * stream.scale, dtype)
        yield point, np.concatenate([u * codes[job.points.place[point]], rounded_to(F * written, dtype)], axis=1)
