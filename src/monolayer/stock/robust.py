"""Half-spaces with margins inside a stock architecture: folders for float32, bfloat16 and float16.

The construction is that of `construct/robust`; LayerNorm (or RMSNorm) plays the part of its normalization. The neuron
of a half-space `{w · z ≥ c}` of token `x` reads, of what arrives behind the second norm,

    A (⟨p_x, p⟩/t − mean of the ones)  +  w · (place, context)  −  c

In its own cell the bracket is 0: code and ones arrive as `±u` and `u` with one `u`, rounded alike. There its facts get
1 at least, the others −1 at most. At another token the bracket is at most `−u (1 − cos)`, and `A` is large enough for
every context there can be. Numbers are rounded to the format first; margins are then measured on what was rounded.
"""

from __future__ import annotations

import time
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.consistency import equal_points
from monolayer.construct.robust.build import NARROWEST, STAGE
from monolayer.construct.robust.cover import Cells, cover
from monolayer.construct.target import Target
from monolayer.data.distinct import by_cell_and_row, distinct_rows
from monolayer.data.number_formats import FORMATS
from monolayer.errors import ContradictionError, DataError, PrecisionError
from monolayer.model.device import one_thread
from monolayer.stock.assemble import CONFIDENCE, Figures, LabelHead, StockParts, stock_model
from monolayer.stock.draw import CellsDraw
from monolayer.stock.expected import expected
from monolayer.stock.folder import NeuronWeights, StockModel
from monolayer.stock.halves import U_WEIGHT, CellFacts, Half, caps, misread_points, neurons, rounded_to, settled
from monolayer.stock.labelled import StockTask
from monolayer.stock.stream import CellStream, cell_stream, written_contexts
from monolayer.table import Progress, counting, plural

CellDtype = Literal["float32", "bfloat16", "float16"]
DEFAULT_RANK = 128
"""Value rank where none is asked for, at most. Twice the rank makes what arrives of two contexts √2 times as far apart,
and what rounding adds to a half-space stays the same."""
BEGIN_RANK = 64
"""Value rank that is tried first where the begin token answers. Contexts are averages of words there, without a gate
whose noise they must exceed, and for most data 64 columns are enough."""
UNUSED_RANK = 32
"""Value rank where no fact needs a neuron: room for contexts that an edit may bring."""
CELLS_POOLER_SLOPE = 1.0
"""Slope of a pooler. A tanh gives back the signs of the label word, and is not flat there in float32, so that gradients
pass. The relu of DistilBERT keeps the plus signs, in which two words differ as well."""
WANTED_STREAM_HALF_WIDTH = 0.3
"""The half-width that slabs should have, in the units of what arrives: coordinates of mean square 1."""


def check_options(rank: int | None, dtype: str | None) -> None:
    """Refuse a rank or a dtype that a model of cells cannot have, and say which it can have."""
    if rank is not None and not (type(rank) is int and 2 <= rank <= 4096):
        raise DataError(f"rank must be a whole number from 2 to 4096, not {rank!r}")
    if dtype is not None and dtype not in get_args(CellDtype):
        names = ", ".join(map(repr, get_args(CellDtype)))
        raise DataError(
            f"dtype of storage='cells' must be one of {names}, not {dtype!r}; storage='steps' is in float64"
        )


