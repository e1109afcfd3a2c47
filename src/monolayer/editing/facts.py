"""What a model holds: its data, every labelled place in order of its number `z`, so that neighbours can be looked up.

Made once, in about the time of a construction; an edit of them then takes milliseconds. `Facts` are never changed: an
edit gives others, which share with these what stays.

Notation: `P` labelled places in order of `z`; `place` is the flat number of a token, or of a sequence, counted through
the data as given and then through what was inserted later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.construct.consistency import equal_points
from monolayer.construct.line.points import Points
from monolayer.construct.line.reuse import Reused
from monolayer.construct.line.steps import Choice, dense_error, staircase
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Labels, Names, Sequences
from monolayer.data.names import Ints
from monolayer.editing.held import STRANGE, answered_otherwise
from monolayer.editing.readout import Bools, Floats
from monolayer.editing.whole import built_whole
from monolayer.errors import DataError
from monolayer.model.gates import Gates
from monolayer.model.monolayer import Monolayer
from monolayer.model.staircase import Staircase


@final
@dataclass(frozen=True, eq=False)
class Facts:
    """`z`, `number` (of the label), `place` `(P,)` in order of `z`; `parts`: the data as given, and what came later.

    `gone` `(N,)`: rows that were forgotten. `values` `(K, m)`: the real labels that numbers stand for; None: numbers
    are classes. `count` `(V,)`: how often each id occurs; None for vectors. `error`: of `z`, but for `u |z|`.
    """

    draw: Reused
    parts: tuple[Sequences, ...]
    gone: Bools
    z: Floats
    number: NDArray[Any]
    place: NDArray[Any]
    values: Floats | None
    count: Ints | None
    error: float

    @classmethod
    def of(cls, model: Monolayer, X: Any, Y: Any = None, *, lengths: Any = None) -> Facts:
        """The data that `model` holds, all of them and no others; its readout must be the one that they determine."""
        if isinstance(model.feed_forward, Gates):
            raise DataError("this model is robust: RobustFacts.of(model, X, Y) holds its facts")
        if built_whole(model):
            raise DataError("an edit builds this model anew: WholeFacts.of(model, X, Y) holds its facts")
        draw = Reused.of_local(model)
        own = draw.card.vocabulary, draw.card.classes
        adopted, data = draw.adopt(Sequences.of(X, Y, lengths=lengths))
        if (adopted.card.vocabulary, adopted.card.classes) != own or adopted.table is not draw.table:
            raise DataError(STRANGE)
        positions = model.positions is not None
        task = Task.of(data, positions=positions, causal=draw.card.causal, on_conflict="error")
        target = task.target
        z, error = draw.place(data, target)
        order = np.argsort(z)
        number = target.number[order]
        if (number[1:] != number[:-1])[z[order[1:]] == z[order[:-1]]].any():
            task.settle(target)  # says which labels contradict each other
        place = order if target.place is None else target.place[order]
        values = None if draw.card.classes is not None else target.table
        count = None if draw.table is None else np.bincount(data.tokens, minlength=len(draw.table))
        bare = join(data, vocabulary=data.vocabulary)
        short = np.int32 if max(len(data.tokens), len(target.table)) < 2**30 else np.int64
        number, place = number.astype(short), place.astype(short)  # half the memory that an edit must copy
        held = cls(draw, (bare,), np.zeros(len(data), bool), z[order], number, place, values, count, error)
        held._check(data)
        return held

    @property
    def model(self) -> Monolayer:
        return self.draw.model

    def _check(self, data: Sequences) -> None:
        """That the readout is the one that the data determine, bit for bit: then an edit knows what it may touch."""
        ours, theirs = self.staircase().state_dict(), self.model.feed_forward.state_dict()
        same = all(torch.equal(ours[name], theirs[name]) for name in ours)
        blank = None if self.count is None or self.draw.table is None else np.isnan(self.draw.table[:, 0])
        if same and (blank is None or np.array_equal(blank, self.count == 0)):
            return
        otherwise = answered_otherwise(self.model, data)
        if otherwise is not None:
            raise DataError(otherwise)
        raise DataError(
            "the model returns these labels, but its readout is not the one that they determine: it holds other data "
            "besides, or was edited without its data. If these are all it shall hold, memorize(data, draw=model) makes "
            "it so; otherwise give all of its data"
        )

    def staircase(self) -> Staircase:
        """The readout that the points determine, built anew."""
        classes = self.values is None
        table = np.arange(float(self.number.max() + 1))[:, None] if self.values is None else self.values
        target = Target(self.number, table, self.draw.card.per, None, False)
        order = np.arange(len(self.z))
        changes, level = target.runs(order)
        if not classes:  # numbers of equal reals may differ after an edit
            differ = (level[:, 1:] != level[:, :-1]).any(axis=0)
            changes, level = changes[differ], level[:, np.append(differ, True)]
        points = Points(self.z, order, self.draw.kappa, self.error)
        wish: Choice = "paper" if self.model.feed_forward.readout == "paper" else "exact"
        block, label_error = staircase(points, changes, level, classes, wish)
        if wish == "paper":
            dense_error(block, points, target, label_error)
        return block

    def levels(self, number: Ints) -> Floats:
        """Label coordinates `(K, m)` of numbers `(K,)`."""
        return number.astype(np.float64)[:, None] if self.values is None else self.values[number]

    # -- rows and places -------------------------------------------------------------------------------

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        """Rows and places of the first part."""
        first = self.parts[0]
        return len(first), len(first) if self.draw.card.per == "sequence" else len(first.tokens)

    def row(self, place: Ints) -> Ints:
        """The rows of places `(K,)`."""
        if self.draw.card.per == "sequence":
            return place
        rows, tokens = self._bounds
        first: Ints = np.searchsorted(self.parts[0].offsets, place, side="right") - 1
        if len(self.parts) > 1:
            later = np.searchsorted(self.parts[1].offsets, place - tokens, side="right") - 1 + rows
            first = np.where(place < tokens, first, later)
        return first

    def rows(self, rows: Ints) -> Sequences:
        """Rows `(K,)` in rising order, at least one, without labels."""
        split, names = self._bounds[0], self.draw.card.vocabulary
        halves = zip(self.parts, (rows[rows < split], rows[rows >= split] - split), strict=False)
        picked = [part.select(some) for part, some in halves if len(some)]
        return join(*picked, vocabulary=names)

    def places(self, rows: Ints) -> Ints:
        """The labelled places of rows `(K,)` in rising order."""
        if self.draw.card.per == "sequence":
            return rows
        places = self._tokens(rows)
        if not self.draw.card.next_token:
            return places
        last = np.cumsum(self.rows(rows).lengths) - 1  # a last token has no next one
        return np.delete(places, last)

    def _tokens(self, rows: Ints) -> Ints:
        """Flat numbers of the tokens of rows, those of the first part in front."""
        split, tokens = self._bounds
        first = self.parts[0].flat(rows[rows < split])
        if len(self.parts) == 1:
            return first
        return np.concatenate([first, tokens + self.parts[1].flat(rows[rows >= split] - split)])

    def where(self, place: int) -> str:
        """A labelled place, in words."""
        row = int(self.row(np.array([place]))[0])
        split, tokens = self._bounds
        if self.draw.card.per == "sequence":
            return f"sequence {row}"
        return (
            self.parts[0].where(place) if row < split else f"an inserted token ({self.parts[1].where(place - tokens)})"
        )

    def target(self, data: Sequences) -> Target:
        """Labelled places of adopted `data`; without labels, as a target of zeros."""
        card = self.draw.card
        if card.next_token or data.labels is not None:
            return Target.of(data, card.causal)
        size = len(data) if card.per == "sequence" else len(data.tokens)
        return Target(np.zeros(size, np.int64), np.zeros((1, 1)), card.per, None, False)

    # -- looking up ------------------------------------------------------------------------------------

    def matches(self, asked: Sequences, flat: Ints, z: Floats) -> tuple[Ints, Ints]:
        """Pairs `(K,)` of a question and a point that are one fact: equal token, equal context.

        `flat` `(Q,)`: places of `asked`, `z` `(Q,)` their numbers. Points are numbers into the order of `z`.
        """
        low, high = np.searchsorted(self.z, z, side="left"), np.searchsorted(self.z, z, side="right")
        question = np.repeat(np.arange(len(flat)), high - low)
        point = np.arange(len(question)) + np.repeat(low - (np.cumsum(high - low) - (high - low)), high - low)
        if len(question) == 0:
            return question, point
        rows, which = np.unique(self.row(self.place[point]), return_inverse=True)
        known = self.rows(rows)
        both = join(asked, known, vocabulary=self.draw.card.vocabulary)
        card, per_token = self.draw.card, self.draw.card.per == "token"
        group = equal_points(
            self.draw.context(both), Target(np.zeros(0, np.int64), np.zeros((1, 1)), card.per, None, False)
        )
        if per_token:
            start = len(asked.tokens) + known.offsets[which]
            theirs = start + self.place[point] - self._row_start(rows)[which]
        else:
            theirs = len(asked) + which
        same = group[flat[question]] == group[theirs]
        return question[same], point[same]

    def _row_start(self, rows: Ints) -> Ints:
        split, tokens = self._bounds
        first = self.parts[0].offsets[np.minimum(rows, split)]
        if len(self.parts) == 1:
            return first
        return np.where(rows < split, first, tokens + self.parts[1].offsets[np.maximum(rows - split, 0)])

    # -- the data --------------------------------------------------------------------------------------

    def kept(self) -> Sequences:
        """The rows that the model holds now, without labels."""
        return self.rows(np.flatnonzero(~self.gone))

    @property
    def data(self) -> Sequences:
        """What the model holds now, with labels."""
        kept, data = np.flatnonzero(~self.gone), self.kept()
        card = self.draw.card
        if card.next_token:
            return data
        number = np.zeros(
            sum(len(part) if card.per == "sequence" else len(part.tokens) for part in self.parts), np.int64
        )
        number[self.place] = self.number
        number = number[kept if card.per == "sequence" else self._tokens(kept)]
        values: NDArray[Any] = number if self.values is None else self.values[number]
        return Sequences(
            data.tokens, data.lengths, data.vocabulary, Labels(values, card.per, card.classes, card.scalar)
        )


def join(*parts: Sequences, vocabulary: Names | None) -> Sequences:
    """All sequences of `parts`, without labels, under one vocabulary."""
    tokens, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "lengths"))
    return Sequences(tokens, lengths, vocabulary)
