"""How far an approximator is from its function, and how many cells an error needs.

Off the ramps the model answers `f(centre of the cells)`, and no coordinate is further than `h`, half a cell, from its
centre. So the error there is at most `ω(h)`, for any modulus `ω` with `|f(X) − f(Y)| ≤ ω(max |X − Y|)`, and at a point
it can be looked up before anything is built.

Cells are the fewest by the modulus or, without one, by samples: uniform points, and points in corners of cells, where
the error is largest for functions that are nearly linear on a cell. They may miss what is narrow, so a choice is tried
on the fresh points on which the finished model is measured; a point that misses the error there joins the samples, and
the search goes on with more cells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from monolayer.arrays import Bools, Floats
from monolayer.construct.cells.function import BatchFunction, Function, shown
from monolayer.construct.cells.grid import Box, Lattice, smaller, smallest
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer
from monolayer.model.uniform import Uniform

Modulus = Callable[[float], float]
"""`ω(h)`: a bound on how much any output changes when no input changes by more than `h`."""
BISECTIONS = 64
"""Enough that two floats of one size become neighbours."""
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
    """The error bound `ω(h)` of a lattice; an error if the modulus does not give a number from 0 on."""
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
    seconds: float
    """Time that the model took to answer."""


def fresh_points(lattice: Lattice, points: int, seed: int) -> Floats:
    """`points` uniform sequences, then as many in corners of cells: what an error is measured on."""
    random = np.random.default_rng([seed, 30])
    return np.concatenate([lattice.box.uniform(points, random), lattice.corners(points, random)])


def measure_error(
    model: Monolayer | Uniform, f: BatchFunction | Function, points: int = POINTS, seed: int = 1
) -> Measured:
    """The model against `f` on `points` fresh uniform points and as many hard ones, where errors are largest.

    Those are corners of cells; for the maximum norm, where there are none, equal tokens and knots.
    """
    function, X, off = TRIED[type(model)](model, f, points, seed)
    began = time.perf_counter()
    answer = model.predict(X).reshape(*X.shape[:2], -1)
    seconds = time.perf_counter() - began
    wanted = function(X)
    error = np.abs(answer - wanted)
    inside = error[:points][off[:points]]
    return Measured(
        points=points,
        sup=float(error[off].max()),
        l1=float(inside.mean()),
        l2=float(np.sqrt(np.square(inside).mean())),
        range=float(np.ptp(wanted)),
        seconds=seconds,
    )


Tried: TypeAlias = tuple[Function, Floats, Bools]
"""The function, the points `(B, n, d)` that a model is tried on, and which of them are off its ramps `(B,)`."""


def _tried_on_cells(model: Monolayer, f: BatchFunction | Function, points: int, seed: int) -> Tried:
    grid = model.card.grid
    if grid is None:
        raise DataError("only an approximator can be measured against a function; this model is a memorizer")
    box = Box(grid.dim, grid.length, grid.low, grid.high, model.positions is not None)
    X = fresh_points(Lattice.with_width(box, grid.cells, grid.ramp), points, seed)
    return Function(f, box, model.feed_forward.labels, model.bos.device), X, ~model.on_ramp(X)


def _tried_on_knots(model: Uniform, f: BatchFunction | Function, points: int, seed: int) -> Tried:
    box, knots = Box(model.dim, model.length, model.low, model.high, model.positions), model.interpolation
    X = _equal_and_knots(box, knots.cells, points, seed)
    return Function(f, box, knots.values.shape[1], knots.values.device), X, np.ones(len(X), dtype=bool)


TRIED: dict[type, Callable[[Any, BatchFunction | Function, int, int], Tried]] = {
    Monolayer: _tried_on_cells,
    Uniform: _tried_on_knots,
}
"""The points that each kind of model is tried on."""


def _equal_and_knots(box: Box, cells: int, points: int, seed: int) -> Floats:
    random = np.random.default_rng([seed, 31])
    X, hard = box.uniform(points, random), box.uniform(points, random)
    hard[::2, 0] = hard[::2, 1]
    share = (hard[1::4] - box.low) / (box.high - box.low)
    hard[1::4] = (box.low + np.round(share * cells) / cells * (box.high - box.low)).clip(box.low, box.high)
    return np.concatenate([X, hard])


SAMPLE_POINTS = 4096
"""Points of either kind, uniform and in corners, on which an error is estimated."""
MISSES_KEPT = 16
"""Fresh points that join the samples when they miss the error, the worst of them."""


@dataclass(frozen=True, eq=False)
class Errors:
    """`|f(X) − f(centre)|` `(B,)` at points `X` `(B, n, d)` off the ramps, with the centres of their cells."""

    X: Floats
    centre: Floats
    error: Floats

    @classmethod
    def at(cls, f: Function, lattice: Lattice, X: Floats) -> Errors:
        """The errors at the points `X` that lie off the ramps."""
        X = X[~lattice.on_ramp(X)]
        centre = lattice.rounded(X)
        return cls(X, centre, np.abs(f(X) - f(centre)).max(axis=(1, 2)))

    @classmethod
    def sampled(cls, f: Function, lattice: Lattice, seed: int, hard: Floats | None = None) -> Errors:
        """The errors on random samples, and on the points `hard` if they are given."""
        random = np.random.default_rng([seed, 20])
        X = [f.box.uniform(SAMPLE_POINTS, random), lattice.corners(SAMPLE_POINTS, random)]
        return cls.at(f, lattice, np.concatenate(X if hard is None else [*X, hard]))

    @property
    def worst(self) -> float:
        """The largest error; 0 if there are none."""
        return float(self.error.max(initial=0.0))

    def largest(self, count: int) -> Errors:
        """The `count` points with the largest errors, the largest first."""
        best = np.argsort(-self.error, kind="stable")[:count]
        return Errors(self.X[best], self.centre[best], self.error[best])

    def words(self, f: Function) -> str:
        """Where the error is largest, in words, for an error message."""
        worst = self.largest(1)
        return (
            f"at {shown(worst.X[0])} the function is {shown(f(worst.X)[0])}, and at the centre of that cell, "
            f"{shown(worst.centre[0])}, it is {shown(f(worst.centre)[0])}"
        )


def check_modulus(f: Function, lattice: Lattice, modulus: Modulus, seed: int) -> None:
    """Refuse a modulus that samples contradict: it would guarantee an error that does not hold."""
    errors, most = Errors.sampled(f, lattice, seed), bound(modulus, lattice)
    if errors.worst > most + 2.0**12 * f.rounding * float(np.abs(f(errors.largest(1).X)).max()):
        raise DataError(
            f"lipschitz= does not hold: it allows a change of {most:.3g} within a cell, and the function changes by "
            f"{errors.worst:.3g}: {errors.words(f)}. Give a larger constant, or none"
        )


def cells_for(f: Function, error: float, modulus: Modulus | None, ramp: float, most: int, seed: int) -> int:
    """The fewest cells per coordinate, at most `most`, whose error is at most `error`; or a refusal that says where.

    By samples, 'fewest' is what they say: the search takes for granted that the error falls with the cells.
    """
    if modulus is not None:
        cells = smallest(1, lambda cells: cells >= most or bound(modulus, Lattice.of(f.box, cells, ramp)) <= error)
        least = bound(modulus, Lattice.of(f.box, cells, ramp))
        if least > error:
            raise _out_of_reach(f, error, least, most, "by the modulus of continuity")
        return cells
    hard = np.empty((0, f.box.length, f.box.dim))
    last = 0
    while last < most:

        def sampled(cells: int, hard: Floats = hard) -> Errors:
            return Errors.sampled(f, Lattice.of(f.box, cells, ramp), seed, hard)

        cells = smallest(last + 1, lambda cells: _holds(f, sampled(cells), error) or cells >= most)
        errors = sampled(cells)
        if errors.worst > error:
            raise _out_of_reach(f, error, errors.worst, most, errors.words(f))
        lattice = Lattice.of(f.box, cells, ramp)
        missed = Errors.at(f, lattice, fresh_points(lattice, POINTS, seed=1)).largest(MISSES_KEPT)
        if _holds(f, missed, error):
            return cells
        hard, last = np.concatenate([hard, missed.X]), cells
    raise _out_of_reach(f, error, missed.worst, most, missed.words(f))


def _holds(f: Function, errors: Errors, error: float) -> bool:
    """Whether no error is larger. A refusal if one is because the function jumps there: no number of cells will help.

    The way from a point to its centre is halved, towards the larger change, until the change is within `error`. A
    continuous function comes to that. One that has not when the ends are neighbouring floats has a jump there.
    """
    left = errors.error > error
    one, two = errors.X[left], errors.centre[left]
    for _ in range(BISECTIONS):
        if not len(one):
            return not left.any()
        middle = one + (two - one) / 2.0
        ends = np.abs(f(one) - f(middle)).max(axis=(1, 2)), np.abs(f(two) - f(middle)).max(axis=(1, 2))
        nearer = (ends[0] >= ends[1])[:, None, None]
        one, two = np.where(nearer, one, middle), np.where(nearer, middle, two)
        far = np.maximum(*ends) > error
        one, two = one[far], two[far]
    raise DataError(
        f"f is not continuous: between {shown(one[0])} and a point {float(np.abs(one[0] - two[0]).max()):.1g} away it "
        f"jumps from {shown(f(one[:1])[0])} to {shown(f(two[:1])[0])}. No grid comes within error={error:g} of a jump; "
        "with cells= the model is close in the mean only"
    )


def _out_of_reach(f: Function, error: float, least: float, most: int, where: str) -> DataError:
    return DataError(
        f"an error of {error:g} is out of reach: with {most} cells per coordinate, the most that fit "
        f"({f.box.knots(most):,} knots), it is {least:.3g}: {where}. {smaller(f.box)}"
    )
