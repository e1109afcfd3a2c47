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
from monolayer.table import plural

BUILT_SHAPES = {True: ((1, 2), (1, 3), (2, 2)), False: ((1, 2), (2, 2), (1, 3), (1, 4))}
"""By whether a first block is allowed, coordinates and tokens that are built without positions."""
OTHERS_ERROR = {2: 0.0, 3: 2.0**-13}
"""`ε`, by the number of tokens, without positions; with them it is 0. For n = 3: piecewise linear square and root."""
HEADS_ERROR = {2: 0.0, 3: 2.0**-21, 4: 2.0**-11}
"""`ε` without a first block: over the reals it is 0, and this is what rounding may make of it (Lemma H)."""


def uniform(
    function: Function,
    cells: int | None,
    error: float | None,
    modulus: Modulus | None,
    most_knots: int,
    device: torch.device | str | None,
    first_block: bool = True,
) -> Uniform:
    """Build the network for `function` in the maximum norm; an error if its shape or size is out of reach.

    Give `cells` per coordinate, or `error`, which needs a `modulus` of continuity. `most_knots`: the largest grid.
    `first_block`: whether the network may have one.
    """
    box = function.box
    dim, length = box.dim, box.length
    _check_shape(box, first_block)
    fits = smallest(1, lambda cells: _knot_count(box, cells) > most_knots) - 1
    others = 0.0 if box.positions else (OTHERS_ERROR if first_block else HEADS_ERROR)[length]
    cells = _fewest(error, modulus, box, fits, others) if cells is None else int(cells)
    knots = _knot_count(box, cells)
    if knots > most_knots:
        raise DataError(
            f"{plural(cells, 'cell')} per coordinate: {'n ' * box.positions}(D + 1)^{dim * length} = {knots:,} knots; "
            f"{most_knots:,} are the limit: room for {plural(fits, 'cell')}"
        )
    values = _knot_values(function, cells)
    interpolation = Interpolation(torch.from_numpy(values), cells, dim * length)
    bound = None if modulus is None else _bound(modulus, box, cells, others)
    has_block = box.positions or (first_block and length > 2)  # two tokens without positions need none
    model = Uniform(interpolation, dim, length, box.low, box.high, bound, box.positions, has_block)
    model.scalar = function.scalar
    if has_block and not box.positions:
        unit, side = (torch.arange(count + 1, dtype=torch.float64) / count for count in (2**13, 2**11))
        model.square, model.total = Bends(unit, unit**2), Bends(2.0 * unit, (2.0 * unit) ** 2)
        model.root = Bends(side**2, side)
    if bound is not None:
        _check_bound(model, function, bound)
    return model if device is None else model.to(device)


def _check_shape(box: Box, first_block: bool) -> None:
    """Refuse coordinates and tokens that are not built."""
    dim, length = box.dim, box.length
    if not first_block and box.positions:
        raise DataError("positions are written by the first block: drop first_block=False, or positions=True")
    if length >= 2 and (box.positions or (dim, length) in BUILT_SHAPES[first_block]):
        return
    shapes, ways = ", ".join(map(str, BUILT_SHAPES[first_block])), " without a first block"
    if first_block:
        ways = ", with first_block=False also for (1, 4), and with positions=True for any two tokens or more"
    raise DataError(
        f'norm="sup" is built for (dim, length) = {shapes}{ways}; not for ({dim}, {length})'
        f"{' with positions' * box.positions}"
    )


def _check_bound(model: Uniform, function: Function, bound: float) -> None:
    """Refuse a modulus that samples contradict: it would guarantee an error that does not hold."""
    measured = measure_error(model, function, 2_000)
    if measured.sup > bound + 2.0**12 * function.rounding * float(model.interpolation.values.detach().abs().max()):
        raise DataError(
            f"lipschitz= does not hold: with it the error is at most {bound:.3g} everywhere, and {measured.sup:.3g} is "
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


def _bound(modulus: Modulus, box: Box, cells: int, others: float) -> float:
    """`ω(W/D) + ω(Wε)`, with `ε` = `others`."""
    width = box.high - box.low
    return float(modulus(width / cells)) + (float(modulus(width * others)) if others else 0.0)


def _fewest(error: float | None, modulus: Modulus | None, box: Box, most: int, others: float) -> int:
    """The fewest cells, at most `most`, whose bound is at most `error`, if the others are found within `others`."""
    if modulus is None or error is None:
        raise DataError(
            'norm="sup" with error= needs lipschitz=, from which the error everywhere follows; or give cells='
        )
    cells = smallest(1, lambda cells: cells >= most or _bound(modulus, box, cells, others) <= error)
    if cells > most or _bound(modulus, box, cells, others) > error:
        least = f"guarantee {_bound(modulus, box, most, others):g}" if most else "are too few for one"
        raise DataError(
            f"an error of {error:g} everywhere is out of reach: {plural(most, 'cell')} per coordinate, the most that "
            f"fit ({_knot_count(box, most):,} knots), {least}"
        )
    return cells
