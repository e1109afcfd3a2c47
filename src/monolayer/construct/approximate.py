"""From a function to a one-layer, rank-1 Transformer close to it: universal approximation as a working tool.

`approximate` reads like the proof (docs/approximation.md): a feed-forward block rounds every token to a cell of a
grid; one softmax head with rank-1 weights turns the multiset of cells into one number (Theorem A); a staircase
stores the value of the function at the centres. After the first block this is the memorizer, with cells as ids.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import torch

from monolayer.arrays import Bools, Floats, Ints
from monolayer.bar import reporting, shows_progress
from monolayer.construct.cells.function import BatchFunction, Function, check_equivariance
from monolayer.construct.cells.grid import MOST_KNOTS, Box, Lattice, afford, all_rows, first_in_row, multisets
from monolayer.construct.cells.refine import Errors, Modulus, bound, cells_for, check_modulus, measure_error, modulus_of
from monolayer.construct.line.alphabet import GridCells
from monolayer.construct.line.assemble import assemble, copying_lift, staircase
from monolayer.construct.line.draw import averaging, check_seed, check_temperature
from monolayer.construct.line.points import SLACK, ramps_at
from monolayer.construct.line.separate import DRAWS, Separated, separate
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.target import Target
from monolayer.construct.uniform import uniform
from monolayer.data.labelling import TOKEN
from monolayer.data.model_kinds import APPROXIMATOR
from monolayer.errors import DataError, PrecisionError
from monolayer.model.attention import CODE, KEY
from monolayer.model.card import Card, Grid, Summary
from monolayer.model.cascade import Cascade
from monolayer.model.device import check_device
from monolayer.model.monolayer import Monolayer
from monolayer.model.quantizer import Quantizer
from monolayer.model.torch_settings import own_settings
from monolayer.model.uniform import Uniform
from monolayer.table import Progress, counting

RAMP = 2.0**-20
"""Width of a ramp as a share of a cell: at most one point in a million lies on a ramp of a given coordinate."""


@overload
def approximate(f: object, dim: int, length: int, *, norm: Literal["sup"], **options: object) -> Uniform: ...
@overload
def approximate(
    f: object, dim: int, length: int, *, norm: Literal["mean"] = "mean", **options: object
) -> Monolayer: ...
@shows_progress  # type: ignore[misc]  # the options stand below, once
@own_settings()
def approximate(
    f: BatchFunction,
    dim: int,
    length: int,
    *,
    cells: int | None = None,
    error: float | None = None,
    norm: Literal["mean", "sup"] = "mean",
    first_block: bool = True,
    domain: tuple[float, float] = (0.0, 1.0),
    positions: bool = False,
    lipschitz: float | Modulus | None = None,
    ramp: float = RAMP,
    most_knots: int = MOST_KNOTS,
    temperature: float | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | bool | None = None,
) -> Monolayer | Uniform:
    """Build a `Monolayer` within `error` of `f`, except on narrow ramps: at most `d n` millionths of the domain.

    - `f`: the function, from batches `(B, n, d)` to `(B, n, m)` or `(B, n)`, NumPy or PyTorch. It must be permutation
      equivariant, unless `positions=True`.
    - `dim`, `length`: `d`, numbers per token, and `n`, tokens per sequence.
    - `cells`: `D`, the number of cells per coordinate; or give `error` instead.
    - `error`: the largest error allowed; the cells are chosen for it. With `lipschitz` it is guaranteed, without it the
      grid is refined until the error holds on samples.
    - `norm`: `mean`, or `sup`, which builds a `Uniform` with value rank (n − 1)d and no ramps, whose error holds
      everywhere (docs/uniform.md): for two or three tokens of one number, and two of two; with `positions` for any.
    - `first_block`: False, with norm `sup`, builds a network whose attention sees the tokens themselves, with n − 1
      heads of rank 1 for two, three or four tokens of one number (docs/first-block.md).
    - `domain`: the range of every coordinate. Input outside of it is answered as the nearest cell at its edge.
    - `positions`: True makes the order of tokens matter.
    - `lipschitz`: a Lipschitz constant of `f` in the sup norm, or a modulus of continuity `h → ω(h)`.
    - `ramp`: width of the ramps as a share of a cell.
    - `most_knots`: the largest grid that is built.
    - `temperature`: the λ of the head, 0 for the mean; None: chosen by trial.
    - `seed`: on one platform the same seed gives the same bits.
    - `device`: where `f` is called with tensors, and where the model goes.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    Example:

        >>> model = ml.approximate(lambda X: X - X.mean(axis=1, keepdims=True), dim=1, length=2, cells=4)
        >>> print(model.predict([[[0.1], [0.9]]])[0].ravel().round(3))  # near f(0.125, 0.875), the centres of two cells
        [-0.375  0.375]
    """
    report = reporting(progress)
    report("trying the function", 0.0)
    wanted = Wanted(cells, error, modulus_of(lipschitz), ramp, most_knots, norm, first_block, temperature, seed)
    check_device(device)
    function = Function(f, Box.of(dim, length, domain, positions), None, device)
    if not positions:
        check_equivariance(function, seed)
    if norm == "sup":
        return uniform(function, cells, error, wanted.modulus, most_knots, device, first_block)

    report("choosing cells", 0.05)
    lattice = _lattice(function, wanted)
    report("evaluating the function at every centre", 0.1)
    tokens, target = _task(function, lattice, temperature, report)
    report("separating multisets of cells", 0.5)
    separated = separate(tokens, target, None, seed, measured=False)
    if not separated.apart:
        raise _collision(separated, lattice)
    report("building the staircase", 0.8)
    model = _model(function, lattice, separated, target, wanted)
    model.card = model.card.with_summary(_summary(model, tokens, target, lattice, separated))
    if error is not None:
        report("measuring the error", 0.9)
        _check_error(model, f, error)
    report("done", 1.0)
    return model if device is None else model.to(device)


@dataclass(frozen=True)
class Wanted:
    """What a caller wants of an approximator, checked once: either `cells` per coordinate or the `error` allowed."""

    cells: int | None
    error: float | None
    modulus: Modulus | None
    ramp: float
    most_knots: int
    norm: str
    first_block: bool
    temperature: float | None
    seed: int

    def __post_init__(self) -> None:
        _check_choices(self.cells, self.error, self.ramp)
        check_seed(self.seed)
        check_temperature(self.temperature)
        if self.norm not in ("mean", "sup"):
            raise DataError(f"norm must be 'mean' or 'sup', not {self.norm!r}")
        if not self.first_block and self.norm != "sup":
            raise DataError(
                'first_block=False needs norm="sup": with norm="mean" the first block rounds tokens to cells'
            )


def _lattice(function: Function, wanted: Wanted) -> Lattice:
    """The grid that is asked for, or the coarsest that meets the error; a modulus that `f` breaks is an error."""
    box, cells, modulus = function.box, wanted.cells, wanted.modulus
    if cells is None:
        assert wanted.error is not None  # one of the two is given
        afford(box, 1, wanted.most_knots)
        cells = cells_for(function, wanted.error, modulus, wanted.ramp, box.most_cells(wanted.most_knots), wanted.seed)
    afford(box, int(cells), wanted.most_knots)
    lattice = Lattice.of(box, int(cells), wanted.ramp)
    if modulus is not None:
        check_modulus(function, lattice, modulus, wanted.seed)
    return lattice


def _task(function: Function, lattice: Lattice, temperature: float | None, report: Progress) -> tuple[Tokens, Target]:
    """What the memorizer behind the first block must hold: multisets of cells, and `f` at their centres."""
    box = lattice.box
    rows, first = _cell_sequences(lattice)
    table = _centre_values(function, lattice, rows, first, report)
    place = None if first is None else np.flatnonzero(first.reshape(-1))
    target = Target(np.arange(len(table)), table, TOKEN.name, None, function.scalar, place, by_value=True)
    position = np.tile(np.arange(box.length), len(rows)) if box.positions else None
    alphabet = GridCells(box.dim, lattice.cells)
    lengths = np.full(len(rows), box.length)
    return Tokens(rows.reshape(-1), lengths, alphabet, position, False, temperature), target


def _model(function: Function, lattice: Lattice, separated: Separated, target: Target, wanted: Wanted) -> Monolayer:
    """The network: a quantizer that rounds tokens to cells, the head that tells multisets apart, the staircase."""
    box, modulus, runs = lattice.box, wanted.modulus, separated.runs
    feed_forward = Cascade([staircase(*ramps_at(separated.points.z, runs.changes), runs.level, False)])
    (codes,) = separated.draw.proposal.lift
    quantizer = Quantizer.from_steps(1.0 / lattice.width, torch.from_numpy(lattice.start), torch.from_numpy(codes))
    grid = Grid(
        dim=box.dim,
        length=box.length,
        cells=lattice.cells,
        low=box.low,
        high=box.high,
        ramp=lattice.width,
        error=Errors.sampled(function, lattice, wanted.seed).worst if modulus is None else bound(modulus, lattice),
        guaranteed=modulus is not None,
        spread=float(np.ptp(runs.level, axis=1).max()),
    )
    card = Card(None, None, TOKEN.name, function.scalar, kind=APPROXIMATOR.name, grid=grid)
    lift = copying_lift(box.dim, target.table.shape[1])
    bos = torch.zeros(
        lift.out_features, dtype=torch.float64
    )  # the lowest corner, minus what the quantizer will add there
    bos[KEY : CODE + 1] = -torch.from_numpy(codes[:, :, 0].sum(1))
    bos[-box.dim :] = box.low
    return assemble(separated.draw, separated.points.kappa, lift, feed_forward, card, bos=bos, quantizer=quantizer)


def _summary(model: Monolayer, tokens: Tokens, target: Target, lattice: Lattice, separated: Separated) -> Summary:
    """The summary of an approximator."""
    return Summary.of(
        model.counts(),
        sequences=len(tokens.lengths),
        labelled=len(target.table),
        vocabulary=tokens.alphabet.size,
        dim=lattice.box.dim,
        labels=target.table.shape[1],
        entropy=None,
        **separated.measure(),
    )


def _cell_sequences(lattice: Lattice) -> tuple[Ints, Bools | None]:
    """Sequences of cells `(S, n)`, and which of their tokens must be labelled `(S, n)`, or None: all.

    Without positions equal cells in a sequence are one point, so only the first of them is labelled.
    """
    V, n = lattice.cells**lattice.box.dim, lattice.box.length
    if lattice.box.positions:
        return all_rows(V, n), None
    rows = multisets(V, n)
    return rows, first_in_row(rows)


def _centre_values(function: Function, lattice: Lattice, rows: Ints, first: Bools | None, report: Progress) -> Floats:
    """`f` at the centres, for every labelled token `(P, m)`; block by block, so that repeats take no memory."""
    centre, done = lattice.tokens(), 0
    counted = counting(report, "evaluating the function", "centre", 0.1, 0.5)
    values = np.empty((function.out_dim, lattice.box.knots(lattice.cells)))
    for start in range(0, len(rows), function.batch):
        block = slice(start, start + function.batch)
        answer = function(centre.take(rows[block], axis=0)).reshape(-1, len(values))
        labelled = np.arange(len(answer)) if first is None else np.flatnonzero(first[block])
        values[:, done : done + len(labelled)] = answer.take(labelled, axis=0).T
        done += len(labelled)
        counted(min(block.stop, len(rows)), len(rows))
    return values.T


def _collision(separated: Separated, lattice: Lattice) -> PrecisionError:
    """The error for a grid that float64 with rank 1 cannot hold."""
    return PrecisionError(
        f"{len(separated.margin.close):,} of {len(separated.points.z):,} neighbouring points fell closer together than "
        f"{SLACK:g} rounding errors in every one of {2 * DRAWS} draws: rank 1 in float64 does not hold so many. Use "
        f"fewer than {lattice.cells} cells per coordinate, or try another seed if few collide"
        f"{averaging(separated.draw.temperature)}"
    )


def _check_error(model: Monolayer, f: BatchFunction, error: float) -> None:
    """Refuse a finished model that misses `error` on fresh points. It differs from the plan only by rounding."""
    measured = measure_error(model, f)
    if measured.sup > error * (1.0 + 2.0**-20):
        raise PrecisionError(
            f"the model was built for an error of {error:g}, and {measured.sup:.6g} is measured: float64 does not hold "
            "the values of this function closely enough. Ask for a larger error"
        )


# -- arguments -------------------------------------------------------------------------------------------


def _check_choices(cells: object, error: object, ramp: float) -> None:
    if (cells is None) == (error is None):
        raise DataError(
            "give either cells, the number of cells per coordinate, or error, from which they are chosen"
            + ("" if cells is None else "; not both")
        )
    if cells is not None and (not isinstance(cells, int | np.integer) or isinstance(cells, bool) or cells < 1):
        raise DataError(f"cells must be a whole number from 1 on, not {cells!r}")
    if error is not None and not (isinstance(error, int | float | np.number) and math.isfinite(error) and error > 0):
        raise DataError(f"error must be a finite number above 0, not {error!r}: a grid has no error of 0 in general")
    if not 0.0 < ramp <= 0.5:
        raise DataError(f"ramp must be above 0 and at most 0.5 of a cell, not {ramp!r}")
