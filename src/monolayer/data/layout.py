"""Which columns of a table hold the tokens and the labels. A row is a sequence.

Its tokens are in a column `tokens`; maybe it has `labels` (one per token) or a `label` (one per sequence). A table of
two columns with other names holds a key and a value per row: a sequence, and its label; for a model that is asked, one
of a single column holds keys. For a model that generates, they are a prompt and its answer, and are found by their
names in a larger table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from monolayer.data.labels import Belongs, check_per
from monolayer.data.names import Unit
from monolayer.data.prompts import ANSWERS, PROMPTS
from monolayer.errors import DataError

BY_TOKEN = ("labels", "ner_tags", "tags")
"""Columns that hold a label per token, the last two in many public datasets."""
USUAL_COLUMNS = {"tokens", "label", *BY_TOKEN}


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


@dataclass(frozen=True)
class TableLayout:
    """The columns that a table is read by. `label` is None for no labels.

    `per`: what a label belongs to; None: the cells say it. `pairs`: whether the columns are a key and a value. `asks`:
    whether nobody has said what a label belongs to, so that it must not be doubtful.
    """

    token: str
    label: str | None
    unit: Unit
    per: Belongs | None
    pairs: bool = False
    asks: bool = False

    @classmethod
    def of(cls, columns: Columns, there: list[str], name: str, *, lists: bool = False) -> TableLayout:
        """The layout of a table with the columns `there`, of which none that is read may have the name of another one.

        `lists`: whether the format writes lists as such, so that text is a sequence of characters, not of words.
        """
        layout = cls._of_names(columns, there, name, lists)
        for column in layout.columns:
            places = [str(number) for number, other in enumerate(there, 1) if other == column]
            if len(places) > 1:
                raise DataError(
                    f"{name} has {len(places)} columns called {column!r}, columns {' and '.join(places)}: give each "
                    "its own name"
                )
        return layout

    @classmethod
    def _of_names(cls, columns: Columns, there: list[str], name: str, lists: bool) -> TableLayout:
        chosen = [column for column in (columns.tokens, columns.labels) if column is not None]
        for column in chosen:
            if column not in there:
                raise no_column(column, there, name)
        pair = None if chosen or USUAL_COLUMNS & set(there) else _key_and_value(columns, there, name)
        if pair is not None:
            return cls.of_pairs(pair, columns)
        token = columns.tokens or "tokens"
        if token not in there:
            raise no_column(token, there, name)
        label = columns.labels
        if label is None:
            tags = [column for column in BY_TOKEN if column in there]
            if "label" in there and "labels" in tags:
                raise DataError(f"{name} has both 'labels' and 'label': choose one with labels= (--labels)")
            label = "label" if "label" in there else tags[0] if tags else None
        other = label is not None and label not in ("label", *BY_TOKEN)
        per = columns.per or ("sequence" if label == "label" else columns.belongs if other else None)
        unit = columns.unit or columns.like.unit or ("characters" if lists else "words")
        return cls(token, label, unit, per, asks=other and per is None)

    @classmethod
    def of_pairs(cls, names: list[str], columns: Columns) -> TableLayout:
        """A key and a value per row, or a key alone; by default text is cut into words, in every format alike."""
        value, unit = names[1] if len(names) > 1 else None, columns.unit or columns.like.unit or "words"
        per = columns.belongs
        return cls(names[0], value, unit, per or "sequence", pairs=True, asks=per is None)

    @property
    def columns(self) -> list[str]:
        """Those that are read."""
        return [self.token] if self.label is None else [self.token, self.label]


def _key_and_value(columns: Columns, there: list[str], name: str) -> list[str] | None:
    """The columns of a table without usual names: prompts and answers by their names, else both, or the keys."""
    prompts, answers = ([column for column in names if column in there] for names in (PROMPTS, ANSWERS))
    if columns.belongs == "answer" and prompts:
        for several, option in ((prompts, "tokens"), (answers, "labels")):
            if len(several) > 1:
                both = " and ".join(map(repr, several))
                raise DataError(f"{name} has both {both}: choose one with {option}= (--{option}), and per='answer'")
        return prompts + answers
    asking = (
        columns.like.per is not None or columns.belongs == "answer"
    )  # keys alone are something to ask a model, and nothing to build one from
    return there if len(there) == 2 or (len(there) == 1 and asking) else None


def no_column(column: str, there: list[str], name: str) -> DataError:
    """There is no such column, or, in JSON, no such key."""
    return DataError(
        f"{name} has no column {column!r}; it has: {', '.join(there)}. Choose with tokens= and labels= (--tokens, "
        "--labels); a row is a sequence, and one token per line, without a header, is format='conll'"
    )
