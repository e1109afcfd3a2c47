"""The function that an approximator is judged by: its values, and whether it treats the order of its tokens as a model
without positions must, `f(X π) = f(X) π`.

Such a model answers for the tokens of a sequence whatever their order, so it is compared with `f` in one order of each
multiset of cells. What that says of the other orders depends on `f`: it is asked there too, in all of them where they
are few, else in a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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


class Orders(NamedTuple):
    """`tried` sequences in other orders, `every` one there is or a sample; `apart` the largest `|f(X π) − f(X) π|`.

    `worst` `(n,)` and `there` `(n, m)`: the cells where that is so, and `f` there; `equivariant`: up to its rounding.
    """

    tried: int
    every: bool
    apart: float
    worst: Ints
    there: Floats
    equivariant: bool

    def condition(self) -> str:
        """What the claim owes to the order of tokens."""
        if not self.equivariant:
            return "; in one order each, and in one other order in which the function is not what equivariance makes it"
        how = "exactly" if self.apart == 0.0 else f"to within {self.apart:.3g}"
        if self.every:
            return f"; in one order each, and in all others, where the function, asked there, is equivariant {how}"
        return (
            "; in one order each, and in all others if the function is permutation equivariant, as it was "
            f"{how} in {self.tried:,} that were tried"
        )


def try_orders(ask: Callable[[Ints], Floats], V: int, n: int) -> Orders:
    """`ask` gives `f` `(K, n, m)` at sequences `(K, n)` of `V` cells: all of them, or a sample if they are too many."""
    every = n * V**n <= EVERY
    if every:
        rows = np.stack(np.unravel_index(np.arange(V**n), (V,) * n), axis=1)
    else:  # the seed is fixed, so that a certificate can be made again
        rows = np.random.default_rng(0).integers(V, size=(max(1, EVERY // n), n))
    order = np.argsort(rows, axis=1, kind="stable")
    there, sorted_ = ask(rows), ask(np.take_along_axis(rows, order, axis=1))
    apart = np.abs(np.take_along_axis(there, order[:, :, None], axis=1) - sorted_).max(axis=(1, 2))
    worst = int(apart.argmax())
    far, same = float(apart[worst]), bool(apart[worst] <= ROUNDING * np.abs(there).max())
    return Orders(len(rows), every, far, rows[worst], there[worst], same)
