"""Steps in float64 inside a stock architecture: keys are drawn until contexts are far enough apart, neurons follow.

A neuron of a cell, a token at a place, reads `ψ = φ + G (⟨p, x⟩ − m·one)`, `p` the word of the cell. There
`⟨p, x⟩ = m·one`, so it sees the context `φ` alone; elsewhere the words differ in two places or more and
`ψ ≤ φ − 4 G |one|`, below every threshold:

    own cell      label ──╮ step       other cells   ────────────────  0, exactly
                          ╰────── φ

So labels of a token are sorted by context among themselves only: one step where they change, and one in front of the
first where it is not the label that the token's embedding holds. A step is one neuron: relu6 rests at 0, done at 6.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.construct.line.exponential import boltzmann_term, boltzmann_terms
from monolayer.construct.powers import power_above
from monolayer.errors import PrecisionError
from monolayer.huggingface.architecture import BEGIN
from monolayer.model.contexts import contexts
from monolayer.stock.assemble import CONFIDENCE, Figures, LabelHead, StockParts, stock_model
from monolayer.stock.draw import StepsDraw
from monolayer.stock.folder import NeuronWeights, StockModel
from monolayer.stock.labelled import StockTask
from monolayer.stock.layout import LABEL_SIZE, Keys, StreamLayout, draw_keys, lay_out_steps
from monolayer.stock.norms import arriving, factor, rounding
from monolayer.table import Progress, plural

STEP_TEMPERATURES = (1.0, 2.0, 0.5, 4.0)
WRITE = 0.5
"""What attention writes onto the slot: half of the context."""
STEPS_POOLER_SLOPE = 2.0
"""Slope of a pooler: a tanh returns ±0.99 for the ±1.5 of a label word, where it is not flat yet."""
ERRORS_APART = 8.0
"""Neighbours with different labels lie this many errors apart: three are left on either side of the ramp."""
RELU6_TOP = 6.0
"""What relu6 returns at most."""


def steps_model(
    job: StockTask, report: Progress, *, seed: int = 0, confidence: float = CONFIDENCE, known: StockModel | None = None
) -> StockModel:
    """The model, in order: keys under which contexts are apart, neurons, the names of the architecture.

    `report`: told how far the work is. `seed`: of the keys. `confidence`: the median probability that the head shall
    give right labels. `known`: a model whose draw is used again; then seed and confidence have no say.
    """
    began = time.perf_counter()
    line = None if known is None else known.draw.numbers
    assert line is None or isinstance(line, StepsDraw)  # the caller checked
    report("separating contexts", 0.2)
    target, conflicts = job.task.settle(job.task.target)
    usual = job.usual_labels(target)
    separated = _separate(job, job.labels(target), usual, seed, line)
    report("building the neurons", 0.6)
    layout = separated.layout
    tables, block = {"tokens": layout.tokens, "places": layout.places}, _step_neurons(job, separated, usual)
    label_columns = np.arange(layout.label.start, layout.label.stop)
    parts = StockParts(
        arrays={**tables, **_attention_matrices(job, separated), **block._asdict()},
        head=LabelHead(label_columns, layout.words, STEPS_POOLER_SLOPE),
        numbers=StepsDraw(separated.temperature, separated.reach, separated.silence, *layout.keys),
        dtype="float64",
        figures=Figures(
            gap=separated.gap,
            margin=None if separated.gap is None else separated.gap / separated.worst,
            rank=None,
            conflicts=conflicts,
            otherwise=job.classes[usual[0]],
            seconds=time.perf_counter() - began,
        ),
    )
    return stock_model(job, parts, confidence=confidence, known=known)


@dataclass(frozen=True, eq=False)
class Changes:
    """Points sorted by cell and then by `φ`; where neighbours of one cell have different labels, and their gaps."""

    order: Ints
    feature: Floats
    label: Ints
    first: Ints
    """First point of every cell."""
    change: Ints
    """Points whose label is not that of the next point in the same cell."""
    gap: Floats
    """Distance of `φ` to that next point."""

    @classmethod
    def of(cls, cell: Ints, feature: Floats, label: Ints) -> Changes:
        """The changes of points with this cell, `φ` and label, each `(P,)`."""
        order = np.lexsort((feature, cell))
        cell, feature, label = cell[order], feature[order], label[order]
        same = cell[1:] == cell[:-1]
        change = np.flatnonzero(same & (label[1:] != label[:-1]))
        first = np.flatnonzero(np.append(True, ~same))
        return cls(order, feature, label, first, change, feature[change + 1] - feature[change])


@dataclass(frozen=True, eq=False)
class SeparatedSteps:
    """A layout of keys under one draw, and how far it keeps neighbours with different labels apart."""

    layout: StreamLayout
    place: Ints
    """The row of each point's place."""
    changes: Changes
    temperature: float
    reach: float
    """How far apart what arrives at two points may lie."""
    silence: float
    """`G`: how much a neuron counts the code of its cell, so that it is silent in all others."""
    gap: float | None
    """Least distance of neighbours with different labels; None if no label changes inside a cell."""
    worst: float
    common: float
    """Rounding errors of what arrives (`norms.rounding`): the largest possible, and the usual one."""


