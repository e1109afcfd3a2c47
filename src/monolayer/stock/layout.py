"""The stream: which columns hold what, so that every vector has mean 0 and one norm.

    token   s −s r −r · · · ·   code p_a   · · ·      1 −1   0 0    label word of its usual label
    place   · · · · s −s r −r   · · ·      code p_q   · ·    · ·    · · ·
            key      key                              one    slot   label

Token and place live in different columns, so norms add up. `V` tokens (special ones included), `L` places, `C`
classes. Codes are balanced words of ±1, as many + as −: sum 0 and one norm, so LayerNorm keeps them. Two different ones
of length `m` differ in at least two places, so their inner product is at most `m − 4`.

The width `D` is a power of 4: then the `1/√D` of attention is a power of two, exact everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.huggingface.stock_kind import StockKind
from monolayer.stock.norms import completed

LABEL_SIZE = 1.5
"""Size of a label coordinate where steps change it: a change of sign is ±3, half of what relu6 is worth."""


def word_length(count: int) -> int:
    """The least even length `m` that has `count` balanced words: `C(m, m/2) ≥ count`."""
    m = 2
    while math.comb(m, m // 2) < count:
        m += 2
    return m


def balanced(count: int) -> Floats:
    """The first `count` balanced words `(count, m)` in lexicographic order, + before −."""
    m = word_length(count)
    # ways[i, k]: words of length i with k plus signs; index k = −1 means the last column, which is 0.
    ways = np.zeros((m, m // 2 + 2), dtype=np.int64)
    ways[:, :-1] = [[math.comb(i, k) for k in range(m // 2 + 1)] for i in range(m)]
    rank, plus = np.arange(count), np.full(count, m // 2)
    words = np.empty((count, m))
    for i in range(m):
        first = ways[m - 1 - i, plus - 1]  # words whose next sign is +
        up = rank < first
        words[:, i] = np.where(up, 1.0, -1.0)
        rank, plus = np.where(up, rank, rank - first), plus - up
    return words


Keys = tuple[Floats, Floats | None]
"""Keys of tokens `(V,)`, and of places `(L,)`, None without positions."""


@dataclass(frozen=True, eq=False)
class StreamLayout:
    """Columns of the stream, and embeddings of tokens `(V, D)` and places `(L, D)`: without positions one row of 0."""

    keys: Keys
    tokens: Floats
    places: Floats
    key_columns: tuple[int, ...]
    """First columns of the keys: of tokens, and of places."""
    code: Ints
    """Columns of the code of a cell: of its token, and of its place."""
    one: int
    slot: int
    label: slice
    words: Floats
    """Label words `(C, m)`."""
    norm: float
    """`K`, the squared norm of every stream vector."""

    @property
    def width(self) -> int:
        """`D`: the width of the stream."""
        return int(self.tokens.shape[1])


def draw_keys(random: np.random.Generator, tokens: int, places: int | None) -> Keys:
    """Random keys in [−1, 1]. With positions a key is the sum of two parts, each from [−1/2, 1/2]."""
    if places is None:
        return random.uniform(-1.0, 1.0, tokens), None
    return random.uniform(-0.5, 0.5, tokens), random.uniform(-0.5, 0.5, places)


def lay_out_steps(usual: Ints, keys: Keys, classes: int, kind: StockKind) -> StreamLayout:
    """The stream for these keys, for this many classes and this architecture (`kind`).

    `usual` `(V,)`: the label that each token's embedding already holds.
    """
    code, words = balanced(len(usual)), balanced(classes)
    place_code = np.zeros((1, 0)) if keys[1] is None else balanced(len(keys[1]))
    place_keys = 0 if keys[1] is None else 4
    sizes = [4, place_keys, code.shape[1], place_code.shape[1], 2, 2, words.shape[1]]
    ends = np.cumsum(sizes)
    starts, D = (ends - sizes).tolist(), 16
    while sum(sizes) > D:
        D *= 4

    tokens, places = np.zeros((len(usual), D)), np.zeros((len(place_code), D))
    tokens[:, :4], tokens[:, starts[2] : ends[2]] = completed(keys[0]), code
    tokens[:, starts[4]], tokens[:, starts[4] + 1] = 1.0, -1.0
    if keys[1] is not None:
        places[:, 4:8], places[:, starts[3] : ends[3]] = completed(keys[1]), place_code
    norm, size = 4.0 + sizes[2] + 2.0 + place_keys + sizes[3], LABEL_SIZE
    if kind.post_norm:
        # b / √((norm + m b²)/D + ε) = LABEL_SIZE: a label coordinate leaves the first norm with this size.
        size = LABEL_SIZE * float(np.sqrt((norm / D + kind.epsilon) / (1.0 - LABEL_SIZE**2 * sizes[6] / D)))
    tokens[:, starts[6] : ends[6]] = size * words[usual]
    return StreamLayout(
        keys=keys,
        tokens=tokens,
        places=places,
        key_columns=(0, 4) if place_keys else (0,),
        code=np.arange(starts[2], ends[3]),
        one=starts[4],
        slot=starts[5],
        label=slice(starts[6], int(ends[6])),
        words=words,
        norm=norm + sizes[6] * size * size,
    )
