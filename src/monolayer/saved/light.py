"""A memorizer that answers a few inputs from its files, without PyTorch.

An answer is given only where the checker proves that every evaluation returns it (`checker/answers.py`), and so the
network does as well; everything else is asked of the network itself, which is loaded then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from monolayer.arrays import Array, Bools, Ints
from monolayer.checker.answers import proved_classes
from monolayer.checker.network import ONE, Stored
from monolayer.data import Sequences
from monolayer.data.number_formats import FORMATS
from monolayer.model.asked import encoded
from monolayer.model.card import Card, Fingerprint
from monolayer.model.unknown import seen_points

MOST_NUMBERS = 1 << 22
"""How many numbers a model may hold to be asked here: judging it takes longer than loading PyTorch beyond that."""


class LightMemorizer:
    """The model `stored`; `load` returns the network, which answers what is not proved.

    `seen_only`: whether answers to points that it was not built from are of no interest, since the caller asks `known`.
    """

    def __init__(self, stored: Stored, load: Callable[[], Any], *, seen_only: bool) -> None:
        self.stored, self.load = stored, load
        self.seen_only = seen_only and stored.memory is not None

    @staticmethod
    def takes(stored: Stored) -> bool:
        """Whether this model answers ids with classes, is small, and computes in the format of its weights."""
        numbers = sum(tensor.size for tensor in stored.tensors.values())
        plain = stored.vocabulary is not None and stored.classes is not None
        return plain and numbers <= MOST_NUMBERS and not FORMATS[stored.config["dtype"]].widened

    @cached_property
    def card(self) -> Card:
        """Names and kinds of its tokens and labels."""
        config, memory = self.stored.config, self.stored.memory
        fingerprint = None if memory is None else Fingerprint(memory, config["per"], config["causal"])
        return Card.described(config, self.stored.vocabulary, self.stored.classes, fingerprint)

    @property
    def ordered(self) -> bool:
        """Whether it sees the order of tokens."""
        return bool(self.stored.config["positions"])

    @property
    def longest(self) -> int | None:
        """How many tokens a sequence may have; None if there is no limit."""
        return len(self.stored.tensors["positions.weight"]) if self.ordered else None

    def blank(self, rows: Ints) -> Bools:
        """Which of these rows `(T,)` of the table have no finite vector."""
        finite = np.isfinite(self.stored.tensors["lift.weight"][rows]).all(axis=1)
        return np.asarray(~finite, dtype=bool)

    def is_forgotten(self, row: int) -> bool:
        """Whether a row without a vector is one that was forgotten, rather than damaged."""
        return bool(np.isnan(self.stored.tensors["lift.weight"][row, ONE]))

    def encode(self, X: object, *, lengths: object = None) -> Sequences:
        """`X` in the model's own row numbers; a token that the model never saw is an error that names it."""
        return encoded(self, X, lengths)

    def known(self, data: Sequences) -> Bools:
        """Which answering places `(P,)` of encoded data are points that the model was built from."""
        return seen_points(self, data)

    def labels(self, data: Sequences, *, path: str = "auto") -> Array:
        """Class numbers of encoded data, flat `(P,)`; with `seen_only`, 0 where a point is not one of the model's."""
        count = self.card.labelling.count(data)
        places = np.flatnonzero(self.known(data)) if self.seen_only else np.arange(count)
        labels = np.zeros(count, dtype=np.int64)
        if len(places):
            proved = proved_classes(self.stored, data, places)
            if proved is None:
                by_network: Array = self.load().labels(data, path=path)
                return by_network
            labels[places] = proved
        return labels


__all__ = ["LightMemorizer"]
