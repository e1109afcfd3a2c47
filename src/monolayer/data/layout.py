"""Decide which columns of a table hold the tokens and the labels. Each row is a sequence.

Tokens are in the column `tokens`. Labels are in `labels` (one per token) or in `label` (one per sequence). A table of
two columns without `tokens` holds a key and a value per row, a sequence and its label, whatever the two are called;
a column with the name of a label is the value. To ask a model, a table with one column of keys is enough. For a model
that generates, key and value are a prompt and its answer; in a larger table their columns are found by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from monolayer.data.choices import Belongs, PerOrAnswer, Unit
from monolayer.data.form import SourceForm
from monolayer.data.labelling import LABELLINGS, Labelling, generates
from monolayer.data.labels import check_per
from monolayer.data.plain import Given
from monolayer.data.plan import ReadColumn
from monolayer.data.prompts import ANSWER_COLUMNS, PROMPT_COLUMNS
from monolayer.errors import DataError, similar_words

BY_TOKEN = ("labels", "ner_tags", "tags")
"""Columns that hold one label per token. The last two names are common in public datasets."""
LABEL_COLUMNS = ("label", *BY_TOKEN)
USUAL_COLUMNS = {"tokens", *LABEL_COLUMNS}
INDEX_COLUMNS = ("", "Unnamed: 0", "index", "__index_level_0__")
"""What the index of a DataFrame is called in a file that pandas wrote with it."""


@dataclass(frozen=True)
class Manner:
    """How a model reads data that leave this open: how it splits text, what its labels belong to, the form of a file.

    With `per="answer"`, two columns of text are prompts and answers; `continuation` takes answers as they are.
    `leans`: whether there is no model yet, so that `per` says only what two columns without usual names are.
    """

    unit: Unit | None = None
    per: Belongs | None = None
    leans: bool = False
    form: SourceForm | None = None
    """The form of the data that the model was built from; None if there was nothing to choose, or if it is unknown."""


@dataclass(frozen=True)
class Columns:
    """Which columns the caller wants to read, and how.

    `tokens`, `labels`: names of columns; None for the usual names. `unit`: how strings are split. `per`: what a label
    belongs to. If these two are None, the model (`like`), the format or the data decide.
    """

    tokens: str | None = None
    labels: str | None = None
    unit: Unit | None = None
    per: PerOrAnswer | None = None
    like: Manner = Manner()
    verbatim: bool = False
    """Whether answers follow their prompts as they are, without a space in between."""
    keys: list[Given] | None = None
    """A list that collects the keys as they were given; None if the caller does not want them."""
    header: bool | None = None
    """Whether the first row of a CSV or TSV file is a header; None if its looks decide."""
    separator: str | None = None
    """What separates the columns of a CSV or TSV file; None if the first rows decide."""

    @classmethod
    def of(
        cls, tokens: str | None, labels: str | None, unit: Unit | None, per: Belongs | None, like: Manner | None
    ) -> Columns:
        """The columns for the options of a caller; `per="continuation"` means answers that are taken verbatim."""
        manner = like or Manner()
        check_per(per)
        chosen = per or manner.per
        if manner.per is not None:
            manner = replace(manner, per=LABELLINGS[manner.per].read_as)
        verbatim = chosen is not None and LABELLINGS[chosen].verbatim
        return cls(tokens, labels, unit, None if per is None else LABELLINGS[per].read_as, manner, verbatim)

    def __post_init__(self) -> None:
        check_per(self.per)
        if self.unit is not None and self.unit not in get_args(Unit):
            raise DataError(f"unit must be one of {', '.join(map(repr, get_args(Unit)))}, not {self.unit!r}")
        if generates(self.per) and self.unit is not None:
            raise DataError("prompts and answers are split into words with the white space before them: leave unit out")

    @property
    def labelling(self) -> Labelling | None:
        """What a label belongs to; None if nobody said."""
        return None if self.per is None else LABELLINGS[self.per]

    @property
    def belongs(self) -> Belongs | None:
        """What a label belongs to, if known. If the caller gives a `unit`, text is an answer only if `per` says so."""
        if self.per:
            return self.per
        splits_text = self.unit is not None
        return None if splits_text and generates(self.like.per) else self.like.per


@dataclass(frozen=True)
class TableLayout:
    """Which columns of a table are read, and how.

    - `token`, `label`: names of the columns; `label` is None if there are no labels.
    - `unit`: how strings are split.
    - `per`: what a label belongs to; None if the cells decide.
    - `pairs`: whether the columns are a key and a value.
    - `asks`: whether the caller did not say what a label belongs to, so that the data must make it clear.
    - `verbatim`: whether answers follow their prompts without a space in between.
    - `numbers`: the places of the columns that are read in the table, counted from 0; none if there are no columns.
    - `width`: how many columns the table has; 0 if there are none.
    - `remembered`: whether the form of the model's data decided which columns these are.
    - `unlike`: the form of the model's data, if the table has other columns and nobody chose any.
    """

    token: str
    label: str | None
    unit: Unit
    per: Belongs | None
    pairs: bool = False
    asks: bool = False
    verbatim: bool = False
    numbers: tuple[int, ...] = ()
    width: int = 0
    remembered: bool = False
    unlike: SourceForm | None = None

    @property
    def labelling(self) -> Labelling | None:
        """What a label belongs to; None if nobody said."""
        return None if self.per is None else LABELLINGS[self.per]

    @classmethod
    def of(cls, columns: Columns, there: list[str], name: str, *, lists: bool = False) -> TableLayout:
        """The layout of a table with the columns `there`; an error if two columns have the name of one that is read.

        `lists`: whether the format can hold lists, so that text is a sequence of characters, not of words. `name`: of
        the table, for errors.
        """
        layout = cls._of_form(columns, there, name, lists)
        for column in layout.columns:
            places = [str(number) for number, other in enumerate(there, 1) if other == column]
            if len(places) > 1:
                raise DataError(
                    f"{name} has {len(places)} columns called {column!r}, columns {' and '.join(places)}: give each "
                    "its own name"
                )
        return replace(layout, numbers=tuple(map(there.index, layout.columns)), width=len(there))

    @classmethod
    def _of_form(cls, columns: Columns, there: list[str], name: str, lists: bool) -> TableLayout:
        """The layout with the columns of the model's data, if the table has them; else with those that names show."""
        form, chosen = columns.like.form, (columns.tokens, columns.labels) != (None, None)
        # Without a header columns are called 1, 2, 3 …, which are names like any others in another table.
        numbered = form is not None and form.header is False and columns.header is not False
        known = None if form is None or numbered else form.columns_in(there)
        if form is None or known is None:
            layout = cls._of_names(columns, there, name, lists)
            return layout if form is None or form.key is None or chosen else replace(layout, unlike=form)
        if form.pair and not chosen:
            layout = cls.of_pairs(known, columns)
        else:
            token, label, *_ = *known, None
            wanted = replace(columns, tokens=columns.tokens or token, labels=columns.labels or label)
            layout = cls._of_names(wanted, there, name, lists)
        try:
            remembered = layout.columns != cls._of_names(columns, there, name, lists).columns
        except DataError:
            remembered = True
        return replace(layout, remembered=remembered)

    @classmethod
    def _of_names(cls, columns: Columns, there: list[str], name: str, lists: bool) -> TableLayout:
        """The layout of a table with the columns `there`, before it is checked for two columns of one name."""
        chosen = [column for column in (columns.tokens, columns.labels) if column is not None]
        for column in chosen:
            if column not in there:
                raise no_column(column, there, name)
        pair = None if chosen or "tokens" in there else _key_and_value(columns, there, name)
        if pair is not None:
            return cls.of_pairs(pair, columns)
        token = columns.tokens or "tokens"
        if token not in there:
            raise _no_key(there, name)
        label = columns.labels
        if label is None:
            tags = [column for column in BY_TOKEN if column in there]
            if "label" in there and "labels" in tags:
                raise DataError(f"{name} has both 'labels' and 'label': choose one with labels= (--labels)")
            label = "label" if "label" in there else tags[0] if tags else None
        unusual = label is not None and label not in ("label", *BY_TOKEN)
        per = columns.per or ("sequence" if label == "label" else columns.belongs if unusual else None)
        unit = columns.unit or columns.like.unit or ("characters" if lists else "words")
        return cls(token, label, unit, per, asks=unusual and per is None, verbatim=columns.verbatim)

    @classmethod
    def of_pairs(cls, names: list[str], columns: Columns) -> TableLayout:
        """The layout of rows with a key and a value, or a key alone.

        By default text is split into words, in every format.
        """
        value = names[1] if len(names) > 1 else None
        unit = columns.unit or columns.like.unit or "words"
        per = columns.belongs or ("sequence" if value == "label" else None)
        # Lists in a column that is called `labels` or `tags` hold one label per token.
        by_cells = per is None and value in BY_TOKEN
        return cls(
            names[0],
            value,
            unit,
            None if by_cells else per or "sequence",
            pairs=True,
            asks=per is None,
            verbatim=columns.verbatim,
        )

    @classmethod
    def of_lines(cls, columns: Columns) -> TableLayout:
        """The layout of lines of text: each line is a sequence, or a prompt for a model that generates, without labels.

        By default a line is split as the model splits strings, or else into words.
        """
        return cls("text", None, columns.unit or columns.like.unit or "words", columns.belongs)

    @property
    def keyed(self) -> bool:
        """Whether rows are keys with their values: in two columns, or in a column of keys that a caller has named."""
        return self.pairs or self.token != "tokens"

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        return [self.token] if self.label is None else [self.token, self.label]

    @property
    def words_per_token(self) -> bool:
        """Whether text in the column of labels holds one word per token, which its name says beside `tokens`."""
        return self.per is None and self.label in BY_TOKEN and not self.pairs

    @property
    def planned(self) -> tuple[ReadColumn | None, ReadColumn | None]:
        """The columns of keys and of labels, as a `ReadPlan` states them; None where there is no such column."""
        columns = [ReadColumn(*column) for column in zip(self.columns, self.numbers, strict=False)]
        return columns[0] if columns else None, columns[1] if len(columns) > 1 else None


