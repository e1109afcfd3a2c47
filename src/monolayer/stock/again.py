"""A draw used again: what it makes of other data."""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Ints
from monolayer.construct.consistency import OnConflict
from monolayer.construct.task import Progress
from monolayer.data import Labels, Names, Sequences
from monolayer.errors import DataError
from monolayer.stock.folder import StockModel
from monolayer.stock.labelled import Work, work
from monolayer.stock.names import check_texts
from monolayer.stock.robust import Touched, robust_model
from monolayer.stock.steps import steps_model


def adopt(model: StockModel, data: Sequences) -> Sequences:
    """`data` in the numbers of the model's tokens and classes; what its draw has no room for is an error."""
    facts, draw, labels = model.facts, model.draw, data.labels
    special = facts.architecture.special
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    if draw.prompts != (data.prompts is not None):
        raise DataError(
            "this folder holds prompts and answers: give both"
            if draw.prompts
            else "the data are prompts and answers, which this folder does not hold: memorize them anew, without it"
        )
    if data.prompts is not None:
        data.check_labelled()
    vocabulary = draw.names(facts.names[len(special) :])
    tokens = _numbered(vocabulary, data.vocabulary, data.tokens, "token")
    if (labels is None) != (facts.task == "lm"):
        raise DataError("give labels" if labels is None else "this model memorizes each next token: give no labels")
    if labels is not None:
        if labels.classes is None or labels.per != facts.task:
            raise DataError(f"the labels must be classes, one per {facts.task}, as those of the model")
        classes = draw.names(facts.classes, labels=True)
        values = _numbered(classes, labels.classes, labels.values, "label")
        labels = Labels(values, labels.per, classes, place=labels.place)
    found = Sequences(tokens, data.lengths, vocabulary, labels, data.prompts)
    room, long = min(facts.room - 1, draw.longest or facts.room), int(data.lengths.argmax())
    if int(data.lengths[long]) > room:
        raise DataError(
            f"sequence {long} has {int(data.lengths[long]):,} tokens, and this draw has places for {room:,}: memorize "
            "the data anew, without the draw"
        )
    check_texts(facts.cut, special, found)
    return found


def _numbered(ours: Names, theirs: Names, rows: Ints, what: str) -> Ints:
    if ours == theirs:
        return rows
    table = {str(name): row for row, name in enumerate(ours.names)}
    number = np.array([table.get(str(name), -1) for name in theirs.names], dtype=np.int64)[rows]
    if (number < 0).any():
        name = theirs.names[int(rows[int((number < 0).argmax())])]
        raise DataError(
            f"the {what} {name!r} is new to this draw, whose embedding and head have a row for each name: memorize "
            "the data anew, without the draw"
        )
    return number


def job_of(model: StockModel, data: Sequences, on_conflict: OnConflict = "error") -> Work:
    """What a model of adopted `data` with this draw must answer, and where."""
    facts, storage = model.facts, model.draw.storage
    names, positions = facts.names, facts.positions
    kind, unknown = facts.architecture, model.draw.unknown
    number = None if unknown is None else facts.classes.index(unknown)
    return work(kind, data, names, positions=positions, on_conflict=on_conflict, storage=storage, unknown=number)


def again(
    model: StockModel,
    data: Sequences,
    *,
    only: Ints | None = None,
    on_conflict: OnConflict = "error",
    report: Progress = lambda stage, share: None,
) -> StockModel:
    """The model of `data` with the draw of `model`: bit for bit the same, whatever data that one held before.

    `only`: tokens, by their row in the vocabulary, whose facts alone have changed since `model` was built, where that
    is known: a model of cells then finds their neurons anew, and keeps all others, which are the same bits.
    """
    data = adopt(model, data)
    job = job_of(model, data, on_conflict)
    if model.draw.storage == "steps":
        return steps_model(job, model.facts.activation, report, known=model)
    touched = None
    if only is not None:
        if on_conflict != "error":
            raise DataError("only= is for data that do not contradict themselves")
        touched = Touched.by(only, job, lambda rows: job_of(model, data.select(rows)), model.neurons)
    return robust_model(job, model.facts.activation, model.facts.dtype, report, known=model, touched=touched)
