"""Proposition 1 as the paper has it, carried out in balls: FF ∘ SA ∘ FF for a function on [0, 1]^{n×d}.

Notation: `D` cells per coordinate, `V = D^d` cells, `P` points (cell, set of `n` different cells), `m` outputs.

1. The first block rounds each coordinate up to the grid 1/D, 2/D, …, 1: a sum of steps `relu(t) − relu(t − 1)`, each
   with a ramp of a share η of a cell.
2. Attention is the head of Theorem 2 on the grid, with its β: ε = 1/D, r_min = √d/D, r_max = √d, `V` tokens.
3. The second block is the readout of Corollary 1, with the values of f at the grid points as labels. One neuron more
   than Corollary 1 counts keeps it constant behind the last point, so every answer lies between 0 and stored values.

Theorem 2 says nothing about sequences with two tokens in one cell, so they are left out: a share of
`1 − V(V − 1)…(V − n + 1)/V^n`, which goes to 0 as D grows. There, and on ramps, the answer is whatever it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.theory.balls import precision
from monolayer.theory.bounds import corollary1_counts
from monolayer.theory.corollary import COROLLARY_MAX_BITS, Proof, Scale, Task, prove, task_of
from monolayer.theory.network import Point

RAMP = 2.0**-20
"""Share of a cell that a ramp of the first block takes, by default."""
MOST_POINTS = 1 << 14
"""Points (cell, set of cells) up to which the network is built."""


@dataclass(frozen=True)
class Proposition:
    """The paper's network for a function: what it takes, and what it leaves, in the mean square of the worst output.

    `points` are stored, in `neurons` = (first block, second block), `parameters` numbers of `bits` bits; δ asks for
    `delta_bits`. `left_out` is the share of sequences with two tokens in one cell. `bound` bounds the root mean square
    error (infinite without a Lipschitz constant), and `measured` is it on random sequences; `off_ramps` is the largest
    error that was seen where the theorem speaks, bounded by `lipschitz / cells`. Both are None if nothing was proved.
    """

    cells: int
    points: int
    neurons: tuple[int, int]
    parameters: int
    verdict: Literal["proved", "undecided"]
    reason: str
    bits: int
    delta_bits: int
    log10_beta: float
    left_out: float
    bound: float
    measured: float | None
    off_ramps: float | None


class Rounding:
    """The first block, for one coordinate: exact in rational arithmetic."""

    def __init__(self, cells: int, ramp: float) -> None:
        if not 0 < ramp <= 1:
            raise DataError(f"ramp is {ramp}: a ramp takes a share of a cell, above 0 and at most 1")
        self.grid = [t / cells for t in range(1, cells + 1)]
        self.borders = self.grid[:-1]
        self.slope = 2.0 ** math.ceil(math.log2(cells / ramp))
        """One over the width of a ramp, which begins at a border."""

    def __call__(self, x: Fraction) -> Fraction:
        """What the block makes of `x` in [0, 1]."""
        label = Fraction(self.grid[0])
        for border, (before, after) in zip(self.borders, itertools.pairwise(self.grid), strict=True):
            t = Fraction(self.slope) * (x - Fraction(border))
            label += (Fraction(after) - Fraction(before)) * (max(t, Fraction(0)) - max(t - 1, Fraction(0)))
        return label

    def cell(self, x: Floats) -> tuple[Ints, Bools]:
        """The cells of numbers in [0, 1], and whether each is on a ramp."""
        cell = np.searchsorted(self.borders, x, side="right")
        border = np.concatenate([[-np.inf], self.borders])[cell]
        return cell.astype(np.int64), x < border + 1 / self.slope


def proposition1(
    f: Callable[[Floats], Floats],
    dim: int = 1,
    length: int = 2,
    *,
    cells: int,
    scale: Scale = "paper",
    ramp: float = RAMP,
    lipschitz: float = math.inf,
    samples: int = 20_000,
    seed: int = 0,
    max_bits: int = COROLLARY_MAX_BITS,
) -> Proposition:
    """Build the paper's network for `f` on [0, 1], prove in balls that it stores `f` on the grid, measure its error.

    - `f`: permutation equivariant, from arrays `(B, n, d)` to `(B, n)` or `(B, n, m)`.
    - `scale`: which β the head has.
    - `lipschitz`: a constant of `f` in the maximum norm, for the bound.

    Example:

        >>> built = proposition1(lambda X: X.max(axis=1, keepdims=True) + 0 * X, cells=3, lipschitz=1.0)
        >>> print(built.verdict, built.points)
        proved 6
    """
    size = cells**dim
    if size < length:
        raise DataError(f"{size} cells hold no {length} different ones; give more cells")
    if length * math.comb(size, length) > MOST_POINTS:
        raise DataError(f"{length * math.comb(size, length):,} points are more than {MOST_POINTS:,}; give fewer cells")
    rounding = Rounding(cells, ramp)
    grid = np.array([*itertools.product(rounding.grid, repeat=dim)])
    sets = np.array([*itertools.combinations(range(size), length)])
    task = task_of(Sequences.of(grid[sets], _values(f, grid[sets])), scale, seed)
    proof = prove(task, max_bits=max_bits, closed=True)
    points, m = task.labels.shape
    distinct = math.perm(size, length) / size**length
    on_ramps = dim * length * (cells - 1) / rounding.slope
    # Answers lie between 0 and stored values, and f is within L/D of what it is on the grid, equal cells included.
    everywhere = np.array([*itertools.combinations_with_replacement(range(size), length)])
    reach = float(np.abs(task.labels).max()) + float(np.abs(_values(f, grid[everywhere])).max()) + lipschitz / cells
    measured = off_ramps = None
    if proof.network is not None:
        X = np.random.default_rng(seed).random((samples, length, dim))
        measured, off_ramps = _errors(_values(f, X), X, rounding, _answers(task, proof, everywhere, grid), task)
    first = dim * (2 * (cells - 1) + 1)
    return Proposition(
        cells=cells,
        points=points,
        neurons=(first, m * (points + 1)),
        parameters=3 * first + dim + corollary1_counts(points + 1, dim, m)[0],
        verdict="undecided" if proof.network is None else "proved",
        reason=proof.reason,
        bits=proof.bits,
        delta_bits=task.constants.bits or 0,
        log10_beta=task.constants.log10_beta,
        left_out=1 - distinct,
        bound=math.sqrt((lipschitz / cells) ** 2 + (1 - distinct + on_ramps) * reach**2),
        measured=measured,
        off_ramps=off_ramps,
    )


Answers = dict[tuple[int, tuple[int, ...]], Floats]
"""What the network answers, `(m,)`, for a token and the sorted tokens that it sees, as rows of the vocabulary."""


def _values(f: Callable[[Floats], Floats], X: Floats) -> Floats:
    """The values of `f` as `(B, n, m)`."""
    values = np.asarray(f(X), dtype=np.float64)
    return values[..., None] if values.ndim == 2 else values


def _answers(task: Task, proof: Proof, everywhere: Ints, grid: Floats) -> Answers:
    """What the proved network answers for every cell and multiset of cells, `everywhere` `(…, n)` listing these."""
    assert proof.network is not None
    row_of = {tuple(token): row for row, token in enumerate(task.vocabulary.tolist())}
    rows = np.array([row_of[tuple(token)] for token in grid.tolist()])
    points = [
        Point(token, context)
        for context in (tuple(sorted(each)) for each in rows[everywhere].tolist())
        for token in sorted(set(context))
    ]
    with precision(2 * proof.bits):  # slopes have up to `bits` bits before the point
        network = proof.network
        ids = network.head.ids(network.readouts[0].a, task.vocabulary, points)
        order = sorted(range(len(ids)), key=lambda i: ids[i].mid())
        columns = [readout.answers([ids[i] for i in order]) for readout in network.readouts]
    return {
        (points[i].token, points[i].context): np.array([float(column[place].mid()) for column in columns])
        for place, i in enumerate(order)
    }


def _errors(values: Floats, X: Floats, rounding: Rounding, answers: Answers, task: Task) -> tuple[float, float]:
    """The root mean square error of the worst output on `X`, and the largest error where no two tokens share a cell.

    Sequences on ramps are left out.
    """
    cell, on_ramp = rounding.cell(X)
    kept = ~on_ramp.any(axis=(1, 2))
    row_of = {tuple(token): row for row, token in enumerate(task.vocabulary.tolist())}
    rows = [[row_of[tuple(token)] for token in tokens] for tokens in np.array(rounding.grid)[cell[kept]].tolist()]
    answered = np.array([[answers[token, tuple(sorted(tokens))] for token in tokens] for tokens in rows])
    off = np.abs(answered - values[kept])
    different = np.array([len(set(tokens)) == len(tokens) for tokens in rows])
    return float(np.sqrt((off**2).mean(axis=(0, 1))).max()), float(off[different].max(initial=0.0))
