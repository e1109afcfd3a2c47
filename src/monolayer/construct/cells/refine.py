"""How many cells an error needs: the fewest by the modulus or, without one, by samples that are refined.

Off the ramps the model answers `f(centre of the cells)`, so its error at a point can be looked up before anything is
built. Samples are uniform points, and points in corners of cells, where the error is largest for functions that are
nearly linear on a cell. They may miss what is narrow, so a choice is tried on the fresh points on which the finished
model is measured; a point that misses the error there joins the samples, and the search goes on with more cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Floats
from monolayer.construct.cells.accuracy import POINTS, Modulus, bound, fresh_points
from monolayer.construct.cells.function import Function, show
from monolayer.construct.cells.grid import Lattice
from monolayer.construct.cells.size import smaller
from monolayer.errors import DataError

SAMPLES = 4096
"""Points of either kind, uniform and in corners, on which an error is estimated."""
KEPT = 16
"""Fresh points that join the samples when they miss the error, the worst of them."""
HALVINGS = 64
"""Enough that two floats of one size become neighbours."""


@dataclass(frozen=True, eq=False)
class Errors:
    """`|f(X) − f(centre)|` `(B,)` at points `X` `(B, n, d)` off the ramps, with the centres of their cells."""

    X: Floats
    centre: Floats
    error: Floats

    @classmethod
    def at(cls, f: Function, lattice: Lattice, X: Floats) -> Errors:
        """The errors at `X`, less the points on ramps."""
        X = X[~lattice.on_ramp(X)]
        centre = lattice.rounded(X)
        return cls(X, centre, np.abs(f(X) - f(centre)).max(axis=(1, 2)))

    @classmethod
    def sampled(cls, f: Function, lattice: Lattice, seed: int, hard: Floats | None = None) -> Errors:
        """The errors on samples, and on the points of `hard` besides."""
        random = np.random.default_rng([seed, 20])
        X = [f.box.uniform(SAMPLES, random), lattice.corners(SAMPLES, random)]
        return cls.at(f, lattice, np.concatenate(X if hard is None else [*X, hard]))

    @property
    def worst(self) -> float:
        return float(self.error.max(initial=0.0))

    def largest(self, count: int) -> Errors:
        """Those with the largest errors, the largest first."""
        best = np.argsort(-self.error, kind="stable")[:count]
        return Errors(self.X[best], self.centre[best], self.error[best])

    def words(self, f: Function) -> str:
        """Where the error is largest, for a message."""
        worst = self.largest(1)
        return (
            f"at {show(worst.X[0])} the function is {show(f(worst.X)[0])}, and at the centre of that cell, "
            f"{show(worst.centre[0])}, it is {show(f(worst.centre)[0])}"
        )


def check_modulus(f: Function, lattice: Lattice, modulus: Modulus, seed: int) -> None:
    """A modulus that samples contradict would guarantee an error that does not hold."""
    found, most = Errors.sampled(f, lattice, seed), bound(modulus, lattice)
    if found.worst > most + 2.0**12 * f.rounding * float(np.abs(f(found.largest(1).X)).max()):
        raise DataError(
            f"lipschitz= does not hold: it allows a change of {most:.3g} within a cell, and the function changes by "
            f"{found.worst:.3g}: {found.words(f)}. Give a larger constant, or none"
        )


def cells_for(f: Function, error: float, modulus: Modulus | None, ramp: float, most: int, seed: int) -> int:
    """The fewest cells per coordinate, at most `most`, whose error is at most `error`; or a refusal that says where.

    By samples, 'fewest' is what they say: the search takes for granted that the error falls with the cells.
    """
    if modulus is not None:
        cells = _search(1, most, lambda cells: bound(modulus, Lattice.of(f.box, cells, ramp)) <= error)
        if cells is None:
            least = bound(modulus, Lattice.of(f.box, most, ramp))
            raise _out_of_reach(f, error, least, most, "by the modulus of continuity")
        return cells
    hard = np.empty((0, f.box.length, f.box.dim))
    last = 0
    while last < most:

        def sampled(cells: int, hard: Floats = hard) -> Errors:
            return Errors.sampled(f, Lattice.of(f.box, cells, ramp), seed, hard)

        cells = _search(last + 1, most, lambda cells: _holds(f, sampled(cells), error))
        if cells is None:
            found = sampled(most)
            raise _out_of_reach(f, error, found.worst, most, found.words(f))
        lattice = Lattice.of(f.box, cells, ramp)
        missed = Errors.at(f, lattice, fresh_points(lattice, POINTS, seed=1)).largest(KEPT)
        if _holds(f, missed, error):
            return cells
        hard, last = np.concatenate([hard, missed.X]), cells
    raise _out_of_reach(f, error, missed.worst, most, missed.words(f))


def _search(least: int, most: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest number from `least` on that holds, if those above hold too: doubling, then halving. None: none."""
    low, high = least - 1, least
    while not holds(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _holds(f: Function, found: Errors, error: float) -> bool:
    """Whether no error is larger; if one is because the function jumps there, no number of cells will help."""
    if found.worst <= error:
        return True
    _check_jump(f, found.largest(4), error)
    return False


def _check_jump(f: Function, found: Errors, error: float) -> None:
    """Halve the way from each point to its centre, towards the larger change, until the change is within `error`.

    A continuous function comes to that. One that has not when the ends are neighbouring floats has a jump there.
    """
    one, two = found.X, found.centre
    for _ in range(HALVINGS):
        middle = one + (two - one) / 2.0
        ends = np.abs(f(one) - f(middle)).max(axis=(1, 2)), np.abs(f(two) - f(middle)).max(axis=(1, 2))
        nearer = (ends[0] >= ends[1])[:, None, None]
        one, two = np.where(nearer, one, middle), np.where(nearer, middle, two)
        left = np.maximum(*ends) > error
        if not left.any():
            return
        one, two = one[left], two[left]
    raise DataError(
        f"f is not continuous: between {show(one[0])} and a point {float(np.abs(one[0] - two[0]).max()):.1g} away it "
        f"jumps from {show(f(one[:1])[0])} to {show(f(two[:1])[0])}. No grid comes within error={error:g} of a jump; "
        "with cells= the model is close in the mean only"
    )


def _out_of_reach(f: Function, error: float, least: float, most: int, where: str) -> DataError:
    return DataError(
        f"an error of {error:g} is out of reach: with {most} cells per coordinate, the most that fit "
        f"({f.box.knots(most):,} knots), it is {least:.3g}: {where}. {smaller(f.box)}"
    )
