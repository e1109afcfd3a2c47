"""The paper's theorems on given data: `theorem(X)`.

It measures the separation of the tokens, draws a direction `v`, carries out Theorem 2 twice (see `faithful`)
with the paper's worst case over directions and with what `v` really does, checks Theorem A's hypothesis on
`v` exactly, and measures the margin that float64 has at `λ · spread = 1`.

The measured r_min and ε are lowered and r_max is raised by 2^-40 of themselves: more than their rounding
errors, and enough to make the strict inequalities of the hypotheses true.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.table import as_table
from monolayer.theory.bounds import contextual_balls, good_direction, good_direction_bound, theorem2_balls
from monolayer.theory.contextual import frequency_classes
from monolayer.theory.faithful import MAX_BITS, MAX_TERMS, Construction, Head, Verdict
from monolayer.theory.injectivity import Injectivity, projection_injective
from monolayer.theory.separation import Separation, separation, token_rows

_ROOM = 2.0**-40
_ULPS = 1  # error of exp that the rounding bound allows for


@dataclass(frozen=True)
class Practical:
    """The same separation where it is built to last: float64, one temperature λ = 1/spread for all tokens.

    `gap` is the smallest difference of the context numbers of two sequences, `closest`, that share a token
    and differ in their token frequencies; `rounding` is the first-order bound of what rounding makes of two
    equal numbers. Measured, not proved.
    """

    lam: float
    gap: float
    rounding: float
    closest: tuple[int, int] | None

    @property
    def margin(self) -> float:
        """`gap / rounding`: above 1 float64 tells all contexts apart."""
        return self.gap / self.rounding if self.rounding > 0 else math.inf

    def rows(self) -> list[tuple[str, str]]:
        """(name, value) pairs for a table."""
        if math.isinf(self.gap):
            return [("float64 at λ·spread = 1", "no token has two contexts to tell apart")]
        return [
            ("float64 at λ·spread = 1: gap", f"{self.gap:.3g}"),
            ("float64 at λ·spread = 1: gap / rounding", f"{self.margin:.3g}"),
        ]


@dataclass(frozen=True)
class Theorem:
    """The paper's constants and theorems on given data; `rows()` for a table, `explain()` for people.

    `worst` and `measured` are None where Theorem 2 could not be carried out, and `refused` says why. `good`:
    the direction keeps the share of r_min and of ε that the paper's direction keeps at least.
    """

    separation: Separation
    embedding: str
    worst: Construction | None
    measured: Construction | None
    refused: str
    direction: tuple[float, ...]
    good: bool
    injectivity: Injectivity
    practical: Practical

    @property
    def verdict(self) -> Verdict:
        """Of the paper's construction: 'undecided' where it was not carried out, save for one token."""
        if self.worst is None:
            return "proved" if self.separation.vocabulary == 1 else "undecided"
        return self.worst.verdict

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """(name, value) pairs for a table."""
        data, exact = self.separation, self.injectivity
        rows = [
            ("sequences N", f"{data.sequences:,}"),
            ("longest n", f"{data.longest:,}"),
            ("different tokens |V|", f"{data.vocabulary:,}"),
            ("dimension d", f"{data.dimension}"),
            ("r_min, r_max, ε", f"{data.r_min:.6g}, {data.r_max:.6g}, {data.epsilon:.6g}"),
            ("hypotheses of Theorem 2", "; ".join(data.broken) or "hold"),
        ]
        for name, built in (("worst case", self.worst), ("measured direction", self.measured)):
            if built is None:
                rows.append((f"{name}", self.refused))
                continue
            rows += [
                (f"{name}: β", _power(built.bounds.log10_beta)),
                (f"{name}: δ", _power(built.bounds.log10_delta)),
                (f"{name}: bits δ needs", "none" if built.bounds.bits is None else f"{built.bounds.bits:,}"),
                (f"{name}: smallest separation", _powers(built.log10_separation)),
                (f"{name}: exceeds δ", f"{built.verdict} ({built.reason}{self._by_computation})"),
            ]
        return [
            *rows,
            ("Theorem A: vᵀ injective on V", "proved" if exact.injective else f"refuted: rows {exact.pair}"),
            *self.practical.rows(),
        ]

    @property
    def _by_computation(self) -> str:
        """What a verdict rests on where the hypotheses fail: the construction was carried out all the same."""
        return "; computed for these data, which the theorem does not cover" if self.separation.broken else ""

    def explain(self) -> str:
        """What the theorems say about these data, in sentences."""
        lines = [words for words in (self.embedding, self.separation.explain()) if words]
        for name, built in (("worst case", self.worst), ("measured direction", self.measured)):
            if built is None:
                continue
            beta, delta = _power(built.bounds.log10_beta), _power(built.bounds.log10_delta)
            line = f"Construction of Theorem 2, {name}: β = {beta}, δ = {delta}"
            if built.bounds.bits is not None:
                line += f", which a significand of {built.bounds.bits:,} bits can resolve"
            if built.log10_separation is not None:
                line += f". The smallest separation is {_powers(built.log10_separation)}"
            lines.append(f"{line}: {built.verdict}, {built.reason}{self._by_computation}.")
        if self.refused:
            lines.append(f"Theorem 2 was not carried out: {self.refused}.")
        elif not self.good:
            lines.append("No draw met the bound that the paper's direction meets; the verdicts do not rest on it.")
        if self.injectivity.injective:
            lines.append(
                "Theorem A holds: vᵀ is injective on the vocabulary, checked exactly. So at every algebraic "
                "λ ≠ 0 contexts whose token frequencies differ get different values, whatever else is broken."
            )
        else:
            lines.append(
                f"Theorem A does not hold for this direction: vᵀ has one value at the vocabulary rows "
                f"{self.injectivity.pair}. Another seed draws another direction."
            )
        practical = self.practical
        if math.isinf(practical.gap):
            lines.append("No token has two contexts, so there is nothing for the attention to tell apart.")
        else:
            lines.append(
                f"In float64 at λ·spread = 1 the smallest gap is {practical.gap:.3g}, {practical.margin:.3g} "
                "times the bound of the rounding (measured, not proved)."
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; what is infinite becomes None."""
        plain = asdict(self)
        plain["verdict"] = self.verdict
        plain["separation"]["broken"] = list(self.separation.broken)
        plain["practical"]["margin"] = self.practical.margin
        for name, built in (("worst", self.worst), ("measured", self.measured)):
            if built is not None:
                plain[name]["bounds"]["bits"] = built.bounds.bits
        result: dict[str, Any] = _finite(plain)
        return result


def theorem(
    X: Any,
    *,
    embedding: ArrayLike | None = None,
    max_bits: int = MAX_BITS,
    max_terms: int = MAX_TERMS,
    seed: int = 0,
) -> Theorem:
    """Carry out Theorem 2 on `X`, anything that `Sequences.of` takes, and check Theorem A exactly.

    Ids are placed by `embedding` `(V, d)` or `(V,)`, by row number; without one the i-th id that occurs,
    from 0, stands at `|V| + i` on the line. The enclosure sorts contexts by proved comparisons. It forms
    about `max_terms` products at most, a microsecond each, and covers the first sequences only where all
    would take more; the verdict then says so, and is 'undecided' unless refuted. Precision doubles up to
    `max_bits`.
    """
    data = Sequences.of(X)
    data, words, keys = _place_ids(data, embedding, seed)
    measured = separation(data)
    vocabulary, rows = token_rows(data)
    direction = good_direction(vocabulary, seed=seed)
    injectivity = projection_injective(vocabulary, direction.v)
    worst = tight = None
    good = False
    refused = _refusal(measured, injectivity)
    if not refused:
        n, size, dim = measured.longest, *vocabulary.shape
        r_min, epsilon = (float(value or 0) * (1 - _ROOM) for value in (measured.r_min, measured.epsilon))
        r_max = float(measured.r_max or 0) * (1 + _ROOM)
        share = good_direction_bound(size, dim)
        good = direction.smallest >= share * r_min and direction.gap >= share * epsilon
        head = Head(data, vocabulary, rows, direction.v, r_max, epsilon)
        worst = head.carry_out(
            lambda: theorem2_balls(size, dim, n, arb(r_min), arb(r_max), arb(epsilon)), max_bits, max_terms
        )
        tight = head.carry_out(
            lambda: contextual_balls(n, head.g(), head.largest(), arb(r_max), arb(epsilon)),
            max_bits,
            max_terms,
        )
    practical = _practical(data, rows, (vocabulary @ direction.v)[rows] if keys is None else keys)
    return Theorem(measured, words, worst, tight, refused, tuple(direction.v.tolist()), good, injectivity, practical)


def _place_ids(data: Sequences, embedding: ArrayLike | None, seed: int) -> tuple[Sequences, str, Floats | None]:
    """Vector data, how ids became vectors, and random keys `(T,)` for ids that nobody placed."""
    if data.vocabulary is None:
        if embedding is not None:
            raise DataError("the tokens are vectors already: an embedding is for ids")
        return data, "", None
    ids, rows = token_rows(data)
    if embedding is None:
        places = (len(ids) + np.arange(len(ids), dtype=np.float64))[:, None]
        words = (
            f"Ids were placed on a line: the i-th of the {len(ids)} that occur, from 0, at {len(ids)} + i. "
            "The margin in float64 is that of random keys in [−1, 1], which a builder would draw."
        )
        keys = np.random.default_rng(seed).uniform(-1, 1, len(ids))
        return Sequences(places[rows], data.lengths, None), words, keys[rows]
    table = np.asarray(embedding, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) <= int(ids.max()):
        raise DataError(
            f"the embedding has shape {np.shape(embedding)}; it needs a row for each id, so at least "
            f"{int(ids.max()) + 1} rows"
        )
    placed = Sequences(table[data.tokens], data.lengths, None)
    if len(token_rows(placed)[0]) < len(ids):
        raise DataError("the embedding puts two ids in one place: they would be the same token")
    return placed, f"Ids were placed by the given embedding, in dimension {table.shape[1]}.", None


def _refusal(measured: Separation, injectivity: Injectivity) -> str:
    if measured.vocabulary == 1:
        return "there is one token only, so no two contexts differ and nothing has to be separated"
    if not measured.norms_positive:
        return "r_min = 0, and β divides by it; shift the tokens away from the origin"
    if not injectivity.injective:
        return "vᵀ has one value at two tokens; another seed draws another direction"
    return ""


def _practical(data: Sequences, rows: Ints, s: Floats) -> Practical:
    """Constant query: one number `B(λ; s)` a sequence, compared among the sequences that share a token."""
    spread = float(np.ptp(s))
    lam = 1 / spread if spread > 0 else 1.0
    weights = np.exp(lam * (s - s.max()))
    starts = data.offsets[:-1]
    context = np.add.reduceat(s * weights, starts) / np.add.reduceat(weights, starts)
    classes = frequency_classes(data.sequence, rows, len(data))
    order = np.lexsort((context[data.sequence], rows))
    sequence = data.sequence[order]
    differ = (np.diff(rows[order]) == 0) & (np.diff(classes[sequence]) != 0)
    gaps = np.where(differ, np.diff(context[sequence]), np.inf)
    reach = float(np.abs(s).max())
    # Any evaluation is off by at most 2 max|s| u (n + 4 max|λs| + 2g + 2) to first order, exp being good to
    # g ulp.
    rounding = 2 * 2 * reach * 2.0**-53 * (int(data.lengths.max()) + 4 * lam * reach + 2 * _ULPS + 2)
    if not differ.any():
        return Practical(lam, math.inf, rounding, None)
    at = int(gaps.argmin())
    return Practical(lam, float(gaps[at]), rounding, (int(sequence[at]), int(sequence[at + 1])))


def _power(log10: float) -> str:
    return "0" if log10 == -math.inf else f"10^{log10:,.6g}"


def _powers(enclosure: tuple[float, float] | None) -> str:
    if enclosure is None:
        return "unknown"
    low, high = enclosure
    middle = f"{(low + high) / 2:.10g}"
    return f"10^{middle}" if high - low < 1e-9 * abs(low) else f"between 10^{low:.10g} and 10^{high:.10g}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
