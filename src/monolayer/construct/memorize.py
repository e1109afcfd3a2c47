"""From a dataset to a one-layer, rank-1 Transformer that returns every label. No training.

`memorize` reads like the proof: distinct tokens get distinct keys; one softmax head with rank-1 weights
turns the keys of a sequence into one number, different for different contexts (Theorem A); code and
context together give every labelled place its own number `z`; a staircase over `z` returns the labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.construct.consistency import Context, OnConflict, equal_points, resolve
from monolayer.construct.draw import Draw, Layout, Tokens, draws
from monolayer.construct.points import SLACK, Points, contextual_points
from monolayer.construct.steps import dense_error, staircase
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.model.attention import CODE, KEY, LABEL, ONE, RankOneAttention
from monolayer.model.card import Card, Summary
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.shortcut import plain_head
from monolayer.model.staircase import Readout
from monolayer.theory.bounds import corollary1_parameters

DRAWS = 4
"""Draws of directions and temperature that are measured, for each layout."""

Progress = Callable[[str, float], None]


def memorize(
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    positions: bool = False,
    causal: bool = False,
    readout: Readout = "exact",
    device: torch.device | str | None = None,
    seed: int = 0,
    on_conflict: OnConflict = "error",
    progress: Progress | None = None,
) -> Monolayer:
    """A `Monolayer` that gives every token, or every sequence, of the data its label.

    `X`: ids `(N, n)`, vectors `(N, n, d)`, lists of any lengths, strings, or `Sequences`; `Y`: one label a
    token or one a sequence; classes (integers, strings) or reals. `positions=True` makes order matter;
    without it the model is permutation equivariant. `causal=True` hides what comes later; without `Y` it
    memorizes each next token. `readout`: `exact` or `paper`. `on_conflict`: what to do where equal token and
    context have different labels. The same seed gives the same bits. Float64; rank 1.
    """
    began = time.perf_counter()
    report = progress or (lambda stage, share: None)
    _check_choice("readout", readout, ("exact", "paper"))
    _check_choice("on_conflict", on_conflict, ("error", "majority", "first"))

    report("reading the data", 0.0)
    data = Sequences.of(X, Y, lengths=lengths)
    target = Target.of(data, causal)
    rows, vectors = _distinct_tokens(data)
    tokens = _tokens(data, rows, vectors, target, positions, causal)
    context = Context(data, rows, positions, causal)

    report("separating contexts", 0.1)
    draw, points, target, changes, conflicts, tried = _separate(tokens, target, context, on_conflict, seed)

    report("building the staircase", 0.7)
    feed_forward, label_error = staircase(points, target, changes, readout)
    readout_error = dense_error(feed_forward, points, target, label_error) if readout == "paper" else None

    model = _assemble(data, rows, draw, points.kappa, feed_forward, target, causal)
    summary = Summary(
        sequences=len(data),
        labelled=len(points.z),
        **_measure(points, changes),
        vocabulary=int(np.count_nonzero(np.bincount(rows))),
        temperature=draw.temperature,
        layout=draw.layout,
        draws=tried,
        runs=len(changes) + 1,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        corollary_1=corollary1_parameters(*_paper_sizes(data, model)),
        label_bits=len(points.z) * target.entropy_bits(),
        conflicts=conflicts,
        label_error=label_error,
        readout_error=readout_error,
        seconds=time.perf_counter() - began,
    )
    model.card = model.card.with_summary(summary)
    report("done", 1.0)
    return model if device is None else model.to(device)


def _separate(
    tokens: Tokens, target: Target, context: Context, on_conflict: OnConflict, seed: int
) -> tuple[Draw, Points, Target, Ints, int, int]:
    """A draw under which all neighbours with different labels lie further apart than rounding can move them.

    The best-measured draw of the layout `cells` nearly always serves; then come its other draws, then those
    of the layout `mixed`. Contradictions are settled once: they do not depend on the draw.
    """
    group: Ints | None = None
    conflicts = tried = 0
    worst: tuple[int, Points] | None = None
    layouts: tuple[Layout, ...] = ("cells", "mixed")
    for layout in layouts:
        for draw in draws(tokens, layout, DRAWS, seed):
            tried += 1
            points = contextual_points(draw, tokens, target)
            changes, close = _changes(points, target)
            if close.any() and group is None:
                group = equal_points(context, target)
                target, conflicts = resolve(context, target, group, on_conflict)
                changes, close = _changes(points, target)
            if not close.any():
                return draw, points, target, changes, conflicts, tried
            if worst is None or close.sum() < worst[0]:
                worst = (int(close.sum()), points)
                pair = points.order[changes[close][0]], points.order[changes[close][0] + 1]
    assert worst is not None
    raise _collision(worst, (int(pair[0]), int(pair[1])), tokens, target, context)


def _changes(points: Points, target: Target) -> tuple[Ints, Any]:
    """Where neighbours have different labels `(R,)`, and which of these gaps are too narrow."""
    number = target.number[points.order]
    changes = np.flatnonzero(number[1:] != number[:-1])
    left, right = points.z[changes], points.z[changes + 1]
    # `not (≥)` rather than `<`: a NaN is no gap either.
    return changes, ~(right - left >= SLACK * points.error(np.maximum(np.abs(left), np.abs(right))))


def _collision(
    worst: tuple[int, Points], pair: tuple[int, int], tokens: Tokens, target: Target, context: Context
) -> PrecisionError:
    """The error for data that are consistent but that float64 with rank 1 cannot hold."""
    count, points = worst
    data = context.data
    one, two = pair if target.place is None else (int(target.place[pair[0]]), int(target.place[pair[1]]))
    if tokens.vectors is not None and target.per == "token":
        distance = float(np.linalg.norm(data.tokens[one] - data.tokens[two]))
        size = float(np.linalg.norm(data.tokens[one]))
        if 0.0 < distance < 1e-6 * max(size, 1e-300):
            return PrecisionError(
                f"{data.where(one)} and {data.where(two)} have different labels and are closer than float64 can "
                f"separate here: distance {distance:.3g} at norm {size:.3g}. Merge them, or move them apart"
            )
    reach = float(points.z[-1] - points.z[0])
    holds = int(np.sqrt(reach / (SLACK * float(points.error(points.z).max()))))
    return PrecisionError(
        f"{count:,} pair{'s' if count > 1 else ''} of points with different labels fell closer together than "
        f"{SLACK:g} rounding errors in every one of {2 * DRAWS} draws, for example {data.labelled(pair[0])} and "
        f"{data.labelled(pair[1])}. They are different points, not a contradiction: with rank 1 in float64 about "
        f"{holds:,} points of this kind can be held, and there are {len(points.z):,}. Split the data over several "
        "models, or try another seed if few pairs collide"
    )


# -- from arrays to modules ----------------------------------------------------------------------------


def _distinct_tokens(data: Sequences) -> tuple[Ints, Any]:
    """Vocabulary rows `(T,)`, and for vectors the distinct ones `(V, d)`."""
    if data.vocabulary is not None:
        return data.tokens, None
    vectors, rows = distinct_rows(data.tokens)
    return rows, vectors


def _tokens(data: Sequences, rows: Ints, vectors: Any, target: Target, positions: bool, causal: bool) -> Tokens:
    vocabulary = len(vectors) if data.vocabulary is None else len(data.vocabulary)
    order = None
    if data.vocabulary is not None and target.per == "token":
        # Tokens that end with one label next to each other: fewer label changes between cells.
        some = np.zeros(vocabulary, dtype=np.int64)
        some[rows if target.place is None else rows[target.place]] = target.number
        order = np.empty(vocabulary, dtype=np.int64)
        order[np.argsort(some, kind="stable")] = np.arange(vocabulary)
    position = torch.from_numpy(data.position) if positions else None
    return Tokens(torch.from_numpy(rows), torch.from_numpy(data.lengths), vocabulary, vectors, position, causal, order)


def _assemble(
    data: Sequences,
    rows: Ints,
    draw: Draw,
    kappa: float,
    feed_forward: Any,
    target: Target,
    causal: bool,
) -> Monolayer:
    width = LABEL + target.table.shape[1]
    lift: nn.Embedding | nn.Linear
    if draw.lift is None:
        weight = _stream(draw.key, draw.code, width)
        weight[torch.from_numpy(np.bincount(rows, minlength=len(weight)) == 0)] = torch.nan
        lift = embedding(weight)
    else:
        weight = torch.zeros(width, draw.lift[0].shape[1], dtype=torch.float64)
        weight[KEY : CODE + 1] = draw.lift[0]
        bias = torch.zeros(width, dtype=torch.float64)
        bias[ONE], bias[KEY : CODE + 1] = 1.0, draw.lift[1]
        lift = linear(weight, bias)
    positions = None
    if draw.position_key is not None and draw.position_code is not None:
        place = _stream(draw.position_key, draw.position_code, width)
        place[:, ONE] = 0.0
        positions = embedding(place)
    bos = _stream(torch.tensor([draw.bos_key], dtype=torch.float64), torch.zeros(1, dtype=torch.float64), width)[0]
    head = linear(*plain_head(None if target.classes is None else len(target.table), width - LABEL))
    attention = RankOneAttention.constant_query(width, draw.temperature, kappa)
    card = Card(data.vocabulary, target.classes, target.per, target.scalar, causal, target.next_token)
    return Monolayer(lift, positions, bos, attention, feed_forward, head, card)


def _stream(key: Tensor, code: Tensor, width: int) -> Tensor:
    """Stream vectors `(…, D)`: `(1, s, t, 0 …)`."""
    weight = torch.zeros(len(key), width, dtype=torch.float64)
    weight[:, ONE], weight[:, KEY], weight[:, CODE] = 1.0, key, code
    return weight


# -- numbers for the summary ---------------------------------------------------------------------------


def _measure(points: Points, changes: Ints) -> dict[str, Any]:
    gap, apart = points.gaps(), points.told_apart()
    reach = float(points.z[-1] - points.z[0])
    count = int(apart.sum()) + 1
    left, right = points.z[changes], points.z[changes + 1]
    slack = (right - left) / points.error(np.maximum(np.abs(left), np.abs(right)))
    return {
        "points": count,
        "gap": float(gap[apart].min()) / reach if count > 1 else 1.0,
        "expected_gap": 1.0 / count**2,
        "margin": float(slack.min()) if len(slack) else None,
    }


def _paper_sizes(data: Sequences, model: Monolayer) -> tuple[int, int, int, int]:
    """Head size, token dimension, longest sequence and number of sequences, for Corollary 1."""
    width = model.bos.numel() if data.vocabulary is not None else int(data.tokens.shape[1])
    return width, width, int(data.lengths.max()), len(data)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DataError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
