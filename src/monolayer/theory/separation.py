"""How far apart the tokens of some data are, and what the paper's hypotheses make of them.

Tokens are (r_min, r_max, ε)-separated if `r_min < ‖x‖ < r_max` for every token and `‖x − y‖ > ε` for any two
different ones. `V` is the vocabulary, the set of all different tokens. The numbers measured here are the
largest r_min and ε and the smallest r_max with `≤` for `<`; every r_min and ε below, and r_max above, serves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats, Ints
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.table import as_table, plural
from monolayer.theory.closest import closest_pair
from monolayer.theory.shown import as_html, as_latex

TokenPlace = tuple[int, int]

_ROOM = 2.0**-40
_NAMED = 5  # rows that a sentence names before it counts the rest


class StrictSeparation(NamedTuple):
    """Numbers with `r_min < ‖x‖ < r_max` for every token and `‖x − y‖ > epsilon` for any two different ones."""

    r_min: float
    r_max: float
    epsilon: float


@dataclass(frozen=True)
class Separation:
    """The separation of `sequences` sequences with `tokens` tokens, `vocabulary` of them different.

    `shortest` and `longest` bound the lengths n. `dimension`, `r_min`, `r_max` and `epsilon` are None for
    ids, which have no geometry; `epsilon` is infinite where there is one token only. Places are (sequence,
    position), from 0. `repeating` lists the sequences with a repeated token, `repeated_tokens` counts the
    tokens that stood earlier in their own sequence, `zeros` lists the places of zero vectors. `causal`: the contexts
    are prefixes, so lengths may differ.
    """

    sequences: int
    tokens: int
    vocabulary: int
    shortest: int
    longest: int
    dimension: int | None
    r_min: float | None
    r_max: float | None
    epsilon: float | None
    closest_pair: tuple[TokenPlace, TokenPlace] | None
    repeating: tuple[int, ...]
    repeated_tokens: int
    zeros: tuple[TokenPlace, ...]
    causal: bool = False

    __repr__ = as_table
    _repr_html_ = as_html
    latex = as_latex

    def rows(self) -> list[tuple[str, str]]:
        """What was measured as (name, value) pairs, one per row of a table."""
        rows = [
            ("sequences N", f"{self.sequences:,}"),
            ("tokens", f"{self.tokens:,}"),
            ("longest n", f"{self.longest:,}"),
            ("different tokens |V|", f"{self.vocabulary:,}"),
        ]
        if self.dimension is None:
            rows.append(("dimension d", "none: tokens are ids, without norms or distances"))
        else:
            epsilon = "none, there is one token only" if self.closest_pair is None else f"{self.epsilon:.6g}"
            rows += [
                ("dimension d", f"{self.dimension}"),
                ("r_min, r_max, ε", f"{self.r_min:.6g}, {self.r_max:.6g}, {epsilon}"),
            ]
        if self.closest_pair is not None:
            rows.append(("closest two tokens", two_places(*self.closest_pair)))
        return [*rows, ("hypotheses of Theorem 2", "; ".join(self.broken) or "hold")]

    def strict(self) -> StrictSeparation:
        """The measured numbers moved by 2^-40 of themselves, more than their rounding errors: `≤` becomes `<`."""
        assert self.r_min is not None and self.r_max is not None and self.epsilon is not None  # noqa: PT018  not ids
        return StrictSeparation(self.r_min * (1 - _ROOM), self.r_max * (1 + _ROOM), self.epsilon * (1 - _ROOM))

    @property
    def broken(self) -> tuple[str, ...]:
        """The hypotheses of Theorem 2 that these data break, in words; empty if none."""
        words = [*self.broken_for_any_lengths]
        if self.shortest != self.longest and not self.causal:
            words.append(f"lengths differ: they run from {self.shortest} to {self.longest}")
        return tuple(words)

    @property
    def broken_for_any_lengths(self) -> tuple[str, ...]:
        """The broken hypotheses that matter for sequences of any lengths: under a causal mask, or by our Lemma 1."""
        words = []
        if self.repeating:
            words.append(
                f"{_sequences_named(self.repeating)} {'repeats' if len(self.repeating) == 1 else 'repeat'} a token "
                f"({plural(self.repeated_tokens, 'repetition')} in all)"
            )
        if self.zeros:
            sequence, position = self.zeros[0]
            more = f" (and {len(self.zeros) - 1} more places)" if len(self.zeros) > 1 else ""
            words.append(f"r_min = 0: token {position} of sequence {sequence} is the zero vector{more}")
        return tuple(words)

    def explain(self) -> str:
        """What was measured, whether Theorem 2 speaks about these data, and what remains if it does not."""
        lines = [
            f"{plural(self.sequences, 'sequence')}, {plural(self.tokens, 'token')}, "
            f"{self.vocabulary} of them different"
            + ("." if self.dimension is None else f", in dimension {self.dimension}.")
        ]
        if self.dimension is None:
            lines.append(
                "Tokens are ids: they have no norms and no distances. The constructor chooses the embedding, "
                "so it also determines r_min, r_max and ε."
            )
        else:
            lines.append(f"Norms run from r_min = {self.r_min:.6g} to r_max = {self.r_max:.6g}.")
        if self.closest_pair is not None:
            lines.append(
                f"The closest two different tokens are ε = {self.epsilon:.6g} apart: {two_places(*self.closest_pair)}."
            )
        if not self.broken:
            lengths = "any lengths, since each token sees a prefix" if self.causal else "equal lengths"
            return "\n".join([*lines, f"The hypotheses of Theorem 2 hold: no repeated token, no zero, {lengths}."])
        lines.append("Theorem 2 does not cover these data, because its hypotheses fail:")
        lines += [f"  - {words}" for words in self.broken]
        lines.append(
            "Theorem A may still hold: it asks only that the projection be injective on the vocabulary and "
            "the temperature nonzero, and it separates all contexts whose token frequencies differ."
        )
        return "\n".join(lines)


def two_places(one: TokenPlace, other: TokenPlace) -> str:
    """Where two tokens stand, in words."""
    return " and ".join(f"token {position} of sequence {sequence}" for sequence, position in (one, other))


def separation(X: object, *, causal: bool = False) -> Separation:
    """Measure the separation of the tokens of some data.

    - `X`: sequences, anything that `Sequences.of` takes.
    - `causal`: each token sees the prefix that ends there, so lengths may differ. The numbers are the same.

    Example:

        >>> measured = ml.separation([[[1.0, 0.0], [0.0, 2.0]]])
        >>> print(measured.r_min, measured.r_max)
        1.0 2.0
    """
    data = Sequences.of(X)
    vocabulary, rows = token_rows(data)
    first = np.empty(len(vocabulary), np.int64)
    first[rows[::-1]] = np.arange(len(rows))[::-1]  # the last assignment wins: the first appearance
    repeating, repeated = _repeats(data, rows)
    r_min = r_max = epsilon = pair = None
    zeros: tuple[TokenPlace, ...] = ()
    if data.vocabulary is None:
        size = norms(vocabulary)
        r_min, r_max = float(size.min()), float(size.max())
        null = np.flatnonzero(size[rows] == 0)
        zeros = tuple(zip(data.sequence[null].tolist(), data.position[null].tolist(), strict=True))
        closest = closest_pair(vocabulary)
        epsilon = math.inf if closest is None else closest.distance
        if closest is not None:
            places = sorted((int(first[closest.first]), int(first[closest.second])))
            pair = (data.place(places[0]), data.place(places[1]))
    return Separation(
        sequences=len(data),
        tokens=len(rows),
        vocabulary=len(vocabulary),
        shortest=int(data.lengths.min()),
        longest=int(data.lengths.max()),
        dimension=None if data.vocabulary is not None else int(data.tokens.shape[1]),
        r_min=r_min,
        r_max=r_max,
        epsilon=epsilon,
        closest_pair=pair,
        repeating=repeating,
        repeated_tokens=repeated,
        zeros=zeros,
        causal=causal,
    )


def token_rows(data: Sequences) -> tuple[Array, Ints]:
    """The tokens that occur, `(V,)` ids or `(V, d)` vectors, and each token's row among them, `(T,)`."""
    if data.vocabulary is None:
        return distinct_rows(data.tokens)
    ids, rows = np.unique(data.tokens, return_inverse=True)
    return ids, rows.reshape(-1).astype(np.int64)


