"""Corollary 1 carried out: the paper's whole network on tokens that lie on a line, in balls and in float64.

Notation: tokens `x` are numbers (d = 1, so that `v = 1`), `M` different points (token, set of its sequence).

    head      q_k = x_k + w B(β x_k; x),  w = ε/(4 r_max), β as in Theorem 2
    readout   f(q) = y_1 + Σ_j c_j relu(q − q_j): one hidden layer, a neuron per point, linear between neighbours

At `q_i` the sum is `y_i` over the reals. Its slopes are as steep as the points are close, and the paper's points are
`e^{−β…}` close. So the network needs as many bits as δ does: in balls of that precision every label can be proved; in
float64 many points have one and the same `q`, and no readout at all can tell their labels apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from flint import arb

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.errors import DataError
from monolayer.theory.balls import Ball, precision
from monolayer.theory.boltzmann import boltzmann, boltzmann_ball
from monolayer.theory.bounds import contextual_constants, corollary1_counts, theorem2
from monolayer.theory.contextual import context_classes
from monolayer.theory.separation import on_a_line, separation

Scale = Literal["paper", "measured"]

COROLLARY_MAX_BITS = 1 << 17
MAX_POINTS = 512
"""Points up to which balls are tried: the readout takes a product per pair of points."""


@dataclass(frozen=True)
class Corollary:
    """Corollary 1 on given data.

    `verdict`: whether every label is proved to come back in balls of `bits` bits (`undecided`: not within the limits).
    `possible`: share of labels that the best readout could return from the ids `q` in float64; `distinct`: different
    ids in float64, of `points`.
    """

    points: int
    parameters: int
    verdict: Literal["proved", "undecided"]
    bits: int
    log10_beta: float
    distinct: int
    possible: float


def corollary1(X: object, Y: object = None, *, scale: Scale = "paper", max_bits: int = COROLLARY_MAX_BITS) -> Corollary:
    """The paper's network for `X` with one class per token, `Y`: built, proved in balls, and tried in float64.

    Tokens are ids, the i-th of which stands at `|V| + i`, or vectors of one number; no sequence repeats a token.
    `scale`: β of the paper's worst case, or with the smallest token and the smallest gap that the data have.
    """
    data = Sequences.of(X, Y)
    if data.vocabulary is not None:
        data = on_a_line(data)
    if data.tokens.shape[1] != 1:
        raise DataError("Corollary 1 is carried out on a line: give ids, or vectors of one number")
    found = separation(data)
    if found.broken:
        raise DataError(f"the hypotheses of Theorem 2 do not hold: {'; '.join(found.broken)}")
    if found.vocabulary < 2:
        raise DataError("there is one token only: nothing to separate")
    labels = data.labels
    if labels is None or labels.classes is None or not labels.labelling.at_tokens or labels.place is not None:
        raise DataError("give one class per token, to every token")
    classes = context_classes(data)
    first = np.unique(classes, return_index=True)[1]
    label = labels.values
    if (label != label[first][classes]).any():
        raise DataError("equal points have different labels: the data contradict themselves")
    r_min, r_max, epsilon = found.strict()
    with precision(64):
        if scale == "paper":
            beta = theorem2(found.vocabulary, 1, found.longest, r_min, r_max, epsilon)[0]
        else:
            beta = contextual_constants(found.longest, arb(r_min) * arb(epsilon), arb(r_max), r_max, epsilon)[0]
        beta = beta.upper().mid()
    weight = epsilon / (4 * r_max)
    # Theorem 2's hypotheses hold, so all sequences have one length.
    x, contexts = data.tokens[first, 0], data.tokens[:, 0].reshape(len(data), -1)[data.sequence[first]]
    tried = max_bits if len(first) <= MAX_POINTS else 0
    proved, bits = _in_balls(x, contexts, label[first], beta, weight, tried)
    ids = x + weight * boltzmann(float(beta) * x, contexts)
    return Corollary(
        points=len(first),
        parameters=corollary1_counts(len(first), 1)[0],
        verdict="proved" if proved else "undecided",
        bits=bits,
        log10_beta=float(beta.log()) / float(np.log(10.0)),
        distinct=len(np.unique(ids)),
        possible=possible(ids, label[first]),
    )


def possible(ids: Floats, label: Ints) -> float:
    """Share of labels `(M,)` that the best readout returns, with one answer per id: its most frequent label.

    An id is a number, or a row of `(M, p)`.
    """
    _, rows = distinct_rows(ids.reshape(len(label), -1))
    pairs, count = np.unique(rows * (int(label.max()) + 1) + label, return_counts=True)
    most = np.zeros(int(rows.max()) + 1, np.int64)
    np.maximum.at(most, pairs // (int(label.max()) + 1), count)
    return float(most.sum()) / len(label)


def _in_balls(x: Floats, contexts: Floats, label: Ints, beta: Ball, weight: float, max_bits: int) -> tuple[bool, int]:
    """Whether the network returns every label, and the last precision that was tried; doubling from 256 bits."""
    bits = 0
    for bits in (1 << power for power in range(8, max_bits.bit_length())):
        with precision(bits):
            q = [
                own + arb(weight) * boltzmann_ball(beta * own, context)
                for own, context in zip(x.tolist(), contexts.tolist(), strict=True)
            ]
            order = sorted(range(len(q)), key=lambda i: q[i].mid())
            q, y = [q[i] for i in order], [int(label[i]) for i in order]
            if all(one < two for one, two in pairwise(q)) and _returns(q, y):
                return True, bits
    return False, bits


def _returns(q: list[Ball], y: list[int]) -> bool:
    """Whether the readout with knots at the midpoints of `q`, sorted, is within 1/2 of `y` on all of every ball."""
    knots = [ball.mid() for ball in q]
    slopes = [(arb(b - a) / (t - s)).mid() for (a, b), (s, t) in zip(pairwise(y), pairwise(knots), strict=True)]
    bends = [one - two for one, two in zip(slopes, [arb(0), *slopes], strict=False)]
    half = arb(1) / 2
    for i, (point, label) in enumerate(zip(q, y, strict=True)):
        total = arb(y[0])
        for bend, knot in zip(bends[: i + 1], knots[: len(bends)][: i + 1], strict=True):  # further knots give 0
            total += bend * (point - knot).max(arb(0))
        if not abs(total - label) < half:
            return False
    return True
