"""What the page needs of a model, as JSON: the numbers of its weights, and sequences to pick from.

JSON writes a float with as many digits as tell it from its neighbours, and JavaScript reads it back to the bit; its
numbers are IEEE binary64, so the page computes what Python does, but for the order of sums and the last bits of `exp`:
the differences that a certificate allows.

Notation: `z = t + κ c` with the context `c`; step `j` has the slope `w_j`, the bias `−w_j a_j`, and a label left and
right of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import CODE, KEY, LABEL, ONE
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of
from monolayer.model.shortcut import Plan, codes, plan
from monolayer.model.staircase import Steps

MOST_STEPS, MOST_TOKENS = 20_000, 2_000
"""A page with more would be slow to open: larger models are shown by a sample."""
AROUND = 50
"""Steps kept on either side of an example's `z` where the sample goes by examples."""


@dataclass(frozen=True)
class Examples:
    """Sequences to pick from, encoded; `given`: they are data with labels, not drawn from the vocabulary."""

    data: Sequences
    given: bool


@torch.no_grad()
def payload(model: Monolayer, examples: Examples, verdict: str | None = None) -> dict[str, Any]:
    """The model as the page's script takes it; a model that is no construction (any more) is a DataError."""
    staircase_of(model)  # a robust model has none, and says so
    way, tables = plan(model), model.feed_forward.tables()
    if way is None or not way.stages or tables is None:
        raise DataError("a page needs weights as they were built, and nothing hooked into the forward pass")
    if model.bos.dtype != torch.float64:
        raise DataError(
            f"a page computes in binary64, and this model is in {str(model.bos.dtype).removeprefix('torch.')}"
        )
    card = model.card
    steps = tables[0]
    kept, near, shown = _sample(model, way, steps, examples)
    return {
        "kind": card.kind,
        "per": card.per,
        "causal": card.causal,
        "temperature": way.temperature,
        "kappa": way.kappa,
        "begin": _begin(model, way),
        "positions": None if model.positions is None else _columns(model.positions.weight),
        "length": None if card.grid is None else card.grid.length,
        **_tokens(model, way, kept),
        "readout": _readout(model, steps, near),
        "classes": None if card.classes is None else list(card.classes.names),
        "scalar": card.scalar,
        "parameters": sum(each.numel() for each in model.parameters()),
        "vocabulary": None if card.vocabulary is None else len(_known(model)),
        "verdict": verdict,
        "script": None if card.script is None else {"unit": card.script.unit, "window": card.script.window},
        "examples": _examples(model, shown, kept),
    }


def draw(model: Monolayer, count: int, seed: int = 0) -> Examples:
    """Sequences drawn from the vocabulary, or from the domain, for a model that comes without data."""
    random, card = np.random.default_rng(seed), model.card
    longest = 6 if model.positions is None else min(6, model.positions.num_embeddings)
    if card.vocabulary is None:
        assert isinstance(model.lift, nn.Linear)
        dim = model.lift.in_features
        low, high, length = (-1.0, 1.0, 4) if card.grid is None else (card.grid.low, card.grid.high, card.grid.length)
        tokens: Any = random.uniform(low, high, (count * length, dim)).round(3)
        return Examples(Sequences(tokens, np.full(count, length), None), False)
    known = _known(model)[:MOST_TOKENS]
    lengths = random.integers(1, longest + 1, count)
    return Examples(Sequences(random.choice(known, int(lengths.sum())), lengths, card.vocabulary), False)


# -- a part of a large model -----------------------------------------------------------------------------


def _sample(model: Monolayer, way: Plan, steps: Steps, examples: Examples) -> tuple[Ints, Ints, Examples]:
    """Rows of the vocabulary and numbers of steps that the page gets, and the examples that it can answer with them."""
    everything = np.arange(len(steps.slope))
    if model.card.vocabulary is None:
        rows = np.empty(0, np.int64)
        return rows, everything if len(everything) <= MOST_STEPS else _near(model, steps, examples.data), examples
    assert isinstance(model.lift, nn.Embedding)
    known = _known(model)
    if len(everything) <= MOST_STEPS and len(known) <= MOST_TOKENS:
        return known, everything, examples
    # Tokens of the examples come first, in the order of the examples.
    used, first = np.unique(examples.data.tokens, return_index=True)
    rows = np.concatenate([used[np.argsort(first)], np.setdiff1d(known, used)])[:MOST_TOKENS]
    if model.card.per == "sequence":
        near = _near(model, steps, examples.data)
    else:
        low, high = _reach(model, way, rows)
        start, end = steps.start.cpu().numpy(), steps.end.cpu().numpy()
        # From the ramp that ends left of a token's cell to the one that begins right of it.
        from_, to = np.searchsorted(end, low) - 1, np.searchsorted(start, high, side="right") + 1
        sizes = np.cumsum(np.clip(to, 0, len(start)) - np.clip(from_, 0, len(start)))
        rows = rows[: max(1, int(np.searchsorted(sizes, MOST_STEPS, side="right")))]
        inside = np.zeros(len(start) + 1, np.int64)
        np.add.at(inside, np.clip(from_[: len(rows)], 0, len(start)), 1)
        np.add.at(inside, np.clip(to[: len(rows)], 0, len(start)), -1)
        near = np.flatnonzero(inside[:-1].cumsum() > 0)
    fits = np.logical_and.reduceat(np.isin(examples.data.tokens, rows), examples.data.offsets[:-1])
    if not fits.any():
        raise DataError("no example fits into a page of this size: give shorter sequences first")
    return np.sort(rows), near, Examples(examples.data.select(np.flatnonzero(fits)), examples.given)


