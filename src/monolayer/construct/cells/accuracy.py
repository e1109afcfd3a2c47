"""How far an approximator is from its function: bounded by a modulus, and measured on the model.

Off the ramps the model answers `f(centre of the cells)`, and no coordinate is further than `h`, half a cell, from
its centre. So the error there is at most `ω(h)`, for any modulus `ω` with `|f(X) − f(Y)| ≤ ω(max |X − Y|)`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.construct.cells.function import Function
from monolayer.construct.cells.grid import Box, Lattice
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer

Modulus = Callable[[float], float]
"""`ω(h)`: a bound on how much any output changes when no input changes by more than `h`."""
POINTS = 20_000
"""Fresh points of either kind on which the error of a finished model is measured."""


def modulus_of(lipschitz: float | Modulus | None) -> Modulus | None:
    """A modulus of continuity from a Lipschitz constant in the sup norm, or from a function `h → ω(h)`."""
    if lipschitz is None or callable(lipschitz):
        return lipschitz
    if not (isinstance(lipschitz, int | float | np.number) and math.isfinite(lipschitz) and lipschitz >= 0):
        raise DataError(f"lipschitz must be a finite number from 0 on, or a function h -> ω(h), not {lipschitz!r}")
    constant = float(lipschitz)
    return lambda h: constant * h


def bound(modulus: Modulus, lattice: Lattice) -> float:
    """`ω(h)`; what is no number from 0 on is no modulus."""
    value = float(modulus(lattice.reach))
    if not value >= 0.0:
        raise DataError(f"the modulus of continuity gives ω({lattice.reach:g}) = {value}: it must be 0 or more")
    return value


# -- the finished model ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Errors of a model on fresh points off the ramps: the largest, and means over points, tokens and outputs."""

    points: int
    """Uniform points, as many again in corners of cells: means are over the former, the largest over both."""
    sup: float
    l1: float
    l2: float
    range: float
    """Largest minus smallest value of `f` on the points."""
    on_ramps: int
    """Points left out because a coordinate lay on a ramp."""
    seconds: float
    """Time that the model took to answer."""


def fresh_points(lattice: Lattice, points: int, seed: int) -> Floats:
    """`points` uniform sequences, then as many in corners of cells: what an error is measured on."""
    random = np.random.default_rng([seed, 30])
    return np.concatenate([lattice.box.uniform(points, random), lattice.corners(points, random)])


def measure(model: Monolayer, f: Callable[..., object], points: int = POINTS, seed: int = 1) -> Measured:
    """The model against `f` on `points` fresh uniform points and as many corners of cells."""
    grid = model.card.grid
    if grid is None:
        raise DataError("only an approximator has a function to be measured against; this model is a memorizer")
    box = Box(grid.dim, grid.length, grid.low, grid.high, model.positions is not None)
    function = Function(f, box, model.feed_forward.labels, model.bos.device)
    lattice = Lattice.with_width(box, grid.cells, grid.ramp)
    X = fresh_points(lattice, points, seed)
    began = time.perf_counter()
    answer = model.predict(X).reshape(*X.shape[:2], -1)
    seconds = time.perf_counter() - began
    wanted = function(X)
    error = np.abs(answer - wanted)
    off = ~model.on_ramp(X)
    inside = error[:points][off[:points]]
    return Measured(
        points=points,
        sup=float(error[off].max()),
        l1=float(inside.mean()),
        l2=float(np.sqrt(np.square(inside).mean())),
        range=float(np.ptp(wanted)),
        on_ramps=int((~off).sum()),
        seconds=seconds,
    )
