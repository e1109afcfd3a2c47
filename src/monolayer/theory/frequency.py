"""Theorem B: attention without positions sees how often tokens occur, and nothing else.

Notation: `f(u)` is the relative frequency of token `u` in a sequence, `g` the scores of a head for a query.

**Theorem B.** Without positions, mask and begin-of-sequence token, a softmax head gives a query the value
`Σ_u f(u) v_u e^{g(u)} / Σ_u f(u) e^{g(u)}`, and a hardmax head the mean of `v_u` under `f` over the largest
`g(u)`. Both depend on the sequence through `f` alone, so sequences with equal frequencies, such as `[a, b]`
and `[a, a, b, b]`, get equal outputs for every weight. Put one begin-of-sequence token, the same vector, in
front of every sequence, and use it nowhere else: its frequency is `1/(n+1)`, so equal frequencies now mean
equal length and equal multisets, and some rank-1 head tells all different multisets apart. (Proof in
docs/hardmax.md.)

The checker does not trust the theorem: for given weights it decides equality term by term (attention.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.theory.attention import (
    Comparison,
    HeadDifference,
    SoftmaxVerdict,
    decide_softmax,
    exact_heads,
    overall,
    vectors,
)
from monolayer.theory.weights import AttentionWeights


def frequencies(sequence: Any) -> dict[Hashable, Fraction]:
    """Relative frequency of each token; tokens are hashable (ids, strings), or rows of an array `(n, d)`."""
    tokens: Sequence[Hashable]
    if isinstance(sequence, np.ndarray) and sequence.ndim == 2:
        # Adding 0.0 makes −0.0 and 0.0 the same token, as they are the same number.
        tokens = [tuple(token) for token in (vectors(sequence, "the sequence") + 0.0).tolist()]
    else:
        tokens = sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence)
    if not tokens:
        raise DataError("the sequence is empty: it has no frequencies")
    return {token: Fraction(count, len(tokens)) for token, count in Counter(tokens).items()}


def same_frequencies(x: Any, y: Any) -> bool:
    """Whether two sequences are proportional as multisets: the same tokens, counts in one common ratio."""
    return frequencies(x) == frequencies(y)


def theorem_b_pair(tokens: Any, copies: int = 2) -> tuple[Floats, Floats]:
    """A sequence `(n, d)` and the same with every token `copies` times: equal frequencies, two lengths."""
    X = vectors(tokens, "tokens")
    if copies < 2:
        raise DataError(f"copies = {copies}: with fewer than 2 the two sequences are the same")
    return X, np.repeat(X, copies, axis=0)


def begin(sequence: Any, bos: Any) -> Floats:
    """The sequence with the begin-of-sequence vector in front; it must not occur in it."""
    X = vectors(sequence, "the sequence")
    first = vectors(np.asarray(bos)[None], "bos", X.shape[1])
    where = np.flatnonzero((first == X).all(axis=1))
    if len(where):
        raise DataError(f"token {int(where[0])} equals the begin-of-sequence vector: use one that is no token")
    return np.concatenate([first, X])


@dataclass(frozen=True)
class FrequencyCheck:
    """Two sequences under softmax attention with given weights, at each distinct token that both have.

    `tokens[i]` is that token and `comparisons[i]` what its two outputs are; `same` says whether the
    frequencies are equal, in which case no weights tell the two apart.
    """

    same: bool
    tokens: tuple[Hashable, ...]
    comparisons: tuple[Comparison, ...]
    hardmax_equal: bool

    @property
    def verdict(self) -> SoftmaxVerdict:
        """'separated' if softmax separates the two at every shared token, 'equal' if at one it fails to."""
        return overall(self.comparisons)

    @property
    def all_equal(self) -> bool:
        """Whether the outputs are equal at every shared token, exactly."""
        return all(comparison.verdict == "equal" for comparison in self.comparisons)


def compare_sequences(weights: Any, X: Any, Y: Any) -> FrequencyCheck:
    """Whether softmax with these weights tells two sequences `(n, d)`, `(m, d)` apart at shared tokens."""
    layer = AttentionWeights.of(weights)
    X, Y = vectors(X, "X", layer.dim), vectors(Y, "Y", layer.dim)
    ours, theirs = frequencies(X), frequencies(Y)
    shared = tuple(token for token in ours if token in theirs)
    if not shared:
        raise DataError("X and Y share no token: there is no query at which to compare them")
    heads = exact_heads(layer, np.array(shared), X, Y)
    places = range(len(shared))
    comparisons = [decide_softmax([HeadDifference.of(x, y, query) for x, y in heads]) for query in places]
    hardmax = all(x.hardmax(query) == y.hardmax(query) for x, y in heads for query in places)
    return FrequencyCheck(ours == theirs, shared, tuple(comparisons), hardmax)


@dataclass(frozen=True)
class TheoremB:
    """Theorem B on one pair and one layer: the pair as it is, and with a begin-of-sequence token."""

    lengths: tuple[int, int]
    without: FrequencyCheck
    with_bos: FrequencyCheck

    @property
    def holds(self) -> bool:
        """Equal without the token, separated with it; both proved."""
        return self.without.all_equal and self.with_bos.verdict == "separated"

    def explain(self) -> str:
        """Both halves in words."""
        n, m = self.lengths
        plain, begun = self.without, self.with_bos
        nearest = min(begun.comparisons, key=lambda c: (c.verdict == "separated", c.upper))
        return "\n".join(
            [
                f"Sequences of {n} and {m} tokens with {'equal' if plain.same else 'different'} frequencies.",
                f"Without a begin-of-sequence token: {plain.verdict} ({plain.comparisons[0].reason}).",
                f"With one: {begun.verdict}; smallest distance {nearest.enclosure} ({nearest.reason}).",
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        halves = {"without_bos": self.without, "with_bos": self.with_bos}
        return {"lengths": list(self.lengths), "holds": self.holds} | {
            name: {
                "verdict": half.verdict,
                "same_frequencies": half.same,
                "hardmax_equal": half.hardmax_equal,
                "distances": [c.enclosure for c in half.comparisons],
            }
            for name, half in halves.items()
        }


def check_theorem_b(weights: Any, tokens: Any, *, copies: int = 2, bos: Any = None) -> TheoremB:
    """Theorem B for these weights on `tokens` `(n, d)` and `copies` of each.

    Without `bos` the zero vector is used, or, if that is a token, a vector larger than all tokens.
    """
    X, Y = theorem_b_pair(tokens, copies)
    if bos is None:
        largest = np.abs(X).max()
        bos = np.full(X.shape[1], largest + 1.0 if (X == 0).all(axis=1).any() else 0.0)
    return TheoremB(
        (len(X), len(Y)),
        compare_sequences(weights, X, Y),
        compare_sequences(weights, begin(X, bos), begin(Y, bos)),
    )
