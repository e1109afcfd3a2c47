"""Edits of readouts that are built anew as a whole: cascades, and lines in float32.

What a later stage of a cascade writes depends on which points the stages before could not tell apart, so no step has a
place of its own that an edit could go to. But with its draw fixed the model is a function of its data, bit for bit
(`construct/line/again.py`). So an edit builds it from the edited data, and the record is the difference of the two.
That the model is the one of the data that are given is seen first, by building it from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from numpy.typing import NDArray

from monolayer.construct.line.again import Again
from monolayer.construct.line.reuse import Reused
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.answered import changes_of
from monolayer.editing.carry import carried_out
from monolayer.editing.difference import difference
from monolayer.editing.held import Held, adopted_whole, answered_otherwise
from monolayer.editing.names import words_of
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Array, array_of
from monolayer.editing.swap import same
from monolayer.errors import DataError, PrecisionError
from monolayer.model.cascade import Cascade
from monolayer.model.monolayer import Monolayer

WHOLE = "the same bits as memorizing {} with this draw; no label of another fact changes"


def built_whole(model: Monolayer) -> bool:
    """Whether an edit of this model builds its readout anew."""
    return isinstance(model.feed_forward, Cascade) or model.bos.dtype == torch.float32


@final
@dataclass(frozen=True, eq=False)
class WholeFacts(Held[Reused]):
    """A model on the line and what it holds: `data` with labels, in the numbers of the model."""

    @classmethod
    def of(cls, model: Monolayer, X: Any, Y: Any = None, *, lengths: Any = None) -> WholeFacts:
        """The data that `model` holds, all of them and no others: it must be the one that they determine."""
        draw = Reused.of(model)
        facts = cls(draw, adopted_whole(draw, Sequences.of(X, Y, lengths=lengths)))
        facts._check()
        return facts

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        return tokens if self.draw.table is not None else self.draw.rounded(tokens)

    def edited(
        self, draw: Reused, data: Sequences, asked: Sequences, before: NDArray[Any] | None, touched: Ints | None
    ) -> Edit:
        return Edit(self, draw, data, asked, before)

    def _check(self) -> None:
        """That the model is the one that the data determine, bit for bit: then so is what an edit makes of it."""
        try:
            ours = _tensors(_built(self.draw, self.data))
        except PrecisionError as error:
            raise DataError(f"these are not the data that the model holds: {error}") from None
        theirs = _tensors(self.model)
        odd = [name for name in sorted({*ours, *theirs}) if not same(ours.get(name), theirs.get(name))]
        if not odd:
            return
        otherwise = answered_otherwise(self.model, self.data)
        if otherwise is not None:
            raise DataError(f"{otherwise}; and {odd[0]} is not the one that they determine")
        raise DataError(
            f"the model returns these labels, but {odd[0]} is not the one that they determine ({len(odd):,} such "
            "tensors): it holds other data besides, was changed, or was built on another machine. If these are all it "
            "shall hold, memorize(data, draw=model) makes it so; otherwise give all of its data"
        )


@dataclass(frozen=True, eq=False)
class Edit:
    """From `old` to `data` with the draw `draw`; `before`: old labels of the places of `asked`, None for new ones."""

    old: WholeFacts
    draw: Reused
    data: Sequences
    asked: Sequences
    before: NDArray[Any] | None

    def carry_out(self, kind: Kind, what: str, facts: int, shared: int) -> tuple[WholeFacts, Record]:
        model = self.old.model
        splices, swaps = difference(_tensors(model), _tensors(_built(self.draw, self.data)))
        words = words_of(model, self.data) if kind != "edit" else None
        edited, record = carried_out(
            model, self.draw.card, kind, WHOLE.format(what), facts, splices, words, swaps=swaps, shared=shared
        )
        changes = tuple(changes_of(edited, self.asked, self.before))
        return WholeFacts(Reused.of(edited), self.data), record.with_changes(changes)


def _built(draw: Reused, data: Sequences) -> Monolayer:
    positions = draw.model.positions is not None
    task = Task.of(data, positions=positions, causal=draw.card.causal, on_conflict="error")
    return Again(draw).build(task, lambda stage, share: None)


def _tensors(model: Monolayer) -> dict[str, Array]:
    return {name: array_of(part) for name, part in model.state_dict().items()}
