"""The feed-forward block of a robust stock folder on enclosed numbers: neurons that may wake. Lemmas E6 and E7.

Letters: `H` neurons, `P` points, `G` tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import PADDING
from monolayer.checker.stock.enclosed import (
    FLUSHED_32,
    MORE,
    SHORT_EXP_ULPS,
    UNIT_32,
    Average,
    Enclosed,
    Linear,
    gamma_32,
    mean_product,
    norm,
    norm_factor,
)
from monolayer.checker.stock.files import Network

ENCLOSED_AT_ONCE = 1 << 22
"""How many numbers each of a few arrays holds at a time; it bounds memory, and no result depends on it."""
RESTS, SLEEPING = {"relu6": 0.0, "silu": -24.0}, {"relu6": 0.0, "silu": 1e-9}
"""By activation: up to `RESTS`, the absolute value that it returns is at most `SLEEPING`; 0 means exactly 0."""


def activated(name: str, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Lemma E6: the least and the largest value that any evaluation returns between `low` and `high`."""
    if name == "relu6":
        return np.clip(low, 0.0, 6.0), np.clip(high, 0.0, 6.0)
    ends = low / (1.0 + np.exp(-low)), high / (1.0 + np.exp(-high))
    least, most = np.minimum(*ends), np.maximum(*ends)
    least = np.where((low < -1.2785) & (high > -1.2785), np.minimum(least, -0.2785), least)  # its one minimum
    off = (2.0 * SHORT_EXP_ULPS + 16.0) * UNIT_32 * np.maximum(np.abs(least), np.abs(most))
    return least - off, most + off


