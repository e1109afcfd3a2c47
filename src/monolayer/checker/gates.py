"""A robust model read from its file: parts of the stream, and at every labelled point the neurons that can wake there.

Everything here is computed in binary64 from the stored numbers; `noise.py` bounds how far noise and roundings may move
it. What is asked of the weights, and why that suffices: docs/proofs.md, Robust models.

Letters: `t p k m` widths of token, place, context and label part; `H` neurons; a *row* is a vocabulary row; a *pair* is
a labelled point and a neuron that may wake there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Array, Bools, Floats, Ints
from monolayer.checker.labelled import Labelled
from monolayer.checker.network import Stored
from monolayer.checker.rounding import UnhandledError

EPSILON = 2.0**-20
"""What the network adds to a mean square before its root (docs/format.md)."""
LARGEST_GATE_WEIGHT = 2.0**20
"""Largest absolute value of a stored number. A number other than 0 is at least the inverse of its square.

So nothing overflows, and underflow changes less than `ROBUST_UNDERFLOW` in `noise.py`.
"""
WIDEST_SUM = 2**14
"""Largest number of terms of a sum."""
STREAM = 2.0**40
"""Largest number that the stream may hold: the sum of `WIDEST_SUM` squares of it is far from overflow."""
AWAKE = -0.5
"""A neuron whose largest value at a token is at most this is not looked at there.

