"""How many heads the mean needs without a first block: Theorem E as functions (docs/mean-heads.md, with proofs).

Notation: `n` tokens in [0, 1]^d; one of them is the own token, `N = n − 1` are the others, `x_{l,i}` is coordinate `i`
of other `l`. There are `H` heads. For a fixed own token the score of head `h` is `u_h·x_l` plus a number that may
depend on the place `l`.

- *Too few heads*, `H ≤ n − 2` and `d ≥ H + 1`. A unit vector `e` is orthogonal to all `u_h`. If every other moves along
  `e`, other `l` by `τ D_l`, no weight changes; and if `D` is in the kernel of the weights, no head of any rank changes.
  What such heads leave of a function is its variance along these segments, at least. The function is a sum of waves
  `cos 2πK(x_{a,i} − r_i x_{b,i})`, `r_i = i + 1`, over `i ≤ H + 1` and all ordered pairs `a ≠ b` of others.
- *Enough heads*, `H = n − 1`. All score by the first coordinate `s`, at different temperatures, and show averages of
  whole tokens. The projections `s_l` of the others are known (docs/first-block.md), and then the others themselves, as
  the solution of a linear system with the matrix `e^{λ_h s_l}`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError


def least_left(length: int, heads: int, K: float) -> float:
    """Theorem E: the mean square error that `heads` heads leave of the waves, at least; below 0 it says nothing."""
    _check_too_few(length, heads)
    constant = 2 / math.pi * (heads + 1) ** 2 * (heads + 4) * (length - 1) ** 2 * (length - 2)
    return 0.5 - constant / K


def least_left_by_one(K: float) -> float:
    """Theorem D: what one head leaves of `cos 2πK(y − z)`, of mean square ½, for three scalar tokens and whole K."""
    return max(0.0, 5 / 24 - 4 / K, 0.5 - 27 / K)


def wave_vectors(length: int, heads: int) -> Floats:
    """The waves as `cos 2πK Σ_{l,i} w_{l,i} x_{l,i}`: `w` `(R, n − 1, H + 1)`, `R = (H + 1)(n − 1)(n − 2)`."""
    others, used = length - 1, heads + 1
    waves = []
    for i, (a, b) in itertools.product(range(used), itertools.permutations(range(others), 2)):
        w = np.zeros((others, used))
        w[a, i], w[b, i] = 1.0, -(i + 2.0)
        waves.append(w)
    return np.array(waves)


def unseen_direction(gradients: Floats) -> Floats:
    """A unit vector `e` `(d,)` orthogonal to the gradients `(H, d)` of all scores, 0 beyond coordinate `H + 1`."""
    heads, dim = gradients.shape
    if dim < heads + 1:
        raise DataError(f"{heads} heads may score along all of {dim} coordinates: {heads + 1} or more are needed")
    direction = np.zeros(dim)
    direction[: heads + 1] = np.linalg.svd(gradients[:, : heads + 1])[2][-1]
    return direction


def unseen_motion(weights: Floats) -> Floats:
    """A vector `D` in the kernel of the weights `(…, H, N)` of the others, `H < N`, with the largest entry 1.

    Weights are positive, so `D` has entries of both signs.
    """
    D = np.linalg.svd(weights)[2][..., -1, :]
    largest = np.take_along_axis(D, np.abs(D).argmax(axis=-1)[..., None], axis=-1)
    scaled: Floats = D / largest
    return scaled


def left_of_waves(
    K: float, length: int, gradients: Floats, places: Floats, samples: int, random: np.random.Generator
) -> float:
    """What heads leave of the waves, in the mean over random others: the variance along the segments they do not see.

    `gradients` `(H, d)`: the `u_h` of one own token. `places` `(H, n − 1)`: what the place of each other adds to its
    score. On a segment the variance is computed exactly; only the segments are sampled. With `n − 1` heads or more
    there is no segment, and the answer is 0.
    """
    heads, dim = gradients.shape
    if heads >= length - 1:
        return 0.0
    e = unseen_direction(gradients)
    others = random.random((samples, length - 1, dim))
    scores = np.einsum("snd,hd->shn", others, gradients) + places
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    step = unseen_motion(weights)[..., None] * e
    start, end = _inside(others, step)
    w = 2 * math.pi * K * wave_vectors(length, heads)
    middle = others + ((start + end) / 2)[:, None, None] * step
    phase = np.einsum("rni,sni->sr", w, middle[..., : heads + 1])
    turns = np.einsum("rni,sni->sr", w, step[..., : heads + 1]) * (end - start)[:, None]
    return float(_variance(phase, turns).mean())


def _inside(others: Floats, step: Floats) -> tuple[Floats, Floats]:
    """From which to which `τ` all of `others + τ step` `(S, N, d)` is in the cube."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(0.0 - others) / step, (1.0 - others) / step])
    low = np.where(step == 0.0, -np.inf, ends.min(axis=0)).max(axis=(1, 2))
    high = np.where(step == 0.0, np.inf, ends.max(axis=0)).min(axis=(1, 2))
    return low, high


def _variance(phase: Floats, turns: Floats) -> Floats:
    """The variance of `Σ_r cos(phase_r + turns_r τ)` over `−½ ≤ τ ≤ ½`, for each row of `(S, R)`."""

    def mean(phase: Floats, turns: Floats) -> Floats:
        return np.cos(phase) * np.sinc(turns / (2 * math.pi))

    one, other = (phase[:, :, None], turns[:, :, None]), (phase[:, None], turns[:, None])
    products = mean(one[0] + other[0], one[1] + other[1]) + mean(one[0] - other[0], one[1] - other[1])
    squares: Floats = products.sum(axis=(1, 2)) / 2
    variance: Floats = squares - mean(phase, turns).sum(axis=1) ** 2
    return variance


def shown_averages(tokens: Floats, temperatures: Sequence[float]) -> Floats:
    """What heads that score by the first coordinate show of whole tokens `(…, n, d)`: averages `(…, H, d)`."""
    scores = np.asarray(temperatures)[:, None] * tokens[..., None, :, 0]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    averages: Floats = (weights / weights.sum(axis=-1, keepdims=True)) @ tokens
    return averages


def others_from_averages(own: Floats, averages: Floats, projections: Floats, temperatures: Sequence[float]) -> Floats:
    """The other tokens `(…, n − 1, d)`, in the order of their `projections` `(…, n − 1)`, which must differ.

    `own` `(…, d)` is the own token, `averages` `(…, n − 1, d)` are what the heads show.
    """
    lam = np.asarray(temperatures)[:, None]
    own_weight = np.exp(lam * own[..., None, :1])
    weights = np.exp(lam * projections[..., None, :])
    sums = (own_weight + weights.sum(axis=-1, keepdims=True)) * averages - own_weight * own[..., None, :]
    return np.linalg.solve(weights, sums)


def inverse_at_most(length: int, gap: float, first: float, step: float) -> float:
    """A bound on the largest absolute row sum of the inverse of the matrix `e^{λ_h s_l}`.

    The `s_l` are in [0, 1] and at least `gap` apart; the `λ_h` are `first`, `first + step`, …, `n − 1` of them.
    """
    return math.exp(max(0.0, -first)) * ((1 + math.exp(step)) / (step * gap)) ** (length - 2)


def _check_too_few(length: int, heads: int) -> None:
    if not 1 <= heads <= length - 2:
        raise DataError(f"Theorem E is about 1 to n − 2 heads: not about {heads} of {length} tokens")
