"""Theorem 1 made executable: no hardmax attention layer is a contextual mapping on all data, and here is the pair.

A contextual mapping must give a token different outputs in sequences with different vocabularies. For any
weights, `refute_hardmax` returns two sequences without repeated tokens that share tokens and differ in
vocabulary, and checks in rational arithmetic that every head gives every shared token the same output.
The check reads the tokens and the weights only; it knows nothing of how the pair was made.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.table import as_table
from monolayer.theory.attention import (
    Comparison,
    HeadDifference,
    SoftmaxVerdict,
    Vector,
    decide_softmax,
    exact_heads,
    overall,
    vectors,
)
from monolayer.theory.universal import Universality, shared_tokens, universal_pair, universality
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
    softmax: tuple[Comparison, ...]
    universality: Universality
    verdict: Literal["refuted"] = "refuted"

    @property
    def universal(self) -> bool:
        """Whether the pair is known to defeat every hardmax layer, not only this one (universal.py)."""
        return self.universality.verdict == "universal"

    @property
    def softmax_verdict(self) -> SoftmaxVerdict:
        """'separated' if softmax separates the pair at every shared token, 'equal' if at one it fails to."""
        return overall(self.softmax)

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What was found, a (name, value) pair a row, for a table."""
        names = _cut([self._name(self.X[k]) for k, _ in self.shared])
        distances = _cut([_distance(comparison) for comparison in self.softmax])
        return [
            ("layer", self._size()),
            ("verdict", self.verdict),
            ("X", self._listed(self.X)),
            ("X'", self._listed(self.X_prime)),
            ("shared tokens", ", ".join(names)),
            ("hardmax on X and X'", "equal in every head at every shared token (rational arithmetic)"),
            ("defeats", "every hardmax layer" if self.universal else "this hardmax layer"),
            ("softmax", self.softmax_verdict),
            *((f"softmax distance at {n}", d) for n, d in zip(names, distances, strict=True) if n != "…"),
        ]

    def _size(self) -> str:
        heads = len(self.weights)
        return f"{heads} head{'s' * (heads > 1)}, dimension {self.weights.dim}"

    def _listed(self, tokens: Floats) -> str:
        """The sequence as multiples of `v`, the first token of X, where all are."""
        names = [self._name(token) for token in tokens]
        if not all(name.endswith("v") for name in names):
            return f"{len(tokens)} tokens"
        v = ", ".join(_cut([f"{number:g}" for number in self.X[0]]))
        return f"{{{', '.join(_cut([name[:-2] for name in names]))}}}·v, v = ({v})"

    def _name(self, token: Floats) -> str:
        v = self.X[0]
        axis = int(np.abs(v).argmax())
        multiple = float(np.round(token[axis] / (v[axis] or np.inf)))
        if (token == multiple * v).all():
            return f"{multiple:g}·v"
        return f"({', '.join(_cut([f'{number:g}' for number in token]))})"

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
        return text + self._softmax_words()

    def _softmax_words(self) -> str:
        verdict = self.softmax_verdict
        place = min(range(len(self.softmax)), key=lambda i: (self.softmax[i].verdict != verdict, self.softmax[i].upper))
        worst, name = self.softmax[place], self._name(self.X[self.shared[place][0]])
        words = {
            "equal": f"does not separate the pair at {name} either, exactly",
            "undecided": f"may or may not separate the pair at {name}: undecided",
            "separated": f"separates it at every shared token, the least distance being in {_distance(worst)}",
        }
        return f"Softmax with these weights {words[verdict]} ({worst.reason})."

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`; rationals are strings such as '7/3'."""
        return {
            "verdict": self.verdict,
            "universal": self.universal,
            "heads": len(self.weights),
            "dim": self.weights.dim,
            "X": self.X.tolist(),
            "X_prime": self.X_prime.tolist(),
            "shared": [list(places) for places in self.shared],
            "hardmax_outputs": [[str(entry) for entry in output] for output in self.outputs],
            "softmax_verdict": self.softmax_verdict,
            # JSON has no infinity.
            "softmax": [asdict(c) | {"upper": c.upper if np.isfinite(c.upper) else None} for c in self.softmax],
        }


def refute_hardmax(
    weights: Any = None,
    *,
    heads: int = 1,
    dim: int = 4,
    n: int = 4,
    r_min: float = 0.0,
    r_max: float = math.inf,
    epsilon: float = 0.0,
    seed: int = 0,
) -> Refutation:
    """Two sequences of `n` tokens that the hardmax layer with these weights cannot tell apart, checked.

    `weights` is anything that `AttentionWeights.of` takes; without it, `heads` random heads of dimension
    `dim` are drawn. `r_min`, `r_max`, `epsilon`: see `universal_pair`.
    """
    layer = AttentionWeights.random(heads, dim, seed=seed) if weights is None else AttentionWeights.of(weights)
    pair = universal_pair(n, layer.dim, r_min=r_min, r_max=r_max, epsilon=epsilon, seed=seed)
    return check_witness(layer, *pair)


def check_witness(weights: Any, X: Any, X_prime: Any) -> Refutation:
    """The refutation that a pair of sequences `(n, d)`, `(n', d)` gives, if it gives one; else `DataError`.

    Any pair will do, of any shape: no repeated token, different vocabularies, a shared token, and equal
    hardmax outputs of every head at every shared token.
    """
    layer = AttentionWeights.of(weights)
    X, Y = _sequence(X, "X", layer.dim), _sequence(X_prime, "X'", layer.dim)
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
    found = universality(X, Y) if any(map(any, queries.tolist())) else Universality("undecided")
    softmax = tuple(
        decide_softmax([HeadDifference.of(ours, theirs, query) for ours, theirs in heads])
        for query in range(len(queries))
    )
    return Refutation(layer, X, Y, shared, tuple(map(tuple, outputs)), softmax, found)


def _sequence(tokens: Any, name: str, dim: int) -> Floats:
    """Tokens `(n, d)` without a repeat."""
    array = vectors(tokens, name, dim)
    distinct, first = np.unique(array + 0.0, axis=0, return_index=True)
    if len(distinct) < len(array):
        repeat = next(k for k in range(len(array)) if k not in first)
        raise DataError(f"token {repeat} of {name} repeats an earlier one: the theorem is about distinct tokens")
    array.setflags(write=False)
    return array


def _distance(comparison: Comparison) -> str:
    return f"[{comparison.lower:.6g}, {comparison.upper:.6g}]"


def _cut(shown: list[str]) -> list[str]:
    return shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-5:]]
