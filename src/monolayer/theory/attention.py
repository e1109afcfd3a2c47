"""One attention layer evaluated without rounding: hardmax in rationals, softmax in balls.

Every float is an integer times a power of two, so scores and values of a head are exact integers with a
common exponent. Notation: for one query, `s_l` and `v_l = W_O W_V x_l` are the score and the value of key `l`
in a sequence `X`, and `t_m`, `w_m` those in `Y`. Hardmax is the mean of `v_l` over the largest `s_l`. For
softmax, the difference of a head's outputs is

    Σ_l v_l e^{s_l} / Σ_l e^{s_l} − Σ_m w_m e^{t_m} / Σ_m e^{t_m}
        = Σ_{l,m} (v_l − w_m) e^{s_l + t_m}  /  (Σ_l e^{s_l}) (Σ_m e^{t_m}).

Collect the coefficients of equal exponents, exactly. If all vanish the difference is 0. If not, it is not:
exponentials of distinct algebraic numbers are linearly independent over the algebraic numbers
(Lindemann and Weierstrass), and floats are algebraic. So one head is decided exactly; a sum of heads is
exactly 0 if each is, not 0 if exactly one is not, and otherwise enclosed in balls of rising precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from flint import arb, arb_mat, fmpz, fmpz_mat

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.theory.balls import interval, precision
from monolayer.theory.injectivity import exact
from monolayer.theory.weights import AttentionWeights

Vector = tuple[Fraction, ...]
SoftmaxVerdict = Literal["separated", "equal", "undecided"]
PRECISIONS = (64, 128, 256, 512, 1024, 2048, 4096)


def vectors(tokens: object, name: str, dim: int | None = None) -> Floats:
    """A sequence `(n, d)` of finite tokens as float64; `name` is what errors call it."""
    try:
        array = np.array(tokens, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} is not a table of numbers (n, d)") from None
    if array.ndim != 2 or 0 in array.shape or array.shape[1] != (dim or array.shape[1]):
        raise DataError(f"{name} has shape {array.shape}: (n, {dim or 'd'}) with at least one token is needed")
    if not np.isfinite(array).all():
        raise DataError(f"token {int(np.argwhere(~np.isfinite(array))[0, 0])} of {name} is not finite")
    return array


@dataclass(frozen=True, eq=False)
class ExactHead:
    """Scores `(n, q)` of `n` keys for `q` queries and values `(d, n)`: integers times powers of two."""

    scores: fmpz_mat
    score_exponent: int
    values: fmpz_mat
    value_exponent: int

    def column(self, query: int) -> list[fmpz]:
        """The scores of all keys for one query, times 2 to the minus `score_exponent`."""
        return [self.scores[key, query] for key in range(self.scores.nrows())]

    def hardmax(self, query: int) -> Vector:
        """Mean of the values whose score is maximal, `(d,)`."""
        scores = self.column(query)
        top = max(scores)
        share = fmpz_mat(len(scores), 1, [int(score == top) for score in scores])
        unit = Fraction(2) ** self.value_exponent / scores.count(top)
        return tuple(int(v) * unit for v in (self.values * share).entries())


def exact_heads(weights: AttentionWeights, queries: Floats, *sequences: Floats) -> list[list[ExactHead]]:
    """Every head on every sequence `(n, d)`, for query tokens `(q, d)`: `[head][sequence]`."""
    (asked, power), tokens, heads = exact(queries.T), [exact(Z.T) for Z in sequences], []
    for head in weights.heads:
        W_Q, W_K, W_V, W_O = (exact(matrix) for matrix in head)
        query, score, value = W_Q[0] * asked, W_K[1] + W_Q[1] + power, W_O[1] + W_V[1]
        each = (((W_K[0] * Z).transpose() * query, score + e, W_O[0] * (W_V[0] * Z), value + e) for Z, e in tokens)
        heads.append([ExactHead(*parts) for parts in each])
    return heads


@dataclass(frozen=True, eq=False)
class HeadDifference:
    """A head's softmax output on `X` minus that on `Y` for one query: the quotient at the top of this file.

    `coefficients` `(d, G)` belong to `G` distinct `exponents`, all relative to the largest scores, so ≤ 0.
    """

    coefficients: fmpz_mat
    value_exponent: int
    exponents: list[fmpz]
    scores: tuple[list[fmpz], list[fmpz]]
    score_exponent: int

    @classmethod
    def of(cls, x: ExactHead, y: ExactHead, query: int) -> HeadDifference:
        """The difference of two heads at the token `query`."""
        # Both sides are brought to one exponent, so that equal numbers are equal integers.
        base = min(x.score_exponent, y.score_exponent)
        s, t = ([score * fmpz(2) ** (side.score_exponent - base) for score in side.column(query)] for side in (x, y))
        s, t = ([score - top for score in scores] for scores, top in ((s, max(s)), (t, max(t))))
        place: dict[fmpz, int] = {}
        pairs = [[place.setdefault(a + b, len(place)) for b in t] for a in s]
        left, right = np.zeros((len(s), len(place)), np.int64), np.zeros((len(t), len(place)), np.int64)
        groups = np.array(pairs)
        np.add.at(left, (np.arange(len(s))[:, None], groups), 1)
        np.add.at(right, (np.arange(len(t))[None, :], groups), 1)
        low = min(x.value_exponent, y.value_exponent)
        coefficients = (x.values * fmpz(2) ** (x.value_exponent - low)) * fmpz_mat(left.tolist()) - (
            y.values * fmpz(2) ** (y.value_exponent - low)
        ) * fmpz_mat(right.tolist())
        return cls(coefficients, low, list(place), (s, t), base)

    def enclose(self) -> arb_mat:
        """The difference `(d, 1)` in balls, at the precision in force."""
        base = self.score_exponent
        power = [arb((exponent, base)).exp() for exponent in self.exponents]
        total = arb((1, self.value_exponent))
        for scores in self.scores:
            total /= sum((arb((score, base)).exp() for score in scores), arb(0))
        difference: arb_mat = (arb_mat(self.coefficients) * arb_mat(len(power), 1, power)) * total
        return difference


@dataclass(frozen=True)
class SoftmaxComparison:
    """What softmax makes of two sequences at one shared token: a verdict, its reason, the distance.

    `lower` and `upper` are floats around the Euclidean distance of the two outputs. A distance below every float has
    `lower` 0.0 and may still be proved > 0.
    """

    verdict: SoftmaxVerdict
    reason: str
    lower: float = 0.0
    upper: float = 0.0


def decide_softmax(heads: Sequence[Sequence[ExactHead]], query: int) -> SoftmaxComparison:
    """Equal, separated or undecided, for one query and the heads `[head][sequence]` of two sequences."""
    differing = [each for x, y in heads if not (each := HeadDifference.of(x, y, query)).coefficients.is_zero()]
    if not differing:
        return SoftmaxComparison("equal", "in each head, each exponential of the difference has coefficient 0")
    for bits in PRECISIONS:
        with precision(bits):
            first, *rest = (head.enclose() for head in differing)
            squares = sum((entry * entry for entry in sum(rest, first).entries()), arb(0))
            # The sum of squares is not negative; a ball that says so keeps the square root defined.
            distance = squares.nonnegative_part().sqrt()
            # Twenty bits are the six decimals that a reader sees.
            if distance > 0 and distance.rel_accuracy_bits() >= 20:
                break
    verdict: SoftmaxVerdict = "separated"
    if distance > 0:
        reason = "the ball of the distance excludes 0"
    elif len(differing) == 1:
        reason = "one head differs, and by Lindemann and Weierstrass its difference is not 0"
    else:
        verdict, reason = "undecided", f"several heads differ, and at {PRECISIONS[-1]:,} bits the ball holds 0"
    lower, upper = interval(distance)
    return SoftmaxComparison(verdict, reason, max(0.0, lower), upper)


def overall(comparisons: Sequence[SoftmaxComparison]) -> SoftmaxVerdict:
    """'separated' if every comparison is, 'equal' if one is equal, else 'undecided'."""
    verdicts = {comparison.verdict for comparison in comparisons}
    if "equal" in verdicts:
        return "equal"
    return "separated" if verdicts == {"separated"} else "undecided"