def _separate(job: StockTask, label: Ints, usual: Ints, seed: int, line: StepsDraw | None) -> SeparatedSteps:
    """The first draw whose gaps exceed the largest rounding errors; else the widest, if they exceed the usual ones.

    `line`: a draw that is used again, which is then the only one.
    """
    best = None
    for keys, temperature in _draws(job, seed) if line is None else [((line.keys, line.place_keys), line.temperature)]:
        layout = lay_out_steps(usual, keys, len(job.classes), job.architecture)
        separated = _seen_by_neurons(job, label, layout, temperature, line)
        if separated.gap is None or separated.gap >= ERRORS_APART * separated.worst:
            return separated
        if best is None or best.gap is None or separated.gap > best.gap:
            best = separated
    assert best is not None
    assert best.gap is not None
    if best.gap >= ERRORS_APART * best.common:
        return best
    place = best.changes.change[int(np.argmin(best.changes.gap))]
    one, two = (job.where(int(best.changes.order[i])) for i in (place, place + 1))
    way_out = "Split the data over several models, or memorize them again, with another seed and no draw"
    close = int((best.changes.gap < ERRORS_APART * best.common).sum())
    raise PrecisionError(
        f"neighbours with different labels fell closer together than {ERRORS_APART:g} rounding errors in every draw, "
        f"in the best of them in {plural(close, 'place')}, for example {one} and {two}. They are "
        "different points, not a contradiction: rank 1 in float64 holds about ten million contexts of one token, "
        f"fewer where sequences are long. {way_out}"
    )


def _draws(job: StockTask, seed: int) -> Iterator[tuple[Keys, float]]:
    """Random keys and a temperature for each attempt."""
    places = int(job.data.lengths.max()) + 1 if job.task.context.positions else None
    for number, temperature in enumerate(STEP_TEMPERATURES):
        yield draw_keys(np.random.default_rng([seed, number]), len(job.names), places), temperature


