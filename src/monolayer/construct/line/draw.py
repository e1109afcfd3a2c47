"""Directions and temperature, drawn at random and chosen by measurement.

Any keys that tell the tokens apart and any float `λ ≠ 0` separate all multisets in exact arithmetic
(Theorem A in docs/theorems.md); what a draw decides is how far apart the contexts lie in floats. So several
are drawn, the contexts of the data, or of a sample of many, are computed under each, and the draw with the widest
gap goes first.

Notation: `V` tokens in the alphabet, `L` positions, `s` keys in [−1, 1], `t` codes, `c` context ids.

What is drawn are arrays. Tokens may lie anywhere (`monolayer/arrays.py`); what is computed of them lies beside them.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats, Ints, Numbers, beside, ends_of, float64, home, in_order, pick, whole_numbers
from monolayer.construct.line.alphabet import UNIT, Alphabet, Proposal
from monolayer.construct.line.exponential import boltzmann_term, boltzmann_terms
from monolayer.construct.powers import power_below
from monolayer.data.number_formats import FORMATS
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError
from monolayer.kernels import digits_between
from monolayer.model.contexts import contexts, spread
from monolayer.model.fields import Test

CodeLayout = Literal["cells", "mixed"]

EXP_ULPS = 4
"""How many units in the last place `exp` may be wrong; common libraries are within 1.

