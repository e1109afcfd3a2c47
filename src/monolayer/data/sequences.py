"""The dataset: sequences of tokens of any lengths, with labels, checked once and frozen.

Notation: `N` sequences, `T` tokens in all, `d` the dimension of vector tokens, `m` that of real labels.
Everything is stored flat, sequence after sequence, with `lengths` to cut it up again: no padding.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from monolayer.arrays import Array, Ints
from monolayer.data.choices import Belongs, Per, PerAnswer, PerOrAnswer, Unit
from monolayer.data.columns import Column, ColumnValues, flattened, token_place
from monolayer.data.growing import planned_labels, selected_plans
from monolayer.data.labelling import LABELLINGS, TOKEN, Labelling, generates
from monolayer.data.labels import Labels
from monolayer.data.layout import Columns, Manner
from monolayer.data.matching import read_matching
from monolayer.data.names import Names, cut_text
from monolayer.data.origin import Origin
from monolayer.data.plain import Given, array_like, is_list, plain_array
from monolayer.data.plan import ReadPlan
from monolayer.data.prompts import are_texts, as_generated
from monolayer.data.shapes import as_list, fields_of, without_labels
from monolayer.data.tabular import from_texts
from monolayer.errors import DataError
from monolayer.table import quoted

__all__ = ["Labels", "Per", "Sequences"]
MISSING = "labels are missing: give Y, or causal=True to memorize each next token"


@dataclass(frozen=True, eq=False)
class Sequences:
    """A dataset of `N` sequences.

    - `tokens`: row numbers `(T,)` of the vocabulary, or vectors `(T, d)`.
    - `lengths`: the number of tokens in each sequence, `(N,)`.
    - `vocabulary`: the names of the tokens; None if they are vectors.
    - `labels`: the labels of tokens or of sequences; None if there are none.
    - `prompts`: how many tokens of each sequence are its prompt, `(N,)`. The rest is the answer, if it has one. None if
      the data are not prompts and answers.
    - `origin`: where the sequences stand in the files that they were read from; None if they come from elsewhere.
    - `plans`: how each source was read, one plan per file; none if these sequences were computed.
    """

    tokens: Array
    lengths: Ints
    vocabulary: Names | None
    labels: Labels | None = None
    prompts: Ints | None = None
    origin: Origin | None = None
    plans: tuple[ReadPlan, ...] = ()

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise DataError("the data are empty: there is no sequence to memorize or to answer")
        if int(self.lengths.min()) < 1:
            raise DataError(f"{self.named(int(self.lengths.argmin()))} is empty: every sequence needs a token")
        total = int(self.lengths.sum())
        if len(self.tokens) != total:
            raise DataError(f"there are {len(self.tokens)} tokens, but the lengths add up to {total}")
        if self.vocabulary is None and not np.isfinite(self.tokens).all():
            flat = int(np.flatnonzero(~np.isfinite(self.tokens).all(axis=1))[0])
            raise DataError(f"{self.where(flat)} is not finite: NaN and infinity are not allowed")
        if self.prompts is not None:
            fits = self.prompts.shape == self.lengths.shape and self.labels is None
            if not fits or (self.prompts < 1).any() or (self.prompts > self.lengths).any():
                raise DataError("each sequence has a prompt of one token to all of its tokens, and no labels")
        if self.labels is not None:
            needed, place, count = self.labellable, self.labels.place, len(self.labels.values)
            fits = count == needed if place is None else count == len(place) and (count == 0 or place[-1] < needed)
            if not fits:
                raise DataError(f"there are {count} labels for {needed} {self.labels.per}s: give one each")
            if self.labels.classes is None and not np.isfinite(self.labels.values).all():
                odd = int(np.flatnonzero(~np.isfinite(self.labels.values).all(axis=1))[0])
                raise DataError(f"the label of {self.labelled(int(self.labelled_places[odd]))} is not finite")

    # -- sizes and places ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Ints:
        """Where sequences begin and end, `(N + 1,)`: sequence `i` is `tokens[offsets[i]:offsets[i + 1]]`."""
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    @cached_property
    def sequence(self) -> Ints:
        """The number of the sequence that each token belongs to, `(T,)`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def position(self) -> Ints:
        """The position of each token in its sequence, `(T,)`, counted from 0."""
        return np.arange(len(self.tokens)) - np.repeat(self.offsets[:-1], self.lengths)

    @cached_property
    def rectangular(self) -> bool:
        """Whether all sequences have the same length."""
        return bool((self.lengths == self.lengths[0]).all())

    def sequences_of(self, flat: Ints) -> Ints:
        """The numbers of the sequences that the tokens at places `flat` of the flat arrays belong to."""
        return np.searchsorted(self.offsets, flat, side="right") - 1

    def starts_of(self, sequences: Ints) -> Ints:
        """The places in the flat arrays where the given sequences begin."""
        return self.offsets[sequences]

    def place(self, flat: int) -> tuple[int, int]:
        """The sequence of the token at place `flat` of the flat arrays, and its position there."""
        row = int(np.searchsorted(self.offsets, flat, side="right")) - 1
        return row, flat - int(self.offsets[row])

    def named(self, row: int, number: int | None = None) -> str:
        """Describe a sequence as 'sequence i', or as 'row i' if it is a prompt with its answer; `i` counts from 0.

        If it was read from a file, the place there follows: 'row 0 (line 2 of facts.csv)'. `number`: the number by
        which the user knows the sequence, if these are only some of the user's data.
        """
        name = f"{'sequence' if self.prompts is None else 'row'} {row if number is None else number}"
        return name if self.origin is None else f"{name} ({self.origin.place(row)})"

    def where(self, flat: int) -> str:
        """Describe a place in the flat arrays as 'token k of sequence i', with the sequence as `named` describes it."""
        row, position = self.place(flat)
        return f"token {position} of {self.named(row)}"

    @property
    def _labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence. Data without labels may get one per token."""
        return TOKEN if self.labels is None else self.labels.labelling

    def labelled(self, place: int) -> str:
        """Describe a place that can have a label: 'token k of sequence i', or 'sequence i' if sequences have labels."""
        return self._labelling.describe(self, place)

    @property
    def labellable(self) -> int:
        """How many places can have a label: the number of tokens, or of sequences if labels belong to sequences."""
        return self._labelling.count(self)

    @property
    def labelled_places(self) -> Ints:
        """The tokens or sequences `(P,)` that have a label."""
        if self.prompts is not None:
            return np.flatnonzero(self.position >= np.repeat(self._claimed, self.lengths))
        place = None if self.labels is None else self.labels.place
        return np.arange(self.labellable) if place is None else place

    @property
    def _claimed(self) -> Ints:
        """The first position of each sequence whose next token belongs to the answer: the last token of the prompt.

        For a prompt without an answer, the length of the sequence.
        """
        assert self.prompts is not None  # the caller checked
        return np.where(self.prompts < self.lengths, self.prompts - 1, self.lengths)

    def check_labelled(self) -> None:
        """Refuse labelled data without any label, and prompts without an answer. Selecting rows may lead to either."""
        if self.prompts is not None and (self.prompts == self.lengths).any():
            row = int((self.prompts == self.lengths).argmax())
            prompt, _ = self.texts(row)
            raise DataError(
                f"{self.named(row)} is a prompt without an answer, {prompt!r}: give one, or remove it. If a column "
                "holds the answers, choose both columns with tokens= and labels= (--tokens, --labels)"
            )
        if self.labels is not None and len(self.labels.values) == 0:
            raise DataError("labels are missing: none of these sequences has one")

    def check_no_prompts(self) -> None:
        """Refuse prompts and answers, which only stock models that generate can memorize."""
        if self.prompts is not None:
            raise DataError(
                "prompts and answers are for architectures that generate: memorize_as('gpt2', …); "
                "per='sequence' makes a label of each answer"
            )

    def named_labels(self) -> Array | None:
        """The labels of all tokens or sequences under the names that users know, with None for a missing label.

        None if the data have no labels at all.
        """
        if self.labels is None:
            return None
        names = self.labels.decode(self.labels.values)
        if self.labels.place is None:
            return names
        labels = np.full(self.labellable, None, dtype=object)
        for place, name in zip(self.labels.place.tolist(), names.tolist(), strict=True):
            labels[place] = name
        return labels

    def texts(self, row: int) -> tuple[str, str]:
        """The prompt and the answer of sequence `row`, as text."""
        assert self.prompts is not None  # the caller checked
        assert self.vocabulary is not None
        words = self.vocabulary.decode(self.tokens[self.offsets[row] : self.offsets[row + 1]]).tolist()
        cut = int(self.prompts[row])
        return "".join(map(str, words[:cut])), "".join(map(str, words[cut:]))

    @property
    def per_answer(self) -> PerAnswer:
        """How to read prompts and answers so that they are these.

        It is `continuation` if some answer lacks the space that `answer` would put in front of it.
        """
        facts = (self.texts(row) for row in range(len(self)))
        spaced = all(as_generated(prompt, answer) == answer for prompt, answer in facts if answer)
        return "answer" if spaced else "continuation"

    def only_prompts(self) -> Sequences:
        """The prompts without their answers. Data that are not prompts are returned unchanged."""
        if self.prompts is None:
            return self
        in_prompt = self.position < np.repeat(self.prompts, self.lengths)
        return Sequences(
            self.tokens[in_prompt], self.prompts, self.vocabulary, None, self.prompts, self.origin, self.plans
        )

    def select(self, rows: Ints) -> Sequences:
        """Sequences `rows` (numbers, negative ones from the end, or a mask), in that order, with labels."""
        lengths, flat, labels = self.lengths[rows], self.flat(rows), self.labels
        if labels is not None:
            labels = labels.take(labels.labelling.places(self, rows), self.labellable)
        prompts = None if self.prompts is None else self.prompts[rows]
        origin = None if self.origin is None else self.origin.select(np.arange(len(self))[rows])
        plans = selected_plans(self.plans, lengths, labels, prompts, len(self))
        return Sequences(self.tokens[flat], lengths, self.vocabulary, labels, prompts, origin, plans)

    def flat(self, rows: Ints) -> Ints:
        """The places of the tokens of sequences `rows` in the flat arrays, sequence after sequence."""
        lengths = self.lengths[rows]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)[:-1]])
        places: Ints = np.arange(int(lengths.sum())) - np.repeat(starts - self.offsets[:-1][rows], lengths)
        return places

    def split(self, flat: Array) -> list[Array]:
        """Cut an array over tokens into one array per sequence."""
        cuts = self.offsets.tolist()
        return [flat[start:end] for start, end in pairwise(cuts)]

    # -- making one ------------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        X: Given,
        Y: Given = None,
        *,
        lengths: Given = None,
        per: Belongs | None = None,
        unit: Unit | None = None,
        tokens: str | None = None,
        labels: str | None = None,
        vocabulary: Names | None = None,
        like: Manner | None = None,
        labelled: bool = False,
        ours: bool = False,
    ) -> Sequences:
        """Make sequences from arrays, tensors, lists, strings, tables, dicts or pairs.

        - `X`: integer or string tokens `(N, n)`; vectors `(N, n, d)`; a list of sequences of any lengths whose tokens
          are integers, strings or vectors, of one kind throughout; or a list of strings. A table (pandas, Polars,
          Arrow), a list of dicts or a dict of columns is read by the names of its columns, with its labels unless `Y`
          is given. Any other dict holds a label for every key.
        - `Y`: one label per token or one per sequence. Integers, strings and booleans (1 and 0) are classes; floats
          are real labels (scalars or vectors).
        - `lengths`: the lengths `(N,)` to which padded arrays, and padded labels with them, are cut.
        - `per`: what a label belongs to, `token` or `sequence`; by default the shape of `Y` decides (`labels.py`). With
          `answer`, `X` and `Y` are prompts and answers, as text; with `continuation` no space is put between them.
        - `unit`: how to split strings: into `characters` (the default in a list), into `words` (the default in tables
          and dicts), or not at all (`whole`): then a lone integer is a sequence too.
        - `tokens`, `labels`: the names of the columns to read, if they are not the usual ones.
        - `vocabulary`: tokens get its row numbers, and a token that it lacks is an error that names it.
        - `like`: how the model that is asked reads data (`model.card.manner`), which settles what the data leave open.
        - `labelled`: whether labels are needed. Without `Y`, pairs, and a Series of pandas with an index, are then keys
          and values.
        - `ours`: whether the caller gives its arrays away. They are then kept without a copy if possible, and the
          caller must not change them later.
        """
        X, Y = as_list(X), as_list(Y)

        def read(per: Belongs | None) -> Sequences:
            return cls._of(X, Y, lengths, Columns.of(tokens, labels, unit, per, like), labelled, ours)

        return read_matching(read, per, like).recoded(vocabulary)

    @classmethod
    def _of(cls, X: Given, Y: Given, lengths: Given, columns: Columns, labelled: bool, ours: bool) -> Sequences:
        """Make sequences as `of` does; `columns` says what to read, and how."""
        belongs, unit = columns.per, columns.unit
        read = X if isinstance(X, Sequences) else fields_of(X, Y, columns, labelled)
        if read is not None:
            if lengths is not None:
                raise DataError("lengths= is for padded arrays; these sequences have their own lengths")
            data = read if isinstance(read, Sequences) else cls(*read)
            return data if Y is None else data._labelled(Y, belongs)
        if lengths is not None and np.ma.is_masked(X):
            raise DataError("X has masked tokens, and lengths: pass X.filled(0), of which lengths cut off the padding")
        original, X = X, array_like(X)
        if isinstance(X, str | bytes | Set) or not hasattr(X, "__iter__"):
            way_out = "; read(X) reads a data file" if isinstance(X, str) else ""
            raise DataError(f"X is a {type(X).__name__}: it must be a list or an array of sequences{way_out}")
        if generates(belongs) or (
            belongs is None and lengths is None and generates(columns.belongs) and are_texts(X, Y)
        ):
            if lengths is not None:
                raise DataError("lengths= is for padded arrays; prompts and answers have their own lengths")
            return cls(*from_texts(X, Y, columns.verbatim))
        flat: ColumnValues
        cut: Unit | None = None
        whole = (unit or columns.like.unit) == "whole"
        if whole and plain_array(X) and X.ndim == 1 and X.dtype.kind in "iub":
            X, cut = X[:, None], "whole"
        if plain_array(X) and not (X.ndim == 1 and X.dtype.kind in "UT"):
            flat, sizes = _tokens_of_array(X, lengths)
        elif lengths is not None:
            raise DataError("lengths= is for padded arrays; lists have their own lengths")
        else:
            rows = [array_like(row) for row in X]
            if whole and any(isinstance(row, int) for row in rows):
                cut = "whole"
                rows = [[row] if isinstance(row, int) else row for row in rows]
            if any(isinstance(row, str) for row in rows):
                cut = unit or columns.like.unit or "characters"
                rows = [cut_text(row, cut) if isinstance(row, str) else row for row in rows]
            flat, sizes = _tokens_of_lists(rows)
        column = Column("token", ours=ours)
        column.add(flat, lambda place: token_place(place, sizes))
        finished = column.finish()
        names = finished.names
        data = cls(finished.values, sizes, None if names is None else names.cut_into(cut))
        data = replace(data, plans=(ReadPlan("X", "arrays", unit=cut, rows=len(data)),))
        if Y is None:
            if labelled and columns.like == Manner() and (way_out := without_labels(original)):
                raise DataError(f"{MISSING}{way_out}")
            return data
        padded = None if lengths is None else X.shape[1]
        per = None if belongs is None else LABELLINGS[belongs].belongs_to
        return data._with(Labels.of(Y, sizes, padded=padded, per=per, ours=ours))

    def recoded(self, vocabulary: Names | None) -> Sequences:
        """These sequences with the row numbers of another vocabulary; a token that it lacks is an error.

        They are unchanged if `vocabulary` is None.
        """
        present = self.vocabulary
        if vocabulary is None or present is vocabulary:
            return self
        first = self.tokens[0].tolist() if present is None else present.decode(self.tokens[:1]).tolist()[0]
        if present is None or present.integers != vocabulary.integers:
            raise DataError(
                f"{self.where(0)} is {quoted(first)}, but the tokens of the model are "
                f"{'integers' if vocabulary.integers else 'strings'}. CoNLL and CSV files always hold strings; JSONL, "
                "Parquet and npz hold whatever was written"
            )
        rows = vocabulary.find(present)[self.tokens]
        if rows.min() < 0:
            flat = int((rows < 0).argmax())
            name = present.decode(self.tokens[flat : flat + 1]).tolist()[0]
            raise DataError(f"{self.where(flat)} {vocabulary.never_seen(name)}")
        return replace(self, tokens=rows, vocabulary=vocabulary)

    def _labelled(self, Y: Given, per: PerOrAnswer | None) -> Sequences:
        """These sequences with the labels `Y` in place of their own."""
        if generates(per) or self.prompts is not None:
            raise DataError("prompts and answers are given together: two lists of strings, or one table")
        return self._with(Labels.of(Y, self.lengths, per=None if per is None else LABELLINGS[per].belongs_to))

    def _with(self, labels: Labels) -> Sequences:
        """These sequences with labels that were given beside them."""
        plan = self.plans[0] if len(self.plans) == 1 else ReadPlan("X", "arrays")
        plan = planned_labels(replace(plan, label=None, keyed=False, apart=True), self.lengths, labels)
        return replace(self, labels=labels, plans=(plan,))

    @property
    def keyed(self) -> bool:
        """Whether each sequence is a key of a table with its value, so that the keys are all that can be asked."""
        return len(self.plans) > 0 and all(plan.keyed for plan in self.plans)


def _tokens_of_array(X: Array, lengths: Given) -> tuple[Array, Ints]:
    """The tokens in an array as a flat array `(T,)` or `(T, d)`, and the lengths of the sequences.

    `lengths` cuts off padding; None if there is none.
    """
    if X.dtype.kind not in {2: "iubUT", 3: "iubf"}.get(X.ndim, ""):
        raise DataError(
            f"X has shape {X.shape} and type {X.dtype}; it must be integer or string tokens (N, n), "
            "or real vectors (N, n, d)"
        )
    count, width = X.shape[:2]
    if lengths is None:
        return X.reshape((count * width, *X.shape[2:])), np.full(count, width, dtype=np.int64)
    sizes = np.asarray(array_like(lengths))
    whole = sizes.dtype.kind in "iu" and sizes.shape == (count,)
    if count and not (whole and sizes.min() >= 1 and sizes.max() <= width):
        row = f"; that of sequence {int(((sizes < 1) | (sizes > width)).argmax())} is not" if whole else ""
        raise DataError(f"lengths must be {count} whole numbers between 1 and {width}{row}")
    sizes = sizes.astype(np.int64)
    return X[np.arange(width) < sizes[:, None]], sizes


def _tokens_of_lists(rows: list[Any]) -> tuple[ColumnValues, Ints]:
    """The tokens of all rows as a flat list or array, and the lengths of the rows; each row is a list or an array."""
    for number, row in enumerate(rows):
        if not is_list(row):
            lone = "; if each item is a sequence of one token, say unit='whole'; if all are one sequence, pass [X]"
            raise DataError(
                f"sequence {number} is {row!r} ({type(row).__name__}): X is a list of sequences, each a list "
                f"of tokens or a string{lone if isinstance(row, int) else ''}"
            )
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return flattened([row for row in rows if len(row)]), sizes
