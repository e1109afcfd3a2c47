"""The paper's construction, in the order of its proof: one number per point, and a staircase over the line.

Distinct tokens get distinct keys; one softmax head with rank-1 weights turns the keys of a sequence into one number,
different for different contexts (Theorem A); code and context together give every labelled place its own number `z`;
a staircase over `z` returns the labels. Where floats put too many points too close together, the head returns further
numbers, and further stages of the readout tell those points apart (`cascade.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from monolayer.arrays import Ints, Numbers, beside, counts_of, home, is_array, pick
from monolayer.construct.line.alphabet import Alphabet, Ids, Vectors, by_label
from monolayer.construct.line.assemble import assemble, linear_lift, staircase, stream
from monolayer.construct.line.draw import Draw, Tokens, check_seed, check_temperature
from monolayer.construct.line.points import ramps_at
from monolayer.construct.line.refusal import check_format, collision
from monolayer.construct.line.separate import Separated, separate
from monolayer.construct.line.stored import LineDraw
from monolayer.construct.line.values import Value, stages_of
from monolayer.construct.task import Progress, Task
from monolayer.errors import DataError
from monolayer.model.cascade import Cascade, stream_width, value_slot
from monolayer.model.layers import embedding
from monolayer.model.monolayer import Monolayer

LAST = 1 << 20
"""Labels, from the last one backwards, that are looked at first to put tokens with like labels next to each other."""

LineFormat = Literal["float64", "float32"]
Built = tuple[Cascade, tuple[Value, ...], dict[str, Any]]
"""A readout, what its further stages average, and what the summary says of them."""


@dataclass(frozen=True)
class Line:
    """On one platform the same seed gives the same bits.

    `temperature`: λ, 0 for the mean; None: chosen by measurement. `rank`: the largest value rank allowed, of which the
    least that holds the data is taken; `auto`: any. `dtype`: the format that the model is stored in and computes in.
    """

    seed: int = 0
    temperature: float | None = None
    rank: int | Literal["auto"] = "auto"
    dtype: LineFormat = "float64"
    draw: LineDraw | None = None
    """The draw to use; None: one is looked for."""

    @classmethod
    def again(cls, draw: LineDraw) -> Line:
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
        """The model, a line per lemma."""
        check_format(task, self.dtype)
        tokens = self._tokens(task)
        report("separating contexts", 0.1)
        given = None if self.draw is None else self.draw.drawn(tokens, task.data)
        found = separate(tokens, task.target, task.settle, self.seed, given=given)
        measured = found.measure()
        if found.pair is None:  # then nothing asks for the gaps again, which take as much memory as the points
            found = replace(found, points=replace(found.points))
        report("building the staircase", 0.7)
        readout, values, facts = self._readout(found, tokens, task)
        lift = lift_of(found.draw, task.context.counts, readout.labels, values)
        drawn = self.draw or LineDraw.of(found.draw, found.points.kappa, tokens.alphabet, self.dtype, self.rank)
        card = task.card(drawn.to_json())
        model = assemble(found.draw, found.points.kappa, lift, readout, card, values=values)
        if self.draw is None:  # two ways to one model must give one file
            summary = task.summary(model, found.target, readout.labels, **measured | facts)
            model.card = card.with_summary(summary)
        # Slopes are powers of two, so what rounds is the place of a step, by one rounding error of the eight or more
        # in its gap; keys, codes and values are numbers of the format, and labels whole numbers that it holds.
        return model.to(dtype=getattr(torch, self.dtype))

    def _tokens(self, task: Task) -> Tokens:
        """What contexts are made of: ids with an order for their codes, or vectors."""
        context, draw = task.context, self.draw
        data = context.data
        alphabet: Alphabet
        if task.vectors is not None:
            if draw is None:
                check_extent(task.vectors)
            alphabet = Vectors(task.vectors, None if draw is None else draw.lift)
        else:
            assert data.vocabulary is not None  # tokens are ids where they are no vectors
            size = len(data.vocabulary)
            alphabet = Ids(size, _order(task, size)) if draw is None else Ids(size, draw.order, draw.tokens)
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

    def _readout(self, found: Separated, tokens: Tokens, task: Task) -> Built:
        """One staircase; or further stages, or an error that says which rank would do."""
        points, target = found.points, found.target
        whole = target.classes is not None
        if found.pair is None:  # all neighbours with different labels are far enough apart
            stairs = [staircase(*ramps_at(points.z, found.runs.changes), found.runs.level, whole, points.unit)]
            return Cascade(stairs), (), {}
        if task.vectors is not None:
            raise collision(found, task.context, None)
        stages, values, left = stages_of(found, tokens, self.seed)
        if left or (self.rank != "auto" and len(stages) > self.rank):
            raise collision(found, task.context, None if left else len(stages))
        stairs = [staircase(part.slope, part.start, part.level, whole, points.unit) for part in stages]
        readout = Cascade(stairs)
        facts: dict[str, Any] = {"margin": min(part.margin for part in stages if part.margin is not None)}
        facts |= {"rank": len(stages), "runs": 1 + readout.step_count}
        return readout, values, facts | {"contested": [part.crowds for part in stages[:-1]]}


def _order(task: Task, size: int) -> Ints | None:
    """Ranks `(V,)` for the codes of tokens, that put equal labels next to each other; None where it does not matter."""
    target, rows = task.target, task.context.rows
    if target.per == "sequence":
        return None
    labelled = rows if target.place is None else pick(rows, target.place)
    if is_array(rows):
        number = np.zeros(size, dtype=np.int64)
        number[labelled] = target.number
    else:
        counts = task.context.counts if target.place is None else counts_of(labelled, size)
        number = _last_numbers(labelled, target.number, size, int(np.count_nonzero(counts)))
    return by_label(target.table[number])


def _last_numbers(rows: Numbers, number: Numbers, size: int, different: int) -> Ints:
    """The label number of the last place of every row `(V,)`, 0 of rows without one; `different` rows have some.

    From the end backwards, until every row was met: on a device a scatter into few rows takes long.
    """
    last = beside(np.full(size, -1), rows)
    end, at_once = len(rows), LAST
    while end and int((last >= 0).sum()) < different:
        start = max(0, end - at_once)
        here = beside(np.full(size, -1), rows)
        here.scatter_reduce_(0, rows[start:end], torch.arange(start, end, device=rows.device), "amax")
        last = torch.where(last < 0, here, last)
        end, at_once = start, 4 * at_once
    return home(torch.where(last < 0, 0, number[last.clamp(min=0)]))


def check_extent(vectors: NDArray[np.float64]) -> None:
    """Weights of about 1 over the extent of a coordinate must be floats, and so must the extent."""
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    with np.errstate(over="ignore"):
        extent = high - low
    bad = np.flatnonzero((extent > 2.0**1023) | ((extent > 0.0) & (extent < 2.0**-1000)))
    if len(bad):
        raise DataError(
            f"coordinate {bad[0]} of the vectors runs from {low[bad[0]]:g} to {high[bad[0]]:g}, and no float64 weight "
            "scales that to keys: multiply it by a power of two, which is exact, until it runs over 2^-1000 to 2^1023"
        )


def lift_of(draw: Draw, count: Ints, labels: int, values: tuple[Value, ...]) -> nn.Embedding | nn.Linear:
    """The map from tokens to the stream; `count` `(V',)`: how often each id occurs, none beyond."""
    if draw.proposal.lift:
        weight, bias = draw.proposal.lift
        return linear_lift(torch.from_numpy(weight), torch.from_numpy(bias), labels)
    every = np.zeros(len(draw.proposal.key), np.int64)
    every[: len(count)] = count
    return table_lift(draw, every, labels, values)


def table_lift(draw: Draw, count: Ints, labels: int, values: tuple[Value, ...] = ()) -> nn.Embedding:
    """The stream vectors of ids; one that never occurs, as `count` `(V,)` says, has none."""
    table = stream(draw.proposal.key, draw.proposal.code, stream_width(1 + len(values), labels))
    for number, value in enumerate(values, 2):
        table[:, value_slot(number, labels)] = torch.from_numpy(value.token)
    table[torch.from_numpy(count == 0)] = torch.nan
    return embedding(table)
