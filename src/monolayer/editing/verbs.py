"""`forget`, `edit`, `insert`: a new model, and a record of what changed.

Whoever edits often makes `Facts` once and hands these on: `facts, record = forget(facts, X)`.
"""

from __future__ import annotations

from typing import Any

from monolayer.data import Sequences
from monolayer.editing.edited import joined, relabelled, without
from monolayer.editing.facts import Facts
from monolayer.editing.record import Record
from monolayer.editing.select import chosen_rows
from monolayer.editing.subject import subject_of
from monolayer.errors import DataError

NEEDED = (
    "an edit needs the data that the model was built from (data=, --data); what a model answers can be read out with "
    "predict"
)


def forget(model: Any, X: Any, data: Any = None, *, lengths: Any = None) -> tuple[Any, Record]:
    """`model` without some of its facts, and a record of what changed.

    `model`: a model, the folder of one, or `Facts`: then its data are known, and `Facts` come back. `X`: sequences, row
    numbers, a mask of rows, a token (every row that contains it), or a predicate of tokens and labels. `data`: all that
    the model was built from, with later edits made in them: `Sequences`, or a pair `(X, Y)`.

    The result is bit for bit what memorizing the rest with the same draw gives. A fact that other rows teach too stays,
    and is counted in the record.
    """
    facts = known(model, data)
    rows = chosen_rows(facts.subject, facts.data, X, lengths)
    return _returned(model, *facts.changed("forget", without(facts.subject, facts.data, rows)))


def edit(model: Any, X: Any, Y: Any, data: Any = None, *, lengths: Any = None) -> tuple[Any, Record]:
    """`model` with other labels for facts that it holds, and a record of what changed. See `forget`."""
    facts = known(model, data)
    asked = facts.subject.adopt(Sequences.of(X, Y, lengths=lengths))
    return _returned(model, *facts.changed("edit", relabelled(facts.subject, facts.data, asked)))


def insert(model: Any, X: Any, Y: Any = None, data: Any = None, *, lengths: Any = None) -> tuple[Any, Record]:
    """`model` with more facts, and a record of what changed. See `forget`; tokens and classes may be new."""
    facts = known(model, data)
    asked = facts.subject.adopt(Sequences.of(X, Y, lengths=lengths))
    return _returned(model, *facts.changed("insert", joined(facts.subject, facts.data, asked)))


def known(model: Any, data: Any) -> Facts:
    """The facts of a model and its data."""
    if isinstance(model, Facts):
        if data is not None:
            raise DataError("Facts know their data: leave data out")
        return model
    if data is None:
        subject_of(model)  # an error if it is none
        raise DataError(NEEDED)
    return Facts.of(model, *data) if isinstance(data, tuple) else Facts.of(model, data)


def _returned(model: Any, facts: Facts, record: Record) -> tuple[Any, Record]:
    return (facts if isinstance(model, Facts) else facts.model), record
