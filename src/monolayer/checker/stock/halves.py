"""The verdict on a robust stock folder: at every point, the neurons that can wake there, and what follows. Lemma S9.

`W_1 z + b` with `z = F (s x + c)`: tokens and places through tables, contexts point by point, a few thousand at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from monolayer.checker.noise import Answers, answers
from monolayer.checker.rounding import PADDING, Floats, UnhandledError
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.mirror import (
    MORE,
    SMALL,
    UNDERFLOW,
    Mirrored,
    gamma,
    mean_error,
    read_mirror,
    variance_error,
)
from monolayer.checker.stock.places import Places
from monolayer.data import Sequences
from monolayer.data.names import Ints

RADII = 64
"""Pieces of the lengths that contexts can have, for the bound on silence."""
AT_ONCE = 1 << 22
"""Numbers held at a time."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Some points: ids of what they see `(B, n)`, attention weights, `c` `(B, S)` and the size of what it adds up; the
    second norm's factor `F`, the relative error of that, and what its computed mean may be off `(B,)`."""

    ids: Ints
    weight: Floats
    context: Floats
    size: Floats
    factor: Floats
    relative: Floats
    mean: Floats


@dataclass(frozen=True, eq=False)
class Live:
    """By token, from `start` `(V + 1,)` on: neurons that some context may wake there, what they read of the token, and
    its size. `relative`, `factors`: bounds on the second norm that hold for every context."""

    start: Ints
    neuron: Ints
    token: Floats
    size: Floats
    relative: float
    factors: tuple[float, float]


