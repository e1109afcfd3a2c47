"""How many bits a weight can hold if answers are to survive changes of the weights (docs/rate.md, with proofs).

Letters: `P` weights, each 0 or of size between `low` and `high`, `L = ln(high/low)`; `M` labels of `C` classes.
"""

from __future__ import annotations

import itertools
import math

from monolayer.errors import DataError


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
    L = _range(low, high)
    if not sigma > 0.0:
        raise DataError(f"sigma is {sigma}: it must be positive")
    if classes < 2 or not 0.0 <= error < 1.0 - 1.0 / classes:
        raise DataError(f"a share of {error} wrong labels of {classes} classes is no better than guessing")
    spread = 0.5 * math.log1p(sigma * sigma) + mean_log(sigma)
    capacity = math.log2(1.0 + 2.0 * (L + 2.0) * math.exp(spread) / (sigma * math.sqrt(2.0 * math.pi * math.e)))
    lost = _entropy(error) + error * math.log2(classes - 1)  # Fano: what is left open about a label
    return capacity / (1.0 - lost / math.log2(classes))


def mean_log(sigma: float) -> float:
    """`E |ln |1 + σξ||`, `ξ` normal."""
    from scipy.integrate import quad

    def term(x: float) -> float:
        density = math.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))
        return abs(math.log(abs(1.0 + x))) * density if x != -1.0 else 0.0

    reach = 40.0 * sigma
    edges = sorted({-reach, 0.0, reach, *(edge for edge in (-2.0, -1.0) if -reach < edge)})
    return float(sum(quad(term, one, two, limit=200)[0] for one, two in itertools.pairwise(edges)))


def _range(low: float, high: float) -> float:
    if not 0.0 < low <= high < math.inf:
        raise DataError(
            f"weights lie between {low} and {high}: 0 < low ≤ high is required; weights that are 0 do not count"
        )
    return math.log(high / low)


def _entropy(share: float) -> float:
    return 0.0 if share == 0.0 else -share * math.log2(share) - (1.0 - share) * math.log2(1.0 - share)
