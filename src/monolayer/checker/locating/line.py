"""Lines: which steps write at a fact, and the answers without one of them.

    exact   neuron j is on at every point left of its step: without it, all of these lose its jump
    runs    neuron r is on at the points of one run: without it, these are answered with 0

So the label of a fact of `exact` is a sum over many neurons; that of the nearest step holds it. No sum rounds, so what
a certificate says of the whole readout covers it without one of its neurons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.codes import read_attention, read_stream
from monolayer.checker.labelled import Labelled
from monolayer.checker.locating.writers import MEASURED, PROVED, UNKNOWN, Answers, Writers
from monolayer.checker.readout import answers, copies, read_staircase
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stages import evaluate
from monolayer.checker.stored import Stored
from monolayer.errors import DataError


def line_writers(stored: Stored, points: Labelled) -> Writers:
    """The neurons of a line of steps."""
    form = stored.config["readout"]
    if form not in ("exact", "runs"):
        raise DataError(
            f"locate looks into lines, robust models and stock folders of cells; this readout is {form!r}: memorize "
            "with robust=True, or with memorize_as"
        )
    if stored.config["target"] != "classes" and not copies(stored):
        raise UnhandledError("the head does not copy the label slots")
    read_attention(stored)  # which says more plainly than the readout what is wrong
    stairs = read_staircase(stored)
    found = evaluate(stored, points, read_stream(stored, points.data, points.rows), [stairs])
    written = stored["feed_forward.weight_2"].astype(np.float64)
    back = np.argsort(found.first.plateau, kind="stable")
    plateau, order = found.first.plateau[back], found.order[back]  # `plateau` counts the steps left of a point
    sure, value = (found.sure & found.number)[back], found.value[:, back]
    number = np.arange(written.shape[1])
    start, stop = (np.searchsorted(plateau, number, side=side) for side in ("left", "right"))
    if form == "exact":
        start = np.zeros_like(start)

    def without(j: int) -> Answers:
        here = slice(start[j], stop[j])
        return _answers(stored, value[:, here] - written[:, j : j + 1], sure[here])

    answer, state = _answers(stored, value, sure)
    whole: tuple[NDArray[Any], Ints] = np.empty_like(answer), np.empty_like(state)
    whole[0][order], whole[1][order] = answer, state
    held = np.flatnonzero(sure & (plateau < len(number)))
    held = held[np.argsort(order[held])]
    return Writers(*whole, order, start, stop, order[held], plateau[held], without)


def _answers(stored: Stored, value: Floats, sure: Bools) -> Answers:
    """What the head makes of label coordinates `(m, K)`."""
    if stored.classes is None:
        found, state = value.T, np.full(value.shape[1], PROVED)
    else:
        answer = answers(stored, value[0])
        likely = np.clip(np.rint(value[0]), 0, len(stored.classes) - 1).astype(np.int64)
        found, state = np.where(answer >= 0, answer, likely), np.where(answer >= 0, PROVED, MEASURED)
    return found, np.where(sure & np.isfinite(value).all(axis=0), state, UNKNOWN)
