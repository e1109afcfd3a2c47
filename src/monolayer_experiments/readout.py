"""A readout constructed on the features of any attention, in the way of the proof.

A random direction `w` makes one number `z = wᵀa` of every token, the numbers are sorted, and a staircase returns the
label of each. It is read at `z` computed anew, the same number but for rounding.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.model.staircase import Staircase, Steps
from monolayer_experiments.experiment import Results

DIRECTIONS = 4
"""Random directions that are measured; the one with the widest gap is kept, as in the construction."""


def construct_readout(features: Floats, again: Floats, Y: Ints, seed: int) -> Results:
    """Sort `wᵀa`, build the staircase, and read it at `wᵀa` computed `again`."""
    began = time.perf_counter()
    label = Y.ravel()
    best: tuple[float, Floats, Ints] | None = None
    for direction in np.random.default_rng(seed).standard_normal((DIRECTIONS, features.shape[-1])):
        z = (features @ direction).ravel()
        order = np.argsort(z)
        change = np.flatnonzero(np.diff(label[order]))
        gap = float(np.diff(z[order])[change].min()) / float(np.ptp(z))
        if best is None or gap > best[0]:
            best = gap, direction, order
    assert best is not None  # there is a direction
    gap, direction, order = best
    z = (features @ direction).ravel()
    readout = _staircase(z[order], label[order])
    seconds = time.perf_counter() - began
    anew = (again @ direction).ravel()
    answer = readout(torch.from_numpy(anew)).numpy()[:, 0].round()
    moved = float(np.abs(anew - z).max() / np.ptp(z))
    accuracy = float((answer == label).mean())
    return {"accuracy": accuracy, "seconds": seconds, "margin": gap / moved if moved else None}


def _staircase(z: Floats, label: Ints) -> Steps:
    """The exact readout of sorted numbers: a ramp of at most a quarter of the gap wherever the label changes."""
    # Equal numbers with different labels cannot be told apart: no ramp fits between them, and one label is lost.
    change = np.flatnonzero((np.diff(label) != 0) & (np.diff(z) > 0.0))
    gap = z[change + 1] - z[change]
    width = np.exp2(np.frexp(gap)[1] - 3.0)
    level = label[np.append(change, len(label) - 1)].astype(np.float64)
    parts = (1.0 / width, z[change] + (gap - width) / 2.0, np.diff(level)[None], level[:1], level[-1:])
    slope, start, jump, first, last = map(torch.from_numpy, parts)
    steps = Staircase.from_steps(slope, start, jump, first, last, "exact").steps()
    assert steps is not None  # weights that were just built are a staircase
    return steps
