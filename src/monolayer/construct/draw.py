"""Directions and temperature, drawn at random and chosen by measurement.

Any keys that tell the tokens apart and any float `λ ≠ 0` separate all multisets in exact arithmetic
(Theorem A in docs/theorems.md); what a draw decides is how far apart the contexts lie in floats. So several
are drawn, the contexts of all the data are computed under each, and the draw with the widest gap goes first.

Notation: `V` rows of the vocabulary, `L` positions, `s` keys in [−1, 1], `t` codes, `c` context ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.model.attention import contexts
from monolayer.model.shortcut import boltzmann_terms

Layout = Literal["cells", "mixed"]

UNIT = 2.0**-53
"""Unit roundoff of float64."""
EXP_ULPS = 4
"""How many units in the last place `exp` may be wrong; common libraries are within 1."""
TEMPERATURES = (1.0, 2.0, 0.5, 4.0)
"""λ, with keys in [−1, 1]: λ times the spread of the keys stays near 1, far from hardmax."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """What the contexts are made of: `rows` `(T,)` of the vocabulary, `lengths` `(N,)`, and the rules of the model.

    `vectors` `(V, d)` are the distinct tokens of vector data; `position` `(T,)` is None without positions;
    `order` `(V,)` is the rank that each id shall have among the codes.
    """

    rows: Tensor
    lengths: Tensor
    vocabulary: int
    vectors: NDArray[np.float64] | None
    position: Tensor | None
    causal: bool
    order: NDArray[np.int64] | None

    @property
    def longest(self) -> int:
        return int(self.lengths.max())


@dataclass(frozen=True, eq=False)
class Draw:
    """Keys and codes `(V,)`, those of positions `(L,)` and of the begin token, and a temperature.

    `lift` holds the linear map of vector data: weights `(2, d)` and biases `(2,)` for key and code.
    """

    key: Tensor
    code: Tensor
    position_key: Tensor | None
    position_code: Tensor | None
    bos_key: float
    temperature: float
    layout: Layout
    lift: tuple[Tensor, Tensor] | None
    lift_error: float

    def contexts(self, tokens: Tokens) -> Tensor:
        """`B(λ; s)`: `(N,)`, or `(T,)` for a causal model."""
        if tokens.position is None or self.position_key is None:
            weight, moment = boltzmann_terms(self.key, self.temperature, 0.0)
            weight, moment = weight.index_select(0, tokens.rows), moment.index_select(0, tokens.rows)
        else:
            key = self.key.index_select(0, tokens.rows) + self.position_key.index_select(0, tokens.position)
            weight, moment = boltzmann_terms(key, self.temperature, 0.0)
        bos = torch.tensor(self.bos_key, dtype=torch.float64)
        bos_weight, bos_moment = boltzmann_terms(bos, self.temperature, 0.0)
        return contexts(weight, moment, tokens.lengths, (float(bos_weight), float(bos_moment)), tokens.causal)

    def codes(self, tokens: Tokens) -> Tensor:
        """`t` of every token `(T,)`."""
        code = self.code.index_select(0, tokens.rows)
        if tokens.position is not None and self.position_code is not None:
            code = code + self.position_code.index_select(0, tokens.position)
        return code

    def context_error(self, tokens: Tokens) -> float:
        """Bound on the rounding error of a context id in any order of summation (docs/certificate.md).

        `2 max|s| u (n + 4R + 2g + 2)` with `R = |λ| max|s|`, for `n` tokens and the begin token; a key wrong
        by `η` moves the Boltzmann operator by at most `η (1 + 2R)`.
        """
        reach = abs(self.temperature)
        own = 2.0 * UNIT * (tokens.longest + 1 + 4.0 * reach + 2.0 * EXP_ULPS + 2.0)
        return own + self.lift_error * (1.0 + 2.0 * reach)


def draws(tokens: Tokens, layout: Layout, count: int, seed: int) -> list[Draw]:
    """`count` draws, the most promising first: most contexts told apart, then the widest gap between two."""
    candidates = list(_draws(tokens, layout, count, seed))
    if len(candidates) == 1:
        return candidates
    return sorted(candidates, key=lambda draw: _quality(draw, tokens), reverse=True)


def _quality(draw: Draw, tokens: Tokens) -> tuple[int, float]:
    context = np.sort(draw.contexts(tokens).numpy())
    gap = np.diff(context)
    apart = gap[gap > 2.0 * draw.context_error(tokens)]
    reach = float(context[-1] - context[0])
    return len(apart), float(apart.min()) / reach if len(apart) else 0.0


def _draws(tokens: Tokens, layout: Layout, count: int, seed: int) -> Iterator[Draw]:
    for number in range(count):
        random = np.random.default_rng([seed, ("cells", "mixed").index(layout), number])
        temperature = TEMPERATURES[number % len(TEMPERATURES)]
        # With positions the key is a sum of two parts: each gets half of [−1, 1].
        share = 1.0 if tokens.position is None else 0.5
        lift, lift_error = None, 0.0
        if tokens.vectors is None:
            key = torch.from_numpy(random.uniform(-share, share, tokens.vocabulary))
            code = _spaced_codes(tokens, layout)
        else:
            lift, lift_error = _lift(tokens.vectors, share, random)
            key, code = (torch.from_numpy(tokens.vectors) @ lift[0].T + lift[1]).T.contiguous()
        position_key = position_code = None
        if tokens.position is not None:
            position_key = torch.from_numpy(random.uniform(-share, share, tokens.longest))
            if tokens.vectors is None and layout == "cells":
                position_code = torch.arange(tokens.longest, dtype=torch.float64)
            else:
                position_code = torch.from_numpy(random.uniform(0.0, 0.25, tokens.longest))
        bos_key = float(random.uniform(-1.0, 1.0))
        yield Draw(key, code, position_key, position_code, bos_key, temperature, layout, lift, lift_error)


def _spaced_codes(tokens: Tokens, layout: Layout) -> Tensor:
    """Whole numbers around 0, one cell a token, or one a (token, position) pair when positions get cells too."""
    stride = tokens.longest if tokens.position is not None and layout == "cells" else 1
    rank = np.arange(tokens.vocabulary) if tokens.order is None else tokens.order
    return torch.from_numpy((rank - tokens.vocabulary // 2) * float(stride))


def _lift(
    vectors: NDArray[np.float64], share: float, random: np.random.Generator
) -> tuple[tuple[Tensor, Tensor], float]:
    """Two random directions, scaled and shifted so that keys and codes of the data fill [−share, share].

    Also a bound on the rounding error of the map: `(d + 2) u (Σ |w_i x_i| + |b|)`, in any order of summation.
    """
    direction = random.standard_normal((2, vectors.shape[1]))
    # Coordinates of very different size would drown each other: each is first scaled to its own range.
    # One that never changes tells nothing apart and gets no weight.
    extent = np.ptp(vectors, axis=0)
    direction = np.where(extent > 0.0, direction / np.where(extent > 0.0, extent, 1.0), 0.0)
    seen = vectors @ direction.T
    low, high = seen.min(axis=0), seen.max(axis=0)
    scale = 2.0 * share / np.where(high > low, high - low, 1.0)
    weight = direction * scale[:, None]
    bias = -(low + high) / 2.0 * scale
    size = np.abs(vectors) @ np.abs(weight).T + np.abs(bias)
    error = (vectors.shape[1] + 2) * UNIT * float(size.max())
    return (torch.from_numpy(weight), torch.from_numpy(bias)), error
