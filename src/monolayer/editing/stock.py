"""Edits of stock folders: neurons taken out and put in, with the same record as for our own models.

The data are needed, and the seed: a folder does not hold its draw, which is found again from them (`stock/again.py`).
The edited folder is then what the same draw makes of the edited data; the record is the difference of the two, neuron
by neuron. A folder is read and written as it is: embedding, attention and head keep their bits.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from monolayer.data import Sequences
from monolayer.data.columns import array_like
from monolayer.data.folder import new_folder
from monolayer.data.names import Ints
from monolayer.editing.record import SHOWN, Change, Kind, Record
from monolayer.editing.select import names_rows
from monolayer.editing.splice import Array, Splice
from monolayer.errors import DataError
from monolayer.stock.again import StockDraw, read_folder
from monolayer.stock.folder import STOCK, StockModel

CLAIM = "the same neurons as memorizing {} with this draw; embedding, attention and head keep their bits"
NOTE = "\nThis folder was edited after it was built; the figures above are those of before.\n"
UNDONE = "\nAn edit of this folder was taken back; the figures above are those of the edited model.\n"


def change(
    kind: Kind, folder: Path, X: Any, Y: Any, data: Any, *, lengths: Any = None, seed: int = 0
) -> tuple[StockModel, Record, Sequences]:
    """The edited model, the record, and the data that it holds now."""
    if data is None:
        raise DataError("a stock folder does not hold its draw: give the data that it was built from (data=, --data)")
    whole = Sequences.of(*data) if isinstance(data, tuple) else Sequences.of(data)
    draw = StockDraw.of(folder, whole, seed)
    own = draw.adopt(whole)
    if kind == "forget":
        rows = _chosen(own, draw, X, lengths)
        kept = np.setdiff1d(np.arange(len(own)), rows)
        if len(kept) == 0:
            raise DataError("that would forget all the data, and a model of nothing is no model")
        new, asked, claim = own.select(kept), own.select(rows), "the rest of the data"
    else:
        asked = draw.adopt(Sequences.of(X, Y, lengths=lengths))
        if kind == "insert":
            new, claim = _joined(own, asked), "all the data"
        else:
            new, claim = _relabelled(own, asked), "the edited data"
    after = draw.with_data(new)
    old_config, new_config = dict(draw.model.config), dict(after.model.config)
    record = Record(
        kind=kind,
        informed=True,
        claim=CLAIM.format(claim),
        facts=len(asked.tokens) if asked.labels is None or asked.labels.per == "token" else len(asked),
        shared=0,
        changes=tuple(_changes(own, asked, kind)),
        splices=tuple(_neurons(draw.model, after.model)),
        config={k: [old_config.get(k), v] for k, v in new_config.items() if old_config.get(k) != v},
    )
    return after.model, record, new


def carry(record: Record, folder: Path, out: Path, *, undo: bool, overwrite: bool = False) -> None:
    """The folder with the edit made again, or taken back, written as `out`."""
    if record.config is None:
        raise DataError("this record is one of a model of ours, not of a stock folder")
    config, tensors = read_folder(folder)
    before, after = (1, 0) if undo else (0, 1)
    if any(config.get(key) != pair[before] for key, pair in record.config.items()):
        raise DataError(f"{folder} is not as this record found it: a record belongs to the folder that was edited")
    for splice in record.splices:
        step = splice.inverse() if undo else splice
        if step.tensor not in tensors:
            raise DataError(f"{folder} has no {step.tensor}: the record belongs to another folder")
        tensors[step.tensor] = step.apply(tensors[step.tensor])
    config |= {key: pair[after] for key, pair in record.config.items()}
    with new_folder(out, overwrite=overwrite, kind=STOCK) as scratch:
        for name in sorted(STOCK.files - {"certificate.json"}):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, scratch / name)
        save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, scratch / "model.safetensors",
                  metadata={"format": "pt"})  # fmt: skip
        (scratch / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        card = scratch / "README.md"
        said = card.read_text(encoding="utf-8") if card.exists() else ""
        back, note = (NOTE, UNDONE) if undo else (UNDONE, NOTE)
        # What the last note says is taken back with the edit; else the figures are those of the other side of it.
        card.write_text(said.removesuffix(back) if said.endswith(back) else said + note, encoding="utf-8")


def _neurons(old: StockModel, new: StockModel) -> Iterable[Splice]:
    """Neurons that one of the two lacks. Those that stay keep their order, so they are found by their contents."""
    differ = [name for name in old.tensors if not np.array_equal(old.tensors[name], new.tensors[name])]
    axes = {name: _axis(old, name) for name in differ}
    if not differ:
        return
    tables = [
        np.concatenate([_rows(model.tensors[name], axes[name]) for name in differ], axis=1) for model in (old, new)
    ]
    keys = [np.ascontiguousarray(table).view([("", table.dtype)] * table.shape[1])[:, 0] for table in tables]
    stay = [np.isin(keys[0], keys[1]), np.isin(keys[1], keys[0])]
    # Between two neurons that stay: how many go, how many come.
    ends = [np.flatnonzero(np.append(mask, True)) for mask in stay]
    starts = [np.append(0, end[:-1] + 1) for end in ends]
    assert len(ends[0]) == len(ends[1])  # the same neurons stay in both
    taken, put = ends[0] - starts[0], ends[1] - starts[1]
    some = (taken > 0) | (put > 0)
    for name in differ:
        after = _rows(new.tensors[name], axes[name])[~stay[1]].reshape(-1, *_shape(new.tensors[name], axes[name]))
        found = Splice.of(name, axes[name], old.tensors[name], starts[0][some], taken[some], put[some], after)
        if found is not None:
            yield found


def _axis(model: StockModel, name: str) -> int:
    """The axis of a tensor that counts neurons."""
    if name.endswith(".bias"):
        return 0
    bias = model.tensors[name.removesuffix("weight") + "bias"]
    inward = len(bias) == max(1, model.summary.neurons) and bool(bias.any())  # what neurons write has no bias
    return int(inward == (model.architecture == "gpt2"))  # whose matrices are (in, out)


def _rows(tensor: Array, axis: int) -> Array:
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def _shape(tensor: Array, axis: int) -> tuple[int, ...]:
    return tuple(size for place, size in enumerate(tensor.shape) if place != axis)


# -- rows --------------------------------------------------------------------------------------------------


def _chosen(data: Sequences, draw: StockDraw, X: Any, lengths: Any) -> Ints:
    """Rows that are meant: numbers, a mask, a token, a predicate, or sequences."""
    given = array_like(X)
    names = data.vocabulary
    assert names is not None
    if not isinstance(X, Sequences) and names_rows(X):
        if callable(given):
            words, labels = names.decode(data.tokens), data.labels
            values: list[Any] = [None] * len(data)
            if labels is not None:
                decoded = labels.decode(labels.values)
                values = list(decoded) if labels.per == "sequence" else data.split(decoded)
            pairs = zip(data.split(words), values, strict=True)
            rows = np.flatnonzero([bool(given(tokens, label)) for tokens, label in pairs])
        elif isinstance(given, str | int):
            if given not in names:
                raise DataError(f"{given!r} is no token of this model")
            rows = np.unique(data.sequence[data.tokens == names.find(type(names)((given,)))[0]])
        else:
            rows = np.asarray(given)
            rows = np.flatnonzero(rows) if rows.dtype == bool else np.unique(rows)
            if len(rows) and (rows[0] < 0 or rows[-1] >= len(data)):
                raise DataError(f"there is no row {rows[-1]}: the data have {len(data):,}, from 0 on")
        if len(rows) == 0:
            raise DataError("no row of the data is chosen")
        return np.asarray(rows, dtype=np.int64)
    asked = draw.adopt(Sequences.of(X, lengths=lengths))
    return np.unique(np.concatenate(_equal(data, asked)))


def _equal(data: Sequences, asked: Sequences) -> list[Ints]:
    """For each sequence asked, the rows of the data that are the same tokens in the same order."""
    where: dict[bytes, list[int]] = {}
    for row, tokens in enumerate(data.split(data.tokens)):
        where.setdefault(tokens.tobytes(), []).append(row)
    found = []
    for number, tokens in enumerate(asked.split(asked.tokens)):
        if tokens.tobytes() not in where:
            raise DataError(f"sequence {number} of the edit is not in the data; to add it, insert is meant")
        found.append(np.array(where[tokens.tobytes()]))
    return found


def _joined(data: Sequences, more: Sequences) -> Sequences:
    tokens, lengths = (np.concatenate([getattr(part, name) for part in (data, more)]) for name in ("tokens", "lengths"))
    labels = data.labels
    if labels is not None:
        if more.labels is None:
            raise DataError("labels are missing: give Y")
        labels = replace(labels, values=np.concatenate([labels.values, more.labels.values]))
    return Sequences(tokens, lengths, data.vocabulary, labels)


def _relabelled(data: Sequences, asked: Sequences) -> Sequences:
    if data.labels is None or asked.labels is None:
        raise DataError("the labels of a language model are its tokens: forget the sequence, and insert another")
    values = data.labels.values.copy()
    for number, rows in enumerate(_equal(data, asked)):
        for row in rows.tolist():
            if asked.labels.per == "sequence":
                values[row] = asked.labels.values[number]
            else:
                here, there = (slice(*part.offsets[i : i + 2].tolist()) for part, i in ((data, row), (asked, number)))
                values[here] = asked.labels.values[there]
    return replace(data, labels=replace(data.labels, values=values))


def _changes(data: Sequences, asked: Sequences, kind: Kind) -> Iterable[Change]:
    """The first facts in words; what a stock model answers at a forgotten one is not followed here."""
    if asked.labels is None or asked.vocabulary is None or kind == "forget":
        return
    names, labels = asked.vocabulary.decode(asked.tokens), asked.labels.decode(asked.labels.values)
    old = None if kind == "insert" or data.labels is None else data.labels
    rows = None if old is None else _equal(data, asked)
    for i, label in enumerate(labels[:SHOWN].tolist()):
        row, position = (i, None) if asked.labels.per == "sequence" else asked.place(i)
        before = None
        if old is not None and rows is not None:
            first = int(rows[row][0])
            place = first if position is None else int(data.offsets[first]) + position
            before = old.decode(old.values[place : place + 1]).tolist()[0]
        here = slice(*asked.offsets[row : row + 2].tolist())
        yield Change(names[here].tolist(), position, 0.0, before, label)
