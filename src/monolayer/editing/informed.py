"""Edits with the data at hand: the model that memorizing the edited data with the same draw would give, bit for bit.

A labelled place is a pair (z, label); the readout is a function of the set of these pairs (docs/editing.md). An edit
changes the labels of some `z`, or takes some away, or adds some; with each goes the part of the readout between the
nearest points that stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from monolayer.construct.consistency import equal_points
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.points import SLACK
from monolayer.construct.line.reuse import Reused
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.carry import carried_out
from monolayer.editing.facts import Facts, join
from monolayer.editing.names import name_splices, words_of
from monolayer.editing.readout import Floats, Local, Table
from monolayer.editing.record import SHOWN, Change, Kind, Record
from monolayer.editing.select import chosen_rows
from monolayer.editing.splice import Splice, with_more, without
from monolayer.editing.words import label_name, words
from monolayer.errors import ContradictionError, DataError, PrecisionError
from monolayer.model.parts import staircase_of

SAME_BITS = "the same bits as memorizing {} with this draw; no label of another fact changes"


def forget(facts: Facts, X: Any, *, lengths: Any = None) -> tuple[Facts, Record]:
    """Without these rows of the data; a fact that other rows teach too stays, and is counted."""
    rows = chosen_rows(facts, X, lengths)
    if len(rows) == int((~facts.gone).sum()):
        raise DataError("that would forget all the data, and a model of nothing is no model")
    data = facts.rows(rows)
    place = facts.places(rows)
    if len(place) == 0:
        raise DataError("these rows carry no label: a next-token model learns nothing from a single token")
    target = facts.target(data)
    z, _ = facts.draw.place(data, target)
    point = _points_at(facts, z, place)
    gone = facts.gone.copy()
    gone[rows] = True
    count = None if facts.count is None else facts.count - np.bincount(data.tokens, minlength=len(facts.count))
    z_left, number_left, place_left = (without(part, point) for part in (facts.z, facts.number, facts.place))
    rest = replace(facts, gone=gone, z=z_left, number=number_left, place=place_left, count=count)
    touched = np.unique(z)
    alone = ~_present(rest.z, touched)
    asked = Asked(data, target.place, z, facts.number[point])
    change = _Change(facts, rest, touched[alone], np.full(int(alone.sum()), -1), asked)
    shared = int((~alone[np.searchsorted(touched, z)]).sum())
    return change.carry_out("forget", SAME_BITS.format("the rest of the data"), shared)


def edit(facts: Facts, X: Any, Y: Any, *, lengths: Any = None) -> tuple[Facts, Record]:
    """With other labels for facts that the data hold; every row that teaches such a fact changes with it."""
    facts, asked, target = _adopted(facts, X, Y, lengths)
    if facts.draw.card.next_token:
        raise DataError("the labels of a next-token model are its tokens: forget the sequence, and insert another")
    z, _ = facts.draw.place(asked, target)
    question, point = facts.matches(asked, np.arange(len(z)), z)
    missing = np.setdiff1d(np.arange(len(z)), question)
    if len(missing):
        raise DataError(
            f"{asked.labelled(int(missing[0]))} of what is to be edited is not in the data ({len(missing):,} such "
            "facts in all): to add it, insert is meant"
        )
    touched, number = consistent(facts.draw, asked, target, z)
    new, number = _with_labels(facts, target, number)
    old = np.full(len(z), -1)
    old[question] = facts.number[point]
    labels = facts.number.copy()
    labels[point] = number[np.searchsorted(touched, facts.z[point])]
    new = replace(new, number=labels)
    _apart(facts, touched, point)
    change = _Change(facts, new, touched, number, Asked(asked, None, z, old))
    return change.carry_out("edit", SAME_BITS.format("the edited data"), 0)


def insert(facts: Facts, X: Any, Y: Any = None, *, lengths: Any = None) -> tuple[Facts, Record]:
    """With more rows; facts of theirs that the data hold already must have the labels they have."""
    before = facts
    facts, asked, target = _adopted(facts, X, Y, lengths)
    z, error = facts.draw.place(asked, target)
    flat = np.arange(len(z)) if target.place is None else target.place
    touched, number = consistent(facts.draw, asked, target, z)
    widened, number = _with_labels(facts, target, number)
    own = number[np.searchsorted(touched, z)]
    question, point = facts.matches(asked, flat, z)
    odd = np.flatnonzero((widened.levels(own[question]) != widened.levels(facts.number[point])).any(axis=1))
    if len(odd):
        here, there = int(question[odd[0]]), int(facts.place[point[odd[0]]])
        raise ContradictionError(
            f"{labelled(asked, target, here)} of what is to be inserted is in the data already, as "
            f"{facts.where(there)}, with another label ({len(odd):,} such facts in all): to change it, edit is meant"
        )
    later = facts.parts[1:]
    first_place = sum(len(part) if facts.draw.card.per == "sequence" else len(part.tokens) for part in facts.parts)
    bare = join(*later, asked, vocabulary=facts.draw.card.vocabulary)
    order = np.argsort(z, kind="stable")
    spot = np.searchsorted(facts.z, z[order])
    count = facts.count
    if count is not None:
        assert facts.draw.table is not None
        count = np.append(count, np.zeros(len(facts.draw.table) - len(count), np.int64))
        count = count + np.bincount(asked.tokens, minlength=len(count))
    new = replace(
        widened,
        parts=(facts.parts[0], bare),
        gone=np.append(facts.gone, np.zeros(len(asked), dtype=bool)),
        z=with_more(facts.z, spot, z[order]),
        number=with_more(facts.number, spot, own[order]),
        place=with_more(facts.place, spot, (first_place + flat)[order]),
        count=count,
        error=max(facts.error, error),
    )
    fresh = ~_present(facts.z, touched)
    _same_number(facts, widened, asked, target, touched[~fresh], number[~fresh], z)
    change = _Change(before, new, touched[fresh], number[fresh], Asked(asked, target.place, z, np.full(len(z), -1)))
    return change.carry_out("insert", SAME_BITS.format("all the data"), 0)


# -- questions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Asked:
    """The facts of an edit: places of `data`, their `z` and their old labels `(Q,)`, −1 for none."""

    data: Sequences
    place: Ints | None
    z: Floats
    old: Ints


def _adopted(facts: Facts, X: Any, Y: Any, lengths: Any) -> tuple[Facts, Sequences, Target]:
    draw, data = facts.draw.adopt(Sequences.of(X, Y, lengths=lengths))
    return replace(facts, draw=draw), data, Target.of(data, draw.card.causal)


def consistent(draw: Reused, asked: Sequences, target: Target, z: Floats) -> tuple[Floats, Ints]:
    """Distinct numbers `z` in order, and the one label of each."""
    order = np.argsort(z, kind="stable")
    same = z[order][1:] == z[order][:-1]
    number = target.number[order]
    bad = np.flatnonzero(same & (number[1:] != number[:-1]))
    if len(bad):
        one, two = sorted(int(order[bad[0] + i]) for i in range(2))
        places = [labelled(asked, target, place) for place in (one, two)]
        labels = [target.name(int(target.number[place])) for place in (one, two)]
        group = equal_points(draw.context(asked), target)
        if group[one] != group[two]:
            raise too_close(0.0, *places)
        raise ContradictionError(
            f"the edits contradict each other: {places[0]} shall be {labels[0]}, and {places[1]}, which is the same "
            f"fact, {labels[1]}"
        )
    first = np.append(True, ~same)
    return z[order][first], number[first]


def labelled(asked: Sequences, target: Target, question: int) -> str:
    return asked.labelled(question if target.place is None else int(target.place[question]))


def _with_labels(facts: Facts, target: Target, number: Ints) -> tuple[Facts, Ints]:
    """`facts` with the values of new real labels, and their numbers in it; classes have theirs already."""
    if facts.values is None:
        return facts, number
    return replace(facts, values=np.concatenate([facts.values, target.table])), number + len(facts.values)


def _present(z: Floats, asked: Floats) -> Any:
    """Which of `asked` occur in sorted `z`."""
    return np.searchsorted(z, asked, side="right") > np.searchsorted(z, asked, side="left")


def _points_at(facts: Facts, z: Floats, place: Ints) -> Ints:
    """The points that stand for places, whose numbers are `z`."""
    low, high = np.searchsorted(facts.z, z, side="left"), np.searchsorted(facts.z, z, side="right")
    question = np.repeat(np.arange(len(z)), high - low)
    point = np.arange(len(question)) + np.repeat(low - (np.cumsum(high - low) - (high - low)), high - low)
    found = facts.place[point] == place[question]
    out = np.full(len(z), -1)
    out[question[found]] = point[found]
    assert (out >= 0).all()  # a row's numbers are the same bits whatever stands beside it
    return out


def _apart(facts: Facts, touched: Floats, point: Ints) -> None:
    """No other fact shares the number of an edited one."""
    total = np.searchsorted(facts.z, touched, side="right") - np.searchsorted(facts.z, touched, side="left")
    mine = np.searchsorted(touched, facts.z[np.unique(point)])
    crowded = np.flatnonzero(np.bincount(mine, minlength=len(touched)) < total)
    if len(crowded):
        raise too_close(0.0, "a fact that is to be edited", "another fact of the data")


def _same_number(
    facts: Facts, widened: Facts, asked: Sequences, target: Target, z: Floats, number: Ints, all_z: Floats
) -> None:
    """A new fact that has the number of another one must have its label too."""
    there = np.searchsorted(facts.z, z, side="left")
    odd = np.flatnonzero((widened.levels(number) != widened.levels(facts.number[there])).any(axis=1))
    if len(odd):
        here = int(np.flatnonzero(all_z == z[odd[0]])[0])
        raise too_close(0.0, labelled(asked, target, here), facts.where(int(facts.place[there[odd[0]]])))


def too_close(errors: float, one: str, two: str) -> PrecisionError:
    return PrecisionError(
        f"{one} and {two} would have different labels and lie {errors:.2g} rounding errors apart; {SLACK:g} are needed "
        "for a margin that certifies. Give both one label, forget one of them, or memorize the edited data anew "
        "without draw=: another draw tells them apart"
    )


# -- carrying out ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Change:
    """From `old` to `new`: at `touched` `(K,)`, distinct, in order, stands label `number` `(K,)`, or −1: no point."""

    old: Facts
    new: Facts
    touched: Floats
    number: Ints
    asked: Asked

    def carry_out(self, kind: Kind, claim: str, shared: int) -> tuple[Facts, Record]:
        model, card = self.old.model, self.new.draw.card
        used = None if self.new.count is None else self.new.count > 0
        keeps = model.card.fingerprint is not None and self.new.gone is not self.old.gone
        words_left = words_of(model, self.new.kept()) if keeps else None
        splices = [*self._readout(), *name_splices(model, self.new.draw, used)]
        edited, bare = carried_out(model, card, kind, claim, len(self.asked.z), splices, words_left, shared=shared)
        table = edited.lift.weight.detach().numpy() if isinstance(edited.lift, nn.Embedding) else None
        draw: Reused = replace(self.new.draw, model=edited, card=edited.card, table=table)
        facts = replace(self.new, draw=draw)
        return facts, bare.with_changes(tuple(self._changes(facts)))

    def _readout(self) -> Iterable[Splice]:
        table = Table.of(staircase_of(self.old.model))
        if len(self.touched) == 0:
            return
        local = self._local(table)
        self._check_margin(local)
        if table.local(self.old.values is None):
            yield from local.splices(table)
            return
        block, model = self.new.staircase(), self.old.model
        for name, axis in (("weight_1", 0), ("bias_1", 0), ("weight_2", 1), ("bias_2", 0)):
            old, new = (getattr(part, name).detach().numpy() for part in (model.feed_forward, block))
            found = Splice.between(f"feed_forward.{name}", axis, old, new)
            if found is not None:
                yield found

    def _local(self, table: Table) -> Local:
        old, touched = self.old, self.touched
        low, high = np.searchsorted(old.z, touched, side="left"), np.searchsorted(old.z, touched, side="right")
        # Touched numbers with no other point between them form one cluster.
        opens = np.append(True, low[1:] > high[:-1])
        cluster = np.cumsum(opens) - 1
        left, right = low[opens] - 1, high[np.append(np.flatnonzero(opens)[1:] - 1, len(touched) - 1)]
        has_left, has_right = left >= 0, right < len(old.z)
        here = self.number >= 0
        number = np.concatenate([old.number[left[has_left]], self.number[here], old.number[right[has_right]]])
        where = np.concatenate([np.flatnonzero(has_left), cluster[here], np.flatnonzero(has_right)])
        z = np.concatenate([old.z[left[has_left]], touched[here], old.z[right[has_right]]])
        order = np.lexsort((z, where))
        first, last = (
            np.zeros(len(left), np.int64),
            np.full(len(left), len(table.weight_1) // (2 if table.readout == "paper" else 1)),
        )
        if table.readout != "paper":
            first[has_left] = table.before(old.z[left[has_left]], strictly=False)
            last[has_right] = table.before(old.z[right[has_right]], strictly=True)
        blank = np.full(len(z), np.nan)
        return Local(
            z[order], self.new.levels(number[order]), where[order], first, last, ~has_left, ~has_right, blank, blank
        )

    def _check_margin(self, local: Local) -> None:
        change = local.changes()
        left, right = local.z[change], local.z[change + 1]
        error = self.new.error + UNIT * np.maximum(np.abs(left), np.abs(right))
        bad = np.flatnonzero(~(right - left >= SLACK * error))
        if len(bad):
            one, two = (self._words(float(z)) for z in (left[bad[0]], right[bad[0]]))
            raise too_close(float((right - left)[bad[0]] / error[bad[0]]), one, two)

    def _words(self, z: float) -> str:
        """The point at `z`: of the edit, or of the data."""
        mine = np.flatnonzero(self.asked.z == z)
        if len(mine) and z in self.touched:
            place = int(mine[0]) if self.asked.place is None else int(self.asked.place[mine[0]])
            return f"{self.asked.data.labelled(place)} of the edit"
        return self.new.where(int(self.new.place[np.searchsorted(self.new.z, z)]))

    # -- words ---------------------------------------------------------------------------------------------

    def _changes(self, facts: Facts) -> Iterable[Change]:
        """The first facts in words, with what the new model answers there."""
        asked = self.asked
        before = [self._old_name(int(number)) for number in asked.old[:SHOWN]]
        return words(facts.model, asked.data, asked.place, asked.z[:SHOWN], before)

    def _old_name(self, number: int) -> Any:
        return None if number < 0 else label_name(self.old.model.card, self.old.levels(np.array([number]))[0])
