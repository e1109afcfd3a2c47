"""Theorem 1 made executable: no hardmax attention layer is a contextual mapping on all data, and here is the pair.

A contextual mapping must give a token different outputs in sequences with different vocabularies. For any
weights, `refute_hardmax` returns two sequences without repeated tokens that share tokens and differ in
vocabulary, and checks in rational arithmetic that every head gives every shared token the same output.
The check reads the tokens and the weights only; it knows nothing of how the pair was made.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.table import as_table, plural
from monolayer.theory.attention import (
    SoftmaxComparison,
    SoftmaxVerdict,
    Vector,
    decide_softmax,
    exact_heads,
    overall,
    vectors,
)
from monolayer.theory.shown import as_html, as_latex, enclosed
from monolayer.theory.universal import shared_tokens, universal_pair, universality
from monolayer.theory.weights import AttentionWeights


@dataclass(frozen=True, eq=False)
class Refutation:
    """Proof that these weights under hardmax are no contextual mapping, and what softmax does instead.

    `X`, `X_prime` are `(n, d)`; `shared` holds the places `(k, l)` with `X_k = X'_l`; `outputs[i]` is the one
    hardmax output of shared token `i` in both sequences, exactly; `softmax[i]` compares its softmax outputs.
    """

    weights: AttentionWeights
    X: Floats
    X_prime: Floats
    shared: tuple[tuple[int, int], ...]
    outputs: tuple[Vector, ...]
    softmax: tuple[SoftmaxComparison, ...]
    universal: bool
    """Whether the pair is known to defeat every hardmax layer, not only this one (universal.py)."""
    verdict: Literal["refuted"] = "refuted"

    @property
    def softmax_verdict(self) -> SoftmaxVerdict:
        """'separated' if softmax separates the pair at every shared token, 'equal' if at one it fails to."""
        return overall(self.softmax)

    __repr__ = as_table
    _repr_html_ = as_html
    latex = as_latex

    def rows(self) -> list[tuple[str, str]]:
        """What was found as (name, value) pairs, one per row of a table."""
        _, worst = self._least()
        return [
            ("layer", self._size()),
            ("verdict", self.verdict),
            ("X", self._listed(self.X)),
            ("X'", self._listed(self.X_prime)),
            ("shared tokens", str(len(self.shared))),
            ("hardmax on X and X'", "equal in every head at every shared token (rational arithmetic)"),
            ("defeats", "every hardmax layer" if self.universal else "this hardmax layer"),
            ("softmax", self.softmax_verdict),
            ("least softmax distance", _distance(worst)),
        ]

    def _size(self) -> str:
        return f"{plural(len(self.weights.heads), 'head')}, dimension {self.weights.dim}"

    def _listed(self, tokens: Floats) -> str:
        """The sequence as multiples of `v`, the first token of X, where all are."""
        v = self.X[0]
        axis = int(np.abs(v).argmax())
        multiples = np.asarray(np.round(tokens[:, axis] / (v[axis] or np.inf)), dtype=np.float64)
        if not np.array_equal(tokens, np.outer(multiples, v)):
            return plural(len(tokens), "token")
        return f"{{{_some_numbers(multiples)}}}·v, v = ({_some_numbers(v)})"

    def _least(self) -> tuple[int, SoftmaxComparison]:
        """The comparison that decides the verdict on softmax, and the place of its token in X."""
        chosen = [(k, c) for (k, _), c in zip(self.shared, self.softmax, strict=True)]
        return min(chosen, key=lambda each: (each[1].verdict != self.softmax_verdict, each[1].upper))

    def explain(self) -> str:
        """The refutation in words."""
        text = (
            f"refuted: this hardmax layer ({self._size()}) is not a contextual mapping.\n"
            f"X = {self._listed(self.X)} and X' = {self._listed(self.X_prime)}.\n"
            "They have no repeated token and different vocabularies. At each of the "
            f"{len(self.shared)} tokens that they share, each head gives the same output in both: checked in "
            "rational arithmetic, without rounding.\n"
        )
        if self.universal:
            text += (
                "The pair defeats every hardmax layer: in every direction the tokens that come first have the same "
                "mean in both, and a head can show nothing else.\n"
            )
        k, worst = self._least()
        words = {
            "equal": f"does not separate the pair at token {k} of X either, exactly",
            "undecided": f"may or may not separate the pair at token {k} of X: undecided",
            "separated": f"separates it at every shared token, the least distance being {_distance(worst)}",
        }
        return f"{text}Softmax with these weights {words[self.softmax_verdict]} ({worst.reason})."

    def to_json(self) -> dict[str, object]:
        """Everything, ready for `json.dumps`; rationals are strings such as '7/3'."""
        return {
            "verdict": self.verdict,
            "universal": self.universal,
            "heads": len(self.weights.heads),
            "dim": self.weights.dim,
            "X": self.X.tolist(),
            "X_prime": self.X_prime.tolist(),
            "shared": [list(places) for places in self.shared],
            "hardmax_outputs": [[str(entry) for entry in output] for output in self.outputs],
            "softmax_verdict": self.softmax_verdict,
            # JSON has no infinity.
            "softmax": [asdict(c) | {"upper": c.upper if np.isfinite(c.upper) else None} for c in self.softmax],
        }


def refute_hardmax(weights: object = None, *, heads: int = 1, dim: int = 4, n: int = 4, seed: int = 0) -> Refutation:
    """Find two sequences that the hardmax layer with these weights cannot tell apart, and check them exactly.

    - `weights`: anything that `AttentionWeights.of` takes; None: random heads.
    - `heads`, `dim`: how many random heads are drawn, and the dimension of their tokens.
    - `n`: tokens per sequence, at least 4.
    - `seed`: of the random heads and the pair of sequences.

    Example:

        >>> ml.refute_hardmax(heads=2, dim=3).verdict
        'refuted'
    """
    layer = AttentionWeights.random(heads, dim, seed=seed) if weights is None else AttentionWeights.of(weights)
    return check_witness(layer, *universal_pair(n, layer.dim, seed=seed))


def check_witness(weights: object, X: object, X_prime: object) -> Refutation:
    """The refutation that a pair of sequences `(n, d)`, `(n', d)` gives, if it gives one; else `DataError`.

    Any pair will do, of any shape: no repeated token, different vocabularies, a shared token, and equal
    hardmax outputs of every head at every shared token.
    """
    layer = AttentionWeights.of(weights)
    X, Y = _distinct_tokens(X, "X", layer.dim), _distinct_tokens(X_prime, "X'", layer.dim)
    shared = shared_tokens(X, Y)
    if len(shared) == len(X) == len(Y):
        raise DataError("X and X' have the same vocabulary: a contextual mapping need not tell them apart")
    if not shared:
        raise DataError("X and X' share no token: there is no query at which their outputs must be compared")
    queries = X[[k for k, _ in shared]]
    heads = exact_heads(layer, queries, X, Y)
    outputs = [[Fraction(entry) for entry in token] for token in queries.tolist()]
    for number, (ours, theirs) in enumerate(heads):
        for i, (k, place) in enumerate(shared):
            one, other = ours.hardmax(i), theirs.hardmax(i)
            if one != other:
                raise DataError(f"not a witness: head {number} tells token {k} of X from the equal token {place} of X'")
            outputs[i] = [a + b for a, b in zip(outputs[i], one, strict=True)]
    universal = bool(queries.any()) and universality(X, Y) == "universal"
    softmax = tuple(decide_softmax(heads, query) for query in range(len(queries)))
    return Refutation(layer, X, Y, shared, tuple(map(tuple, outputs)), softmax, universal)


def _distinct_tokens(tokens: object, name: str, dim: int) -> Floats:
    """The tokens as read-only float64 `(n, d)`; an error if one is repeated."""
    array = vectors(tokens, name, dim)
    distinct, first = np.unique(array + 0.0, axis=0, return_index=True)
    if len(distinct) < len(array):
        repeat = next(k for k in range(len(array)) if k not in first)
        raise DataError(f"token {repeat} of {name} repeats an earlier one: the theorem is about distinct tokens")
    array.setflags(write=False)
    return array


def _distance(comparison: SoftmaxComparison) -> str:
    with np.errstate(divide="ignore"):  # the logarithm of 0 is −∞
        return enclosed(*np.log10([comparison.lower, comparison.upper]).tolist())


def _some_numbers(numbers: Floats) -> str:
    shown = [f"{number:g}" for number in numbers]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-5:]])