def _seen_by_neurons(
    job: StockTask, label: Ints, layout: StreamLayout, temperature: float, kept: StepsDraw | None
) -> SeparatedSteps:
    """What arrives at the neurons under a layout; `kept`: a draw whose reach and silence are used again."""
    data, kind, points = job.data, job.architecture, job.points
    first = float(factor(layout.norm, layout.width, kind.epsilon))
    table, place_key = layout.keys
    key, begin = table[data.tokens + job.shift], float(table[BEGIN])
    if place_key is not None:
        key, begin = key + place_key[data.position + 1], float(table[BEGIN] + place_key[0])
    key, begin = first * key, first * begin
    sums, products = boltzmann_terms(key, temperature)
    context = contexts(sums, products, data.lengths, boltzmann_term(begin, temperature), kind.causal)

    # Behind attention the stream has this norm, and `one` this size.
    norm, one = (layout.norm * first * first, first) if kind.post_norm else (layout.norm, 1.0)
    g = WRITE * np.append(context, begin)[points.row]
    feature = arriving(g, norm, layout.width, kind.epsilon)
    least = float(factor(norm + 2.0 * np.max(g * g), layout.width, kind.epsilon))
    reach = float(feature.max() - feature.min()) or 1.0
    # `G`, a power of two with `4 G |one| ≥ 2 reach`: other cells fall below what is read here by more than `reach`.
    silence = float(power_above(reach / (2.0 * one * least)))
    if kept is not None:
        # Other cells fall by 4 G |one| below what arrives there; the lowest step stands less than half of the reach
        # that was kept below what arrives here.
        if float(feature.max() - feature.min()) + kept.reach / 2.0 > 4.0 * kept.silence * one * least:
            ends = [job.where(int(place)) for place in (feature.argmin(), feature.argmax())]
            raise PrecisionError(
                f"from {ends[0]} to {ends[1]} contexts reach further than this draw allows for: memorize "
                "the data anew, without the draw"
            )
        reach, silence = kept.reach, kept.silence
    place = np.minimum(points.place, len(layout.places) - 1)
    changes = Changes.of(points.token * len(layout.places) + place, feature, label)
    largest = float(max(np.abs(layout.tokens).max(), np.sqrt(2.0))) * max(first, 1.0)
    worst, common = rounding(
        layout.width,
        largest,
        2.0 * silence * len(layout.code) * one + float(np.abs(g).max(initial=0.0)),
        WRITE * float(np.abs(np.append(key, begin)).max()),
        temperature * float(np.abs(np.append(key, begin)).max()),
        int(data.lengths.max()) + 1,
    )
    gap = float(changes.gap.min()) if len(changes.gap) else None
    return SeparatedSteps(layout, place, changes, temperature, reach, silence, gap, worst, common)


def _attention_matrices(job: StockTask, separated: SeparatedSteps) -> dict[str, Floats]:
    """Attention: a constant query, keys read as half of a difference, contexts written onto the slot."""
    layout, D, still = separated.layout, separated.layout.width, job.architecture.still
    slot = 0 if still is None else still(D)[0]
    query, key, out = np.zeros(D), np.zeros((D, D)), np.zeros((D, D))
    query[slot] = separated.temperature * np.sqrt(D)
    for column in layout.key_columns:
        key[slot, column], key[slot, column + 1] = 0.5, -0.5
    out[layout.slot, slot], out[layout.slot + 1, slot] = WRITE, -WRITE
    return {"b_Q": query, "W_K": key, "W_V": key, "W_O": out}


def _step_neurons(job: StockTask, separated: SeparatedSteps, usual: Ints) -> NeuronWeights:
    """A step for every change, and one in front of a cell whose first label is not its token's usual one."""
    layout, token, changes = separated.layout, job.points.token, separated.changes
    who, label, feature = changes.order, changes.label, changes.feature
    enters = changes.first[label[changes.first] != usual[token[who[changes.first]]]]
    middle = np.append(feature[changes.change] + changes.gap / 2.0, feature[enters] - separated.reach / 4.0)
    gap = np.append(changes.gap, np.full(len(enters), separated.reach / 4.0))
    before = np.append(label[changes.change], usual[token[who[enters]]])
    after = np.append(label[changes.change + 1], label[enters])
    who = who[np.append(changes.change, enters)]
    # A power of two, so that products with it are exact; the ramp takes at most a quarter of its gap.
    slope = power_above(4.0 * RELU6_TOP / gap)
    cell = layout.tokens[token[who]] + layout.places[separated.place[who]]
    # Every direction sums to 0, so rounding errors in the mean of LayerNorm cancel.
    reads, writes = np.zeros((2, len(slope), layout.width))
    reads[:, layout.slot], reads[:, layout.slot + 1] = 0.5, -0.5
    reads[:, layout.code] = separated.silence * cell[:, layout.code]
    one = 0.5 * separated.silence * len(layout.code)
    reads[:, layout.one], reads[:, layout.one + 1] = -one, one
    writes[:, layout.label] = LABEL_SIZE * (layout.words[after] - layout.words[before]) / RELU6_TOP
    bias = np.rint(RELU6_TOP / 2.0 - slope * middle) + 0.0  # + 0.0 turns −0 into 0
    return NeuronWeights(reads * slope[:, None], bias, writes)
