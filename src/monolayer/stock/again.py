"""A draw used again: what it makes of other data."""

from __future__ import annotations

from typing import Any

from monolayer.arrays import Ints
from monolayer.construct.consistency import OnConflict
from monolayer.construct.construction import Progress
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.draw import adopted, check_cut, check_room
from monolayer.stock.folder import StockModel
from monolayer.stock.labelled import Work, work
from monolayer.stock.robust import robust_model
from monolayer.stock.steps import steps_model
from monolayer.stock.touched import Touched


def adopt(model: StockModel, data: Sequences) -> Sequences:
    """`data` in the numbers of the model's tokens and classes; what its draw has no room for is an error."""
    draw, shift = model.draw, len(model.special)
    table = model.config.get("id2label") or {}
    classes = None
    if model.task != "lm":
        classes = draw.names(tuple(str(table[str(number)]) for number in range(len(table))), labels=True)
    found = adopted(data, draw.names(model.names[shift:]), classes, model.task)
    check_room(found, model.room - 1 if draw.longest is None else min(model.room - 1, draw.longest))
    check_cut(found, model.names, model.special, draw.cut)
    return found


def job_of(model: StockModel, data: Sequences, on_conflict: OnConflict = "error") -> Work:
    """What a model of adopted `data` with this draw must answer, and where."""
    kind, draw = ARCHITECTURES[model.architecture], model.draw
    names, special = model.names, model.special
    return work(kind, data, names, special, positions=draw.positions, on_conflict=on_conflict, robust=draw.robust)


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
    is known: a robust model then finds their neurons anew, and keeps all others, which are the same bits.
    """
    kind, draw = ARCHITECTURES[model.architecture], model.draw
    dtype: Any = model.dtype
    data = adopt(model, data)

    job = job_of(model, data, on_conflict)
    if not draw.robust:
        return steps_model(kind, job, draw.activation, model.special, 0, None, report, draw)
    touched = None
    if only is not None:
        if on_conflict != "error":
            raise DataError("only= is for data that do not contradict themselves")
        stored = kind.neurons(model.tensors)
        touched = Touched.by(only, job, lambda rows: job_of(model, data.select(rows)), stored)
    return robust_model(kind, job, None, dtype, draw.activation, model.special, 0, report, draw, touched)
