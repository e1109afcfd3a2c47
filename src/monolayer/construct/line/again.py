"""The line with a draw that is given: the construction behind `memorize(..., draw=model)`.

A line of rank 1 stays one. A cascade gets as many stages as its points need: those that it had average what they did,
further ones values of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.construction import Progress
from monolayer.construct.line.assemble import assemble
from monolayer.construct.line.build import lift_of
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.points import SLACK, Points, numbers
from monolayer.construct.line.refusal import check_format
from monolayer.construct.line.reuse import OUTSIDE, Reused
from monolayer.construct.line.separate import margins
from monolayer.construct.line.stages import stages_of
from monolayer.construct.line.steps import Choice, dense_error, staircase
from monolayer.construct.line.values import Value, most_rank
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.errors import DataError, PrecisionError
from monolayer.model.card import Card
from monolayer.model.cascade import Cascade
from monolayer.model.monolayer import Monolayer
from monolayer.model.staircase import Staircase


@dataclass(frozen=True)
class Again:
    """`draw`: for data that are adopted by it."""

    draw: Reused

    @classmethod
    def of(cls, model: Monolayer) -> Again:
        return cls(Reused.of(model))

    @property
    def model(self) -> Monolayer:
        return self.draw.model

    @property
    def card(self) -> Card:
        return self.draw.card

    @property
    def by_token(self) -> bool:
        """What a step is depends on its neighbours, whatever their tokens are."""
        return False

    def adopt(self, data: Sequences) -> tuple[Again, Sequences]:
        draw, data = self.draw.adopt(data)
        return Again(draw), data

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        return tokens if self.draw.table is not None else self.draw.rounded(tokens)

    def build(self, task: Task, report: Progress, only: Ints | None = None) -> Monolayer:
        """The model of adopted data with that draw."""
        report("placing every label", 0.1)
        task = check_format(task, self.draw.format)
        draw, tokens = self.draw.drawn(task.data)
        return self._line(task, draw, tokens, report).to(self.draw.dtype)

    def _line(self, task: Task, draw: Draw, tokens: Tokens, report: Progress) -> Monolayer:
        target, kappa, own = task.target, self.draw.kappa, self.draw.model.feed_forward
        z = numbers(draw, kappa, tokens, target)
        order = np.argsort(z)
        points = Points(z.take(order), order, kappa, draw.point_error(kappa, tokens), draw.unit)
        changes, level = target.runs(points.order)
        close = margins(points, changes)[1]
        if len(close):
            target, _ = task.settle(target)
            changes, level = target.runs(points.order)
            close = margins(points, changes)[1]
        report("building the staircase", 0.7)
        whole = target.classes is not None
        if len(own.stairs) > 1 and len(close):
            self._check_range(task, draw, tokens)
            stages, values, left = stages_of(points, changes, target, draw, tokens, partial(self._value, task, tokens))
            if left:
                most = most_rank(tokens)
                raise self._too_close(task, points, int(close[0]), f"no value rank up to {most} tells them apart")
            readout = Cascade([part.staircase(whole, points.unit) for part in stages], own.labels)
            return self._around(task, draw, readout, values)
        if len(close):
            raise self._too_close(task, points, int(close[0]), f"{SLACK:g} are needed")
        wish: Choice = "paper" if own.readout == "paper" else "exact"
        feed_forward, label_error = staircase(points, changes, level, whole, wish)
        if wish == "paper":
            dense_error(feed_forward, points, target, label_error)
        return self._around(task, draw, feed_forward, ())

    def _around(
        self, task: Task, draw: Draw, feed_forward: Staircase | Cascade, values: tuple[Value, ...]
    ) -> Monolayer:
        """The network of the draw with another readout, of another rank perhaps."""
        labels = feed_forward.labels
        lift = lift_of(draw, task.context.rows, labels, values)
        return assemble(draw, self.draw.kappa, lift, feed_forward, self.draw.card, values=values)

    def _value(self, task: Task, tokens: Tokens, stage: int) -> Value:
        value = self.draw.value(tokens, stage)
        self._within(task, value.token[tokens.rows].double().numpy(), tokens)
        return value

    def _check_range(self, task: Task, draw: Draw, tokens: Tokens) -> None:
        self._within(task, draw.proposal.key[tokens.rows].double().numpy(), tokens)

    @staticmethod
    def _within(task: Task, each: np.ndarray[tuple[int], np.dtype[np.float64]], tokens: Tokens) -> None:
        # The distance of stretches needs it.
        share = 1.0 if tokens.position is None else 0.5
        far = np.flatnonzero(~(np.abs(each) <= OUTSIDE * share))
        if len(far):
            raise DataError(
                f"{task.data.where(int(far[0]))} lies outside the data that this draw was made for, where its bounds "
                "on rounding do not hold: memorize all the data anew, without draw="
            )

    def _too_close(self, task: Task, points: Points, place: int, why: str) -> PrecisionError:
        one, two = (self._where(task, int(points.order[place + i])) for i in range(2))
        room = (points.z[place + 1] - points.z[place]) / float(points.error(points.z[place]))
        return self._refusal(one, two, room, why)

    @staticmethod
    def _where(task: Task, label: int) -> str:
        """A labelled place, in words."""
        place = task.target.place
        return task.data.labelled(label if place is None else int(place[label]))

    @staticmethod
    def _refusal(one: str, two: str, errors: float, why: str) -> PrecisionError:
        return PrecisionError(
            f"with this draw {one} and {two} have different labels and lie {errors:.2g} rounding errors apart; {why}. "
            "They are different points, not a contradiction: another draw (memorize without draw=) will tell them apart"
        )
