"""The robust construction, in order: codes, contexts, half-spaces, gates (docs/robust.md).

Every token is a cell. Its usual class comes from its embedding; the facts that are exceptions are covered by
half-spaces of contexts, as wide as they come; each half-space is a neuron that its token's code switches on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch

from monolayer.construct.construction import Progress
from monolayer.construct.line.draw import check_seed
from monolayer.construct.robust.cover import Cells, HalfSpaces, cover
from monolayer.construct.robust.neurons import Neurons, bears, readout
from monolayer.construct.robust.stream import TEMPERATURE, Stream, contexts, draw_stream
from monolayer.construct.task import Task
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.model.card import Card, Summary
from monolayer.model.gates import Gates
from monolayer.model.layers import linear
from monolayer.model.monolayer import Monolayer
from monolayer.theory.bounds import corollary1_counts

Dtype = Literal["float64", "float32", "bfloat16", "float16"]
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
                f"dtype must be one of {names}, not {self.dtype!r}: integers need a scale a row, which "
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
            for margin in MARGINS if noise is not None else MARGINS[:1]:
                found = self._attempt(task, rank, margin, report)
                if self.neurons is not None and found.size > self.neurons:
                    break  # wider slabs hold fewer facts each
                if noise is None or found.bears >= noise:
                    return self._assemble(task, found, conflicts)
                tried.append(found)
                if found.half_width < margin:
                    break  # and cannot be had here
            tried.append(found)
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

    def _attempt(self, task: Task, rank: int, margin: float, report: Progress) -> Attempt:
        """One rank and one width, a line a stage."""
        stream = draw_stream(task, rank, self.seed, getattr(torch, self.dtype))
        report("contexts", 0.1)
        device = torch.device(self.device or "cpu")
        cell, plain = _cells(task, stream)
        mixed = np.isin(cell, _with_several(cell, task.target.number))
        point, feature = contexts(task, stream, mixed, device)
        order = np.lexsort((point, cell[point]))
        cells, start = np.unique(cell[point][order], return_index=True)
        points = Cells(
            feature[torch.from_numpy(order).to(device)],
            task.target.number[point[order]],
            np.append(start, len(order)),
            stream.base[cells],
        )
        report(STAGE, 0.2)
        found = cover(points, margin, lambda share: report(STAGE, 0.2 + 0.6 * share))
        report("gating neurons by their tokens", 0.8)
        label = np.zeros(len(stream.base), dtype=np.int64)
        label[cell] = task.target.number
        neurons = Neurons.of(found, cells, plain, label[plain])
        attempt = Attempt(rank, stream, readout(neurons, stream), points, point[order], found)
        if len(found.half_width) and float(found.half_width.min()) < NARROWEST:
            raise PrecisionError(f"some facts are too close for a half-space. {attempt.closest(task)}")
        return attempt

    def _assemble(self, task: Task, found: Attempt, conflicts: int) -> Monolayer:
        stream, gates = found.stream, found.gates
        data, target, layout = task.data, task.target, stream.layout
        weight = torch.zeros(len(stream.classes), layout.width, dtype=torch.float64)
        weight[:, -layout.label :] = torch.from_numpy(stream.classes)
        head = linear(weight, torch.zeros(len(weight), dtype=torch.float64))
        card = Card(data.vocabulary, target.classes, target.per, target.scalar, task.context.causal, target.next_token)
        model = Monolayer(stream.lift, stream.positions, stream.bos, stream.attention, gates, head, card)
        model = model.to(getattr(torch, self.dtype))
        d = 1 if task.vectors is None else task.vectors.shape[1]  # ids may stand on a line
        counted, multiplied = corollary1_counts(len(target.number), d, 1)
        summary = Summary(
            sequences=len(data),
            labelled=len(target.number),
            points=len(target.number),
            vocabulary=int(np.count_nonzero(np.bincount(task.context.rows))),
            gap=None,
            expected_gap=None,
            margin=None,
            temperature=TEMPERATURE if task.context.positions else 0.0,
            layout="gates",
            draws=1,
            runs=found.size,
            **model.counts(),
            corollary_1=counted,
            label_bits=len(target.number) * target.entropy_bits(),
            conflicts=conflicts,
            readout_error=None,
            corollary_1_dense=multiplied,
            rank=found.rank,
            half_width=found.half_width if found.size and np.isfinite(found.half_width) else None,
            bears=found.bears if np.isfinite(found.bears) else None,
        )
        model.card = model.card.with_summary(summary)
        return model


@dataclass(frozen=True, eq=False)
class Attempt:
    """What one rank and one width gave: the stream, the readout, and the points it was made from."""

    rank: int
    stream: Stream
    gates: Gates
    points: Cells
    number: Ints
    """Label numbers of the points."""
    found: HalfSpaces

    @property
    def size(self) -> int:
        return len(self.gates.weight_1)

    @property
    def half_width(self) -> float:
        """Of the narrowest slab; ∞ without any."""
        return float(self.found.half_width.min(initial=np.inf))

    @cached_property
    def bears(self) -> float:
        return bears(self.gates, self.stream)

    def closest(self, task: Task) -> str:
        """The two facts behind the narrowest slab, how far apart they are, and what would help."""
        worst, points, target = self.found.worst, self.points, task.target
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


def _cells(task: Task, stream: Stream) -> tuple[Ints, Ints]:
    """The cell of every labelled place `(P,)`, and the cells that need a neuron although they have one class only."""
    target = task.target
    if target.per == "sequence":
        return np.zeros(len(target.number), dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows = task.context.rows
    cell = rows if target.place is None else rows[target.place]
    some = np.full(len(stream.base), -1)
    some[cell] = target.number
    several = np.isin(np.arange(len(some)), _with_several(cell, target.number))
    return cell, np.flatnonzero((some >= 0) & (some != stream.base) & ~several)


def _with_several(cell: Ints, label: Ints) -> Ints:
    """Cells that have more than one class."""
    pairs = np.unique(np.stack([cell, label], axis=1), axis=0)[:, 0]
    values, counts = np.unique(pairs, return_counts=True)
    return values[counts > 1]
