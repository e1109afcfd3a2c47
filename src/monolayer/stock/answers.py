"""What a stock model answers, computed from its matrices in float64: one plain evaluation of every architecture."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from monolayer.data import Sequences
from monolayer.stock.again import adopt
from monolayer.stock.architecture import Architecture, Frame
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.codes import Floats
from monolayer.stock.folder import StockModel
from monolayer.stock.halves import ACTS


def answers(model: StockModel, data: Sequences) -> list[Any]:
    """The label at each fact of `data`, one after the other, by its name; for a few hundred sequences.

    The pooler of a model with labels of sequences is left out: it keeps the signs that the head reads.
    """
    assert model.frame is not None  # it was built here, not loaded
    kind, shift = ARCHITECTURES[model.architecture], len(model.special)
    begin = list(model.special).index("bos" if kind.causal else "cls")
    names = model.names if model.task == "lm" else tuple(model.config["id2label"].values())
    data = adopt(model, data)
    said: list[int] = []
    for row in data.split(data.tokens):
        logits = _logits(kind, model.frame, np.append(begin, row + shift))
        read = logits[1:] if model.task != "sequence" else logits[-1:] if kind.causal else logits[:1]
        said += read.argmax(axis=1).tolist()
    if model.task == "lm":
        return [names[number] for number in said]
    known = model.draw.names(names, labels=True).names
    return [known[number] for number in said]


def _logits(kind: Architecture, frame: Frame, ids: Any) -> Floats:
    """Logits `(n, C)` of one sequence."""
    n, D = len(ids), frame.width
    heads, block = frame.attention, frame.neurons

    def normed(x: Floats) -> Floats:
        x = x - x.mean(axis=1, keepdims=True)
        found: Floats = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + frame.epsilon)
        return found

    def turned(x: Floats) -> Floats:
        """Rotary positions: pairs of coordinates turned by their place."""
        if heads.theta is None:
            return x
        angle = np.arange(n)[:, None] * heads.theta ** (-2.0 * np.arange(D // 2) / D)
        cos, sin, one, two = np.cos(angle), np.sin(angle), x[:, : D // 2], x[:, D // 2 :]
        return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=1)

    x = frame.tokens[ids] if frame.places is None else frame.tokens[ids] + frame.places[:n]
    here = normed(x)
    x = here if kind.post_norm else x
    scores = turned(here @ heads.W_Q.T + heads.b_Q) @ turned(here @ heads.W_K.T + heads.b_K).T / np.sqrt(D)
    if kind.causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    weight = np.exp(scores - scores.max(axis=1, keepdims=True))
    x = x + (weight / weight.sum(axis=1, keepdims=True)) @ (here @ heads.W_V.T) @ heads.W_O.T
    here = normed(x)
    x = here if kind.post_norm else x
    act = ACTS[frame.activation]
    x = x + act(torch.from_numpy(here @ block.W_1.T + block.b_1)).numpy() @ block.W_2
    return normed(x) @ frame.head.T
