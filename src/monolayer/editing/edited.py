"""The data after an edit: without some rows, with other labels, or with more rows. No model is asked.

A *fact* is a token in its context (or a sequence, where labels are those of sequences) with its label; of prompts and
answers, a prompt with its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Array, Ints
from monolayer.construct.consistency import equal_points
from monolayer.construct.target import Target
from monolayer.data import Labels, Names, Sequences
from monolayer.data.distinct import distinct_rows, distinct_runs
from monolayer.data.origin import Origin
from monolayer.data.plain import array_like, plain_array
from monolayer.data.readers import prompts_of
from monolayer.data.shards import names_files
from monolayer.editing.subject import Answered, Subject
from monolayer.errors import ContradictionError, DataError
from monolayer.table import plural


@dataclass(frozen=True, eq=False)
class Edited:
    """The `data` after an edit, the rows that it was `asked` for with their labels, and what becomes of these facts.

    `before`, `after`: the labels of the facts as users write them, or answers as text; None where they have none.
    `touched`: tokens whose facts may change. `shared`: of the facts to be forgotten, how many other rows teach too.
    """

    data: Sequences
    asked: Sequences
    before: list[Answered] | None
    after: list[Answered] | None
    touched: Ints | None
    shared: int = 0

    @property
    def facts(self) -> int:
        """How many facts were asked for."""
        return len(self.before or self.after or [])


# -- which rows are meant --------------------------------------------------------------------------------------


def chosen_rows(subject: Subject, data: Sequences, X: object, lengths: object = None) -> Ints:
    """Rows `(K,)` of the data in rising order, at least one.

    `X`: row numbers, or the sequences themselves, with their `lengths` if they are padded; or one string, a sequence.
    Where the data are prompts, a string may also be the path of a file.
    """
    if isinstance(X, str) and not (data.prompts is not None and names_files(X)):
        X = [X]
    given, X = X, array_like(X)
    if isinstance(X, list | tuple | range) and len(X) and all(isinstance(array_like(x), int) for x in X):
        X = np.asarray(X)
    if plain_array(X) and X.ndim == 1 and X.dtype.kind in "iub":
        return _rows_by_number(len(data), X)
    card, names = subject.model.card, data.vocabulary
    if data.prompts is not None:  # answers that are given too are ignored
        prompts = prompts_of(given, lengths=lengths, like=card.manner)
        X, lengths = prompts, None
        if names is not None and prompts.vocabulary is not None:  # a prompt with other words is not in the data
            names = names.extended(list(prompts.vocabulary.names))
    if names is not None and card.vocabulary is not None:
        names = names.cut_into(card.vocabulary.unit)
    asked = Sequences.of(X, lengths=lengths, vocabulary=names, like=card.manner)
    return _equal_rows(subject, data.only_prompts(), asked).places


def _rows_by_number(size: int, rows: Array) -> Ints:
    """Sort row numbers and drop repeats; refuse numbers that are not rows of data of this size."""
    if rows.dtype == bool or len(rows) == 0:
        raise DataError("rows are chosen by their numbers, at least one: np.flatnonzero(mask) gives those of a mask")
    bad = rows[(rows < 0) | (size <= rows)]
    if len(bad):
        raise DataError(f"there is no row {bad[0]}: the data have {size:,}, from 0 on")
    return np.unique(rows)


class Matches(NamedTuple):
    """Where the data hold what was asked for: sequences, or facts.

    `first` `(A,)`: for each that was asked for, its first place in the data, −1 for none. `places` `(K,)`: all places
    of the data that hold one of them, and `asked` `(K,)`: which one; of equal ones the first.
    """

    first: Ints
    places: Ints
    asked: Ints


def _equal_rows(subject: Subject, data: Sequences, asked: Sequences, way_out: str = "") -> Matches:
    """The rows of the data that equal a sequence of `asked`; one without such a row is an error that ends `way_out`.

    For models that do not see the order of tokens, sequences with the same tokens in another order are equal.
    """
    if (asked.vocabulary is None) != (data.vocabulary is None) or asked.tokens.shape[1:] != data.tokens.shape[1:]:
        raise DataError("these sequences are not of the same kind of tokens as the data")
    tokens = np.concatenate([asked.tokens, data.tokens])
    tokens = tokens if tokens.ndim == 1 else distinct_rows(tokens)[1]
    lengths = np.concatenate([asked.lengths, data.lengths])
    if not subject.ordered:
        tokens = tokens[np.lexsort((tokens, np.repeat(np.arange(len(lengths)), lengths)))]
    runs = distinct_runs(tokens, lengths)  # equal iff the sequences are; without order, as multisets
    matches = _matching_numbers(runs[: len(asked)], runs[len(asked) :])
    missing = np.flatnonzero(matches.first < 0)
    if len(missing):
        what = f" ({asked.texts(int(missing[0]))[0]!r})" if asked.prompts is not None else ""
        raise DataError(
            f"{asked.named(int(missing[0]))}{what} of what is asked for is not in the data ({len(missing):,} such in "
            f"all){way_out}"
        )
    return matches


def _matching_numbers(asked: Ints, data: Ints) -> Matches:
    """Match whole numbers: of `[2, 0]` in `[0, 1, 0]`, first `[-1, 0]`, places `[0, 2]`, asked `[1, 1]`."""
    size = int(max(asked.max(initial=0), data.max(initial=0))) + 1
    first_in_asked, first_in_data = _first_places(asked, size), _first_places(data, size)
    places = np.flatnonzero(first_in_asked[data] >= 0)
    return Matches(first_in_data[asked], places, first_in_asked[data[places]])


def _first_places(numbers: Ints, size: int) -> Ints:
    """Where each whole number below `size` stands first among `numbers`; −1 for those that do not occur."""
    first = np.full(size, -1)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last assignment to an entry counts
    return first


# -- the data afterwards ---------------------------------------------------------------------------------------


def without(subject: Subject, data: Sequences, rows: Ints) -> Edited:
    """The data without these rows; a fact that other rows teach too stays, and is counted."""
    if len(rows) == len(data):
        raise DataError("this would forget all rows of the data; at least one must stay")
    asked, rest = data.select(rows), data.select(np.delete(np.arange(len(data)), rows))
    if rest.labels is not None and len(rest.labels.values) == 0:
        raise DataError("this would forget all rows that have a label; at least one must stay")
    if asked.labels is None and not (asked.lengths > 1).any():
        raise DataError("these rows carry no label: a next-token model learns nothing from a single token")
    target = subject.task(asked).target
    there = _equal_facts(subject, asked, rest).first >= 0
    shared = int(there.sum())
    if asked.prompts is not None:
        shared = len(asked) - len(np.unique(fact_rows(asked, target)[~there]))
    return Edited(rest, asked, labels_of(asked, target), None, _tokens(asked), shared)


def relabelled(subject: Subject, data: Sequences, asked: Sequences) -> Edited:
    """The data with the labels of `asked`; every row that teaches such a fact changes with it."""
    if asked.prompts is not None and data.prompts is not None:
        return _with_answers(subject, data, asked)
    if data.labels is None or asked.labels is None:
        raise DataError("the labels of a next-token model are its tokens: forget the sequence, and insert another")
    known, changed, fact = _equal_facts(subject, asked, data)
    missing = np.flatnonzero(known < 0)
    if len(missing):
        where = asked.labelled(int(asked.labelled_places[missing[0]]))
        raise DataError(
            f"{where} of what is to be edited is not in the data ({len(missing):,} such "
            "facts in all): use insert to add it"
        )
    old, values = data.labels.values, data.labels.values.copy()
    values[changed] = asked.labels.values[fact]
    labels = replace(data.labels, values=values, classes=asked.labels.classes)
    differ = (values[changed] != old[changed]).reshape(len(changed), -1).any(axis=1)
    token = fact_tokens(data, subject.task(data).target)
    touched = None
    if data.vocabulary is not None and token is not None:
        touched = np.unique(data.tokens[token[changed[differ]]])
    before, after = (labels.decode(part).tolist() for part in (old[known], asked.labels.values))
    return Edited(replace(data, labels=labels), asked, before, after, touched)


def _with_answers(subject: Subject, data: Sequences, asked: Sequences) -> Edited:
    """The data with the answers of `asked`, which every row with such a prompt gets."""
    _equal_facts(subject, asked, data)  # an error if answers contradict each other
    matches = _equal_rows(subject, data.only_prompts(), asked.only_prompts(), ": use insert to add it")
    new = asked.select(matches.asked)
    others = np.delete(np.arange(len(data)), matches.places)
    before = [data.texts(row)[1] for row in matches.first.tolist()]
    touched = np.unique(np.concatenate([asked.tokens, data.select(matches.places).tokens]))
    edited = new
    if len(others):
        joined = _rows_joined([data.select(others), new], asked.vocabulary, None)
        edited = joined.select(np.argsort(np.append(others, matches.places)))  # every row stays where it was
    return Edited(edited, asked, before, labels_of(asked, subject.task(asked).target), touched)


def with_rows(subject: Subject, data: Sequences, asked: Sequences) -> Edited:
    """The data with the rows of `asked` added; a fact that the data hold already must have the same label there."""
    target, held = subject.task(asked).target, subject.task(data).target
    known = _equal_facts(subject, asked, data).first
    differ = (_label_values(held)[known] != _label_values(target)).reshape(len(known), -1).any(axis=1)
    odd = np.flatnonzero((known >= 0) & differ)
    if len(odd):
        raise ContradictionError(
            f"{_where(asked, target, int(odd[0]))} of what is to be inserted is in the data already, as "
            f"{_where(data, held, int(known[odd[0]]))}, with another label ({plural(len(odd), 'such fact')} in all): "
            "use edit to change it"
        )
    labels = data.labels
    if labels is not None and asked.labels is not None:
        both = np.concatenate([labels.values, asked.labels.values])
        place = None
        if labels.place is not None or asked.labels.place is not None:
            place = np.append(data.labelled_places, data.labellable + asked.labelled_places)
        labels = Labels(both, labels.per, asked.labels.classes, labels.scalar, place)
    new = _rows_joined([data, asked], asked.vocabulary, labels)
    return Edited(new, asked, None, labels_of(asked, target), _tokens(asked))


# -- facts -------------------------------------------------------------------------------------------------


def fact_tokens(data: Sequences, target: Target) -> Ints | None:
    """The tokens `(Q,)` at which facts are answered; None: at the begin token."""
    if not target.labelling.at_tokens:
        return None
    return np.arange(len(data.tokens)) if target.place is None else target.place


def fact_rows(data: Sequences, target: Target) -> Ints:
    """The rows `(Q,)` of the data in which facts stand."""
    places = fact_tokens(data, target)
    if places is not None:
        return data.sequence[places]
    return np.arange(len(data)) if target.place is None else target.place


def labels_of(data: Sequences, target: Target) -> list[Answered]:
    """The labels of facts as users write them; of prompts the answers as text."""
    if data.prompts is not None:
        return [data.texts(row)[1] for row in range(len(data))]
    values = _label_values(target)
    labels: list[Answered] = Labels(values, target.per, target.classes, target.scalar).decode(values).tolist()
    return labels


def _label_values(target: Target) -> Array:
    """Label values of facts: class numbers `(Q,)`, or reals `(Q, m)`."""
    return target.number if target.classes is not None else target.table[target.number]


def _equal_facts(subject: Subject, asked: Sequences, data: Sequences) -> Matches:
    """The facts of the data that have the same token and context as a fact of `asked`.

    Only rows of the data with a token of `asked` are looked at. Labels of `asked` that contradict each other are an
    error.
    """
    rows = np.arange(len(data))
    if data.vocabulary is not None:
        near = np.zeros(len(data), dtype=bool)
        near[data.sequence[np.isin(data.tokens, np.unique(asked.tokens))]] = True
        rows = np.flatnonzero(near)
    parts = [asked, data.select(rows)] if len(rows) else [asked]
    labels = None
    if data.labels is not None:  # only their places count here, so all of them get the same label
        starts = np.cumsum([0] + [part.labellable for part in parts[:-1]])
        place = np.concatenate([start + part.labelled_places for start, part in zip(starts, parts, strict=True)])
        labels = Labels(np.zeros(len(place), np.int64), data.labels.per, Names(range(1)), place=place)
    both = _rows_joined(parts, asked.vocabulary, labels)
    task = subject.task(both)
    count = int(np.searchsorted(fact_rows(task.data, task.target), len(asked)))
    group = equal_points(task.context, task.target, count)
    mine, theirs = group[:count], group[count:]
    if asked.labels is not None or data.labels is None:
        _check_consistent(asked, subject.task(asked).target, mine)
    fact = np.append(np.flatnonzero(np.isin(fact_rows(data, subject.task(data).target), rows)), -1)
    matches = _matching_numbers(mine, theirs)
    return Matches(fact[matches.first], fact[matches.places], matches.asked)


def _rows_joined(parts: list[Sequences], names: Names | None, labels: Labels | None) -> Sequences:
    """The rows of all parts, one part after the other, with these names and labels."""
    tokens, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "lengths"))
    prompts = [part.prompts for part in parts if part.prompts is not None]
    origin = Origin.joined((part.origin, len(part)) for part in parts)
    return Sequences(tokens, lengths, names, labels, np.concatenate(prompts) if prompts else None, origin)


def _check_consistent(asked: Sequences, target: Target, group: Ints) -> None:
    """Refuse facts of `asked` that are equal (`group` `(Q,)` has the same number) and have different labels."""
    number = target.number
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    odd = np.flatnonzero(number != number[first[inverse]])
    if len(odd):
        one, two = int(first[inverse[odd[0]]]), int(odd[0])
        places = [_where(asked, target, i) for i in (one, two)]
        names = [target.name(int(number[i])) for i in (one, two)]
        raise ContradictionError(
            f"the edits contradict each other: {places[0]} should be {names[0]}, and {places[1]}, which is the same "
            f"fact, {names[1]}"
        )


def _where(data: Sequences, target: Target, fact: int) -> str:
    """Where a fact stands in the data, in words."""
    if data.labels is not None:
        return data.labelled(int(data.labelled_places[fact]))
    return data.where(fact if target.place is None else int(target.place[fact]))


def _tokens(asked: Sequences) -> Ints | None:
    """The different tokens of `asked`; None if they are vectors."""
    return None if asked.vocabulary is None else np.unique(asked.tokens)
