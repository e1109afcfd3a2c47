"""Edits with the data at hand of readouts that are built anew: which facts are meant, what the data are afterwards.

What then becomes of the neurons is `cells.py` for robust models and `whole.py` for the others. Notation: `Q` labelled
places of what is asked, `K` of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from monolayer.construct.consistency import equal_points
from monolayer.construct.line.reuse import Reused
from monolayer.construct.robust.again import RobustDraw
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Labels, Sequences
from monolayer.data.names import Ints
from monolayer.editing.cells import RobustFacts
from monolayer.editing.record import Record
from monolayer.editing.whole import WholeFacts
from monolayer.errors import ContradictionError, DataError

Known = TypeVar("Known", RobustFacts, WholeFacts)


def forget(facts: Known, rows: Ints) -> tuple[Known, Record]:
    """Without these rows of the data; a fact that other rows teach too stays, and is counted."""
    data = facts.data
    if len(rows) == len(data):
        raise DataError("that would forget all the data, and a model of nothing is no model")
    asked, rest = data.select(rows), data.select(np.setdiff1d(np.arange(len(data)), rows))
    if asked.labels is None and not (asked.lengths > 1).any():
        raise DataError("these rows carry no label: a next-token model learns nothing from a single token")
    target = Target.of(asked, facts.rules["causal"])
    match = _Match.of(facts, facts.draw, asked, rest)
    shared = int(np.isin(match.mine, match.theirs).sum())
    edit = facts.edited(facts.draw, rest, asked, _values(target), _tokens(asked))
    return edit.carry_out("forget", "the rest of the data", len(target.number), shared)


def edit(facts: Known, X: Any, Y: Any, *, lengths: Any = None) -> tuple[Known, Record]:
    """With other labels for facts that the data hold; every row that teaches such a fact changes with it."""
    draw, asked = facts.draw.adopt(Sequences.of(X, Y, lengths=lengths))
    data = facts.data
    if data.labels is None or asked.labels is None:
        raise DataError("the labels of a next-token model are its tokens: forget the sequence, and insert another")
    match = _Match.of(facts, draw, asked, data)
    missing = np.flatnonzero(~np.isin(match.mine, match.theirs))
    if len(missing):
        raise DataError(
            f"{asked.labelled(int(missing[0]))} of what is to be edited is not in the data ({len(missing):,} such "
            "facts in all): to add it, insert is meant"
        )
    group, first = np.unique(match.mine, return_index=True)
    there = np.isin(match.theirs, group)
    values = data.labels.values.copy()
    place = match.place[there]
    values[place] = asked.labels.values[first[np.searchsorted(group, match.theirs[there])]]
    order = np.argsort(match.theirs, kind="stable")
    old = data.labels.values[match.place[order[np.searchsorted(match.theirs[order], match.mine)]]]
    labels = replace(data.labels, values=values, classes=draw.card.classes)
    new = replace(data, vocabulary=draw.card.vocabulary, labels=labels)
    differ = values[place] != data.labels.values[place]
    changed = place[differ.reshape(len(place), -1).any(axis=1)]
    touched = None if asked.labels.per == "sequence" or data.vocabulary is None else np.unique(data.tokens[changed])
    change = facts.edited(draw, new, asked, old, touched if len(changed) else np.zeros(0, np.int64))
    return change.carry_out("edit", "the edited data", len(match.mine), 0)


def insert(facts: Known, X: Any, Y: Any = None, *, lengths: Any = None) -> tuple[Known, Record]:
    """With more rows; facts of theirs that the data hold already must have the labels they have."""
    draw, asked = facts.draw.adopt(Sequences.of(X, Y, lengths=lengths))
    data, target = facts.data, Target.of(asked, draw.card.causal)
    match = _Match.of(facts, draw, asked, data)
    own = _values(Target.of(data, draw.card.causal))
    order = np.argsort(match.theirs, kind="stable")
    spot = np.searchsorted(match.theirs[order], match.mine)
    there = np.append(match.theirs[order], -1)[spot] == match.mine
    known = np.append(match.place[order], 0)[spot]
    differ = (own[known] != _values(target)).reshape(len(known), -1).any(axis=1)
    odd = np.flatnonzero(there & differ)
    if len(odd):
        here = int(odd[0] if target.place is None else target.place[odd[0]])
        raise ContradictionError(
            f"{asked.labelled(here)} of what is to be inserted is in the data already, as "
            f"{_where(data, draw.card.causal, int(known[odd[0]]))}, with another label ({len(odd):,} such facts in "
            "all): to change it, edit is meant"
        )
    labels = data.labels
    if labels is not None and asked.labels is not None:
        both = np.concatenate([labels.values, asked.labels.values])
        labels = Labels(both, labels.per, draw.card.classes, labels.scalar)
    tokens, sizes = (np.concatenate([getattr(part, name) for part in (data, asked)]) for name in ("tokens", "lengths"))
    new = Sequences(tokens, sizes, draw.card.vocabulary, labels)
    change = facts.edited(draw, new, asked, None, _tokens(asked))
    return change.carry_out("insert", "all the data", len(target.number), 0)


# -- which facts are meant ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Match:
    """Numbers of facts: `mine` `(Q,)` of what is asked, `theirs` `(K,)` of the data's labels `place` `(K,)`."""

    mine: Ints
    theirs: Ints
    place: Ints

    @classmethod
    def of(
        cls, facts: RobustFacts | WholeFacts, draw: RobustDraw | Reused, asked: Sequences, data: Sequences
    ) -> _Match:
        """Equal numbers for equal token and context; only rows with a token of `asked` are looked at.

        Edits that contradict each other are an error.
        """
        rows = np.arange(len(data))
        if facts.by_cell:
            rows = np.unique(data.sequence[np.isin(data.tokens, asked.tokens)])
        near = data.select(rows) if len(rows) else None
        parts = [asked] if near is None else [asked, near]
        tokens, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "lengths"))
        both = Sequences(facts.seen(tokens), lengths, draw.card.vocabulary)
        task = Task.of(unlabelled(both, draw), **facts.rules, on_conflict="error")
        group = equal_points(task.context, task.target)
        target = Target.of(asked, draw.card.causal) if asked.labels is not None else task.target
        size = len(asked) if draw.card.per == "sequence" else len(asked.tokens)
        count = size if task.target.place is None else int(np.searchsorted(task.target.place, size))
        mine = group[:count]
        if asked.labels is not None or draw.card.next_token:
            check_consistent(asked, target, mine, count)
        if near is None:
            return cls(mine, np.zeros(0, np.int64), np.zeros(0, np.int64))
        place = rows if draw.card.per == "sequence" else data.flat(rows)
        if task.target.place is not None:  # labels of next tokens: counted without the last token of each row
            labelled = np.cumsum(data.position < np.repeat(data.lengths, data.lengths) - 1) - 1
            last = data.position[place] == data.lengths[data.sequence[place]] - 1
            place = labelled[place[~last]]
        return cls(mine, group[count:], place)


