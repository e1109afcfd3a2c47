"""The paper's construction, in the order of its proof: one number a point, and a staircase over the line.

Distinct tokens get distinct keys; one softmax head with rank-1 weights turns the keys of a sequence into one number,
different for different contexts (Theorem A); code and context together give every labelled place its own number `z`;
a staircase over `z` returns the labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from monolayer.construct.consistency import Context
from monolayer.construct.construction import Progress
from monolayer.construct.line.alphabet import Alphabet, Ids, Vectors
from monolayer.construct.line.assemble import assemble, linear_lift, stream
from monolayer.construct.line.draw import Draw, Tokens, averaging, check_seed, check_temperature
from monolayer.construct.line.points import SLACK
from monolayer.construct.line.separate import DRAWS, Separated, separate
from monolayer.construct.line.steps import Choice, dense_error, staircase
from monolayer.construct.task import Task
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.model.attention import LABEL
from monolayer.model.card import Card, Summary
from monolayer.model.layers import embedding
from monolayer.model.monolayer import Monolayer
from monolayer.theory.bounds import corollary1_counts


@dataclass(frozen=True)
class Line:
    """Rank 1 in float64. `readout`: `exact` or `paper`; on one platform the same seed gives the same bits.

    `temperature`: λ, 0 for the mean; None: chosen by measurement.
    """

    readout: Choice = "exact"
    seed: int = 0
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.readout not in ("exact", "paper"):
            raise DataError(f"readout must be one of 'exact', 'paper', not {self.readout!r}")
        check_seed(self.seed)
        check_temperature(self.temperature)

    def build(self, task: Task, report: Progress) -> Monolayer:
        """The model, a line a lemma."""
        data, rows = task.data, task.context.rows
        tokens = replace(_tokens(task), temperature=self.temperature)

        report("separating contexts", 0.1)
        found = separate(tokens, task.target, task.settle, self.seed)
        if found.pair is not None:
            raise _collision(found, found.pair, task.context)
        points, target = found.points, found.target

        report("building the staircase", 0.7)
        classes = target.classes is not None
        feed_forward, stored_error = staircase(points, found.changes, found.level, classes, self.readout)
        paper = self.readout == "paper"
        readout_error = dense_error(feed_forward, points, target, stored_error) if paper else None

        lift = _lift(found.draw, rows, target.table.shape[1])
        card = Card(data.vocabulary, target.classes, target.per, target.scalar, task.context.causal, target.next_token)
        model = assemble(found.draw, points.kappa, lift, feed_forward, card)
        d = 1 if task.vectors is None else task.vectors.shape[1]  # ids may stand on a line
        counted, multiplied = corollary1_counts(len(points.z), d, target.table.shape[1])
        summary = Summary(
            sequences=len(data),
            labelled=len(points.z),
            **found.measure(),
            vocabulary=int(np.count_nonzero(np.bincount(rows))),
            **model.counts(),
            corollary_1=counted,
            label_bits=len(points.z) * target.entropy_bits(),
            readout_error=readout_error,
            corollary_1_dense=multiplied,
        )
        model.card = model.card.with_summary(summary)
        return model


def _collision(found: Separated, pair: tuple[int, int], context: Context) -> PrecisionError:
    """The error for data that are consistent but that float64 with rank 1 cannot hold."""
    count, points, target, data = found.collisions, found.points, found.target, context.data
    one, two = pair if target.place is None else (int(target.place[pair[0]]), int(target.place[pair[1]]))
    if data.vocabulary is None and target.per == "token":
        distance = float(np.linalg.norm(data.tokens[one] - data.tokens[two]))
        size = float(np.linalg.norm(data.tokens[one]))
        if 0.0 < distance < 1e-6 * max(size, 1e-300):
            return PrecisionError(
                f"{data.where(one)} and {data.where(two)} have different labels and are closer than float64 can "
                f"separate here: distance {distance:.3g} at norm {size:.3g}. Merge them, or move them apart"
            )
    reach = float(points.z[-1] - points.z[0])
    holds = int(np.sqrt(reach / (SLACK * float(points.error(points.z).max()))))
    why = f"with rank 1 in float64 about {holds:,} points of this kind can be held, and there are {len(points.z):,}"
    if holds > len(points.z):
        why = f"about {holds:,} points that lie at random could be held, but these {len(points.z):,} crowd together"
    advice = "Split the data over several models, or try another seed if few pairs collide"
    advice += averaging(found.draw.temperature)
    if context.causal and not context.positions:
        why += f". What is seen of {int(data.lengths.max()):,} tokens hardly changes with one more"
        advice = (
            "Pass positions=True, which gives every place in a sequence its own key and code. Otherwise: "
            f"{advice[0].lower()}{advice[1:]}"
        )
    return PrecisionError(
        f"{count:,} pair{'s' if count > 1 else ''} of points with different labels fell closer together than "
        f"{SLACK:g} rounding errors in every one of {2 * DRAWS} draws, for example {data.labelled(pair[0])} and "
        f"{data.labelled(pair[1])}. They are different points, not a contradiction: {why}. {advice}"
    )


# -- from arrays to modules ----------------------------------------------------------------------------


def _tokens(task: Task) -> Tokens:
    data, rows, target = task.data, task.context.rows, task.target
    alphabet: Alphabet
    if task.vectors is not None:
        _check_extent(task.vectors)
        alphabet = Vectors(task.vectors)
    else:
        assert data.vocabulary is not None  # tokens are ids where they are no vectors
        vocabulary, order = len(data.vocabulary), None
        if target.per == "token":
            # Tokens that end with one label next to each other: fewer label changes between cells.
            some = np.zeros(vocabulary, dtype=np.int64)
            some[rows if target.place is None else rows[target.place]] = target.number
            order = by_label(some)
        alphabet = Ids(vocabulary, order)
    position = torch.from_numpy(data.position) if task.context.positions else None
    return Tokens(torch.from_numpy(rows), torch.from_numpy(data.lengths), alphabet, position, task.context.causal)


def by_label(some: Ints) -> Ints:
    """Ranks `(V,)` of tokens that put those with one label `some` `(V,)` next to each other."""
    order = np.empty(len(some), dtype=np.int64)
    order[np.argsort(some, kind="stable")] = np.arange(len(some))
    return order


def _check_extent(vectors: NDArray[np.float64]) -> None:
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


def _lift(draw: Draw, rows: Ints, labels: int) -> nn.Embedding | nn.Linear:
    if draw.proposal.lift:
        weight, bias = draw.proposal.lift
        return linear_lift(weight, bias, labels)
    return table_lift(draw, np.bincount(rows, minlength=len(draw.proposal.key)), labels)


def table_lift(draw: Draw, count: Ints, labels: int) -> nn.Embedding:
    """The stream vectors of ids; one that never occurs, as `count` `(V,)` says, has none."""
    table = stream(draw.proposal.key, draw.proposal.code, LABEL + labels)
    table[torch.from_numpy(count == 0)] = torch.nan
    return embedding(table)
