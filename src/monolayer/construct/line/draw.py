"""Keys, codes and a temperature, drawn at random.

Any keys that tell the tokens apart and any float `λ ≠ 0` separate all multisets in exact arithmetic
(Theorem A in docs/theorems.md). What a draw decides is how far apart the contexts lie in floats, so several
are tried (`encoded.py`).

Notation: `V` tokens in the alphabet, `L` positions, `s` keys in [−1, 1], `t` codes, `c` context ids.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from monolayer.arrays import Array, Floats
from monolayer.construct.line.alphabet import UNIT, Proposal
from monolayer.construct.line.exponential import boltzmann_terms
from monolayer.construct.line.tokens import Tokens
from monolayer.data.number_formats import FORMATS
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError
from monolayer.model.fields import Test

CodeLayout = Literal["cells", "mixed"]

EXP_ULPS = 4
"""How many units in the last place `exp` may be wrong; common libraries are within 1.

`checker/rounding.py` assumes the same number, by the same name; neither side imports the other."""
TEMPERATURES = (1.0, 2.0, 0.5, 4.0)
"""λ, with keys in [−1, 1]: λ times the spread of the keys stays near 1, far from hardmax."""
HOTTEST = 700.0
"""The largest |λ|: `e^700` is 10^304, and 17,000 of them add up to a float64."""


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
    def terms(self) -> Floats:
        """`e^{λ s}` and `s e^{λ s}` of every token of the alphabet, and then of the begin token: `(2, V + 1)`."""
        keys = np.append(self.proposal.key, self.bos_key).astype(np.float64)
        return np.stack(boltzmann_terms(keys, self.temperature))

    @property
    def begin(self) -> tuple[float, float]:
        """`e^{λ s}` and `s e^{λ s}` of the begin token."""
        return float(self.terms[0, -1]), float(self.terms[1, -1])


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
