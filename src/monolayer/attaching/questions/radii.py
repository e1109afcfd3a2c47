"""Thresholds that follow from the data: above every question with another answer, above every text to keep.

With a margin for the ball around the other text in which the certificate is to hold, so angles are compared: where û is
within ψ of the other text's state, at angle θ from a key, ⟨k, û⟩ is at most cos(θ − ψ).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.attaching.questions.layer import GAIN, constant_of, room_of, steepness
from monolayer.huggingface.encoders import Encoder
from monolayer.huggingface.questions import Draw

AT_ONCE = 1 << 22
"""How many cosines are in memory at a time."""
MOVES = 1.5
"""How many times as far from its key as when it was stored a question's state may be."""
REACH = {"float32": 2.0**-13, "float16": 2.0**-11, "bfloat16": 2.0**-9}
"""How far 1 − cos(k, û) may at least be above 0 at a stored question. In float32 kernels differ by some 10⁻⁷."""
FLOOR_SHARE = 1.0 / 3.0
"""The default floor is 1 less this share of what is between 1 and the cosine with other texts (docs/understand.md)."""
NOBODY = -1
"""In place of the number of a neighbour: none limits the threshold."""


class Thresholds(NamedTuple):
    """The threshold τ `(N,)` of each question, and what limits it.

    `neighbour` `(N,)`: the question with another answer that is nearest, if it is what makes τ as large as it is, or
    `NOBODY`; `kept` `(N,)`: the same for texts to keep. `nearest` `(N,)`: the cosine with the nearest question that has
    another answer, or text to keep; −1 if there is none. `largest` `(N,)`: the largest τ at which it still answers at
    its own state.
    """

    tau: Floats
    neighbour: Ints
    kept: Ints
    nearest: Floats
    largest: Floats


def strip(encoder: Encoder, layer: int = 0, gain: float = GAIN) -> float:
    """How far τ should be above a cosine at which the neuron must be silent, or below one at which it must answer.

    `layer`: the appended layer that the neuron stands in, counted from 0. `gain`: what neurons write (`layer.py`).
    """
    fmt, D, constant = encoder.format, encoder.width, constant_of(encoder)
    firing = 3.0 * (constant + np.sqrt(room_of(encoder))) / gain
    width = (max(encoder.silence, firing) + 2.0) / steepness(encoder) + 2.0 * (D + 16) * 2.0**-24
    width += 2.0 * fmt.unit if fmt.short else 0.0  # a bias is rounded, and û is longer or shorter by as much
    if layer:  # it reads û divided by a length that depends on |û|, and roundings of norms count κ-fold
        moved = 2.2 * (D + 16) * 2.0**-24 + 2.0 * encoder.epsilon
        moved += (1.1 + 2.1 * layer) * (fmt.unit if fmt.short else 2.0**-21)
        width += 0.6 / constant**2 + constant * moved
    return float(width)