def _key_and_value(columns: Columns, there: list[str], name: str) -> list[str] | None:
    """The columns to read in a table without the usual names; None if they cannot be told.

    Prompts and answers are found by name, and beside prompts the only other column holds the answers. Otherwise they
    are both columns, or the only one, which holds keys.
    """
    prompts, answers = ([column for column in names if column in there] for names in (PROMPT_COLUMNS, ANSWER_COLUMNS))
    if generates(columns.belongs) and prompts:
        for several, option in ((prompts, "tokens"), (answers, "labels")):
            if len(several) > 1:
                both = " and ".join(map(repr, several))
                raise DataError(f"{name} has both {both}: choose one with {option}= (--{option}), and per='answer'")
        others = [column for column in there if column not in (*prompts, *answers, *INDEX_COLUMNS)]
        return prompts + (answers or (others if len(there) == 2 else []))
    # Keys alone are enough to ask a model, and not enough to build one.
    asking = columns.like.per is not None or generates(columns.belongs)
    if len(there) == 2 and there[0] in LABEL_COLUMNS and there[1] not in LABEL_COLUMNS:
        return there[::-1]
    return there if len(there) == 2 or (len(there) == 1 and asking) else None


def no_column(column: str, there: list[str], name: str) -> DataError:
    """The error to raise if a table lacks a column that the caller named or, in JSON, a key."""
    near = similar_words(column, there)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return DataError(
        f"{name} has no column {column!r}{meant}; it has: {', '.join(map(repr, there))}. Choose with tokens= and "
        "labels= (--tokens, --labels)"
    )


