"""Names: the two-way table between what users call a token or a label and its row number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.data.choices import Unit
from monolayer.errors import DataError, similar_words
from monolayer.table import quoted

MOST_COMPARED = 20_000
"""Names that an unknown one is compared with at most, so that an error takes a fraction of a second to write."""

MOST_SUGGESTED = 5
"""Unknown names for which a call looks for one that is spelt alike."""

Name = str | int
_BUILT_FROM = {
    "characters": "characters: pass characters, or a list of them",
    "words": "words: pass words, or a list of them",
    "whole": "whole strings: pass each as it was, or a list of them",
    None: "lists of tokens: pass lists",
    "pieces": "words with the white space before them: pass text with the same",
}


FORGOTTEN = "(forgotten name {})"
"""The name of a row whose own name was dropped (`forget(names=True)`).

Splitting text into words or characters cannot produce such a name, since it holds spaces."""
_FORGOTTEN = re.compile(r"\(forgotten name [0-9]+\)")


def is_forgotten(name: Name) -> bool:
    """Whether a name is the placeholder of a name that was dropped."""
    return isinstance(name, str) and _FORGOTTEN.fullmatch(name) is not None


def cut_text(text: str, unit: Unit) -> list[str]:
    """The tokens of a string. A string of white space has tokens only if it is split into characters."""
    if unit == "whole":
        return [text] if text.strip() else []
    return text.split() if unit == "words" else list(text)


def check_utf8(what: str, names: Iterable[Name]) -> None:
    """Raise an error for a name with half of a surrogate pair, which UTF-8 cannot encode; `what`: kind of names."""
    for name in names:
        try:
            str(name).encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"the {what} {name!r} holds half of a surrogate pair, no character: rename it") from None


@dataclass(frozen=True)
class Names:
    """An ordered set of distinct names; row `i` of a table belongs to `names[i]`.

    A `range(V)` stands for integer names that are their own row numbers: then encoding is the identity,
    which is what callers with ready-made ids expect.
    """

    names: tuple[Name, ...] | range
    unit: Unit | None = field(default=None, compare=False)
    """How the strings that gave these names were split; None if the names came in lists.

    Integers are `whole` if each sequence was given as one number, without a list around it, such as a key of a dict.
    """

    def __post_init__(self) -> None:
        if isinstance(self.names, range):
            if self.names != range(len(self.names)):
                raise DataError(f"names given as {self.names} are not their own row numbers: give a tuple")
        elif len(set(self.names)) < len(self.names):
            twice = next(name for row, name in enumerate(self.names) if self.rows[name] != row)
            raise DataError(f"the name {twice!r} stands twice in a table of names: a name belongs to one row")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def identity(self) -> bool:
        """Whether every name is its own row number."""
        return isinstance(self.names, range)

    @property
    def integers(self) -> bool:
        """Whether the names are integers rather than strings (tables hold one kind)."""
        return self.identity or (len(self.names) > 0 and isinstance(self.names[0], int))

    @cached_property
    def cuts(self) -> Unit | None:
        """How text is split into these names; None if unknown, since they came as lists of characters."""
        if self.unit is not None or self.integers:
            return self.unit
        has_words = any(len(str(name)) != 1 and not is_forgotten(name) for name in self.names)
        return "words" if has_words else None

    def cut_into(self, unit: Unit | None) -> Names:
        """These names, marked as coming from strings that were split by `unit`.

        They are unchanged if `unit` is None, and integers are unchanged unless it is "whole".
        """
        return self if unit is None or (self.integers and unit != "whole") else replace(self, unit=unit)

    def meant(self, name: object) -> str:
        """A clause for an error about one unknown token: the known one that is spelt alike, if there is one."""
        if self.integers or not isinstance(name, str) or len(self) > MOST_COMPARED:
            return ""
        near = similar_words(name, self.names)
        return f" (did you mean {near[0]!r}?)" if near else ""

    def never_seen(self, name: object, *, suggest: bool = True) -> str:
        """`is 'Pariss', which the model has never seen (did you mean 'Paris'?); …`: the end of an error about a token.

        To look for a name that is spelt alike takes a while, so callers that describe many tokens ask for it in the
        first `MOST_SUGGESTED` of them.
        """
        meant = self.meant(name) if suggest else ""
        return f"is {quoted(name)}, which the model has never seen{meant}{self.built_from}"

    @property
    def built_from(self) -> str:
        """A clause for errors about an unknown token, which says how the known tokens were made."""
        if self.integers:
            return ""
        pieces = self.unit is None and any(str(name)[:1].isspace() for name in self.names)
        return f"; the model was built from {_BUILT_FROM['pieces' if pieces else self.unit]}"

    @cached_property
    def rows(self) -> dict[Name, int]:
        """The row number of every name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def _array(self) -> NDArray[np.generic]:
        return np.array(self.names, dtype=np.int64 if self.integers else object)

    def decode(self, rows: Ints) -> NDArray[np.generic]:
        """The names of an array of row numbers, in the same shape: integers, or an object array of strings."""
        return rows if self.identity else self._array[rows]

    def find(self, theirs: Names) -> Ints:
        """The row number in this table of each name of `theirs`; −1 if it is missing."""
        if self.identity and theirs.identity:
            number = np.arange(len(theirs))
            return np.where(number < len(self), number, -1)
        return np.array([self.rows.get(name, -1) for name in theirs.names], dtype=np.int64)

    def extended(self, more: list[Name]) -> Names:
        """These names in their rows, followed by the new ones among `more`, in order.

        Integers that are their own row numbers stay so, under the rule of `of_integers`.
        """
        new = sorted({name for name in more if name not in self}, key=lambda name: (isinstance(name, str), name))
        if not new:
            return self
        if len(self) and any(isinstance(name, int) != self.integers for name in new):
            odd = next(name for name in new if isinstance(name, int) != self.integers)
            ours, theirs = ("integers", "a string") if self.integers else ("strings", "an integer")
            raise DataError(f"the model's names are {ours}, and {odd!r} is {theirs}: names are of one kind")
        if self.identity and isinstance(new[0], int) and isinstance(new[-1], int) and new[0] >= 0:
            high = new[-1]
            if high < 1024 or high < 4 * (len(self) + len(new)) + 1024:
                return Names(range(high + 1), self.unit)
        return Names((*self.names, *new), self.unit)

    def without(self, rows: Ints) -> Names:
        """These names with placeholders in place of the names of `rows`. The numbers of all rows stay the same."""
        if self.integers or not len(rows):
            return self
        gone = set(rows.tolist())
        kept = (FORGOTTEN.format(row) if row in gone else name for row, name in enumerate(self.names))
        return Names(tuple(kept), self.unit)

    def __contains__(self, name: object) -> bool:
        return name in (self.names if isinstance(self.names, range) else self.rows)

    @classmethod
    def of_integers(cls, values: Ints, ends: tuple[int, int] | None = None) -> tuple[Names, Ints]:
        """Names and row numbers for integers: the integers themselves when they are nearly gapless from 0.

        'Nearly' keeps tables small: at most four rows for each value that occurs, and 1,024 more. `ends`: the least and
        the largest of the values, if they are known.
        """
        low, high = (int(values.min()), int(values.max())) if ends is None else ends
        # Counted rather than sorted, which costs no more memory than the values themselves.
        few = low >= 0 and 1024 <= high < 4 * len(values) + 1024
        if 0 <= low <= high < 1024 or (few and high < 4 * np.count_nonzero(np.bincount(values)) + 1024):
            return cls(range(high + 1)), values
        distinct, rows = np.unique(values, return_inverse=True)
        return cls(tuple(distinct.tolist())), rows.reshape(values.shape).astype(np.int64)


class NameBuilder:
    """Numbers strings in the order in which they first appear, over several calls of `encode`."""

    def __init__(self) -> None:
        # A missing name gets the length of the table at that moment, which is the next free number.
        self._rows: defaultdict[str, int] = defaultdict()
        self._rows.default_factory = self._rows.__len__

    def encode(self, names: Iterable[str]) -> list[int]:
        """The number of each of `names`; new names get new numbers."""
        return list(map(self._rows.__getitem__, names))

    def freeze(self, rows: NDArray[np.integer]) -> tuple[Names, Ints]:
        """The finished table, sorted so that the order of the data does not matter, and `rows` renumbered for it."""
        names = list(self._rows)
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.empty(len(names), dtype=np.int64)
        place[order] = np.arange(len(names))
        return Names(tuple(names[row] for row in order)), place.take(rows)
