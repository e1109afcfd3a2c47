"""How far an approximator is from its function: bounded by a modulus, estimated from samples, measured on the model.

Off the ramps the model answers `f(centre of the cells)`, and no coordinate is further than `h`, half a cell, from
its centre. So the error there is at most `ω(h)`, for any modulus `ω` with `|f(X) − f(Y)| ≤ ω(max |X − Y|)`. Without a
modulus, the same difference is looked up on sample points, half of them in corners of cells, where it is largest
for functions that are nearly linear on a cell: an estimate from below, never a guarantee.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monolayer.construct.cells.function import Function
from monolayer.construct.cells.grid import Box, Lattice
from monolayer.construct.cells.size import smaller
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer

Modulus = Callable[[float], float]
"""`ω(h)`: a bound on how much any output changes when no input changes by more than `h`."""

SAMPLES = 4096
"""Points of either kind, uniform and in corners, on which an error is estimated."""


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


def estimate(f: Function, lattice: Lattice, seed: int) -> float:
    """The largest `|f(X) − f(centre)|` on sample points."""
    random = np.random.default_rng([seed, 20])
    X = np.concatenate([f.box.uniform(SAMPLES, random), lattice.corners(SAMPLES, random)])
    return float(np.abs(f(X) - f(lattice.rounded(X))).max())


def fewest_cells(f: Function, error: float, modulus: Modulus | None, ramp: float, most: int, seed: int) -> int:
    """The smallest `D` whose bound, or without a modulus whose estimate, is at most `error`; doubling, then halving.

    With an estimate, 'smallest' is what the samples say: the search takes for granted that it falls with `D`.
    """

    def predicted(cells: int) -> float:
        lattice = Lattice.of(f.box, cells, ramp)
        return estimate(f, lattice, seed) if modulus is None else bound(modulus, lattice)

    low, high = 0, 1
    while (least := predicted(high)) > error:
        if high == most:
            word = (
                "on samples (if more cells do not help, f is not continuous)" if modulus is None else "by the modulus"
            )
            raise DataError(
                f"an error of {error:g} is out of reach: with {most} cells a coordinate, the most that fit "
                f"({f.box.knots(most):,} knots), it is {least:.3g} {word}. {smaller(f.box)}"
            )
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if predicted(middle) <= error else (middle, high)
    return high


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


def measure(model: Monolayer, f: Callable[..., object], points: int = 20_000, seed: int = 1) -> Measured:
    """The model against `f` on `points` fresh uniform points and as many corners of cells."""
    grid = model.card.grid
    if grid is None:
        raise DataError("only an approximator has a function to be measured against; this model is a memorizer")
    box = Box(grid.dim, grid.length, grid.low, grid.high, model.positions is not None)
    function = Function(f, box, len(model.feed_forward.bias_2), model.bos.device)
    lattice = Lattice.with_width(box, grid.cells, grid.ramp)
    random = np.random.default_rng([seed, 30])
    X = np.concatenate([box.uniform(points, random), lattice.corners(points, random)])
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
