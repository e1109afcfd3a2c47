"""What is to be memorized, before any construction looks at it: data, labels, and what a model may see of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.consistency import Context, OnConflict, equal_points, resolve, resolve_among
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.data.objects import JsonObject
from monolayer.model.card import Card, Summary
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress


@dataclass(frozen=True, eq=False)
class Task:
    """`context`: the data as the model sees them; `target`: the labels; `vectors` `(V, d)`: distinct ones, or None."""

    context: Context
    target: Target
    vectors: NDArray[np.float64] | None
    on_conflict: OnConflict = "error"
    group: Ints | None = None
    """Of a settled task, a number for every labelled place: equal where token and context are."""

    @classmethod
    def of(cls, data: Sequences, *, positions: bool, causal: bool, on_conflict: OnConflict) -> Task:
        """The task of returning the labels of `data`. Vectors that are equal count as one token.

        `positions`: whether order counts. `causal`: whether a token sees only those before it. `on_conflict`: which
        label wins where the data contradict themselves.
        """
        target = Target.of(data, causal)
        if data.vocabulary is not None:
            vectors, rows = None, data.tokens
        else:
            vectors, rows = distinct_rows(data.tokens)
        return cls(Context(data, rows, positions, causal), target, vectors, on_conflict)

    @property
    def data(self) -> Sequences:
        """The data on the processor."""
        assert isinstance(self.context.data, Sequences)  # only the line is built on a device
        return self.context.data

    def settle(self, target: Target, among: Ints | None = None) -> tuple[Target, int]:
        """`target` without contradictions, and how many labels were overruled; or an error that shows one.

        `among`: the labelled places that may contradict each other, if they are known.
        """
        if among is None:
            return resolve(self.context, target, self.on_conflict)
        return resolve_among(self.context, target, among, self.on_conflict)

    def settled(self) -> tuple[Task, int]:
        """The task after its contradictions are settled, for constructions that do not find them on the way."""
        group = equal_points(self.context, self.target)
        target, overruled = resolve(self.context, self.target, self.on_conflict, group=group)
        return replace(self, target=target, group=group), overruled

    def card(self, draw: JsonObject) -> Card:
        """The card of a model for this task, built with this draw."""
        target = self.target
        names = self.context.data.vocabulary, target.classes
        return Card(*names, target.per, target.scalar, self.context.causal, target.next_token, draw=draw)

    def summary(self, model: Monolayer, target: Target, labels: int, **facts: object) -> Summary:
        """What a builder found out: `facts`, and what is known of every model with `labels` numbers per label."""
        return Summary.of(
            model.counts(),
            sequences=len(self.context.data),
            labelled=len(target.number),
            vocabulary=int(np.count_nonzero(self.context.counts)),
            dim=1 if self.vectors is None else self.vectors.shape[1],  # ids: on a line
            labels=labels,
            entropy=None if target.classes is None else target.entropy_bits(),
            **facts,
        )


class Construction(Protocol):
    """A way from data to weights. Its options (a seed, a readout, a rank) are its fields, checked when it is made."""

    def build(self, task: Task, report: Progress) -> Monolayer:
        """A model whose card has a summary; `ContradictionError` or `PrecisionError` where the data do not fit."""


class StoredDraw(Protocol):
    """A draw that a card holds: all of a model that does not depend on its labels.

    With it, a model is a function of its data, bit for bit.
    """

    @property
    def by_token(self) -> bool:
        """Whether every neuron depends on the facts of one token alone."""

    @classmethod
    def from_json(cls, known: JsonObject) -> Self:
        """Read the draw of a card; a `ValueError`, `KeyError` or `TypeError` if it is not a draw."""

    def fits(self, model: Monolayer) -> bool:
        """Whether `model` could have been built with this draw. A stored draw is not trusted."""

    def build(self, task: Task, report: Progress, model: Monolayer, only: Ints | None) -> Monolayer:
        """Build the model of other data, without a summary, so that editing and building give the same file.

        `only`: tokens whose facts changed since `model` was built, where that is known; given only if `by_token`.
        """