def robust_model(
    job: StockTask,
    dtype: str,
    report: Progress,
    *,
    rank: int | None = None,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> StockModel:
    """The model, in order: labels, contexts, half-spaces, gates, the names of the architecture.

    `dtype`: the format of the weights. `report`: told how far the work is. `rank`: of the values; None: what the data
    need. `seed`: of the mixture, or of the words of tokens. `confidence`: the median probability that the head
    should give right labels.
    """
    began = time.perf_counter()
    target, conflicts = job.task.settle(job.task.target)
    ranks, report = _ranks(job, target) if rank is None else (rank,), _rising(report)
    for tried in ranks:
        stream = _rounded_stream(job, target, dtype, tried, seed)
        report(expected(job, stream, dtype), 0.0)
        try:
            half, block = covered_cells(job, target, stream, dtype, report)
        except PrecisionError:
            if tried == ranks[-1]:
                raise
        else:
            break
    parts = _parts(stream, block, dtype, _figures(job, stream, half, conflicts, began))
    return stock_model(job, parts, confidence=confidence, known=None)


def _ranks(job: StockTask, target: Target) -> tuple[int, ...]:
    """The ranks to be tried, one after the other, until one holds the data; the draw keeps the one that did."""
    exceptional = job.labels(target) != job.usual_labels(target)[job.points.token]
    if not exceptional.any():
        return (UNUSED_RANK,)
    return (BEGIN_RANK, DEFAULT_RANK) if job.at_begin else (DEFAULT_RANK,)


def _rising(report: Progress) -> Progress:
    """`report`, with shares that never fall: where a rank was not enough, the next one begins where it ended."""
    reached = 0.0

    def told(stage: str, share: float) -> None:
        nonlocal reached
        reached = max(reached, share)
        report(stage, reached)

    return told


def robust_model_again(job: StockTask, report: Progress, *, known: StockModel, only: Ints | None = None) -> StockModel:
    """The model of other data with the draw of `known`.

    `only`: the tokens whose facts changed since `known` was built; the neurons of all others are taken from it.
    """
    began, dtype, kept = time.perf_counter(), known.facts.dtype, known.draw.numbers
    assert isinstance(kept, CellsDraw)  # the caller checked
    target, conflicts = job.task.settle(job.task.target) if only is None else (job.task.target, 0)
    stream = _rounded_stream(job, target, dtype, kept.rank, 0, kept)
    half = None
    if only is None:
        half, block = covered_cells(job, target, stream, dtype, report)
    else:
        block = _recovered(job, stream, dtype, known.neurons, only)
    parts = _parts(stream, block, dtype, _figures(job, stream, half, conflicts, began))
    return stock_model(job, parts, confidence=CONFIDENCE, known=known)


def _rounded_stream(
    job: StockTask, target: Target, dtype: str, rank: int, seed: int, kept: CellsDraw | None = None
) -> CellStream:
    """The stream for a task with this target, all its numbers in the format `dtype`."""
    return cell_stream(job, job.usual_labels(target), rank, seed, lambda array: rounded_to(array, dtype), kept)


def _figures(job: StockTask, stream: CellStream, half: Half | None, conflicts: int, began: float) -> Figures:
    """What the construction reports about itself; without `half` the narrowest slab was not measured."""
    return Figures(
        gap=None if half is None or len(half.width) == 0 else float(half.width.min()),
        margin=None,
        rank=stream.values.shape[1],
        conflicts=conflicts,
        otherwise=job.classes[stream.usual[0]],
        seconds=time.perf_counter() - began,
    )


def _parts(stream: CellStream, block: NeuronWeights, dtype: str, figures: Figures) -> StockParts:
    """Stream and neurons as `stock_model` takes them; the head reads the label words."""
    label = np.arange(stream.columns.label.start, stream.columns.label.stop)
    return StockParts(
        arrays={"tokens": stream.tokens, "places": stream.places, **stream.attention, **block._asdict()},
        head=LabelHead(label, stream.words, CELLS_POOLER_SLOPE),
        numbers=stream.kept,
        dtype=dtype,
        figures=figures,
        theta=stream.theta,
    )


def _recovered(job: StockTask, stream: CellStream, dtype: str, old: NeuronWeights, tokens: Ints) -> NeuronWeights:
    """The neurons of `tokens` found anew, among those of all other tokens as they were.

    The neurons of a token are a function of the draw and of that token's own facts, and they stand together, in the
    order of the tokens. So taking the touched ones out and putting new ones in gives the same bits as building
    everything. The begin token is never among them: where it answers for every sequence, this function is not used, and
    otherwise it has one fact at most, the first token of a text, which its embedding holds.
    """
    ids = np.unique(tokens + job.shift)
    rows = np.unique(job.data.sequence[np.isin(job.data.tokens + job.shift, ids)])
    cell, block = np.zeros(0, np.int64), NeuronWeights(*(part[:0] for part in old))

    def cover_of(part: StockTask) -> tuple[Half, NeuronWeights]:
        target, _ = part.task.settle(part.task.target)
        only = np.isin(np.arange(len(stream.usual)), ids)
        return covered_cells(part, target, stream, dtype, only=only)

    if len(rows):
        try:
            half, block = cover_of(job.select(rows))
        except (PrecisionError, ContradictionError):
            half, block = cover_of(job)  # raises the same error, with row numbers of the whole data
        cell = half.cell
    words = stream.tokens[:, stream.columns.code]
    _, group = distinct_rows(np.sign(np.concatenate([words, old.W_1[:, stream.columns.code]])))
    number = np.full(int(group.max()) + 1, -1)
    number[group[: len(words)]] = np.arange(len(words))
    owner = number[group[len(words) :]]
    fires = old.W_1.any(axis=1)
    if (np.diff(owner[fires]) < 0).any() or (owner[fires] < 0).any():
        raise DataError("the neurons of this folder are not those that its draw gives: memorize the data again")
    stays = fires & ~np.isin(owner, ids)
    order = np.argsort(np.append(owner[stays], cell), kind="stable")
    return NeuronWeights(*(np.concatenate([one[stays], two])[order] for one, two in zip(old, block, strict=True)))


def covered_cells(
    job: StockTask,
    target: Target,
    stream: CellStream,
    dtype: str,
    report: Progress = lambda stage, share: None,
    only: NDArray[np.bool_] | None = None,
) -> tuple[Half, NeuronWeights]:
    """The half-spaces of every token, or of those in the mask `only` `(V,)`, and their neurons, token after token.

    Those of a token are a function of its own facts: contexts are computed sequence by sequence, and every product
    below has the shape of one cell, so that no bit depends on the others (docs/editing.md).
    """
    points, label, usual = job.points, job.labels(target), stream.usual
    # Shares as measured with 20,000 facts in a BERT: contexts 0.09, half-spaces 0.5, gating 0.4.
    report("contexts", 0.01)
    once = np.zeros(len(label), dtype=bool)  # of equal facts only the first is kept
    once[np.unique(equal_points(job.task.context, target), return_index=True)[1]] = True
    once[len(target.number) :] = True
    wanted = np.zeros(len(usual), dtype=bool)
    wanted[points.token[label != usual[points.token]]] = True
    wanted = wanted if only is None else wanted & only
    with one_thread():
        facts = _cell_facts(job, stream, label, once & wanted[points.token], U_WEIGHT[dtype])

    report(STAGE, 0.1)
    if job.unknown is None:
        slabs = cover(facts.cells, WANTED_STREAM_HALF_WIDTH, counting(report, STAGE, "fact", 0.1, 0.6))
    else:
        slabs = caps(facts.cells, stream, U_WEIGHT[dtype])
    report("gating neurons by their tokens", 0.6)
    codes = stream.place_codes(U_WEIGHT[dtype])
    half = settled(facts, slabs, dtype, codes, narrow=job.unknown is not None)
    if not half.width.min(initial=np.inf) >= NARROWEST:
        short = f"; dtype='float32' holds slabs that are lost in {dtype}" if FORMATS[dtype].short else ""
        raise PrecisionError(_closest(job, facts, slabs.worst, float(half.width.min()), stream.values.shape[1]) + short)
    if FORMATS[dtype].short:  # margins are a thousand roundings of float32 and more
        report(f"testing every fact in {dtype}", 0.9)
        lost = misread_points(job, stream, half, label, dtype)
        if len(lost):
            raise PrecisionError(_lost(job, lost, len(label), dtype, stream.values.shape[1]))
    return half, neurons(stream, half, dtype, job.architecture.activation)


def _cell_facts(job: StockTask, stream: CellStream, label: Ints, wanted: NDArray[np.bool_], one: float) -> CellFacts:
    """The facts at the labelled points in the mask `wanted` `(P,)`, of classes `label` `(P,)`.

    `one`: the weight of `u` in what arrives (`U_WEIGHT`).
    """
    place, token = job.points.place, job.points.token
    codes = torch.from_numpy(stream.place_codes(one)).float()
    p, k = codes.shape[1], stream.values.shape[1]
    feature = torch.empty(int(wanted.sum()), p + k)
    u, number = np.empty(len(feature)), np.empty(len(feature), dtype=np.int64)
    done = 0
    for point, context in written_contexts(job, stream):
        chosen = wanted[point]
        point, context = point[chosen], context[torch.from_numpy(chosen)]
        part = slice(done, done + len(point))
        F = stream.factor(context.double().square().sum(1).numpy())
        number[part], u[part] = point, F * stream.scale
        feature[part, p:] = context * torch.from_numpy(F).float()[:, None]
        feature[part, :p] = codes[torch.from_numpy(place[point])] * torch.from_numpy(u[part]).float()[:, None]
        done = part.stop
    # The order depends on the facts alone, not on the order of the data.
    order = by_cell_and_row(token[number], feature.numpy())
    tokens, start = np.unique(token[number[order]], return_index=True)
    start = np.append(start, len(order))
    cells = Cells(feature[torch.from_numpy(order)], label[number[order]], start, stream.usual[tokens])
    return CellFacts(tokens, cells, u[order], number[order])


def _lost(job: StockTask, lost: Ints, count: int, dtype: str, rank: int) -> str:
    """An error message: which facts a short format loses, and what would help."""
    shown = ", ".join(job.where(int(point)) for point in lost[:3]) + (", …" if len(lost) > 3 else "")
    return (
        f"answers are wrong, or nearly so, at {len(lost):,} of {plural(count, 'label')} when the arithmetic is in "
        f"{dtype} as well as the weights: {shown}. Their contexts are too close to those of other labels for a format "
        f"this short: dtype='float32' holds them; a higher rank than {rank} moves contexts apart"
        f"{_without_class(job)}"
    )


def _without_class(job: StockTask) -> str:
    """A clause for errors: that leaving out the class for unknown keys may help."""
    return "" if job.unknown is None else "; unknown=False leaves out the class for what the data do not hold"


def _closest(job: StockTask, known: CellFacts, worst: int | None, width: float, rank: int) -> str:
    """An error message: the two facts that make the narrowest slab, and what would help."""
    assert worst is not None  # there is a slab
    facts = known.cells
    cell = int(np.searchsorted(facts.start, worst, side="right")) - 1
    facts_of_cell = slice(int(facts.start[cell]), int(facts.start[cell + 1]))
    other = np.flatnonzero(facts.label[facts_of_cell] != facts.label[worst]) + facts_of_cell.start
    distance = (facts.feature[torch.from_numpy(other)] - facts.feature[worst]).norm(dim=1)
    one, two = (job.where(int(known.point[i])) for i in (worst, int(other[int(distance.argmin())])))
    return (
        f"{one} and {two} have different labels, and what arrives of their contexts is {float(distance.min()):.3g} "
        f"apart; the widest slab between the first and the facts of other labels has half-width {width:.3g}, and "
        f"{NARROWEST:g} is needed. A higher rank than {rank} helps where many facts crowd in, positions=True where "
        "only the order differs or codes of other tokens add up alike; storage='steps', in float64, tells them apart"
        f"{_without_class(job)}"
    )
