"""Steps in float64 inside a stock architecture: keys are drawn until contexts are far enough apart, neurons follow."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.construct.target import Target
from monolayer.construct.task import Progress
from monolayer.data import Sequences
from monolayer.errors import PrecisionError
from monolayer.huggingface.architecture import BEGIN
from monolayer.model.attention import contexts
from monolayer.stock.assemble import stock_model
from monolayer.stock.cells import Changes, cells, neurons, silence_for
from monolayer.stock.confidence import CONFIDENCE
from monolayer.stock.draw import Line
from monolayer.stock.folder import StockModel
from monolayer.stock.labelled import Points, Work
from monolayer.stock.layout import Keys, Layout, draw_keys, lay_out
from monolayer.stock.norms import arriving, epsilon_of, factor, rounding

TEMPERATURES = (1.0, 2.0, 0.5, 4.0)
WRITE = 0.5
"""What attention writes onto the slot: half of the context."""
POOLER = 2.0
"""Slope of a pooler: a tanh returns ±0.99 for the ±1.5 of a label word, where it is not flat yet."""
SLACK = 8.0
"""Neighbours with different labels lie this many errors apart: three are left on either side of the ramp."""


def steps_model(
    job: Work,
    activation: str,
    report: Progress,
    *,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    width: int | None = None,
    known: StockModel | None = None,
) -> StockModel:
    """The model, in order: keys under which contexts are apart, neurons, the words of the architecture.

    `known`: a model whose draw is used again; then seed, width and confidence have no say.
    """
    began = time.perf_counter()
    report("separating contexts", 0.2)
    found = _separate(job, seed, width) if known is None else _separate_again(job, known.draw.numbers)
    report("building the neurons", 0.6)
    layout, points = found.layout, found.points
    figures = {
        "labelled": len(points.token),
        "gap": found.gap,
        "margin": None if found.gap is None else found.gap / found.worst,
        "temperature": found.temperature,
        "conflicts": found.conflicts,
        "otherwise": job.classes[found.usual[0]],
    }
    place_keys = None if layout.places is None else layout.place_key()
    block = neurons(layout, points, found.changes, found.usual, found.reach, found.silence, activation)
    return stock_model(
        job,
        tables=(layout.tokens, layout.places),
        label=np.arange(layout.label.start, layout.label.stop),
        directions=layout.words,
        attention=_attention(job, found),
        rotary=None,
        pooler=POOLER,
        block=block,
        activation=activation,
        dtype="float64",
        epsilon=layout.epsilon,
        confidence=confidence,
        figures={**figures, "seconds": time.perf_counter() - began},
        numbers=Line(layout.width, found.temperature, found.reach, found.silence, layout.key(), place_keys),
        known=known,
    )


@dataclass(frozen=True, eq=False)
class Found:
    """A draw of keys under which neighbours with different labels are far enough apart; what follows from it."""

    layout: Layout
    points: Points
    changes: Changes
    usual: Ints
    temperature: float
    reach: float
    silence: float
    conflicts: int
    gap: float | None
    worst: float
    common: float


def _separate(job: Work, seed: int, width: int | None) -> Found:
    """The first draw that leaves a proof room; else the widest, if common rounding errors leave it room."""
    target, conflicts = job.task.settle(job.task.target)
    usual, best = job.usual_labels(target), None
    places = int(job.data.lengths.max()) + 1 if job.task.context.positions else None
    for number, temperature in enumerate(TEMPERATURES):
        keys = draw_keys(np.random.default_rng([seed, number]), len(usual), places)
        found = _measured(job, target, _laid_out(job, usual, keys, width), usual, temperature, conflicts)
        if found.gap is None or found.gap >= SLACK * found.worst:
            return found
        if best is None or best.gap is None or found.gap > best.gap:
            best = found
    assert best is not None
    assert best.gap is not None
    if best.gap >= SLACK * best.common:
        return best
    close = int(np.argmin(best.changes.gap))
    place = best.changes.change[close]
    one, two = (job.where(int(best.changes.order[i])) for i in (place, place + 1))
    raise PrecisionError(
        f"{int((best.changes.gap < SLACK * best.common).sum()):,} neighbours with different labels fell closer "
        f"together than {SLACK:g} rounding errors in each of {len(TEMPERATURES)} draws, for example {one} and {two}. "
        "They are different points, not a contradiction: rank 1 in float64 holds about ten million contexts of one "
        "token, fewer where sequences are long. Split the data over several models, or try another seed"
    )


def _separate_again(job: Work, line: Any) -> Found:
    """What the keys of a draw make of these data; labels that rounding would not keep apart are an error."""
    assert isinstance(line, Line)  # the caller asked
    target, conflicts = job.task.settle(job.task.target)
    usual = job.usual_labels(target)
    layout = _laid_out(job, usual, (line.keys, line.place_keys), line.width)
    found = _measured(job, target, layout, usual, line.temperature, conflicts, (line.reach, line.silence))
    if found.gap is not None and found.gap < SLACK * found.common:
        place = found.changes.change[int(np.argmin(found.changes.gap))]
        one, two = (job.where(int(found.changes.order[i])) for i in (place, place + 1))
        raise PrecisionError(
            f"{one} and {two} have different labels, and with this draw they lie {found.gap / found.common:.2g} "
            f"rounding errors apart; {SLACK:g} are needed. Give both one label, or memorize the data anew, without "
            "the draw"
        )
    return found


def _laid_out(job: Work, usual: Ints, keys: Keys, width: int | None) -> Layout:
    kind = job.architecture
    return lay_out(usual, keys, len(job.classes), post_norm=kind.post_norm, width=width, epsilon=epsilon_of(kind))


def _measured(
    job: Work,
    target: Target,
    layout: Layout,
    usual: Ints,
    temperature: float,
    conflicts: int,
    kept: tuple[float, float] | None = None,
) -> Found:
    """What arrives at the neurons under a layout; `kept`: reach and silence that are given, not chosen."""
    data, positions, label = job.data, job.task.context.positions, job.labels(target)
    first = float(factor(layout.norm, layout.width, layout.epsilon))
    table, place_key = layout.key(), layout.place_key()
    key = table[data.tokens + job.shift]
    key = first * (key + place_key[data.position + 1] if positions else key)
    begin = first * float(table[BEGIN] + place_key[0])
    context = _contexts(key, begin, temperature, data, job.architecture.causal)
    points = job.points(context, begin)

    # Behind attention the stream has this norm, and `one` this size.
    norm, one = (layout.norm * first * first, first) if job.architecture.post_norm else (layout.norm, 1.0)
    g = WRITE * points.context
    feature = arriving(g, norm, layout.width, layout.epsilon)
    least = float(factor(norm + 2.0 * np.max(g * g), layout.width, layout.epsilon))
    reach = float(feature.max() - feature.min()) or 1.0
    silence = silence_for(reach, one * least)
    if kept is not None:
        # Other cells fall by 4 G |one| below what arrives there; the lowest step stands less than half of the reach
        # that was kept below what arrives here.
        if float(feature.max() - feature.min()) + kept[0] / 2.0 > 4.0 * kept[1] * one * least:
            ends = [job.where(int(place)) for place in (feature.argmin(), feature.argmax())]
            raise PrecisionError(
                f"from {ends[0]} to {ends[1]} contexts reach further than this draw allows for: memorize "
                "the data anew, without the draw"
            )
        reach, silence = kept
    changes = Changes.of(cells(points, layout), feature, label)
    largest = float(max(np.abs(layout.tokens).max(), np.sqrt(2.0))) * max(first, 1.0)
    worst, common = rounding(
        layout.width,
        largest,
        2.0 * silence * layout.signs * one + float(np.abs(g).max(initial=0.0)),
        WRITE * float(np.abs(np.append(key, begin)).max()),
        temperature * float(np.abs(np.append(key, begin)).max()),
        int(data.lengths.max()) + 1,
    )
    gap = float(changes.gap.min()) if len(changes.gap) else None
    return Found(layout, points, changes, usual, temperature, reach, silence, conflicts, gap, worst, common)


def _contexts(key: Floats, begin: float, temperature: float, data: Sequences, causal: bool) -> Floats:
    """The Boltzmann operator over begin token and sequence `(N,)`, or over each prefix `(T,)`."""
    weight = np.exp(temperature * key)
    start = float(np.exp(temperature * begin))
    found: Floats = contexts(
        torch.from_numpy(weight),
        torch.from_numpy(weight * key),
        torch.from_numpy(data.lengths),
        (start, start * begin),
        causal,
    ).numpy()
    return found


def _attention(job: Work, found: Found) -> dict[str, Floats]:
    """The matrices: a constant query, keys read as half of a difference, a context written onto the slot."""
    layout, D, still = found.layout, found.layout.width, job.architecture.still
    slot = 0 if still is None else still(D)[0]
    query, key, out = np.zeros(D), np.zeros((D, D)), np.zeros((D, D))
    query[slot] = found.temperature * np.sqrt(D)
    for column in layout.keys:
        key[slot, column], key[slot, column + 1] = 0.5, -0.5
    out[layout.slot, slot], out[layout.slot + 1, slot] = WRITE, -WRITE
    return {"b_Q": query, "W_K": key, "W_V": key, "W_O": out}
