"""Theorem 2 carried out: the paper's head on given data, and its smallest separation, enclosed.

The head has score scale β, unit direction `v`, and output weight `w = ε/(4 r_max)` along `v`. Its outputs
differ by

- one token in two contexts: `w |B(λ_k; s) − B(λ_k; t)|` with `s = vᵀx`, `λ_k = β vᵀx_k`: see `enclosure`;
- two tokens: the attention moves each by at most `w S`, `S = max |vᵀx| ≤ r_max`, so by `ε − 2wS ≥ ε/2` or
  more, and the closest two tokens by no more than `ε + 2wS`.

Floats are taken as they are: `vᵀx` is an exact rational number, `v` is divided by its exact length, and β is
rounded up to 64 bits, so that every λ is algebraic and Theorem A applies to the head that is measured.

Under a causal mask the contexts of a token are the prefixes that end with it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.theory.balls import Ball, interval, precision
from monolayer.theory.bounds import MappingConstants
from monolayer.theory.enclosure import Multiset, UndecidedError, smallest_gap
from monolayer.theory.injectivity import exact_projection
from monolayer.theory.separation import StrictSeparation, TokenPlace
from monolayer.theory.verdicts import Verdict


class Query(NamedTuple):
    """One token: its value `vᵀx` as an integer, and its contexts, with the set and the place that belong to each."""

    value: int
    contexts: list[Multiset]
    sets: list[int]
    places: list[TokenPlace]


class SmallestSeparation(NamedTuple):
    """ln of the smallest separation, two places that attain it (None: two tokens do), and the precision it took."""

    log: Ball
    closest: tuple[TokenPlace, TokenPlace] | None
    bits: int


MAX_BITS = 1 << 14
MAX_TERMS = 4_000_000  # products x + y, at about a microsecond each


@dataclass(frozen=True)
class PaperConstruction:
    """One head of Theorem 2, carried out: its constants, and the smallest separation that it leaves.

    `log10_separation` encloses log10 of the smallest separation; `closest` are two places that attain it, within the
    width of the enclosure, where it is that of one token in two contexts. `bits` is the working precision that
    decided.
    """

    bounds: MappingConstants
    verdict: Verdict
    reason: str
    log10_separation: tuple[float, float] | None = None
    closest: tuple[TokenPlace, TokenPlace] | None = None
    bits: int | None = None


class PaperHead:
    """The head of Theorem 2 for data with tokens `vocabulary` `(V, d)`, on which `vᵀ` is injective.

    `rows` `(T,)`: which of the vocabulary each token is. `causal`: a token sees the prefix that ends there.
    """

    def __init__(
        self,
        data: Sequences,
        vocabulary: Floats,
        rows: Ints,
        v: Floats,
        separation: StrictSeparation,
        *,
        causal: bool = False,
    ) -> None:
        self.data, self.rows, self.v, self.causal = data, rows, v, causal
        self.r_max, self.epsilon = separation.r_max, separation.epsilon
        self.values, self.exponent = exact_projection(vocabulary, v)

    def unit(self) -> Ball:
        """`2^exponent / ‖v‖`: what the integer 1 stands for in `values`."""
        length = sum((arb(x) ** 2 for x in self.v.tolist()), arb(0)).sqrt()
        return arb(2) ** self.exponent / length

    def g(self) -> Ball:
        """`min |vᵀx_k| |vᵀ(x_l − x_m)|`."""
        ordered = sorted(self.values)
        gap = min(y - x for x, y in pairwise(ordered))
        return arb(min(abs(x) for x in ordered) * gap) * self.unit() ** 2

    def largest(self) -> Ball:
        """`S = max |vᵀx|`."""
        return arb(max(abs(x) for x in self.values)) * self.unit()

    def carry_out(self, constants: Callable[[], tuple[Ball, Ball]], max_bits: int, max_terms: int) -> PaperConstruction:
        """Build the head with `constants() = (β, ln δ)`, and enclose its smallest separation."""
        with precision(64):
            beta = constants()[0].upper().mid()
            bounds = MappingConstants(float(beta.log()), self.r_max + self.epsilon / 4, float(constants()[1]))
            # The exponents λs have about this many bits before the point; 96 more are the working precision.
            score = float((beta * self.largest() ** 2).log()) / math.log(2)
        bits = 96 + max(0, math.ceil(score))
        cost = self._terms()
        if cost > max_terms:
            reason = f"all sequences take about {cost:,} terms, over max_terms = {max_terms:,}; give fewer"
            return PaperConstruction(bounds, "undecided", reason)
        queries = self._queries()
        while bits <= max_bits:
            try:
                log, closest, used = self._smallest(queries, beta, bits, max_bits)
            except UndecidedError:
                break
            with precision(used):
                log_delta = constants()[1]
                enclosure = interval(log / arb(10).log())
                above, below = bool(log > log_delta), bool(log < log_delta)
            if above or below:
                reason = f"the enclosure lies {'above' if above else 'below'} δ"
                return PaperConstruction(bounds, "refuted" if below else "proved", reason, enclosure, closest, used)
            bits *= 2
        reason = (
            f"no decision within max_bits = {max_bits:,}; the exponents alone need {bits:,} bits, and values "
            f"subtracted as they stand would need about {bounds.bits or 0:,}"
        )
        return PaperConstruction(bounds, "undecided", reason)

    def _terms(self) -> int:
        """How many products the enclosure forms, about: n² per comparison."""
        uses = np.bincount(self.rows)
        return int((uses * np.log2(uses + 1)).sum() * int(self.data.lengths.max()) ** 2)

    def _queries(self) -> list[Query]:
        """One query per token that occurs, with one context for each different multiset of tokens around it."""
        queries: dict[int, Query] = {}
        sets: dict[frozenset[int], int] = {}
        seen: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
        for i, tokens, asked in self._contexts():
            counts = Counter(tokens)
            common = math.gcd(*counts.values())
            frequencies = tuple(sorted((x, m // common) for x, m in counts.items()))
            group = sets.setdefault(frozenset(counts), len(sets))
            for k in asked:
                x = tokens[k]
                if (x, frequencies) in seen:
                    continue
                seen.add((x, frequencies))
                query = queries.setdefault(x, Query(self.values[x], [], [], []))
                query.contexts.append({self.values[y]: m for y, m in counts.items()})
                query.sets.append(group)
                query.places.append((i, k))
        return list(queries.values())

    def _contexts(self) -> Iterator[tuple[int, list[int], range]]:
        """What is seen at once: the sequence, its tokens (`causal`: of a prefix), and the positions that see them."""
        for i, sequence in enumerate(self.data.split(self.rows)):
            tokens = sequence.tolist()
            if not self.causal:
                yield i, tokens, range(len(tokens))
                continue
            for k in range(len(tokens)):
                yield i, tokens[: k + 1], range(k, k + 1)

    def _smallest(self, queries: list[Query], beta: Ball, bits: int, max_bits: int) -> SmallestSeparation:
        """The smallest separation that the head with score scale β leaves, enclosed from `bits` bits on."""
        with precision(bits):
            weight = arb(self.epsilon) / (4 * arb(self.r_max))
            # The measured ε lies within 2^-39 of the lowered one.
            reach = 2 * weight * self.largest() + arb(self.epsilon) * arb(2) ** -39
            least, closest, used = arb(self.epsilon, reach.upper().mid()).log(), None, bits
        for value, contexts, groups, places in queries:
            gap = smallest_gap(
                contexts,
                groups,
                lambda value=value: beta * value * self.unit() ** 2,  # type: ignore[misc]
                bits=bits,
                max_bits=max_bits,
            )
            if gap is None:
                continue
            with precision(gap.bits):
                log = gap.log + (self.unit() * self.epsilon / (4 * arb(self.r_max))).log()
                if log.mid() < least.mid():
                    closest = (places[gap.first], places[gap.second])
                least, used = least.min(log), max(used, gap.bits)
        return SmallestSeparation(least, closest, used)
