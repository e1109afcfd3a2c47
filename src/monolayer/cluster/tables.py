"""A draw as tables of numbers, for workers that have NumPy and no PyTorch: it takes a second to import and much memory.

Contexts without positions and without a mask are quotients of sums over tables of the vocabulary, added up by NumPy in
`model/attention.py` too: the same bits. All is computed some sequences at a time, in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats
from monolayer.cluster.blocks import Raw, label_of, named, stretches
from monolayer.cluster.keys import Keys, Packing
from monolayer.construct.line.points import BLOCK
from monolayer.data.labels import Per

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

    @classmethod
    def of(cls, draw: Draw) -> Tables:
        import torch

        from monolayer.model.shortcut import boltzmann_terms

        weight, moment = boltzmann_terms(draw.proposal.key, draw.temperature, 0.0)
        begin = boltzmann_terms(torch.tensor(draw.bos_key, dtype=torch.float64), draw.temperature, 0.0)
        code = draw.proposal.code.numpy()
        return cls(weight.numpy(), moment.numpy(), code, (float(begin[0]), float(begin[1])))

    def contexts(self, block: Raw) -> Floats:
        """`B(λ; s)` `(N,)`."""
        found = np.empty(len(block.lengths))
        weight, moment = self.weight.take(block.token_row), self.moment.take(block.token_row)
        for rows, places in stretches(block.lengths, BLOCK):
            tokens, lengths = block.tokens[places].astype(np.intp), block.lengths[rows]
            start = np.cumsum(lengths) - lengths
            over = np.add.reduceat(moment.take(tokens), start) + self.begin[1]
            found[rows] = over / (np.add.reduceat(weight.take(tokens), start) + self.begin[0])
        return found

    def numbers(self, block: Raw, context: Floats, kappa: float, per: Per) -> Iterator[tuple[slice, Floats]]:
        """`z = t + κ c` of stretches of labelled places, and which these are."""
        code = self.code.take(block.token_row)
        for rows, places in stretches(block.lengths, BLOCK):
            if per == "sequence":
                yield rows, context[rows]
                continue
            z = code.take(block.tokens[places])
            z += np.repeat(kappa * context[rows], block.lengths[rows])
            yield places, z


def for_workers(draw: Draw, rules: Rules) -> Tables | Draw:
    """Tables where they are enough."""
    return draw if rules.positions or rules.causal else Tables.of(draw)


def contexts(draw: Tables | Draw, block: Raw, rules: Rules) -> Floats:
    """The contexts of a block `(N,)`, or `(T,)` for a causal model."""
    if isinstance(draw, Tables):
        return draw.contexts(block)
    found: Floats = draw.contexts(rules.tokens(named(block, rules)[0])).numpy()
    return found


def numbers(
    draw: Tables | Draw, block: Raw, context: Floats, rules: Rules, kappa: float
) -> tuple[Floats, NDArray[Any]]:
    """`z` of every labelled place of a block `(P,)`, and the label numbers, or real labels `(P, m)`.

    `context`: those of tables.
    """
    if isinstance(draw, Tables):
        assert block.labels is not None  # next tokens are for causal models
        z = np.concatenate([z for _, z in draw.numbers(block, context, kappa, rules.per)])
        return z, block.labels if rules.reals else block.label_row.take(block.labels)
    from monolayer.construct.line.points import numbers as by_tensors

    data, target = named(block, rules)
    return by_tensors(draw, kappa, rules.tokens(data), target), label_of(target)


def keys(draw: Tables | Draw, block: Raw, context: Floats, rules: Rules, kappa: float, packing: Packing) -> Keys:
    """Every labelled place of a block as one whole number `(P,)`."""
    if not isinstance(draw, Tables):
        z, number = numbers(draw, block, context, rules, kappa)
        return packing.keys(z, number.astype(np.uint64))
    assert block.labels is not None
    found, label = np.empty(len(block.labels), dtype=np.uint64), block.label_row.astype(np.uint64)
    for places, z in draw.numbers(block, context, kappa, rules.per):
        packing.keys(z, label.take(block.labels[places]), found[places])
    return found
