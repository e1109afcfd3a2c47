"""Find names of tokens and labels that the data do not use, such as those of facts that were forgotten."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Ints
from monolayer.data.names import Name, Names, is_forgotten
from monolayer.data.sequences import Sequences

_NONE = np.zeros(0, dtype=np.int64)


class UnusedNames(NamedTuple):
    """The rows of names of tokens and of classes that no fact uses. Integers are not counted as names."""

    tokens: Ints
    classes: Ints

    @property
    def total(self) -> int:
        """The number of unused names, tokens and classes together."""
        return len(self.tokens) + len(self.classes)

    def texts(self, data: Sequences, most: int) -> tuple[str, ...]:
        """The first of these names, at most `most`; `data` are the data that do not use them."""
        tables = (data.vocabulary, self.tokens), (None if data.labels is None else data.labels.classes, self.classes)
        unused = [str(names.names[row]) for names, rows in tables if names is not None for row in rows[:most].tolist()]
        return tuple(unused[:most])


def unused_names(data: Sequences, always: Name | None = None) -> UnusedNames:
    """The names in the tables of `data` that no token and no label uses; `always` is a class that counts as used."""
    labels, tokens, classes = data.labels, _NONE, _NONE
    if data.vocabulary is not None:
        tokens = _unused_rows(data.vocabulary, data.tokens)
    if labels is not None and labels.classes is not None:
        classes = _unused_rows(labels.classes, labels.values, always)
    return UnusedNames(tokens, classes)


def _unused_rows(names: Names, rows: Ints, always: Name | None = None) -> Ints:
    """The rows of a table of strings that are not among `rows`, and whose names were not dropped before.

    Integers are never dropped. `always`: the name of a row that counts as used.
    """
    if names.integers:
        return _NONE
    used = np.zeros(len(names), dtype=bool)
    used[rows] = True
    if always is not None:
        used[names.rows[always]] = True
    return np.array(
        [row for row in np.flatnonzero(~used).tolist() if not is_forgotten(names.names[row])], dtype=np.int64
    )
