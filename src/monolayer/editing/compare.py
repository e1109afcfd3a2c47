"""Where two models differ: in weights, configuration and names, in how many neurons, and in answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.data import Sequences
from monolayer.editing.comparison import Answer, Comparison
from monolayer.editing.difference import UNHASHED, Content, bits, config_change, difference, same
from monolayer.editing.hosts import compare_hosts, language_models
from monolayer.editing.record import FACTS_SHOWN
from monolayer.editing.subject import GivenModel, Subject, subject_of
from monolayer.errors import DataError
from monolayer.model.torch_settings import own_settings

NAME_KEYS = frozenset({"names", "vocabulary", "classes", "id2label", "label2id"})
"""Keys of a configuration that hold the names of tokens and classes."""


@own_settings()
def compare(one: GivenModel, two: GivenModel, X: object = None, *, lengths: object = None) -> Comparison:
    """Where two models, or folders of models, differ: in weights and neurons and, with `X`, in answers.

    - `one`, `two`: models, or folders of them; also a language model and a copy that has, or may have, facts attached.
    - `X`: sequences on which to compare answers, as for `predict`. Answers of stock models are those of a plain
      evaluation in float64.
    - `lengths`: how many tokens each row of a padded `X` has.

    Example:

        >>> one, two = ml.memorize({"a": 1, "b": 2}), ml.memorize({"a": 1, "b": 3})
        >>> difference = ml.compare(one, two, ["a", "b"])
        >>> print(difference.same, difference.answers)
        False 1
    """
    hosts = language_models(one, two)
    if hosts is not None:
        return compare_hosts(*hosts, X=X)
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
    counts: dict[str, int | None] = {}
    for name in sorted({*old.tensors, *new.tensors}):
        a, b = old.tensors.get(name), new.tensors.get(name)
        if not same(a, b):
            counts[name] = None
            if a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype:
                counts[name] = int(np.count_nonzero(bits(a) != bits(b)))
    return counts


class ComparedAnswers(NamedTuple):
    """How many answers were `asked` for, how many of them `differ`, and the `first` of these."""

    asked: int
    differ: int
    first: list[Answer]


def _compared_answers(subjects: list[Subject], X: object, lengths: object) -> ComparedAnswers:
    """The answers of two models to the sequences `X`, compared place by place."""
    card = subjects[0].model.card
    asked = Sequences.of(X, lengths=lengths, per="answer" if card.prompts else None, like=card.manner)
    labelling = subjects[0].labelling
    per = [subject.labelling.belongs_to for subject in subjects]
    if per[0] != per[1]:
        raise DataError(f"one model answers per {per[0]}, the other per {per[1]}: their answers cannot be compared")
    one, two = (subject.answers(asked) for subject in subjects)
    differ = [place for place, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
    listed = []
    for place in differ[:FACTS_SHOWN]:
        row, position = labelling.place(asked, place)
        listed.append(Answer(row, position, one[place], two[place]))
    return ComparedAnswers(len(one), len(differ), listed)
