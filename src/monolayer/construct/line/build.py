"""The paper's construction, in the order of its proof: one number per point, and a staircase over the line.

Distinct tokens get distinct keys; one softmax head with rank-1 weights turns the keys of a sequence into one number,
different for different contexts (Theorem A); code and context together give every labelled place its own number `z`;
a staircase over `z` returns the labels. Where floats put too many points too close together, the head returns further
numbers, and further stages of the readout tell those points apart (`cascade.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch

from monolayer.arrays import Floats, Ints, copied, pick
from monolayer.construct.line.alphabet import Alphabet, Ids, Vectors, by_label
from monolayer.construct.line.assemble import assemble, lift_of, staircase
from monolayer.construct.line.cascade import ShortLevels
from monolayer.construct.line.draw import check_seed, check_temperature
from monolayer.construct.line.points import ramps_at
from monolayer.construct.line.refusal import check_format, collision
from monolayer.construct.line.separate import Separated, separate
from monolayer.construct.line.stored import LineDraw
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.line.values import Value, stages_of
from monolayer.construct.task import Task
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError
from monolayer.kernels import last_of_each
from monolayer.model.cascade import Cascade
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress

LineFormat = Literal["float64", "float32"]


class BuiltReadout(NamedTuple):
    """A readout, the values that its further stages average, and what the summary says about them."""

    readout: Cascade
    values: tuple[Value, ...]
    facts: JsonObject


@dataclass(frozen=True)
class Line:
    """The paper's construction, with its options. On one platform the same seed gives the same bits.

    `temperature`: λ, 0 for the mean; None: chosen by measurement. `rank`: the largest value rank allowed, of which the
    least that holds the data is taken; `auto`: any. `dtype`: the format that the model is stored in and computes in.
    """

    seed: int = 0
    temperature: float | None = None
    rank: int | Literal["auto"] = "auto"
    dtype: LineFormat = "float64"
    draw: LineDraw | None = None
    """A stored draw to reuse; None: the best of several new draws."""

    @classmethod
    def again(cls, draw: LineDraw) -> Line:
        """The construction that uses a stored draw again."""
        return cls(draw.seed, draw.temperature, draw.rank, draw.dtype, draw)

    def __post_init__(self) -> None:
        if self.rank != "auto" and not (type(self.rank) is int and self.rank >= 1):
            raise DataError(f"rank must be a whole number from 1, or 'auto', not {self.rank!r}")
        if self.dtype not in get_args(LineFormat):
            names = ", ".join(map(repr, get_args(LineFormat)))
            raise DataError(
                f"dtype of a line must be one of {names}, not {self.dtype!r}: shorter formats hold too few steps; "
                "robust=True is made for them"
            )
        check_seed(self.seed)
        check_temperature(self.temperature)

    def build(self, task: Task, report: Progress) -> Monolayer:
        """Build the model for `task`, one line per lemma of the proof; `report` is told the stages."""
        check_format(task, self.dtype)
        tokens = self._sequences_over(self._alphabet(task), task)
        report("separating contexts", 0.1)
        stored_draw = None if self.draw is None else self.draw.drawn(tokens, task.data)
        separated = separate(tokens, task.target, task.settle, self.seed, given=stored_draw)
        measured = separated.measure()
        if separated.apart:  # the gaps, which are cached, and the order are not needed again: both are large
            separated = replace(separated, points=replace(separated.points, order=copied(separated.points.order[:0])))
        report("building the staircase", 0.7)
        readout, values, facts = self._staircases(separated, tokens, task)
        lift = lift_of(separated.draw, task.context.counts, readout.labels, values)
        drawn = self.draw or LineDraw.of(separated.draw, separated.points.kappa, tokens.alphabet, self.dtype, self.rank)
        card = task.card(drawn.to_json())
        model = assemble(separated.draw, separated.points.kappa, lift, readout, card, values=values)
        if self.draw is None:  # two ways to one model must give one file
            summary = task.summary(model, separated.target, readout.labels, **measured | facts)
            model.card = card.with_summary(summary)
        # Slopes are powers of two, so what rounds is the place of a step, by one rounding error of the eight or more
        # in its gap; keys, codes and values are numbers of the format, and labels whole numbers that it holds.
        return model.to(dtype=getattr(torch, self.dtype))

    def _alphabet(self, task: Task) -> Alphabet:
        """The distinct tokens, which get distinct keys: ids with an order for their codes, or vectors."""
        draw = self.draw
        if task.vectors is not None:
            if draw is None:
                check_coordinate_ranges(task.vectors)
            return Vectors(task.vectors, None if draw is None else draw.lift)
        names = task.context.data.vocabulary
        assert names is not None  # tokens are ids where they are not vectors
        size = len(names)
        return Ids(size, _code_order(task, size)) if draw is None else Ids(size, draw.order, draw.tokens)

    def _sequences_over(self, alphabet: Alphabet, task: Task) -> Tokens:
        """The sequences of the data as the head sees them, from which it computes contexts."""
        context, draw = task.context, self.draw
        data = context.data
        return Tokens(
            context.rows,
            data.lengths,
            alphabet,
            data.position if context.positions else None,
            context.causal,
            self.temperature,
            None if draw is None else draw.longest,
            self.dtype,
        )

    def _staircases(self, separated: Separated, tokens: Tokens, task: Task) -> BuiltReadout:
        """The readout: one staircase over `z`, or a cascade of several where points are too close for one.

        A `PrecisionError` that says which rank would do, where the rank that is allowed does not.
        """
        points, target = separated.points, separated.target
        whole = target.classes is not None
        if separated.apart:  # all neighbours with different labels are far enough apart
            runs = separated.runs
            level = ShortLevels.of(runs.number, runs.changes) if whole else None
            stairs = [staircase(*ramps_at(points.z, runs.changes), level or runs.level, whole, points.unit)]
            return BuiltReadout(Cascade(stairs), (), {})
        if task.vectors is not None:
            raise collision(separated, task.context, None)
        stages, values, left = stages_of(separated, tokens, self.seed)
        if left or (self.rank != "auto" and len(stages) > self.rank):
            raise collision(separated, task.context, None if left else len(stages))
        stairs = [staircase(part.slope, part.start, part.level, whole, points.unit) for part in stages]
        readout = Cascade(stairs)
        facts: JsonObject = {"margin": min(part.margin for part in stages if part.margin is not None)}
        facts |= {"rank": len(stages), "runs": 1 + readout.step_count}
        contested = [part.crowds for part in stages[:-1]]
        return BuiltReadout(readout, values, facts | {"contested": contested})


def _code_order(task: Task, size: int) -> Ints | None:
    """The rank of each of `size` tokens among the codes `(V,)`, which puts tokens with equal labels side by side.

    None where the order does not matter: with one label per sequence, codes of tokens are not read.
    """
    target, rows = task.target, task.context.rows
    if not target.labelling.at_tokens:
        return None
    labelled = rows if target.place is None else pick(rows, target.place)
    number = last_of_each(labelled, target.number, size, task.context.counts if target.place is None else None)
    # A token without a label counts as one with label 0, as it does where the data come in files.
    return by_label(np.where(number[:, None] < 0, 0.0, target.table[number]))


def check_coordinate_ranges(vectors: Floats) -> None:
    """Refuse a coordinate whose range, or its inverse, is not a finite normal float64."""
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    with np.errstate(over="ignore"):
        extent = high - low
    bad = np.flatnonzero((extent > 2.0**1023) | ((extent > 0.0) & (extent < 2.0**-1000)))
    if len(bad):
        raise DataError(
            f"coordinate {bad[0]} of the vectors runs from {low[bad[0]]:g} to {high[bad[0]]:g}, and no float64 weight "
            "scales that to keys: multiply it by a power of two, which is exact, until it runs over 2^-1000 to 2^1023"
        )
