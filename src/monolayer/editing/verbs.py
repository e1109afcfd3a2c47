"""`forget`, `edit`, `insert`: a new model and a record of what changed; with the data, or without them.

Whoever edits often makes `Facts` once and hands these on: `facts, record = forget(facts, X)`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from monolayer.data import Sequences
from monolayer.editing import blind, caps, informed, meant
from monolayer.editing.cells import RobustFacts
from monolayer.editing.facts import Facts
from monolayer.editing.record import Record
from monolayer.editing.select import chosen_rows, names_rows
from monolayer.editing.whole import WholeFacts, built_whole
from monolayer.errors import DataError
from monolayer.model.gates import Gates
from monolayer.model.monolayer import Monolayer

Subject = TypeVar("Subject", Monolayer, Facts, RobustFacts, WholeFacts)


def forget(model: Subject, X: Any, data: Any = None, *, lengths: Any = None) -> tuple[Subject, Record]:
    """`model` without some of its facts, and a record of what changed.

    `model`: a model, or `Facts`: then its data are known, and `Facts` come back. `X`: sequences; or, where the data are
    known, row numbers, a mask of rows, a token (every row that contains it), or a predicate of tokens and labels.
    `data`: all that the model holds, as `Sequences` or a pair `(X, Y)`. With them the result is the same bits as
    memorizing the rest with the same draw; without them an interval of a few rounding errors around each point gets the
    label of the plateau beside it, or, in a robust model, a small cap of contexts around it the usual class of its
    token. A robust model has `RobustFacts` in place of `Facts`; a cascade and a line in float32
    have `WholeFacts`, and are built anew from the edited data. A cascade needs them.
    """
    if isinstance(model, Facts):
        return informed.forget(model, X, lengths=lengths)
    if isinstance(model, RobustFacts | WholeFacts):
        return meant.forget(model, chosen_rows(model, X, lengths))
    if data is not None:
        facts: Any = held(model, data)
        new, record = forget(facts, X, lengths=lengths)
        return new.model, record
    if names_rows(X):
        raise DataError("rows, a token or a predicate choose from the data: give data=, or the sequences to forget")
    edited, record = _alone(model).forget(model, X, lengths=lengths)
    return edited, record


def edit(model: Subject, X: Any, Y: Any, data: Any = None, *, lengths: Any = None) -> tuple[Subject, Record]:
    """`model` with labels `Y` for sequences `X` that it holds, and a record; `model`, `data` as for `forget`.

    Without the data, whether the model was built from `X` is not known, and an interval of a few rounding errors around
    each point gets its label; in a robust model a small cap of contexts.
    """
    if isinstance(model, Facts):
        return informed.edit(model, X, Y, lengths=lengths)
    if isinstance(model, RobustFacts | WholeFacts):
        return meant.edit(model, X, Y, lengths=lengths)
    if data is not None:
        facts: Any = held(model, data)
        new, record = edit(facts, X, Y, lengths=lengths)
        return new.model, record
    edited, record = _alone(model).edit(model, X, Y, "edit", lengths=lengths)
    return edited, record


def insert(model: Subject, X: Any, Y: Any = None, data: Any = None, *, lengths: Any = None) -> tuple[Subject, Record]:
    """`model` with sequences `X` and labels `Y` besides its own, and a record; `model`, `data` as for `forget`.

    New tokens get keys and codes of their own, new classes a row of the head.
    """
    if isinstance(model, Facts):
        return informed.insert(model, X, Y, lengths=lengths)
    if isinstance(model, RobustFacts | WholeFacts):
        return meant.insert(model, X, Y, lengths=lengths)
    if data is not None:
        facts: Any = held(model, data)
        new, record = insert(facts, X, Y, lengths=lengths)
        return new.model, record
    edited, record = _alone(model).edit(model, X, Y, "insert", lengths=lengths)
    return edited, record


def _alone(model: Monolayer) -> Any:
    """What edits a model without its data."""
    if isinstance(model.feed_forward, Gates):
        return caps
    return blind


def held(model: Monolayer, data: Any) -> Facts | RobustFacts | WholeFacts:
    """What a model holds: `data` are `Sequences` with labels, or a pair `(X, Y)`."""
    if not isinstance(data, Sequences) and not (isinstance(data, tuple) and len(data) == 2):
        raise DataError("data must be Sequences with labels, or a pair (X, Y)")
    kind: type[Facts] | type[RobustFacts] | type[WholeFacts] = WholeFacts if built_whole(model) else Facts
    if isinstance(model.feed_forward, Gates):
        kind = RobustFacts
    return kind.of(model, data) if isinstance(data, Sequences) else kind.of(model, data[0], data[1])