def judge_halves(net: Network, data: Sequences, places: Places) -> Answers:
    """Which points surely get their label, and which surely another."""
    found = read_mirror(net, places.most)
    table = np.zeros((1, net.width)) if net.places is None else net.places[net.offset :][: places.most]
    of_place = found.scale * table @ net.W_1.T, found.scale * np.abs(table) @ np.abs(net.W_1).T
    live = _live(net, found, of_place[0], np.unique(places.token))
    count = live.start[places.token + 1] - live.start[places.token]
    parts: list[tuple[Ints, Ints, Floats, Floats]] = []
    full = 6.0 if net.activation == "relu6" else np.inf
    H = len(net.W_1)
    for points in _chunks(np.flatnonzero(count > 0), places, found.value.shape[1]):
        seen = _seen(net, found, data, places, points)
        times = count[points]
        of = np.repeat(np.arange(len(points)), times)
        pair = np.repeat(live.start[places.token[points]] - (np.cumsum(times) - times), times) + np.arange(len(of))
        used, which = np.unique(live.neuron[pair], return_inverse=True)
        height = found.read[used] @ found.value.T
        for cut in np.array_split(np.arange(len(of)), 1 + len(of) * found.value.shape[1] // AT_ONCE):
            i, j = of[cut], live.neuron[pair[cut]]
            place = places.place[points[i]] if net.places is not None else np.zeros(len(i), dtype=np.int64)
            token = [part[pair[cut]] + at[place, j] for part, at in zip((live.token, live.size), of_place, strict=True)]
            value, error = _value(net, found, seen, i, j, height[which[cut][:, None], seen.ids[i]], token[0], token[1])
            low, high = np.clip(value - error, 0.0, full), np.clip(value + error, 0.0, full)
            on = high > 0.0
            parts.append((points[i[on]], j[on], low[on], high[on]))
        # The token's own word behaves like a neuron of its own: `F s`, or 1, times what the embedding holds.
        own = seen.factor if net.post_norm else np.ones(len(points))
        parts.append((points, H + places.token[points], own, own))
    plain = np.flatnonzero(count == 0)
    least, most = live.factors if net.post_norm else (1.0, 1.0)
    parts.append((plain, H + places.token[plain], np.full(len(plain), least), np.full(len(plain), most)))
    return _answers(net, found, places, parts, live)


def _seen(net: Network, found: Mirrored, data: Sequences, places: Places, points: Ints) -> Seen:
    """What attention and the second norm make of some points, and how far they may be off (Lemma S8)."""
    begin = points >= len(data.tokens) if places.begins else np.zeros(len(points), dtype=bool)
    flat = np.where(begin, 0, data.offsets[1:][points] - 1 if net.task == "sequence" else points)
    row, place = data.sequence[flat], np.where(begin, 0, data.position[flat] + 1)
    terms = places.terms[points]
    column = np.arange(1, int(terms.max()))
    there = np.append(np.ones((len(points), 1), dtype=bool), column < terms[:, None], axis=1)
    at = np.minimum(data.offsets[row][:, None] + column - 1, len(data.tokens) - 1)
    ids = np.append(np.full((len(points), 1), net.begin), places.ids[at], axis=1)
    score = np.zeros(there.shape) if found.scores is None else found.scores[place][:, : there.shape[1]]
    weight = np.where(there, np.exp(score - np.where(there, score, -np.inf).max(axis=1, keepdims=True)), 0.0)
    weight /= weight.sum(axis=1, keepdims=True)
    values = found.value[ids]
    context = np.einsum("bl,bls->bs", weight, values)
    size = np.einsum("bl,bls->bs", weight, found.value_size[ids])

    D, s = net.width, found.scale
    rough = found.own * size + found.drift
    # `c · (ĉ − c)`: attention weights, factors of the first norm, roundings, each in the direction of `c`.
    along = np.einsum("bls,bs->bl", values, context)
    turned = _moved(found, weight, along) + (np.abs(context) * rough).sum(axis=1)
    length = np.sqrt((context**2).sum(axis=1))
    apart = (2.0 * found.sway + MORE * found.common) * np.einsum(
        "bl,bl->b", weight, np.linalg.norm(found.value, axis=1)[ids]
    ) + np.linalg.norm(rough, axis=1)
    moved = 4.0 * turned + 2.0 * apart**2 + _first(net, found)
    variance = (s * s * 0.5 * (found.norm[0] + found.norm[1]) + 2.0 * length**2) / D + net.epsilon
    largest = np.maximum(s * found.largest, np.abs(context).max(axis=1)) * 1.02 + apart
    relative = MORE * ((variance_error(D, 1.0) * largest**2 + moved / D) / variance + gamma(16.0))
    mean = MORE * mean_error(D, 1.0) * largest
    return Seen(ids, weight, context, size, 1.0 / np.sqrt(variance), np.asarray(relative), np.asarray(mean))


def _moved(found: Mirrored, weight: Floats, height: Floats) -> Floats:
    """How far attention may move the average of `height` `(B, n)`: by its weights, and by factors of the first norm."""
    mean = (weight * height).sum(axis=1, keepdims=True)
    sway = found.sway * (weight * np.abs(height - mean)).sum(axis=1)
    return np.asarray(MORE * (sway + found.common * (weight * np.abs(height)).sum(axis=1)))


def _first(net: Network, found: Mirrored) -> float:
    """What tables add to the error of `D` times the second variance: their spread, and the first norm's error."""
    s, spread = found.scale, 0.5 * (found.norm[1] - found.norm[0])
    if not net.post_norm:
        return s * s * spread
    shares = (found.common + gamma(16.0)) * found.norm[1] + found.mean * net.width * found.largest
    return float(s * s * (spread + 2.0 * MORE * shares))


def _value(
    net: Network,
    found: Mirrored,
    seen: Seen,
    i: Ints,
    j: Ints,
    height: Floats,
    token: Floats,
    size: Floats,
) -> tuple[Floats, Floats]:
    """What neurons `j` read at points `i`, and how far any evaluation may be from it (Lemma S9).

    `height` `(B, n)`: what they read of each value there; `token`, `size`: of token and place, and of absolute values.
    """
    s, F = found.scale, seen.factor[i]
    weight, shift = seen.weight[i], found.shift[j]
    sums = token + (weight * height).sum(axis=1)
    error = _moved(found, weight, height)
    error += (found.read_size[j] * (found.own * seen.size[i] + found.drift)).sum(axis=1)
    size = size + (found.read_size[j] * np.abs(seen.context[i])).sum(axis=1)
    error += seen.relative[i] * np.abs(sums) + found.round * size + seen.mean[i] * shift
    if net.post_norm:
        error += found.common * np.abs(token) + s * found.mean * shift
    error = MORE * (F * error + found.round * np.abs(net.b_1[j])) + UNDERFLOW
    return F * sums + net.b_1[j], np.where(seen.relative[i] <= SMALL, error, np.inf)


def _live(net: Network, found: Mirrored, of_place: Floats, asked: Ints) -> Live:
    """What is awake at the tokens `asked`.

    Silent at token `x`, for every context of length `r`, if `T + P + |w| r + (b + e)/F(r) ≤ 0`: piece by piece in `r`.
    """
    D, s = net.width, found.scale
    reach = float(np.linalg.norm(found.value, axis=1).max()) * PADDING
    sways = PADDING * (2.0 * found.sway + MORE * found.common) * reach
    rough = PADDING * float(np.linalg.norm(found.own * found.value_size.max(axis=0) + found.drift))
    off = sways + rough
    largest = max(s * found.largest, float(np.abs(found.value).max())) * 1.02 + off
    radius = np.linspace(0.0, reach, RADII + 1)
    over = np.sqrt((s * s * 0.5 * (found.norm[0] + found.norm[1]) + 2.0 * radius**2) / D + net.epsilon)
    moved = 4.0 * radius[1:] * off + 2.0 * off**2 + _first(net, found)
    relative = float((MORE * ((variance_error(D, largest) + moved / D) / over[:-1] ** 2 + gamma(16.0))).max())
    if not relative <= 4.0 * SMALL:  # a bound for every context there can be; points have their own, which is tighter
        raise UnhandledError(f"the second norm errs by {relative:.3g}, more than the proof allows")
    w, whole = np.linalg.norm(found.read, axis=1), np.abs(net.W_1).sum(axis=1)
    size = s * found.largest * whole + np.linalg.norm(found.read_size, axis=1) * reach
    # What does not scale with the sum itself: the factor `F` is wrong in common, and changes no sign.
    error = gamma(D + 32.0) * size + w * sways + np.linalg.norm(found.read_size, axis=1) * rough
    error = MORE * (error + (mean_error(D, largest) + s * found.mean) * whole)
    lift = (net.b_1 + MORE * gamma(D + 8.0) * np.abs(net.b_1) + UNDERFLOW)[:, None]
    lift = np.where(lift > 0.0, lift * over[1:] * (1.0 + 2.0 * relative), lift * over[:-1] * (1.0 - 2.0 * relative))
    place = of_place.max(axis=0)
    most = (w[:, None] * radius[1:] + lift).max(axis=1) + error + place + 4.0 * found.common * np.abs(place)
    most = most + 2.0**-40 * (size + np.abs(net.b_1) * over[-1])
    neurons: list[Ints] = [np.zeros(0, dtype=np.int64)]
    values, sizes = [np.zeros(0)], [np.zeros(0)]
    counts = np.zeros(len(net.tokens), dtype=np.int64)
    for begin in range(0, len(asked), step := max(1, AT_ONCE // max(1, len(most)))):
        rows = asked[begin : begin + step]
        value = s * net.tokens[rows] @ net.W_1.T
        row, neuron = np.nonzero(value + 4.0 * found.common * np.abs(value) + most > 0.0)
        counts[rows] = np.bincount(row, minlength=len(rows))
        neurons.append(neuron)
        values.append(value[row, neuron])
        sizes.append(s * np.abs(net.tokens[rows[row]] * net.W_1[neuron]).sum(axis=1))
    return Live(
        start=np.concatenate([[0], np.cumsum(counts)]),
        neuron=np.concatenate(neurons),
        token=np.concatenate(values),
        size=np.concatenate(sizes),
        relative=relative,
        factors=(float(1.0 / over[-1]), float(1.0 / over[0])),
    )


def _chunks(points: Ints, places: Places, columns: int) -> Iterator[Ints]:
    """Points a bounded number at a time: those of a token together, since they ask the same neurons."""
    points = points[np.argsort(places.token[points], kind="stable")]
    most = int(places.terms[points].max(initial=1))
    step = max(1, AT_ONCE // (most * columns))
    for begin in range(0, len(points), step):
        yield points[begin : begin + step]


def _answers(net: Network, found: Mirrored, places: Places, parts: list[Any], live: Live) -> Answers:
    """Lemma S10: the classes, from intervals of what every neuron adds; the last norm scales all logits alike."""
    D, H, s = net.width, len(net.W_1), found.scale
    point, neuron, low, high = (np.concatenate([part[i] for part in parts]) for i in range(4))
    order = np.argsort(point, kind="stable")
    point, neuron, low, high = point[order].astype(np.int64), neuron[order].astype(np.int64), low[order], high[order]
    tokens = net.tokens[:, found.label] * s
    write = np.concatenate([net.W_2[:, found.label], tokens])
    out = float(MORE * (gamma(2.0 * D + H + 48.0) + (live.relative + found.common if net.post_norm else 0.0)))
    # Computed means add one number to all coordinates; logits do not see it but for roundings. It is bounded here.
    arrives = max(s * found.largest, float(np.abs(found.value).max())) * 1.02
    loudest = np.concatenate([np.abs(net.W_2).max(axis=1, initial=0.0), np.zeros(len(tokens))])[neuron]
    said = float(np.bincount(point, loudest * high).max(initial=0.0)) + max(arrives, D**0.5)
    if not said <= 2.0**40:
        raise UnhandledError(f"label coordinates reach {said:.3g}, whose squares the proof does not cover")
    mean = MORE * mean_error(D, said) * gamma(D + 16.0) + UNDERFLOW
    if net.post_norm:
        mean += MORE * (s * found.mean + mean_error(D, arrives)) * live.factors[1]
    gated: Any = SimpleNamespace(
        weight_2=write,
        label=np.zeros_like(tokens),
        label_size=np.full_like(tokens, mean / out),
        head=net.head[:, found.label],
        head_bias=np.zeros(len(net.head)),
    )
    pairs: Any = SimpleNamespace(point=point, neuron=neuron, value=(low + high) / 2.0)
    shares: Any = SimpleNamespace(out=out)
    return answers(pairs, (high - low) / 2.0, gated, places.token, places.wanted, shares)
