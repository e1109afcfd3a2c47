"""Collect sequences while they are read, and encode them a chunk at a time.

At any moment at most about `TOKENS_AT_ONCE` tokens are Python objects. The others have already become row numbers, with
4 bytes per string token and 8 per integer token. The table of names is put in order once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Array, Ints
from monolayer.data.choices import Unit
from monolayer.data.columns import Coded, Column, ColumnValues, token_place
from monolayer.data.labelling import SEQUENCE, TOKEN, LabelUnit
from monolayer.data.labels import Labels, ignored_label
from monolayer.data.names import Names
from monolayer.data.origin import GrowingOrigin, Origin, SourceFile
from monolayer.data.plain import Given
from monolayer.data.plan import Format, PlannedPer, ReadPlan, joined
from monolayer.data.prompts import tokens_of
from monolayer.errors import DataError
from monolayer.table import plural

GAP: Given = object()
"""Stands in the place of a label, or of all labels of a row, that is missing on purpose."""
TOKENS_AT_ONCE = 1 << 16
"""How many tokens a chunk holds; if tokens are vectors, how many numbers."""


class SequenceFields(NamedTuple):
    """The fields of `Sequences`, in their order, before they are checked."""

    tokens: Array
    lengths: Ints
    vocabulary: Names | None
    labels: Labels | None
    prompts: Ints | None
    origin: Origin | None
    plans: tuple[ReadPlan, ...] = ()


class Growing:
    """A dataset that grows: add sequences one by one (`row`) or many at once (`rows`), then `finish`.

    `name` is what error messages call the data, and `unit` is what they call a row ("line"). They also give the number
    of the line that comes with each row. `in_file`: whether the data are those of a file, so that `finish` tells where
    each sequence stands in it. `format`: how the plan of what was read calls the source.
    """

    def __init__(self, name: str, format: Format, unit: str = "line", *, in_file: bool = False) -> None:
        self.name, self.unit = name, unit
        self.plan = ReadPlan(name, format)
        """What is known so far of how the data are read; `finish` adds what only the whole of them shows."""
        self._origin = GrowingOrigin() if in_file else None
        self.cut: Unit | None = None
        """How strings were split; None if there were none."""
        self.keys: list[Given] | None = None
        """A list that collects the keys of the sequences as they were given; None if the caller does not want them."""
        self.bare = 0
        """How many sequences were given as one number, without a list around it."""
        self.prompts: list[int] = []
        """Number of prompt tokens of each sequence; empty if there are no prompts."""
        self.doubtful = ""
        """Names of the two columns, in words, if the caller did not say what a label belongs to; else empty."""
        self._labelling: LabelUnit | None = None
        self._token_column, self._label_column = Column("token"), Column("label")
        self._all_sizes: list[Ints] = []
        self._count = self._sequences = 0
        self._verbatim = False
        self._spaced = 0
        self._first: int | None = None  # the line of the first sequence whose label is not a gap
        self._empty()

    def _empty(self) -> None:
        """Start a new, empty chunk of Python objects."""
        self._tokens: list[Given] = []
        self._labels: list[Given] = []
        self._lines: list[int] = []
        self._sizes: list[int] = []
        self._weight = 0

    def remembered(self, what: str) -> None:
        """State in the plan that the form of the model's data decided this."""
        self.plan = replace(self.plan, remembered=(*self.plan.remembered, what))

    def at(self, line: int) -> str:
        """Describe a place in the data, such as 'line 7 of data.jsonl'."""
        return f"{self.unit} {line} of {self.name}"

    def row(self, line: int, tokens: Sequence[Given], labels: Given, labelling: LabelUnit | None) -> None:
        """Add one sequence.

        `labels` is a list of one label per token, or one label, as `labelling` says, or `GAP`.
        """
        if len(tokens) == 0:
            raise DataError(f"{self.at(line)} is an empty sequence: every sequence needs a token")
        if labels is GAP:
            labelling = self._labelling
            labels = [None] * len(tokens) if labelling is TOKEN else None
        else:
            self._agree(line, labelling)
        if labelling is TOKEN:
            if len(labels) != len(tokens):
                raise DataError(
                    f"{self.at(line)} has {plural(len(tokens), 'token')} but {plural(len(labels), 'label')}: "
                    "give one per token"
                )
            self._labels.extend(labels)
        elif labelling is SEQUENCE:
            self._labels.append(labels)
        self._tokens.extend(tokens)
        self._lines.append(line)
        self._sizes.append(len(tokens))
        vector = tokens[0] if isinstance(tokens[0], list) else labels[0] if labelling is TOKEN else labels
        self._weight += len(tokens) * (len(vector) if isinstance(vector, list) else 1)
        if self._weight >= TOKENS_AT_ONCE:
            self._flush()

    def answer(self, line: int, prompt: Given, answer: Given, verbatim: bool) -> None:
        """Add a prompt and its answer, both text; None means that the answer is missing.

        Unless `verbatim`, the answer gets a space in front where prose would have one.
        """
        fact = tokens_of(prompt, answer, self.at(line), verbatim)
        self._verbatim, self._spaced = verbatim, self._spaced + fact.spaced
        self.prompts.append(len(fact.prompt))
        self.row(line, fact.prompt + fact.answer, None, None)

    def rows(
        self,
        lines: Sequence[int],
        tokens: ColumnValues | Coded,
        sizes: Ints,
        labels: ColumnValues | Coded | None,
        labelling: LabelUnit | None,
    ) -> None:
        """Add several sequences at once.

        `tokens` holds them one after the other, and `sizes` their lengths. There is one label per token or per
        sequence, as `labelling` says. `lines` has one number per sequence.
        """
        self._flush()
        self._agree(lines[0], labelling)
        self._add(lines, tokens, sizes, labels)

    def finish(self) -> SequenceFields:
        """Everything that was read, as the fields of `Sequences`."""
        self._flush()
        if not self._count:
            if self.plan.header:
                raise DataError(
                    f"{self.name} has a header and no row below it. If its first row is data, read it with "
                    "header=False (--no-header)"
                )
            raise DataError(f"{self.name} is empty: there is no sequence in it")
        tokens = self._token_column.finish()
        labels = None
        if self._labelling is not None:
            finished = self._label_column.finish(ignored=ignored_label(self._labelling))
            if self._label_column.kind is not None:
                labels = Labels(
                    finished.values, self._labelling.name, finished.names, finished.scalar, self._label_column.place
                )
        sizes = np.concatenate(self._all_sizes)
        if self.doubtful and labels is not None and _word_by_word(labels, sizes):
            raise DataError(
                f"{self.name} has equally many words in every row of {self.doubtful}: say what a label belongs to, "
                "per='sequence' or per='token' (--per)"
            )
        prompts = np.array(self.prompts, dtype=np.int64) if self.prompts else None
        cut: Unit | None = "whole" if self.bare == len(sizes) else self.cut
        names = None if tokens.names is None else tokens.names.cut_into(cut)
        origin = None if self._origin is None else self._origin.finish(SourceFile(self.name, self.unit))
        plan = replace(self._counted(sizes, labels, prompts), unit=cut)
        return SequenceFields(tokens.values, sizes, names, labels, prompts, origin, (plan,))

    def _counted(self, sizes: Ints, labels: Labels | None, prompts: Ints | None) -> ReadPlan:
        """The plan with what labels belong to and how many there are."""
        if prompts is not None:
            per: PlannedPer = "continuation" if self._verbatim else "answer"
            return planned_answers(replace(self.plan, per=per, spaced=self._spaced), sizes, prompts)
        return planned_labels(self.plan, sizes, labels)

    def _agree(self, line: int, labelling: LabelUnit | None) -> None:
        """Refuse a sequence that is not labelled like the first one whose label is not a gap."""
        if self._first is None:
            self._flush()
            self._first, self._labelling = line, labelling
            self._label_column.skip(self._count if labelling is TOKEN else self._sequences)
        if labelling is self._labelling:
            return
        if labelling is None or self._labelling is None:
            bare, full = (line, self._first) if labelling is None else (self._first, line)
            raise DataError(
                f"{self.at(bare)} has no label, but {self.unit} {full} has: label every sequence, or none. In JSON and "
                "Parquet, null says that there is none on purpose"
            )
        raise DataError(
            f"mixed label kinds: {self.unit} {self._first} has {self._labelling.words}, {self.at(line)} "
            f"one per {labelling.name}; label every token or every sequence"
        )

    def _add(
        self, lines: Sequence[int], tokens: ColumnValues | Coded, sizes: Ints, labels: ColumnValues | Coded | None
    ) -> None:
        """Encode the tokens and labels of sequences; `lines` has one number per sequence."""

        def line(row: int) -> str:
            return self.at(lines[row])

        def token(flat: int) -> str:
            return token_place(flat, sizes, line)

        self._token_column.add(tokens, token)
        if labels is not None:
            self._label_column.add(labels, token if self._labelling is TOKEN else line)
        if self._origin is not None:
            self._origin.add(self._sequences, lines)
        self._all_sizes.append(sizes)
        self._count += len(tokens)
        self._sequences += len(sizes)

    def _flush(self) -> None:
        """Encode the current chunk, and start a new one."""
        lines, tokens, labels, sizes = self._lines, self._tokens, self._labels, self._sizes
        self._empty()
        if sizes:
            self._add(lines, tokens, np.array(sizes), labels or None)


