"""What labels belong to: tokens, sequences, or prompts that go on. One class each, and a table of them.

`per` is the name of a labelling, as callers, files and `config.json` give it: `token`, `sequence`, `answer` or
`continuation`. It is looked up here, and whatever depends on it is asked of the object. A place is the number of a
token among all tokens, or that of a sequence, whichever the labels belong to.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from monolayer.arrays import Array, Ints


class CutData(Protocol):
    """Sequences of tokens that lie one after the other, as `Sequences` has them."""

    def __len__(self) -> int: ...
    @property
    def tokens(self) -> Any:
        """All tokens, sequence after sequence."""

    def sequences_of(self, flat: Ints, /) -> Ints:
        """The numbers of the sequences that tokens belong to."""

    def flat(self, rows: Ints, /) -> Ints:
        """The places of the tokens of sequences."""

    def split(self, flat: Array, /) -> list[Array]:
        """An array over tokens, cut into one per sequence."""

    def place(self, flat: int, /) -> tuple[int, int]:
        """The sequence of a token, and its position there."""

    def named(self, row: int, /) -> str:
        """A sequence in words."""

    def where(self, flat: int, /) -> str:
        """A token in words."""


class Place(NamedTuple):
    """A sequence, and the position of a token in it; None if the whole sequence is meant."""

    sequence: int
    position: int | None


class Labelling:
    """What labels belong to. The methods are those of labels of tokens."""

    name: ClassVar[str]
    """The name that users know."""
    belongs_to: ClassVar[Literal["token", "sequence"]] = "token"
    """What has a label: a token, as where the label is the next one, or a sequence."""
    read_as: ClassVar[Literal["token", "sequence", "answer"]] = "token"
    """What readers look for: labels of tokens or of sequences, or prompts with answers."""
    words: ClassVar[str]
    """What the data hold, in words."""
    generates: ClassVar[bool] = False
    """Whether labels are the next tokens, so that the model goes on by itself."""
    verbatim: ClassVar[bool] = False
    """Whether answers follow their prompts without a space in between."""

    @property
    def at_tokens(self) -> bool:
        """Whether every token may have a label of its own. Otherwise a sequence has one."""
        return self.belongs_to == "token"

    def count(self, data: CutData) -> int:
        """How many places there are."""
        return len(data.tokens)

    def places(self, data: CutData, rows: Ints) -> Ints:
        """The places of the sequences `rows`, in that order."""
        return data.flat(rows)

    def rows(self, data: CutData, places: Ints) -> Ints:
        """The sequences that places belong to."""
        return data.sequences_of(places)

    def place(self, data: CutData, place: int) -> Place:
        """The sequence of a place, and the position in it."""
        return Place(*data.place(place))

    def describe(self, data: CutData, place: int) -> str:
        """A place in words: 'token k of sequence i'."""
        return data.where(place)

    def by_sequence(self, data: CutData, flat: Array) -> list[Array] | Array:
        """What `flat` holds of each place, as one item per sequence: an array of its tokens' values, or a value."""
        return data.split(flat)

    def __repr__(self) -> str:
        return f"<labels per {self.name}>"


class PerToken(Labelling):
    """One label per token."""

    name: ClassVar[Literal["token"]] = "token"
    words = "one label per token"


class PerSequence(Labelling):
    """One label per sequence."""

    name: ClassVar[Literal["sequence"]] = "sequence"
    belongs_to = "sequence"
    read_as = "sequence"
    words = "one label per sequence"

    def count(self, data: CutData) -> int:
        """How many sequences there are."""
        return len(data)

    def places(self, data: CutData, rows: Ints) -> Ints:
        """The sequences themselves, as numbers; a mask becomes numbers too."""
        return np.arange(len(data))[rows]

    def rows(self, data: CutData, places: Ints) -> Ints:
        """The places themselves, which are sequences."""
        return places

    def place(self, data: CutData, place: int) -> Place:
        """The sequence, without a position."""
        return Place(place, None)

    def describe(self, data: CutData, place: int) -> str:
        """A sequence in words: 'sequence i'."""
        return data.named(place)

    def by_sequence(self, data: CutData, flat: Array) -> list[Array] | Array:
        """The values themselves, which are one per sequence."""
        return flat


class NextToken(Labelling):
    """No labels: each token is followed by the next one, and the last by nothing."""

    name = "next token"
    words = "texts without labels"
    generates = True


class Answers(NextToken):
    """Prompts and answers: each token of the answer is the label of the token before it."""

    name: ClassVar[str] = "answer"
    read_as = "answer"
    words = "prompts and answers"


class Continuations(Answers):
    """Prompts and answers that follow them as they are."""

    name = "continuation"
    verbatim = True


LabelUnit = PerToken | PerSequence
"""What a label belongs to where there are labels: a token or a sequence."""
TOKEN, SEQUENCE, NEXT = PerToken(), PerSequence(), NextToken()
LABELLINGS: dict[str, Labelling] = {each.name: each for each in (TOKEN, SEQUENCE, Answers(), Continuations())}
"""The labellings by the names that callers and files give as `per`."""
LABEL_UNITS: dict[Literal["token", "sequence"], LabelUnit] = {"token": TOKEN, "sequence": SEQUENCE}
"""Those of data that have labels."""


def generates(per: str | None) -> bool:
    """Whether `per` says that rows are prompts and answers; None leaves it open."""
    return per is not None and LABELLINGS[per].generates