`noise.silent` then checks that noise does not lift any such neuron above 0.
"""
GATE_NUMBERS_AT_ONCE = 1 << 21
"""How many numbers an array holds at a time; it bounds memory, and no result depends on it."""
PAIR_NUMBERS_AT_ONCE = 1 << 15
"""The same for pairs: 256 KiB, which stay in the cache from one step to the next."""


@dataclass(frozen=True, eq=False)
class Gated:
    """The stored numbers of a robust model, in binary64, by the part of the stream that they belong to.

    Rows are vocabulary rows; where labels belong to whole sequences, the begin token is one more row, the last.
    """

    token: Floats
    """Token part of each row `(rows, t)`."""
    whole: Bools
    """Whether all coordinates of a row are finite `(rows,)`. If one is not, a dense product makes every logit NaN."""
    own: Floats
    """Context part of each row `(rows, k)`."""
    label: Floats
    """Label part of each row, plus `bias_2` `(rows, m)`."""
    label_size: Floats
    """Sums of the absolute values that `label` adds up `(rows, m)`; relative errors are shares of these."""
    begin: Floats
    """Context part of the begin token `(k,)`."""
    gain: Floats
    """What attention multiplies values by `(k,)`."""
    place: Floats
    """Codes of the answering places `(L, p)`. They are 0 where the begin token answers, which has no code."""
    query: Floats
    """Queries of the begin token and then of each place `(L + 1, 2)`; without positions one row of zeros."""
    key: Floats
    """Keys, in the same order."""
    scores: float
    """At least every attention score, even if its terms are replaced by their absolute values."""
    weight_token: Floats
    weight_place: Floats
    weight_context: Floats
    bias: Floats
    weight_2: Floats
    head: Floats
    head_bias: Floats

    @property
    def positions(self) -> bool:
        """Whether the model has positions."""
        return len(self.place) > 0


class StreamParts(NamedTuple):
    """Where the parts of the stream lie, as slices of its coordinates."""

    token: slice
    place: slice
    context: slice
    key: slice
    label: slice

    @classmethod
    def of(cls, t: int, p: int, k: int) -> StreamParts:
        """The parts one after the other: token, place, context, two coordinates for keys, label."""
        token, place, context = slice(0, t), slice(t, t + p), slice(t + p, t + p + k)
        key, label = slice(t + p + k, t + p + k + 2), slice(t + p + k + 2, None)
        return cls(token, place, context, key, label)


def read_gates(stored: Stored, per_token: bool) -> Gated:
    """The stored numbers, once every size and every zero that the proof needs has been checked.

    `per_token`: whether labels belong to tokens; otherwise the begin token answers for its sequence.
    """
    _check_sizes(stored)
    widths = stored.config["gates"]
    p = widths["place"]
    parts = StreamParts.of(widths["token"], p, widths["rank"])
    token, place, context, key, label = parts
    w: dict[str, Floats] = {name: tensor.astype(np.float64) for name, tensor in stored.tensors.items()}
    bos, rows = w["bos"], w["lift.weight"]
    size = np.abs(rows)
    places = w.get("positions.weight", np.zeros((0, len(bos))))
    if p and not len(places):
        raise UnhandledError("the stream has a place part, and the model no positions")
    _check_zeros(w, parts, places)
    if not per_token:
        rows, size = np.concatenate([rows, bos[None]]), np.concatenate([size, np.abs(bos)[None]])
    reads, writes = w["attention.W_V"][:, context], w["attention.W_O"][context]
    gain, finite = np.diag(writes) * np.diag(reads), np.isfinite(rows).all(axis=1)
    values = np.concatenate([size[finite][:, context], np.abs(bos[None, context])]) * np.abs(gain)
    if max(size[finite].max(initial=0.0), values.max()) > STREAM:
        raise UnhandledError(f"the stream holds numbers above {STREAM:.3g}, whose squares might overflow")
    keys = np.concatenate([bos[None, key], places[:, key]]) if len(places) else np.zeros((1, 2))
    read = {letter: w[f"attention.W_{letter}"][:, key] for letter in "QK"}
    sizes, bias_2 = [np.abs(keys) @ np.abs(read[letter]).T for letter in "QK"], w["feed_forward.bias_2"]
    return Gated(
        token=rows[:, token],
        whole=np.asarray(finite),
        own=rows[:, context],
        label=rows[:, label] + bias_2,
        label_size=size[:, label] + np.abs(bias_2),
        begin=bos[context],
        gain=gain,
        place=places[:, place] if per_token else np.zeros((len(places), p)),
        query=keys @ read["Q"].T,
        key=keys @ read["K"].T,
        scores=float((sizes[0] @ sizes[1].T).max()),
        weight_token=w["feed_forward.weight_1"][:, token],
        weight_place=w["feed_forward.weight_1"][:, place],
        weight_context=w["feed_forward.weight_1"][:, context],
        bias=w["feed_forward.bias_1"],
        weight_2=w["feed_forward.weight_2"].T,
        head=w["head.weight"][:, label],
        head_bias=w["head.bias"],
    )


def _check_sizes(stored: Stored) -> None:
    """Refuse numbers that are too large or too small for the bounds, sums that are too wide, and numbers not finite.

    Only rows of tokens may be NaN: they belong to tokens that were forgotten.
    """
    for name, tensor in stored.tensors.items():
        size = np.abs(tensor[np.isfinite(tensor)].astype(np.float64))
        small = size[size > 0].min(initial=1.0)
        too_large, too_small = size.max(initial=0.0) > LARGEST_GATE_WEIGHT, small < LARGEST_GATE_WEIGHT**-2
        if too_large or too_small or max(tensor.shape[1:], default=0) > WIDEST_SUM:
            raise UnhandledError(f"{name} has numbers too large or too small for the bounds, or is too wide")
        if not np.isfinite(tensor).all() and name != "lift.weight":
            raise UnhandledError(f"{name} holds numbers that are not finite")


def _check_zeros(w: dict[str, Floats], parts: StreamParts, places: Floats) -> None:
    """Refuse a model that writes or reads a part of the stream where the proof needs 0.

    `w`: all tensors by name. `places` `(L, D)`: the positions, `L = 0` without any.
    """
    token, place, context, key, label = parts
    bos, rows = w["bos"], w["lift.weight"]
    seen = rows[np.isfinite(rows).all(axis=1)]
    silent = [(seen, place), (seen, key), (bos[None], place), (places, token), (places, context), (places, label)]
    silent += [] if len(places) else [(bos[None], key)]
    only = [(w["attention.W_Q"], key), (w["attention.W_K"], key), (w["attention.W_V"], context)]
    only += [(w["attention.W_O"].T, context), (w["head.weight"], label)]
    reads, writes = w["attention.W_V"][:, context], w["attention.W_O"][context]
    diagonal = all(np.array_equal(matrix, np.diag(np.diag(matrix))) for matrix in (reads, writes))
    if any(part[:, where].any() for part, where in silent) or not diagonal:
        raise UnhandledError("a part of the stream is written that must be 0, or values are mixed across coordinates")
    if any(np.count_nonzero(matrix) != np.count_nonzero(matrix[:, where]) for matrix, where in only):
        raise UnhandledError("attention or head read a part of the stream that they must not read")


class Pairs(NamedTuple):
    """`Q` pairs in order of their points, an array `(Q,)` per field.

    `value` is what the neuron returns before relu. The fields below it are the sizes that its errors are shares of.
    """

    point: Ints
    neuron: Ints
    value: Floats
    token: Floats
    """Sum of the absolute values of the token terms, the place terms and the bias."""
    context: Floats
    """Sum of the absolute values of the context terms."""
    across: Floats
    """`Σ |w⊥| × (size of what is added up in each coordinate) × √k / |z|`, `w⊥` the part of `w` across the context."""
    mixed: Floats
    """`Σ_l a_l |w⊥·v_l − mean| × √k / |z|`: what a relative change of attention weights can move."""
    along: Floats
    """`|w · z| √k / |z|`."""
    turn: Floats
    """Norm of the sums of sizes, over `|z|`: how far relative changes of the terms turn the context."""
    sway: Floats
    """Standard deviation of the values over `|z|`: how far relative changes of attention weights turn the context."""


class LivePairs(NamedTuple):
    """Pairs of a row and a neuron that some context may wake, and what bounds all other pairs.

    The neurons of row `r` are `neuron[start[r]:start[r + 1]]`. `read`, `read_size`: what each of these pairs reads of
    the token, with the bias, and the sum of the absolute values. `top`, `size` `(H,)`: over all other pairs of each
    neuron, the largest value, and the largest sum of absolute values.
    """

    start: Ints
    neuron: Ints
    read: Floats
    read_size: Floats
    top: Floats
    size: Floats


def live(gated: Gated, answering: Bools) -> LivePairs:
    """The pairs that may wake, among the rows that answer: those where `answering` `(rows,)` is true."""
    k = gated.own.shape[1]
    reach = np.linalg.norm(gated.weight_context, axis=1) * np.sqrt(k)
    size = reach.copy()
    if gated.place.shape[1]:
        reach = reach + (gated.weight_place @ gated.place.T).max(axis=1)
        size = size + (np.abs(gated.weight_place) @ np.abs(gated.place).T).max(axis=1)
    top, most = np.full(len(reach), -np.inf), np.zeros(len(reach))
    parts, counts = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))], np.zeros(len(gated.token), np.int64)
    step = max(1, GATE_NUMBERS_AT_ONCE // max(1, len(reach)))
    absolute, bias_size = np.abs(gated.weight_token).T, np.abs(gated.bias)
    for begin in range(0, len(gated.token), step):
        token = gated.token[begin : begin + step]
        read, sizes = token @ gated.weight_token.T + gated.bias, np.abs(token) @ absolute
        value, asks = read + reach, answering[begin : begin + step, None]
        awake, asleep = asks & (value > AWAKE), asks & (value <= AWAKE)  # a row of NaN is neither
        neuron = np.nonzero(awake)[1]
        parts.append((neuron, read[awake], sizes[awake] + bias_size[neuron]))
        counts[begin : begin + step] = awake.sum(axis=1)
        top = np.maximum(top, np.where(asleep, value, -np.inf).max(axis=0, initial=-np.inf))
        most = np.maximum(most, np.where(asleep, sizes, 0.0).max(axis=0, initial=0.0))
    start = np.concatenate([[0], np.cumsum(counts)])
    neurons, reads, read_sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return LivePairs(start, neurons, reads, read_sizes, top, most + bias_size + size)


def found_pairs(gated: Gated, points: Labelled, awake: LivePairs, causal: bool, rows: Ints) -> Pairs:
    """All pairs of labelled points and neurons that may wake there.

    `rows` `(M,)`: the row that answers at each point, −1 where a token of its sequence has no finite vector; such
    points have no pairs. `awake`: as from `live`.
    """
    data = points.data
    assert points.rows is not None  # the format has gates for ids alone
    some = rows.clip(0)
    count = np.where(rows >= 0, awake.start[some + 1] - awake.start[some], 0)
    first = np.cumsum(count) - count
    point = np.repeat(np.arange(len(rows)), count)
    pairs = Pairs(point, np.zeros(len(point), np.int64), *np.zeros((len(Pairs._fields) - 2, len(point))))
    number = np.full(points.labelling.count(data), -1)
    places = np.arange(len(number)) if points.places is None else points.places
    number[places] = np.where(count > 0, np.arange(len(rows)), -1)
    k = gated.own.shape[1]
    for n in np.unique(data.lengths):
        of_length = np.flatnonzero(data.lengths == n)
        weights, step = None, max(1, GATE_NUMBERS_AT_ONCE // max(1, int(n + 1) ** 2 + 4 * int(n + 1) * k))
        for begin in range(0, len(of_length), step):
            part = of_length[begin : begin + step]
            at = data.offsets[:-1][part][:, None] + np.arange(n)
            asked = number[at] if points.labelling.at_tokens else number[part][:, None]
            chosen = np.flatnonzero((asked >= 0).any(axis=1))
            if len(chosen) == 0:
                continue
            if weights is None:
                weights = _weights(gated, int(n), points.labelling.at_tokens, causal)
            seen, asked = points.rows[at[chosen]], asked[chosen]
            row = seen if points.labelling.at_tokens else np.full((len(chosen), 1), len(gated.own) - 1)
            _fill(pairs, first, gated, RowSequences(seen, row, asked, weights), awake)
    return pairs


class RowSequences(NamedTuple):
    """`B` sequences of one length `n`, as vocabulary rows, and where they answer.

    `seen` `(B, n)`: rows of their tokens. `row` `(B, q)`: rows of the places that answer. `point` `(B, q)`: number of
    the labelled point there, −1 where there is none with a pair. `weights` `(q, n + 1)`: attention weights of these
    places.
    """

    seen: Ints
    row: Ints
    point: Ints
    weights: Floats


def _weights(gated: Gated, n: int, per_token: bool, causal: bool) -> Floats:
    """Attention weights `(q, n + 1)` of the answering places of a sequence of `n` tokens, the begin token first."""
    place = np.arange(1, n + 1) if per_token else np.zeros(1, dtype=np.int64)
    logits = np.zeros((len(place), n + 1))
    if gated.positions:
        logits = gated.query[place] @ gated.key[: n + 1].T
    if causal:
        logits = np.where(np.arange(n + 1) > place[:, None], -np.inf, logits)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class RowContexts(NamedTuple):
    """What attention makes of sequences: `value` `(B, n + 1, k)`, and the context `z` `(B, q, k)` of answering places.

    `sizes` `(B, q, k)`: sums of the absolute values that make `z`. `norm` `(B, q)`: what `z` is divided by, times `√k`.
    `spread` `(B, q)`: standard deviation of the values under the attention weights.
    """

    value: Floats
    z: Floats
    sizes: Floats
    norm: Floats
    spread: Floats


def _contexts(gated: Gated, asked: RowSequences) -> RowContexts:
    """The context of every answering place."""
    weights, row = asked.weights, asked.row
    first = np.broadcast_to(gated.begin, (len(asked.seen), 1, len(gated.begin)))
    value = np.concatenate([first, gated.own[asked.seen]], axis=1) * gated.gain
    z = gated.own[row] + weights @ value
    sizes = np.abs(gated.own[row]) + weights @ np.abs(value)
    k = z.shape[-1]
    norm = np.sqrt((z**2).sum(axis=-1) + k * EPSILON)
    second = weights @ (value**2).sum(axis=-1)[:, :, None]
    slip = 2.0**-52 * (2 * value.shape[1] + 2 * k + 16)  # rounding of the two numbers that nearly cancel
    spread = np.sqrt(np.maximum(second[..., 0] - ((weights @ value) ** 2).sum(axis=-1), 0.0) + slip * second[..., 0])
    return RowContexts(value, z, sizes, norm, spread)


def _fill(pairs: Pairs, first: Ints, gated: Gated, asked: RowSequences, awake: LivePairs) -> None:
    """Write the pairs of these sequences; those of point `i` begin at `first[i]`.

    Points with equally many pairs are worked on together, so that all of theirs are one block.
    """
    contexts = _contexts(gated, asked)
    b, q = np.nonzero(asked.point >= 0)
    start = awake.start[asked.row[b, q]]
    count = awake.start[asked.row[b, q] + 1] - start
    order = np.argsort(count, kind="stable")
    sizes, cuts = np.unique(count[order], return_index=True)
    for size, begin, end in zip(sizes.tolist(), cuts.tolist(), [*cuts[1:].tolist(), len(order)], strict=True):
        step = max(1, PAIR_NUMBERS_AT_ONCE // (size * contexts.z.shape[-1]))
        for some in np.split(order[begin:end], range(step, end - begin, step)):
            live = start[some][:, None] + np.arange(size)
            block = _pairs_at(gated, asked, contexts, b[some], q[some], awake, live)
            where = first[asked.point[b[some], q[some]]][:, None] + np.arange(size)
            for column, part in zip(pairs[1:], block, strict=True):
                column[where] = part


def _pairs_at(
    gated: Gated, asked: RowSequences, contexts: RowContexts, i: Ints, j: Ints, awake: LivePairs, live: Ints
) -> tuple[Array, ...]:
    """Pairs of the places `j` of sequences `i` `(P,)` with the live pairs `live` `(P, S)`: all fields but the point."""
    weights, neuron, k = asked.weights[j], awake.neuron[live], contexts.z.shape[-1]
    w, length = gated.weight_context[neuron], contexts.norm[i, j][:, None]
    unit, sizes = contexts.z[i, j] / length, contexts.sizes[i, j]
    scale = np.sqrt(k) / length
    terms = w * unit[:, None]
    along = terms.sum(axis=2)
    context = np.abs(terms, out=terms).sum(axis=2)
    w -= np.multiply(along[:, :, None], unit[:, None], out=terms)  # the part of `w` across the context
    heights = w @ contexts.value[i].swapaxes(1, 2)
    heights -= heights @ weights[:, :, None]
    across = np.abs(w, out=w) @ sizes[:, :, None]
    place = gated.place[j] if len(gated.place) else np.zeros((len(j), 0))
    place_terms = place[:, None] * gated.weight_place[neuron]
    return (
        neuron,
        awake.read[live] + place_terms.sum(axis=2) + along * np.sqrt(k),  # value
        awake.read_size[live] + np.abs(place_terms).sum(axis=2),  # token
        context * np.sqrt(k),
        across[..., 0] * scale,
        (np.abs(heights) @ weights[:, :, None])[..., 0] * scale,  # mixed
        np.abs(along) * np.sqrt(k),
        np.linalg.norm(sizes, axis=1)[:, None] / length,  # turn
        contexts.spread[i, j][:, None] / length,  # sway
    )
