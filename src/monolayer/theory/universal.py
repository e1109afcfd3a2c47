"""Universal pairs: two sequences that no hardmax layer tells apart, whatever its weights and heads.

**Theorem** (docs/hardmax.md). Let two sequences share a token that is not 0. Every hardmax layer, with any weights and
any number of heads, gives that token the same output in both iff for every direction `u`, zero included, the tokens
with the largest `uᵀy` have the same mean in both, repeats counted.

**On a line** `x = o + λ w` three directions decide: both ends and zero. So a pair is universal iff the numbers `λ` of
the two sequences have equal minimum, equal maximum and equal mean. Of one length, `{1,2,5,6}` and `{1,3,4,6}`. Four
tokens are the fewest there: minimum, maximum and sum determine three. Both together need `n + 2` numbers at least (sets
that differ in one element differ in sum), and `n + 2` evenly spaced ones suffice: both keep the ends, one drops the
third from either end, the other the second.

All arithmetic here is rational, and every token is a float exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.theory.attention import vectors


def universality(X: object, Y: object) -> Literal["universal", "separable", "undecided"]:
    """Whether every hardmax layer gives each nonzero shared token of `X` `(n, d)` and `Y` `(m, d)` one output.

    'separable': some layer does not. 'undecided': the tokens do not lie on one line.
    """
    X, Y = vectors(X, "X"), vectors(Y, "Y")
    if X.shape[1] != Y.shape[1]:
        raise DataError(f"tokens of X have {X.shape[1]} coordinates, those of Y {Y.shape[1]}")
    if not any(X[k].any() for k, _ in shared_tokens(X, Y)):
        raise DataError("X and Y share no token but 0: there is no query at which to compare them")
    one, other = ([[Fraction(entry) for entry in token] for token in Z.tolist()] for Z in (X, Y))
    origin = min(one + other)
    steps = [[a - b for a, b in zip(token, origin, strict=True)] for token in one + other]
    along = max(steps)
    axis = next((i for i, entry in enumerate(along) if entry), 0)  # numbers the tokens, if they lie on a line
    if any(a * along[axis] != b * step[axis] for step in steps for a, b in zip(step, along, strict=True)):
        return "undecided"
    ours, theirs = ([token[axis] for token in tokens] for tokens in (one, other))
    ends = (min(ours), max(ours)) == (min(theirs), max(theirs))
    return "universal" if ends and sum(ours) * len(theirs) == sum(theirs) * len(ours) else "separable"


def shared_tokens(X: Floats, Y: Floats) -> tuple[tuple[int, int], ...]:
    """Places `(k, l)` with `X_k = Y_l`, each token of `X` with its first place in `Y`."""
    places = {tuple(token): place for place, token in reversed([*enumerate((Y + 0.0).tolist())])}
    return tuple((k, places[tuple(x)]) for k, x in enumerate((X + 0.0).tolist()) if tuple(x) in places)


def universal_pair(n: int = 4, dim: int = 4, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Two sequences `(n, d)` that no hardmax layer tells apart: `{1, …, n+2} · v` less two tokens each.

    `v` is a vector of small whole numbers.
    """
    if n < 4:
        raise DataError(
            f"n = {n}: a pair that defeats every hardmax layer has at least 4 tokens per sequence, "
            "because equal minimum, maximum and sum determine a set of three; ask for n ≥ 4"
        )
    if dim < 1:
        raise DataError(f"dim = {dim}: a token has at least one coordinate")
    generator = np.random.default_rng(seed)
    # No coordinate is 0, so that no column of the weights goes unread.
    v = generator.integers(1, 4, dim) * generator.choice([-1, 1], dim)
    tokens = np.outer(np.arange(1.0, n + 3), v)
    return np.delete(tokens, [2, n - 1], axis=0), np.delete(tokens, [1, n], axis=0)
