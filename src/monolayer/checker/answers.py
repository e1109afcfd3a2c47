"""The answers of a saved model to data without labels, where every evaluation returns the same ones.

One evaluation (`evaluation.py`) says what the labels may be, and the proof of a certificate (`check.py`) says whether
every other evaluation returns them, too. So whoever asks the network in another way, such as in PyTorch, gets the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.certificate import Claims
from monolayer.checker.check import judge_own
from monolayer.checker.evaluation import Evaluation
from monolayer.checker.network import Stored
from monolayer.checker.tried import MOST_WORK, batches, work_of
from monolayer.data import Sequences
from monolayer.data.labelling import LABELLINGS
from monolayer.data.labels import Labels
from monolayer.data.subnormal import subnormals_are_flushed


def proved_classes(stored: Stored, data: Sequences, places: Ints) -> Ints | None:
    """The classes `(P,)` at `places` `(P,)`, which are tokens or sequences; None if one of them is not proved.

    `data`: ids in the row numbers of the model's vocabulary.
    """
    if subnormals_are_flushed():  # then nothing is proved here, and `certify` refuses
        return None
    network, labelling = Evaluation(stored), LABELLINGS[stored.config["per"]]
    classes = np.full(labelling.count(data), -1)
    rows = np.unique(labelling.rows(data, places))
    work = partial(work_of, network, labelling.at_tokens)
    for batch in batches(data.lengths, rows, [], work, stored.config["width"], MOST_WORK):
        flat = data.offsets[batch.rows][:, None] + np.arange(batch.length)
        at = np.arange(1, batch.length + 1) if labelling.at_tokens else np.zeros(1, dtype=np.int64)
        outputs = network.outputs(data.tokens[flat], at)
        classes[flat if labelling.at_tokens else batch.rows[:, None]] = outputs.argmax(axis=2)
    answers = classes[places]
    if (answers < 0).any():  # more work than an evaluation may cost
        return None
    labels = Labels(answers, labelling.belongs_to, stored.classes, False, places)
    return answers if judge_own(stored, replace(data, labels=labels), Claims()).verdict == "proved" else None


__all__ = ["proved_classes"]
