"""Networks for the maximum norm, read from the file: how far any evaluation may be from the function, at any sequence.

Notation as in docs/uniform.md, whose Lemma U this file carries out: coordinates scaled to `[0, 1]`, `D` cells, `W` the
width of the domain, `k = nd` coordinates of a sequence; `u` unit roundoff. Errors are absolute and generous.

    x      5u                            the scaled coordinate
    bends  b(·)                          a sum of K + 1 kinks, in any order
    sums   n·(mean) − own                equal weights, exp wrong by g ulps
    y      the other tokens              for n = 3 through square and root, whose steepest slope is 2^11;
                                         with positions x_k + (x_j − x_n) − (x_k − x_n)
    I      D Δ k (error of x, y)         Δ: largest difference of neighbouring knots

The function is asked at every knot: its values are compared with the stored ones, and its equivariance is checked
there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import ROUND_UP, Context
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.cells import AskedFunction, function_values
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Finding
from monolayer.checker.format import BENDS, several_heads
from monolayer.checker.heads import HEAD_ASSUMPTION, check_heads, others_error
from monolayer.checker.network import Stored
from monolayer.checker.rounding import BINARY64, EXP_ULPS, NUMPY_ASSUMPTION, UnhandledError
from monolayer.data.subnormal import without_negative_zeros
from monolayer.errors import DataError
from monolayer.table import plural

U = BINARY64.unit
OTHER_TOKENS_ERROR = 2.0**-13
"""`ε` for n = 3: how far, over the reals, square and root are from the other tokens."""
ROOM = 2.0**-20
"""How far beyond its knots rounding may take the argument of a bend."""
SECOND_ORDER = 1.0 + 2.0**-10
"""Covers terms of second order and the rounding of the bounds themselves; terms of first order are below 2^-20."""
LARGEST_KNOT = 2.0**1000
"""Largest value at a knot, so that no sum or difference of values overflows."""
UNIFORM_UNDERFLOW = 2.0**-1000
"""Bounds what numbers flushed to zero do: fewer than 2^20 products of values and numbers in `[0, 1]`."""
KNOTS_AT_ONCE = 1 << 14
"""How many knots the function is asked at together."""
UNIFORM_CLAIM = (
    "everywhere on the domain, every evaluation is within ω({}) + {} of the function, ω its modulus of "
    "continuity in the maximum norm"
)
UNIFORM_ASSUMPTIONS = (
    f"IEEE-754 {BINARY64.name}, round to nearest, unit roundoff {U:.3g}; no TF32, no reduced precision",
    "sums in any order, or the look-up, by sums of few terms; a product may be fused with the sum it goes into",
    f"exp within {EXP_ULPS} units in the last place; softmax as exp(score − m) over its sum",
    NUMPY_ASSUMPTION,
    "the function has the modulus ω, everywhere; it is asked at the knots only",
)
EQUIVARIANT = "the function is permutation equivariant, everywhere; it is tried at the knots only"


class Net:
    """A stored network for the maximum norm: its sizes, its domain, its tensors, and the error bounds of Lemma U."""

    def __init__(self, stored: Stored) -> None:
        config, self.tensors = stored.config, stored.tensors
        self.dim, self.length, self.cells = (int(config[key]) for key in ("dim", "length", "cells"))
        self.low, self.high = (float(config[key]) for key in ("low", "high"))
        self.width, self.values = self.high - self.low, self.tensors["interpolation.values"]
        self.positions: bool = config["positions"]
        self.bends = BENDS if config["first_block"] and not self.positions else ()
        self.several_heads = several_heads(config)

    def axis(self) -> Floats:
        """The knots of a coordinate `(D + 1,)`, where the function was asked."""
        return np.linspace(self.low, self.high, self.cells + 1)

    def reach(self) -> float:
        """`h`: how far any coordinate of a sequence may be from the knots whose values make its answer."""
        W = Fraction(self.width)
        ideal = [Fraction(self.low) + W * j / self.cells for j in range(self.cells + 1)]
        moved = max(abs(Fraction(place) - own) for place, own in zip(self.axis().tolist(), ideal, strict=True))
        others = Fraction(OTHER_TOKENS_ERROR) if self.bends else Fraction(0)
        if self.several_heads:  # rounding included, by Lemma H
            others = Fraction(others_error(self.length).tokens)
        exact = W * (Fraction(1, self.cells) + others + 2 * Fraction(U)) + moved
        return float(exact) * (1.0 + 2.0**-50)

    def rounding(self) -> float:
        """`ρ`: how far an evaluation may be from the network over the reals."""
        k = self.length * self.dim
        own = 5.0 * U
        error = own + 2.0 * self._sums(own) + 8.0 * U if self.positions else self._sums(own)
        if self.several_heads:
            error = 0.0  # that of the other tokens is part of the reach
        if self.bends:
            square, total, root = (
                (self.tensors[f"{part}.knots"], self.tensors[f"{part}.values"]) for part in self.bends
            )
            squares = self._sums(_steepest(*square) * own + bend_error(*square))
            apart = 2.0 * squares + _steepest(*total) * error + bend_error(*total) + 16.0 * U
            error = (error + _steepest(*root) * apart + bend_error(*root)) / 2.0 + 4.0 * U
            if apart > ROOM:
                raise UnhandledError("rounding may leave the knots of the root")
        grid = self.values.reshape(-1, *[self.cells + 1] * k, self.values.shape[1])
        steep = max(float(np.abs(np.diff(grid, axis=1 + axis)).max()) for axis in range(k))
        largest = float(np.abs(self.values).max())
        if largest > LARGEST_KNOT:
            raise UnhandledError(f"knots hold {largest:.3g}: sums of such values may overflow")
        bound: float = UNIFORM_UNDERFLOW + SECOND_ORDER * (
            self.cells * steep * k * (max(own, error) + 2.0 * U) + (8 * 3**k + 20) * U * largest
        )
        return bound

    def _sums(self, error: float) -> float:
        """Bounds the error of a sum over the other tokens of numbers in `[0, 1]`, each off by at most `error`.

        It also bounds the error of a sum over all tokens of numbers in `[−1, 1]`.
        """
        n = self.length
        mean = (4 * EXP_ULPS + 2 * n + 6) * U + error
        return SECOND_ORDER * (n * mean + error + 2.0 * n * U)


def bend_error(knots: Floats, values: Floats) -> float:
    """`b`: how far any evaluation of `v_0 + Σ_j c_j relu(x − t_j)` is from the line through the knots."""
    slope = np.abs(np.diff(values) / np.diff(knots))
    both = np.append(slope, 0.0) + np.append(0.0, slope)  # |s_j| + |s_{j−1}| at every knot, at least |c_j|
    reach = knots[-1] + ROOM - knots
    kinks = float((both * reach).sum())
    bend = np.abs(np.diff(np.concatenate([[0.0], np.diff(values) / np.diff(knots), [0.0]])))
    terms = float((bend * reach).sum()) + float(np.abs(values).max())
    return SECOND_ORDER * U * (5.0 * kinks + (len(knots) + 6) * terms)


def _steepest(knots: Floats, values: Floats) -> float:
    """Largest slope of the line through the knots, in absolute value."""
    return float(np.abs(np.diff(values) / np.diff(knots)).max())


def judge_uniform(stored: Stored, f: object, tolerance: float | None) -> Certificate:
    """The certificate that every evaluation of the network is close to the function `f`, everywhere on the domain.

    `tolerance`: how far the stored values may be from those of `f`.
    """
    if not callable(f):
        raise DataError("a network for the maximum norm is compared with its function, not with labelled points")
    net, room = Net(stored), float(tolerance or 0.0)
    count = len(net.values)
    more = [] if net.positions else [EQUIVARIANT]
    assumed = (*UNIFORM_ASSUMPTIONS, *more, *[HEAD_ASSUMPTION] * net.several_heads)
    question = Certificate(
        "undecided", UNIFORM_CLAIM.format("h", "ρ"), "", assumed, count, count, weights_digest=stored.config["digest"]
    )
    try:
        _check_parts(net)
        reach, rounding = net.reach(), net.rounding()
    except UnhandledError as why:
        return replace(question, reason=f"the proof does not cover these weights: {why}")
    knots = _compare_knots(net, f, room)
    wrong, apart = knots.wrong, knots.apart
    slack = float(np.abs(net.values).max()) * 2.0**-40 + room
    lemma = "Lemmas U and H (docs/uniform.md) cover" if net.several_heads else "Lemma U (docs/uniform.md) covers"
    reason = f"its knots hold the values of the function, and {lemma} what lies between"
    if wrong:
        reason = f"at {wrong:,} of {plural(count, 'knot')} the function has another value than the one stored there"
    elif apart > slack:
        reason = f"the function is not permutation equivariant: at a knot it is off by {apart:.3g} in another order"
    return replace(
        question,
        verdict="refuted" if wrong or apart > slack else "proved",
        claim=UNIFORM_CLAIM.format(_up(reach), _up(SECOND_ORDER * (rounding + room + apart))),
        reason=reason,
        wrong=wrong,
        unsure=0,
        findings=knots.findings,
        data_digest=knots.digest,
    )


def _up(value: float) -> str:
    """`value` rounded up to four digits, so that no less is shown than was proved."""
    return f"{float(Context(prec=4, rounding=ROUND_UP).create_decimal_from_float(value)):.4g}"


class KnotComparison(NamedTuple):
    """How the stored values compare with those of the function.

    `wrong`: number of knots with another value; `findings`: the first few. `apart`: how far the function is from
    equivariance at the knots. `digest`: of the values that the function returned.
    """

    wrong: int
    findings: tuple[Finding, ...]
    apart: float
    digest: str


def _compare_knots(net: Net, f: AskedFunction, room: float) -> KnotComparison:
    """Ask `f` at every knot and compare its values with the stored ones, which may be off by `room`.

    Without positions the stored values are those at token 0; with positions there is one table per token.
    """
    axis, shape = net.axis(), (net.cells + 1,) * (net.dim * net.length)
    count, outputs, wrong, apart = math.prod(shape), net.values.shape[1], 0, 0.0
    findings: list[Finding] = []
    digest = sha256()
    for start in range(0, count, KNOTS_AT_ONCE):
        places = np.stack(np.unravel_index(np.arange(start, min(start + KNOTS_AT_ONCE, count)), shape), axis=1)
        X = axis[places].reshape(-1, net.length, net.dim)
        answer = function_values(f, X, outputs)
        digest.update(np.ascontiguousarray(without_negative_zeros(answer.copy()), dtype="<f8").data)
        for token in range(net.length if net.positions else 1):
            stored = net.values[token * count + start :][: len(X)]
            bad = np.flatnonzero(~(np.abs(answer[:, token] - stored).max(axis=1) <= room))
            wrong += len(bad)
            for row in bad[: MOST_FINDINGS - len(findings)].tolist():
                value, expected, why = stored[row].tolist(), answer[row, token].tolist(), "a knot holds another value"
                findings.append(Finding("wrong", start + row, token, X[row].tolist(), expected, value, why))
        if net.positions:
            continue
        tokens = places.reshape(-1, net.length, net.dim)
        for token in range(1, net.length):
            order = [token, *(other for other in range(net.length) if other != token)]
            there = np.ravel_multi_index(tuple(tokens[:, order].reshape(len(X), -1).T), shape)
            apart = max(apart, float(np.abs(answer[:, token] - net.values[there]).max()))
    return KnotComparison(wrong, tuple(findings), apart, digest.hexdigest())


def _check_parts(net: Net) -> None:
    """Check everything that Lemma U needs of the weights."""
    if not 2.0**-400 <= net.width <= 2.0**400:
        raise UnhandledError(f"the domain is {net.width:g} wide")
    if net.several_heads:
        check_heads(net.length, net.tensors)
        return
    rank, stream = (net.length - 1) * net.dim, len(net.tensors["attention.W_V"])
    first = np.zeros((stream, stream))
    first[range(rank), range(rank)] = 1.0
    last = np.roll(first, stream - rank, axis=0)
    for name, wanted in (("Q", 0.0 * first), ("K", 0.0 * first), ("V", first), ("O", last)):
        if not np.array_equal(net.tensors[f"attention.W_{name}"], wanted):
            raise UnhandledError(f"W_{name} does not average what the tokens write into their slots")
    fine, coarse = np.arange(2**13 + 1) / 2.0**13, np.arange(2**11 + 1) / 2.0**11
    bends = {"square": (fine, fine**2), "total": (2.0 * fine, 4.0 * fine**2), "root": (coarse**2, coarse)}
    for part in net.bends:
        for name, wanted in zip(("knots", "values"), bends[part], strict=True):
            if not np.array_equal(net.tensors[f"{part}.{name}"], wanted):
                raise UnhandledError(f"{part} is not the one whose error docs/uniform.md bounds")