`checker/rounding.py` assumes the same number, by the same name; neither side imports the other."""
TEMPERATURES = (1.0, 2.0, 0.5, 4.0)
"""λ, with keys in [−1, 1]: λ times the spread of the keys stays near 1, far from hardmax."""
HOTTEST = 700.0
"""The largest |λ|: `e^700` is 10^304, and 17,000 of them add up to a float64."""
SAMPLE = 1 << 20
"""About how many tokens draws are compared by."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """What the contexts are made of: `rows` `(T,)` of the alphabet, `lengths` `(N,)`, and the rules of the model.

    `position` `(T,)` is None without positions; `temperature` is the λ of every draw, or None: as it is drawn.
    `most`: the longest of all sequences, where these are some of them. `dtype`: the format of the weights, so that what
    is drawn are numbers of that format.
    """

    rows: Numbers
    lengths: Numbers
    alphabet: Alphabet
    position: Numbers | None
    causal: bool
    temperature: float | None = None
    most: int | None = None
    dtype: Literal["float64", "float32"] = "float64"

    @property
    def unit(self) -> float:
        """`u`, the unit roundoff of the format."""
        return float(np.finfo(self.dtype).eps) / 2.0

    @cached_property
    def longest(self) -> int:
        """The number of tokens of the longest sequence that the draw must allow."""
        return int(self.lengths.max()) if self.most is None else self.most

    @cached_property
    def offsets(self) -> Numbers:
        """Where each sequence begins among the tokens `(N,)`."""
        return self.lengths.cumsum(0) - self.lengths

    def sample(self) -> Tokens:
        """The sequences by which draws are compared: all of them, or some at random."""
        rows = sample_rows(len(self.lengths), len(self.rows))
        return self if len(rows) == len(self.lengths) else self.some(rows)

    def some(self, sequences: Ints) -> Tokens:
        """The same tokens restricted to these sequences, given by their numbers."""
        chosen = beside(sequences, self.rows)
        lengths, starts = self.lengths[chosen], self.offsets[chosen]
        places = whole_numbers(int(lengths.sum()), lengths) + spread(starts - (lengths.cumsum(0) - lengths), lengths)
        position = None if self.position is None else self.position[places]
        return replace(self, rows=self.rows[places], lengths=lengths, position=position, most=self.longest)

    def at_home(self) -> Tokens:
        """The same tokens as arrays on the processor."""
        position = None if self.position is None else home(self.position)
        return replace(self, rows=home(self.rows), lengths=home(self.lengths), position=position, most=self.longest)


class Digits(NamedTuple):
    """Whole numbers `(T,)`, as `arrays.short` gives them, that are `low` less than those that are meant."""

    numbers: Numbers
    low: float


@dataclass(frozen=True, eq=False)
class Draw:
    """Keys and codes of an alphabet, those of positions `(L,)` and of the begin token, and a temperature."""

    proposal: Proposal
    position_key: Array | None
    position_code: Array | None
    bos_key: float
    temperature: float
    layout: CodeLayout
    spaced: bool
    """Whether every token has a cell of its own in `z`: codes are whole numbers apart."""
    unit: float = UNIT
    """Unit roundoff of the format that the model computes in; here everything is computed in float64."""
    known: tuple[Tokens, Numbers] | None = None
    """The contexts of some tokens, where they were computed already."""
    kappa: float | None = None
    """κ, where a draw is reused; None: chosen for the data."""
    seed: int = 0
    number: int = 0
    """Which of the draws of a seed and a layout this is."""

    @property
    def whole_codes(self) -> bool:
        """Whether the code of every token, its position included, is a whole number."""
        return self.spaced and (self.position_code is None or self.layout == "cells")

    @cached_property
    def _terms(self) -> tuple[Floats, Floats]:
        """`e^{λ s}` and `s e^{λ s}` of every token of the alphabet `(V,)`."""
        return boltzmann_terms(self.proposal.key.astype(np.float64), self.temperature)

    def contexts(self, tokens: Tokens) -> Numbers:
        """`B(λ; s)`: `(N,)`, or `(T,)` for a causal model; not to be written to."""
        if self.known is not None and self.known[0] is tokens:
            return self.known[1]
        weight = pick(self._terms[0], tokens.rows)
        if tokens.position is None or self.position_key is None:
            moment = pick(self._terms[1], tokens.rows)
        else:
            # e^{λ s} e^{λ p} for e^{λ (s + p)}: as many `exp` as names, not as tokens. The weight is then wrong by
            # (2R + 5) u at most: R for the scores, R for rounding s + p, 2 for each `exp`, 1 for the product. The bound
            # `context_error` allows (4R + 2g) u.
            place, _ = boltzmann_terms(self.position_key.astype(np.float64), self.temperature)
            weight *= pick(place, tokens.position)
            moment = self.keys(tokens.rows, tokens.position) * weight
        return contexts(weight, moment, tokens.lengths, boltzmann_term(self.bos_key, self.temperature), tokens.causal)

    def averages(self, value: Floats, bos: float, tokens: Tokens) -> Numbers:
        """What the head returns in place of contexts if it averages other values: those of tokens `(T,)`, and `bos`."""
        weight, _ = boltzmann_terms(self.keys(tokens.rows, tokens.position), self.temperature)
        first, _ = boltzmann_term(self.bos_key, self.temperature)
        return contexts(weight, weight * value, tokens.lengths, (first, first * bos), tokens.causal)

    def keys(self, rows: Numbers, position: Numbers | None) -> Numbers:
        """`s` of tokens `(T,)`: the sum with that of its position is one rounded sum of the format, as in the model."""
        key = pick(self.proposal.key, rows)
        if position is not None and self.position_key is not None:
            key += pick(self.position_key, position)
        return float64(key)

    def codes(self, tokens: Tokens) -> Numbers:
        """The code `t` of every token `(T,)`, with that of its position added."""
        code = pick(self.proposal.code, tokens.rows)
        if tokens.position is not None and self.position_code is not None:
            code += pick(self.position_code, tokens.position)
        return float64(code)

    def digits(self, tokens: Tokens) -> Digits | None:
        """`codes` that are whole numbers, counted from the least; None where they are too far apart for that."""
        alone = tokens.position is None or self.position_code is None
        code = self.proposal.code.astype(np.float64) if alone else self.codes(tokens)
        low, high = ends_of(code)
        if not high - low < 2.0**32:
            return None
        digits, low = digits_between(code, low, high, tokens.rows)
        return Digits(pick(digits, tokens.rows) if alone else digits, low)

    def kappa_for(self, tokens: Tokens, reach: float) -> float:
        """κ, by which contexts that differ by `reach` at most stay within half the gap between two codes."""
        if self.kappa is not None:
            return self.kappa
        room = 1.0 if self.layout == "mixed" or self.spaced else code_gap(self, self.codes(tokens))
        return scale(room, reach, self.context_error(tokens))

    def context_error(self, tokens: Tokens) -> float:
        """Bound on the rounding error of a context id in any order of summation (docs/proofs.md).

        `2u (n + 4R + 2g + 2)` with `R = |λ|`, for keys in [−1, 1], `n` tokens and the begin token; a key wrong by `η`
        moves the Boltzmann operator by at most `η (1 + 2R)`. Of ids, whose keys are exact, also for other values in
        [−1, 1] that are averaged in place of the keys.
        """
        rounding = 2.0 * self.unit * (tokens.longest + 1 + 4.0 * abs(self.temperature) + 2.0 * EXP_ULPS + 2.0)
        return rounding + self.proposal.lift_error * (1.0 + 2.0 * abs(self.temperature))

    def point_error(self, kappa: float, tokens: Tokens) -> float:
        """Bound on the rounding error of `t + κ c` before its last operation."""
        return kappa * self.context_error(tokens) + self.proposal.lift_error


def scale(room: float, reach: float, error: float) -> float:
    """κ: contexts that differ by `reach` at most stay within half the `room` of a code.

    Those that differ by no more than both their rounding errors may all be equal: then there is nothing to scale.
    """
    return float(power_below(0.5 * room / reach)) if reach > 2.0 * error else 1.0


def code_gap(draw: Draw, code: Numbers) -> float:
    """Distance of the closest two codes that are more than a rounding error apart."""
    ordered = in_order(code)
    gap = ordered[1:] - ordered[:-1]
    gap = gap[gap > 4.0 * draw.proposal.lift_error]
    return float(gap.min()) if len(gap) else 1.0


def sample_rows(sequences: int, tokens: int) -> Ints:
    """Which of so many sequences are compared: all, or one at random of each of as many equal stretches."""
    count = max(1, min(sequences, sequences * SAMPLE // tokens))
    begin = np.arange(count + 1) * sequences // count
    # The largest number below 1 times a whole number rounds to one below that.
    return begin[:-1] + (np.random.default_rng(0).random(count) * np.diff(begin)).astype(np.int64)


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy's generators do not take."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"seed must be a whole number from 0 on, not {seed!r}")


def check_stored(known: JsonObject, kinds: Mapping[str, Test]) -> None:
    """Raise a `ValueError` for a field of a stored draw that fails its test."""
    for name, fits in kinds.items():
        if not fits(known[name]):
            raise ValueError(f"{name} is {reprlib.repr(known[name])}")


def whole_from(least: int) -> Test:
    """A test for whole numbers from `least` on."""
    return lambda value: type(value) is int and value >= least


def positive(value: object) -> bool:
    """Whether a value is a float above 0, so far from the ends of float64 that products of two are finite."""
    return type(value) is float and 2.0**-500 < value < 2.0**500


def check_temperature(temperature: float | None) -> None:
    """Refuse a temperature λ that is not finite or is too large; 0 stands for the mean."""
    if temperature is not None and not (isinstance(temperature, int | float) and math.isfinite(temperature)):
        raise DataError(f"temperature is λ, a finite number (0: the mean of the keys), not {temperature!r}")
    if temperature is not None and abs(temperature) > HOTTEST:
        raise DataError(
            f"temperature is λ, and sums of e^λ must be floats: at most {HOTTEST:g} in size, not {temperature!r}. "
            "Contexts are far apart near 1, and pile up long before that"
        )


def averaging(temperature: float) -> str:
    """What else a collision may be due to, for an error message; nothing unless λ = 0."""
    if temperature != 0.0:
        return ""
    return (
        ". At temperature=0 the head averages: keys that are sums, of token and position or over the coordinates of a "
        "cell, then agree for different contexts (docs/theorems.md, What softmax is for). Leave temperature out"
    )


def draws(tokens: Tokens, layout: CodeLayout, count: int, seed: int, *, measured: bool = True) -> Iterable[Draw]:
    """`count` draws, the most promising first: most contexts told apart, then the widest gap between two.

    Without measuring them, as they come: for points so few that nearly every draw separates them.
    """
    every = (drawn(tokens, layout, number, seed) for number in range(count))
    if not measured:
        return every
    ranked: list[tuple[tuple[int, float], Draw]] = []
    for draw in every:
        context = draw.contexts(tokens)
        quality = _quality(draw, tokens, context)
        if not tokens.causal and all(quality > other for other, _ in ranked):
            # One number per sequence, and what is asked for next of the best draw.
            ranked = [(other, replace(each, known=None)) for other, each in ranked]
            draw = replace(draw, known=(tokens, context))
        ranked.append((quality, draw))
    return [draw for _, draw in sorted(ranked, key=lambda pair: pair[0], reverse=True)]


def _quality(draw: Draw, tokens: Tokens, context: Numbers) -> tuple[int, float]:
    """How many contexts are told apart, and how far the closest two of those are, as a share of all they span."""
    ordered = in_order(context)
    gap = ordered[1:] - ordered[:-1]
    apart = gap[gap > 2.0 * draw.context_error(tokens)]
    return len(apart), float(apart.min() / (ordered[-1] - ordered[0])) if len(apart) else 0.0


def drawn(tokens: Tokens, layout: CodeLayout, number: int, seed: int) -> Draw:
    """Draw `number` of this seed and layout.

    It depends on the alphabet, the longest sequence and the rules, not on the tokens.

    Tokens come last, so that a draw for more ids gives the others what they had.
    """
    random = np.random.default_rng([seed, ("cells", "mixed").index(layout), number])
    temperature = TEMPERATURES[number % len(TEMPERATURES)] if tokens.temperature is None else tokens.temperature
    kind = np.dtype(tokens.dtype)
    temperature = float(kind.type(temperature))
    # With positions the key is a sum of two parts: each gets half of [−1, 1].
    share = 1.0 if tokens.position is None else 0.5
    alphabet = tokens.alphabet
    spaced = alphabet.spaced and layout == "cells"
    bos_key = float(_multiples(random.uniform(-1.0, 1.0, 1), alphabet.spacing).astype(kind)[0])
    position_key = position_code = None
    if tokens.position is not None:
        position_key = _multiples(random.uniform(-share, share, tokens.longest), alphabet.spacing).astype(kind)
        position_code = np.arange(tokens.longest, dtype=np.float64)
        if not spaced:
            position_code = _multiples(random.uniform(0.0, 0.25, tokens.longest), 2.0**20 * alphabet.spacing)
        position_code = position_code.astype(kind)
    # One cell per token, or one per (token, position) pair when positions get cells too.
    stride = tokens.longest if spaced and tokens.position is not None else 1
    proposal = alphabet.propose(random, share, stride)
    if not FORMATS[tokens.dtype].long:  # of ids alone
        proposal = Proposal(proposal.key.astype(kind), proposal.code.astype(kind))
    draw = Draw(proposal, position_key, position_code, bos_key, temperature, layout, alphabet.spaced, tokens.unit)
    return replace(draw, seed=seed, number=number)


def _multiples(values: Floats, spacing: float) -> Floats:
    """`values` rounded to multiples of `spacing`, unless that is 0."""
    return np.round(values / spacing) * spacing if spacing else values
