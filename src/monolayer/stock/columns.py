"""Assign columns of the stream of cells to words of tokens, places and classes, and build the tables of embeddings.

If every token answers, the columns are:

    token   word p_a   1 −1 … 1 −1   1 −1   · · ·      · · · ·              word of its usual label   0 … 0
    place   · · ·      · · ·         · ·    word p_q   cos sin −cos −sin    · · ·                     · · ·
            code       ones          u      place      key                  label                     slot

Words are balanced: each has as many + as −. Keys are cosines and sines, labels are ±2, and all other numbers are ±1. So
every row has mean 0, and all rows of a table have the same norm.

If the begin token answers for whole sequences, no other place is read. So gates need not tell tokens apart, and the
begin token has no word of its own: its slot has the columns that hold the words of other tokens.

    token   word p_a   · · · ·      · · · ·              word of some label
    begin   0 … 0      b −b b −b    · · · ·              word of the usual label
    place   · · ·      · · · ·      cos sin −cos −sin    · · ·
            slot       u            key                  label

The power of two `b` makes the norm of the begin token equal to that of the others.

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
"""How many columns of a key attention reads: cosine and sine. Their negatives follow in the next columns."""
MULTIPLE = 8
"""The width is a multiple of this, because matrix units of hardware run faster then."""
CLASS_COSINE = 0.5
"""The largest cosine of two words of classes. A neuron writes its class `LOUD = 8` times as large as the usual word. So
per coordinate its own class gets at least 8 − 1, and any other class at most 4 + 1."""
USUAL_SIZE = 2.0
"""Size of the usual label, where the code is ±1. The last norm scales the stream to a fixed length. So answers that no
neuron writes would have a third of the margin of the others at size 1, and have at least half of it at size 2."""


@dataclass(frozen=True)
class StreamColumns:
    """The columns of every part of the stream. If the begin token answers, the slot has the columns of the code."""

    code: slice
    ones: slice
    u: slice
    place: slice
    key: slice
    label: slice
    slot: slice

    @classmethod
    def of(cls, *, slot: int, **sizes: int) -> StreamColumns:
        """Lay out parts of these sizes one after another, in the order of the arguments, and then the slot.

        A `slot` of size 0 shares the columns of the code.
        """
        ends = np.cumsum(list(sizes.values())).tolist()
        parts = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        return cls(**parts, slot=slice(ends[-1], ends[-1] + slot) if slot else parts["code"])

    @property
    def width(self) -> int:
        """`D`: the number of columns of all parts, rounded up to a multiple of `MULTIPLE`."""
        return MULTIPLE * -(-int(max(self.label.stop, self.slot.stop)) // MULTIPLE)

    @property
    def begin_answers(self) -> bool:
        """Whether the begin token answers for whole sequences."""
        return self.slot == self.code


def token_words(count: int, rank: int, start: int, *, begin_answers: bool) -> Floats:
    """Words of the tokens `(V, t)`.

    If the begin token answers, a context is an average of words: `t` is at least `rank`, `start` is the first word of
    the code that is used, and the word of the begin token is 0. Otherwise words are as short as the gate allows. No two
    words are opposite, because two pairs of opposite words would have equal contexts.
    """
    length = 1 << (rank - 1).bit_length() if begin_answers else 0
    words = balanced_words(count, COSINE, start=start, least_length=length, no_opposites=True)
    return np.where(np.arange(count)[:, None] == BEGIN, 0.0, words) if begin_answers else words


def class_words(count: int) -> Floats:
    """Words of the classes `(C, m)`."""
    return balanced_words(count, CLASS_COSINE)


def stream_columns(code: int, place: int, keys: bool, label: int, slot: int | None) -> StreamColumns:
    """Columns for words of these lengths.

    `keys`: whether places have keys. `slot`: the size of the slot, or None if the begin token answers.
    """
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
    """`b`, a power of two such that 2 or 4 numbers `±b` have the squared norm of a word of `code` signs."""
    return 2.0 ** ((code.bit_length() - 2) // 2)


def token_table(columns: StreamColumns, code: Floats, usual_words: Floats) -> Floats:
    """Embeddings of tokens `(V, D)`, from their words `(V, t)` and the words of their usual labels `(V, m)`."""
    rows = np.zeros((len(code), columns.width))
    rows[:, columns.code], rows[:, columns.label] = code, USUAL_SIZE * usual_words
    if columns.begin_answers:
        rows[BEGIN, columns.u] = _begin_size(code.shape[1]) * _alternating(columns.u)
    else:
        rows[:, columns.ones], rows[:, columns.u] = _alternating(columns.ones), _alternating(columns.u)
    return rows


def place_table(columns: StreamColumns, place: Floats, key: Floats) -> Floats:
    """Embeddings of places `(L, D)`, from their words and keys `(L, 2)`. Rounded keys make norms differ a little."""
    rows = np.zeros((len(place), columns.width))
    rows[:, columns.place], rows[:, columns.key] = place, np.concatenate([key, -key], axis=1)
    return rows


def _alternating(part: slice) -> Floats:
    """The numbers 1, −1, 1, −1 and so on, one for each column of a part."""
    return 1.0 - 2.0 * (np.arange(part.stop - part.start) % 2)


def plus_minus(part: slice) -> tuple[Ints, Ints]:
    """Columns of a part that hold positive numbers, and those that hold their negatives."""
    columns = np.arange(part.start, part.stop)
    return columns[::2], columns[1::2]