def on_a_line(data: Sequences) -> Sequences:
    """The data with ids as vectors of one number: the i-th id that occurs, from 0, at `|V| + i`."""
    ids, rows = token_rows(data)
    return Sequences((len(ids) + rows)[:, None].astype(np.float64), data.lengths, None, data.labels)


def norms(vectors: Floats) -> Floats:
    """`‖x‖` of every row, scaled by its largest entry so that squares neither overflow nor vanish."""
    scale = np.abs(vectors).max(axis=1, initial=0.0)
    safe = np.where(scale > 0, scale, 1.0)
    with np.errstate(over="ignore"):
        length: Floats = scale * np.sqrt(((vectors / safe[:, None]) ** 2).sum(axis=1))
    return length


def _repeats(data: Sequences, rows: Ints) -> tuple[tuple[int, ...], int]:
    order = np.lexsort((rows, data.sequence))
    sequence, token = data.sequence[order], rows[order]
    again = (sequence[1:] == sequence[:-1]) & (token[1:] == token[:-1])
    return tuple(np.unique(sequence[1:][again]).tolist()), int(again.sum())


def _sequences_named(rows: tuple[int, ...]) -> str:
    named = ", ".join(str(row) for row in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    return f"sequence{'s' if len(rows) > 1 else ''} {named}{more}"
