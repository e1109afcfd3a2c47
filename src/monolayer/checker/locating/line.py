"""Lines and cascades: which steps write at a fact, and the answers without one of them.

    exact   neuron j is on at every point left of its step: without it, all of these lose its jump
    runs    neuron r is on at the points of one run: without it, these are answered with 0
    paper   neuron j is on right of its kink, one of the two of a step, whose large terms then do not cancel

So the label of a fact is a sum over many neurons of `exact` and `paper`; those of the nearest step hold it. In a
cascade a neuron may also change the number of a stretch, and with it what the next stage reads.

Sums of fewer terms round less: what a certificate says of the whole readout covers it without one of its neurons.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.codes import read_attention, read_stream
from monolayer.checker.labelled import Labelled
from monolayer.checker.locating.writers import MEASURED, PROVED, UNKNOWN, Writers
from monolayer.checker.readout import answers, copies, read_staircase, thresholds
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.stages import Stage, evaluate
from monolayer.checker.stored import Stored


class Steps(NamedTuple):
    """The neurons of one stage, in the order of their steps: `weight_1`, `bias_1` `(R,)`, `weight_2` `(m, H)`.

    `first`: the number of the first among those of all stages.
    """

    form: str
    first: int
    weight_1: Floats
    bias_1: Floats
    weight_2: Floats
    bias_2: Floats

    @property
    def neurons(self) -> int:
        """How many."""
        return int(self.weight_2.shape[1])


def line_writers(stored: Stored, points: Labelled) -> Writers:
    """The neurons of all stages, numbered one after the other."""
    read_attention(stored)  # which says more plainly than the readout what is wrong
    stairs = [read_staircase(stored, stage) for stage in range(1, stored.stages + 1)]
    found = evaluate(stored, points, read_stream(stored, points.data, points.rows), stairs)
    back = np.argsort(found.order)
    sure = (found.sure & found.number)[back]
    stages = [_in_data_order(stage, back) for stage in found.stages]
    return _Line(stored, read_steps(stored), stages, sure).writers()


def read_steps(stored: Stored) -> list[Steps]:
    """The neurons of every stage, which must rise one after the other."""
    found: list[Steps] = []
    form = stored.config["readout"]
    for stage in range(stored.stages):
        block = "feed_forward"
        if stored.config["readout"] == "cascade":
            form, block = "exact" if stored.config["target"] == "classes" else "runs", f"feed_forward.stages.{stage}"
        parts = [np.concatenate(column, axis=-1) for column in zip(*stored.steps(block), strict=True)]
        w, b, weight_2 = parts
        low = thresholds(w, b, form != "paper")[0]
        if not ((w > 0).all() and (low[1:] >= low[:-1]).all()):
            raise UnhandledError("steps do not rise, or do not stand in order")
        numbers = [part.astype(np.float64) for part in (w, b, weight_2, stored[f"{block}.bias_2"])]
        found.append(Steps(form, sum(steps.neurons for steps in found), *numbers))
    return found


def _in_data_order(stage: Stage, back: Ints) -> Stage:
    stage = stage._replace(doubt=np.broadcast_to(stage.doubt, stage.value.shape))
    points = {name: getattr(stage, name)[..., back] for name in ("z", "radius", "plateau", "sure", "value", "doubt")}
    return stage._replace(**points, read=None if stage.read is None else stage.read[back])


class _Line:
    """Every fact on every stage, in the order of the data; `sure`: on one plateau of each in every evaluation."""

    def __init__(self, stored: Stored, steps: list[Steps], stages: list[Stage], sure: Bools) -> None:
        self.stored, self.steps, self.stages, self.sure = stored, steps, stages, sure
        self.labels = int(stored.config["labels"])
        if stored.config["target"] != "classes" and not copies(stored):
            raise UnhandledError("the head does not copy the label slots")
        self.orders = [np.argsort(stage.plateau, kind="stable") for stage in stages]

    def writers(self) -> Writers:
        M = len(self.sure)
        values = [(stage.value[: self.labels], stage.doubt[: self.labels]) for stage in self.stages]
        answer, state = self._answers(values, self.sure)
        start, stop, held = [], [], []
        for number, (steps, stage, order) in enumerate(zip(self.steps, self.stages, self.orders, strict=True)):
            left, right = _reach(steps, stage.plateau[order])
            start.append(number * M + left)
            stop.append(number * M + right)
            place = np.empty(M, dtype=np.int64)
            place[order] = number * M + np.arange(M)
            for which in _nearest(steps, stage.plateau):
                fact = np.flatnonzero((which >= 0) & (which < steps.neurons) & self.sure & _decides(stage))
                held.append(np.stack([fact, steps.first + which[fact], place[fact]]))
        pairs = np.concatenate(held, axis=1)
        fact, neuron, at = pairs[:, np.lexsort(pairs[1::-1])]
        return Writers(
            answer=answer,
            state=state,
            order=np.concatenate(self.orders),
            start=np.concatenate(start),
            stop=np.concatenate(stop),
            fact=fact,
            neuron=neuron,
            at=at,
            writing=sum((_writing(*pair) for pair in zip(self.steps, self.stages, strict=True)), np.zeros(M, np.int64)),
            without=self.without,
        )

    def without(self, neurons: Ints, at: Ints) -> tuple[NDArray[Any], Ints]:
        """Answers at places of `order` without a neuron of the stage that the place belongs to."""
        number, fact = at // len(self.sure), np.concatenate(self.orders)[at]
        reals = self.stored.config["target"] != "classes"
        answer = np.zeros((len(at), self.labels)) if reals else np.zeros(len(at), dtype=np.int64)
        state = np.zeros(len(at), dtype=np.int64)
        for stage in np.unique(number):
            some = np.flatnonzero(number == stage)
            answer[some], state[some] = self._without(int(stage), neurons[some] - self.steps[stage].first, fact[some])
        return answer, state

    def _without(self, number: int, j: Ints, fact: Ints) -> tuple[NDArray[Any], Ints]:
        """Stages before `number` are as they were, it lacks neuron `j`, those behind it read another number."""
        values, sure = [], self.sure[fact]
        moved = np.zeros(len(fact))
        for here, stage in enumerate(self.stages):
            value, doubt = stage.value[:, fact], stage.doubt[:, fact]
            if here == number:
                value, doubt = _less(self.steps[here], stage, j, fact, value, doubt)
            elif here > number:
                z = stage.z[fact] + moved
                radius = stage.radius[fact] + 8.0 * self.stored.format.unit * (np.abs(stage.z[fact]) + np.abs(z))
                passed, certain = stage.stairs.passed(z - radius, z + radius)
                value, doubt = stage.stairs.labels(z, radius, passed)
                doubt = np.broadcast_to(doubt, value.shape)
                sure = sure & certain
            if here >= number and here + 1 < len(self.stages):
                moved = value[-1] - stage.value[-1, fact]
            values.append((value[: self.labels], doubt[: self.labels]))
        return self._answers(values, sure)

    def _answers(self, values: list[tuple[Floats, Floats]], sure: Bools) -> tuple[NDArray[Any], Ints]:
        """What the head makes of the sum of what the stages write."""
        value, doubt = (sum(parts[1:], parts[0]) for parts in zip(*values, strict=True))
        if self.stored.config["target"] == "classes":
            answer = answers(self.stored, value[0], doubt[0])
            assert self.stored.classes is not None  # the target says so
            likely = np.clip(np.rint(value[0]), 0, len(self.stored.classes) - 1).astype(np.int64)
            state = np.where(answer >= 0, PROVED, MEASURED)
            found: NDArray[Any] = np.where(answer >= 0, answer, likely)
        else:
            # Sums with zeros are exact; others may round, and so may whatever has a doubt of its own.
            several = np.sum([part != 0.0 for part, _ in values], axis=0) > 1
            state = np.where((several | (doubt > 0.0)).any(axis=0), MEASURED, PROVED)
            found = value.T
        return found, np.where(sure & np.isfinite(value).all(axis=0), state, UNKNOWN)


def _reach(steps: Steps, plateau: Ints) -> tuple[Ints, Ints]:
    """Between which places of sorted plateaus each neuron is on; `plateau` counts the steps left of a point."""
    j = np.arange(steps.neurons)
    if steps.form == "exact":
        return np.zeros_like(j), np.searchsorted(plateau, j, side="right")
    if steps.form == "runs":
        return np.searchsorted(plateau, j, side="left"), np.searchsorted(plateau, j, side="right")
    return np.searchsorted(plateau, j, side="right"), np.full_like(j, len(plateau))


def _nearest(steps: Steps, plateau: Ints) -> list[Ints]:
    """The neurons of the nearest step that is on."""
    return [plateau - 2, plateau - 1] if steps.form == "paper" else [plateau]


def _writing(steps: Steps, stage: Stage) -> Ints:
    if steps.form == "exact":
        return steps.neurons - stage.plateau
    return np.ones_like(stage.plateau) if steps.form == "runs" else stage.plateau


def _decides(stage: Stage) -> Bools:
    """Whether a stage tells the points of a stretch apart: steps stand inside it."""
    if stage.read is None:
        return np.ones(len(stage.z), dtype=bool)
    begun = np.searchsorted(stage.stairs.low, stage.read + stage.reach)
    ended = np.searchsorted(stage.stairs.high, stage.read - stage.reach, side="right")
    return begun > ended


def _less(steps: Steps, stage: Stage, j: Ints, fact: Ints, value: Floats, doubt: Floats) -> tuple[Floats, Floats]:
    """What a stage writes at facts where neuron `j` is on, less what that neuron writes."""
    if steps.form == "exact":
        return value - steps.weight_2[:, j], doubt
    if steps.form == "runs":
        return np.broadcast_to(steps.bias_2[:, None], value.shape), np.zeros_like(doubt)
    slope, fixed = steps.weight_2[:, j] * steps.weight_1[j], steps.weight_2[:, j] * steps.bias_1[j]
    z, radius = stage.z[fact], stage.radius[fact]
    size = np.abs(slope * z) + np.abs(fixed)
    doubt = PADDING * (doubt + np.abs(slope) * radius + 2.0**-48 * size)
    return value - (slope * z + fixed), doubt