def _near(model: Monolayer, steps: Steps, data: Sequences) -> Ints:
    """Steps around the `z` of every answer to `data`."""
    z = codes(model, data)
    assert z is not None  # the plan was there
    run = np.searchsorted(steps.end.cpu().numpy(), z.cpu().numpy(), side="right")
    around = np.unique((run[:, None] + np.arange(-AROUND, AROUND)).ravel())
    return around[(around >= 0) & (around < len(steps.slope))]


def _reach(model: Monolayer, way: Plan, rows: Ints) -> tuple[Floats, Floats]:
    """The least and the largest `z` that tokens `rows` can have: a context is a mean of keys, whatever the weights."""
    assert isinstance(model.lift, nn.Embedding)
    key, code = (model.lift.weight[:, each].cpu().numpy() for each in (KEY, CODE))
    shift_key = shift = np.zeros(1)
    if model.positions is not None:
        shift_key, shift = (model.positions.weight[:, each].cpu().numpy() for each in (KEY, CODE))
    begin = float(model.bos[KEY])
    contexts = [
        way.kappa * min(float(np.nanmin(key)) + shift_key.min(), begin),
        way.kappa * max(float(np.nanmax(key)) + shift_key.max(), begin),
    ]
    return code[rows] + shift.min() + min(contexts), code[rows] + shift.max() + max(contexts)


# -- parts -----------------------------------------------------------------------------------------------


def _known(model: Monolayer) -> Ints:
    """Rows of the vocabulary that have a vector: ids that never occurred have none."""
    assert isinstance(model.lift, nn.Embedding)
    return np.flatnonzero(~model.lift.weight.detach()[:, ONE].isnan().cpu().numpy())


def _begin(model: Monolayer, way: Plan) -> dict[str, float]:
    pair = model.bos[KEY : CODE + 1]
    if way.cells is not None:
        pair = pair + way.cells(model.bos[None, LABEL + model.feed_forward.labels :])[0]
    return {"key": float(pair[0]), "code": float(pair[1])}


def _columns(weight: torch.Tensor) -> dict[str, list[float]]:
    return {"key": weight[:, KEY].tolist(), "code": weight[:, CODE].tolist()}


def _tokens(model: Monolayer, way: Plan, kept: Ints) -> dict[str, Any]:
    """How a token gets its key and code: a table of names, a linear map, or the cells of an approximator."""
    if isinstance(model.lift, nn.Embedding):
        assert model.card.vocabulary is not None
        names = model.card.vocabulary.decode(kept).tolist()
        return {"tokens": {"names": names, **_columns(model.lift.weight[torch.from_numpy(kept)])}}
    if way.cells is None:
        weight, bias = model.lift.weight, model.lift.bias
        pair = {"key": weight[KEY].tolist(), "code": weight[CODE].tolist()}
        return {"lift": {**pair, "bias": [float(bias[KEY]), float(bias[CODE])]}}
    tables = [
        {"slope": each.slope.tolist(), "bias": each.bias.tolist(), "level": each.level.tolist()}
        for each in way.cells.coordinates
    ]
    return {"cells": tables}


def _readout(model: Monolayer, steps: Steps, near: Ints) -> dict[str, Any]:
    """The steps of the page with their numbers in the whole staircase, and the labels on either side of each."""
    kept = torch.from_numpy(near)
    level = steps.level
    return {
        "form": model.feed_forward.readout,
        "steps": len(steps.slope),
        "number": near.tolist(),
        "slope": steps.slope[kept].tolist(),
        "bias": steps.bias[kept].tolist(),
        "left": level[kept].tolist(),
        "right": level[kept + 1].tolist(),
        "first": level[0].tolist(),
    }


def _examples(model: Monolayer, examples: Examples, kept: Ints) -> dict[str, Any]:
    """Tokens as rows of the page's own table, or vectors; with the labels of the data, or those of the model."""
    data, per = examples.data, model.card.per
    tokens = data.tokens if model.card.vocabulary is None else np.searchsorted(kept, data.tokens)
    given = data.named_labels() if examples.given else None
    if given is not None:
        answers = given
    else:
        answers = model.card.decode(model.labels(data))
        if examples.given and data.vocabulary is not None:  # the label of a token is the next one; the last has none
            before_last = np.setdiff1d(np.arange(len(data.tokens)), data.offsets[1:] - 1)
            answers[before_last] = data.vocabulary.decode(data.tokens[before_last + 1])
    labels = answers.tolist() if per == "sequence" else [row.tolist() for row in data.split(answers)]
    return {"given": examples.given, "tokens": [row.tolist() for row in data.split(tokens)], "labels": labels}
