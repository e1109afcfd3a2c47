"""A model and all the data that it holds, and what an edit makes of both.

With its draw fixed, a model is a function of its data, bit for bit (docs/editing.md). So an edit changes the data,
builds a model of them with the same draw, and records the difference of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monolayer.arrays import Ints
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.readers import sequences_of
from monolayer.editing.difference import config_change, difference
from monolayer.editing.edited import (
    Edited,
    chosen_rows,
    fact_rows,
    fact_tokens,
    labels_of,
    relabelled,
    with_rows,
    without,
)
from monolayer.editing.record import FACTS_SHOWN, Change, EditKind, LeftoverNames, Record
from monolayer.editing.subject import GivenModel, Subject, subject_of
from monolayer.editing.unused import unused_after, without_names
from monolayer.errors import DataError, PrecisionError
from monolayer.model.torch_settings import own_settings
from monolayer.table import plural

WHOLE = "bit-identical to {}"
CELLS = (
    "the neurons of {} tokens are bit-identical to those of memorizing {} with this draw; those of all other tokens "
    "are unchanged, and never activate at these facts"
)
MEANT = {"forget": "only the remaining data", "edit": "the edited data", "insert": "all the data"}


@final
@dataclass(frozen=True, eq=False)
class Facts:
    """A model, as `subject`, and its `data` with labels, in the numbers of the model's names. Edits give new ones."""

    subject: Subject
    data: Sequences

    @classmethod
    @own_settings()
    def of(cls, model: GivenModel, X: object, Y: object = None, *, lengths: object = None) -> Facts:
        """A model with the data that it holds, all of them and no others: it must be the model that they determine.

        `model`: a model, or its folder. `X`, `Y`, `lengths`: the data, as for `memorize`.

        Where neurons belong to tokens, those of a token are compared when an edit touches it.
        """
        subject = subject_of(model)
        facts = cls(subject, subject.adopt(_read(subject, X, Y, lengths)))
        facts._check_counts()
        facts._check(np.zeros(0, np.int64) if subject.by_token else None)
        return facts

    @property
    def model(self) -> Any:
        """A `Monolayer`, or a stock model."""
        return self.subject.model

    def changed(self, kind: EditKind, edit: Edited, *, drop_names: bool = False) -> tuple[Facts, Record]:
        """The facts after an edit of the data, and the record of what became of the model.

        `drop_names`: also drop the names of tokens and classes that no fact uses any more.
        """
        only = edit.touched if self.subject.by_token else None
        if only is not None:
            self._check(only)
        new, data = self.subject.again(edit.data, only), edit.data
        unused = unused_after(self.subject, data)
        leftover = LeftoverNames()
        if unused is not None:
            leftover = LeftoverNames(unused.total, unused.texts(data, FACTS_SHOWN), drop_names)
        if drop_names:
            new, data = without_names(new, data, unused)
        meant = MEANT[kind]
        claim = WHOLE.format(self.subject.way.format(meant)) if only is None else CELLS.format(f"{len(only):,}", meant)
        changes = tuple(_described_changes(self.subject, new, edit))
        old, made = self.subject.content, new.content
        splices, blocks = difference(old.tensors, made.tensors, {**old.blocks, **made.blocks})
        config = config_change(old.config, made.config)
        described = kind, claim, edit.facts, edit.shared, changes
        return Facts(new, data), Record(*described, old.digest, made.digest, splices, blocks, config, leftover)

    def _check_counts(self) -> None:
        """Refuse data whose counts differ from those in the model's summary, if it has one."""
        known = self.subject.content.config.get("summary")
        here = len(self.data), len(self.subject.task(self.data).target.number)
        if isinstance(known, dict) and (known["sequences"], known["labelled"]) != here:
            raise DataError(
                "these are not the data that the model holds: it was built from "
                f"{plural(known['sequences'], 'sequence')} with {plural(known['labelled'], 'label')}, and these are "
                f"{here[0]:,} with {here[1]:,}. Give all of its data"
            )

    def _check(self, only: Ints | None) -> None:
        """Refuse data that do not determine this model, bit for bit; `only`: compare the neurons of these tokens."""
        try:
            built = self.subject.again(self.data, only)
        except PrecisionError as error:
            raise DataError(f"these are not the data that the model holds: {error}") from None
        odd = self.subject.content.differing(built.content)
        if not odd:
            return
        if {"vocabulary", "classes", "names"} & set(odd):
            raise DataError(
                "the data hold a token or a label that the model has never seen, so they are not the data it holds: "
                "give those, and insert the new ones"
            )
        raise DataError(
            f"these are not the data that the model holds: {self._why(odd[0], only)}. {self.subject.way_out}"
        )

    def _why(self, tensor: str, only: Ints | None) -> str:
        """Why the data are not those of the model: the first label that it answers differently, or else a tensor."""
        data = self.data
        if only is not None and len(only):
            data = data.select(np.unique(data.sequence[np.isin(data.tokens, only)]))
        target = self.subject.task(data).target
        with suppress(DataError):
            answers, at = self.subject.answers(data), _answering(self.subject, data, target)
            wrong = [place for place, name in zip(at, labels_of(data, target), strict=True) if answers[place] != name]
            if wrong:
                first = data.named(wrong[0]) if data.prompts is not None else data.labelled(wrong[0])
                return f"it answers {len(wrong):,} of {plural(len(at), 'label')} differently, the first one at {first}"
        return (
            f"its {tensor} is not the one that they determine, so it holds other data besides, was changed, or was "
            "built on another machine"
        )


