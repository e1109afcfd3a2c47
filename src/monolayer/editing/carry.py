"""From what an edit changes to the edited model and its record: one way for every kind of readout."""

from __future__ import annotations

from collections.abc import Iterable

from monolayer.data.fingerprint import Words
from monolayer.editing.names import Renamed, fingerprint_splices
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Splice
from monolayer.editing.swap import Swap
from monolayer.model.card import Card
from monolayer.model.monolayer import Monolayer


def carried_out(
    model: Monolayer,
    card: Card,
    kind: Kind,
    claim: str,
    facts: int,
    splices: Iterable[Splice],
    words: Words | None,
    *,
    swaps: Iterable[Swap] = (),
    shared: int = 0,
    informed: bool = True,
    intervals: Iterable[tuple[float, float]] = (),
) -> tuple[Monolayer, Record]:
    """The model with other tensors and the names of `card`, and the record, to which the facts in words are added.

    `words`: the fingerprints that it shall keep; None: those that it has, if any.
    """
    record = Record(
        kind=kind,
        informed=informed,
        claim=claim,
        facts=facts,
        shared=shared,
        changes=(),
        splices=(*splices, *fingerprint_splices(model, words)),
        swaps=tuple(swaps),
        intervals=tuple(intervals),
        vocabulary=Renamed.of(model.card.vocabulary, card.vocabulary),
        classes=Renamed.of(model.card.classes, card.classes),
        summary=model.card.summary_json(),
    )
    return record.apply(model, known=True), record
