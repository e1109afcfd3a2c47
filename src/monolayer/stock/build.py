"""From a dataset to a folder that transformers load: the construction in a stock architecture, a line a lemma."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from monolayer.construct.consistency import OnConflict, check_conflict
from monolayer.construct.construction import Progress
from monolayer.construct.line.draw import check_seed
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.dtypes import dtype_name
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.model.attention import contexts
from monolayer.stock.architecture import Architecture, Attention, choose
from monolayer.stock.assemble import frame_of, stock_model
from monolayer.stock.bert import BERT, DISTILBERT, ROBERTA
from monolayer.stock.codes import Floats
from monolayer.stock.decoders import LLAMA, NEOX, OPT, STARCODER2
from monolayer.stock.folder import StockModel
from monolayer.stock.gates import ACTIVATIONS, Changes, Points, gate_strength, neurons
from monolayer.stock.gpt2 import GPT2
from monolayer.stock.halves import SHARP
from monolayer.stock.labelled import Work, work
from monolayer.stock.layout import Layout, draw_keys, lay_out
from monolayer.stock.norms import arriving, factor, rounding
from monolayer.stock.robust import Dtype, check_wishes, robust_model
from monolayer.stock.tokenizer import DECODER, ENCODER, Cut, check_texts, token_names

ARCHITECTURES = {one.name: one for one in (BERT, ROBERTA, DISTILBERT, GPT2, OPT, NEOX, STARCODER2, LLAMA)}
TEMPERATURES = (1.0, 2.0, 0.5, 4.0)
WRITE = 0.5
"""What attention writes onto the slot: half of the context."""
HEAD = 8.0
"""Length of class directions: large enough that softmax of the logits is all but certain."""
DRAW = "draw"
"""Key of `config.json` with what a draw is beyond its tensors: `reach` and `gate`. transformers keep it, and make
nothing of it."""
SLACK = 8.0
"""Neighbours with different labels lie this many errors apart: three are left on either side of the ramp."""


def memorize_as(
    architecture: str,
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    positions: bool = False,
    activation: str = "relu6",
    width: int | None = None,
    robust: bool = False,
    rank: int | None = None,
    dtype: Dtype | torch.dtype | None = None,
    seed: int = 0,
    on_conflict: OnConflict = "error",
    progress: Progress | None = None,
) -> StockModel:
    """The data memorized by an unmodified Hugging Face architecture: `save` writes a folder for `from_pretrained`.

    `architecture`: bert, roberta, distilbert (labels of tokens or of sequences); gpt2, gpt_neox, starcoder2, llama (the
    same; without `Y` the next token, to the end); opt (labels of sequences; next token). `X`, `Y`, `lengths`,
    `positions`, `on_conflict`: as for `memorize`; tokens are ids or strings, labels classes. `activation`: relu6, relu,
    gelu, gelu_new, gelu_pytorch_tanh, or `own` for the architecture's. `width`: a power of 4, by default the least that
    fits.

    `robust=True`: half-spaces with margins instead of steps (docs/robust.md), for weights and arithmetic in `dtype`:
    float32 (the default), bfloat16 or float16; `rank` of the values, 128 by default. llama takes nothing else.
    """
    began = time.perf_counter()
    report = progress or (lambda stage, share: None)
    kind = choose(architecture, ARCHITECTURES)
    wanted: Any = dtype_name(dtype)
    activation = kind.own_activation if activation == "own" else activation
    known = tuple(SHARP if robust else ACTIVATIONS)
    if activation not in known:
        raise DataError(f"activation must be one of {', '.join(known)}, own; not {activation!r}")
    if robust:
        check_wishes(rank, wanted, width)
    elif rank is not None or dtype is not None:
        raise DataError("rank and dtype are for robust models (robust=True): the others are rank 1 in float64")
    check_conflict(on_conflict)
    check_seed(seed)

    report("reading the data", 0.0)
    data = Sequences.of(X, Y, lengths=lengths)
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    special = DECODER if kind.causal else ENCODER
    names = token_names(data.vocabulary, special)
    check_texts(data, names, special)
    job = work(kind, data, names, special, positions=positions, on_conflict=on_conflict, robust=robust)

    if robust:
        model = robust_model(kind, job, rank, wanted, activation, special, seed, report, began)
        report("done", 1.0)
        return model

    report("separating contexts", 0.2)
    found = _separate(kind, job, seed, width)

    report("building the neurons", 0.6)
    model = model_of(kind, job, found, activation, special, began)
    report("done", 1.0)
    return model


def model_of(
    kind: Architecture,
    job: Work,
    found: Found,
    activation: str,
    special: Mapping[str, str],
    began: float,
    places: int | None = None,
    cut: Cut | None = None,
) -> StockModel:
    """Neurons for a draw, and the words of the architecture around them; `places`, `cut`: as for `stock_model`."""
    layout, points = found.layout, found.points
    block = neurons(layout, points, found.changes, found.usual, found.reach, found.gate, activation)
    label = np.arange(layout.label.start, layout.label.stop)
    tables, heads = (layout.tokens, layout.places), _attention(kind, found)
    frame = frame_of(kind, job, tables, label, HEAD * layout.words, heads, block, activation, special)
    figures = {
        "labelled": len(points.token),
        "steps": block.steps,
        "neurons": len(block.W_1),
        "gap": found.gap,
        "margin": None if found.gap is None else found.gap / found.worst,
        "temperature": found.temperature,
        "conflicts": found.conflicts,
        "seconds": time.perf_counter() - began,
    }
    model = stock_model(kind, job, frame, special, "float64", figures, places, cut)
    return replace(model, config={**model.config, DRAW: {"reach": found.reach, "gate": found.gate}})


@dataclass(frozen=True, eq=False)
class Found:
    """A draw of keys under which neighbours with different labels are far enough apart; what follows from it."""

    layout: Layout
    points: Points
    changes: Changes
    usual: Ints
    temperature: float
    key_factor: float
    reach: float
    gate: float
    conflicts: int
    gap: float | None
    worst: float
    common: float


def _separate(kind: Architecture, job: Work, seed: int, width: int | None) -> Found:
    """The first draw that leaves a proof room; else the widest, if common rounding errors leave it room."""
    target, conflicts, settled = job.task.target, 0, False
    best: Found | None = None
    for number, temperature in enumerate(TEMPERATURES):
        found = _draw(kind, job, target, np.random.default_rng([seed, number]), temperature, width, conflicts)
        if found.gap is not None and found.gap < SLACK * found.worst and not settled:
            settled = True
            target, conflicts = job.task.settle(target)
            found = _draw(kind, job, target, np.random.default_rng([seed, number]), temperature, width, conflicts)
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


def _draw(
    kind: Architecture,
    job: Work,
    target: Target,
    random: np.random.Generator,
    temperature: float,
    width: int | None,
    conflicts: int,
) -> Found:
    """Keys, contexts, and what arrives at the neurons, for all labelled places."""
    data = job.data
    label = job.labels(target)
    usual = job.usual(job.points(np.zeros(len(data.tokens) if kind.causal else len(data)), 0.0), label)
    places = int(data.lengths.max()) + 1 if job.task.context.positions else None
    keys = draw_keys(random, len(usual), places)
    layout = lay_out(usual, keys, len(job.classes), post_norm=kind.post_norm, width=width, epsilon=kind.epsilon)
    return measured(kind, job, target, layout, usual, temperature, conflicts)


def measured(
    kind: Architecture,
    job: Work,
    target: Target,
    layout: Layout,
    usual: Ints,
    temperature: float,
    conflicts: int,
    kept: tuple[float, float] | None = None,
) -> Found:
    """What arrives at the neurons under a layout; `kept`: reach and gate that are given, not chosen."""
    data, positions, label = job.data, job.task.context.positions, job.labels(target)
    first = float(factor(layout.norm, layout.width, layout.epsilon))
    table, place_key = layout.key(), layout.place_key()
    key = table[data.tokens + job.shift]
    key = first * (key + place_key[data.position + 1] if positions else key)
    begin = first * float(table[job.begin] + place_key[0])
    context = _contexts(key, begin, temperature, data, kind.causal)
    points = job.points(context, begin)

    # Behind attention the stream has this norm, and `one` this size.
    norm, one = (layout.norm * first * first, first) if kind.post_norm else (layout.norm, 1.0)
    g = WRITE * points.context
    feature = arriving(g, norm, layout.width, layout.epsilon)
    least = float(factor(norm + 2.0 * np.max(g * g), layout.width, layout.epsilon))
    reach = float(feature.max() - feature.min()) or 1.0
    gate = gate_strength(reach, one * least)
    if kept is not None:
        # Other cells fall by 4 G |one| below what arrives there; the lowest step stands less than half of the reach
        # that was kept below what arrives here.
        if float(feature.max() - feature.min()) + kept[0] / 2.0 > 4.0 * kept[1] * one * least:
            ends = [job.where(int(place)) for place in (feature.argmin(), feature.argmax())]
            raise PrecisionError(
                f"from {ends[0]} to {ends[1]} contexts reach further than the gates of this model allow for: memorize "
                "the edited data anew"
            )
        reach, gate = kept
    changes = Changes.of(points.cells(layout), feature, label)
    largest = float(max(np.abs(layout.tokens).max(), np.sqrt(2.0))) * max(first, 1.0)
    worst, common = rounding(
        layout.width,
        largest,
        2.0 * gate * layout.signs * one + float(np.abs(g).max(initial=0.0)),
        WRITE * float(np.abs(np.append(key, begin)).max()),
        temperature * float(np.abs(np.append(key, begin)).max()),
        int(data.lengths.max()) + 1,
    )
    gap = float(changes.gap.min()) if len(changes.gap) else None
    return Found(layout, points, changes, usual, temperature, first, reach, gate, conflicts, gap, worst, common)


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


def _attention(kind: Architecture, found: Found) -> Attention:
    """The matrices: a constant query, keys read as half of a difference, a context written onto the slot."""
    layout, D = found.layout, found.layout.width
    slot = kind.slot(D)
    query, key, out = np.zeros(D), np.zeros((D, D)), np.zeros((D, D))
    query[slot] = found.temperature * np.sqrt(D)
    for column in layout.keys:
        key[slot, column], key[slot, column + 1] = 0.5, -0.5
    out[layout.slot, slot], out[layout.slot + 1, slot] = WRITE, -WRITE
    return Attention(np.zeros((D, D)), query, key, np.zeros(D), key, out)
