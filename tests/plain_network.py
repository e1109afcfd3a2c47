"""The paper's network evaluated plainly, in balls: four matrices, every neuron, nothing shared or skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from monolayer.theory.network import PaperNetwork


def answers_of_matrices(network: PaperNetwork, X: np.ndarray) -> list[list[list[arb]]]:
    """The network evaluated plainly, from four matrices and every neuron: `[token][coordinate]` of one sequence."""

    def times(matrix: Any, x: list[arb]) -> list[arb]:
        return [left * sum((a * b for a, b in zip(matrix.right, x, strict=True)), arb(0)) for left in matrix.left]

    def dot(a: list[arb], b: list[arb]) -> arb:
        return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))

    head, tokens = network.head, [[arb(x) for x in row] for row in X.tolist()]
    found = []
    for own in tokens:
        weights = [dot(times(head.key, x), times(head.query, own)).exp() for x in tokens]
        mean = [
            dot(weights, column) / sum(weights, arb(0))
            for column in zip(*(times(head.value, x) for x in tokens), strict=True)
        ]
        q = [x + y for x, y in zip(own, times(head.out, mean), strict=True)]
        found.append(
            [
                sum((c * (dot(each.a, q) - b).max(arb(0)) for b, c in zip(each.bias, each.weight, strict=True)), arb(0))
                for each in network.readouts
            ]
        )
    return found
