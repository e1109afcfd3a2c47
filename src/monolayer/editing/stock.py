"""Edits of stock folders: the data change, the same draw is built again, and the record is the difference."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.editing.difference import row_splices
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Array, Splice, array_of
from monolayer.editing.stock_rows import Subject, edited, labelled, shared, told
from monolayer.errors import ContradictionError, DataError
from monolayer.stock.again import adopt, again, job_of
from monolayer.stock.answers import answers
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.folder import StockModel

CLAIM = "the same bits as memorizing {} with this draw"
NOT_THESE = (
    "{} is not what its draw makes of these data: give all the data that it was built from, with later edits made in "
    "them. If these are all, its weights were changed, or it was built on another machine or by another version"
)


def change(
    kind: Kind, folder: str | os.PathLike[str], X: Any, Y: Any, data: Any, *, lengths: Any = None
) -> tuple[StockModel, Record, Sequences]:
    """A stock folder with an edit of `kind` made, to be saved; the record; and the data that it holds now.

    `data`: all that the folder was built from, with later edits made in them. `X`, `Y`: as for the verbs on models.
    """
    folder = Path(folder)
    if data is None:
        raise DataError("a stock folder is edited with its data: give the data that it was built from (data=, --data)")
    model = StockModel.load(folder)
    own = adopt(model, Sequences.of(*data) if isinstance(data, tuple) else Sequences.of(data))
    subject = Subject(own, lambda some: adopt(model, some), lambda some: job_of(model, some))
    new, asked, claim = edited(kind, subject, X, Y, lengths)
    before = again(model, own, only=asked)
    if not _same(model, before):
        raise DataError(NOT_THESE.format(folder))
    try:
        after = again(model, new, only=asked)
    except ContradictionError as error:
        if kind != "insert":
            raise
        raise ContradictionError(
            f"{error} Sequences from {len(own):,} on are those to be inserted; to change a label that the data hold, "
            "edit is meant"
        ) from None
    record = Record(
        kind=kind,
        informed=True,
        claim=CLAIM.format(claim),
        facts=labelled(asked),
        shared=shared(subject, asked, new) if kind == "forget" else 0,
        changes=tuple(told(kind, asked, lambda few: answers(before, few), lambda few: answers(after, few))),
        splices=tuple(_splices(model, after)),
        config={k: [model.config.get(k), v] for k, v in after.config.items() if model.config.get(k) != v},
    )
    return after, record, new


def _same(stored: StockModel, built: StockModel) -> bool:
    """Whether configuration and all tensors are the same bits."""
    return (
        dict(stored.config) == dict(built.config)
        and stored.tensors.keys() == built.tensors.keys()
        and all(np.array_equal(_bits(part), _bits(built.tensors[name])) for name, part in stored.tensors.items())
    )


def _bits(part: Array) -> Array:
    return np.ascontiguousarray(part).view(np.int64)


def _splices(before: StockModel, after: StockModel) -> Iterable[Splice]:
    """Neurons that one of the two lacks, and rows of other tensors that differ."""
    old, new = (_stored(model) for model in (before, after))
    kind = ARCHITECTURES[before.architecture]
    first, second = kind.block
    axes = {f"{first}.weight": int(kind.turned), f"{first}.bias": 0, f"{second}.weight": int(not kind.turned)}
    for name, part in old.items():
        if name not in axes and part.shape != new[name].shape:
            axes[name] = next(axis for axis in range(part.ndim) if part.shape[axis] != new[name].shape[axis])
    yield from _neurons(old, new, axes)
    for name, part in old.items():
        if name not in axes:
            yield from row_splices(name, part, new[name])


def _stored(model: StockModel) -> dict[str, Array]:
    """The tensors as they are stored."""
    dtype = getattr(torch, model.dtype)
    return {n: array_of(torch.from_numpy(np.ascontiguousarray(t)).to(dtype)) for n, t in model.tensors.items()}


def _neurons(old: Mapping[str, Array], new: Mapping[str, Array], axes: Mapping[str, int]) -> Iterable[Splice]:
    """Those that stay keep their order, so they are found by their contents."""
    # A neuron is known by all of its bits: two may write the same, or read the same, and be two all the same.
    tables = [np.concatenate([_rows(each[name], axes[name]) for name in axes], axis=1) for each in (old, new)]
    _, group = distinct_rows(np.concatenate(tables).view(f"i{tables[0].dtype.itemsize}").astype(np.int64))
    mine, theirs = group[: len(tables[0])], group[len(tables[0]) :]
    stay = [np.isin(mine, theirs), np.isin(theirs, mine)]
    if not np.array_equal(mine[stay[0]], theirs[stay[1]]):
        stay = [np.zeros_like(mask) for mask in stay]
    # Between two neurons that stay: how many go, how many come.
    ends = [np.flatnonzero(np.append(mask, True)) for mask in stay]
    starts = [np.append(0, end[:-1] + 1) for end in ends]
    taken, put = ends[0] - starts[0], ends[1] - starts[1]
    some = (taken > 0) | (put > 0)
    for name, axis in axes.items():
        come = np.moveaxis(new[name], axis, 0)[~stay[1]]
        found = Splice.of(name, axis, old[name], starts[0][some], taken[some], put[some], come)
        if found is not None:
            yield found


def _rows(tensor: Array, axis: int) -> Array:
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)
