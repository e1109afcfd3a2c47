"""Contextual mappings, measured.

A map `q` is an (r, δ)-contextual mapping for sequences `X^(1), ..., X^(N)` if (1) `‖q(X^(i))_k‖ < r` for all
tokens, and (2) `‖q(X^(i))_k − q(X^(j))_l‖ > δ` whenever the vocabularies `V^(i) ≠ V^(j)` differ (as sets) or
the tokens `X^(i)_k ≠ X^(j)_l` do. So each point has a class, the pair (token, set of tokens of its
sequence), and δ is the smallest distance between points of different classes. Points of one class, such as
those of sequences that are permutations of each other, are not compared: no equivariant map could tell all
of them apart.

A causal map sees at each token only the prefix that ends there. Its classes are the pairs (token, set of tokens of
that prefix): tokens of sequences that begin alike are of one class until the sequences differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_runs
from monolayer.errors import DataError
from monolayer.table import as_table, plural
from monolayer.theory.closest import closest_pair
from monolayer.theory.separation import TokenPlace, norms, token_rows, two_places
from monolayer.theory.shown import as_html, as_latex


@dataclass(frozen=True)
class ContextualMapping:
    """The smallest `r` and largest `delta` of a map on some data, with `≤` and `≥` for `<` and `>`.

    `closest` are the places (sequence, position) of two points at distance `delta`; None where all `points`
    are of one class, and then `delta` is infinite. `classes` counts the classes (token, set). `causal`: the sets are
    those of prefixes rather than of whole sequences.
    """

    r: float
    delta: float
    closest: tuple[TokenPlace, TokenPlace] | None
    points: int
    classes: int
    causal: bool = False

    __repr__ = as_table
    _repr_html_ = as_html
    latex = as_latex

    def rows(self) -> list[tuple[str, str]]:
        """What was measured as (name, value) pairs, one per row of a table."""
        rows = [
            ("points", f"{self.points:,}"),
            ("classes (token, set)", f"{self.classes:,}"),
            ("context of a token", "the prefix that ends there" if self.causal else "its sequence"),
            ("r", f"{self.r:.6g}"),
        ]
        if self.closest is None:
            return [*rows, ("δ", "none: all points are of one class")]
        return [*rows, ("δ", f"{self.delta:.6g}"), ("attained by", two_places(*self.closest))]

    def holds(self, r: float, delta: float) -> bool:
        """Whether the map is an (r, δ)-contextual mapping for these data."""
        return self.r < r and self.delta > delta

    def explain(self) -> str:
        """The two numbers, and where δ is attained."""
        context = "prefix" if self.causal else "sequence"
        counted = f"{plural(self.points, 'point')} in {plural(self.classes, 'class')}"
        lines = [
            f"{counted} (token, set of tokens of its {context}).",
            f"Outputs reach norm r = {self.r:.6g}.",
        ]
        if self.closest is None:
            lines.append("All points are of one class: the definition asks for no separation.")
        else:
            lines.append(
                f"The closest two points of different classes are δ = {self.delta:.6g} apart: "
                f"{two_places(*self.closest)}."
            )
            if self.delta == 0:
                lines.append("So the map is not a contextual mapping for these data: it confuses these two.")
        return "\n".join(lines)


def contextual_mapping(f: Callable[[Any], Any], X: object, *, causal: bool = False) -> ContextualMapping:
    """Measure the (r, δ) of the map `f` on the data `X`.

    - `f`: a function that is called once, with `X` as given. It answers with arrays or tensors `(N, n, p)` or `(N, n)`,
      padded or not, or with a list of `(n_i, p)`. Or a `Monolayer`, whose logits are the outputs.
    - `X`: sequences, anything that `Sequences.of` takes.
    - `causal`: the map sees prefixes, so the context of a token is the prefix that ends there, not its whole sequence.

    It takes O(M log M) for p = 1, and a neighbour search for p > 1.

    Example:

        >>> mapping = ml.contextual_mapping(lambda X: np.cumsum(X, axis=1, dtype=float), [[1, 2], [2, 3]])
        >>> print(mapping.r, mapping.delta)
        5.0 1.0
    """
    data = Sequences.of(X)
    outputs = _one_per_token(_outputs_of(f, X), data)
    classes = context_classes(data, causal)
    closest = closest_pair(outputs, classes)
    return ContextualMapping(
        r=float(norms(outputs).max()),
        delta=np.inf if closest is None else closest.distance,
        closest=None if closest is None else (data.place(closest.first), data.place(closest.second)),
        points=len(outputs),
        classes=int(classes.max()) + 1,
        causal=causal,
    )


def context_classes(data: Sequences, causal: bool = False) -> Ints:
    """`(T,)`: the class (token, set of tokens of its sequence, or `causal`, of its prefix) of every point, from 0."""
    _, rows = token_rows(data)
    sets = _prefix_classes(data, rows) if causal else set_classes(data.sequence, rows, len(data))[data.sequence]
    _, classes = np.unique(rows * (int(sets.max()) + 1) + sets, return_inverse=True)
    numbers: Ints = classes.reshape(-1).astype(np.int64)
    return numbers


def _prefix_classes(data: Sequences, rows: Ints) -> Ints:
    """`(T,)` numbers, equal iff the sets of `rows` in the prefixes that end at two tokens are."""
    number_of: dict[int, int] = {}
    numbers = []
    for sequence in data.split(rows):
        members = 0  # the set as bits: bit i is 1 iff row i is in the prefix
        for row in sequence.tolist():
            members |= 1 << row
            numbers.append(number_of.setdefault(members, len(number_of)))
    return np.array(numbers, dtype=np.int64)


def set_classes(sequence: Ints, rows: Ints, count: int) -> Ints:
    """`(N,)` numbers of `count` sequences, equal iff the sets of `rows` are; `sequence` `(T,)` says whose."""
    width = int(rows.max()) + 1
    pairs = np.unique(sequence * width + rows)
    return distinct_runs(pairs % width, np.bincount(pairs // width, minlength=count).astype(np.int64))


def _outputs_of(f: Callable[[Any], Any], X: object) -> Any:
    """The answer of `f` to `X`; an exception inside `f` becomes a `DataError` that says so."""
    if callable(getattr(f, "encode", None)) and hasattr(f, "bos"):
        return _model_outputs(f, X)
    try:
        return f(X)
    except Exception as error:  # whatever the function of the caller raises is about that function
        raise DataError(
            f"f failed on X ({type(error).__name__}: {error}). It is called with X as given: for a PyTorch model give "
            "a function, such as lambda X: model(torch.as_tensor(X)).last_hidden_state; ml.audit measures all its parts"
        ) from error


def _model_outputs(model: Any, X: Any) -> Any:
    """The answer of a `Monolayer` to padded rows of its vocabulary; its own tensors make new ones, without torch."""
    data = model.encode(X)
    inside = np.arange(int(data.lengths.max())) < data.lengths[:, None]
    padded = np.zeros((*inside.shape, *data.tokens.shape[1:]), dtype=data.tokens.dtype)
    padded[inside] = data.tokens
    like = model.bos
    rows = like.new_tensor(padded, dtype=like.dtype if data.vocabulary is None else like.new_tensor([0]).long().dtype)
    return model(rows, like.new_tensor(data.lengths).long())


def _one_per_token(answer: Any, data: Sequences) -> Floats:
    """`(T, p)` outputs, one per token, padding removed."""
    wanted = f"the map must answer with ({len(data)}, {int(data.lengths.max())}, p), an array, a tensor or a list"
    lengths = data.lengths.tolist()
    try:
        parts = [np.asarray(part.detach().cpu() if hasattr(part, "detach") else part, np.float64) for part in answer]
    except (TypeError, ValueError):
        raise DataError(f"{wanted}, such as a last_hidden_state; it gave a {type(answer).__name__}") from None
    if len(parts) != len(data) or any(p.ndim not in (1, 2) or len(p) < n for p, n in zip(parts, lengths, strict=True)):
        raise DataError(f"{wanted}: one output for each token; it gave {len(parts)} rows, the first {parts[0].shape}")
    outputs = np.concatenate([part[:n].reshape(n, -1) for part, n in zip(parts, lengths, strict=True)])
    bad = np.flatnonzero(~np.isfinite(outputs).all(axis=1))
    if len(bad):
        raise DataError(f"the output of the map at {data.where(int(bad[0]))} is not finite")
    return outputs
