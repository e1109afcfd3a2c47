"""Other data in the numbers of a model: its tokens and classes keep theirs, and what is new comes behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from monolayer.arrays import Ints
from monolayer.data import Names, Sequences
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.model.monolayer import Monolayer


def adopted(model: Monolayer, card: Card, data: Sequences) -> tuple[Card, Sequences]:
    """`data` in the numbers of `card`, which is that of `model` or grew out of it, and the card with what it lacked."""
    tokens = data.tokens
    if (data.vocabulary is None) != (card.vocabulary is None):
        raise DataError(f"the model takes {'vectors' if card.vocabulary is None else 'ids'} as tokens")
    if isinstance(model.lift, nn.Linear) and tokens.shape[1] != model.lift.in_features:
        raise DataError(f"the model takes vectors of {model.lift.in_features} numbers, not {tokens.shape[1]}")
    longest = int(data.lengths.max())
    most = None if model.positions is None else model.positions.num_embeddings
    if most is not None and longest > most:
        raise DataError(
            f"sequence {int(data.lengths.argmax())} has {longest} tokens, and this draw has {most} positions: a "
            "longer one needs another draw, so memorize all the data anew"
        )
    vocabulary, classes = card.vocabulary, card.classes
    if data.vocabulary is not None and vocabulary is not None:
        vocabulary, tokens = _renumber(vocabulary, data.vocabulary, tokens)
    labels = data.labels
    if labels is None:
        if not card.next_token:
            raise DataError("labels are missing: give Y")
        classes = vocabulary
    else:
        if card.next_token:
            raise DataError("this model memorizes each next token: its labels are its tokens, so give no Y")
        ours, theirs = (("reals" if names is None else "classes") for names in (classes, labels.classes))
        if (ours, card.per) != (theirs, labels.per):
            raise DataError(f"the labels are {theirs}, one a {labels.per}; the model has {ours}, one a {card.per}")
        if labels.classes is not None and classes is not None:
            classes, values = _renumber(classes, labels.classes, labels.values)
            labels = replace(labels, values=values, classes=classes)
        elif labels.values.shape[1] != model.feed_forward.labels:
            slots = model.feed_forward.labels
            raise DataError(f"labels have {labels.values.shape[1]} numbers, the model's have {slots}")
    return replace(card, vocabulary=vocabulary, classes=classes), Sequences(tokens, data.lengths, vocabulary, labels)


def _renumber(ours: Names, theirs: Names, rows: Ints) -> tuple[Names, Ints]:
    """`rows` of their names in our numbers, and our names with those that we lack and `rows` hold."""
    if ours == theirs:
        return ours, rows
    number = ours.find(theirs)
    lacking = np.unique(rows[number[rows] < 0])
    if len(lacking):
        ours = ours.extended([theirs.names[row] for row in lacking.tolist()])
        for row in lacking.tolist():
            number[row] = ours.rows[theirs.names[row]]
    return ours, number[rows]
