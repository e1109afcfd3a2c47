"""Functions worth approximating: name, formula, and a Lipschitz constant in the sup norm, with its proof.

Each maps batches `(B, n, d)` to `(B, n, m)`. All but the last commute with permutations of the tokens, so equal tokens
get equal outputs. A constant `L` says `|f(X) − f(Y)| ≤ L max |X − Y|` in every output, on the whole domain
`[low, high]^{n×d}`; `δ` below is `max |X − Y|`. None: the function is not continuous.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError

SOFTENING = 1.0
"""ε of the forces: closer than this, they weaken."""
SHARPNESS = 4.0
"""β of softmax pooling."""


TokenFunction = Callable[[Floats], Floats]
Lipschitz = Callable[[int, int, float, float], float | None]


@dataclass(frozen=True)
class TargetFunction:
    """A function, what it does in words, and `lipschitz(dim, length, low, high)`: its constant, or None."""

    name: str
    function: TokenFunction
    does: str
    lipschitz: Lipschitz
    equivariant: bool = True
    scalar: bool = False
    """Whether a token must be one number."""
    tokens: int = 1
    """Least number of tokens."""

    def __call__(self, X: Floats) -> Floats:
        return self.function(X)

    def check(self, dim: int, length: int) -> None:
        """Refuse a dimension or a length that the function is not defined for."""
        if self.scalar and dim != 1:
            raise DataError(f"{self.name} is defined for tokens of dimension 1 only, not {dim}")
        if length < self.tokens:
            raise DataError(f"{self.name} needs at least {self.tokens} tokens, not {length}")


TARGETS: dict[str, TargetFunction] = {}
"""All functions of this file, by name."""


def _target(name: str, does: str, lipschitz: Lipschitz, **options: Any) -> Callable[[TokenFunction], TokenFunction]:
    """A decorator that enters a function into `TARGETS`."""

    def enter(function: TokenFunction) -> TokenFunction:
        TARGETS[name] = TargetFunction(name, function, does, lipschitz, **options)
        return function

    return enter


@_target("sort", "every token gets the sorted sequence", lambda *_: 1.0, scalar=True)
def sort(X: Floats) -> Floats:
    """Every token gets the whole sorted sequence: `m = n`.

    L = 1: if every entry moves by at most δ, so does each order statistic, since `x_(k) ≤ t` says that `k` entries
    are at most `t`. (The `k`-th smallest at place `k` is not equivariant: that is `sort_in_place`.)
    """
    ordered = np.sort(X[..., 0], axis=1)
    return np.broadcast_to(ordered[:, None, :], (*X.shape[:2], X.shape[1]))


@_target("ranks", "how many tokens are smaller (discontinuous)", lambda *_: None, scalar=True)
def ranks(X: Floats) -> Floats:
    """How many tokens are smaller, and half of those that are equal. Not continuous: it jumps where tokens meet."""
    x = X[..., 0]
    smaller = (x[:, None, :] < x[:, :, None]).sum(axis=2)
    equal = (x[:, None, :] == x[:, :, None]).sum(axis=2) - 1
    return np.asarray(smaller + equal / 2.0)


@_target("max", "every token gets the largest value", lambda *_: 1.0)
def largest(X: Floats) -> Floats:
    """Every token gets the largest value, coordinate by coordinate. L = 1, as an order statistic."""
    return np.broadcast_to(X.max(axis=1, keepdims=True), X.shape)


@_target("median", "every token gets the median", lambda *_: 1.0)
def median(X: Floats) -> Floats:
    """Every token gets the median, coordinate by coordinate. L = 1: an order statistic, or the mean of two."""
    return np.broadcast_to(np.median(X, axis=1, keepdims=True), X.shape)


def _gravity_constant(dim: int) -> float:
    """The Lipschitz constant of `gravity`, proved there."""
    return (1.0 if dim <= 3 else math.sqrt(dim)) / SOFTENING**2


def gravity(r: Floats) -> Floats:
    """`g(r) = r / (|r|² + ε²)`, the pull of a unit mass at `r` `(…, d)` as in the plane, softened.

    In the sup norm `g` has the constant `1/ε²` for `d ≤ 3`, and `√d/ε²` for any `d`. Its Jacobian is
    `(I − 2 r rᵀ/ρ²)/ρ²` with `ρ² = |r|² + ε²`.

    Any `d`: its eigenvalues are `1/ρ²` and `(ε² − |r|²)/ρ⁴`, at most `1/ε²` in absolute value, and lengths in the sup
    norm and in the Euclidean one differ by at most `√d`.

    `d ≤ 3`: let `s` be the coordinate of a row, `T` the sum of the absolute values of the others, `v` that of their
    squares, so `T² ≤ (d − 1)v`. The absolute values of the row sum to `(|1 − 2s²/ρ²| + 2|s|T/ρ²)/ρ²`. Where
    `2s² ≤ ρ²`, use `|s|T − s² ≤ T²/4`: with `u = v/ε²` the sum is at most `(1 + ½(d − 1)u/(1 + u))/(1 + u)/ε²`, which
    falls from `1/ε²` since `½(d − 1) ≤ 1`. Elsewhere use `s² + |s|T ≤ (1 + √d)/2 · |r|²`: with `u = |r|²/ε²` the sum is
    below `(1 + √d) u/(1 + u)²/ε²`, whose maximum, at `u = 1`, is below `0.69/ε²`.
    """
    return np.asarray(r / (np.square(r).sum(axis=-1, keepdims=True) + SOFTENING**2))


@_target("force", "softened gravity between all pairs of tokens", lambda d, n, *_: 2.0 * (n - 1) * _gravity_constant(d))
def force(X: Floats) -> Floats:
    """The softened gravity that all other tokens exert on a token.

    L = 2(n − 1) times the constant of `gravity`: each of the n − 1 differences moves by at most 2δ, and `g(0) = 0`
    adds nothing for the token itself.
    """
    return np.asarray(gravity(X[:, None, :, :] - X[:, :, None, :]).sum(axis=2))


@_target("mean-field", "softened gravity towards the mean", lambda d, n, *_: 2.0 * (n - 1) / n * _gravity_constant(d))
def mean_field(X: Floats) -> Floats:
    """The softened gravity of all mass put at the mean of the tokens.

    L = 2(n − 1)/n times the constant of `gravity`: the mean minus a token is `1/n` times the sum of n − 1 differences.
    """
    return gravity(X.mean(axis=1, keepdims=True) - X)


@_target("nearest", "distance to the nearest other token", lambda d, *_: 2.0 * math.sqrt(d), tokens=2)
def distance_to_nearest(X: Floats) -> Floats:
    """The Euclidean distance to the nearest other token.

    L = 2√d: a difference of tokens moves by at most 2δ in each coordinate, its length by at most 2√d δ, and a minimum
    by no more than what it is the minimum of.
    """
    apart = np.sqrt(np.square(X[:, None, :, :] - X[:, :, None, :]).sum(axis=3))
    each = np.arange(X.shape[1])
    apart[:, each, each] = np.inf
    return np.asarray(apart.min(axis=2))


@_target(
    "softmax-pooling",
    "one softmax attention head",
    lambda d, n, low, high: 1.0 + SHARPNESS * d * max(abs(low), abs(high)) * (high - low),
)
def softmax_pooling(X: Floats) -> Floats:
    """One head of softmax self-attention with identity weights: `Σ_l p_l x_l`, `p = softmax_l(β x_k · x_l)`.

    L = 1 + β d M (high − low), with M the largest absolute value in the domain. The values contribute 1. Along a
    straight way from X to Y a score changes at a rate of at most `2 β d M δ`; a mean of values under changing scores
    changes at the rate of their covariance, at most the product of the standard deviations: `(high − low)/2` for the
    values, `2 β d M δ` for the rates.
    """
    scores = SHARPNESS * (X @ np.swapaxes(X, 1, 2))
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray((weights @ X) / weights.sum(axis=2, keepdims=True))


@_target("sort-in-place", "k-th smallest at place k; needs positions", lambda *_: 1.0, equivariant=False, scalar=True)
def sort_in_place(X: Floats) -> Floats:
    """The `k`-th smallest value at place `k`: what people call sorting. Needs positions. L = 1, as for `sort`."""
    return np.sort(X[..., 0], axis=1)
