"""The function that an approximator is judged by: its values, and whether it treats the order of its tokens as a model
without positions must, `f(X π) = f(X) π`.

Such a model answers for the tokens of a sequence whatever their order, so it is compared with `f` in one order of each
multiset of cells. What that says of the other orders depends on `f`: it is asked there too, in all of them where they
are few, else in a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.errors import DataError

EVERY = 1 << 20
"""Tokens of all sequences of cells up to which all orders are tried; of a sample otherwise."""
ROUNDING = 2.0**-20
"""How far, as a share of the largest value, a function may be off for its own rounding, in binary32 at worst."""


def asked(f: Callable[[Any], Any], X: Floats, outputs: int) -> Floats:
    """`f` at sequences `(B, n, d)`, as `(B, n, m)`; `m` `outputs`. What it may not return is named."""
    try:
        values = np.asarray(f(X.copy()), dtype=np.float64)
    except Exception as error:
        raise DataError(
            f"the function failed on a batch of shape {X.shape}: {type(error).__name__}: {error}"
        ) from error
    wanted = (*X.shape[:2], outputs)
    if values.shape not in (wanted, X.shape[:2] if outputs == 1 else ()):
        raise DataError(
            f"the function returned an array of shape {values.shape} for a batch of shape {X.shape}: it must be "
            f"{wanted}"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).reshape(len(X), -1).all(axis=1))[0])
        raise DataError(f"the function is not finite at {X[row].tolist()}: it returned {values[row].tolist()}")
    return values.reshape(wanted)


@dataclass(frozen=True, eq=False)
class Orders:
    """`tried` sequences in another order, `every` one there is or a sample; `apart` the largest `|f(X π) − f(X) π|`.

    `worst` `(n,)` and `there` `(n, m)`: the cells where that is so, and `f` there; None if nothing was tried.
    """

    tried: int
    every: bool
    apart: float
    largest: float
    worst: Ints | None = None
    there: Floats | None = None

    @property
    def equivariant(self) -> bool:
        return self.apart <= ROUNDING * self.largest

    def condition(self) -> str:
        """What the claim owes to the order of tokens."""
        if not self.tried:
            return ""
        if not self.equivariant:
            return "; in one order each, and in one other order in which the function is not what equivariance makes it"
        how = "exactly" if self.apart == 0.0 else f"to within {self.apart:.3g}"
        if self.every:
            return f"; in one order each, and in all others, where the function, asked there, is equivariant {how}"
        return (
            "; in one order each, and in all others if the function is permutation equivariant, as it was "
            f"{how} in {self.tried:,} that were tried"
        )


def try_orders(ask: Callable[[Ints], Floats], rows: Ints, values: Floats, V: int) -> Orders:
    """`rows` `(K, n)`: multisets of `V` cells, in order; `values` `(K, n, m)`: `f` there; `ask` gives `f` at others."""
    n = rows.shape[1]
    largest = float(np.abs(values).max())
    if n == 1:
        return Orders(0, True, 0.0, largest)
    every = n * V**n <= EVERY
    which, order = _all(V, rows) if every else _some(rows)
    permuted = np.take_along_axis(rows[which], order, axis=1)
    new = (permuted != rows[which]).any(axis=1)
    which, order, permuted = which[new], order[new], permuted[new]
    if len(which) == 0:
        return Orders(0, True, 0.0, largest)
    there = ask(permuted)
    apart = np.abs(there - np.take_along_axis(values[which], order[:, :, None], axis=1)).max(axis=(1, 2))
    worst = int(apart.argmax())
    return Orders(len(which), every, float(apart[worst]), largest, permuted[worst], there[worst])


def _all(V: int, rows: Ints) -> tuple[Ints, Ints]:
    """Every sequence of cells as a row and an order of it `(V^n, n)`."""
    n = rows.shape[1]
    power = V ** np.arange(n - 1, -1, -1)
    sequences = np.arange(V**n)[:, None] // power % V
    sort = np.argsort(sequences, axis=1, kind="stable")
    # Multisets come in lexicographic order, so their numbers to the base V are sorted.
    which = np.searchsorted(rows @ power, np.take_along_axis(sequences, sort, axis=1) @ power)
    return which, np.argsort(sort, axis=1, kind="stable")


def _some(rows: Ints) -> tuple[Ints, Ints]:
    """A sample of rows, each in a random order; the seed is fixed, so that a certificate can be made again."""
    random, n = np.random.default_rng(0), rows.shape[1]
    which = random.integers(len(rows), size=max(1, EVERY // n))
    return which, np.argsort(random.random((len(which), n)), axis=1)
