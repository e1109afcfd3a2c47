"""Which columns of a table hold the sequences, their tokens and their labels.

In long form a row is a token: a `sequence` column, whose runs of equal values are the sequences, a `token` column,
maybe a `label` column. In wide form a row is a sequence: a `tokens` column, maybe `labels` (one per token) or `label`
(one per sequence). A table of two columns with other names holds a key and a value per row: a sequence, and its label;
for a model that is asked, one of a single column holds keys. For a model that generates, text beside text is a prompt
and its answer, and their columns are found by their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from monolayer.data.labels import Belongs, check_per
from monolayer.data.names import Unit
from monolayer.data.prompts import ANSWERS, PROMPTS
from monolayer.errors import DataError

TAGS = ("ner_tags", "tags")
"""Columns that hold a label per token in many public datasets."""
USUAL = {"sequence", "token", "tokens", "label", "labels", *TAGS}


@dataclass(frozen=True)
class Manner:
    """How a model reads: what it cuts text into, and what its labels belong to. It settles what data leave open.

    With `per="answer"`, text beside text is a prompt and its answer.
    """

    unit: Unit | None = None
    per: Belongs | None = None


@dataclass(frozen=True)
class Columns:
    """The columns that the caller chose, None where the usual ones serve.

    `unit`: what a string is, `per`: what a label belongs to; None: what the model (`like`), the format or the data say.
    """

    tokens: str | None = None
    labels: str | None = None
    sequence: str | None = None
    unit: Unit | None = None
    per: Belongs | None = None
    like: Manner = Manner()

    def __post_init__(self) -> None:
        check_per(self.per)
        if self.unit is not None and self.unit not in get_args(Unit):
            raise DataError(f"unit must be one of {', '.join(map(repr, get_args(Unit)))}, not {self.unit!r}")
        if self.per == "answer" and self.unit is not None:
            raise DataError("prompts and answers are cut into words with the white space before them: leave unit out")

    @property
    def belongs(self) -> Belongs | None:
        """What a label belongs to, if that is known. With a `unit`, text is no answer unless `per` says so."""
        return self.per or (None if self.unit is not None and self.like.per == "answer" else self.like.per)

    @property
    def answers(self) -> bool:
        """Whether text beside text is an answer."""
        return self.belongs == "answer"


@dataclass(frozen=True)
class Layout:
    """The columns that a table is read by. `sequence` is None for wide form, `label` for no labels.

    `lists`: whether the format writes lists as such, so that text is one label, or a sequence of characters, and not
    words. `unit` and `per` are what the caller chose, or what follows from the model and the format. `pairs`: whether
    the columns were taken for keys and values because there are two of them; `settled`: whether somebody said what a
    value belongs to; `open`: the first row says whether they are prompts and answers.
    """

    sequence: str | None
    token: str
    label: str | None
    unit: Unit
    per: Belongs | None
    lists: bool
    pairs: bool = False
    settled: bool = True
    open: bool = False

    @classmethod
    def of(cls, columns: Columns, there: list[str], name: str, *, lists: bool = False) -> Layout:
        """Long form if there is a column for it and nothing speaks for wide form."""
        for column in (columns.sequence, columns.tokens, columns.labels):
            if column is not None and column not in there:
                raise no_column(column, there, name)
        chosen = columns.tokens or columns.labels or columns.sequence
        if chosen is None and columns.answers:
            named = cls._of_prompts(columns, there, name, lists)
            if named is not None:
                return named
        asking = columns.like.per is not None  # keys alone are something to ask a model, and nothing to build one from
        if chosen is None and len(there) in ((1, 2) if asking else (2,)) and not USUAL & set(there):
            return cls.of_pairs(there, columns, lists=lists)
        long = columns.sequence is not None or (
            "sequence" in there and "tokens" not in there and columns.tokens != "sequence"
        )
        token = columns.tokens or ("token" if long else "tokens")
        if token not in there:
            raise no_column(token, there, name)
        label = columns.labels
        if label is None:
            usual = [column for column in ("label",) if column in there]
            if not long:
                usual += [column for column in ("labels", *TAGS) if column in there and not (usual and column in TAGS)]
            if len(usual) > 1:
                both = " and ".join(map(repr, reversed(usual)))
                raise DataError(f"{name} has both {both}: choose one with labels= (--labels)")
            label = usual[0] if usual else None
        if long and columns.per in ("sequence", "answer"):
            raise DataError(f"{name} has a row per token, and a label in each: they cannot be one per {columns.per}")
        unit = columns.unit or columns.like.unit or ("characters" if lists else "words")
        layout = cls((columns.sequence or "sequence") if long else None, token, label, unit, columns.per, lists)
        twice = next((column for column in layout.columns if column is not None and there.count(column) > 1), None)
        if twice is not None:
            raise DataError(f"{name} has {there.count(twice)} columns called {twice!r}: give each its own name")
        return layout

    @classmethod
    def of_pairs(cls, names: list[str], columns: Columns, *, lists: bool) -> Layout:
        """A key and a value per row, or a key alone; by default text is cut into words, in every format alike."""
        key, value = names[0], (names[1] if len(names) > 1 else None)
        unit, per = columns.unit or columns.like.unit or "words", columns.belongs
        unsaid = columns.per is None and columns.answers
        return cls(None, key, value, unit, per or "sequence", lists, True, settled=per is not None, open=unsaid)

    @classmethod
    def _of_prompts(cls, columns: Columns, there: list[str], name: str, lists: bool) -> Layout | None:
        """Columns with the names that prompts and answers have, or the only column; None if there are no such."""
        prompts, answers = ([column for column in names if column in there] for names in (PROMPTS, ANSWERS))
        prompts = there if not prompts and len(there) == 1 else prompts
        if not prompts or USUAL & set(there):
            return None
        for several, option in ((prompts, "tokens"), (answers, "labels")):
            if len(several) > 1:
                both = " and ".join(map(repr, several))
                raise DataError(f"{name} has both {both}: choose one with {option}= (--{option}), and per='answer'")
        return cls(None, prompts[0], answers[0] if answers else None, "words", "answer", lists)

    @property
    def columns(self) -> tuple[str | None, str, str | None]:
        return self.sequence, self.token, self.label


def no_column(column: str, there: list[str], name: str) -> DataError:
    """There is no such column, or, in JSON, no such key."""
    return DataError(
        f"{name} has no column {column!r}; it has: {', '.join(there)}. Choose with tokens=, labels= and "
        "sequence= (--tokens, --labels, --sequence); columns without a header are read with format='conll'"
    )
