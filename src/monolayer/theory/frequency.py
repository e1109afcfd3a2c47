"""Theorem B: attention without positions sees how often tokens occur, and nothing else.

Notation: `f(u)` is the relative frequency of token `u` in a sequence, `g` the scores of a head for a query.

**Theorem B.** Without positions, mask and begin-of-sequence token, a softmax head gives a query the value
`Σ_u f(u) v_u e^{g(u)} / Σ_u f(u) e^{g(u)}`, and a hardmax head the mean of `v_u` under `f` over the largest
`g(u)`. Both depend on the sequence through `f` alone, so sequences with equal frequencies, such as `[a, b]`
and `[a, a, b, b]`, get equal outputs for every weight. Put one begin-of-sequence token, the same vector, in
front of every sequence, and use it nowhere else: its frequency is `1/(n+1)`, so equal frequencies now mean
equal length and equal multisets, and some rank-1 head tells all different multisets apart. (Proof in
docs/hardmax.md.)

`compare_sequences` does not trust the theorem: for given weights it decides equality term by term (attention.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from monolayer.errors import DataError
from monolayer.theory.attention import SoftmaxComparison, SoftmaxVerdict, decide_softmax, exact_heads, overall, vectors
from monolayer.theory.weights import AttentionWeights


def frequencies(sequence: Iterable[Hashable]) -> dict[Hashable, Fraction]:
    """Relative frequency of each token, which may be an id, a string or a tuple of numbers.

    Two sequences have equal ones iff they are proportional as multisets.
    """
    counts = Counter(sequence)
    return {token: Fraction(count, counts.total()) for token, count in counts.items()}


@dataclass(frozen=True)
class FrequencyCheck:
    """Two sequences under softmax attention with given weights, at each distinct token that both have.

    `tokens[i]` is that token and `comparisons[i]` what its two outputs are; `same` says whether the
    frequencies are equal, in which case no weights tell the two apart.
    """

    same: bool
    tokens: tuple[Hashable, ...]
    comparisons: tuple[SoftmaxComparison, ...]
    hardmax_equal: bool

    @property
    def verdict(self) -> SoftmaxVerdict:
        """'separated' if softmax separates the two at every shared token, 'equal' if at one it fails to."""
        return overall(self.comparisons)

    @property
    def all_equal(self) -> bool:
        """Whether the outputs are equal at every shared token, exactly."""
        return all(comparison.verdict == "equal" for comparison in self.comparisons)


def compare_sequences(weights: object, X: object, Y: object) -> FrequencyCheck:
    """Whether softmax with these weights tells two sequences `(n, d)`, `(m, d)` apart at shared tokens."""
    layer = AttentionWeights.of(weights)
    # Adding 0.0 makes −0.0 and 0.0 the same token, as they are the same number.
    X, Y = vectors(X, "X", layer.dim) + 0.0, vectors(Y, "Y", layer.dim) + 0.0
    ours, theirs = (frequencies(map(tuple, Z.tolist())) for Z in (X, Y))
    shared = tuple(token for token in ours if token in theirs)
    if not shared:
        raise DataError("X and Y share no token: there is no query at which to compare them")
    heads = exact_heads(layer, np.array(shared), X, Y)
    places = range(len(shared))
    comparisons = [decide_softmax(heads, query) for query in places]
    hardmax = all(x.hardmax(query) == y.hardmax(query) for x, y in heads for query in places)
    return FrequencyCheck(ours == theirs, shared, tuple(comparisons), hardmax)
