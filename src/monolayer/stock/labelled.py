"""What a stock model must answer, and where: labels of tokens, of sequences, or the next token up to the end.

A language model recites: after the last token of a sequence comes the end token, and after the begin token the first
one, where all sequences have the same. Of prompts it answers how they go on, and nothing is asked inside them. Ids of
the model are rows of the data's vocabulary behind the special tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from reprlib import repr as short
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Ints
from monolayer.construct.consistency import Context, OnConflict
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Names, Sequences
from monolayer.data.columns import NO_LABEL
from monolayer.data.labelling import TOKEN, Labelling
from monolayer.data.names import check_utf8
from monolayer.errors import DataError
from monolayer.huggingface.architecture import BEGIN, END, TASK_LABELLINGS
from monolayer.huggingface.architecture import ModelTask as Kind
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.stock_kind import StockKind
from monolayer.huggingface.texts import TextCut, best_cut, tokenizer_fault
from monolayer.stock.draw import Storage

UNKNOWN_CLASS = "unknown"
"""The name of the class for what the data do not hold, unless a label has it or the caller gives another."""


class LabelledPlaces(NamedTuple):
    """Labelled places: token and place `(P,)`, and the row of each in the contexts that attention returns.

    Attention returns one context per sequence, or one per token in a causal model, and then that of a lone begin token.
    """

    token: Ints
    place: Ints
    row: Ints


@dataclass(frozen=True, eq=False)
class StockTask:
    """A `Task`, and the stock architecture that is to answer it: `kind` says with which of its models.

    `names`: of all ids, special tokens first.
    """

    task: Task
    architecture: StockKind
    kind: Kind
    names: tuple[str, ...]
    cut: TextCut
    """How the tokenizer cuts text."""
    unknown: int | None = None
    """The class of whatever the data do not hold, if there is one."""

    @property
    def labelling(self) -> Labelling:
        """Whether an answer belongs to a token, a sequence or a prompt."""
        return TASK_LABELLINGS[self.kind]

    @property
    def shift(self) -> int:
        """How many special tokens stand in front of the vocabulary."""
        return len(self.architecture.special)

    @property
    def data(self) -> Sequences:
        """The data whose labels the model must return."""
        return self.task.data

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; those of a language model are its tokens."""
        if self.labelling.generates:
            return self.names
        assert self.task.target.classes is not None
        return tuple(str(name) for name in self.task.target.classes.names)

    @property
    def recites_from_nothing(self) -> bool:
        """Whether the begin token alone determines the first token."""
        first = self.data.tokens[self.data.offsets[:-1]]
        return self.labelling.generates and self.data.prompts is None and bool((first == first[0]).all())

    @property
    def at_begin(self) -> bool:
        """Whether the begin token answers, for the whole sequence; a causal model answers at the last token instead."""
        return not self.labelling.at_tokens and not self.task.context.causal

    @cached_property
    def points(self) -> LabelledPlaces:
        """The places that have labels."""
        data, there = self.data, self.data.labelled_places
        if self.at_begin:
            return LabelledPlaces(np.full(len(there), BEGIN), np.zeros(len(there), np.int64), there)
        if not self.labelling.at_tokens:
            last = data.offsets[1:][there] - 1
            return LabelledPlaces(data.tokens[last] + self.shift, data.lengths[there], last)
        row = there if self.task.context.causal else data.sequence[there]
        points = LabelledPlaces(data.tokens[there] + self.shift, data.position[there] + 1, row)
        if not self.recites_from_nothing:
            return points
        return LabelledPlaces(*(np.append(part, one) for part, one in zip(points, (BEGIN, 0, -1), strict=True)))

    def select(self, rows: Ints) -> StockTask:
        """The task of some sequences, stored as cells; contradictions among them are errors."""
        return stock_task(
            self.architecture,
            self.data.select(rows),
            self.names,
            StockOptions(self.task.context.positions, "cells", unknown=self.unknown, cut=self.cut),
        )

    def where(self, point: int) -> str:
        """Where the labelled point of this number stands in the data, in words."""
        there = self.data.labelled_places
        return self.data.labelled(int(there[point])) if point < len(there) else "the begin token"

    def labels(self, target: Target) -> Ints:
        """Class numbers `(P,)` of the labelled points."""
        number: Ints = target.number
        if not self.recites_from_nothing:
            return number
        return np.append(number, self.data.tokens[0] + self.shift)

    def usual_labels(self, target: Target) -> Ints:
        """The label `(V,)` that the embedding of each id holds: its most frequent one; among equals the least.

        An id without a labelled place holds the first class that the data have. So nothing here depends on labels
        of earlier data, and a label that was forgotten is answered nowhere. If there is a class `unknown`, all hold it.
        """
        if self.unknown is not None:
            return np.full(len(self.names), self.unknown)
        data, label = self.data, self.labels(target)
        token, count = self.points.token, len(self.classes)
        pairs, often = np.unique(token * count + label, return_counts=True)
        usual = np.full(len(self.names), label.min())
        # The last assignment to an id wins: its most frequent label.
        order = np.lexsort((-pairs, often))
        usual[pairs[order] // count] = pairs[order] % count
        if self.labelling.generates and data.prompts is None and not self.recites_from_nothing:
            first = np.bincount(data.tokens[data.offsets[:-1]])
            usual[BEGIN] = int(first.argmax()) + self.shift
        return usual


class StockOptions(NamedTuple):
    """What a caller chooses about a stock model. `positions`: whether order counts. `storage`: how facts are stored.

    `on_conflict`: which label wins where the data contradict themselves. `unknown`: number of the class that answers
    what the data do not hold. `cut`: how the tokenizer cuts text, if that is settled.
    """

    positions: bool
    storage: Storage
    on_conflict: OnConflict = "error"
    unknown: int | None = None
    cut: TextCut | None = None


def stock_task(architecture: StockKind, data: Sequences, names: tuple[str, ...], options: StockOptions) -> StockTask:
    """What this architecture must answer for `data`, or an error that says why it cannot.

    `names`: the names of all ids (`token_names`).
    """
    positions, storage, on_conflict, unknown, cut = options
    labels, special = data.labels, architecture.special.values()
    cut = cut or best_cut(special, data)
    if fault := tokenizer_fault(cut, special, data):
        raise DataError(f"{fault}: change that in the data")
    kind: Kind = "lm" if labels is None else labels.per
    if kind not in architecture.models:
        takes = " or ".join(TASK_LABELLINGS[known].words for known in architecture.models)
        if data.prompts is not None:
            raise DataError(
                f"{architecture.name} is for {takes}, and does not generate: for prompts and answers use gpt2, llama "
                "or a similar one, or per='sequence', which makes each answer a label"
            )
        others = ", ".join(one.name for one in ARCHITECTURES.values() if kind in one.models)
        have = TASK_LABELLINGS[kind].words.replace("texts", "sequences")
        raise DataError(f"{architecture.name} is for {takes}; the data have {have}: take one of {others}")
    if labels is not None and labels.classes is None:
        raise DataError("the labels are real numbers: a stock architecture answers with classes")
    check_utf8("label", () if labels is None or labels.classes is None else labels.classes.names)
    if storage == "steps":
        _check_storable_as_steps(architecture, positions, unknown)
    context = Context(data, data.tokens, positions, architecture.causal)
    if labels is not None and architecture.causal and not labels.labelling.at_tokens:
        # The last token sees all of its sequence, and it is where these architectures read their answer.
        table = np.arange(len(labels.classes or ()), dtype=np.float64)[:, None]
        last = data.offsets[1:][data.labelled_places] - 1
        target = Target(labels.values, table, TOKEN.name, labels.classes, False, last)
    elif labels is not None:
        target = Target.of(data, False)
    else:
        number = np.append(data.tokens[1:] + len(architecture.special), 0)
        number[data.offsets[1:] - 1] = END
        table = np.arange(len(names), dtype=np.float64)[:, None]
        place = None if data.prompts is None else data.labelled_places
        number = number if place is None else number[place]
        target = Target(number, table, TOKEN.name, Names(names), False, place, next_token=True)
    return StockTask(Task(context, target, None, on_conflict), architecture, kind, names, cut, unknown)


def _check_storable_as_steps(architecture: StockKind, positions: bool, unknown: int | None) -> None:
    """Refuse what cannot be stored as steps, with an error that says what can be done instead."""
    if architecture.rms:
        raise DataError(
            f"the norms of {architecture.name} compute in float32 whatever the weights are, which loses what float64 "
            "weights hold: take storage='cells', the default, or gpt2 or starcoder2"
        )
    if unknown is not None:
        raise DataError(
            "unknown= needs storage='cells', the default, where a key activates only its own neurons; in steps every "
            "key lies between two others, and is answered as one of them"
        )
    if positions and not architecture.has_places:
        raise DataError(
            f"{architecture.name} has no table of positions, and its rotary ones do not reach a constant query: "
            "drop positions, take storage='cells', the default, whose queries they do reach, or take gpt2"
        )


def unknown_class(data: Sequences, unknown: str | int | bool | None, storage: Storage) -> str | int | None:
    """The name of the class for what the data do not hold, or None if there is to be none.

    `unknown`: as for `memorize_as`. By default keys and values have one, under a name that is not a label of theirs, so
    that a stored answer is never taken for it.
    """
    classes = None if data.labels is None else data.labels.classes
    by_default = data.keyed and classes is not None and storage == "cells"
    if unknown is False or (unknown is None and not by_default):
        return None
    if unknown is None or unknown is True:
        taken = () if classes is None else classes
        if classes is not None and classes.integers:
            return next(number for number in count(-1, -1) if number != NO_LABEL and number not in taken)
        names = chain([UNKNOWN_CLASS], (f"{UNKNOWN_CLASS} ({number})" for number in count(2)))
        return next(name for name in names if name not in taken)
    return unknown


def with_unknown(data: Sequences, unknown: str | int) -> tuple[Sequences, int]:
    """The data with the class `unknown` added, and its number. Rows that have this label already keep it."""
    labels = data.labels
    if labels is None or labels.classes is None:
        raise DataError(
            "unknown= names a class, and the data have none: give a label per sequence or per token; of prompts and "
            "answers, per='sequence' makes a label of each answer"
        )
    names = labels.classes
    if names.integers:
        unknown = _class_number(unknown)
    elif not isinstance(unknown, str) or not unknown:
        raise DataError(f"unknown must be the name of a class, such as 'unknown', not {unknown!r}")
    if unknown in names.names:
        return data, list(names.names).index(unknown)
    return replace(data, labels=replace(labels, classes=Names((*names.names, unknown)))), len(names)


def _class_number(unknown: str | int) -> int:
    """`unknown` as a class of integer labels; the command line gives it as text."""
    number: object = unknown
    if isinstance(unknown, str) and re.fullmatch(r"\s*[+-]?[0-9]+\s*", unknown):
        number = int(unknown)
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise DataError(
            f"the labels are integers, and {unknown!r} is not: give an integer that they do not use, such as unknown=-1"
        )
    if number == NO_LABEL:
        raise DataError(
            f"unknown={NO_LABEL} is not a class: {NO_LABEL} means that there is no label. Give another integer"
        )
    if not -(2**63) <= number < 2**63:
        raise DataError(f"unknown={short(number)} is beyond 63 bits: give a smaller integer, such as unknown=-1")
    return int(number)


def token_names(vocabulary: Names, special: Mapping[str, str]) -> tuple[str, ...]:
    """Names of all ids: special tokens, then the vocabulary; a clash is an error that names it."""
    words = tuple(str(name) for name in vocabulary.names)
    clash = sorted(set(words) & set(special.values()))
    if clash:
        raise DataError(
            f"the token {clash[0]!r} of the data is also the name of a special token of this architecture "
            f"({', '.join(special.values())}): rename it in the data"
        )
    check_utf8("token", words)
    return (*special.values(), *words)
