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


@dataclass(frozen=True, eq=False)
class Mirror:
    """Columns of the first half, tables, attention, and what follows from them. All numbers are those of the file."""

    tokens: Floats
    places: Floats
    """None of them where places have no table."""
    code: slice
    ones: slice
    place: slice
    slot: slice
    label: slice
    words: Floats
    """Words of the classes `(C, m)`."""
    attention: Mapping[str, Floats]
    theta: float | None
    """Base of rotary angles, where they are to turn the logits."""
    query: Floats | None
    key: Floats | None
    """Of the places `(L, 2)`: logits are their products; None where all logits are 0."""
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
    """The stream for these data; `usual` `(V,)` is the label that each token's embedding already holds.

    `kept`: of another stream, to be used again; then rank and seed have no say.
    """
    kind, epsilon = job.architecture, job.architecture.epsilon
    positions, longest = job.task.context.positions, int(job.data.lengths.max()) if kept is None else kept.longest
    rank = rank if kept is None else len(kept.mixture)
    temperature = TEMPERATURE if job.unknown is None else EVEN
    code, label = words(len(usual)), words(len(job.classes))
    table = positions and kind.has_places
    place = words(longest + 1) if table and not job.at_begin else np.zeros((longest + 1, 0))
    sizes = [code.shape[1], ONES + 1, place.shape[1], KEY_COLUMNS if table else 0, rank, label.shape[1]]
    ends = np.cumsum(sizes)
    parts = [slice(int(end - size), int(end)) for size, end in zip(sizes, ends, strict=True)]
    D = MULTIPLE * -(-2 * int(ends[-1]) // MULTIPLE)
    half = D // 2

    def mirrored(rows: Floats) -> Floats:
        return np.concatenate([rows, -rows], axis=1)

    rows = np.zeros((len(usual), half))
    rows[:, parts[0]], rows[:, parts[1]], rows[:, parts[5]] = code, 1.0, USUAL_SIZE * label[usual]
    tokens, places, norm = mirrored(rows), np.zeros((0, D)), 2.0 * (sizes[0] + sizes[1] + USUAL_SIZE**2 * sizes[5])
    omega = 2.0 * math.pi / period(longest)
    angle = omega * np.arange(longest + 1, dtype=np.float64)
    key = rounded(circle(angle))
    if table:
        there = np.zeros((longest + 1, half))
        there[:, parts[2]], there[:, parts[3]] = place, key
        places = mirrored(there)
        norm += 2.0 * (sizes[2] + float((key * key).sum(axis=1).mean()))
    first = float(factor(norm, D, epsilon))
    scale = first if kind.post_norm else 1.0
    if kept is None:
        signs = 1.0 - 2.0 * np.random.default_rng([seed, 29]).integers(0, 2, (rank, sizes[0]))
        # The average of n values of length √k is about √(k/n) long: it shall weigh as much as the rest of the stream.
        seen = float(np.median(job.data.lengths)) / (2.0 if kind.causal else 1.0) + 1.0
        gain = float(power_near(scale / first * np.sqrt(norm / 2.0 * seen / rank)))
        # `log2` of a small whole number is exact, or far from where `rint` would change.
        kept = CellsDraw(longest, np.exp2(-np.rint(np.log2(sizes[0]) / 2.0)) * signs, gain)
    mixture, gain = kept.mixture, kept.gain
    W_Q, W_K, W_V, W_O = np.zeros((4, D, D))
    b_Q, b_K = np.zeros((2, D))
    W_V[:rank, parts[0]] = mixture
    index = np.arange(rank)
    W_O[parts[4].start + index, index], W_O[half + parts[4].start + index, index] = gain, -gain
    theta = query = read = None
    turn = omega / 4.0
    rotation = rotations(np.array([turn]))[0]
    if table:
        W_Q[:KEY_COLUMNS, parts[3]] = rounded(temperature * math.sqrt(D) / first**2 * rotation)
        W_K[:KEY_COLUMNS, parts[3]] = np.eye(KEY_COLUMNS)
        query, read = first**2 / math.sqrt(D) * key @ W_Q[:KEY_COLUMNS, parts[3]].T, key
    elif positions:
        # Pair j of a head of width D turns by θ^(−2j/D) a place: at j = D/4 that is ω for θ = ω⁻².
        pair = np.array([D // 4, D // 4 + half])
        theta = 1.0 / (omega * omega)
        b_Q[pair], b_K[pair] = rounded(temperature * math.sqrt(D) * rotation[:, 0]), [1.0, 0.0]
        whole = rotations(angle)
        query, read = whole @ b_Q[pair] / math.sqrt(D), whole @ b_K[pair]
    return Mirror(
        tokens=tokens,
        places=places,
        code=parts[0],
        ones=parts[1],
        place=parts[2],
        slot=parts[4],
        label=parts[5],
        words=label,
        attention={"W_Q": W_Q, "b_Q": b_Q, "W_K": W_K, "b_K": b_K, "W_V": W_V, "W_O": W_O},
        theta=theta,
        query=query,
        key=read,
        values=gain * first * code @ mixture.T,
        scale=scale,
        rest=scale * scale * norm,
        epsilon=epsilon,
        kept=kept,
    )


def written_contexts(job: StockTask, mirror: Mirror) -> Iterator[tuple[Ints, Tensor]]:
    """Numbers of labelled points, and what attention writes there `(P', k)`, in float32."""
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
