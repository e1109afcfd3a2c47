"""The robust construction, in order: codes, contexts, half-spaces, gates (docs/robust.md).

Every token is a cell. Its usual class comes from its embedding; the facts that are exceptions are covered by
half-spaces of contexts, as wide as they come; each half-space is a neuron that its token's code switches on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monolayer.arrays import Ints
from monolayer.construct.consistency import equal_points
from monolayer.construct.line.draw import check_seed
from monolayer.construct.robust.cover import cover
from monolayer.construct.robust.groups import Cells, HalfSpaces
from monolayer.construct.robust.linear import BASES, COPIES, LIFT, digits, fits, solve
from monolayer.construct.robust.neurons import Neurons, bears, readout
from monolayer.construct.robust.stored import Dtype, RobustDraw
from monolayer.construct.robust.stream import TEMPERATURE, Stream, cell_of, contexts, draw_stream, in_format, several
from monolayer.construct.task import Progress, Task
from monolayer.data.distinct import row_keys
from monolayer.errors import DataError, PrecisionError
from monolayer.model.card import Card
from monolayer.model.device import one_thread
from monolayer.model.gates import Gates
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer

RANK = 64
"""Value rank where none is asked for."""
RANKS = (16, 32, 64, 128, 256, 512)
"""What `rank="auto"` tries, from below."""
MARGINS = (0.3, 0.6, 1.2)
"""Half-widths of the slabs that are asked for, contexts having length √k; the wider ones only to bear more noise."""
NOISE = 2.0**-9
"""What `rank="auto"` shall bear where nothing else is said: the rounding of weights to bfloat16."""
NARROWEST = 1e-3
"""Half-width below which two facts count as one: float32 contexts are known to about 10⁻⁶."""
STAGE = "covering exceptions with half-spaces"


@dataclass(frozen=True)
class Robust:
    """Value rank `rank`, weights in `dtype`; `noise` that they shall bear, `neurons` that there may be, or None."""

    noise: float | None = None
    rank: int | Literal["auto"] = RANK
    neurons: int | None = None
    dtype: Dtype = "float32"
    seed: int = 0
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        whole = type(self.rank) is int and 2 <= self.rank <= 4096
        if self.rank != "auto" and not whole:
            raise DataError(f"rank must be a whole number from 2 to 4096, or 'auto', not {self.rank!r}")
        if self.dtype not in get_args(Dtype):
            names = ", ".join(map(repr, get_args(Dtype)))
            raise DataError(
                f"dtype must be one of {names}, not {self.dtype!r}: integers need a scale per row, which "
                "certify(dtype='int8') chooses"
            )
        if self.noise is not None and not 0.0 < self.noise <= 0.25:
            raise DataError(f"robust must be True, or a share of each weight between 0 and 0.25, not {self.noise!r}")
        if self.neurons is not None and (type(self.neurons) is not int or self.neurons < 1):
            raise DataError(f"neurons must be a whole number from 1, not {self.neurons!r}")
        check_seed(self.seed)

    def build(self, task: Task, report: Progress) -> Monolayer:
        """The model of the smallest rank, and there of the fewest neurons, that fulfils the wishes."""
        if task.target.classes is None:
            raise DataError(
                "a robust model answers with classes, and these labels are real numbers, which noise would blur: give "
                "classes (strings or whole numbers, such as rounded values), or leave robust out"
            )
        task, conflicts = task.settled()
        auto = self.rank == "auto"
        noise = NOISE if auto and self.noise is None and self.neurons is None else self.noise
        tried: list[Attempt] = []
        for rank in RANKS if self.rank == "auto" else (self.rank,):
            for found in self._attempts(task, rank, noise, report):
                tried.append(found)
                few = self.neurons is None or found.size <= self.neurons
                if few and (noise is None or found.bears >= noise):
                    return self._assemble(task, found, conflicts)
        if not tried:
            raise DataError(
                f"{self.neurons:,} neurons are too few: every token needs one for each of its classes but the usual, "
                "and tokens have more facts than contexts of this rank have dimensions, so linear cells do not fit"
            )
        if self.neurons is not None and all(each.size > self.neurons for each in tried):
            least = min(tried, key=lambda each: each.size)
            raise DataError(
                f"{self.neurons:,} neurons are too few: it takes {least.size:,} at rank {least.rank}. A higher rank "
                "takes fewer, for half-spaces of more dimensions hold more facts"
            )
        best = max(tried, key=lambda each: each.bears)
        assert noise is not None  # without a wish the first attempt is taken
        raise PrecisionError(
            f"noise of {noise:g} on every weight is more than these data bear: about {best.bears:.2g} at rank "
            f"{best.rank}. {best.closest(task)}"
        )

    def _attempts(self, task: Task, rank: int, noise: float | None, report: Progress) -> Iterator[Attempt]:
        """Half-spaces, wider ones if more noise is to be borne; linear cells where neurons are to be few."""
        stream = draw_stream(task, RobustDraw.of(task, rank, self.seed, self.dtype))
        report("contexts", 0.1)
        cells, points, number = points_of(task, stream, self.device)
        fewest = len(np.unique(np.stack([cells[points.cell], points.label], axis=1), axis=0)) - len(cells)
        if self.neurons is None or fewest <= self.neurons:
            for margin in MARGINS if noise is not None else MARGINS[:1]:
                found = half_spaces(task, stream, cells, points, number, margin, report)
                yield found
                if found.half_width < margin or (self.neurons is not None and found.size > self.neurons):
                    break  # wider slabs cannot be had, or hold fewer facts each
        if self.neurons is None or stream.even or not fits(points):
            return
        for base in BASES:
            report(f"linear cells, digits in base {base}", 0.5)
            draw = RobustDraw.of(task, rank, self.seed, self.dtype, base)
            solved = linear_cells(draw_stream(task, draw), cells, points, number, base)
            if solved is None:
                return
            yield solved

    def _assemble(self, task: Task, found: Attempt, conflicts: int) -> Monolayer:
        model = found.assemble(task)
        check_answers(task, model)
        summary = task.summary(
            model,
            task.target,
            1,
            points=len(task.target.number),
            **dict.fromkeys(("gap", "expected_gap", "margin", "readout_error")),
            temperature=TEMPERATURE if task.context.positions else 0.0,
            layout="gates",
            draws=1,
            runs=found.size,
            conflicts=conflicts,
            rank=found.rank,
            half_width=found.half_width if found.size and np.isfinite(found.half_width) else None,
            bears=found.bears if np.isfinite(found.bears) else None,
        )
        model.card = model.card.with_summary(summary)
        return model


@dataclass(frozen=True, eq=False)
class Attempt:
    """What one rank and one width gave: the stream, the readout, and the points it was made from."""

    draw: RobustDraw
    stream: Stream
    gates: Gates
    cell: Ints
    """The cell of every neuron."""
    room: Tensor
    points: Cells
    number: Ints
    """Label numbers of the points."""
    found: HalfSpaces | None
    """None for linear cells."""

    @property
    def rank(self) -> int:
        return self.stream.layout.rank

    @property
    def size(self) -> int:
        return len(self.gates.weight_1)

    @property
    def half_width(self) -> float:
        """Of the narrowest slab; ∞ without any."""
        return np.inf if self.found is None else float(self.found.half_width.min(initial=np.inf))

    @cached_property
    def bears(self) -> float:
        return bears(self.gates, self.stream, self.room)

    def assemble(self, task: Task) -> Monolayer:
        """The model, its numbers in the format of its draw."""
        return assembled(self.stream, self.gates, task.card(self.draw.to_json()), self.draw.dtype)

    def closest(self, task: Task) -> str:
        """The two facts behind the narrowest slab, how far apart they are, and what would help."""
        points, target = self.points, task.target
        worst = None if self.found is None else self.found.worst
        if worst is None:
            return "The tokens themselves are too close to one another for a gate: move them apart, or use ids"
        cell = int(np.searchsorted(points.start, worst, side="right")) - 1
        own = slice(int(points.start[cell]), int(points.start[cell + 1]))
        other = np.flatnonzero(points.label[own] != points.label[worst]) + own.start
        distance = (points.feature[torch.from_numpy(other)] - points.feature[worst]).norm(dim=1)
        places = [int(self.number[i]) for i in (worst, int(other[int(distance.argmin())]))]
        places = places if target.place is None else [int(target.place[i]) for i in places]
        one, two = (task.data.where(i) if target.per == "token" else f"sequence {i}" for i in places)
        return (
            f"{one} and {two} have different labels, and their contexts are {float(distance.min()):.3g} apart at "
            f"length {self.rank**0.5:.3g}; the widest slab between the first and the facts of other labels has "
            f"half-width {self.half_width:.3g}. A higher rank helps where many facts crowd in, positions=True where "
            "only the order differs; without robust, the line tells them apart"
        )


def assembled(stream: Stream, gates: Gates, card: Card, dtype: str) -> Monolayer:
    """A stream with its readout and head, all numbers in `dtype`."""
    short = getattr(torch, dtype)
    weight = torch.zeros(len(stream.classes), stream.layout.width, dtype=torch.float64)
    weight[:, -stream.layout.label :] = torch.from_numpy(stream.classes)
    head = linear(weight, torch.from_numpy(stream.bias))
    model = Monolayer(stream.lift, stream.positions, stream.bos, stream.attention, gates, head, card).to(short)
    if isinstance(model.lift, nn.Embedding):
        model.lift = embedding(in_format(model.lift.weight, short))
    return model


def points_of(
    task: Task, stream: Stream, device: torch.device | str | None, only: NDArray[np.bool_] | None = None
) -> tuple[Ints, Cells, Ints]:
    """Cells with several classes (`only`: a mask of those that are asked for), their points, the numbers of these.

    Points of a cell are in an order of their own, which depends on them alone and not on where they stand in the data.
    """
    device = torch.device(device or "cpu")
    cell, wanted = cell_of(task), several(task, len(stream.base))
    wanted = (wanted if only is None else wanted & only)[cell]
    with one_thread():
        point, feature = contexts(task, stream, _one_each(task) & wanted, device)
    host = feature.cpu().numpy()
    order = np.lexsort((row_keys(host), cell[point]))
    cells, start = np.unique(cell[point][order], return_index=True)
    feature, number = feature[torch.from_numpy(order).to(device)], point[order]
    return (cells, Cells(feature, task.target.number[number], np.append(start, len(order)), stream.base[cells]), number)


def _one_each(task: Task) -> NDArray[np.bool_]:
    """One of each set of equal facts: the first in a shortest sequence, since a longer one may round otherwise."""
    data, target = task.data, task.target
    place = np.arange(len(target.number)) if target.place is None else target.place
    length = data.lengths[place] if target.per == "sequence" else data.lengths[data.sequence[place]]
    group = equal_points(task.context, target)
    order = np.lexsort((length, group))
    group = group[order]
    one = np.zeros(len(order), dtype=bool)
    one[order[np.append(True, group[1:] != group[:-1])]] = True
    return one


def check_answers(task: Task, model: Monolayer) -> None:
    """That a model of vectors returns its labels: gates grow as vectors get closer, and then round by more than 1.

    Codes of ids are as far apart as their code makes them, so there is nothing to ask.
    """
    if task.vectors is None:
        return
    got, target = model.labels(task.data), task.target
    wrong = np.flatnonzero((got if target.place is None else got[target.place]) != target.number)
    if len(wrong):
        place = int(wrong[0]) if target.place is None else int(target.place[wrong[0]])
        raise PrecisionError(
            f"{len(wrong):,} of {len(target.number):,} labels would come back wrong, the first of them that of "
            f"{task.data.labelled(place)}: some vectors are so much closer to one another than all are to their centre "
            "that their gates round away. Scale the coordinates so that vectors are evenly spread, give tokens as ids, "
            "or leave robust out"
        )


def half_spaces(
    task: Task, stream: Stream, cells: Ints, points: Cells, number: Ints, margin: float, report: Progress
) -> Attempt:
    """One width of the slabs, a line per stage."""
    report(STAGE, 0.2)
    found = cover(points, margin, lambda share: report(STAGE, 0.2 + 0.6 * share))
    report("gating neurons by their tokens", 0.8)
    some = np.full(len(stream.base), -1)
    some[cell_of(task)] = task.target.number
    # Vectors carry no class: a cell with one class that is not everyone's needs a neuron too.
    plain = np.flatnonzero((some >= 0) & (some != stream.base) & ~several(task, len(some)))
    neurons = Neurons.of(found, cells, plain, some[plain], torch.from_numpy(stream.classes))
    gates = readout(neurons, stream)
    attempt = Attempt(
        replace(stream.draw, margin=margin), stream, gates, neurons.cell, neurons.room, points, number, found
    )
    if attempt.half_width < NARROWEST:
        raise PrecisionError(f"some facts are too close for a half-space. {attempt.closest(task)}")
    return attempt


def linear_cells(stream: Stream, cells: Ints, points: Cells, number: Ints, base: int) -> Attempt | None:
    """Digits in one base; None where the equations cannot be fulfilled."""
    with one_thread():
        solved = solve(points, digits(len(stream.classes), base) + LIFT)
    if solved is None:
        return None
    neurons = Neurons.linear(cells, *solved, COPIES)
    gates = readout(neurons, stream)
    return Attempt(stream.draw, stream, gates, neurons.cell, neurons.room, points, number, None)