def unlabelled(data: Sequences, draw: RobustDraw | Reused) -> Sequences:
    """`data` with labels that say nothing, so that its labelled places are known."""
    card = draw.card
    if card.next_token:
        return data
    size = len(data) if card.per == "sequence" else len(data.tokens)
    none = np.zeros(size, np.int64) if card.classes is not None else np.zeros((size, 1))
    return replace(data, labels=Labels(none, card.per, card.classes))


def check_consistent(asked: Sequences, target: Target, group: Ints, count: int) -> None:
    number = target.number[:count]
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    odd = np.flatnonzero(number != number[first[inverse]])
    if len(odd):
        one, two = int(first[inverse[odd[0]]]), int(odd[0])
        places = [asked.labelled(i if target.place is None else int(target.place[i])) for i in (one, two)]
        names = [target.name(int(number[i])) for i in (one, two)]
        raise ContradictionError(
            f"the edits contradict each other: {places[0]} shall be {names[0]}, and {places[1]}, which is the same "
            f"fact, {names[1]}"
        )


def _values(target: Target) -> NDArray[Any]:
    """Label values of labelled places: class numbers `(K,)`, or reals `(K, m)`."""
    return target.number if target.classes is not None else target.table[target.number]


def _where(data: Sequences, causal: bool, label: int) -> str:
    place = Target.of(data, causal).place
    return data.labelled(label if place is None else int(place[label]))


def _tokens(asked: Sequences) -> Ints | None:
    return None if asked.vocabulary is None else np.unique(asked.tokens)