def _no_key(there: list[str], name: str) -> DataError:
    """The error to raise if the columns of a table do not show which of them is the key and which the label."""
    if not there:
        return DataError(f"{name} has no columns: give each row a key and its value")
    if len(there) == 1:
        return DataError(
            f"{name} has one column, {there[0]!r}, and a table has two: a key and its value. A file with a sequence "
            "per line, without labels, is format='text'; one token per line, without a header, is format='conll'"
        )
    others = [column for column in there if column not in INDEX_COLUMNS]
    if len(there) == 3 and len(others) == 2 and there[0] in INDEX_COLUMNS:
        return DataError(
            f"{name} has three columns, {_quoted(there)}, and the first looks like the index that pandas writes. Write "
            f"it without: to_csv(path, index=False); or choose two: tokens={others[0]!r}, labels={others[1]!r} "
            "(--tokens, --labels)"
        )
    label = next((column for column in there if column in LABEL_COLUMNS), there[-1])
    key = next((column for column in others if column != label), there[0])
    return DataError(
        f"{name} has {len(there)} columns, {_quoted(there)}, and none of them is called 'tokens'. Choose the key and "
        f"the label with tokens= and labels= (--tokens, --labels), such as tokens={key!r}, labels={label!r}; a row is "
        "a sequence, and one token per line, without a header, is format='conll'"
    )


def _quoted(names: list[str]) -> str:
    """The names of columns in quotes, the first ten of them."""
    return ", ".join(map(repr, names[:10])) + (" …" if len(names) > 10 else "")
