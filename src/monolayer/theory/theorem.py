"""The paper's theorems on given data: `theorem(X)`.

It measures the separation of the tokens, draws a direction `v`, carries out Theorem 2 three times (see `faithful`):
with the paper's worst case over directions, with what `v` really does, and with that and our sharper Lemma 1. It checks
Theorem A's hypothesis on `v` exactly. `theorem(X, causal=True)` does the same for a head under a causal mask.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from monolayer.data import Sequences
from monolayer.table import as_table
from monolayer.theory.bounds import contextual_constants, good_direction, sharper_constants, theorem2
from monolayer.theory.faithful import MAX_BITS, MAX_TERMS, PaperConstruction, PaperHead
from monolayer.theory.injectivity import Injectivity, projection_injective
from monolayer.theory.separation import Separation, on_a_line, separation, token_rows
from monolayer.theory.shown import as_html, as_latex, bytes_of_bits, enclosed, power_of_ten
from monolayer.theory.verdicts import Verdict

LONG_NUMBER = 8_000
"""Bits from which a table says how much memory one number takes."""


@dataclass(frozen=True)
class Theorem:
    """The paper's constants and theorems on given data; `rows()` for a table, `explain()` for people.

    `worst`, `measured` and `sharper` are heads with three values of β: of the paper's worst case, for the direction at
    hand, and for it by our Lemma 1. They are None where Theorem 2 could not be carried out, and `refused` says why.
    """

    separation: Separation
    embedding: str
    worst: PaperConstruction | None
    measured: PaperConstruction | None
    sharper: PaperConstruction | None
    refused: str
    direction: tuple[float, ...]
    injectivity: Injectivity

    @property
    def verdict(self) -> Verdict:
        """Of the paper's construction: 'undecided' where it was not carried out, save for one token."""
        if self.worst is None:
            return "proved" if self.separation.vocabulary == 1 else "undecided"
        return self.worst.verdict

    @property
    def constructions(self) -> dict[str, PaperConstruction | None]:
        """The three heads under the names that tables give them."""
        return {"worst case": self.worst, "measured direction": self.measured, "our Lemma 1": self.sharper}

    __repr__ = as_table
    _repr_html_ = as_html
    latex = as_latex

    def rows(self) -> list[tuple[str, str]]:
        """What was found as (name, value) pairs, one per row of a table."""
        data, exact = self.separation, self.injectivity
        rows = data.rows()
        if data.causal:
            rows.append(("context of a token", "the prefix that ends there"))
        for name, built in self.constructions.items():
            if built is None:
                rows.append((name, self.refused))
                continue
            broken = data.broken_for_any_lengths if built is self.sharper else data.broken
            # Where the hypotheses fail, the construction was carried out all the same.
            beyond = "; computed for these data, which the theorem does not cover" if broken else ""
            rows += [
                (f"{name}: β", power_of_ten(built.bounds.log10_beta)),
                (f"{name}: δ", power_of_ten(built.bounds.log10_delta)),
                (f"{name}: bits δ needs", _bits(built.bounds.bits)),
                (
                    f"{name}: smallest separation",
                    "unknown" if built.log10_separation is None else enclosed(*built.log10_separation),
                ),
                (f"{name}: exceeds δ", f"{built.verdict} ({built.reason}{beyond})"),
            ]
        return [*rows, ("Theorem A: vᵀ injective on V", "proved" if exact.injective else f"refuted: rows {exact.pair}")]

    def explain(self) -> str:
        """What the table does not say: where tokens stand, which hypotheses fail, and what holds all the same."""
        lines = [words for words in (self.embedding, self.separation.explain()) if words]
        if self.refused:
            lines.append(f"Theorem 2 was not carried out: {self.refused}.")
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
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain numbers, strings and lists; what is infinite becomes None."""
        plain = asdict(self)
        plain["verdict"] = self.verdict
        plain["separation"]["broken"] = list(self.separation.broken)
        for name in ("worst", "measured", "sharper"):
            if plain[name] is not None:
                plain[name]["bounds"]["bits"] = getattr(self, name).bounds.bits
        result: dict[str, object] = json.loads(json.dumps(plain), parse_constant=lambda _: None)
        return result


def theorem(
    X: object, *, causal: bool = False, max_bits: int = MAX_BITS, max_terms: int = MAX_TERMS, seed: int = 0
) -> Theorem:
    """Carry out Theorem 2 on the data `X`, and check Theorem A exactly.

    The i-th id that occurs, from 0, stands at `|V| + i` on the line; to place ids elsewhere, give their vectors. The
    enclosure sorts contexts by proved comparisons.

    - `X`: sequences, anything that `Sequences.of` takes.
    - `causal`: the head has a causal mask: a token sees the prefix that ends there, so lengths may differ.
    - `max_bits`: the largest precision; it doubles up to there.
    - `max_terms`: data that need more than about so many products, a microsecond each, stay 'undecided'.
    - `seed`: of the random direction `v`.

    Example:

        >>> print(ml.theorem([["a", "b"], ["a", "c"]]).verdict)
        proved
    """
    data, words = Sequences.of(X), ""
    if data.vocabulary is not None:
        data = on_a_line(data)
        words = "Ids were placed on a line: the i-th of the |V| that occur, from 0, at |V| + i."
    measured = separation(data, causal=causal)
    vocabulary, rows = token_rows(data)
    direction = good_direction(vocabulary, seed=seed)
    injectivity = projection_injective(vocabulary, direction.v)
    worst = tight = sharper = None
    refused = _why_refused(measured, injectivity)
    if not refused:
        n, size, dim = measured.longest, *vocabulary.shape
        r_min, r_max, epsilon = strict = measured.strict()
        head = PaperHead(data, vocabulary, rows, direction.v, strict, causal=causal)
        worst = head.carry_out(lambda: theorem2(size, dim, n, r_min, r_max, epsilon), max_bits, max_terms)
        tight = head.carry_out(
            lambda: contextual_constants(n, head.g(), head.largest(), r_max, epsilon), max_bits, max_terms
        )
        sharper = head.carry_out(
            lambda: sharper_constants(n, head.g(), head.largest(), r_max, epsilon), max_bits, max_terms
        )
    return Theorem(measured, words, worst, tight, sharper, refused, tuple(direction.v.tolist()), injectivity)


def _why_refused(measured: Separation, injectivity: Injectivity) -> str:
    if measured.vocabulary == 1:
        return "there is one token only, so no two contexts differ and nothing has to be separated"
    if measured.r_min == 0:
        return "r_min = 0, and β divides by it; shift the tokens away from the origin"
    if not injectivity.injective:
        return "vᵀ has one value at two tokens; another seed draws another direction"
    return ""


def _bits(bits: int | None) -> str:
    if bits is None:
        return "none"
    return f"{bits:,}" if bits < LONG_NUMBER else f"{bits:,}, which is {bytes_of_bits(bits)} per number"
