"""What a robust model holds, and what an edit makes of it: the neurons of the tokens that are touched, found anew.

With a draw fixed, the neurons of a token and the usual class in its embedding are a function of the facts of that token
(`construct/robust/again.py`). So an edit finds them once from the old data, to see that the model has them, and once
from the new data; all other neurons keep their bits. Two kinds of models are built anew as a whole: those of vectors,
whose gates depend on each other, and those that answer at the begin token, which has all facts.

A *cell* is a token row; a *fact* is a token in a context, with its label.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from monolayer.construct.robust.again import RobustAgain, RobustDraw
from monolayer.construct.robust.build import Attempt
from monolayer.construct.robust.stream import in_format
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.answered import changes_of
from monolayer.editing.carry import carried_out
from monolayer.editing.difference import difference, row_splices
from monolayer.editing.gated import cells_of
from monolayer.editing.held import Held, adopted_whole
from monolayer.editing.names import words_of
from monolayer.editing.premise import check_premise
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Array, Splice, array_of, same_rows
from monolayer.errors import DataError, PrecisionError
from monolayer.model.device import one_thread
from monolayer.model.monolayer import Monolayer

CELLS = (
    "the neurons of {} tokens are the same bits that memorizing {} with this draw gives them; those of all other "
    "tokens are as they were, and cannot wake at these"
)
WHOLE = "the same bits as memorizing {} with this draw"
PARTS = ("weight_1", "bias_1", "weight_2")


@final
@dataclass(frozen=True, eq=False)
class RobustFacts(Held[RobustDraw]):
    """A robust model and what it holds: `data` with labels, in the numbers of the model."""

    @classmethod
    def of(cls, model: Monolayer, X: Any, Y: Any = None, *, lengths: Any = None) -> RobustFacts:
        """The data that `model` holds, all of them and no others.

        That they are is checked in full where an edit touches them, and by counts and classes elsewhere (`premise.py`).
        """
        draw = RobustDraw.of(model)
        data = adopted_whole(draw, Sequences.of(X, Y, lengths=lengths))
        if draw.table is not None and draw.card.vocabulary is not None:
            strange = ~np.isnan(draw.table[:, 0])
            strange[data.tokens] = False
            if strange.any():
                name = draw.card.vocabulary.names[int(np.flatnonzero(strange)[0])]
                raise DataError(
                    f"the model holds the token {name!r}, which the data lack ({int(strange.sum()):,} such in all): "
                    "give all of its data"
                )
        facts = cls(draw, data)
        if facts.by_cell:
            check_premise(draw, data)
        return facts

    @property
    def by_cell(self) -> bool:
        """Whether tokens have neurons of their own."""
        return self.draw.table is not None and self.draw.card.per == "token"

    def edited(
        self, draw: RobustDraw, data: Sequences, asked: Sequences, before: NDArray[Any] | None, touched: Ints | None
    ) -> Edit:
        return Edit(self, draw, data, asked, before, touched)


@dataclass(frozen=True, eq=False)
class Edit:
    """From `old` to `data` with the draw `draw`; `before` `(Q,)`: old labels of what is `asked`, None for new ones.

    `touched`: tokens whose facts change, in order; None where tokens have no neurons of their own.
    """

    old: RobustFacts
    draw: RobustDraw
    data: Sequences
    asked: Sequences
    before: NDArray[Any] | None
    touched: Ints | None

    @one_thread()
    def carry_out(self, kind: Kind, what: str, facts: int, shared: int) -> tuple[RobustFacts, Record]:
        model, card = self.old.model, self.draw.card
        if self.old.by_cell and self.touched is not None:
            splices, claim = list(self._cells(self.touched)), CELLS.format(f"{len(self.touched):,}", what)
        else:
            splices, claim = list(self._whole()), WHOLE.format(what)
        keeps = model.card.fingerprint is not None and kind != "edit"
        words = words_of(model, self.data) if keeps else None
        edited, record = carried_out(model, card, kind, claim, facts, splices, words, shared=shared)
        table = edited.lift.weight.detach().double().numpy() if isinstance(edited.lift, nn.Embedding) else None
        draw = replace(self.draw, model=edited, card=replace(edited.card, fingerprint=None), table=table)
        changes = tuple(changes_of(edited, self.asked, self.before))
        return RobustFacts(draw, self.data), record.with_changes(changes)

    def _cells(self, touched: Ints) -> Iterable[Splice]:
        """Neurons and rows of the tokens that are touched, and rows of those that come or go."""
        model, cell = self.old.model, cells_of(self.old.model)
        gates = model.feed_forward
        held, wanted = _cover(self.old.draw, self.old.data, touched), _cover(self.draw, self.data, touched)
        at, end = np.searchsorted(cell, touched, side="left"), np.searchsorted(cell, touched, side="right")
        mine = np.flatnonzero(np.isin(cell, touched))
        lift = array_of(model.lift.weight)
        here = touched[touched < len(lift)]
        same = _equal(lift[here], _lift(held, self.old.draw, lift, here))
        for name in PARTS:
            rows = array_of(getattr(gates, name)).swapaxes(0, -1 if name == "weight_2" else 0)[mine]
            same = same and _equal(rows, _part(held, name, self.draw.dtype))
        if not same:
            self._not_held(touched)
        put = np.zeros(len(touched), np.int64)
        if wanted is not None:
            put = np.bincount(np.searchsorted(touched, wanted.cell), minlength=len(touched))
        for name in PARTS:
            old = array_of(getattr(gates, name))
            new = _part(wanted, name, self.draw.dtype, like=old)
            axis = 1 if name == "weight_2" else 0
            found = Splice.of(f"feed_forward.{name}", axis, old, at, end - at, put, new)
            if found is not None:
                yield found
        blank = array_of(torch.full((), torch.nan, dtype=self.draw.dtype)).item()
        assert self.draw.table is not None
        table = np.full((len(self.draw.table), lift.shape[1]), blank, dtype=lift.dtype)
        table[: len(lift)] = lift
        table[touched] = _lift(wanted, self.draw, table, touched)
        table[np.bincount(self.data.tokens, minlength=len(table)) == 0] = blank
        yield from row_splices("lift.weight", lift, table)
        yield from head_splices(model, self.draw)

    def _whole(self) -> Iterable[Splice]:
        """All that differs, where the readout is built anew."""
        model = self.old.model
        held = _attempt(self.old.draw, self.old.data, None).assemble(model.card, self.draw.dtype).state_dict()
        if not all(_equal(array_of(held[name]), array_of(part)) for name, part in model.state_dict().items()):
            self._not_held(None)
        task = _task(self.draw, self.data)
        wanted = RobustAgain(self.draw).build(task, lambda stage, share: None).state_dict()
        splices, _ = difference(
            *({name: array_of(part) for name, part in d.items()} for d in (model.state_dict(), wanted))
        )
        return splices

    def _not_held(self, touched: Ints | None) -> None:
        """The error where neurons are not those that the old data determine."""
        data, model = self.old.data, self.old.model
        if touched is not None:
            data = data.select(np.unique(data.sequence[np.isin(data.tokens, touched)]))
        target = Target.of(data, self.draw.card.causal)
        got = model.labels(data)
        wrong = np.flatnonzero((got if target.place is None else got[target.place]) != target.number)
        if len(wrong):
            place = int(wrong[0]) if target.place is None else int(target.place[wrong[0]])
            some = "" if touched is None else " with a token of the edit"
            raise DataError(
                f"these are not the data that the model holds: of their rows{some} it answers {len(wrong):,} of "
                f"{len(target.number):,} labels otherwise, the first of them {data.labelled(place)}"
            )
        raise DataError(
            "the model returns these labels, but its neurons are not the ones that they determine: it holds other data "
            "besides, or was edited without its data, or built on another machine. If these are all it shall hold, "
            "memorize(data, draw=model) makes it so; otherwise give all of its data"
        )


def _cover(draw: RobustDraw, data: Sequences, touched: Ints) -> Attempt | None:
    """What covers the facts of these tokens; None where they do not occur. Only rows with one of them are looked at."""
    rows = np.unique(data.sequence[np.isin(data.tokens, touched)])
    if len(rows) == 0:
        return None
    assert draw.table is not None
    only = np.zeros(len(draw.table), dtype=bool)
    only[touched[touched < len(only)]] = True
    near = data.select(rows)
    if draw.card.next_token and int(near.lengths.max()) < 2:
        near = data  # these tokens have no next one, and no label: any data show that
    try:
        return _attempt(draw, near, only)
    except PrecisionError:
        return _attempt(draw, data, only)  # the same error, with the rows by their own numbers


def _attempt(draw: RobustDraw, data: Sequences, only: NDArray[np.bool_] | None) -> Attempt:
    return draw.attempt(_task(draw, data).settled()[0], lambda stage, share: None, only)


def _task(draw: RobustDraw, data: Sequences) -> Task:
    positions = draw.model.positions is not None
    return Task.of(data, positions=positions, causal=draw.card.causal, on_conflict="error")


def _part(found: Attempt | None, name: str, dtype: torch.dtype, like: Array | None = None) -> Array:
    """A tensor of the readout, neurons in front; of no neurons, in the shape of `like`."""
    if found is None:
        rest = () if like is None else like.shape[1:] if name != "weight_2" else like.shape[:1]
        return np.zeros((0, *rest), dtype=array_of(torch.zeros(0, dtype=dtype)).dtype)
    part = array_of(getattr(found.gates, name).detach().to(dtype))
    return part.T.copy() if name == "weight_2" else part


def _lift(found: Attempt | None, draw: RobustDraw, table: Array, rows: Ints) -> Array:
    """Rows of tokens as they should be; of tokens that do not occur, as they are."""
    if found is None:
        return table[rows]
    return array_of(in_format(found.stream.lift.weight[torch.from_numpy(rows)], draw.dtype))


def head_splices(model: Monolayer, draw: RobustDraw) -> Iterable[Splice]:
    """Rows of the head for classes that `model` lacks and `draw` has."""
    layout, old = draw.layout, array_of(model.head.weight)
    assert draw.card.classes is not None
    if len(draw.card.classes) > len(old):
        label, bias = draw.classes(len(draw.card.classes))
        weight = torch.zeros(len(label), layout.width, dtype=torch.float64)
        weight[:, -layout.label :] = torch.from_numpy(label)
        yield from row_splices("head.weight", old, array_of(weight.to(draw.dtype)))
        now = array_of(torch.from_numpy(bias).to(draw.dtype))
        yield from row_splices("head.bias", array_of(model.head.bias), now)


def _equal(a: Array, b: Array) -> bool:
    """Whether two arrays are the same bits; of no rows, whatever their width."""
    return a.size == b.size == 0 or (a.shape == b.shape and bool(same_rows(a, b).all()))
