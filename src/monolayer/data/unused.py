"""Names of tokens and labels that data do not use, such as those of facts that were forgotten."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Ints
from monolayer.data.names import Name, Names, is_forgotten
from monolayer.data.sequences import Sequences

_NONE = np.zeros(0, dtype=np.int64)


class UnusedNames(NamedTuple):
    """Rows of names that no fact uses: of tokens, and of classes. Integers are numbers, not names, and not counted."""

    tokens: Ints
    classes: Ints

    @property
    def total(self) -> int:
        """The number of unused names, tokens and classes together."""
        return len(self.tokens) + len(self.classes)

    def texts(self, data: Sequences, most: int) -> tuple[str, ...]:
        """The first few of these names; `data`: those in which they are not used."""
        tables = (data.vocabulary, self.tokens), (None if data.labels is None else data.labels.classes, self.classes)
        found = [str(names.names[row]) for names, rows in tables if names is not None for row in rows[:most].tolist()]
        return tuple(found[:most])


def unused_names(data: Sequences, always: Name | None = None) -> UnusedNames:
    """The names in the tables of `data` that none of their tokens and labels uses; `always`: a class that is in use."""
    labels, used = data.labels, _NONE
    if labels is not None and labels.classes is not None:
        used = np.unique(labels.values)
        if always is not None and not labels.classes.integers:  # integers are never dropped
            used = np.append(used, labels.classes.rows[always])
    return UnusedNames(
        _NONE if data.vocabulary is None else _unused_rows(data.vocabulary, np.unique(data.tokens)),
        _NONE if labels is None or labels.classes is None else _unused_rows(labels.classes, used),
    )


def _unused_rows(names: Names, used: Ints) -> Ints:
    """The rows of a table of strings that are not among `used`, and whose names were not dropped before."""
    if names.integers:
        return _NONE
    rows = np.setdiff1d(np.arange(len(names)), used)
    return np.array([row for row in rows.tolist() if not is_forgotten(names.names[row])], dtype=np.int64)
