"""What is to be memorized, before any construction looks at it: data, labels, and what a model may see of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.consistency import Context, OnConflict, contradicted, equal_points, resolve
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.model.card import Card


@dataclass(frozen=True, eq=False)
class Task:
    """`context`: the data as the model sees them; `target`: the labels; `vectors` `(V, d)`: distinct ones, or None."""

    context: Context
    target: Target
    vectors: NDArray[np.float64] | None
    on_conflict: OnConflict = "error"

    @classmethod
    def of(cls, data: Sequences, *, positions: bool, causal: bool, on_conflict: OnConflict) -> Task:
        target = Target.of(data, causal)
        if data.vocabulary is not None:
            vectors, rows = None, data.tokens
        else:
            vectors, rows = distinct_rows(data.tokens)
        return cls(Context(data, rows, positions, causal), target, vectors, on_conflict)

    @property
    def data(self) -> Sequences:
        return self.context.data

    def settle(self, target: Target, among: Ints | None = None) -> tuple[Target, int]:
        """`target` without contradictions, and how many labels were overruled; or an error that shows one.

        `among`: the labelled places that may contradict each other, if they are known; few cost less to look at.
        """
        if among is not None and 4 * len(among) < len(target.number) and not contradicted(self.context, target, among):
            return target, 0
        return resolve(self.context, target, equal_points(self.context, target), self.on_conflict)

    def settled(self) -> tuple[Task, int]:
        """The task after its contradictions are settled, for constructions that do not find them on the way."""
        target, overruled = self.settle(self.target)
        return replace(self, target=target), overruled

    def card(self, draw: dict[str, Any]) -> Card:
        """What a model for this task with this draw says of itself."""
        target = self.target
        names = self.data.vocabulary, target.classes
        return Card(*names, target.per, target.scalar, self.context.causal, target.next_token, draw=draw)
