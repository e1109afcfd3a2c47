"""How many bits a weight can hold if answers are to survive changes of the weights (docs/rate.md, with proofs).

Letters: one architecture with `P` weights, each 0 or of size between `low` and `high`, `L = ln(high/low)`; `M` labels
of `C` classes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from monolayer.arrays import Array
from monolayer.errors import DataError

NORMAL_SHAPE = 0.5 * (np.euler_gamma + math.log(2.0))
"""`½ ln E w² − E ln|w|` of normal weights with mean 0, for `E ln|w| = −(γ + ln 2)/2` at variance 1."""


def bits_under_any_change(low: float, high: float, eta: float) -> float:
    """Most bits per weight if *every* labelling survives *every* change of each weight by a share of at most `eta`.

    `M log₂ C ≤ P log₂(3 + 2L/Δ)` with `Δ = ln((1 + η)/(1 − η))`.
    """
    L = _range(low, high)
    if not 0.0 < eta < 1.0:
        raise DataError(f"eta is {eta}: it must lie between 0 and 1, both excluded")
    return math.log2(3.0 + 2.0 * L / (math.log1p(eta) - math.log1p(-eta)))


def bits_under_random_noise(low: float, high: float, sigma: float, error: float = 0.0, classes: int = 2) -> float:
    """Most label bits per weight if random labels survive factors `1 + σ · normal` on every weight.

    A share of `error` of the labels may be wrong, in the mean over labels and noise: what Fano's inequality takes off
    for that is added again, so that the answer bounds `M log₂ C / P`.
    """
    L, needed = _range(low, high), _told(sigma, error, classes)
    spread = 0.5 * math.log1p(sigma * sigma) + mean_log(sigma)
    capacity = math.log2(1.0 + 2.0 * (L + 2.0) * math.exp(spread) / (sigma * math.sqrt(2.0 * math.pi * math.e)))
    return capacity / needed


def bits_of_weights(tensors: Iterable[Array], sigma: float, error: float = 0.0, classes: int = 2) -> float:
    """Most label bits per weight under factors `1 + σ · normal`, by the average over the weights that occur.

    Weights of one tensor share one normal distribution. A tensor of which a share `z` is 0 and the others have variance
    `v`, mean square `s` and mean logarithm `l` counts `h(z) + (1 − z)(½ log₂(v/σ² + s) − l)` bits per weight. The
    theorem has means over all labellings; one network is one sample of them, so this is an estimate.
    """
    needed = _told(sigma, error, classes)
    bits, count = 0.0, 0
    for tensor in tensors:
        weights = np.asarray(tensor, dtype=np.float64).ravel()
        if not np.isfinite(weights).all():
            raise DataError("a weight is infinite or not a number")
        some = weights[weights != 0.0]
        count += weights.size
        if some.size == 0:
            continue
        share = some.size / weights.size
        channel = 0.5 * np.log2(np.var(some) / sigma**2 + np.mean(some**2)) - np.mean(np.log2(np.abs(some)))
        bits += weights.size * (_entropy(1.0 - share) + share * float(channel))
    if count == 0:
        raise DataError("there are no weights")
    return bits / count / needed


def bits_of_normal_weights(sigma: float, error: float = 0.0, classes: int = 2) -> float:
    """What `bits_of_weights` gives for normal weights with mean 0: about `log₂(1/σ) + 0.92`, divided as Fano says."""
    needed = _told(sigma, error, classes)
    return (0.5 * math.log2(1.0 + 1.0 / sigma**2) + NORMAL_SHAPE / math.log(2.0)) / needed


def bits_read_linearly(sigma: float, error: float) -> float:
    """Most bits per weight, for many weights, if a bit is the sign of a weighted sum of fixed random features ±1.

    A bit whose sum is `κ` times the length of the weights is wrong with probability `Φ(−κ/σ)`. So every bit errs in a
    share of at most `error` of the draws if `κ ≥ z σ`, `z` the normal quantile of `1 − error`.
    """
    from scipy.stats import norm

    if not sigma >= 0.0:
        raise DataError(f"sigma is {sigma}: it must be 0 or positive")
    if not 0.0 < error <= 0.5:
        raise DataError(f"error is {error}: it must be above 0 and at most ½")
    return gardner(float(norm.isf(error)) * sigma)


def gardner(margin: float) -> float:
    """Gardner's `1/((1 + κ²)Φ(κ) + κφ(κ))`: random signs per weight that a perceptron of margin `κ ≥ 0` fits."""
    from scipy.stats import norm

    if not margin >= 0.0:
        raise DataError(f"the margin is {margin}: the formula is proved for 0 and above")
    return float(1.0 / ((1.0 + margin**2) * norm.cdf(margin) + margin * norm.pdf(margin)))


def mean_log(sigma: float) -> float:
    """`E |ln |1 + σξ||`, `ξ` normal."""
    from scipy.integrate import quad

    def term(x: float) -> float:
        density = math.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))
        return abs(math.log(abs(1.0 + x))) * density if x != -1.0 else 0.0

    reach = 40.0 * sigma
    edges = sorted({-reach, 0.0, reach, *(edge for edge in (-2.0, -1.0) if -reach < edge)})
    return float(sum(quad(term, one, two, limit=200)[0] for one, two in itertools.pairwise(edges)))


def _told(sigma: float, error: float, classes: int) -> float:
    """The share of a label's bits that answers must tell if a share `error` of them may be wrong, by Fano."""
    if not sigma > 0.0:
        raise DataError(f"sigma is {sigma}: it must be positive")
    if classes < 2 or not 0.0 <= error < 1.0 - 1.0 / classes:
        raise DataError(f"a share of {error} wrong labels of {classes} classes is no better than guessing")
    return 1.0 - (_entropy(error) + error * math.log2(classes - 1)) / math.log2(classes)


def _range(low: float, high: float) -> float:
    if not 0.0 < low <= high < math.inf:
        raise DataError(
            f"weights lie between {low} and {high}: 0 < low ≤ high is required; weights that are 0 do not count"
        )
    return math.log(high / low)


def _entropy(share: float) -> float:
    return 0.0 if share in (0.0, 1.0) else -share * math.log2(share) - (1.0 - share) * math.log2(1.0 - share)
