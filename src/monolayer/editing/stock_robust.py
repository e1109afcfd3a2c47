"""Edits of robust stock folders: the neurons of the tokens that are touched, found anew, and nothing else.

The draw stands in the folder (`stock/robust_again.py`), and with it the neurons of a token, and the label that its
embedding holds, are a function of the facts of that token. So an edit finds them once from the old data, to see that
the folder has them, bit for bit, and once from the new data. All other neurons stay, and are silent at these tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.difference import row_splices
from monolayer.editing.premise import NOT_THESE, check_covers, unusual
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Array, Splice, array_of
from monolayer.editing.stock_folder import EditedFolder
from monolayer.editing.stock_rows import edited, labelled, shared, told
from monolayer.errors import ContradictionError, DataError
from monolayer.stock.robust import points_of
from monolayer.stock.robust_again import Cells, RobustStock

CLAIM = (
    "the neurons and usual labels of {} tokens are the same bits that memorizing {} with this draw gives them; those "
    "of all other tokens are as they were, and silent at these"
)


def change(
    kind: Kind, folder: Path, X: Any, Y: Any, data: Sequences, lengths: Any = None
) -> tuple[EditedFolder, Record, Sequences]:
    """The edited folder, to be saved, the record, and the data that it holds now."""
    old = RobustStock.of(folder, data)
    _check_throughout(old)
    new, asked, what = edited(kind, old, X, Y, lengths)
    touched = old.touched(asked)
    usual = old.held, old.usual(new)
    held = old.cells(old.data, usual[0], touched)
    _check(old, touched, held)
    try:
        wanted = old.cells(new, usual[1], touched)
    except ContradictionError as error:
        if kind != "insert":
            raise
        raise ContradictionError(
            f"{error} Sequences from {len(old.data):,} on are those to be inserted; to change a label that the data "
            "hold, edit is meant"
        ) from None
    shift = len(wanted.cell) - len(held.cell)
    size = max(1, old.size + shift)
    record = Record(
        kind=kind,
        informed=True,
        claim=CLAIM.format(f"{len(touched):,}", what),
        facts=labelled(asked),
        shared=shared(old, asked, new) if kind == "forget" else 0,
        changes=tuple(
            told(
                kind,
                asked,
                lambda few: old.answers(few, usual[0], held),
                lambda few: old.answers(few, usual[1], wanted),
            )
        ),
        splices=tuple(_splices(old, new, usual[1], touched, wanted)),
        config={key: [max(1, old.size), size] for key in old.size_keys if max(1, old.size) != size},
    )
    return EditedFolder(folder, record), record, new


def _check_throughout(old: RobustStock) -> None:
    """What of the premise can be seen of all tokens at once (`premise.py`)."""
    job, usual = old.work(old.data), old.usual(old.data)
    odd = np.flatnonzero(usual != old.held)
    if len(odd):
        raise DataError(NOT_THESE.format(old.folder, unusual(old.ids, odd)))
    fires = old.neurons >= 0
    facts = points_of(job).token, job.labels(job.task.target)
    check_covers(str(old.folder), (old.ids, job.classes), (old.neurons[fires], old.speaks[fires]), facts, usual)


def _check(old: RobustStock, touched: Ints, held: Cells) -> None:
    """That the folder has, for the touched tokens, the very neurons that its data determine."""
    mine = np.flatnonzero(np.isin(old.neurons, touched))
    same = np.array_equal(old.neurons[mine], held.cell)
    for name, rows in _rows(old, old.data, old.held, held):
        stored = np.moveaxis(array_of(old.tensors[name]), old.axes[name], 0)[mine]
        same = same and np.array_equal(stored, rows)
    if not same:
        raise DataError(
            f"{old.folder} does not have the neurons that these data determine for the tokens of the edit: it holds "
            "other data besides, or others than these, or was built on another machine or by another version. Give all "
            "the data that it was built from, with later edits made in them; or memorize the edited data anew"
        )


def _rows(old: RobustStock, data: Sequences, usual: Ints, cells: Cells) -> Iterable[tuple[str, Array]]:
    """What neurons are in each tensor that holds them, neurons in front; of none, one row that never fires."""
    tensors = old.kind.tensors(old.frame(data, usual, cells.block))
    for name, axis in old.axes.items():
        rows = np.moveaxis(array_of(old.stored(tensors[name])), axis, 0)
        yield name, rows if len(cells.cell) else rows[:0]


def _splices(old: RobustStock, new: Sequences, usual: Ints, touched: Ints, wanted: Cells) -> Iterable[Splice]:
    """Neurons of the touched tokens, and the rows of their embeddings."""
    cell = old.neurons
    at, end = (np.searchsorted(cell, touched, side=side) for side in ("left", "right"))
    taken, put = end - at, np.bincount(np.searchsorted(touched, wanted.cell), minlength=len(touched))
    silent = 0
    if old.size == 0 and len(wanted.cell):  # the one that never fires has had its day
        at, taken, put = np.append(0, at), np.append(1, taken), np.append(0, put)
    elif old.size and old.size - taken.sum() + put.sum() == 0:
        put[0], silent = 1, 1
    empty = old.kind.tensors(old.frame(new, usual))
    for name, rows in _rows(old, new, usual, wanted):
        if silent:
            rows = np.moveaxis(array_of(old.stored(empty[name])), old.axes[name], 0)
        found = Splice.of(name, old.axes[name], array_of(old.tensors[name]), at, taken, put, rows)
        if found is not None:
            yield found
    table = array_of(old.tensors[old.table])
    after = table.copy()
    after[touched] = array_of(old.stored(empty[old.table][touched]))
    yield from row_splices(old.table, table, after)
