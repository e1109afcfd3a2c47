"""The paper's network in balls: one head of rank 1, and a readout with a neuron per point, as Corollary 1 counts them.

Notation: tokens `x ∈ R^d`, head size `s`, `M` points (token, set of its sequence), `m` label coordinates, `v` a unit
vector, `e = (1, 0, …, 0) ∈ R^s`.

    head      W_K = e vᵀ, W_Q = e (βv)ᵀ, W_V = e vᵀ, W_O = (w v) eᵀ:  q_k = x_k + w v B(β vᵀx_k; vᵀX)
    readout   f_i(q) = Σ_j c_ij relu(aᵀq − b_ij),  a = v: a neuron per point, linear between neighbours

Stored are the factors of the four matrices, and for each label coordinate `a`, `b` and `c`: `4(s+d) + m(2M+d)` numbers.
All of them are floats of the precision in force when the network was built, so they are exact, and balls enclose what
the network answers over the reals.

At the i-th point `f` is its label. Slopes are as steep as points are close, and the paper's points are `e^{−β…}` close.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from flint import arb

from monolayer.arrays import Floats
from monolayer.theory.balls import Ball

Vector = list[Ball]
Context = tuple[int, ...]
"""Rows of the vocabulary: the tokens that a point sees, each as often as it occurs."""


class Point(NamedTuple):
    """A token, as its row in the vocabulary, and what it sees."""

    token: int
    context: Context


class RankOne(NamedTuple):
    """The matrix `left rightᵀ`."""

    left: Vector
    right: Vector


@dataclass(frozen=True)
class Head:
    """The four matrices of the head."""

    key: RankOne
    query: RankOne
    value: RankOne
    out: RankOne

    def ids(self, a: Vector, vocabulary: Floats, points: Sequence[Point]) -> list[Ball]:
        """`aᵀq` for every point, enclosed at the precision in force, with one exponential per pair of tokens."""
        rows = [[arb(entry) for entry in row] for row in vocabulary.tolist()]
        scale = _dot(self.key.left, self.query.left)
        asked = [scale * _dot(self.query.right, row) for row in rows]
        keys = [_dot(self.key.right, row) for row in rows]
        values = [_dot(self.value.right, row) for row in rows]
        along = _dot(a, self.out.left) * _dot(self.out.right, self.value.left)
        powers: dict[tuple[int, int], Ball] = {}
        contexts = []
        for token, context in points:
            for other in context:
                if (token, other) not in powers:
                    powers[token, other] = (asked[token] * keys[other]).exp()
            weights = [powers[token, other] for other in context]
            average = _dot(weights, [values[other] for other in context]) / sum(weights, arb(0))
            contexts.append(_dot(a, rows[token]) + along * average)
        return contexts


def paper_head(direction: Floats, beta: Ball, weight: Ball, size: int) -> Head:
    """The head of Theorem 2 with the unit vector along `direction` `(d,)` and head size `size`."""
    entries = [arb(entry) for entry in direction.tolist()]
    length = _dot(entries, entries).sqrt()
    v = [(entry / length).mid() for entry in entries]
    e = [arb(1), *([arb(0)] * (size - 1))]
    asked, written = [(beta * entry).mid() for entry in v], [(weight * entry).mid() for entry in v]
    return Head(key=RankOne(e, v), query=RankOne(e, asked), value=RankOne(e, v), out=RankOne(written, e))


@dataclass(frozen=True)
class Readout:
    """One label coordinate: the direction `a`, and a bias and an output weight per neuron, biases rising."""

    a: Vector
    bias: Vector
    weight: Vector

    @classmethod
    def through(cls, a: Vector, knots: Sequence[Ball], labels: Sequence[Ball], *, closed: bool = False) -> Readout:
        """Through the `labels` at rising `knots`, both exact: from 0 at `knots[0] − 1`, linear between neighbours.

        `closed`: one neuron more keeps the last label from there on. Without it the last slope goes on.
        """
        knots, labels = [knots[0] - 1, *knots], [arb(0), *labels]
        slopes = [
            ((after - before) / (right - left)).mid()
            for (left, right), (before, after) in zip(pairwise(knots), pairwise(labels), strict=True)
        ]
        bends = [after - before for before, after in pairwise([arb(0), *slopes])]
        if closed:
            bends.append(-slopes[-1])
        return cls(a, [knot.mid() for knot in knots[: len(bends)]], [bend.mid() for bend in bends])

    def answers(self, ids: Sequence[Ball]) -> list[Ball]:
        """`Σ_j c_j relu(z − b_j)` at each of `ids`, whose midpoints rise, enclosed: one pass over neurons and ids."""
        labels, j = [], 0
        slope, shift = arb(0), arb(0)  # of the neurons that are certainly on
        for z in ids:
            while j < len(self.bias) and z > self.bias[j]:
                slope += self.weight[j]
                shift += self.weight[j] * self.bias[j]
                j += 1
            answer, i = slope * z - shift, j
            while i < len(self.bias) and not z < self.bias[i]:  # may be on or off
                answer += self.weight[i] * (z - self.bias[i]).max(arb(0))
                i += 1
            labels.append(answer)
        return labels


@dataclass(frozen=True)
class PaperNetwork:
    """A head and a readout per label coordinate."""

    head: Head
    readouts: list[Readout]

    @property
    def parameters(self) -> int:
        """How many numbers are stored."""
        matrices = (self.head.key, self.head.query, self.head.value, self.head.out)
        factors = sum(len(matrix.left) + len(matrix.right) for matrix in matrices)
        return factors + sum(len(each.a) + len(each.bias) + len(each.weight) for each in self.readouts)


def _dot(one: Vector, other: Vector) -> Ball:
    return sum((x * y for x, y in zip(one, other, strict=True)), arb(0))
