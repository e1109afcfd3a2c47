"""Theorem 1 made executable: no hardmax attention layer is a contextual mapping on all data, and here is the pair.

A contextual mapping must give a token different outputs in sequences with different vocabularies. For any
weights, `refute_hardmax` returns two sequences without repeated tokens that share tokens and differ in
vocabulary, and checks in rational arithmetic that every head gives every shared token the same output.
The check reads the tokens and the weights only; it knows nothing of how the pair was made.

Softmax on the same pair. On a line, with the sets `A`, `B` of universal.py, let `D(c) = B(c; A) − B(c; B)` be
the difference of the Boltzmann operators. The outputs at a shared token `x` differ by `Σ_h D(c_h) M_h w`,
where `c_h = (W_K w)ᵀ(W_Q x)` and `M_h = W_O W_V`.

**Lemma.** If `A`, `B` are rational, universal (their lengths may differ), and each symmetric about the common centre,
then `D` is odd, and for distinct rationals `c_1, …, c_k > 0` the numbers `D(c_1), …, D(c_k)` are linearly independent
over the algebraic numbers. (Proof in docs/hardmax.md.) So softmax separates the pair at `x` iff for some `c > 0` the
vector `Σ_{h: |c_h| = c} sign(c_h) M_h w` is not 0: a finite exact check, for any number of heads.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.table import as_table
from monolayer.theory.attention import (
    Comparison,
    ExactHead,
    HeadDifference,
    SoftmaxVerdict,
    Vector,
    decide_softmax,
    dyadic,
    exact_heads,
    overall,
    vectors,
)
from monolayer.theory.universal import Line, Universality, line_through, shared_tokens, universal_pair, universality
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
    line: Line | None
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
        names = [self._name(k) for k, _ in self.shared]
        shown = names if len(names) <= 12 else [*names[:5], "…", *names[-5:]]
        line = [("line", _where(self.line))] if self.line is not None else []
        sequences = (self._listed(0), self._listed(1))
        return [
            ("layer", self._size()),
            ("verdict", self.verdict),
            *line,
            ("X", sequences[0]),
            ("X'", sequences[1]),
            ("shared tokens", ", ".join(shown)),
            ("hardmax on X and X'", "equal in every head at every shared token (rational arithmetic)"),
            ("defeats", "every hardmax layer" if self.universal else "this hardmax layer"),
            ("softmax", self.softmax_verdict),
            *(
                (f"softmax distance at {name}", comparison.distance)
                for name, comparison in zip(names, self.softmax, strict=True)
                if name in shown
            ),
        ]

    def _size(self) -> str:
        heads = len(self.weights)
        return f"{heads} head{'s' * (heads > 1)}, dimension {self.weights.dim}"

    def _listed(self, side: int) -> str:
        if self.line is None:
            return f"{len((self.X, self.X_prime)[side])} tokens"
        return _listed((self.line.first, self.line.second)[side])

    def explain(self) -> str:
        """The refutation in words."""
        text = [f"refuted: this hardmax layer ({self._size()}) is not a contextual mapping."]
        where = "" if self.line is None else f" on {_where(self.line)}"
        text.append(f"X = {self._listed(0)} and X' = {self._listed(1)}{where}.")
        text.append(
            "They have no repeated token and different vocabularies. At each of the "
            f"{len(self.shared)} tokens that they share, each head gives the same output in both: checked in "
            "rational arithmetic, without rounding."
        )
        if self.universal:
            text.append(
                "The pair defeats every hardmax layer: in every direction the tokens that come first have the same "
                "mean in both, and a head can show nothing else."
            )
        text.append(self._softmax_words())
        return "\n".join(text)

    def _softmax_words(self) -> str:
        verdict, comparisons = self.softmax_verdict, self.softmax
        if verdict == "equal":
            place = next(i for i, c in enumerate(comparisons) if c.verdict == "equal")
            return (
                f"Softmax with these weights does not separate the pair at {self._name(self.shared[place][0])} "
                f"either, exactly: {comparisons[place].reason}."
            )
        worst = min(comparisons, key=lambda c: (c.verdict == "separated", c.upper))
        if verdict == "undecided":
            return f"Whether softmax with these weights separates the pair is undecided: {worst.reason}."
        return (
            "Softmax with the same weights separates it at every shared token: smallest distance "
            f"{worst.distance} ({worst.reason})."
        )

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

    def _name(self, k: int) -> str:
        if self.line is None:
            return f"({', '.join(f'{number:g}' for number in self.X[k])})"
        return f"{'' if not any(self.line.origin) else 'o + '}{self.line.first[k]}·v"


def refute_hardmax(
    weights: Any = None,
    *,
    heads: int = 1,
    dim: int = 4,
    n: int = 4,
    r_min: float | None = None,
    r_max: float | None = None,
    epsilon: float | None = None,
    seed: int = 0,
) -> Refutation:
    """Two sequences of `n` tokens that the hardmax layer with these weights cannot tell apart, checked.

    `weights` is anything that `AttentionWeights.of` takes; without it, `heads` random heads of dimension
    `dim` are drawn. `r_min`, `r_max`, `epsilon`: the tokens are (r_min, r_max, ε)-separated.
    """
    drawn = weights is None
    layer = AttentionWeights.random(heads, dim, seed=seed) if drawn else AttentionWeights.of(weights)
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
                axis = next(a for a, (p, q) in enumerate(zip(one, other, strict=True)) if p != q)
                raise DataError(
                    f"not a witness: head {number} tells token {k} of X from the equal token {place} of X'; "
                    f"coordinate {axis} is {_short(one[axis])} in X and {_short(other[axis])} in X'"
                )
            outputs[i] = [a + b for a, b in zip(outputs[i], one, strict=True)]
    found = universality(X, Y) if any(map(any, queries.tolist())) else Universality("undecided")
    line = line_through(X, Y)
    on_line = line if line is not None and found.verdict == "universal" and line.symmetric else None
    softmax = tuple(
        decide_softmax(
            [HeadDifference.of(ours, theirs, query) for ours, theirs in heads],
            None if on_line is None else _softmax_on_line([ours for ours, _ in heads], on_line, query),
        )
        for query in range(len(queries))
    )
    return Refutation(layer, X, Y, shared, tuple(map(tuple, outputs)), softmax, line, found)


def _softmax_on_line(heads: list[ExactHead], line: Line, query: int) -> tuple[SoftmaxVerdict, str]:
    """The lemma above for one query, from the heads on the first sequence."""
    # With w the last token minus the first, c_h and M_h w are differences of two scores and of two values.
    first, last = (line.first.index(end(line.first)) for end in (min, max))
    groups: dict[Fraction, list[Fraction]] = {}
    still = True
    for head in heads:
        c = dyadic(head.scores[last, query] - head.scores[first, query], head.score_exponent)
        sign = 1 if c > 0 else -1
        move = [dyadic(sign * (row[last] - row[first]), head.value_exponent) for row in head.values.table()]
        if c and any(move):
            still = False
            total = groups.get(abs(c), [Fraction(0)] * len(move))
            groups[abs(c)] = [a + b for a, b in zip(total, move, strict=True)]
    if any(any(total) for total in groups.values()):
        return "separated", "the differences of the heads are linearly independent, so they do not cancel"
    if still:
        return "equal", "each head scores the whole line alike, or W_O W_V sends it to one point"
    return "equal", "the differences of the heads cancel exactly, temperature by temperature"


def _sequence(tokens: Any, name: str, dim: int) -> Floats:
    """Tokens `(n, d)` without a repeat."""
    array = vectors(tokens, name, dim)
    distinct, first = np.unique(array + 0.0, axis=0, return_index=True)
    if len(distinct) < len(array):
        repeat = next(k for k in range(len(array)) if k not in first)
        raise DataError(f"token {repeat} of {name} repeats an earlier one: the theorem is about distinct tokens")
    array.setflags(write=False)
    return array


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _short(value: Fraction) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{_rounded(value):.17g}"


def _listed(values: Vector) -> str:
    shown = [str(value) for value in values]
    return "{" + ", ".join(shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-5:]]) + "}"


def _where(line: Line) -> str:
    def vector(entries: Vector) -> str:
        shown = [f"{_rounded(entry):g}" for entry in entries]
        return "(" + ", ".join(shown if len(shown) <= 8 else [*shown[:4], "…", *shown[-2:]]) + ")"

    v = f"v = {vector(line.direction)}"
    if any(line.origin):
        return f"the line o + k·v, o = {vector(line.origin)}, {v}"
    return f"the line k·v, {v}"
