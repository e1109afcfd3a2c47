"""The robust construction, in order: codes, contexts, half-spaces, gates (docs/robust.md).

Every token is a cell. Its usual class comes from its embedding; the facts that are exceptions are covered by
half-spaces of contexts, as wide as they come; each half-space is a neuron that its token's code switches on.

The neuron of the half-space `{w · z ≥ c}` with half-width `κ` in the cell of token `x` is

    relu( A ⟨p_x, p⟩/|p|² − A  +  (w · z − c) / κ )

At its own token the gate is 0: its facts get at least 1, the other points at most −1. At another token the gate is at
most `−A (1 − cos)`, and `w · z ≤ |w_context| √k + max over places`, so with

    A (1 − cos) = (|w_context| √k + max_place w_place · place − c) / κ + 1

it is at most −1 there as well, whatever the context, one of the data or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import torch

from monolayer.arrays import Bools, Ints
from monolayer.construct.line.draw import check_seed
from monolayer.construct.robust.codes import code_for
from monolayer.construct.robust.cover import Cells, HalfSpaces, cover
from monolayer.construct.robust.stored import ONES, RobustDraw, RobustFormat
from monolayer.construct.robust.stream import (
    TEMPERATURE,
    RobustStream,
    cell_of,
    context_features,
    draw_stream,
    in_format,
    several,
)
from monolayer.construct.task import Task
from monolayer.data.distinct import by_cell_and_row
from monolayer.errors import DataError, PrecisionError
from monolayer.model.gates import Gates
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress, counting

ROBUST_RANK = 64
"""Value rank that is taken where the caller asks for none."""
WANTED_HALF_WIDTH = 0.3
"""Half-width that slabs should have; contexts have length √k."""
NARROWEST = 1e-3
"""Half-width below which two facts count as one: float32 contexts are known to about 10⁻⁶."""
LOUD = 8.0
"""How many times the base class a neuron at 1 writes: its class wins as soon as the neuron is above 1/8."""
STAGE = "finding half-spaces"


@dataclass(frozen=True)
class Robust:
    """The robust construction as a `Construction`, with its options: value rank `rank`, weights in `dtype`."""

    rank: int = ROBUST_RANK
    dtype: RobustFormat = "float32"
    seed: int = 0
    draw: RobustDraw | None = None
    """A stored draw to reuse; None: a new one for the data."""

    @classmethod
    def again(cls, draw: RobustDraw) -> Robust:
        """The construction that uses a stored draw again."""
        return cls(draw.rank, draw.dtype, draw.seed, draw)

    def __post_init__(self) -> None:
        if type(self.rank) is not int or not 2 <= self.rank <= 4096:
            raise DataError(f"rank of a robust model must be a whole number from 2 to 4096, not {self.rank!r}")
        if self.dtype not in get_args(RobustFormat):
            names = ", ".join(map(repr, get_args(RobustFormat)))
            raise DataError(
                f"dtype must be one of {names}, not {self.dtype!r}: integers need a scale per row, which "
                "certify(dtype='int8') chooses"
            )
        check_seed(self.seed)

    def build(self, task: Task, report: Progress) -> Monolayer:
        """Build the model for `task`, one line per stage; `report` is told the stages."""
        if task.target.classes is None:
            raise DataError(
                "a robust model answers with classes, and these labels are real numbers, which noise would blur: give "
                "classes (strings or whole numbers, such as rounded values), or leave robust out"
            )
        if task.vectors is not None:
            raise DataError(
                "a robust model takes ids or strings as tokens, and these are vectors, which may be too close for any "
                "gate: number them, or leave robust out"
            )
        task, conflicts = task.settled()
        stream = draw_stream(task, self.draw or RobustDraw.of(task, self.rank, self.seed, self.dtype))
        _, gates, narrowest = cover_facts(task, stream, report)
        model = assembled(task, stream, gates)
        if self.draw is None:  # two ways to one model must give one file
            summary = task.summary(
                model,
                task.target,
                1,
                temperature=TEMPERATURE if task.context.positions else 0.0,
                layout="gates",
                runs=len(gates.weight_1),
                conflicts=conflicts,
                rank=self.rank,
                half_width=narrowest if np.isfinite(narrowest) else None,
            )
            model.card = model.card.with_summary(summary)
        return model


class CoveredFacts(NamedTuple):
    """The neurons that cover the exceptional facts of some tokens.

    `token` `(H,)`: the token that each neuron belongs to. `narrowest`: half-width of the narrowest slab, ∞ without any.
    """

    token: Ints
    gates: Gates
    narrowest: float


def cover_facts(task: Task, stream: RobustStream, report: Progress, only: Bools | None = None) -> CoveredFacts:
    """Find the neurons that cover all exceptional facts of a task, or those of the tokens in the mask `only` `(V,)`."""
    # Shares as measured with 20,000 facts: contexts 0.1, half-spaces 0.88, gating 0.02.
    report("contexts", 0.01)
    contested = _contested_points(task, stream, only)
    report(STAGE, 0.1)
    slabs = cover(contested.points, WANTED_HALF_WIDTH, counting(report, STAGE, "fact", 0.1, 0.98))
    narrowest = float(slabs.half_width.min(initial=np.inf))
    if narrowest < NARROWEST and slabs.worst is not None:
        raise _too_close(task, stream, contested, slabs.worst, narrowest)
    report("gating neurons by their tokens", 0.98)
    tokens = contested.tokens
    return CoveredFacts(tokens[slabs.cell], _readout(slabs, tokens, stream), narrowest)


def assembled(task: Task, stream: RobustStream, gates: Gates) -> Monolayer:
    """The model: the stream, the readout `gates` and the head, with all weights in the format of the draw."""
    short = getattr(torch, stream.draw.dtype)
    weight = torch.zeros(len(stream.classes), stream.layout.width, dtype=torch.float64)
    weight[:, -stream.layout.label :] = torch.from_numpy(stream.classes)
    head = linear(weight, torch.zeros(len(weight), dtype=torch.float64))
    card = task.card(stream.draw.to_json())
    model = Monolayer(stream.lift, stream.positions, stream.bos, stream.attention, gates, head, card).to(short)
    model.lift = embedding(in_format(stream.lift.weight, short))
    return model


def _readout(half_spaces: HalfSpaces, cells: Ints, stream: RobustStream) -> Gates:
    """The neurons of half-spaces; `cells` `(K,)` are the tokens that their cells stand for."""
    layout, width = stream.layout, torch.from_numpy(half_spaces.half_width)
    weight, offset = half_spaces.normal.double() / width[:, None], -torch.from_numpy(half_spaces.centre) / width
    place, context = weight[:, : layout.place], weight[:, layout.place :]
    reach = offset + context.norm(dim=1) * layout.rank**0.5
    if stream.positions is not None and layout.place:
        codes = stream.positions.weight.detach()[:, layout.token : layout.token + layout.place]
        # Coordinate by coordinate: a neuron's sums are the same bits whatever neurons stand beside it.
        height = torch.zeros(len(place), len(codes), dtype=torch.float64)
        for coordinate in range(layout.place):
            height += place[:, coordinate, None] * codes[None, :, coordinate]
        reach = reach + height.amax(dim=1)
    read = torch.zeros(len(weight), layout.reads, dtype=torch.float64)
    gate, signs = torch.zeros_like(reach), layout.token - ONES
    if signs:  # else the begin token answers, and there is nothing to tell it from
        # The cosine of all words of the code, whichever are in use: gates do not depend on other tokens.
        gate = ((reach + 1.0) / (1.0 - code_for(stream.draw.tokens).cosine)).clamp_min(0.0)
        read[:, :signs] = gate[:, None] * torch.from_numpy(stream.code[cells[half_spaces.cell]]) / signs
    read[:, signs : layout.token] = (offset - gate)[:, None] / ONES
    read[:, layout.token :] = weight
    write = LOUD * torch.from_numpy(stream.classes)[half_spaces.label]
    nothing = torch.zeros(len(weight), dtype=torch.float64), torch.zeros(layout.label, dtype=torch.float64)
    return Gates(read, nothing[0], write.T.contiguous(), nothing[1], layout)


class ContestedPoints(NamedTuple):
    """The points of the tokens that have several classes.

    `tokens` `(K,)`: these tokens, one per cell. `points`: their points, cell by cell. `number` `(M,)`: which labelled
    place each point is.
    """

    tokens: Ints
    points: Cells
    number: Ints


def _contested_points(task: Task, stream: RobustStream, only: Bools | None) -> ContestedPoints:
    """The points of tokens with several classes; `only`: a mask `(V,)` of the tokens that are asked for.

    The order of the points in a cell depends on these points alone, not on where they stand in the data.
    """
    cell, wanted = cell_of(task), several(task, len(stream.base))
    wanted = (wanted if only is None else wanted & only)[cell]
    point, feature = context_features(task, stream, _one_each(task) & wanted)
    order = by_cell_and_row(cell[point], feature.numpy())
    cells, start = np.unique(cell[point][order], return_index=True)
    feature, number = feature[torch.from_numpy(order)], point[order]
    points = Cells(feature, task.target.number[number], np.append(start, len(order)), stream.base[cells])
    return ContestedPoints(cells, points, number)


def _one_each(task: Task) -> Bools:
    """A mask `(P,)` with one of each set of equal facts: the first in a shortest sequence.

    A longer sequence may round the context of the same fact differently.
    """
    data, target = task.data, task.target
    place = np.arange(len(target.number)) if target.place is None else target.place
    length = data.lengths[target.labelling.rows(data, place)]
    assert task.group is not None  # the task is settled
    group = task.group
    shortest = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, group, length)
    place = np.flatnonzero(length == shortest[group])
    first = np.full(len(shortest), len(group))
    np.minimum.at(first, group[place], place)
    one = np.zeros(len(group), dtype=bool)
    one[first[first < len(group)]] = True
    return one


def _too_close(
    task: Task, stream: RobustStream, contested: ContestedPoints, worst: int, half_width: float
) -> PrecisionError:
    """The error that names the two facts behind the narrowest slab, how far apart they are, and what would help."""
    points, number = contested.points, contested.number
    target, rank = task.target, stream.layout.rank
    facts_of_cell = points.own(int(np.searchsorted(points.start, worst, side="right")) - 1)
    other = np.flatnonzero(points.label[facts_of_cell] != points.label[worst]) + facts_of_cell.start
    distance = (points.feature[torch.from_numpy(other)] - points.feature[worst]).norm(dim=1)
    places = [int(number[i]) for i in (worst, int(other[int(distance.argmin())]))]
    places = places if target.place is None else [int(target.place[i]) for i in places]
    one, two = (target.labelling.describe(task.data, i) for i in places)
    return PrecisionError(
        f"some facts are too close for a half-space. {one} and {two} have different labels, and their contexts are "
        f"{float(distance.min()):.3g} apart at length {rank**0.5:.3g}; the widest slab between the first and the facts "
        f"of other labels has half-width {half_width:.3g}. A higher rank helps where many facts crowd in, "
        "positions=True where only the order differs; without robust, the line tells them apart"
    )
