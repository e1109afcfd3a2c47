"""The last step of every construction: its matrices under the names of an architecture, and the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.huggingface.files import Facts
from monolayer.stock.answers import SPARE
from monolayer.stock.card import StockSummary
from monolayer.stock.confidence import head_size
from monolayer.stock.draw import Draw, Kept, Line
from monolayer.stock.folder import Neurons, StockModel
from monolayer.stock.labelled import Work
from monolayer.stock.names import best_cut


def stock_model(
    job: Work,
    *,
    tables: tuple[Floats, Floats | None],
    label: Ints,
    directions: Floats,
    attention: Mapping[str, Floats],
    rotary: float | None,
    pooler: float,
    block: Neurons,
    activation: str,
    dtype: str,
    epsilon: float,
    confidence: float,
    figures: Mapping[str, Any],
    numbers: Line | Kept,
    known: StockModel | None,
) -> StockModel:
    """The model.

    `tables` of tokens and of places; the head reads the columns `label` along `directions` `(C, m)`, times a size
    that is fitted to `confidence`. `rotary`: base of the angles, where they are to turn the logits. `pooler`:
    its slope on these columns. `figures`: what the construction has to say of itself; `numbers`: what it drew.
    `known`: a model whose draw was used again, which has settled room, tokenizer, names and the size of the head.
    """
    tokens, places = tables
    data, kind, D = job.data, job.architecture, tokens.shape[1]
    assert data.vocabulary is not None  # a stock model takes ids
    if len(block.W_1) == 0:  # an empty layer is no layer: one neuron that never fires
        block = Neurons(np.zeros((1, D)), np.zeros(1), np.zeros((1, D)), 0)
    room, cut = int(data.lengths.max()) + 1 + SPARE, best_cut(kind.special, data)
    if known is not None:
        room, cut = known.facts.room, known.facts.cut
    head = np.zeros((len(job.classes), D))
    head[:, label] = directions
    arrays = {"tokens": tokens, **attention, "W_1": block.W_1, "b_1": block.b_1, "W_2": block.W_2, "W_H": head}
    if kind.has_places:
        arrays["places"] = np.zeros((kind.offset + room, D))
        if places is not None:
            arrays["places"][kind.offset : kind.offset + len(places)] = places
    if kind.pooler and job.kind == "sequence":
        arrays["W_P"] = np.zeros((D, D))
        arrays["W_P"][label, label] = pooler
    still = None if kind.still is None else kind.still(D)[1]
    cells, positions = np.unique(job.cells().token), job.task.context.positions
    facts = Facts(
        architecture=kind,
        task=job.kind,
        dtype=dtype,
        activation=activation,
        epsilon=epsilon,
        rotary=still if rotary is None else (rotary, D),
        width=D,
        neurons=len(block.W_1),
        room=room,
        positions=positions,
        names=job.names,
        classes=job.classes,
        cut=cut,
    )
    if known is None:
        unknown = None if job.unknown is None else job.classes[job.unknown]
        whole = kind.arrays(job.kind, kind.tensors(job.kind, arrays))
        size, median = head_size(facts, whole, data, confidence)
        draw = Draw(
            numbers, (data.vocabulary.integers, job.class_names.integers), size, data.prompts is not None, unknown
        )
    else:
        draw, median = known.draw, None
    arrays["W_H"] = draw.head * head
    summary = StockSummary(
        sequences=len(data),
        vocabulary=len(data.vocabulary),
        classes=len(job.classes),
        longest=int(data.lengths.max()),
        positions=positions,
        width=D,
        steps=block.steps,
        neurons=len(block.W_1),
        confidence=median,
        unlabelled=None if job.at_begin else len(data.vocabulary) - int((cells >= job.shift).sum()),
        **figures,
    )
    return StockModel(facts, kind.tensors(job.kind, arrays), draw, data, summary)
