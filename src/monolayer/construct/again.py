"""The draw of a model, used again for other data: behind `memorize(..., draw=model)` and every edit.

With a draw fixed, a model is a function of its data, bit for bit (docs/editing.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from monolayer.arrays import Ints
from monolayer.construct.line.again import LineAgain
from monolayer.construct.robust.again import RobustAgain
from monolayer.construct.task import StoredDraw, Task
from monolayer.data import Names, Sequences
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress, plural

CONSTRUCTIONS: dict[str, type[StoredDraw]] = {"line": LineAgain, "robust": RobustAgain}
"""For each construction, by its name in files, the class that reads its draw and builds with it."""


def draw_of(model: Monolayer) -> StoredDraw:
    """The stored draw of a model that `memorize` built; an error if it has none, or one that does not fit it."""
    if model.quantizer is not None:
        raise DataError("an approximator stores a function, not facts: it has no draw to reuse")
    stored = model.card.draw
    if stored is None:
        raise DataError("this model has no draw to reuse: its file holds none, so memorize the data again")
    try:
        draw = CONSTRUCTIONS[str(stored["construction"])].from_json(stored)
        if not draw.fits(model):
            raise ValueError("it is for a model of other sizes")
        return draw
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"the draw of this model is not one that memorize stored: {error}") from None


def rebuilt(model: Monolayer, task: Task, report: Progress, only: Ints | None = None) -> Monolayer:
    """Build `task` with the draw of `model`, without a summary, so that editing and building give the same file.

    `only`: tokens whose facts changed since `model` was built, where that is known and neurons belong to tokens.
    """
    new = draw_of(model).build(task, report, model, only)
    new.card = replace(new.card, script=model.card.script, form=model.card.form)
    return new


def adopted(model: Monolayer, data: Sequences) -> Sequences:
    """`data` with the model's row numbers; new tokens and classes get the numbers after these."""
    card, tokens = model.card, data.tokens
    data.check_no_prompts()
    if (data.vocabulary is None) != (card.vocabulary is None):
        raise DataError(f"the model takes {'vectors' if card.vocabulary is None else 'ids'} as tokens")
    if isinstance(model.lift, nn.Linear) and tokens.shape[1] != model.lift.in_features:
        raise DataError(f"the model takes vectors of {plural(model.lift.in_features, 'number')}, not {tokens.shape[1]}")
    longest = int(data.lengths.max())
    most = None if model.positions is None else model.positions.num_embeddings
    if most is not None and longest > most:
        raise DataError(
            f"{data.named(int(data.lengths.argmax()))} has {longest} tokens, and this draw has {most} positions: a "
            "longer one needs another draw, so memorize all the data again"
        )
    vocabulary = card.vocabulary
    if data.vocabulary is not None and vocabulary is not None:
        vocabulary, tokens = _in_our_numbers(vocabulary, data.vocabulary, tokens)
    labels = data.labels
    if labels is None:
        if not card.next_token:
            raise DataError("labels are missing: give Y")
        return Sequences(tokens, data.lengths, vocabulary, None, origin=data.origin)
    if card.next_token:
        raise DataError("this model memorizes each next token: its labels are its tokens, so give no Y")
    ours, theirs = (("reals" if names is None else "classes") for names in (card.classes, labels.classes))
    if (ours, card.per) != (theirs, labels.per):
        raise DataError(f"the labels are {theirs}, one per {labels.per}; the model has {ours}, one per {card.per}")
    if labels.classes is not None and card.classes is not None:
        classes, values = _in_our_numbers(card.classes, labels.classes, labels.values)
        labels = replace(labels, values=values, classes=classes)
    elif labels.values.shape[1] != model.feed_forward.labels:
        raise DataError(f"labels have {labels.values.shape[1]} numbers, the model's have {model.feed_forward.labels}")
    else:
        labels = replace(labels, scalar=card.scalar)
    return Sequences(tokens, data.lengths, vocabulary, labels, origin=data.origin)


def _in_our_numbers(ours: Names, theirs: Names, rows: Ints) -> tuple[Names, Ints]:
    """Our names, extended by those of theirs that `rows` use and we lack; and `rows` in our numbers."""
    if ours == theirs:
        return ours, rows
    number = ours.find(theirs)
    lacking = np.unique(rows[number[rows] < 0])
    if len(lacking):
        ours = ours.extended([theirs.names[row] for row in lacking.tolist()])
        for row in lacking.tolist():
            number[row] = ours.rows[theirs.names[row]]
    return ours, number[rows]
