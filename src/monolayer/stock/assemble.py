"""The last step of every construction: matrices in the words of an architecture, and the model with its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.stock.architecture import Architecture, Attention, Frame
from monolayer.stock.card import StockSummary
from monolayer.stock.draw import Draw, Line
from monolayer.stock.folder import StockModel
from monolayer.stock.gates import Neurons
from monolayer.stock.labelled import Work
from monolayer.stock.mirror import Kept
from monolayer.stock.tokenizer import cut_of

SPARE = 512
"""Places beyond the longest sequence and its begin token: `generate` may go on, batches count padding, and exporters
try a model with sequences of their own. Their rows are 0, and what is answered there means nothing."""


def frame_of(
    kind: Architecture,
    job: Work,
    tables: tuple[Floats, Floats | None],
    label: Ints,
    directions: Floats,
    attention: Attention,
    block: Neurons,
    activation: str,
    special: Mapping[str, str],
) -> Frame:
    """`tables` of tokens and of places; the head reads the columns `label` along `directions` `(C, m)`."""
    tokens, places = tables
    D = tokens.shape[1]
    head = np.zeros((len(job.classes), D))
    head[:, label] = directions
    if len(block.W_1) == 0:  # an empty layer is no layer: one neuron that never fires
        block = Neurons(np.zeros((1, D)), np.zeros(1), np.zeros((1, D)), 0)
    room = int(job.data.lengths.max()) + 1 + SPARE
    return Frame(
        task=job.kind,
        tokens=tokens,
        places=places,
        label=label,
        epsilon=kind.epsilon,
        attention=attention,
        neurons=block,
        head=head,
        activation=activation,
        positions=room + (kind.offset - kind.hidden_rows),
        special={name: number for number, name in enumerate(special)},
        classes=job.classes,
        offset=kind.offset,
        hidden_rows=kind.hidden_rows,
    )


def stock_model(
    kind: Architecture,
    job: Work,
    frame: Frame,
    special: Mapping[str, str],
    dtype: str,
    figures: Mapping[str, Any],
    numbers: Line | Kept,
    draw: Draw | None,
) -> StockModel:
    """The model; `figures`: what the construction has to say of itself; `numbers`: what it drew; `draw`: one that was
    used again, which has settled places and tokenizer."""
    data = job.data
    assert data.vocabulary is not None  # a stock model takes ids
    if draw is None:
        cut, integers = cut_of(job.names, special, data), (data.vocabulary.integers, job.class_names.integers)
        draw = Draw(frame.activation, job.task.context.positions, frame.positions, cut, integers, numbers)
    frame, cells = replace(frame, positions=draw.places), np.unique(job.cells().token)
    return StockModel(
        architecture=kind.name,
        config={
            "architectures": [kind.models[job.kind]],
            "model_type": kind.name,
            "dtype": dtype,
            "torch_dtype": dtype,
            "tie_word_embeddings": False,
            **kind.config(frame),
        },
        tensors=kind.tensors(frame),
        names=job.names,
        special=special,
        cut=draw.cut,
        room=frame.room,
        task=job.kind,
        attention=kind.attention,
        dtype=dtype,
        data=data,
        summary=StockSummary(
            sequences=len(data),
            vocabulary=len(data.vocabulary),
            classes=len(job.classes),
            longest=int(data.lengths.max()),
            positions=job.task.context.positions,
            width=frame.width,
            unlabelled=None if job.at_begin else len(data.vocabulary) - int((cells >= job.shift).sum()),
            **figures,
        ),
        draw=draw,
        frame=frame,
    )
