"""The stream of stock models that store cells: two halves, one the negative of the other, so that every mean is 0.

    token   word p_a   1 … 1   · · ·      ·          0 … 0    word of its usual label   │  all of it, negated
    place   · · ·      · · ·   word p_q   cos sin    · · ·    · · ·                     │  all of it, negated
            code       ones    place      key        slot     label

All numbers but the keys are ±1, those of the label ±2, so norms are constant and the first norm is one factor `f`.
Values are random mixtures of the code, `v_a = R p_a` of rank `k`; attention writes their average onto the slot, which
was 0. The second norm then multiplies code, ones, place and context alike, by a factor `F > 0` that depends on the
context: signs stay, and half spaces are placed where contexts arrive.

Logits are `λ cos(ω (i − l) + φ)`: from keys in the table of places, or, where an architecture turns queries and keys
by their places (rotary positions), from a constant query and a constant key.

Letters: `V` tokens, `L` places, `k` the value rank, `E` half of the width `D`.
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
from monolayer.construct.robust.codes import largest_cosine, words
from monolayer.construct.robust.stored import ONES
from monolayer.construct.robust.stream import TEMPERATURE, circle, period, rotations
from monolayer.huggingface.architecture import BEGIN
from monolayer.model.places import Places, mixtures
from monolayer.stock.draw import CellsDraw
from monolayer.stock.labelled import StockTask
from monolayer.stock.norms import factor

KEY_COLUMNS = 2
MULTIPLE = 32
"""The width is a multiple of this, for the sake of the hardware."""
USUAL_SIZE = 2.0
"""Size of the usual label beside the ±1 of the code. The last norm makes what neurons wrote as large as it can be; at
1 its answers, which no neuron writes, would be a third as sure as the others, at 2 they are half as sure or more."""
EVEN = 1.0
"""λ where keys that the data lack are to be told from theirs: then every place weighs enough that another token there
shows, and order still counts."""
Rounding = Callable[[Floats], Floats]
"""Rounds an array to the format of the weights."""


@dataclass(frozen=True)
class MirrorColumns:
    """Columns of every part of the first half, of width `E`; the second half has the same parts, negated."""

    code: slice
    ones: slice
    place: slice
    key: slice
    slot: slice
    label: slice

    @classmethod
    def of(cls, **sizes: int) -> MirrorColumns:
        """Parts of these sizes, one after the other, in the order in which they are named."""
        ends = np.cumsum(list(sizes.values())).tolist()
        return cls(**{name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)})

    @property
    def width(self) -> int:
        """`D`: both halves, rounded up to a multiple that hardware likes."""
        return MULTIPLE * -(-2 * int(self.label.stop) // MULTIPLE)

    @property
    def half(self) -> int:
        return self.width // 2


class PlaceLogits(NamedTuple):
    """Weights of queries and keys, and the logits that they give places."""

    weights: dict[str, Floats]
    theta: float | None
    """Base of rotary angles, where they are to turn the logits."""
    query: Floats | None
    key: Floats | None
    """Query and key of every place `(L, 2)`, whose products are the logits; None where all logits are 0."""

    @classmethod
    def constant(cls, columns: MirrorColumns) -> PlaceLogits:
        """All logits 0: every place weighs the same."""
        D = columns.width
        W_Q, W_K = np.zeros((2, D, D))
        b_Q, b_K = np.zeros((2, D))
        return cls({"W_Q": W_Q, "b_Q": b_Q, "W_K": W_K, "b_K": b_K}, None, None, None)


def _column_count(part: slice) -> int:
    return int(part.stop - part.start)


@dataclass(frozen=True, eq=False)
class Mirror:
    """Columns of the first half, tables, attention, and what follows from them, as the file will hold them."""

    tokens: Floats
    places: Floats
    """Embeddings of places `(L, D)`; no rows where places have no table."""
    code: slice
    ones: slice
    place: slice
    slot: slice
    label: slice
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
    """Size of code, ones and places behind attention: `f`, or 1 where the norm leaves the stream alone."""
    rest: float
    """Squared norm of the stream behind attention, the context aside."""
    epsilon: float
    kept: CellsDraw

    @property
    def width(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def half(self) -> int:
        return self.width // 2

    def factor(self, squares: Floats) -> Floats:
        """`F` of the second norm for contexts of these squared lengths."""
        found: Floats = factor(self.rest + 2.0 * squares, self.width, self.epsilon)
        return found

    def both(self, part: slice) -> Ints:
        """Columns of a part in the first half, then in the second."""
        first = np.arange(part.start, part.stop)
        return np.concatenate([first, first + self.half])

    def place_codes(self, one: float) -> Floats:
        """Words of the places, and `one` behind each, `(L, p)`; without places that number alone.

        It arrives as `one · u`, which tells how long a context is before the norm. With it all facts lie on a sphere
        but for scale, and no fact is hidden between others.
        """
        words = self.places[:, self.place] if len(self.places) else np.zeros((self.kept.longest + 1, 0))
        return np.append(words, np.full((len(words), 1), one), axis=1)

    def cosine(self, cells: Ints) -> Floats:
        """Largest cosine of the word of each of these tokens with that of another."""
        return largest_cosine(self.tokens[:, self.code], cells)


def mirrored_stream(
    job: StockTask, usual: Ints, rank: int, seed: int, rounded: Rounding, kept: CellsDraw | None = None
) -> Mirror:
    """The stream for these data: tables, then values, then the logits of attention.

    `usual` `(V,)`: the label that each token's embedding already holds. `rank`: `k` of the values. `rounded`: rounds to
    the format of the weights. `kept`: the draw of another stream, to be used again; then rank and seed have no say.
    """
    kind, positions = job.architecture, job.task.context.positions
    longest = int(job.data.lengths.max()) if kept is None else kept.longest
    rank = rank if kept is None else len(kept.mixture)
    code, label = words(len(usual)), words(len(job.classes))
    table = positions and kind.has_places
    place = words(longest + 1) if table and not job.at_begin else np.zeros((longest + 1, 0))
    columns = MirrorColumns.of(
        code=code.shape[1],
        ones=ONES + 1,
        place=place.shape[1],
        key=KEY_COLUMNS if table else 0,
        slot=rank,
        label=label.shape[1],
    )
    omega = 2.0 * math.pi / period(longest)
    angle = omega * np.arange(longest + 1, dtype=np.float64)
    key = rounded(circle(angle))
    tokens, norm = _token_table(columns, code, label[usual])
    places = np.zeros((0, columns.width))
    if table:
        places, norm_of_places = _place_table(columns, place, key)
        norm += norm_of_places

    first = float(factor(norm, columns.width, kind.epsilon))
    scale = first if kind.post_norm else 1.0
    if kept is None:
        kept = CellsDraw(longest, _mixture(seed, rank, code.shape[1]), _gain(job, rank, norm, scale / first))

    temperature = TEMPERATURE if job.unknown is None else EVEN
    quarter = rotations(np.array([omega / 4.0]))[0]
    root = math.sqrt(columns.width)
    if table:
        logits = _logits_from_table(columns, key, first, rounded(temperature * root / first**2 * quarter))
    elif positions:
        logits = _logits_from_rotation(columns, omega, angle, rounded(temperature * root * quarter[:, 0]))
    else:
        logits = PlaceLogits.constant(columns)
    return Mirror(
        tokens=tokens,
        places=places,
        code=columns.code,
        ones=columns.ones,
        place=columns.place,
        slot=columns.slot,
        label=columns.label,
        words=label,
        usual=usual,
        attention={**logits.weights, **_value_matrices(columns, kept)},
        theta=logits.theta,
        query=logits.query,
        key=logits.key,
        values=kept.gain * first * code @ kept.mixture.T,
        scale=scale,
        rest=scale * scale * norm,
        epsilon=kind.epsilon,
        kept=kept,
    )


def _token_table(columns: MirrorColumns, code: Floats, usual_words: Floats) -> tuple[Floats, float]:
    """Embeddings of tokens `(V, D)`, and the squared norm of each of them."""
    rows = np.zeros((len(code), columns.half))
    rows[:, columns.code], rows[:, columns.ones], rows[:, columns.label] = code, 1.0, USUAL_SIZE * usual_words
    norm = 2.0 * (
        _column_count(columns.code) + _column_count(columns.ones) + USUAL_SIZE**2 * _column_count(columns.label)
    )
    return _mirrored(rows), norm


def _place_table(columns: MirrorColumns, place: Floats, key: Floats) -> tuple[Floats, float]:
    """Embeddings of places `(L, D)`, and their mean squared norm: keys that were rounded differ in length a little."""
    rows = np.zeros((len(place), columns.half))
    rows[:, columns.place], rows[:, columns.key] = place, key
    return _mirrored(rows), 2.0 * (_column_count(columns.place) + float((key * key).sum(axis=1).mean()))


def _mirrored(rows: Floats) -> Floats:
    """Rows of the first half, followed by their negatives as the second half."""
    return np.concatenate([rows, -rows], axis=1)


def _mixture(seed: int, rank: int, size: int) -> Floats:
    """`R` `(k, t)`: random signs, times a power of two near `1/√t`."""
    signs = 1.0 - 2.0 * np.random.default_rng([seed, 29]).integers(0, 2, (rank, size))
    # `log2` of a small whole number is exact, or far from where `rint` would change.
    mixture: Floats = np.exp2(-np.rint(np.log2(size) / 2.0)) * signs
    return mixture


def _gain(job: StockTask, rank: int, norm: float, stretch: float) -> float:
    """What attention multiplies values by, a power of two.

    `norm`: squared norm of the stream. `stretch`: size of the stream behind attention over that of what attention read.
    """
    # The average of n values of length √k is about √(k/n) long: it shall weigh as much as the rest of the stream.
    seen = float(np.median(job.data.lengths)) / (2.0 if job.architecture.causal else 1.0) + 1.0
    return float(power_near(stretch * np.sqrt(norm / 2.0 * seen / rank)))


def _value_matrices(columns: MirrorColumns, kept: CellsDraw) -> dict[str, Floats]:
    """`W_V` mixes the code into the first `k` coordinates, and `W_O` writes those onto the slot of both halves."""
    W_V, W_O = np.zeros((2, columns.width, columns.width))
    index = np.arange(len(kept.mixture))
    W_V[: len(index), columns.code] = kept.mixture
    slot = columns.slot.start + index
    W_O[slot, index], W_O[columns.half + slot, index] = kept.gain, -kept.gain
    return {"W_V": W_V, "W_O": W_O}


def _logits_from_table(columns: MirrorColumns, key: Floats, first: float, turn: Floats) -> PlaceLogits:
    """Logits from keys in the table of places: queries are keys times `turn`, rotated by a quarter of a place.

    `first`: factor of the first norm, which multiplies query and key alike.
    """
    logits = PlaceLogits.constant(columns)
    W_Q, W_K = logits.weights["W_Q"], logits.weights["W_K"]
    W_Q[:KEY_COLUMNS, columns.key], W_K[:KEY_COLUMNS, columns.key] = turn, np.eye(KEY_COLUMNS)
    query = first**2 / math.sqrt(columns.width) * key @ W_Q[:KEY_COLUMNS, columns.key].T
    return logits._replace(query=query, key=key)


def _logits_from_rotation(columns: MirrorColumns, omega: float, angle: Floats, turn: Floats) -> PlaceLogits:
    """Logits from rotary positions, which turn one pair of the constant query `turn` and of a constant key by `ω`."""
    # Pair j of a head of width D turns by θ^(−2j/D) per place: at j = D/4 that is ω for θ = ω⁻².
    D = columns.width
    pair = np.array([D // 4, D // 4 + columns.half])
    logits = PlaceLogits.constant(columns)
    b_Q, b_K = logits.weights["b_Q"], logits.weights["b_K"]
    b_Q[pair], b_K[pair] = turn, [1.0, 0.0]
    turned = rotations(angle)
    query, key = turned @ b_Q[pair] / math.sqrt(D), turned @ b_K[pair]
    return logits._replace(theta=1.0 / (omega * omega), query=query, key=key)


def written_contexts(job: StockTask, mirror: Mirror) -> Iterator[tuple[Ints, Tensor]]:
    """What attention writes at labelled points, batch by batch: numbers of points `(P',)`, and `(P', k)` in float32."""
    data, causal = job.data, job.task.context.causal
    query, key = (None if part is None else torch.from_numpy(part) for part in (mirror.query, mirror.key))
    values, rows = torch.from_numpy(mirror.values).float(), torch.from_numpy(data.tokens + job.shift)
    places = Places(query, key, causal, "sequence" if job.at_begin else "token")
    number, there = np.full(len(data) if job.at_begin else len(data.tokens), -1), data.labelled_places
    number[data.offsets[1:][there] - 1 if job.kind == "sequence" and causal else there] = np.arange(len(there))
    for at, mixed in mixtures(places, values, values[BEGIN], torch.from_numpy(data.lengths), rows):
        point = number[at.numpy()]
        if (point >= 0).any():  # else all sequences of one length lack labels
            yield point[point >= 0], mixed[torch.from_numpy(point >= 0)]
    if job.recites_from_nothing:
        yield np.array([len(data.tokens)]), values[BEGIN][None]
