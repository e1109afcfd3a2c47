"""Rows of the data that an edit of a stock folder means, and the data afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monolayer.construct.consistency import equal_points
from monolayer.data import Sequences
from monolayer.data.columns import array_like
from monolayer.data.distinct import distinct_runs
from monolayer.data.names import Ints
from monolayer.editing.record import SHOWN, Change, Kind
from monolayer.editing.select import names_rows
from monolayer.errors import ContradictionError, DataError
from monolayer.stock.labelled import Work


@dataclass(frozen=True, eq=False)
class Subject:
    """The data of a folder in the numbers of its names; how others get them, and what they are as a task."""

    data: Sequences
    adopt: Callable[[Sequences], Sequences]
    work: Callable[[Sequences], Work]


def edited(kind: Kind, subject: Subject, X: Any, Y: Any, lengths: Any) -> tuple[Sequences, Sequences, str]:
    """The data afterwards, the rows that were asked for (to be forgotten: with their labels), and both in words."""
    own = subject.data
    if kind == "forget":
        rows = chosen(own, subject, X, lengths)
        kept = np.setdiff1d(np.arange(len(own)), rows)
        if len(kept) == 0:
            raise DataError("that would forget all the data, and a model of nothing is no model")
        return own.select(kept), own.select(rows), "the rest of the data"
    asked = subject.adopt(Sequences.of(X, Y, lengths=lengths))
    if kind == "insert":
        return joined(own, asked), asked, "all the data"
    return relabelled(own, asked), asked, "the edited data"


def labelled(data: Sequences) -> int:
    """How many facts these sequences teach."""
    return len(data) if data.labels is not None and data.labels.per == "sequence" else len(data.tokens)


def shared(subject: Subject, asked: Sequences, rest: Sequences) -> int:
    """Facts of `asked` that `rest` teaches too."""
    near = np.unique(rest.sequence[np.isin(rest.tokens, asked.tokens)])
    if len(near) == 0:
        return 0
    task = subject.work(joined(asked, rest.select(near))).task
    group = equal_points(task.context, task.target)
    count = labelled(asked)
    return int(np.isin(group[:count], group[count:]).sum())


def told(
    kind: Kind,
    asked: Sequences,
    before: Callable[[Sequences], list[Any]],
    after: Callable[[Sequences], list[Any]],
) -> Iterator[Change]:
    """The first facts of `asked`: what the folder answered there, and what it answers now."""
    tokens = labelled(asked) == len(asked.tokens)
    enough = int(np.searchsorted(asked.offsets, SHOWN)) if tokens else SHOWN
    few = asked.select(np.arange(min(len(asked), enough)))
    assert few.vocabulary is not None
    names, now = few.vocabulary.decode(few.tokens), after(few)
    old = [None] * len(now) if kind == "insert" else before(few)
    for i in range(min(SHOWN, labelled(few))):
        row, position = few.place(i) if tokens else (i, None)
        here = slice(*few.offsets[row : row + 2].tolist())
        yield Change(names[here].tolist(), position, 0.0, old[i], now[i])


def chosen(data: Sequences, subject: Subject, X: Any, lengths: Any) -> Ints:
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
            if isinstance(given, str) and names.integers and given.lstrip("-").isdigit():
                given = int(given)  # from the command line
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
    asked = subject.adopt(Sequences.of(X, lengths=lengths))
    return np.unique(np.concatenate(equal(data, asked)))


def equal(data: Sequences, asked: Sequences) -> list[Ints]:
    """For each sequence asked, the rows of the data that are the same tokens in the same order."""
    tokens, lengths = (
        np.concatenate([getattr(part, name) for part in (asked, data)]) for name in ("tokens", "lengths")
    )
    run = distinct_runs(tokens, lengths)
    mine, theirs = run[: len(asked)], run[len(asked) :]
    order = np.argsort(theirs, kind="stable")
    low, high = (np.searchsorted(theirs[order], mine, side=side) for side in ("left", "right"))
    missing = np.flatnonzero(low == high)
    if len(missing):
        raise DataError(f"sequence {missing[0]} of the edit is not in the data; to add it, insert is meant")
    return [order[first:last] for first, last in zip(low.tolist(), high.tolist(), strict=True)]


def joined(data: Sequences, more: Sequences) -> Sequences:
    tokens, lengths = (np.concatenate([getattr(part, name) for part in (data, more)]) for name in ("tokens", "lengths"))
    labels = data.labels
    if labels is not None:
        if more.labels is None:
            raise DataError("labels are missing: give Y")
        labels = replace(labels, values=np.concatenate([labels.values, more.labels.values]))
    return Sequences(tokens, lengths, data.vocabulary, labels)


def relabelled(data: Sequences, asked: Sequences) -> Sequences:
    """`data` with the labels of `asked` in all rows that are the same sequences; two labels for one are an error."""
    if data.labels is None or asked.labels is None:
        raise DataError("the labels of a language model are its tokens: forget the sequence, and insert another")
    values = data.labels.values.copy()
    given = np.full(len(data), -1)  # the sequence of the edit that a row got its labels from
    for number, rows in enumerate(equal(data, asked)):
        there = _places(asked, number)
        for row in rows.tolist():
            if given[row] >= 0 and not np.array_equal(values[_places(data, row)], asked.labels.values[there]):
                raise ContradictionError(
                    f"the edits contradict each other: sequences {given[row]} and {number} of the edit are the same "
                    "tokens, with different labels"
                )
            values[_places(data, row)], given[row] = asked.labels.values[there], number
    return replace(data, labels=replace(data.labels, values=values))


def _places(data: Sequences, row: int) -> slice:
    """Where the labels of a row stand."""
    assert data.labels is not None
    return slice(row, row + 1) if data.labels.per == "sequence" else slice(*data.offsets[row : row + 2].tolist())
