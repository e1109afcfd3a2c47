"""The line where the data already are: ids and classes that lie on an accelerator become weights there.

The draws, their contexts and codes, the margin, the ramps and the stages behind the first are those of the other files;
only the sort and the runs are taken from PyTorch, since NumPy cannot reach the device. The plain case alone: ids
`(N, n)`, a class for each token or each sequence, order of no account. Whatever is not plain, contradictions included,
is None here and goes the ordinary way, which knows what to say about it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Ints
from monolayer.construct.line.alphabet import UNIT, Ids
from monolayer.construct.line.assemble import assemble, stream
from monolayer.construct.line.cascade import Stage, further
from monolayer.construct.line.draw import Draw, Tokens, draws
from monolayer.construct.line.exponential import boltzmann_terms
from monolayer.construct.line.points import EXPONENT, SLACK, power_of_two
from monolayer.construct.line.separate import DRAWS, inside, stretches
from monolayer.construct.line.stored import LineDraw
from monolayer.construct.line.values import MOST, Value, draw_value
from monolayer.data import Names
from monolayer.errors import OutOfMemoryError
from monolayer.model.attention import contexts, pick
from monolayer.model.card import Card, Summary
from monolayer.model.cascade import Cascade, stream_width, value_slot
from monolayer.model.layers import embedding
from monolayer.model.monolayer import Monolayer
from monolayer.model.staircase import Staircase
from monolayer.theory.bounds import corollary1_counts

GAPLESS = 4
"""Ids and classes are their own row numbers if they are below this many times the values that occur, or below 1,024."""
SEEN = 1 << 20
"""Labels that are looked at to put tokens with like labels next to each other."""
LUCK = 3
"""Pairs left too close up to which another draw is tried; with more it is likely to do no better."""
CROWDED = 1 << 20
"""Neighbours too close for a step up to which the processor is asked to tell them apart."""


@torch.no_grad()
def build(X: Any, Y: Any, seed: int, temperature: float | None) -> Monolayer | None:
    """A model on the device of `X` `(N, n)` for labels `Y` `(N, n)` or `(N,)`; None: these are not plain."""
    if not (_whole(X) and _whole(Y) and X.ndim == 2 and X.numel() and X.device == Y.device):
        return None
    if Y.shape not in (X.shape, X.shape[:1]):
        return None
    try:
        return _build(X.long(), Y.long(), seed, temperature)
    except torch.OutOfMemoryError as error:
        free = torch.cuda.mem_get_info(X.device)[0] if X.device.type == "cuda" else 0
        raise OutOfMemoryError(
            f"{X.numel():,} labels need about {80 * X.numel() / 2**30:,.1f} GiB on {X.device} to be built there, and "
            f"{free / 2**30:,.1f} GiB are free: pass arrays of the processor, which are built in its own memory, or "
            "split the data over several models"
        ) from error


def _whole(values: Any) -> bool:
    return isinstance(values, Tensor) and not (values.is_floating_point() or values.is_complex())


def _build(X: Tensor, Y: Tensor, seed: int, temperature: float | None) -> Monolayer | None:
    N, n = X.shape
    rows, label, per_token = X.reshape(-1), Y.reshape(-1), Y.ndim == 2
    counts, classes = _counts(rows), _counts(label)
    if counts is None or classes is None:
        return None
    order = None
    if per_token:
        # Tokens with one largest label next to each other: fewer label changes between cells.
        some = torch.zeros(len(counts), dtype=torch.int64, device=X.device)
        some.scatter_reduce_(0, rows[:SEEN], label[:SEEN], "amax")
        order = some.argsort(stable=True).argsort().cpu().numpy()
    tokens = Tokens(rows, torch.full((N,), n, device=X.device), Ids(len(counts), order), None, False, temperature)
    label = label.to(torch.uint8 if len(classes) <= 2**8 else torch.int32)
    for tried, draw in enumerate(draws(tokens, "cells", DRAWS, seed), 1):
        line = _sorted(draw, tokens, label, per_token)
        step, cut = line.number[1:] != line.number[:-1], None
        near = torch.nonzero(~(line.room >= SLACK)).flatten()  # a NaN is no gap either
        close = int(torch.count_nonzero(step[near]))
        if close:
            cut = None if close <= LUCK and tried < DRAWS else _crowds(line, near, tokens, seed)
            if cut is None:
                continue
            step[torch.from_numpy(inside(cut.begin, cut.end - 1)).to(step.device)] = False
            step[torch.from_numpy(cut.bounds - 1).to(step.device)] = True
        feed_forward = _readout(line, step, cut)
        if feed_forward is None:
            return None
        values = () if cut is None else cut.values
        model = _assemble(line, feed_forward, values, counts, classes, per_token)
        stored = LineDraw.of(draw, line.kappa, tokens.alphabet, values)
        model.card = replace(model.card, draw=stored.to_json())
        margins = [] if cut is None else [stage.margin for stage in cut.stages if stage.margin is not None]
        facts = line.measure() | {"draws": tried, "runs": 1 + feed_forward.step_count, "margin": None}
        if feed_forward.step_count:
            facts["margin"] = min(float(line.room.masked_fill_(~step, math.inf).min()), *margins, math.inf)
        if cut is not None:
            facts |= {"rank": 1 + len(cut.stages)}
            facts["contested"] = [len(cut.begin), *(stage.crowds for stage in cut.stages[:-1])]
        share = (classes[classes > 0].double() / len(label)).cpu()
        counted, multiplied = corollary1_counts(len(label), 1, 1)
        summary = Summary(
            sequences=N,
            labelled=len(label),
            **facts,
            vocabulary=int(torch.count_nonzero(counts)),
            temperature=draw.temperature,
            layout=draw.layout,
            conflicts=0,
            **model.counts(),
            corollary_1=counted,
            label_bits=len(label) * -float((share * share.log()).sum()) / math.log(2.0),
            readout_error=None,
            corollary_1_dense=multiplied,
        )
        model.card = model.card.with_summary(summary)
        return model
    return None


def _counts(values: Tensor) -> Tensor | None:
    """How often each whole number occurs, if they can be row numbers (`Names.of_integers`); else None."""
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= max(1024, GAPLESS * len(values) + 1024):
        return None
    counts = torch.bincount(values)
    return counts if high < 1024 or high < GAPLESS * int(torch.count_nonzero(counts)) + 1024 else None


@dataclass(frozen=True, eq=False)
class _Crowds:
    """Stretches of `line` whose points are left to further stages: `begin` and `end` `(J,)`, and what tells them apart.

    `bounds`: where stretches begin, those between crowds too.
    """

    begin: Ints
    end: Ints
    bounds: Ints
    stages: list[Stage]
    values: tuple[Value, ...]

    def number(self, first: Tensor) -> Tensor:
        """The number of the stretch that begins at or before each place (`cascade.cut`)."""
        bounds = torch.from_numpy(self.bounds).to(first.device)
        return torch.searchsorted(bounds, first, right=True) - (len(bounds) + 1) // 2


@dataclass(frozen=True, eq=False)
class _Line:
    """`z` of all labelled places in order `(P,)` and their labels; `sequence` and `order` say which places they are."""

    draw: Draw
    z: Tensor
    number: Tensor
    kappa: float
    fixed: float
    sequence: Tensor
    order: Tensor | None

    @cached_property
    def room(self) -> Tensor:
        """Gaps between neighbours in rounding errors `(P − 1,)`."""
        left, right = self.z[:-1], self.z[1:]
        error = torch.maximum(right, left.neg()).mul_(UNIT).add_(self.fixed)  # of the larger of |left| and |right|
        return torch.div(right - left, error, out=error)

    def measure(self) -> dict[str, Any]:
        """What `Separated.measure` says of the points."""
        apart = self.room > 2.0
        count = int(torch.count_nonzero(apart)) + 1
        reach = float(self.z[-1] - self.z[0])
        smallest = float(self.z.diff().masked_fill_(~apart, math.inf).min()) / reach if count > 1 else 1.0
        return {"points": count, "gap": smallest, "expected_gap": 1.0 / count**2}

    def sequences(self, places: Ints) -> Tensor:
        """Which sequences these places of the line belong to."""
        which = torch.from_numpy(places).to(self.z.device)
        if self.order is None:
            return self.sequence[which]
        return self.sequence[self.order[which] // (len(self.order) // len(self.sequence))]


def _sorted(draw: Draw, tokens: Tokens, label: Tensor, per_token: bool) -> _Line:
    """The line of a draw.

    Codes are whole numbers and `κ c` moves them by less than 1/2 against each other (`points._token_major`): contexts
    are sorted as floats, one per sequence, and places only by code, as short integers, which keeps equal codes in
    order.
    """
    context, sequence = draw.contexts(tokens).sort()
    if not per_token:
        return _Line(draw, context, label[sequence], 1.0, draw.point_error(1.0, tokens), sequence, None)
    reach = float(context[-1] - context[0])
    kappa = power_of_two(0.5 / reach) if reach > 0 else 1.0
    N, code = len(context), draw.proposal.code
    low = code.min()
    digits = (code - low).to(torch.int16 if len(code) < 2**15 else torch.int32)
    digit, order = _rows(pick(digits, tokens.rows).view(N, -1), sequence).flatten().sort(stable=True)
    z = digit.to(torch.float64).add_(float(low))
    z.add_(context[torch.div(order, len(order) // N, rounding_mode="floor")], alpha=kappa)
    number = _rows(label.view(N, -1), sequence).flatten()[order]
    return _Line(draw, z, number, kappa, draw.point_error(kappa, tokens), sequence, order)


def _rows(table: Tensor, order: Tensor) -> Tensor:
    """`table[order]` for short rows `(N, n)`, in as few long words as they are: several times faster on a device."""
    if table.shape[1] * table.element_size() % 16:
        return table[order]
    words = table.view(torch.complex128)
    return torch.stack([word.contiguous()[order] for word in words.unbind(1)], dim=1).view(table.dtype)


def _crowds(line: _Line, near: Tensor, tokens: Tokens, seed: int) -> _Crowds | None:
    """Points too close on the line, told apart by further stages on the processor; None if they cannot be.

    `near`: the gaps that are too narrow for a step, whatever the labels beside them.
    """
    if len(near) > CROWDED:
        return None
    begin, end = stretches(near.cpu().numpy())
    label = line.number[torch.from_numpy(inside(begin, end)).to(near.device)].cpu().numpy().astype(np.float64)
    start = np.cumsum(end - begin) - (end - begin)
    mixed = np.maximum.reduceat(label, start) > np.minimum.reduceat(label, start)
    label, begin, end = label[np.repeat(mixed, end - begin)], begin[mixed], end[mixed]
    bounds = np.union1d(begin, end)
    cut = _Crowds(begin, end, bounds[(bounds > 0) & (bounds < len(line.z))], [], ())
    count = end - begin
    missing = label - np.repeat(label[np.cumsum(count) - count], count)
    numbers = cut.number(torch.from_numpy(begin)).numpy()
    rows = tokens.rows.view(len(tokens.lengths), -1)[line.sequences(inside(begin, end))].cpu()
    values: list[Value] = []

    def context(stage: int, which: Ints) -> Any:
        values.append(draw_value(tokens, seed, stage))
        return _means(values[-1], line.draw, rows[torch.from_numpy(which)])

    ends = cut.number(torch.tensor([0, len(line.z)])).tolist()
    error = line.draw.context_error(tokens)
    stages, left = further(
        np.repeat(numbers, count), missing[None], (ends[0], ends[1]), context, error, UNIT, True, MOST
    )
    return None if len(left) else _Crowds(begin, end, cut.bounds, stages, tuple(values))


def _means(value: Value, draw: Draw, rows: Tensor) -> Any:
    """The mean of `value` under the softmax of `draw`, for the sequences `rows` `(Q, n)`."""
    weight, _ = boltzmann_terms(pick(draw.proposal.key, rows.flatten()), draw.temperature)
    first = math.exp(draw.temperature * draw.bos_key)
    lengths = torch.full((len(rows),), rows.shape[1])
    return contexts(
        weight, weight * pick(value.token, rows.flatten()), lengths, (first, first * value.bos), False
    ).numpy()


def _readout(line: _Line, step: Tensor, cut: _Crowds | None) -> Staircase | Cascade | None:
    """Ramps in the gaps that are a `step` (`steps.py`), and the stages behind; None if labels may add up past 2^53."""
    place = torch.nonzero(step).flatten()
    after = place + 1
    level = line.number[torch.cat([place.new_zeros(1), after])].to(torch.float64)
    bounds = torch.zeros(0, dtype=torch.int64) if cut is None else torch.from_numpy(cut.bounds)
    if (2.0 * len(place) + 1.0) * max(float(level.max()), len(bounds)) >= 2.0**53:
        return None
    jump = level.new_zeros(1 if cut is None else 2, len(place))
    torch.sub(level[1:], level[:-1], out=jump[0])
    low, high = level[:1], level[-1:]
    if cut is not None:
        # The number of the stretch rises by 1 at each bound, and nowhere else.
        jump[1, torch.searchsorted(place, bounds.to(place.device) - 1)] = 1.0
        ends = cut.number(torch.tensor([0, len(line.z)])).to(level)
        low, high = torch.cat([low, ends[:1]]), torch.cat([high, ends[1:]])
    left, gap = line.z[place], line.z[after]
    gap.sub_(left)
    width = (gap.view(torch.int64) & int(EXPONENT)).view(torch.float64).div_(4.0)
    start = gap.sub_(width).div_(2.0).add_(left)
    stage = Staircase.from_steps(width.reciprocal_(), start, jump, low.clone(), high.clone(), "exact")
    return stage if cut is None else Cascade([stage, *(more.staircase(True, UNIT) for more in cut.stages)], 1)


def _assemble(
    line: _Line,
    feed_forward: Staircase | Cascade,
    values: Sequence[Value],
    counts: Tensor,
    classes: Tensor,
    per_token: bool,
) -> Monolayer:
    """The modules around a readout."""
    proposal = line.draw.proposal
    table = stream(proposal.key, proposal.code, stream_width(1 + len(values), 1))
    for number, value in enumerate(values, 2):
        table[:, value_slot(number, 1)] = value.token
    table[(counts == 0).cpu()] = torch.nan
    card = Card(Names(range(len(counts))), Names(range(len(classes))), "token" if per_token else "sequence")
    return assemble(line.draw, line.kappa, embedding(table), feed_forward, card, values=values).to(counts.device)
