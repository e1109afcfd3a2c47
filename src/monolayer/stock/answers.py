"""What a stock model answers: one plain evaluation of every architecture in float64, or what transformers say."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.stock.architecture import Architecture, Frame
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.folder import StockModel
from monolayer.stock.halves import ACTS

AT_ONCE = 1 << 24
"""Numbers that a batch may have in its widest layer."""


def answers(model: StockModel, data: Sequences) -> list[Any]:
    """What the model answers at each token, or for each sequence, by its name.

    None in sequences with a token or with places that it lacks. A model that was built here is asked by its own
    matrices in float64, for a few hundred sequences; one that was loaded is asked through transformers.
    """
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    shift = len(model.special)
    number = {name: row for row, name in enumerate(model.names) if row >= shift}
    ids = np.array([number.get(str(name), -1) for name in data.vocabulary.names])[data.tokens]
    known = data.lengths < model.room
    known[data.sequence[ids < 0]] = False
    found: list[Any] = [None] * (len(data) if model.task == "sequence" else len(data.tokens))
    rows = np.flatnonzero(known)
    if len(rows) == 0:
        return found
    asked = data.select(rows)
    said = (_by_matrices if model.frame is not None else _by_transformers)(model, asked, ids[data.flat(rows)])
    texts = (
        model.names
        if model.task == "lm"
        else tuple(str(model.config["id2label"][str(i)]) for i in range(classes(model)))
    )
    names = texts if model.task == "lm" else model.draw.names(texts, labels=True).names
    places = rows if model.task == "sequence" else data.flat(rows)
    for place, label in zip(places.tolist(), said.tolist(), strict=True):
        found[place] = names[label]
    return found


def classes(model: StockModel) -> int:
    return len(model.names) if model.task == "lm" else len(model.config["id2label"])


def _begin(model: StockModel) -> int:
    return list(model.special).index("bos" if ARCHITECTURES[model.architecture].causal else "cls")


def _by_matrices(model: StockModel, data: Sequences, ids: Ints) -> Ints:
    """The pooler of a model with labels of sequences is left out: it keeps the signs that the head reads."""
    kind = ARCHITECTURES[model.architecture]
    assert model.frame is not None  # the caller asked
    said = []
    for row in data.split(ids):
        logits = _logits(kind, model.frame, np.append(_begin(model), row))
        read = logits[1:] if model.task != "sequence" else logits[-1:] if kind.causal else logits[:1]
        said.append(read.argmax(axis=1))
    return np.concatenate(said)


def _by_transformers(model: StockModel, data: Sequences, ids: Ints) -> Ints:
    """In float64, or in float32 where the model is robust."""
    network = _loaded(model)
    found = np.zeros(len(data) if model.task == "sequence" else len(data.tokens), np.int64)
    rows = np.argsort(-data.lengths, kind="stable")  # the first of a batch is its longest
    widest = max(classes(model), max(tensor.shape[0] for tensor in network.state_dict().values() if tensor.ndim == 1))
    while len(rows):
        most = max(1, AT_ONCE // (widest * (int(data.lengths[rows[0]]) + 1)))
        batch, rows = rows[:most], rows[most:]
        there = np.arange(int(data.lengths[batch[0]])) < data.lengths[batch][:, None]
        padded = np.zeros((len(batch), there.shape[1] + 1), np.int64)
        padded[:, 0] = _begin(model)
        flat = data.flat(batch)
        padded[:, 1:][there] = ids[flat]
        mask = torch.from_numpy(np.append(np.ones((len(batch), 1), bool), there, axis=1).astype(np.int64))
        with torch.no_grad():
            said = network(input_ids=torch.from_numpy(padded), attention_mask=mask).logits.argmax(dim=-1).numpy()
        if model.task == "sequence":
            found[batch] = said
        else:
            found[flat] = said[:, 1:][there]
    return found


def _loaded(model: StockModel) -> Any:
    """The model as transformers load it."""
    try:
        import transformers
    except ImportError:
        raise DataError(
            "answers of stock folders are those of the package transformers: pip install transformers, or compare "
            "without data"
        ) from None
    bars: Any = transformers.utils.logging
    bars.disable_progress_bar()  # the command has a bar of its own
    kind = getattr(transformers, str(model.config["architectures"][0]))
    dtype = torch.float64 if model.dtype == "float64" else torch.float32
    with tempfile.TemporaryDirectory() as folder:
        path = model.save(Path(folder) / "model")
        loaded = kind.from_pretrained(path, dtype=dtype, attn_implementation="sdpa", local_files_only=True)
    return loaded.eval()


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
