"""What a model knows of the inputs that it is asked about: which tokens it has vectors for, how long they may be.

None of this needs PyTorch: `AskedModel` says what is asked of a model, and the network (`parts.py`) as well as a model
that is only read from its files (`saved/light.py`) can say it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from monolayer.arrays import Bools, Ints
from monolayer.data import Sequences
from monolayer.data.names import MOST_SUGGESTED
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.table import plural


class AskedModel(Protocol):
    """A model as whoever asks it sees it."""

    @property
    def card(self) -> Card:
        """Names and kinds of its tokens and labels."""

    @property
    def ordered(self) -> bool:
        """Whether it sees the order of tokens."""

    @property
    def longest(self) -> int | None:
        """How many tokens a sequence may have; None if there is no limit."""

    def blank(self, rows: Ints, /) -> Bools:
        """Which of these rows `(T,)` of the table have no finite vector: ids that it never saw, or forgot."""

    def is_forgotten(self, row: int, /) -> bool:
        """Whether a row without a vector is one that was forgotten, rather than damaged."""


def encoded(model: AskedModel, X: object, lengths: object = None) -> Sequences:
    """`X` in the row numbers of a model of ids; a token that the model never saw is an error that names it."""
    data = Sequences.of(X, lengths=lengths, vocabulary=model.card.vocabulary, like=model.card.manner)
    if data.vocabulary is None:
        raise DataError("the model takes ids or strings as tokens, not vectors")
    for flat in np.flatnonzero(model.blank(data.tokens))[:1].tolist():
        raise DataError(no_vector(model, data.where(flat), int(data.tokens[flat])))
    check_lengths(model, data.lengths)
    return data


def check_lengths(model: AskedModel, lengths: Ints) -> None:
    """Refuse sequences of a length that the model has no answer for."""
    grid, longest = model.card.grid, int(lengths.max())
    if grid is not None and (lengths != grid.length).any():
        row = int(np.flatnonzero(lengths != grid.length)[0])
        raise DataError(
            f"sequence {row} has {plural(int(lengths[row]), 'token')}: this model approximates a function of exactly "
            f"{grid.length} tokens and knows no other length"
        )
    if model.longest is not None and longest > model.longest:
        raise DataError(
            f"a sequence of {longest} tokens is longer than any the model was built from: it has {model.longest} "
            "positions"
        )


def no_vector(model: AskedModel, where: str, row: int) -> str:
    """Why a token has no vector, in words."""
    if not model.is_forgotten(row):
        return f"{where} has row {row} of lift.weight, which holds NaN or infinity: the weights are damaged"
    names = model.card.vocabulary
    assert names is not None  # only ids have rows
    if names.identity:  # rows for all numbers below the largest
        return f"{where} is {row}, which the model has never seen, or has forgotten: it has no vector for it"
    return f"{where} is {names.names[row]!r}, which the model has forgotten: it has no vector for it any more"


def unanswerable(model: AskedModel, data: Sequences, *, suggest: bool = False) -> dict[int, str]:
    """Sequences of `data`, under their own names, that the model has no answer for; each with the reason.

    They have a token without a vector, or more tokens than there are positions. With `suggest`, the first few reasons
    name a known token that is spelt alike, which takes longer than the rest. Empty where the tokens are vectors, or
    of another kind than the model's: `encode` says what is wrong there.
    """
    names, theirs = model.card.vocabulary, data.vocabulary
    if names is None or theirs is None or names.integers != theirs.integers:
        return {}
    row = names.find(theirs)[data.tokens]
    places = np.flatnonzero((row < 0) | model.blank(row.clip(0)))
    sequences, first = np.unique(data.sequence[places], return_index=True)
    reasons = {}
    if model.longest is not None:
        for sequence in np.flatnonzero(data.lengths > model.longest).tolist():
            reasons[sequence] = (
                f"it has {data.lengths[sequence]:,} tokens, and the model has {plural(model.longest, 'position')}"
            )
    for sequence, place in zip(sequences.tolist(), places[first].tolist(), strict=True):
        where = f"token {int(data.position[place])}"
        name = theirs.names[int(data.tokens[place])]
        if row[place] < 0:
            reasons[sequence] = f"{where} {names.never_seen(name, suggest=suggest and len(reasons) < MOST_SUGGESTED)}"
        else:
            reasons[sequence] = no_vector(model, where, int(row[place]))
    return reasons


__all__ = ["AskedModel", "check_lengths", "encoded", "no_vector", "unanswerable"]
