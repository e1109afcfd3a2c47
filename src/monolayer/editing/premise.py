"""What of a robust model can be held against all of its data without finding its neurons anew.

An edit sees bit for bit that the neurons of the tokens that it touches are those that the data determine. Of all other
tokens these are looked at: how many sequences and labels there were, the usual class in every embedding, and which
classes the neurons of a token speak for. Data that lack a row, or have one too many, fail the first wherever the model
knows its counts, and often the others; that nothing fails is no proof (docs/editing.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from monolayer.construct.robust.again import RobustDraw
from monolayer.construct.robust.stream import base_of, cell_of, usual_labels
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.gated import cells_of
from monolayer.errors import DataError
from monolayer.model.gates import Gates

NOT_THESE = "these are not the data that {} holds: {}. Give all of its data, with later edits made in them"


def check_premise(draw: RobustDraw, data: Sequences) -> None:
    """That adopted `data` may be all that a robust model of ids, which answers at tokens, holds."""
    model, card = draw.model, draw.card
    task = Task.of(data, positions=model.positions is not None, causal=card.causal, on_conflict="error")
    found = model.card.summary
    here = len(data), len(task.target.number)
    if found is not None and (found.sequences, found.labelled) != here:
        why = (
            f"it was built from {found.sequences:,} sequences with {found.labelled:,} labels, and these are "
            f"{here[0]:,} with {here[1]:,}"
        )
        raise DataError(NOT_THESE.format("the model", why))
    assert draw.table is not None
    assert card.vocabulary is not None
    assert card.classes is not None
    gates = model.feed_forward
    assert isinstance(gates, Gates)
    size, base = gates.layout.label, base_of(task, len(draw.table))
    label = draw.classes(len(card.classes))[0]
    usual = torch.from_numpy(usual_labels(task, base, label, draw.cover.base)).to(draw.dtype).double().numpy()
    odd = np.flatnonzero(~np.isnan(draw.table[:, 0]) & (draw.table[:, -size:] != usual).any(axis=1))
    if len(odd):
        raise DataError(NOT_THESE.format("the model", unusual(card.vocabulary.names, odd)))
    if draw.cover.base is None:
        speaks = (gates.weight_2.detach().double().T.numpy() @ label.T).argmax(axis=1)
        check_covers(
            "the model",
            (card.vocabulary.names, card.classes.names),
            (cells_of(model), speaks),
            (cell_of(task), task.target.number),
            base,
        )


def unusual(names: Sequence[object], odd: Ints) -> str:
    return (
        f"by them the usual class of {names[int(odd[0])]!r} is another one than its embedding has ({len(odd):,} such "
        "tokens)"
    )


def check_covers(
    what: str,
    names: tuple[Sequence[object], Sequence[object]],
    neurons: tuple[Ints, Ints],
    facts: tuple[Ints, Ints],
    usual: Ints,
) -> None:
    """That neurons and facts, by tokens and classes, name the same pairs, but for the usual class `(V,)` of a token."""
    count = len(names[1])
    have, want = (np.unique(token * count + label) for token, label in (neurons, facts))
    common = np.arange(len(usual)) * count + usual
    for pairs, why in (
        (np.setdiff1d(have, want), "a neuron of {0!r} says {1!r}, which no row of the data does ({2:,} such pairs)"),
        (
            np.setdiff1d(np.setdiff1d(want, common), have),
            "they say {1!r} of {0!r}, for which there is no neuron ({2:,} such pairs)",
        ),
    ):
        if len(pairs):
            token, label = divmod(int(pairs[0]), count)
            raise DataError(NOT_THESE.format(what, why.format(names[0][token], names[1][label], len(pairs))))
