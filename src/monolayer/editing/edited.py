"""The data after an edit: without some rows, with other labels, or with more rows. No model is looked at.

A *fact* is a token in its context (or a sequence, where labels are those of sequences) with its label; of prompts and
answers, a prompt with its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.consistency import equal_points
from monolayer.construct.target import Target
from monolayer.data import Labels, Names, Sequences
from monolayer.data.distinct import distinct_runs
from monolayer.editing.subject import Subject
from monolayer.errors import ContradictionError, DataError


@dataclass(frozen=True, eq=False)
class Edited:
    """`data` afterwards, all the rows that were `asked` for with their labels, and what becomes of these facts.

    `before`, `after` `(Q,)` or `(Q, m)`: label values of the facts, or answers as text; None where they have none.
    `touched`: tokens whose facts may change. `shared`: of the facts to be forgotten, how many other rows teach too.
    """

    data: Sequences
    asked: Sequences
    before: NDArray[Any] | None
    after: NDArray[Any] | None
    touched: Ints | None
    facts: int
    shared: int = 0


def without(subject: Subject, data: Sequences, rows: Ints) -> Edited:
    """The data without these rows; a fact that other rows teach too stays, and is counted."""
    if len(rows) == len(data):
        raise DataError("this would forget all rows of the data; at least one must stay")
    asked, rest = data.select(rows), data.select(np.setdiff1d(np.arange(len(data)), rows))
    if rest.labels is not None and len(rest.labels.values) == 0:
        raise DataError("this would forget all rows that have a label; at least one must stay")
    if asked.labels is None and not (asked.lengths > 1).any():
        raise DataError("these rows carry no label: a next-token model learns nothing from a single token")
    target = subject.task(asked).target
    mine, theirs, _ = _matched(subject, asked, rest)
    there = np.isin(mine, theirs)
    if asked.prompts is not None:
        shared = len(asked) - len(np.unique(rows_of(asked, target)[~there]))
        return Edited(rest, asked, _answers(asked), None, _tokens(asked), len(asked), shared)
    return Edited(rest, asked, values_of(target), None, _tokens(asked), len(target.number), int(there.sum()))


def relabelled(subject: Subject, data: Sequences, asked: Sequences) -> Edited:
    """The data with the labels of `asked`; every row that teaches such a fact changes with it."""
    if asked.prompts is not None and data.prompts is not None:
        return _answered(subject, data, asked)
    if data.labels is None or asked.labels is None:
        raise DataError("the labels of a next-token model are its tokens: forget the sequence, and insert another")
    mine, theirs, label = _matched(subject, asked, data)
    missing = np.flatnonzero(~np.isin(mine, theirs))
    if len(missing):
        where = asked.labelled(int(asked.labelled_places[missing[0]]))
        raise DataError(
            f"{where} of what is to be edited is not in the data ({len(missing):,} such "
            "facts in all): use insert to add it"
        )
    group, first = np.unique(mine, return_index=True)
    there = np.isin(theirs, group)
    changed, values = label[there], data.labels.values.copy()
    values[changed] = asked.labels.values[first[np.searchsorted(group, theirs[there])]]
    order = np.argsort(theirs, kind="stable")
    before = data.labels.values[label[order[np.searchsorted(theirs[order], mine)]]]
    labels = replace(data.labels, values=values, classes=asked.labels.classes)
    differ = (values[changed] != data.labels.values[changed]).reshape(len(changed), -1).any(axis=1)
    token = places_of(data, subject.task(data).target)
    touched = None
    if data.vocabulary is not None and token is not None:
        touched = np.unique(data.tokens[token[changed[differ]]])
    return Edited(replace(data, labels=labels), asked, before, asked.labels.values, touched, len(mine))


def _answered(subject: Subject, data: Sequences, asked: Sequences) -> Edited:
    """The data with the answers of `asked`, which every row with such a prompt gets."""
    _matched(subject, asked, data)  # answers that contradict each other
    prompts = [asked.only_prompts(), data.only_prompts()]
    runs = distinct_runs(*(np.concatenate([getattr(part, name) for part in prompts]) for name in ("tokens", "lengths")))
    place = {run: row for row, run in enumerate(runs[: len(asked)].tolist())}
    theirs = [place.get(run) for run in runs[len(asked) :].tolist()]
    first = {row: number for number, row in reversed(list(enumerate(theirs))) if row is not None}
    missing = [row for row in sorted(place.values()) if row not in first]
    if missing:
        raise DataError(
            f"the prompt of sequence {missing[0]} of what is to be edited, {asked.texts(missing[0])[0]!r}, is not in "
            f"the data ({len(missing):,} such in all): use insert to add it"
        )
    old, new = data.split(data.tokens), asked.split(asked.tokens)
    rows = [old[number] if row is None else new[row] for number, row in enumerate(theirs)]
    lengths = np.array([len(row) for row in rows])
    edited = Sequences(np.concatenate(rows), lengths, asked.vocabulary, None, data.prompts)
    gone = [old[number] for number, row in enumerate(theirs) if row is not None]
    before = [data.texts(first[place[run]])[1] for run in runs[: len(asked)].tolist()]
    touched = np.unique(np.concatenate([asked.tokens, *gone]))
    return Edited(edited, asked, np.array(before, dtype=object), _answers(asked), touched, len(asked))


def _answers(data: Sequences) -> NDArray[Any]:
    """The answers as text."""
    return np.array([data.texts(row)[1] for row in range(len(data))], dtype=object)


def joined(subject: Subject, data: Sequences, asked: Sequences) -> Edited:
    """The data with more rows; facts of theirs that the data have already must have the labels they have."""
    target, own = subject.task(asked).target, subject.task(data).target
    mine, theirs, label = _matched(subject, asked, data)
    order = np.argsort(theirs, kind="stable")
    spot = np.searchsorted(theirs[order], mine)
    there = np.append(theirs[order], -1)[spot] == mine
    known = np.append(label[order], 0)[spot]
    differ = (values_of(own)[known] != values_of(target)).reshape(len(known), -1).any(axis=1)
    odd = np.flatnonzero(there & differ)
    if len(odd):
        raise ContradictionError(
            f"{_where(asked, target, int(odd[0]))} of what is to be inserted is in the data already, as "
            f"{_where(data, own, int(known[odd[0]]))}, with another label ({len(odd):,} such facts in all): use edit "
            "to change it"
        )
    labels = data.labels
    if labels is not None and asked.labels is not None:
        both = np.concatenate([labels.values, asked.labels.values])
        place = None
        if labels.place is not None or asked.labels.place is not None:
            place = np.append(data.labelled_places, data.labellable + asked.labelled_places)
        labels = Labels(both, labels.per, asked.labels.classes, labels.scalar, place)
    tokens, lengths = (
        np.concatenate([getattr(part, name) for part in (data, asked)]) for name in ("tokens", "lengths")
    )
    new = Sequences(tokens, lengths, asked.vocabulary, labels, _prompts([data, asked]))
    if asked.prompts is not None:
        return Edited(new, asked, None, _answers(asked), _tokens(asked), len(asked))
    return Edited(new, asked, None, values_of(target), _tokens(asked), len(target.number))


def _prompts(parts: list[Sequences]) -> Ints | None:
    found = [part.prompts for part in parts if part.prompts is not None]
    return np.concatenate(found) if found else None


def places_of(data: Sequences, target: Target) -> Ints | None:
    """The tokens `(Q,)` at which facts are answered; None: at the begin token."""
    if target.per == "sequence":
        return None
    return np.arange(len(data.tokens)) if target.place is None else target.place


def rows_of(data: Sequences, target: Target) -> Ints:
    """The rows `(Q,)` of facts."""
    places = places_of(data, target)
    if places is not None:
        return data.sequence[places]
    return np.arange(len(data)) if target.place is None else target.place


def values_of(target: Target) -> NDArray[Any]:
    """Label values of facts: class numbers `(Q,)`, or reals `(Q, m)`."""
    return target.number if target.classes is not None else target.table[target.number]


def _matched(subject: Subject, asked: Sequences, data: Sequences) -> tuple[Ints, Ints, Ints]:
    """Numbers of facts, equal for equal token and context: `(Q,)` of `asked`, `(K,)` of the data; and which facts of
    the data the latter are. Only rows of the data with a token of `asked` are looked at.

    Labels of `asked` that contradict each other are an error.
    """
    rows = np.arange(len(data))
    if data.vocabulary is not None:
        near = np.zeros(len(data), dtype=bool)
        near[data.sequence[np.isin(data.tokens, np.unique(asked.tokens))]] = True
        rows = np.flatnonzero(near)
    parts = [asked, data.select(rows)] if len(rows) else [asked]
    tokens, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "lengths"))
    none = None
    if data.labels is not None:
        starts = np.cumsum([0] + [part.labellable for part in parts[:-1]])
        place = np.concatenate([start + part.labelled_places for start, part in zip(starts, parts, strict=True)])
        none = Labels(np.zeros(len(place), np.int64), data.labels.per, Names(range(1)), place=place)
    task = subject.task(Sequences(subject.seen(tokens), lengths, asked.vocabulary, none, _prompts(parts)))
    group = equal_points(task.context, task.target)
    count = int(np.searchsorted(rows_of(task.data, task.target), len(asked)))
    if asked.labels is not None or data.labels is None:
        _check_consistent(asked, subject.task(asked).target, group[:count])
    chosen = np.zeros(len(data), dtype=bool)
    chosen[rows] = True
    return group[:count], group[count:], np.flatnonzero(chosen[rows_of(data, subject.task(data).target)])


def _check_consistent(asked: Sequences, target: Target, group: Ints) -> None:
    number = target.number
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    odd = np.flatnonzero(number != number[first[inverse]])
    if len(odd):
        one, two = int(first[inverse[odd[0]]]), int(odd[0])
        places = [_where(asked, target, i) for i in (one, two)]
        names = [target.name(int(number[i])) for i in (one, two)]
        raise ContradictionError(
            f"the edits contradict each other: {places[0]} shall be {names[0]}, and {places[1]}, which is the same "
            f"fact, {names[1]}"
        )


def _where(data: Sequences, target: Target, fact: int) -> str:
    """A fact in words."""
    if data.labels is not None:
        return data.labelled(int(data.labelled_places[fact]))
    return data.where(fact if target.place is None else int(target.place[fact]))


def _tokens(asked: Sequences) -> Ints | None:
    return None if asked.vocabulary is None else np.unique(asked.tokens)
