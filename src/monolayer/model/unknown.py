"""Rows that a model was not built from: recognized by fingerprints, then refused, or given a value for an answer.

    predict(X)                  an error that names the rows, and a stored key that is spelt like the first of them
    predict(X, unknown=None)    None in place of their answers
    predict(X, strict=False)    what the network says there, which is meaningless

A model of keys and values keeps a fingerprint of each of its points, so that it can do all three. A model without
fingerprints recognizes only rows that it cannot answer at all, because it has no vector for one of their tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Bools, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.asked import AskedModel, unanswerable
from monolayer.model.card import Fingerprint
from monolayer.model.nearest import nearest_key
from monolayer.table import quoted

REFUSE: Any = object()
"""The default of `unknown=` in `predict`: rows that the model was not built from are an error, not a value."""
MEANINGLESS = ", strict=False what the network answers there, which is meaningless"
MOST_NAMED = 4
"""How many rows an error names."""
NO_FINGERPRINTS = (
    "this model has no fingerprints, so it cannot tell what it was built from: memorize with unknown=True (--unknown)"
)


def tells_unknown(fingerprint: Fingerprint | None, strict: bool | None, unknown: Any) -> bool:
    """Whether `predict` with these options asks the fingerprints; an error if they are needed and there are none."""
    if fingerprint is not None:
        return strict is not False
    if strict or (strict is None and unknown is not REFUSE):
        way_out = "" if strict else "; with strict=False, unknown= stands only where a token is unknown to the model"
        raise DataError(NO_FINGERPRINTS + way_out)
    return False


class UnknownRows(NamedTuple):
    """The sequences that a model was not built from, or cannot answer: their numbers, in order.

    `answerable`: the numbers of the sequences that the network can answer.
    """

    unknown: Ints
    answerable: Ints


def unknown_rows(model: AskedModel, data: Sequences, told: bool) -> UnknownRows:
    """Which sequences of `data`, under their own names, are unknown; `told`: whether fingerprints are asked."""
    refused = np.array(sorted(unanswerable(model, data)), dtype=np.int64)
    answerable = np.setdiff1d(np.arange(len(data)), refused)
    if not told or not len(answerable):
        return UnknownRows(refused, answerable)
    part = _in_our_rows(model, data.select(answerable))
    new = ~seen_points(model, part)
    rows = np.unique(model.card.labelling.rows(part, np.flatnonzero(new)))
    return UnknownRows(np.union1d(refused, answerable[rows]), answerable)


def seen_points(model: AskedModel, encoded: Sequences) -> Bools:
    """Which answering places `(P,)` of encoded data are points that the model was built from."""
    if model.card.fingerprint is None:
        raise DataError(NO_FINGERPRINTS)
    return model.card.fingerprint.seen(encoded, model.ordered)


def refusal(model: AskedModel, data: Sequences, rows: Ints) -> DataError:
    """The error about sequences `rows` of `data`, under their own names, which the model was not built from."""
    first, one = int(rows[0]), data.select(rows[:1])
    hint = nearest_key(model, data, first)
    meant = "" if hint is None else f" Did you mean {quoted(hint)}?"
    why = unanswerable(model, one).get(0)
    where, because = data.named(first), "" if why is None else f" ({why})"
    if why is None and model.card.labelling.at_tokens:
        where = f"token {int(seen_points(model, _in_our_rows(model, one)).argmin())} of {where}"
    others = [str(row) for row in rows[1:MOST_NAMED].tolist()]
    more = len(rows) - 1 - len(others)
    also = ""
    if others:
        listed = ", ".join(others) + (f" and {more:,} more" if more else "")
        also = f" Neither are sequences {listed}." if len(rows) > 2 else f" Neither is sequence {listed}."
    return DataError(
        f"{where}, {shown(data, first)}, is not in the data that the model was built from{because}.{meant}{also} "
        f"unknown=None gives None for such rows{'' if why else MEANINGLESS}"
    )


def shown(data: Sequences, row: int) -> str:
    """The tokens of a sequence in quotes, as text where they are text."""
    return quoted(tokens_of(data, row))


def tokens_of(data: Sequences, row: int) -> object:
    """The tokens of a sequence as one text where they are text; a number alone, or a list, where they are not."""
    tokens = data.tokens[data.offsets[row] : data.offsets[row + 1]]
    if data.vocabulary is None:
        return tokens.tolist()
    names = data.vocabulary.decode(tokens).tolist()
    if data.vocabulary.integers:
        return names[0] if len(names) == 1 else names
    return (" " if data.vocabulary.cuts == "words" else "").join(map(str, names))


def filled(values: Array, places: Ints, count: int, unknown: Any) -> Array:
    """`count` answers as objects: `values` at `places`, and `unknown` everywhere else."""
    answers = np.empty(count, dtype=object)
    answers[:] = [unknown] * count
    for place, value in zip(places.tolist(), values.tolist() if values.ndim == 1 else values, strict=True):
        answers[place] = value
    return answers


def _in_our_rows(model: AskedModel, data: Sequences) -> Sequences:
    """Sequences that the model can answer, in the numbers of its own names."""
    return data.recoded(model.card.vocabulary)
