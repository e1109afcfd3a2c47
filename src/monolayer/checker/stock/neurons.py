"""The feed-forward block of a robust stock folder on enclosed numbers: neurons that may wake. Lemmas E6 and E7.

Letters: `H` neurons, `P` points, `G` tokens.
"""

from __future__ import annotations

import numpy as np

from monolayer.checker.readout import Bools
from monolayer.checker.rounding import PADDING, Floats
from monolayer.checker.stock.activations import activation, between
from monolayer.checker.stock.enclosed import MORE, TINY, UNIT, Average, Enclosed, Linear, centred, gamma
from monolayer.checker.stock.files import Network
from monolayer.data.names import Ints

AT_ONCE = 1 << 22
"""Numbers held at a time, in each of a few arrays."""


class Sway:
    """What wrong attention weights may change in what arrives at the neurons: of each coordinate, and of sums."""

    def __init__(self, net: Network, average: Average, write: Floats, before: Enclosed, normed: Enclosed) -> None:
        self.average, self.write, self.weight, self.centre = average, write, net.norms[2], not net.rms
        middle = before.middle if net.rms else centred(before)[0]
        self.factor = 1.0 / np.sqrt((middle * middle).mean(axis=-1, keepdims=True) + net.epsilon)
        moved = average.swayed.reshape(-1, average.swayed.shape[-1]) @ np.abs(write).T
        moved = moved + (moved.mean(axis=-1, keepdims=True) if self.centre else 0.0)
        # A little of it stays, for what its size rounds.
        self.each = np.minimum((1.0 - 2.0**-8) * self.factor * np.abs(self.weight) * moved, normed.radius)

    def along(self, points: Ints, weight: Floats) -> Floats:
        """How far sums with these weights `(J, D)` of what arrives at some points may be off by it."""
        read = weight * self.weight
        read = (read - read.mean(axis=1, keepdims=True) if self.centre else read) @ self.write
        queries = self.average.weight.shape[1]
        found: Floats = self.factor[points] * self.average.along((points // queries, points % queries), read)
        return found

    def cost(self, neurons: int) -> int:
        """Numbers that `along` holds for each point."""
        _, keys, columns = self.average.values.shape
        return int(keys) * max(neurons, int(columns))


class Neurons:
    """The feed-forward block. At each token the neurons that may wake there, and a bound on what the others add."""

    def __init__(self, net: Network) -> None:
        self.net, self.active = net, activation(net.activation)
        H = len(net.W_1)
        self.columns = np.flatnonzero(net.W_1.any(axis=0))
        self.first, self.second = np.ascontiguousarray(net.W_1[:, self.columns]), net.W_2
        self.written = np.flatnonzero(net.W_2.any(axis=0))
        of_token = (net.tokens[:, self.columns] != 0).any(axis=0)
        self.token_side, self.other_side = np.flatnonzero(of_token), np.flatnonzero(~of_token)
        self.lengths = [np.linalg.norm(self.first[:, part], axis=1) for part in (self.token_side, self.other_side)]
        self.terms = float(np.count_nonzero(net.W_1, axis=1).max(initial=0))
        # What resting neurons add where they are not exactly 0, and what a gate multiplies that by.
        size = np.ones(H)
        if net.gate is not None:
            length = PADDING * (net.width**0.5 * np.abs(net.norms[2]).max() + np.linalg.norm(net.norms[3]))
            size = MORE * (np.linalg.norm(net.gate[0], axis=1) * length + np.abs(net.gate[1]))
        self.sleep = 2.0 * self.active.sleeping * (size @ np.abs(net.W_2)) if H else np.zeros(net.width)

    def __call__(self, x: Enclosed, token: Ints, sway: Sway | None) -> Enclosed:
        """What the neurons write `(P, D)` where `x` `(P, D)` arrives; `token` `(P,)`."""
        order = np.argsort(token, kind="stable")
        tokens, starts = np.unique(token[order], return_index=True)
        groups = np.split(order, starts[1:])
        middle, radius = np.zeros((2, *x.middle.shape))
        radius += self.sleep
        for begin in range(0, len(tokens), step := max(1, AT_ONCE // max(1, 4 * len(self.first)))):
            some = groups[begin : begin + step]
            for points, live in zip(some, self._awake(x, tokens[begin : begin + step], some), strict=True):
                which = np.flatnonzero(live)
                size = len(which) if sway is None else sway.cost(len(which))
                for cut in np.array_split(points, 1 + len(points) * size // AT_ONCE):
                    if len(which) == 0:
                        continue
                    found = self._write(x, cut, which, sway)
                    middle[np.ix_(cut, self.written)] = found.middle
                    radius[np.ix_(cut, self.written)] += found.radius
        found = Enclosed.of(middle, radius)
        b = self.net.b_2
        return found if not b.any() else Enclosed.of(middle + b, found.radius + MORE * UNIT * (found.size + np.abs(b)))

    def _awake(self, x: Enclosed, tokens: Ints, groups: list[Ints]) -> Bools:
        """Neurons `(G, H)` that may wake at some of a token's points.

        What arrives is `α T + rest`, `T` the token's row: `w · rest` is at most the lengths of both, on the columns of
        tokens, where the rest is all but 0, and on the others.
        """
        net, own = self.net, self.net.tokens[tokens][:, self.columns]
        height = own @ self.first.T
        square = np.maximum((own * own).sum(axis=1), 1e-300)
        reach = np.zeros((5, len(tokens)))
        for number, points in enumerate(groups):
            z = x.middle[np.ix_(points, self.columns)]
            share = (z @ own[number]) / square[number]
            rest = z - share[:, None] * own[number]
            lengths = [np.linalg.norm(rest[:, part], axis=1).max() for part in (self.token_side, self.other_side)]
            off = x.radius[np.ix_(points, self.columns)] + float(x.common[points].max()) * np.abs(z)
            off = off + MORE * gamma(self.terms + 4.0) * (np.abs(z) + off)
            reach[:, number] = share.min(), share.max(), *lengths, np.linalg.norm(off, axis=1).max()
        least, most, near, far, off = reach[:, :, None]
        top = np.maximum(least * height, most * height) + near * self.lengths[0] + far * self.lengths[1]
        # `off` holds the roundings of binary32, beside which those of binary64 here are nothing.
        top += MORE * off * np.hypot(*self.lengths) + net.b_1 + MORE * gamma(self.terms + 4.0) * np.abs(net.b_1) + TINY
        return np.asarray(~(top <= self.active.rests))

    def _write(self, x: Enclosed, points: Ints, which: Ints, sway: Sway | None) -> Enclosed:
        """What some neurons write at some points, in the columns that any neuron writes to."""
        net, here = self.net, x[points]
        first = Linear(net.W_1[which], net.b_1[which])
        if sway is None:
            read = first(here).spread()
        else:
            less = Enclosed(here.middle, here.radius - sway.each[points], here.common)
            read = first(less, sway.along(points, net.W_1[which])).spread()
        low, high = self.active(read.middle - read.radius, read.middle + read.radius)
        value = between(low, high)
        if net.gate is not None:
            by = Linear(net.gate[0][which], net.gate[1][which])(here).spread()
            size = value.size * by.size
            radius = size - np.abs(value.middle * by.middle) + 2.0 * UNIT * size
            value = Enclosed.of(value.middle * by.middle, radius)
        # Exact zeros add nothing, so that only others round.
        nonzero = ((low != 0.0) | (high != 0.0)).sum(axis=1, keepdims=True)
        nonzero = nonzero if self.active.sleeping == 0.0 else np.full_like(nonzero, len(net.W_1))
        second, rounds = net.W_2[np.ix_(which, self.written)], MORE * gamma(nonzero + 8.0)
        return Enclosed.of(value.middle @ second, (value.radius + rounds * value.size) @ np.abs(second))
