"""Edits of stock folders: neurons taken out and put in, with the same record as for our own models.

The data are needed; the draw stands in the folder (`stock/again.py`). The edited folder is what the same draw makes of
the edited data; the record is the difference of the two, neuron by neuron; embedding, attention and head keep their
bits. A robust folder is edited token by token (`stock_robust.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.editing import stock_robust
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Array, Splice
from monolayer.editing.stock_folder import EditedFolder
from monolayer.editing.stock_rows import edited, labelled, shared, told
from monolayer.errors import DataError
from monolayer.stock.again import StockDraw, same_bits
from monolayer.stock.folder import StockModel
from monolayer.stock.reading import read_config

CLAIM = "the same neurons as memorizing {} with this draw; embedding, attention and head keep their bits"


def change(
    kind: Kind, folder: str | os.PathLike[str], X: Any, Y: Any, data: Any, *, lengths: Any = None, seed: int = 0
) -> tuple[StockModel | EditedFolder, Record, Sequences]:
    """A stock folder with an edit of `kind` made, to be saved; the record; and the data that it holds now.

    `data`: all that the folder was built from, with later edits made in them. `X`, `Y`: as for the verbs on models.
    `seed`: of a folder of steps that does not say its draw, one of a version before.
    """
    folder = Path(folder)
    if data is None:
        raise DataError("a stock folder is edited with its data: give the data that it was built from (data=, --data)")
    whole = Sequences.of(*data) if isinstance(data, tuple) else Sequences.of(data)
    old_config = read_config(folder)
    if old_config.get("dtype") != "float64":
        return stock_robust.change(kind, folder, X, Y, whole, lengths)
    draw = StockDraw.of(folder, whole, seed)
    new, asked, claim = edited(kind, draw, X, Y, lengths)
    after = draw.with_data(new)
    record = Record(
        kind=kind,
        informed=True,
        claim=CLAIM.format(claim),
        facts=labelled(asked),
        shared=shared(draw, asked, new) if kind == "forget" else 0,
        changes=tuple(told(kind, asked, draw.answers, after.answers)),
        splices=tuple(_neurons(draw, after)),
        config={k: [old_config.get(k), v] for k, v in after.model.config.items() if old_config.get(k) != v},
    )
    return after.model, record, new


def _neurons(before: StockDraw, after: StockDraw) -> Iterable[Splice]:
    """Neurons that one of the two lacks. Those that stay keep their order, so they are found by their contents."""
    old, new, axes = before.model, after.model, before.axes()
    # A neuron is known by all of its bits: two may write the same, or read the same, and be two all the same.
    tables = [np.concatenate([_rows(model.tensors[name], axes[name]) for name in axes], axis=1) for model in (old, new)]
    _, group = distinct_rows(np.concatenate(tables).view(np.int64))
    mine, theirs = group[: len(tables[0])], group[len(tables[0]) :]
    stay = [np.isin(mine, theirs), np.isin(theirs, mine)]
    if not np.array_equal(mine[stay[0]], theirs[stay[1]]):
        stay = [np.zeros_like(mask) for mask in stay]
    # Between two neurons that stay: how many go, how many come.
    ends = [np.flatnonzero(np.append(mask, True)) for mask in stay]
    starts = [np.append(0, end[:-1] + 1) for end in ends]
    taken, put = ends[0] - starts[0], ends[1] - starts[1]
    some = (taken > 0) | (put > 0)
    for name in axes:
        if same_bits(old.tensors[name], new.tensors[name]):
            continue
        come = _rows(new.tensors[name], axes[name])[~stay[1]].reshape(-1, *_shape(new.tensors[name], axes[name]))
        found = Splice.of(name, axes[name], old.tensors[name], starts[0][some], taken[some], put[some], come)
        if found is not None:
            yield found


def _rows(tensor: Array, axis: int) -> Array:
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def _shape(tensor: Array, axis: int) -> tuple[int, ...]:
    return tuple(size for place, size in enumerate(tensor.shape) if place != axis)
