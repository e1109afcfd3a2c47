"""Linear cells: one neuron for each token and digit, where a token has no more facts than its contexts have dimensions.

A class is a number in base `L`. For every digit a cell has one neuron whose affine function of the context takes the
value of that digit, `1/2 + d` for `d = 0 … L − 1`, at each of its facts: `M_x` equations, solved with least norm, all
cells of a size at once. So a neuron is always on at its own token and holds a number per fact. Gates silence it
elsewhere as they do half-spaces (`neurons.py`). The logit of a class is `Σ 2 d h − d²` over its digits, largest at the
nearest.

Fewer neurons with larger `L`, and less noise: half a unit of a digit is what is left.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Ints
from monolayer.construct.robust.groups import Cells, at_once, one_thread_each
from monolayer.construct.robust.halfspaces import INTERCEPT, padded

BASES = (2, 4, 16, 256)
"""Bases `L` that are tried, from the most robust to the densest."""
COPIES = 4
"""Coordinates of the label that hold one digit: noise on several weights averages out."""
LIFT = 0.5
"""What digit 0 is written as: above 0, so that relu changes nothing."""
EXACT = 0.01
"""Largest error of a digit at a fact that is taken."""
REFINED = 2
"""Times that what is left of the equations is solved once more."""
RIDGE = 1e-9
"""Keeps equations apart that are equal up to rounding: repeated facts, which have one label."""


def digits(classes: int, base: int) -> NDArray[np.float64]:
    """Digits `(C, D)` of the class numbers, from the last to the first."""
    count = max(1, math.ceil(math.log(classes, base) - 1e-9)) if classes > 1 else 1
    return np.asarray((np.arange(classes)[:, None] // base ** np.arange(count)) % base, dtype=np.float64)


def class_codes(classes: int, base: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of the head `(C, COPIES · D)` and its bias `(C,)`, centred in the middle of the digits."""
    middle = digits(classes, base) - (base - 1) / 2.0
    return np.repeat(2.0 * middle, COPIES, axis=1), -COPIES * (middle**2).sum(axis=1)


def fits(cells: Cells) -> bool:
    """Whether no cell has more facts than there are equations to be had."""
    return len(cells.base) == 0 or int(np.diff(cells.start).max()) <= cells.feature.shape[1] + 1


def solve(cells: Cells, value: NDArray[np.float64]) -> tuple[Tensor, Tensor] | None:
    """Weights `(K, D, w)` and offsets `(K, D)` that give each point of a cell its `value` `(C, D)`; float64.

    None where the equations cannot be fulfilled: contexts of few different tokens do not fill all dimensions.
    """
    width, count = cells.feature.shape[1], value.shape[1]
    weight = torch.zeros(len(cells.base), count, width, dtype=torch.float64)
    offset = torch.zeros(len(cells.base), count, dtype=torch.float64)
    parts = _parts(cells)
    with one_thread_each(cells.feature) as pool:
        for part, (found, constant, residual) in zip(
            parts, pool.map(partial(_batch, cells, value), parts), strict=True
        ):
            weight[part], offset[part] = found, constant
            if not residual <= EXACT:
                return None
    return weight, offset


def _parts(cells: Cells) -> list[Ints]:
    """Cells that are padded to one size together, so many that a batch fits."""
    size = np.array([padded(rows) for rows in np.diff(cells.start).tolist()], dtype=np.int64)
    parts = []
    for rows in np.unique(size).tolist():
        alike, step = np.flatnonzero(size == rows), max(1, at_once(cells.feature) // (rows * cells.feature.shape[1]))
        parts += np.split(alike, range(step, len(alike), step))
    return parts


def _batch(cells: Cells, value: NDArray[np.float64], part: Ints) -> tuple[Tensor, Tensor, float]:
    """Cells padded to one number of facts: what comes out for one depends on it alone."""
    device = cells.feature.device
    place = cells.start[:-1][part][:, None] + np.arange(padded(int(np.diff(cells.start)[part[0]])))
    real = place < cells.start[1:][part][:, None]
    place = np.where(real, place, 0)
    there = torch.from_numpy(real).to(device)[..., None]
    Z = cells.feature[torch.from_numpy(place).to(device)]
    Z = torch.cat([Z, torch.full_like(Z[..., :1], INTERCEPT)], dim=2) * there
    target = torch.from_numpy(value[cells.label[place]]).to(device) * there
    digits = target.shape[2]
    if digits == 1:  # a product with one column has other bits alone than in a batch
        target = torch.cat([target, torch.zeros_like(target)], dim=2)
    w, residual = _least_norm(Z.double(), target, there)
    w = w.cpu()
    return w[:, :-1, :digits].transpose(1, 2), w[:, -1, :digits] * INTERCEPT, float(residual.max())


def _least_norm(Z: Tensor, target: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """`w` `(B, w, D)` with `Z w = target` and its largest errors `(B,)`; one factor, and what is left solved again."""
    # Rows of padding: 0 = 0, with a 1 on the diagonal.
    gram = Z @ Z.transpose(1, 2) + torch.diag_embed((~there[..., 0]).to(Z) + RIDGE * Z.shape[2])
    factor, failed = torch.linalg.cholesky_ex(gram)
    w, left = Z.new_zeros(len(Z), Z.shape[2], target.shape[2]), target
    for _ in range(REFINED):
        w += Z.transpose(1, 2) @ torch.cholesky_solve(left, factor)
        left = target - Z @ w
    return w, torch.where(failed == 0, left.abs().amax((1, 2)), torch.inf)
