"""Build the stream of stock models that store cells, up to what attention writes, so that every norm is one factor.

The tables are those of `stock/columns.py`, whose rows have mean 0 and the same norm, so the first norm multiplies them
all by one factor `f`. Attention writes the average of the tokens' values onto the slot, which was 0. Values are random
mixtures of the code, `v_a = R p_a`, and every column of `R` is balanced, so what is written has mean 0 too. If the
begin token answers, values are the words `p_a` themselves. The second norm then multiplies code, ones, place and
context alike, by a factor `F > 0` that depends on the context. It keeps signs, and half-spaces are placed where
contexts arrive.

The logits of attention are `λ cos(ω (i − l) + φ)`. They come from keys in the table of places, or, if the architecture
turns queries and keys by their places (rotary positions), from a constant query and a constant key.

Letters: `V` tokens, `L` places, `k` columns of the slot, `t` of a token's word, `D` the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Floats, Ints
from monolayer.construct.powers import power_near
from monolayer.construct.robust.codes import COSINE, balanced_words, largest_cosine
from monolayer.construct.robust.stream import TEMPERATURE, circle, period, rotations
from monolayer.data.labelling import SEQUENCE, TOKEN
from monolayer.huggingface.architecture import BEGIN
from monolayer.model.places import Places, mixtures
from monolayer.stock.columns import (
    KEY_COLUMNS,
    StreamColumns,
    class_words,
    place_table,
    stream_columns,
    token_table,
    token_words,
)
from monolayer.stock.draw import CellsDraw
from monolayer.stock.labelled import StockTask
from monolayer.stock.norms import factor

EVEN = 1.0
"""λ for models that must tell unknown keys from those in the data. Every place then weighs so much that another token
there shows, and the order of tokens still matters."""
Rounding = Callable[[Floats], Floats]
"""Rounds an array to the format of the weights."""


class PlaceLogits(NamedTuple):
    """The weights of queries and keys, and the logits that places get from them."""

    weights: dict[str, Floats]
    theta: float | None
    """Base of rotary angles, where they are to turn the logits."""
    query: Floats | None
    key: Floats | None
    """Query and key of every place `(L, 2)`, whose products are the logits; None where all logits are 0."""

    @classmethod
    def constant(cls, columns: StreamColumns) -> PlaceLogits:
        """All logits are 0, so that every place weighs the same."""
        D = columns.width
        W_Q, W_K = np.zeros((2, D, D))
        b_Q, b_K = np.zeros((2, D))
        return cls({"W_Q": W_Q, "b_Q": b_Q, "W_K": W_K, "b_K": b_K}, None, None, None)


@dataclass(frozen=True, eq=False)
class CellStream:
    """The columns, tables and weights of attention that the file will hold, and numbers that follow from them."""

    tokens: Floats
    places: Floats
    """Embeddings of places `(L, D)`; without rows if places have no table."""
    columns: StreamColumns
    words: Floats
    """Words of the classes `(C, m)`."""
    usual: Ints
    """The label `(V,)` that the embedding of each token holds."""
    attention: Mapping[str, Floats]
    theta: float | None
    """Base of rotary angles, where they are to turn the logits."""
    query: Floats | None
    key: Floats | None
    """Query and key of every place `(L, 2)`, whose products are the logits; None where all logits are 0."""
    values: Floats
    """What attention writes for a token alone `(V, k)`."""
    scale: float
    """The size of code, ones and places behind attention: `f`, or 1 if the first norm does not change the stream."""
    rest: float
    """Squared norm of the stream behind attention, without the context."""
    epsilon: float
    kept: CellsDraw

    @property
    def width(self) -> int:
        """`D`: the width of the stream."""
        return int(self.tokens.shape[1])

    @property
    def u_size(self) -> float:
        """The absolute value that a column of `u` holds before all norms."""
        return float(self.tokens[BEGIN, self.columns.u.start])

    def factor(self, squares: Floats) -> Floats:
        """`F` of the second norm for contexts of these squared lengths."""
        factors: Floats = factor(self.rest + squares, self.width, self.epsilon)
        return factors

    def place_codes(self, one: float) -> Floats:
        """Words of the places, each followed by the number `one`, `(L, p)`; only that number if places have no words.

        It arrives as `one · u`, which tells how long a context is before the norm. With it, all facts lie on a sphere
        up to scale, so that no fact lies between others.
        """
        place = self.columns.place
        words = self.places[:, place] if len(self.places) else np.zeros((self.kept.longest + 1, 0))
        return np.append(words, np.full((len(words), 1), one), axis=1)

    def cosine(self, cells: Ints) -> Floats:
        """The largest cosine of the word of each of the tokens `cells` with the word of another token."""
        return largest_cosine(self.tokens[:, self.columns.code], cells)


def cell_stream(
    job: StockTask, usual: Ints, rank: int, seed: int, rounded: Rounding, kept: CellsDraw | None = None
) -> CellStream:
    """The stream for these data: tables, then values, then the logits of attention.

    `usual` `(V,)`: the label that each token's embedding already holds. `rank`: the least `k`. `rounded`: rounds to the
    format of the weights. `kept`: the draw of another stream, to be used again; then `rank` and `seed` are ignored.
    """
    kind, positions = job.architecture, job.task.context.positions
    longest = int(job.data.lengths.max()) if kept is None else kept.longest
    words = _drawn_words(len(usual), rank, seed, job.at_begin) if kept is None else _kept_words(len(usual), kept)
    label, keys = class_words(len(job.classes)), positions and kind.has_places
    place = balanced_words(longest + 1, COSINE) if keys and not job.at_begin else np.zeros((longest + 1, 0))
    slot = None if words.mixture is None else len(words.mixture)
    columns = stream_columns(words.code.shape[1], place.shape[1], keys, label.shape[1], slot)
    omega = 2.0 * math.pi / period(longest)
    angle = omega * np.arange(longest + 1, dtype=np.float64)
    key = rounded(circle(angle))
    tokens = token_table(columns, words.code, label[usual])
    places = place_table(columns, place, key) if keys else np.zeros((0, columns.width))
    norm = float((tokens[BEGIN] ** 2).sum()) + (float((places**2).sum(axis=1).mean()) if keys else 0.0)

    first = float(factor(norm, columns.width, kind.epsilon))
    scale = first if kind.post_norm else 1.0
    if kept is None:
        k = words.values.shape[1]
        kept = CellsDraw(longest, k, words.start, words.mixture, _gain(job, k, norm, scale / first))

    temperature = TEMPERATURE if job.unknown is None else EVEN
    quarter = rotations(np.array([omega / 4.0]))[0]
    root = math.sqrt(columns.width)
    if keys:
        logits = _logits_from_table(columns, key, first, rounded(temperature * root / first**2 * quarter))
    elif positions:
        logits = _logits_from_rotation(columns, omega, angle, rounded(temperature * root * quarter[:, 0]))
    else:
        logits = PlaceLogits.constant(columns)
    return CellStream(
        tokens=tokens,
        places=places,
        columns=columns,
        words=label,
        usual=usual,
        attention={**logits.weights, **_value_matrices(columns, kept)},
        theta=logits.theta,
        query=logits.query,
        key=logits.key,
        values=kept.gain * first * words.values,
        scale=scale,
        rest=scale * scale * norm,
        epsilon=kind.epsilon,
        kept=kept,
    )


class _Words(NamedTuple):
    """Words of the tokens `(V, t)`, the number of the first one in the code, and the mixture `R` if values have one."""

    code: Floats
    start: int
    mixture: Floats | None

    @property
    def values(self) -> Floats:
        """The values of the tokens `(V, k)`, before the norm and the gain."""
        return self.code if self.mixture is None else self.code @ self.mixture.T


def _drawn_words(count: int, rank: int, seed: int, begin_answers: bool) -> _Words:
    """Words of `count` tokens for a new stream, drawn with `seed`."""
    if begin_answers:
        start = int(np.random.default_rng([seed, 29]).integers(0, 2**31)) if seed else 0
        return _Words(token_words(count, rank, start, begin_answers=True), start, None)
    code = token_words(count, rank, 0, begin_answers=False)
    return _Words(code, 0, _mixture(seed, rank, code.shape[1]))


def _kept_words(count: int, kept: CellsDraw) -> _Words:
    """Words of `count` tokens for a stream that uses the draw of another one again."""
    code = token_words(count, kept.rank, kept.start, begin_answers=kept.mixture is None)
    return _Words(code, kept.start, kept.mixture)


def _mixture(seed: int, rank: int, size: int) -> Floats:
    """`R` `(k, t)`: random signs, as many + as − in every column, times a power of two near `1/√t`.

    `k` is `rank`, rounded up to an even number, and `t` is `size`, a power of two.
    """
    order = np.random.default_rng([seed, 29]).random((rank + rank % 2, size)).argsort(axis=0, kind="stable")
    signs = 1.0 - 2.0 * (order % 2)
    return np.asarray(2.0 ** -((size.bit_length() - 1) // 2) * signs, dtype=np.float64)


def _gain(job: StockTask, k: int, norm: float, stretch: float) -> float:
    """The factor by which attention multiplies values, a power of two.

    `norm`: squared norm of the stream. `stretch`: size of the stream behind attention, divided by the size of what
    attention reads.
    """
    # The average of n values of length √k is about √(k/n) long, and should be as long as the rest of the stream. If the
    # begin token answers, no gate reads the rest, and twice that length makes slabs wider by a tenth to a half.
    seen = float(np.median(job.data.lengths)) / (2.0 if job.architecture.causal else 1.0) + 1.0
    length = 2.0 if job.at_begin else 1.0
    return float(power_near(length * stretch * np.sqrt(norm * seen / k)))


def _value_matrices(columns: StreamColumns, kept: CellsDraw) -> dict[str, Floats]:
    """The matrices `W_V`, which puts values into the first `k` coordinates, and `W_O`, which adds them to the slot."""
    W_V, W_O = np.zeros((2, columns.width, columns.width))
    W_V[: kept.rank, columns.code] = np.eye(kept.rank) if kept.mixture is None else kept.mixture
    W_O[columns.slot, : kept.rank] = kept.gain * np.eye(kept.rank)
    return {"W_V": W_V, "W_O": W_O}


def _logits_from_table(columns: StreamColumns, key: Floats, first: float, turn: Floats) -> PlaceLogits:
    """Logits from keys in the table of places.

    Queries are keys times the matrix `turn`, which rotates by a quarter of a place. `first`: the factor of the first
    norm, which multiplies queries and keys alike.
    """
    logits = PlaceLogits.constant(columns)
    W_Q, W_K = logits.weights["W_Q"], logits.weights["W_K"]
    read = slice(columns.key.start, columns.key.start + KEY_COLUMNS)
    W_Q[:KEY_COLUMNS, read], W_K[:KEY_COLUMNS, read] = turn, np.eye(KEY_COLUMNS)
    query = first**2 / math.sqrt(columns.width) * key @ turn.T
    return logits._replace(query=query, key=key)


def _logits_from_rotation(columns: StreamColumns, omega: float, angle: Floats, turn: Floats) -> PlaceLogits:
    """Logits from rotary positions, which turn one pair of the constant query `turn` and of a constant key by `ω`."""
    # Pair j of a head of width D turns by θ^(−2j/D) per place: at j = D/4 that is ω for θ = ω⁻².
    D = columns.width
    pair = np.array([D // 4, D // 4 + D // 2])
    logits = PlaceLogits.constant(columns)
    b_Q, b_K = logits.weights["b_Q"], logits.weights["b_K"]
    b_Q[pair], b_K[pair] = turn, [1.0, 0.0]
    turned = rotations(angle)
    query, key = turned @ b_Q[pair] / math.sqrt(D), turned @ b_K[pair]
    return logits._replace(theta=1.0 / (omega * omega), query=query, key=key)


def written_contexts(job: StockTask, stream: CellStream) -> Iterator[tuple[Ints, Tensor]]:
    """Batches of what attention writes at labelled points: numbers of points `(P',)`, and `(P', k)` in float32."""
    data, causal = job.data, job.task.context.causal
    query, key = (None if part is None else torch.from_numpy(part) for part in (stream.query, stream.key))
    values, rows = torch.from_numpy(stream.values).float(), torch.from_numpy(data.tokens + job.shift)
    places = Places(query, key, causal, (SEQUENCE if job.at_begin else TOKEN).belongs_to)
    labelled = data.labelled_places
    # A causal model answers for a whole sequence at its last token.
    answering = data.offsets[1:][labelled] - 1 if causal and not job.labelling.at_tokens else labelled
    number = np.full(len(data) if job.at_begin else len(data.tokens), -1)
    number[answering] = np.arange(len(labelled))
    for at, mixed in mixtures(places, values, values[BEGIN], torch.from_numpy(data.lengths), rows):
        point = number[at.numpy()]
        known = point >= 0
        if known.any():  # otherwise no sequence of this length has labels
            yield point[known], mixed[torch.from_numpy(known)]
    if job.recites_from_nothing:
        yield np.array([len(data.tokens)]), values[BEGIN][None]
