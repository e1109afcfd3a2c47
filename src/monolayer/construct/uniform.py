"""Functions approximated in the maximum norm: value rank (n − 1)d, and no ramps (docs/uniform.md).

Coordinates are scaled to `[0, 1]`, letters as in `model/uniform.py`. The error is at most `ω(W/D) + ω(W ε)`: the
readout interpolates between knots within `1/D` of `(x, ŷ)`, and the tokens `ŷ` that it finds are within `ε` of the
others.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from monolayer.arrays import Floats
from monolayer.construct.cells.function import Function
from monolayer.construct.cells.grid import Box, smallest
from monolayer.construct.cells.refine import Modulus, measure_error
from monolayer.errors import DataError
from monolayer.model.uniform import Bends, Interpolation, Uniform

BUILT_SHAPES = ((1, 2), (1, 3), (2, 2))
"""Coordinates and tokens that are built without positions."""
OTHERS_ERROR = {2: 0.0, 3: 2.0**-13}
"""`ε`, by the number of tokens, without positions; with them it is 0. For n = 3: piecewise linear square and root."""


def uniform(
    function: Function,
    cells: int | None,
    error: float | None,
    modulus: Modulus | None,
    most_knots: int,
    device: torch.device | str | None,
) -> Uniform:
    """Build the network for `function` in the maximum norm; an error if its shape or size is out of reach.

    Give `cells` per coordinate, or `error`, which needs a `modulus` of continuity. `most_knots`: the largest grid.
    """
    box = function.box
    dim, length = box.dim, box.length
    if length < 2 or ((dim, length) not in BUILT_SHAPES and not box.positions):
        raise DataError(
            f'norm="sup" is built for (dim, length) = {", ".join(map(str, BUILT_SHAPES))}, and with positions=True for '
            f"any two tokens or more; not for ({dim}, {length}){' with positions' * box.positions}"
        )
    fits = smallest(1, lambda cells: _knot_count(box, cells) > most_knots) - 1
    cells = _fewest(error, modulus, box, fits) if cells is None else int(cells)
    knots = _knot_count(box, cells)
    if knots > most_knots:
        raise DataError(
            f"{cells:,} cells per coordinate make {'n ' * box.positions}(D + 1)^{dim * length} = {knots:,} knots; "
            f"{most_knots:,} are the limit: at most {fits:,} cells fit"
        )
    values = _knot_values(function, cells)
    interpolation = Interpolation(torch.from_numpy(values), cells, dim * length)
    bound = None if modulus is None else _bound(modulus, box, cells)
    model = Uniform(interpolation, dim, length, box.low, box.high, bound, box.positions)
    model.scalar = function.scalar
    if length == 3 and not box.positions:
        unit, side = (torch.arange(count + 1, dtype=torch.float64) / count for count in (2**13, 2**11))
        model.square, model.total = Bends(unit, unit**2), Bends(2.0 * unit, (2.0 * unit) ** 2)
        model.root = Bends(side**2, side)
    if bound is not None:
        _check_bound(model, function, bound)
    return model if device is None else model.to(device)


def _check_bound(model: Uniform, function: Function, bound: float) -> None:
    """Refuse a modulus that samples contradict: it would guarantee an error that does not hold."""
    found = measure_error(model, function, 2_000)
    if found.sup > bound + 2.0**12 * function.rounding * float(model.interpolation.values.detach().abs().max()):
        raise DataError(
            f"lipschitz= does not hold: with it the error is at most {bound:.3g} everywhere, and {found.sup:.3g} is "
            "measured. Give a larger constant, or cells= without one"
        )


def _knot_values(function: Function, cells: int) -> Floats:
    """`f` at token 0 of every sequence of grid points, `((D + 1)^{nd}, m)`; with positions at all tokens, by place."""
    box = function.box
    axis = np.linspace(box.low, box.high, cells + 1)
    shape = (cells + 1,) * (box.dim * box.length)
    count, places = math.prod(shape), box.length if box.positions else 1
    values = np.empty((places, count, function.out_dim))
    for start in range(0, count, function.batch):
        knots = np.unravel_index(np.arange(start, min(start + function.batch, count)), shape)
        X = axis[np.stack(knots, axis=1)].reshape(-1, box.length, box.dim)
        values[:, start : start + len(X)] = np.moveaxis(function(X)[:, :places], 1, 0)
    return values.reshape(places * count, -1)


def _knot_count(box: Box, cells: int) -> int:
    return (box.length if box.positions else 1) * math.prod([cells + 1] * (box.dim * box.length))


def _bound(modulus: Modulus, box: Box, cells: int) -> float:
    width, others = box.high - box.low, 0.0 if box.positions else OTHERS_ERROR[box.length]
    return float(modulus(width / cells)) + (float(modulus(width * others)) if others else 0.0)


def _fewest(error: float | None, modulus: Modulus | None, box: Box, most: int) -> int:
    """The fewest cells, at most `most`, whose bound is at most `error`."""
    if modulus is None or error is None:
        raise DataError(
            'norm="sup" with error= needs lipschitz=, from which the error everywhere follows; or give cells='
        )
    cells = smallest(1, lambda cells: cells >= most or _bound(modulus, box, cells) <= error)
    if cells > most or _bound(modulus, box, cells) > error:
        least = f"guarantee {_bound(modulus, box, most):g}" if most else "are too few for one"
        raise DataError(
            f"an error of {error:g} everywhere is out of reach: {most:,} cells per coordinate, the most that fit "
            f"({_knot_count(box, most):,} knots), {least}"
        )
    return cells