def planned_labels(plan: ReadPlan, sizes: Ints, labels: Labels | None) -> ReadPlan:
    """A plan with what these labels of sequences of lengths `sizes` belong to, and how many there are."""
    rows = len(sizes)
    if labels is None:
        return replace(plan, keyed=False, rows=rows)
    places = int(sizes.sum()) if labels.labelling.at_tokens else rows
    # Two columns with a label per token are sequences and their tags; a dict with such labels is a table all the same.
    keyed = plan.keyed and (plan.key is None or not labels.labelling.at_tokens)
    return replace(plan, per=labels.per, keyed=keyed, rows=rows, places=places, gaps=places - len(labels.values))


def planned_answers(plan: ReadPlan, sizes: Ints, prompts: Ints) -> ReadPlan:
    """A plan with the counts of prompts and answers; `prompts`: how many of the `sizes` tokens are the prompt."""
    rows, gaps = len(sizes), int((prompts == sizes).sum())
    return replace(plan, keyed=False, rows=rows, places=rows, gaps=gaps)


def selected_plans(
    plans: tuple[ReadPlan, ...], sizes: Ints, labels: Labels | None, prompts: Ints | None, before: int
) -> tuple[ReadPlan, ...]:
    """The plan of some rows out of `before` that were read as `plans` say. Which file each came from is not stated."""
    if not plans:
        return ()
    plan = plans[0] if len(plans) == 1 else joined(plans)
    plan = replace(plan, chosen_from=before if plan.chosen_from is None else plan.chosen_from)
    if prompts is not None:
        return (planned_answers(plan, sizes, prompts),)
    return (replace(planned_labels(plan, sizes, labels), keyed=plan.keyed and labels is not None),)


def _word_by_word(labels: Labels, sizes: Ints) -> bool:
    """Whether every label has as many words as its sequence has tokens (`sizes` `(N,)`), and some sequence has several.

    Then a label may be meant as one word per token.
    """
    if labels.labelling.at_tokens or labels.place is not None or labels.classes is None or sizes.max() == 1:
        return False
    words = np.array([len(str(name).split()) for name in labels.classes.names])
    return bool((words[labels.values] == sizes).all())