def _described_changes(old: Subject, new: Subject, edit: Edited) -> Iterable[Change]:
    """The first facts of an edit as a record lists them, with what the new model answers there."""
    asked, target = edit.asked, old.task(edit.asked).target
    row, position, count = fact_rows(asked, target), fact_tokens(asked, target), min(FACTS_SHOWN, edit.facts)
    if count == 0:  # none of the removed rows had a label
        return
    if asked.prompts is not None:
        row = np.arange(len(asked))
    if asked.prompts is not None or not old.labelling.at_tokens:
        position = None
    asked, after = asked.select(np.arange(int(row[count - 1]) + 1)), edit.after
    if after is None:
        answers = new.answers(asked)
        after = [answers[at] for at in _answering(new, asked, old.task(asked).target)]
    shown = asked.only_prompts()
    tokens = shown.split(shown.tokens if shown.vocabulary is None else shown.vocabulary.decode(shown.tokens))
    for i in range(count):
        place = None if position is None else int(asked.position[position[i]])
        before = None if edit.before is None else edit.before[i]
        yield Change(tokens[row[i]].tolist(), place, before, after[i], after[i] is None)


def _answering(subject: Subject, data: Sequences, target: Target) -> list[int]:
    """For each fact, the place of its answer in the list that `Subject.answers` returns."""
    places = fact_tokens(data, target)
    if data.prompts is not None:
        return list(range(len(data)))
    places_of_answers: list[int] = (
        places if places is not None and subject.labelling.at_tokens else fact_rows(data, target)
    ).tolist()
    return places_of_answers


NEEDED = (
    "an edit needs the data that the model was built from (data=, --data); what a model answers can be read out with "
    "predict"
)


@own_settings()
def forget(
    model: GivenModel | Facts, X: object, data: object = None, *, lengths: object = None, names: bool = False
) -> tuple[Any, Record]:
    """`model` without some of its facts, and a record of what changed.

    - `model`: a model, the folder of one, or `Facts`: these know their data, and the result is `Facts` too.
    - `X`: the sequences to forget, or one of them as a string, or their row numbers.
    - `data`: all that the model was built from, with later edits applied: a pair `(X, Y)`, or anything else that
      `memorize` takes without `Y`: a dict, a table, a file, `Sequences`.
    - `lengths`: how many tokens each row of a padded `X` has.
    - `names`: True also drops the names of tokens and labels that no fact uses any more; their rows and all weights
      stay.

    The result is bit-identical to memorizing only the remaining data with the same draw. A fact that other rows also
    state stays, and is counted in the record.

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima"}
        >>> new, record = ml.forget(ml.memorize(table), ["Peru"], table)
        >>> ml.certify(new, {"France": "Paris", "Japan": "Tokyo"}, only=True).verdict
        'proved'
    """
    facts = known(model, data)
    rows = chosen_rows(facts.subject, facts.data, X, lengths)
    return _returned(model, *facts.changed("forget", without(facts.subject, facts.data, rows), drop_names=names))


@own_settings()
def edit(
    model: GivenModel | Facts, X: object, Y: object = None, data: object = None, *, lengths: object = None
) -> tuple[Any, Record]:
    """`model` with other labels for facts that it holds, and a record of what changed.

    - `model`: as for `forget`.
    - `X`: the sequences to change; or a dict, a table or a file that also holds their new labels.
    - `Y`: the new labels, as for `memorize`.
    - `data`: all that the model was built from, as for `forget`.
    - `lengths`: how many tokens each row of a padded `X` has.

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo"}
        >>> new, record = ml.edit(ml.memorize(table), {"France": "Lyon"}, data=table)
        >>> print(new.predict("France"), record.undo(new).predict("France"))
        Lyon Paris
    """
    facts = known(model, data)
    asked = facts.subject.adopt(_read(facts.subject, X, Y, lengths))
    return _returned(model, *facts.changed("edit", relabelled(facts.subject, facts.data, asked)))


@own_settings()
def insert(
    model: GivenModel | Facts, X: object, Y: object = None, data: object = None, *, lengths: object = None
) -> tuple[Any, Record]:
    """`model` with more facts, and a record of what changed.

    - `model`: as for `forget`.
    - `X`: the new sequences; or a dict, a table or a file that also holds their labels. Tokens may be new.
    - `Y`: their labels, as for `memorize`. Classes may be new.
    - `data`: all that the model was built from, as for `forget`.
    - `lengths`: how many tokens each row of a padded `X` has.

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo"}
        >>> new, record = ml.insert(ml.memorize(table), {"Peru": "Lima"}, data=table)
        >>> print(new.predict(["Peru", "Japan"]))
        ['Lima' 'Tokyo']
    """
    facts = known(model, data)
    asked = facts.subject.adopt(_read(facts.subject, X, Y, lengths))
    return _returned(model, *facts.changed("insert", with_rows(facts.subject, facts.data, asked)))


def _read(subject: Subject, X: object, Y: object, lengths: object) -> Sequences:
    """Labelled data in any shape that `memorize` takes, or in a file, read as the model reads data."""
    card = subject.model.card
    return sequences_of(X, Y, lengths=lengths, like=card.manner, labelled=card.prompts or not card.next_token)


def known(model: GivenModel | Facts, data: object) -> Facts:
    """The facts of a model and its data; `Facts` as they are."""
    if isinstance(model, Facts):
        if data is not None:
            raise DataError("Facts know their data: leave data out")
        return model
    if data is None:
        subject_of(model)  # an error if it is not a model
        raise DataError(NEEDED)
    return Facts.of(model, *data) if isinstance(data, tuple) else Facts.of(model, data)


def _returned(model: GivenModel | Facts, facts: Facts, record: Record) -> tuple[Any, Record]:
    """What an edit returns: `Facts` if `model` was one, else the new model; and the record."""
    return (facts if isinstance(model, Facts) else facts.model), record
