"""What must be stored: a label number for every labelled place, and what each number stands for.

Classes and real vectors become one thing: `number` `(P,)` and a `table` `(K, m)` of label values, so that
contradictions and runs are decided on integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints, Numbers, float64, home, joined, pick, places, smallest
from monolayer.data import Names, Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.data.labelling import LABELLINGS, TOKEN, Labelling
from monolayer.data.sequences import MISSING, Per
from monolayer.errors import DataError
from monolayer.kernels import counts_of


@dataclass(frozen=True, eq=False)
class Runs:
    """Points in order, cut where labels change: the places `(R,)` whose label differs from that of the next one.

    `number` `(P,)`: the label number of every point; None where labels are compared by value: then `label` `(m, P)`.
    """

    target: Target
    changes: Numbers
    number: Numbers | None = None
    label: Numbers | None = None

    @cached_property
    def level(self) -> Numbers:
        """The labels `(m, R + 1)` of the runs between them."""
        if self.number is not None:
            return self.target.values(joined([pick(self.number, self.changes), self.number[-1:]]))
        assert self.label is not None  # where there are no numbers
        if len(self.changes) == self.label.shape[1] - 1:
            return self.label
        return self.label.take(np.append(self.changes, self.label.shape[1] - 1), axis=1)


@dataclass(frozen=True, eq=False)
class Target:
    """`P` labelled places: `place` `(P,)` says which tokens or sequences; None: all.

    Numbers and places lie where the data do.
    """

    number: Numbers
    table: NDArray[np.float64]
    per: Per
    classes: Names | None
    scalar: bool
    place: Numbers | None = None
    next_token: bool = False
    by_value: bool = False
    """The label of place `i` is row `i` of the table, so equal rows have different numbers: compare the rows."""

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return LABELLINGS[self.per]

    @classmethod
    def of(cls, data: Sequences, causal: bool) -> Target:
        """Labels as given; without labels and with `causal`, each token's label is the next token."""
        data.check_no_prompts()
        labels = data.labels
        if labels is None:
            return cls._next_token(data, causal)
        if causal and not labels.labelling.at_tokens:
            raise DataError(
                "a label per sequence is read at the begin-of-sequence token, which sees nothing else in a causal "
                "model: drop causal=True, or give one label per token"
            )
        if labels.classes is not None:
            table = np.arange(len(labels.classes), dtype=np.float64)[:, None]
            return cls(labels.values, table, labels.per, labels.classes, labels.scalar, labels.place)
        table, number = distinct_rows(labels.values)
        return cls(number, table, labels.per, None, labels.scalar, labels.place)

    @classmethod
    def _next_token(cls, data: Sequences, causal: bool) -> Target:
        """The target in which the label of every token is the next one; the last token of a sequence has none."""
        if not causal:
            raise DataError(MISSING)
        if data.vocabulary is None:
            raise DataError("the next token of vector data is not a class: give Y, or use token ids")
        place = np.flatnonzero(data.position < np.repeat(data.lengths, data.lengths) - 1)
        if len(place) == 0:
            raise DataError("no sequence has a next token: every one has length 1")
        table = np.arange(len(data.vocabulary), dtype=np.float64)[:, None]
        return cls(data.tokens[place + 1], table, TOKEN.name, data.vocabulary, False, place, True)

    def runs(self, order: Numbers) -> Runs:
        """Runs of equal labels, the labelled places being in this order `(P,)`."""
        if not self.by_value:
            number = self._along(order)
            return Runs(self, places(number[1:] != number[:-1]), number)
        label = np.asarray(self.table.T.take(order, axis=1))
        differ = np.zeros(len(order) - 1, dtype=bool)
        for coordinate in label:
            differ |= coordinate[1:] != coordinate[:-1]
        return Runs(self, np.flatnonzero(differ), label=label)

    def _along(self, order: Numbers) -> Numbers:
        """The label numbers of places in this order, in the smallest type that holds them."""
        return pick(smallest(self.number, len(self.table) - 1), order)

    def values(self, number: Numbers) -> Numbers:
        """The labels `(m, P)` of label numbers `(P,)`."""
        if self.classes is not None:  # whose labels are their numbers
            return float64(number)[None]
        return self.table.T.take(home(number), axis=1)  # reals lie on the processor

    @cached_property
    def counts(self) -> Ints:
        """How many labelled places each label number has."""
        return counts_of(self.number, len(self.table))

    def entropy_bits(self) -> float:
        """Entropy of the label distribution over the labelled places, in bits."""
        return entropy_bits(self.counts)

    def name(self, number: int) -> str:
        """The label with this number, as its user wrote it."""
        if self.classes is not None:
            return repr(self.classes.names[number])
        return str(self.table[number, 0] if self.scalar else self.table[number].tolist())


def entropy_bits(count: Ints) -> float:
    """Entropy, in bits, of a distribution given by counts."""
    size, times = np.unique(count[count > 0], return_counts=True)  # so it does not depend on the order of labels
    share = size / (size * times).sum()
    return float(-(times * (share * np.log2(share))).sum())
