"""The last step of every construction: its matrices under the names of an architecture, and the model.

The size of the head decides how confident the model appears. With too large a head all losses and gradients would
round to 0.

All logits are multiplied by this size. It is a power of two, so answers and their proofs stay as they are: no rounding
changes except in the softmax behind the network.

The rule: of the powers of two from `2^-10` to `2^6`, take the least for which the right label has at least the
confidence that was asked for, in the median over facts of the data. Of more than 256 facts every k-th is asked. The
probability grows with the size, since the right label has the largest logit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.files import FolderFacts
from monolayer.stock.answers import SPARE, Evaluation, same_length_batches
from monolayer.stock.card import StockSummary
from monolayer.stock.draw import CellsDraw, StepsDraw, StockDraw
from monolayer.stock.folder import StockModel
from monolayer.stock.labelled import StockTask

CONFIDENCE = 0.99
"""The default. Classifiers that were trained until they knew their data show a loss near 0.01."""
SIZES = tuple(2.0**exponent for exponent in range(-10, 7))
"""With the largest, logits are some ten thousand at most, which float16 holds."""
ASKED = 256
"""Facts over which the median is taken, at most."""


class LabelHead(NamedTuple):
    """What the head reads: these `columns` `(m,)` of the stream, along `directions` `(C, m)`, one per class.

    `slope`: what a pooler multiplies these columns by, where the architecture has one.
    """

    columns: Ints
    directions: Floats
    slope: float


class Figures(NamedTuple):
    """What a construction reports about itself; the fields are described in `StockSummary`."""

    gap: float | None
    margin: float | None
    rank: int | None
    conflicts: int
    otherwise: str
    seconds: float


@dataclass(frozen=True, eq=False)
class StockParts:
    """The result of a construction, before it gets the tensor names of an architecture."""

    arrays: Mapping[str, Floats]
    """By their letters (`huggingface/architecture.py`), without head and pooler; `places` even if it is empty."""
    head: LabelHead
    numbers: StepsDraw | CellsDraw
    """The draw of the construction."""
    dtype: str
    """The type that the weights are stored in."""
    figures: Figures
    theta: float | None = None
    """Base of rotary angles, where they are to turn the logits."""


def stock_model(job: StockTask, parts: StockParts, *, confidence: float, known: StockModel | None) -> StockModel:
    """The model: `parts` under the names of the architecture, with a head whose size is fitted to `confidence`.

    `known`: a model whose draw was used again; room, tokenizer, names and the size of the head are taken from it.
    """
    data, kind, arrays, head = job.data, job.architecture, dict(parts.arrays), parts.head
    D, steps = arrays["tokens"].shape[1], len(arrays["W_1"])
    assert data.vocabulary is not None  # a stock model takes ids
    if steps == 0:  # architectures need at least one neuron: this one never fires
        arrays |= {"W_1": np.zeros((1, D)), "b_1": np.zeros(1), "W_2": np.zeros((1, D))}
    room = int(data.lengths.max()) + 1 + SPARE if known is None else known.facts.room
    arrays["W_H"] = np.zeros((len(job.classes), D))
    arrays["W_H"][:, head.columns] = head.directions
    places = arrays.pop("places")
    if kind.has_places:
        arrays["places"] = np.zeros((kind.offset + room, D))
        arrays["places"][kind.offset : kind.offset + len(places)] = places
    if kind.pooler and not job.labelling.at_tokens:
        arrays["W_P"] = np.zeros((D, D))
        arrays["W_P"][head.columns, head.columns] = head.slope
    still = None if kind.still is None else kind.still(D)[1]
    cells, positions = np.unique(job.points.token), job.task.context.positions
    facts = FolderFacts(
        architecture=kind,
        task=job.kind,
        dtype=parts.dtype,
        rotary=still if parts.theta is None else (parts.theta, D),
        width=D,
        neurons=len(arrays["W_1"]),
        room=room,
        positions=positions,
        names=job.names,
        classes=job.classes,
        cut=job.cut,
    )
    per_answer = None if data.prompts is None else data.per_answer
    if known is None:
        unknown = None if job.unknown is None else job.classes[job.unknown]
        whole = kind.arrays(job.kind, kind.tensors(job.kind, arrays))
        size, median = head_size(facts, whole, data, confidence)
        named = None if data.labels is None else data.labels.classes
        integers = data.vocabulary.integers, named is not None and named.integers
        draw = StockDraw(parts.numbers, integers, size, per_answer, unknown)
    else:
        draw, median = replace(known.draw, per_answer=per_answer), None
    arrays["W_H"] *= draw.head
    summary = StockSummary(
        sequences=len(data),
        longest=int(data.lengths.max()),
        labelled=len(job.points.token),
        steps=steps,
        confidence=median,
        unlabelled=None if job.at_begin else len(data.vocabulary) - int((cells >= job.shift).sum()),
        **parts.figures._asdict(),
    )
    return StockModel(facts, kind.tensors(job.kind, arrays), draw, data, summary)


def check_confidence(confidence: float | None) -> float:
    """The confidence that is asked for, or the default; a number that is not a probability is an error."""
    if confidence is None:
        return CONFIDENCE
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.0 < confidence < 1.0:
        raise DataError(f"confidence must be a probability between 0 and 1, such as {CONFIDENCE}, not {confidence!r}")
    return float(confidence)


def head_size(
    facts: FolderFacts, arrays: Mapping[str, Floats], data: Sequences, confidence: float
) -> tuple[float, float]:
    """The size of the head, and the median probability that it gives; the head among the `arrays` has size 1."""
    behind = torch.cat(_sampled_logits(facts, arrays, data))
    behind -= behind.max(dim=1, keepdim=True).values
    for size in SIZES:
        median = float(np.median((1.0 / (size * behind).exp().sum(dim=1)).numpy()))
        if median >= confidence:
            break
    return size, median


def _sampled_logits(facts: FolderFacts, arrays: Mapping[str, Floats], data: Sequences) -> list[torch.Tensor]:
    """Logits `(·, C)` at up to `ASKED` facts, spread evenly over all."""
    network, there = Evaluation(facts, arrays), data.labelled_places
    there = there[np.linspace(0, len(there) - 1, min(len(there), ASKED)).astype(np.int64)]
    row = facts.labelling.rows(data, there)
    ids, sampled = data.tokens + len(facts.architecture.special), []
    for some, length in same_length_batches(facts, np.unique(row), data.lengths):
        here = there[np.isin(row, some)]
        # One place of each sequence is asked: neurons cost most, and the other places would cost as much.
        asked = (
            [network.asked]
            if not facts.labelling.at_tokens
            else [np.array([place + 1]) for place in np.unique(data.position[here]).tolist()]
        )
        for at in asked:
            own = here if isinstance(at, slice) else here[data.position[here] + 1 == at]
            rows = facts.labelling.rows(data, own)
            sequences = np.insert(ids[data.offsets[rows][:, None] + np.arange(length)], 0, BEGIN, axis=1)
            sampled.append(network.logits(sequences, at)[:, 0])
    return sampled