class Sway:
    """The error of attention along the directions that neurons read; `rest` encloses what arrives without it."""

    def __init__(self, net: Network, average: Average, write: Floats, stream: Enclosed) -> None:
        self.average, self.write, self.weight, self.centre = average, write, net["scale_2"], not net.architecture.rms
        moved = average.found.radius.reshape(-1, write.shape[1]) @ np.abs(write).T
        middle, others = stream.middle, stream.radius - moved
        if self.centre:
            middle = middle - middle.mean(axis=-1, keepdims=True)
        else:
            others = others + stream.shift
        along = self._off(np.arange(len(middle)), (middle @ write)[:, None]) / net.width
        scaled = norm_factor(stream, net.epsilon, net.architecture.rms, along + mean_product(np.abs(middle), others))
        normed = norm(stream, net["scale_2"], net["shift_2"], net.epsilon, net.architecture.rms, scaled)
        self.factor = scaled[0]
        # Radii were padded on the way, so what is taken away from them here is less than what was put there. Where the
        # common error is too large, it is among them already, and nothing is taken away.
        moved = np.where(normed.common > 0.0, self.factor * moved, 0.0)
        mean = np.abs(self.weight[0]) * moved.mean(axis=-1, keepdims=True) if self.centre else 0.0
        self.rest = Enclosed(
            normed.middle,
            normed.radius - np.abs(self.weight) * moved,
            normed.common,
            np.maximum(normed.shift - mean, 0.0),
        )

    def _off(self, points: Ints, matrix: Floats) -> Floats:
        """What `Average.along` returns for `matrix`, `(J, k)` or one row per point `(P, 1, k)`, in parts."""
        _, keys, columns = self.average.values.middle.shape
        size = int(keys) * max(matrix.shape[-2], int(columns))
        bounds = []
        for cut in np.array_split(np.arange(len(points)), 1 + len(points) * size // ENCLOSED_AT_ONCE):
            at = np.divmod(points[cut], self.average.weight.shape[1])
            bounds.append(self.average.along(at, matrix if matrix.ndim == 2 else matrix[cut]))
        return np.concatenate(bounds)

    def along(self, points: Ints, weight: Floats) -> Floats:
        """How far the error of attention moves sums with the weights `(J, D)` of what arrives at `points`, `(P, J)`."""
        read = weight * self.weight
        read = (read - read.mean(axis=1, keepdims=True) if self.centre else read) @ self.write
        return np.asarray(self.factor[points] * self._off(points, read))


class Values(NamedTuple):
    """What `J` neurons return at `P` points, `(P, J)` each.

    `nonzero`: where that may be other than 0. `wakes`: where the neuron may wake. `above`: where it reads more than 0
    in float64.
    """

    value: Enclosed
    nonzero: Bools
    wakes: Bools
    above: Bools


class WakingPairs(NamedTuple):
    """Pairs of a point and a neuron that may wake there, an array per field.

    `value`: the middle of what the neuron returns. `above`: whether it reads more than 0 in float64.
    """

    point: Ints
    neuron: Ints
    value: Floats
    above: Bools


class FeedForward:
    """The feed-forward block: evaluates the neurons that may wake at a token, and bounds what all others add."""

    def __init__(self, net: Network) -> None:
        self.net, self.sleeping = net, SLEEPING[net.activation]
        self.columns, self.written = (np.flatnonzero(part.any(axis=0)) for part in (net["W_1"], net["W_2"]))
        self.first, self.second = net["W_1"][:, self.columns], net["W_2"][:, self.written]
        self.rounds = MORE * gamma_32(float(np.count_nonzero(net["W_1"], axis=1).max(initial=0)) + 4.0)
        tokens = net["tokens"][:, self.columns]
        self.of_token = tokens.any(axis=0)
        self.tokens, self.reads = tokens[:, self.of_token], self.first[:, self.of_token]
        lengths = [np.linalg.norm(self.first[:, part], axis=1) for part in (self.of_token, ~self.of_token)]
        # Rows for `_awake`: factors of the lengths on both sets of columns, the factor of errors, and what is added.
        self.limits = np.stack(
            [*lengths, MORE * np.hypot(*lengths), net["b_1"] + self.rounds * np.abs(net["b_1"]) + FLUSHED_32]
        )
        # Bounds what resting neurons add where they do not return exactly 0; a gate multiplies that.
        size = np.ones(len(net["W_1"]))
        if "W_3" in net:
            length = PADDING * (net.width**0.5 * np.abs(net["scale_2"]).max() + np.linalg.norm(net["shift_2"]))
            size = MORE * (np.linalg.norm(net["W_3"], axis=1) * length + np.abs(net["b_3"]))
        self.sleep = 2.0 * self.sleeping * (size @ np.abs(net["W_2"]))

    def __call__(self, x: Enclosed, token: Ints, sway: Sway | None, heard: list[WakingPairs] | None = None) -> Enclosed:
        """What the neurons write `(P, D)` where `x` `(P, D)` arrives at the ids `token` `(P,)`.

        `sway`: sharper bounds on the error of attention, if wanted. `heard`: a list that gets, for some points at a
        time, what each neuron returns where it may wake.
        """
        order = np.argsort(token, kind="stable")
        tokens, starts = np.unique(token[order], return_index=True)
        starts = np.append(starts, len(order))
        rest, x = (x if sway is None else sway.rest)[order], x[order]
        read, rest = (part.only(self.columns) for part in (x, rest))
        middle, radius = np.zeros((2, len(order), len(self.written)))
        step = max(1, ENCLOSED_AT_ONCE // max(1, 4 * len(self.first)))
        for begin in range(0, len(tokens), step):
            group = slice(begin, begin + step)
            awake = self._awake(read, tokens[group], starts[begin : begin + step + 1])
            for number in np.flatnonzero(awake.any(axis=1)):
                which = np.flatnonzero(awake[number])
                points = np.arange(*starts[begin + number : begin + number + 2])
                for cut in np.array_split(points, 1 + len(points) * len(which) // ENCLOSED_AT_ONCE):
                    values = self._values(x[cut], rest[cut], which, sway, order[cut])
                    middle[cut], radius[cut] = self._write(values, which)
                    if heard is not None:
                        pair = np.nonzero(values.wakes)
                        point, neuron = order[cut][pair[0]], which[pair[1]]
                        heard.append(WakingPairs(point, neuron, values.value.middle[pair], values.above[pair]))
        wide = np.zeros((2, *x.middle.shape))
        wide[0][np.ix_(order, self.written)], wide[1][np.ix_(order, self.written)] = middle, radius
        hidden, b = Enclosed.of(wide[0], wide[1] + self.sleep), self.net["b_2"]
        return (
            hidden
            if not b.any()
            else Enclosed.of(wide[0] + b, hidden.radius + MORE * UNIT_32 * (hidden.size + np.abs(b)))
        )

    def _awake(self, x: Enclosed, tokens: Ints, starts: Ints) -> Bools:
        """Neurons `(G, H)` that may wake at some point of each token; the points of a token lie between two `starts`.

        What arrives is `α T + rest`, `T` the row of the token. `w · rest` is at most the product of both lengths, taken
        separately on the columns of tokens, where the rest is nearly 0, and on all others.
        """
        rows, first = slice(starts[0], starts[-1]), starts[:-1] - starts[0]
        vectors, z = np.repeat(self.tokens[tokens], np.diff(starts), axis=0), x.middle[rows]
        near, far = z[:, self.of_token], z[:, ~self.of_token]
        share = (near * vectors).sum(axis=1) / np.maximum((vectors * vectors).sum(axis=1), 1e-300)
        off = x.radius[rows] + x.shift[rows] + x.common[rows] * np.abs(z)
        off = off + self.rounds * (np.abs(z) + off)
        lengths = [np.linalg.norm(part, axis=1) for part in (near - share[:, None] * vectors, far, off)]
        most = np.stack([*(np.maximum.reduceat(part, first) for part in lengths), np.ones(len(tokens))], axis=1)
        height = self.tokens[tokens] @ self.reads.T
        # `off` holds the roundings of binary32, beside which those of binary64 here are nothing.
        top = most @ self.limits
        top += np.maximum(*(bound.reduceat(share, first)[:, None] * height for bound in (np.minimum, np.maximum)))
        return np.asarray(~(top <= RESTS[self.net.activation]))

    def _values(self, x: Enclosed, rest: Enclosed, which: Ints, sway: Sway | None, points: Ints) -> Values:
        """What the neurons `which` `(J,)` return where `x` arrives, at the points with the numbers `points` `(P,)`.

        `rest`: what arrives without the error of attention, in the columns that neurons read.
        """
        net, first, bias = self.net, self.first[which], self.net["b_1"][which]
        size = x.only(self.columns).size
        radius = (rest.radius + self.rounds * size) @ np.abs(first).T + rest.shift * np.abs(first.sum(axis=1))
        radius += 0.0 if sway is None else sway.along(points, net["W_1"][which])
        middle = rest.middle @ first.T
        radius = PADDING * (radius + rest.common * (np.abs(middle) + radius)) + self.rounds * np.abs(bias) + FLUSHED_32
        low, high = activated(net.activation, middle + bias - radius, middle + bias + radius)
        value = Enclosed.between(low, high)
        if "W_3" in net:
            by = Linear(net["W_3"][which], net["b_3"][which])(x).spread()
            size = value.size * by.size
            value = Enclosed.of(
                value.middle * by.middle, size - np.abs(value.middle * by.middle) + 2.0 * UNIT_32 * size
            )
        nonzero, wakes = ((low < -least) | (high > least) for least in (0.0, self.sleeping))
        return Values(value, nonzero, wakes, middle + bias > 0.0)

    def _write(self, values: Values, which: Ints) -> tuple[Floats, Floats]:
        """What the neurons `which` write in the columns that any neuron writes to, and how far that may be off."""
        value, second = values.value, self.second[which]
        # Exact zeros add nothing to a sum, so only the others cause roundings.
        nonzero = values.nonzero.sum(axis=1, keepdims=True)
        nonzero = nonzero if self.sleeping == 0.0 else np.full_like(nonzero, len(self.net["W_1"]))
        rounds = MORE * gamma_32(nonzero + 8.0)
        return value.middle @ second, PADDING * ((value.radius + rounds * value.size) @ np.abs(second))
