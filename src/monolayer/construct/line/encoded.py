"""Tokens under a draw: their keys and codes, the contexts of their sequences, and how far all of these may round.

Several draws are tried. The contexts of the data, or of a sample of many, are computed under each, and the draw with
the widest gap between two contexts goes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monolayer.arrays import Floats, Numbers, float64, in_order, is_array, pick
from monolayer.construct.line.draw import EXP_ULPS, CodeLayout, Draw, drawn
from monolayer.construct.line.exponential import boltzmann_terms
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.powers import power_below
from monolayer.kernels import Digits, digits_of, wide_gaps
from monolayer.model.contexts import contexts, contexts_by_row


@dataclass(frozen=True, eq=False)
class Encoded:
    """`tokens` with the keys and codes of `draw`. Numbers `(T,)` are one per token, and lie where the tokens do."""

    draw: Draw
    tokens: Tokens

    def over(self, tokens: Tokens) -> Encoded:
        """Other tokens under the same draw. Contexts of a causal model, one per token, are computed again, not kept."""
        return self if tokens is self.tokens and not tokens.causal else Encoded(self.draw, tokens)

    @cached_property
    def contexts(self) -> Numbers:
        """`B(λ; s)`: `(N,)`, or `(T,)` for a causal model; not to be written to."""
        draw, tokens = self.draw, self.tokens
        if tokens.position is None or draw.position_key is None:
            return contexts_by_row(draw.terms, tokens.rows, tokens.lengths, tokens.causal, tokens.width)
        # e^{λ s} e^{λ p} for e^{λ (s + p)}: as many `exp` as names, not as tokens. The weight is then wrong by
        # (2R + 5) u at most: R for the scores, R for rounding s + p, 2 for each `exp`, 1 for the product. The bound
        # `context_error` allows (4R + 2g) u.
        place, _ = boltzmann_terms(draw.position_key.astype(np.float64), draw.temperature)
        weight = pick(draw.terms[0], tokens.rows)
        weight *= pick(place, tokens.position)
        return contexts(weight, self.keys * weight, tokens.lengths, draw.begin, tokens.causal)

    def averages(self, value: Floats, bos: float) -> Numbers:
        """What the head returns in place of contexts if it averages other values: those of tokens `(T,)`, and `bos`."""
        weight, _ = boltzmann_terms(self.keys, self.draw.temperature)
        first, _ = self.draw.begin
        return contexts(weight, weight * value, self.tokens.lengths, (first, first * bos), self.tokens.causal)

    @property
    def keys(self) -> Numbers:
        """`s` of tokens `(T,)`: the sum with that of its position is one rounded sum of the format, as in the model."""
        key = pick(self.draw.proposal.key, self.tokens.rows)
        if self.tokens.position is not None and self.draw.position_key is not None:
            key += pick(self.draw.position_key, self.tokens.position)
        return float64(key)

    @property
    def codes(self) -> Numbers:
        """The code `t` of every token `(T,)`, with that of its position added."""
        code = pick(self.draw.proposal.code, self.tokens.rows)
        if self.tokens.position is not None and self.draw.position_code is not None:
            code += pick(self.draw.position_code, self.tokens.position)
        return float64(code)

    def digits(self) -> Digits | None:
        """`codes` that are whole numbers, counted from the least; None where they are too far apart for that."""
        rows = self.tokens.rows
        if self.tokens.position is not None and self.draw.position_code is not None:
            return digits_of(self.codes, rows)
        table = digits_of(self.draw.proposal.code.astype(np.float64), rows)
        return None if table is None else Digits(pick(table.numbers, rows), table.low)

    def kappa_for(self, reach: float) -> float:
        """κ, by which contexts that differ by `reach` at most stay within half the gap between two codes."""
        draw = self.draw
        if draw.kappa is not None:
            return draw.kappa
        return scale(1.0 if draw.layout == "mixed" or draw.spaced else self.code_gap(), reach, self.context_error)

    def code_gap(self) -> float:
        """Distance of the closest two codes that are more than a rounding error apart."""
        ordered = in_order(self.codes)
        gap = ordered[1:] - ordered[:-1]
        gap = gap[gap > 4.0 * self.draw.proposal.lift_error]
        return float(gap.min()) if len(gap) else 1.0

    @property
    def context_error(self) -> float:
        """Bound on the rounding error of a context id in any order of summation (docs/proofs.md).

        `2u (n + 4R + 2g + 2)` with `R = |λ|`, for keys in [−1, 1], `n` tokens and the begin token; a key wrong by `η`
        moves the Boltzmann operator by at most `η (1 + 2R)`. Of ids, whose keys are exact, also for other values in
        [−1, 1] that are averaged in place of the keys.
        """
        draw = self.draw
        rounding = 2.0 * draw.unit * (self.tokens.longest + 1 + 4.0 * abs(draw.temperature) + 2.0 * EXP_ULPS + 2.0)
        return rounding + draw.proposal.lift_error * (1.0 + 2.0 * abs(draw.temperature))

    def point_error(self, kappa: float) -> float:
        """Bound on the rounding error of `t + κ c` before its last operation."""
        return kappa * self.context_error + self.draw.proposal.lift_error

    def spacing(self) -> Numbers:
        """How many contexts are told apart, how far the closest two of those are, and how far all: three numbers."""
        return wide_gaps(in_order(self.contexts), 2.0 * self.context_error)


def scale(room: float, reach: float, error: float) -> float:
    """κ: contexts that differ by `reach` at most stay within half the `room` of a code.

    Those that differ by no more than both their rounding errors may all be equal: then there is nothing to scale.
    """
    return float(power_below(0.5 * room / reach)) if reach > 2.0 * error else 1.0


def draws(tokens: Tokens, layout: CodeLayout, count: int, seed: int, *, measured: bool = True) -> Iterable[Encoded]:
    """`tokens` under `count` draws: first the one that tells most contexts apart, among equals the widest gap.

    Not `measured`, they come as they are drawn: for points so few that nearly every draw separates them.
    """
    every = (Encoded(drawn(tokens, layout, number, seed), tokens) for number in range(count))
    if not measured:
        return every
    ranked: list[tuple[Numbers, Encoded]] = []
    for encoded in every:
        spacing = encoded.spacing()
        # Contexts of a causal model, one per token, and those of a draw that is not the best are not kept. (Whether it
        # is the best a device is not asked before all draws are on their way.)
        worse = is_array(spacing) and any(_quality(spacing) <= _quality(other) for other, _ in ranked)
        ranked.append((spacing, Encoded(encoded.draw, tokens) if worse or tokens.causal else encoded))
    return [encoded for _, encoded in sorted(ranked, key=lambda pair: _quality(pair[0]), reverse=True)]


def _quality(spacing: Numbers) -> tuple[float, float]:
    """How many contexts are told apart, and how far the closest two of those are, as a share of all they span."""
    count, least, reach = spacing.tolist()
    return count, least / reach if count else 0.0
