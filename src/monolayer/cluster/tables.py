"""A draw as tables of numbers, for workers that have NumPy and no PyTorch: it takes a second to import and much memory.

Contexts without positions and without a mask are quotients of sums over tables of the vocabulary, added up by NumPy in
`model/attention.py` too: the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.construct.line.points import WORTH_IT, Floats, token_major
from monolayer.construct.target import Target
from monolayer.data import Sequences

if TYPE_CHECKING:
    from monolayer.cluster.blocks import Rules
    from monolayer.construct.line.draw import Draw


@dataclass(frozen=True, eq=False)
class Tables:
    """Of every token `(V,)`: `e^{λ s}`, `s e^{λ s}` and the code; of the begin token the first two."""

    weight: Floats
    moment: Floats
    code: Floats
    begin: tuple[float, float]
    whole: bool

    @classmethod
    def of(cls, draw: Draw) -> Tables:
        import torch

        from monolayer.model.shortcut import boltzmann_terms

        weight, moment = boltzmann_terms(draw.proposal.key, draw.temperature, 0.0)
        begin = boltzmann_terms(torch.tensor(draw.bos_key, dtype=torch.float64), draw.temperature, 0.0)
        code = draw.proposal.code.numpy()
        return cls(weight.numpy(), moment.numpy(), code, (float(begin[0]), float(begin[1])), draw.whole_codes)

    def contexts(self, data: Sequences) -> Floats:
        """`B(λ; s)` `(N,)`."""
        start = data.offsets[:-1]
        weight = np.add.reduceat(self.weight.take(data.tokens), start)
        moment = np.add.reduceat(self.moment.take(data.tokens), start)
        found: Floats = (moment + self.begin[1]) / (weight + self.begin[0])
        return found

    def numbers(self, data: Sequences, target: Target, kappa: float) -> tuple[Floats, NDArray[Any] | None]:
        """`z` of every labelled place `(P,)`, and its order where that can be had without sorting it."""
        context = self.contexts(data)
        if target.per == "sequence":
            return context, None
        code, order = self.code.take(data.tokens), None
        if self.whole and data.rectangular and data.lengths[0] >= WORTH_IT:
            order = token_major(code, context, target.place)
        code += kappa * np.repeat(context, data.lengths)
        return code if target.place is None else code.take(target.place), order


def for_workers(draw: Draw, rules: Rules) -> Tables | Draw:
    """Tables where they are enough."""
    return draw if rules.positions or rules.causal else Tables.of(draw)


def contexts(draw: Tables | Draw, data: Sequences, rules: Rules) -> Floats:
    """The contexts of a block `(N,)`, or `(T,)` for a causal model."""
    if isinstance(draw, Tables):
        return draw.contexts(data)
    found: Floats = draw.contexts(rules.tokens(data)).numpy()
    return found


def numbers(draw: Tables | Draw, data: Sequences, target: Target, rules: Rules, kappa: float) -> Floats:
    """`z` of every labelled place of a block `(P,)`."""
    if isinstance(draw, Tables):
        return draw.numbers(data, target, kappa)[0]
    from monolayer.construct.line.points import numbers as by_tensors

    return by_tensors(draw, kappa, rules.tokens(data), target)


def in_order(
    draw: Tables | Draw, data: Sequences, target: Target, rules: Rules, kappa: float
) -> tuple[Floats, NDArray[Any]]:
    """`z` of every labelled place of a block in order `(P,)`, and the places."""
    if isinstance(draw, Tables):
        z, order = draw.numbers(data, target, kappa)
        order = np.argsort(z) if order is None else order
        return z.take(order), order
    from monolayer.construct.line.points import contextual_points

    found = contextual_points(draw, rules.tokens(data), target, kappa)
    return found.z, found.order