def strips(encoder: Encoder, count: int, gain: float = GAIN) -> Floats:
    """The `strip` of each question `(N,)`, by the layer that it stands in."""
    widths = np.array([strip(encoder, layer, gain) for layer in range(encoder.blocks(count))])
    return widths[np.arange(count) // encoder.per_layer]


def thresholds(encoder: Encoder, keys: Floats, answers: Ints, draw: Draw, keep: Floats, room: Floats) -> Thresholds:
    """The thresholds of questions with unit keys `(N, D)`; `keep` `(M, D)`: unit states of texts to keep.

    `room` `(N,)`: their `strips`.
    """
    psi = float(np.arccos(1.0 - draw.reach))
    largest = 1.0 - draw.reach - room
    count = len(keys)
    near, who = np.full(count, -1.0), np.full(count, NOBODY)
    kept, which = np.full(count, -1.0), np.full(count, NOBODY)
    step = max(1, AT_ONCE // max(1, max(count, len(keep))))
    for start in range(0, count, step):
        some = slice(start, min(count, start + step))
        cosines = keys[some] @ keys.T
        cosines[answers[some][:, None] == answers] = -1.0
        who[some], near[some] = cosines.argmax(axis=1), cosines.max(axis=1)
        if len(keep):
            cosines = keys[some] @ keep.T
            which[some], kept[some] = cosines.argmax(axis=1), cosines.max(axis=1)
    above_near, above_kept = (widened(cosine, psi) + room for cosine in (near, kept))
    tau = np.maximum(draw.floor, np.maximum(above_near, above_kept))
    who = np.where((near > -1.0) & (tau == above_near), who, NOBODY)
    which = np.where((kept > -1.0) & (tau == above_kept) & (who == NOBODY), which, NOBODY)
    tau, whose = out_of_strips(encoder, keys, answers, tau, psi, room)
    who, which = np.where(whose != NOBODY, whose, who), np.where(whose != NOBODY, NOBODY, which)
    return Thresholds(tau, who, which, np.maximum(near, kept), largest)


def out_of_strips(
    encoder: Encoder, keys: Floats, answers: Ints, tau: Floats, psi: float, room: Floats
) -> tuple[Floats, Ints]:
    """Thresholds raised so that no question of a later layer lies in the strip of one with the same answer.

    Between silence and its answer a neuron writes too little to decide, and later layers would read that. Also for
    each question: the one that its threshold was raised above, or `NOBODY`.
    """
    count, thresholds = len(keys), tau.copy()
    layer, whose = np.arange(count) // encoder.per_layer, np.full(count, NOBODY)
    first = int((layer < layer.max(initial=0)).sum())  # questions of the last layer precede nobody
    step = max(1, AT_ONCE // max(1, count))
    for start in range(0, first, step):
        some = slice(start, min(first, start + step))
        pairs = np.nonzero((answers[some][:, None] == answers) & (layer[some][:, None] < layer))
        cosines, row, other = (keys[some] @ keys.T)[pairs], pairs[0] + start, pairs[1]
        most, least = widened(cosines, psi) + room[row], narrowed(cosines, psi) - room[row]
        while True:
            inside = np.flatnonzero((most > thresholds[row]) & (least < thresholds[row]))
            if not len(inside):
                break
            for pair in inside[np.argsort(most[inside])].tolist():
                thresholds[row[pair]], whose[row[pair]] = max(thresholds[row[pair]], most[pair]), other[pair]
    return thresholds, whose


def widened(cosine: Floats, psi: float) -> Floats:
    """The largest ⟨k, û⟩ for û within the angle ψ of a state with this cosine; −1 stands for no state."""
    cosines: Floats = np.where(
        cosine > -1.0, np.cos(np.maximum(0.0, np.arccos(np.clip(cosine, -1.0, 1.0)) - psi)), -1.0
    )
    return cosines


def narrowed(cosine: Floats, psi: float) -> Floats:
    """The least ⟨k, û⟩ for û within the angle ψ of a state with this cosine."""
    cosines: Floats = np.cos(np.minimum(np.pi, np.arccos(np.clip(cosine, -1.0, 1.0)) + psi))
    return cosines


def lowered(cosine: Floats, reach: float, room: Floats) -> Floats:
    """The largest τ with which a question also answers at a rewording with this cosine; `room`: its `strip`."""
    return narrowed(cosine, float(np.arccos(1.0 - reach))) - room


def default_floor(cosines: Floats, encoder: Encoder) -> float:
    """The floor of thresholds, from the cosines of questions with texts of other kinds: above all of them."""
    usual = 1.0 - FLOOR_SHARE * (1.0 - float(np.mean(cosines)))
    return float(max(usual, float(cosines.max()) + strip(encoder, encoder.blocks(len(cosines)) - 1)))


def reach_of(keys: Floats, states: Floats, encoder: Encoder) -> float:
    """How far 1 − cos(k, û) may be above 0 at questions: with `pooling="first"` û has a part in R that keys lack."""
    cosines = (keys * states).sum(axis=1) / np.linalg.norm(states, axis=1)
    return float(max(REACH[encoder.dtype], MOVES * float((1.0 - cosines).max(initial=0.0))))
