"""From a dataset to a one-layer Transformer that returns every label. No training.

`memorize` reads the data and chooses a construction; `line/build.py`, the paper's, reads like the proof.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from monolayer.construct.consistency import OnConflict
from monolayer.construct.construction import Construction, Progress
from monolayer.construct.line.build import Line
from monolayer.construct.line.reuse import Again, Reused
from monolayer.construct.line.steps import Choice
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.card import Fingerprint
from monolayer.model.monolayer import Monolayer


def memorize(
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    positions: bool = False,
    causal: bool = False,
    readout: Choice = "exact",
    temperature: float | None = None,
    device: torch.device | str | None = None,
    seed: int = 0,
    on_conflict: OnConflict = "error",
    fingerprint: bool = False,
    draw: Monolayer | None = None,
    progress: Progress | None = None,
) -> Monolayer:
    """A `Monolayer` that gives every token, or every sequence, of the data its label.

    `X`: ids `(N, n)`, vectors `(N, n, d)`, lists of any lengths, strings, or `Sequences`; `Y`: one label a
    token or one a sequence; classes (integers, strings) or reals. `positions=True` makes order matter;
    without it the model is permutation equivariant. `causal=True` hides what comes later; without `Y` it
    memorizes each next token. `readout`: `exact` or `paper`. `temperature`: the λ of the head, 0 for the mean of
    the keys; None: chosen by measurement. `on_conflict`: what to do where equal token and context have different
    labels. `fingerprint=True` keeps 8 bytes a point, so that `seen` and `predict(strict=True)` can tell what the model
    was built from. On one platform the same seed gives the same bits. Float64; rank 1.

    `draw`: a model whose keys, codes, temperature and names are used again, with its `positions`, `causal` and
    `readout`; only the readout's weights then depend on the data (docs/editing.md). Such a model has no summary.
    """
    began = time.perf_counter()
    report = progress or (lambda stage, share: None)
    if on_conflict not in ("error", "majority", "first"):
        raise DataError(f"on_conflict must be one of 'error', 'majority', 'first', not {on_conflict!r}")

    report("reading the data", 0.0)
    data = Sequences.of(X, Y, lengths=lengths)
    construction: Construction = Line(readout, seed, temperature)
    if draw is not None:
        again, data = Reused.of(draw).adopt(data)
        positions, causal = again.rules(positions, causal, readout, temperature)
        construction = Again(again)
    task = Task.of(data, positions=positions, causal=causal, on_conflict=on_conflict)
    model = construction.build(task, report)
    if fingerprint:
        model.card = replace(model.card, fingerprint=_fingerprint(task))
    if model.summary is not None:
        model.card = model.card.with_summary(replace(model.summary, seconds=time.perf_counter() - began))
    report("done", 1.0)
    return model if device is None else model.to(device)


def _fingerprint(task: Task) -> Fingerprint:
    data, context = task.data, task.context
    if data.vocabulary is None:
        raise DataError("fingerprints are kept for ids and strings; tokens that are vectors have none: leave it out")
    return Fingerprint.of(data, task.target.per, positions=context.positions, causal=context.causal)
