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
from monolayer.errors import DataError
from monolayer.stock.norms import completed

LABEL = 1.5
"""Size of a label coordinate where steps change it: a change of sign is ±3, half of what relu6 is worth."""


def word_length(count: int) -> int:
    """The least even `m` of which there are enough words: `C(m, m/2) ≥ count`."""
    m = 2
    while math.comb(m, m // 2) < count:
        m += 2
    return m


def balanced(count: int) -> Floats:
    """The first `count` balanced words `(count, m)` in lexicographic order, + before −."""
    m = word_length(count)
    # ways[i, k]: words of length i with k plus signs; column k = −1 is the last, and 0.
    ways = np.zeros((m, m // 2 + 2), dtype=np.int64)
    ways[:, :-1] = [[math.comb(i, k) for k in range(m // 2 + 1)] for i in range(m)]
    rank, plus = np.arange(count), np.full(count, m // 2)
    words = np.empty((count, m))
    for i in range(m):
        first = ways[m - 1 - i, plus - 1]  # words that go on with +
        up = rank < first
        words[:, i] = np.where(up, 1.0, -1.0)
        rank, plus = np.where(up, rank, rank - first), plus - up
    return words


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns, and the embedding of tokens `(V, D)` and of places `(L, D)`, None without positions."""

    width: int
    tokens: Floats
    places: Floats | None
    keys: tuple[int, ...]
    """First columns of the keys: of tokens, and of places."""
    code: slice
    place_code: slice | None
    one: int
    slot: int
    label: slice
    words: Floats
    """Label words `(C, m)`."""
    norm: float
    """`K`, the squared norm of every stream vector."""
    epsilon: float

    @property
    def signs(self) -> int:
        """Signs of a cell's code: those of its token, and of its place."""
        place = slice(0, 0) if self.place_code is None else self.place_code
        return int(self.code.stop - self.code.start + place.stop - place.start)

    def key(self) -> Floats:
        """Keys of the tokens `(V,)`."""
        return self.tokens[:, self.keys[0]]

    def place_key(self) -> Floats:
        """Keys of the places `(L,)`; one 0 without positions."""
        return np.zeros(1) if self.places is None else self.places[:, self.keys[1]]


def columns(tokens: int, places: int | None, classes: int) -> list[int]:
    """How many columns each part takes: keys, codes, one, slot, label."""
    word, label = word_length(tokens), word_length(classes)
    return [4, 0, word, 0, 2, 2, label] if places is None else [4, 4, word, word_length(places), 2, 2, label]


def width_for(needed: int, wish: int | None, what: str) -> int:
    """The least power of 4 that holds the columns, or the width that was asked for, if it does."""
    least = 16
    while least < needed:
        least *= 4
    if wish is None:
        return least
    if wish < needed:
        raise DataError(
            f"{what} need {needed} columns, and width={wish} has fewer: width={least} is the least that fits"
        )
    if wish & (wish - 1) or wish.bit_length() % 2 == 0:
        raise DataError(f"width must be a power of 4 (16, 64, 256, …), so that 1/√width is exact; it is {wish}")
    return wish


Keys = tuple[Floats, Floats | None]
"""Keys of tokens `(V,)`, and of places `(L,)`, None without positions."""


def draw_keys(random: np.random.Generator, tokens: int, places: int | None) -> Keys:
    """Random keys in [−1, 1]. With positions a key is the sum of two parts, and each gets half of that."""
    if places is None:
        return random.uniform(-1.0, 1.0, tokens), None
    return random.uniform(-0.5, 0.5, tokens), random.uniform(-0.5, 0.5, places)


def lay_out(usual: Ints, keys: Keys, classes: int, *, post_norm: bool, width: int | None, epsilon: float) -> Layout:
    """Keys, then codes in order; `usual` `(V,)` is the label that each token's embedding already holds."""
    key, place_key = keys
    places = None if place_key is None else len(place_key)
    sizes = columns(len(usual), places, classes)
    what = f"{len(usual):,} tokens{f', {places:,} places' if places else ''} and {classes:,} classes"
    D = width_for(sum(sizes), width, what)
    ends = np.cumsum(sizes)
    starts = (ends - sizes).tolist()

    words = balanced(classes)
    tokens = np.zeros((len(usual), D))
    tokens[:, :4] = completed(key)
    tokens[:, starts[2] : ends[2]] = balanced(len(usual))
    tokens[:, starts[4]], tokens[:, starts[4] + 1] = 1.0, -1.0
    norm = 4.0 + sizes[2] + 2.0
    table = None
    if place_key is not None:
        table = np.zeros((len(place_key), D))
        table[:, 4:8] = completed(place_key)
        table[:, starts[3] : ends[3]] = balanced(len(place_key))
        norm += 4.0 + sizes[3]
    size = LABEL
    if post_norm:
        # b / √((norm + m b²)/D + ε) = LABEL: a label coordinate leaves the first norm with this size.
        size = LABEL * float(np.sqrt((norm / D + epsilon) / (1.0 - LABEL**2 * sizes[6] / D)))
    tokens[:, starts[6] : ends[6]] = size * words[usual]
    return Layout(
        width=D,
        tokens=tokens,
        places=table,
        keys=(0,) if places is None else (0, 4),
        code=slice(starts[2], int(ends[2])),
        place_code=None if places is None else slice(starts[3], int(ends[3])),
        one=starts[4],
        slot=starts[5],
        label=slice(starts[6], int(ends[6])),
        words=words,
        norm=norm + sizes[6] * size * size,
        epsilon=epsilon,
    )
