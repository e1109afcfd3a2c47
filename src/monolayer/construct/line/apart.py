"""Code and context apart, at rank 1: neighbours are points of one cell, and their distance is that of their contexts.

On one line `z = t + κ c` a context has the bits that its code leaves it: with `V` cells the rounding of `z` is up to
`u V/2`. Apart, a context rounds by `2 u (n + 4R + 2g + 2)`, whatever the cells (docs/certificate.md, Lemma 4), and
points of different cells never meet. So `V` cells of `M` contexts each hold if `V M²` pairs keep `8e` between them, not
`(V M)²`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.construct.line.draw import Draw, Tokens, draws
from monolayer.construct.line.points import SLACK, codes_and_contexts
from monolayer.construct.line.ramps import ramps, size_of_jumps
from monolayer.construct.line.separate import DRAWS, HOPELESS
from monolayer.construct.target import Target
from monolayer.model.apart import Apart


@dataclass(frozen=True, eq=False)
class Found:
    """A draw under which every cell has room for its steps, the readout, and the least gap in rounding errors."""

    draw: Draw
    readout: Apart
    margin: float | None
    tried: int

    @property
    def runs(self) -> int:
        """Runs of equal labels, cell by cell."""
        return self.readout.step_count + len(self.readout.gate)


@dataclass(frozen=True)
class Crowded:
    """`count` neighbours of one cell with different labels and no room for a step between them.

    `pair`: labelled places of the first, `errors` roundings apart; None: labels or codes are too large for the format.
    """

    count: int
    pair: tuple[int, int] | None
    errors: float


def separate_apart(tokens: Tokens, target: Target, seed: int) -> Found | None:
    """The first draw that serves; None if there is none, or the data are of another kind: ids, a class a token."""
    if target.per != "token" or target.classes is None or not tokens.alphabet.spaced:
        return None
    for tried, draw in enumerate(draws(tokens, "cells", DRAWS, seed), 1):
        found = cells(draw, tokens, target)
        if isinstance(found, Crowded):
            if found.pair is None or found.count > HOPELESS:
                return None
            continue
        return Found(draw, found[0], found[1], tried)
    return None


def cells(draw: Draw, tokens: Tokens, target: Target) -> tuple[Apart, float | None] | Crowded:
    """The readout and its margin; or which neighbours with different labels are too close."""
    code, c = codes_and_contexts(draw, tokens, target)
    order = np.lexsort((c, code))
    code, c, label = code[order], c[order], target.table[target.number[order], 0]
    same = code[1:] == code[:-1]
    change = np.flatnonzero(same & (label[1:] != label[:-1]))
    left, right = c[change], c[change + 1]
    error = draw.context_error(tokens) + draw.unit * np.maximum(np.abs(left), np.abs(right))
    room = (right - left) / error
    narrow = np.flatnonzero(~(room >= SLACK))  # a NaN is no gap either
    if len(narrow):
        worst = int(change[narrow[0]])
        return Crowded(len(narrow), (int(order[worst]), int(order[worst + 1])), float(room[narrow[0]]))
    slope, start = ramps(left, right)
    first = np.append(0, np.flatnonzero(~same) + 1)
    gate, base, jump = code[first], label[first], label[change + 1] - label[change]
    count = np.diff(np.append(np.searchsorted(change, first), len(change)))
    most = size_of_jumps(jump[None]) + float(base.sum()) + float(count.max())
    if most * draw.unit >= 1.0 or not (np.abs(gate) * 4.0 * draw.unit < 1.0).all():
        return Crowded(0, None, 0.0)  # sums of labels, or codes, would round
    parts = slope, -slope * start, jump[None], np.zeros(1), gate, base, count.astype(np.float64)
    return Apart(*(torch.from_numpy(_contiguous(part)) for part in parts)), float(room.min()) if len(room) else None


def _contiguous(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ascontiguousarray(values)
