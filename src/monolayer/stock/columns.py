"""Which columns of the stream of cells hold what: words of tokens, places and classes, and the tables of embeddings.

Where tokens answer:

    token   word p_a   1 −1 … 1 −1   1 −1   · · ·      · · · ·              word of its usual label   0 … 0
    place   · · ·      · · ·         · ·    word p_q   cos sin −cos −sin    · · ·                     · · ·
            code       ones          u      place      key                  label                     slot

Words are balanced: as many + as −. All numbers but the keys are ±1, those of the label ±2. So every row has mean 0, and
all rows of a table have one norm.

Where the begin token answers for whole sequences, no other place is read. So nothing must tell tokens apart there, and
the begin token has no word of its own: its slot is where other tokens have theirs.

    token   word p_a   · · · ·      · · · ·              word of some label
    begin   0 … 0      b −b b −b    · · · ·              word of the usual label
    place   · · ·      · · · ·      cos sin −cos −sin    · · ·
            slot       u            key                  label

The power of two `b` makes the norm of the begin token that of the others.

Letters: `V` tokens, `L` places, `t` columns of a token's word, `D` the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.construct.robust.codes import COSINE, balanced_words
from monolayer.construct.robust.stored import ONES
from monolayer.huggingface.architecture import BEGIN

KEY_COLUMNS = 2
"""Columns of a key that attention reads: cosine and sine. Their negatives stand behind them."""
MULTIPLE = 8
"""The width is a multiple of this, as the matrix units of hardware want it."""
CLASS_COSINE = 0.5
"""The largest cosine of two words of classes. A neuron writes `LOUD = 8` times the size of the usual word: for each
coordinate its own class gets 8 − 1 at least, another class 4 + 1 at most."""
USUAL_SIZE = 2.0
"""Size of the usual label beside the ±1 of the code. The last norm makes what neurons wrote as large as it can be; at
1 its answers, which no neuron writes, would be a third as sure as the others, at 2 they are half as sure or more."""


@dataclass(frozen=True)
class StreamColumns:
    """Columns of every part. Where the begin token answers, the slot has the columns of the code."""

    code: slice
    ones: slice
    u: slice
    place: slice
    key: slice
    label: slice
    slot: slice

    @classmethod
    def of(cls, *, slot: int, **sizes: int) -> StreamColumns:
        """Parts of these sizes, one after the other, in the order in which they are named, then a `slot`; 0: no own."""
        ends = np.cumsum(list(sizes.values())).tolist()
        parts = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        return cls(**parts, slot=slice(ends[-1], ends[-1] + slot) if slot else parts["code"])

    @property
    def width(self) -> int:
        """`D`: all parts, rounded up to a multiple that hardware likes."""
        return MULTIPLE * -(-int(max(self.label.stop, self.slot.stop)) // MULTIPLE)

    @property
    def begin_answers(self) -> bool:
        """Whether the begin token answers for whole sequences."""
        return self.slot == self.code


def token_words(count: int, rank: int, start: int, *, begin_answers: bool) -> Floats:
    """Words of the tokens `(V, t)`.

    Where the begin token answers, a context is an average of words, so there `t` is at least `rank`, `start` chooses
    among the words of the code, and the begin token has none. Elsewhere words are as short as the gate allows. No two
    are opposite: two such pairs would have equal contexts.
    """
    length = 1 << (rank - 1).bit_length() if begin_answers else 0
    words = balanced_words(count, COSINE, start=start, least_length=length, no_opposites=True)
    return np.where(np.arange(count)[:, None] == BEGIN, 0.0, words) if begin_answers else words


def class_words(count: int) -> Floats:
    """Words of the classes `(C, m)`."""
    return balanced_words(count, CLASS_COSINE)


def stream_columns(code: int, place: int, keys: bool, label: int, slot: int | None) -> StreamColumns:
    """Columns for words of these lengths; `keys`: whether places have keys; `slot` None: the begin token answers."""
    return StreamColumns.of(
        code=code,
        ones=0 if slot is None else ONES,
        u=2 if slot is not None else code // int(_begin_size(code)) ** 2,
        place=place,
        key=2 * KEY_COLUMNS if keys else 0,
        label=label,
        slot=slot or 0,
    )


def _begin_size(code: int) -> float:
    """`b`, a power of two, so that 2 or 4 numbers `±b` have the squared norm of a word of `code` signs."""
    return 2.0 ** ((code.bit_length() - 2) // 2)


def token_table(columns: StreamColumns, code: Floats, usual_words: Floats) -> Floats:
    """Embeddings of tokens `(V, D)`."""
    rows = np.zeros((len(code), columns.width))
    rows[:, columns.code], rows[:, columns.label] = code, USUAL_SIZE * usual_words
    if columns.begin_answers:
        rows[BEGIN, columns.u] = _begin_size(code.shape[1]) * _alternating(columns.u)
    else:
        rows[:, columns.ones], rows[:, columns.u] = _alternating(columns.ones), _alternating(columns.u)
    return rows


def place_table(columns: StreamColumns, place: Floats, key: Floats) -> Floats:
    """Embeddings of places `(L, D)`; keys `(L, 2)` that were rounded make their norms differ a little."""
    rows = np.zeros((len(place), columns.width))
    rows[:, columns.place], rows[:, columns.key] = place, np.concatenate([key, -key], axis=1)
    return rows


def _alternating(part: slice) -> Floats:
    """1, −1, 1, −1 and so on, for every column of a part."""
    return 1.0 - 2.0 * (np.arange(part.stop - part.start) % 2)


def plus_minus(part: slice) -> tuple[Ints, Ints]:
    """Columns of a part that hold positive numbers, and those that hold their negatives."""
    columns = np.arange(part.start, part.stop)
    return columns[::2], columns[1::2]
