"""What the page needs of a model, as JSON: the numbers of its weights, and sequences to pick from.

JSON writes a float with as many digits as tell it from its neighbours, and JavaScript reads it back to the bit; its
numbers are IEEE binary64, so the page computes what Python does, but for the order of sums and the last bits of `exp`:
the differences that a certificate allows. Names of tokens and classes are strings there, integers too: from 2⁵³ on,
two integers would be one number in JavaScript.

Notation: `z = t + κ c` with the context `c`; step `j` has the slope `w_j`, the bias `−w_j a_j`, and the levels `j` and
`j + 1` on its left and right.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from monolayer.arrays import Ints
from monolayer.data import Sequences
from monolayer.data.names import check_utf8
from monolayer.data.number_formats import FLOAT64
from monolayer.data.text import Script, windows
from monolayer.errors import DataError
from monolayer.model.attention import CODE, KEY, ONE
from monolayer.model.keys import EXAMPLES, stored_keys
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of
from monolayer.model.shortcut import plan

MOST_PAGE_STEPS = 200_000
"""A page of this many steps is some 15 megabytes; a larger one would be slow to open."""


@torch.no_grad()
def model_json(model: Monolayer, data: Sequences | None, verdict: str | None) -> dict[str, object]:
    """The model as the page's script takes it; a model that the page cannot run is a DataError.

    `data`: sequences to pick from, maybe labelled; None: they are places of the text that the model recites, keys of
    its table, or else drawn from the vocabulary. `verdict`: what a certificate says of the data.
    """
    staircase_of(model)  # a robust model has none, and says so
    card, way = model.card, plan(model)
    if not isinstance(model.lift, nn.Embedding) or card.vocabulary is None:
        raise DataError("a page is for models of ids or strings, and this one takes vectors: explain shows its answers")
    if card.classes is None or card.causal:
        raise DataError(
            "a page shows classes that follow from whole sequences: explain shows the answers of this model"
        )
    if way is None:
        raise DataError("a page needs weights as they were built, and nothing hooked into the forward pass")
    dtype = str(model.bos.dtype).removeprefix("torch.")
    if dtype != FLOAT64.name:
        raise DataError(f"a page computes in binary64, and this model is in {dtype}")
    steps = way.stages[0].steps
    known = np.flatnonzero(~model.lift.weight[:, ONE].isnan().cpu().numpy())  # ids that never occurred have no vector
    if len(steps.slope) > MOST_PAGE_STEPS:
        raise DataError(
            f"a page holds up to {MOST_PAGE_STEPS:,} steps, and this model has {len(steps.slope):,}: explain shows its "
            "answers, or memorize a part of the data for a page"
        )
    names = card.vocabulary.decode(known).tolist()
    check_utf8("token", names)
    check_utf8("label", card.classes.names)
    return {
        "per": card.per,
        "temperature": way.temperature,
        "kappa": way.stages[0].kappa,
        "begin": {"key": float(model.bos[KEY]), "code": float(model.bos[CODE])},
        "positions": None if model.positions is None else _columns(model.positions.weight),
        "tokens": {
            "integers": card.vocabulary.integers,
            "names": [str(name) for name in names],
            **_columns(model.lift.weight[torch.from_numpy(known)]),
        },
        "readout": {"slope": steps.slope.tolist(), "bias": steps.bias.tolist(), "level": steps.level[:, 0].tolist()},
        "classes": [str(name) for name in card.classes.names],
        "parameters": sum(each.numel() for each in model.parameters()),
        "verdict": verdict,
        "examples": _examples(model, data, known),
    }


def _columns(weight: torch.Tensor) -> dict[str, list[float]]:
    return {"key": weight[:, KEY].tolist(), "code": weight[:, CODE].tolist()}


def _places_of_text(model: Monolayer, script: Script) -> Sequences:
    """The windows at all places of the text that the model recites, in their order, each with the next token."""
    text = model.generate()
    places, _ = windows(text, script.unit, script.window)
    return places.select(np.arange(1 + len(script.split(text))))  # shorter windows stand behind them


def _examples(model: Monolayer, data: Sequences | None, known: Ints) -> dict[str, object]:
    """Tokens as rows of the page's own table, with the labels of the data where they are `given`, else the model's."""
    card, with_labels = model.card, False
    if data is None and card.script is not None:
        data = _places_of_text(model, card.script)
    data = stored_keys(model) if data is None else data
    if data is None:
        random, longest = np.random.default_rng(0), 6 if model.positions is None else model.positions.num_embeddings
        lengths = random.integers(1, min(6, longest) + 1, EXAMPLES)
        some = Sequences(random.choice(known, int(lengths.sum())), lengths, card.vocabulary)
    else:
        rows = np.unique(np.linspace(0, len(data) - 1, min(EXAMPLES, len(data))).round().astype(np.int64))
        some = model.encode(data).select(rows)
        # Labels can be shown next to the model's own only if they are of the same kind.
        with_labels = (
            some.labels is not None and some.labels.labelling is card.labelling and some.labels.classes is not None
        )
    answers: Any = some.named_labels() if with_labels else card.decode(model.labels(some))
    named = [None if name is None else str(name) for name in answers.tolist()]
    check_utf8("label", filter(None, named))
    cuts = pairwise(some.offsets.tolist())
    labels = [named[start:end] for start, end in cuts] if card.labelling.at_tokens else named
    tokens = some.split(np.searchsorted(known, some.tokens))
    return {"given": with_labels, "tokens": [row.tolist() for row in tokens], "labels": labels}
