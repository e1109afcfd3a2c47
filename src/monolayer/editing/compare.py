"""Where two models differ: in weights, configuration and names, in how many neurons, and in answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from monolayer.data import Sequences
from monolayer.editing.difference import UNHASHED, Content, bits, config_change, difference, same
from monolayer.editing.record import FACTS_SHOWN
from monolayer.editing.subject import Answered, GivenModel, Subject, subject_of
from monolayer.errors import DataError
from monolayer.table import as_table

NAME_KEYS = frozenset({"names", "vocabulary", "classes", "id2label", "label2id"})
"""Keys of a configuration that hold the names of tokens and classes."""


@dataclass(frozen=True)
class Answer:
    """A labelled place where answers differ; `position` is None for a label of a whole sequence.

    An answer is None where the model does not know a token of the sequence.
    """

    sequence: int
    position: int | None
    one: Answered
    two: Answered

    def __str__(self) -> str:
        place = f"sequence {self.sequence}"
        place = place if self.position is None else f"token {self.position} of {place}"
        return f"{place}: {self.one!r} → {self.two!r}"


@dataclass(frozen=True)
class Comparison:
    """Where two models differ.

    `weights`: tensors that differ, with how many of their numbers do; None where the shapes differ or one model lacks
    the tensor. `config`: keys of the configuration that differ, with both values. `names`: whether both have the same
    tokens and classes. `only_one`, `only_two`: how many neurons only one of the models has. `asked`: how many answers
    were compared, and `answers`: how many of them differ; both None without data. `differing`: the first that differ.
    """

    weights: dict[str, int | None]
    config: dict[str, list[object]]
    names: bool
    only_one: int
    only_two: int
    asked: int | None
    answers: int | None
    differing: list[Answer]

    @property
    def same(self) -> bool:
        """Whether the two are one model, bit for bit."""
        return not self.weights and not self.config and self.names

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """Rows for the table that commands print."""
        counts = [f"{name}: {'another shape' if n is None else f'{n:,} numbers'}" for name, n in self.weights.items()]
        rows = [("weights", "the same bits" if not counts else "; ".join(counts))]
        rows += [("configuration", f"{key}: {_short(one)} → {_short(two)}") for key, (one, two) in self.config.items()]
        if not self.names:
            rows.append(("names", "tokens or classes are not the same"))
        rows.append(("neurons", f"{self.only_one:,} only in the first, {self.only_two:,} only in the second"))
        if self.asked is not None:
            rows.append(("answers", f"{self.answers:,} of {self.asked:,} differ"))
            rows += [("differs", str(answer)) for answer in self.differing[:10]]
        return rows

    def to_json(self) -> dict[str, object]:
        """Everything that differs, for JSON."""
        return {"same": self.same, **asdict(self)}


def compare(one: GivenModel, two: GivenModel, X: Any = None, *, lengths: Any = None) -> Comparison:
    """Where two models, or folders of models, differ: in weights and neurons and, with `X`, in answers.

    `one`, `two`: models, or folders of them. `X`: sequences to ask both, as for `predict`; `lengths`: of padded ones.
    Answers of stock models are those of a plain evaluation in float64.
    """
    subjects = [subject_of(each) for each in (one, two)]
    if type(subjects[0]) is not type(subjects[1]):
        raise DataError("the two are models of different kinds: their weights have nothing in common")
    old, new = (subject.content for subject in subjects)
    only = difference(old.tensors, new.tensors, {**old.blocks, **new.blocks}).blocks.values()
    config = config_change(old.config, new.config)
    answers = None if X is None else _compared_answers(subjects, X, lengths)
    return Comparison(
        weights=_differing_weights(old, new),
        config={
            key: [values.get("before"), values.get("after")]
            for key, values in config.items()
            if key not in {*NAME_KEYS, *UNHASHED}
        },
        names=not config.keys() & NAME_KEYS,
        only_one=sum(out for out, _ in only),
        only_two=sum(put for _, put in only),
        asked=None if answers is None else answers.asked,
        answers=None if answers is None else answers.differ,
        differing=[] if answers is None else answers.first,
    )


def _differing_weights(old: Content, new: Content) -> dict[str, int | None]:
    """Tensors that differ, with how many of their numbers do; None where one lacks it, or type or shape differ."""
    found: dict[str, int | None] = {}
    for name in sorted({*old.tensors, *new.tensors}):
        a, b = old.tensors.get(name), new.tensors.get(name)
        if not same(a, b):
            found[name] = None
            if a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype:
                found[name] = int(np.count_nonzero(bits(a) != bits(b)))
    return found


class ComparedAnswers(NamedTuple):
    """How many answers were `asked` for, how many of them `differ`, and the `first` of these."""

    asked: int
    differ: int
    first: list[Answer]


def _compared_answers(subjects: list[Subject], X: object, lengths: object) -> ComparedAnswers:
    """The answers of two models to the sequences `X`, compared place by place."""
    card = subjects[0].model.card
    asked = Sequences.of(X, lengths=lengths, per="answer" if card.prompts else None, like=card.manner)
    per = [subject.per for subject in subjects]
    if per[0] != per[1]:
        raise DataError(f"one model answers per {per[0]}, the other per {per[1]}: their answers cannot be compared")
    one, two = (subject.answers(asked) for subject in subjects)
    differ = [place for place, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
    listed = []
    for place in differ[:FACTS_SHOWN]:
        row, position = (place, None) if per[0] == "sequence" else asked.place(place)
        listed.append(Answer(row, position, one[place], two[place]))
    return ComparedAnswers(len(one), len(differ), listed)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
