"""Steps of one cell, a token at a place: their neurons answer there, and are silent everywhere else.

A neuron of cell `a` reads `ψ = φ + G (⟨p_a, x⟩ − m·one)`. In its own cell `⟨p_a, x⟩ = m·one`, so it sees the context
`φ` alone; elsewhere the words differ in two places or more and `ψ ≤ φ − 4 G |one|`, below every threshold:

    own cell      label ──╮ step       other cells   ────────────────  0, exactly
                          ╰────── φ

So labels of a token are sorted by context among themselves only: one step where they change, and one in front of the
first where it is not the label that the token's embedding holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.stock.folder import Neurons
from monolayer.stock.labelled import Points
from monolayer.stock.layout import LABEL, Layout


@dataclass(frozen=True)
class Activation:
    """How neurons make a step of height 1: at rest up to `low`, done from `high` on.

    `parts`: for every neuron of a step, what is added to its bias and what its output is multiplied by.
    """

    low: float
    high: float
    parts: tuple[tuple[float, float], ...]


_BENT = Activation(-16.0, 48.0, ((0.0, 2.0**-5), (-32.0, -(2.0**-5))))
ACTIVATIONS = {
    "relu6": Activation(0.0, 6.0, ((0.0, 1.0 / 6.0),)),
    "relu": Activation(0.0, 1.0, ((0.0, 1.0), (-1.0, -1.0))),
    "gelu": _BENT,
    "gelu_new": _BENT,
    "gelu_pytorch_tanh": _BENT,
}
"""gelu is exactly 0 below −16 and the identity above 16 in float64: erf and tanh are ±1 there."""


def cells(points: Points, layout: Layout) -> Ints:
    """One number per cell `(P,)`."""
    return points.token if layout.places is None else points.token * len(layout.places) + points.place


@dataclass(frozen=True, eq=False)
class Changes:
    """Points in order of cell and `φ`, and where neighbours of one cell have different labels, with their gaps."""

    order: Ints
    feature: Floats
    label: Ints
    first: Ints
    """First point of every cell."""
    change: Ints
    """Points whose label is not that of the next point, in the same cell."""
    gap: Floats

    @classmethod
    def of(cls, cell: Ints, feature: Floats, label: Ints) -> Changes:
        order = np.lexsort((feature, cell))
        cell, feature, label = cell[order], feature[order], label[order]
        same = cell[1:] == cell[:-1]
        change = np.flatnonzero(same & (label[1:] != label[:-1]))
        first = np.flatnonzero(np.append(True, ~same))
        return cls(order, feature, label, first, change, feature[change + 1] - feature[change])


def silence_for(reach: float, one: float) -> float:
    """`G`, a power of two with `4 G |one| ≥ 2 reach`: other cells fall below what is read here by more than `reach`."""
    return float(np.exp2(np.ceil(np.log2(reach / (2.0 * one)))))


def neurons(
    layout: Layout, points: Points, changes: Changes, usual: Ints, reach: float, silence: float, activation: str
) -> Neurons:
    """A step for every change, and one in front of a cell whose first label is not its token's usual one."""
    shape, who = ACTIVATIONS[activation], changes.order
    label, feature = changes.label, changes.feature
    enters = changes.first[label[changes.first] != usual[points.token[who[changes.first]]]]
    middle = np.append(feature[changes.change] + changes.gap / 2.0, feature[enters] - reach / 4.0)
    gap = np.append(changes.gap, np.full(len(enters), reach / 4.0))
    before = np.append(label[changes.change], usual[points.token[who[enters]]])
    after = np.append(label[changes.change + 1], label[enters])
    who = who[np.append(changes.change, enters)]
    slope, bias = ramp(shape, middle, gap)
    reads = directions(layout, points.token[who], points.place[who], silence) * slope[:, None]
    jump = LABEL * (layout.words[after] - layout.words[before])
    W_2 = np.zeros((len(slope), len(shape.parts), layout.width))
    for number, (_, share) in enumerate(shape.parts):
        W_2[:, number, layout.label] = jump * share
    offsets = np.array([offset for offset, _ in shape.parts])
    return Neurons(
        W_1=np.repeat(reads, len(shape.parts), axis=0),
        b_1=(bias[:, None] + offsets).reshape(-1),
        W_2=W_2.reshape(-1, layout.width),
        steps=len(slope),
    )


def ramp(shape: Activation, middle: Floats, gap: Floats) -> tuple[Floats, Floats]:
    """Slope and bias of steps in the middle of gaps."""
    # A power of two, so that products with it are exact; the ramp takes at most a quarter of its gap.
    slope = np.exp2(np.ceil(np.log2(4.0 * (shape.high - shape.low) / gap)))
    # A whole number: the biases of two neurons of a step are then exactly as far apart as they must be.
    return slope, np.rint((shape.low + shape.high) / 2.0 - slope * middle)


def directions(layout: Layout, token: Ints, place: Ints, silence: float) -> NDArray[np.float64]:
    """What the neurons of a cell read `(P, D)`: half the difference of the slot, and `G` times the word against `one`.

    Every direction sums to 0, so whatever LayerNorm's mean is wrong by cancels.
    """
    reads = np.zeros((len(token), layout.width))
    reads[:, layout.slot], reads[:, layout.slot + 1] = 0.5, -0.5
    reads[:, layout.code] = silence * layout.tokens[token, layout.code]
    if layout.places is not None and layout.place_code is not None:
        reads[:, layout.place_code] = silence * layout.places[place, layout.place_code]
    reads[:, layout.one], reads[:, layout.one + 1] = -0.5 * silence * layout.signs, 0.5 * silence * layout.signs
    return reads
