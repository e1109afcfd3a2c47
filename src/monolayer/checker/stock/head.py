"""The last norm, the pooler and the head of a robust stock folder: which class has the largest logit. Lemma E8."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.labelled import PointVerdicts
from monolayer.checker.rounding import PADDING
from monolayer.checker.stock.enclosed import FLUSHED_32, MORE, Enclosed, Linear, centred, gamma_32, norm
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.neurons import ENCLOSED_AT_ONCE

TANH_ERROR = 2.0**-20
"""Assumed: how far a computed tanh may be off."""


def tanh(x: Enclosed) -> Enclosed:
    """The values that tanh, the pooler activation of BERT, may return."""
    x = x.spread()
    return Enclosed.between(np.tanh(x.middle - x.radius) - TANH_ERROR, np.tanh(x.middle + x.radius) + TANH_ERROR)


def relu(x: Enclosed) -> Enclosed:
    """The values that relu, the pooler activation of DistilBERT, may return."""
    x = x.spread()
    return Enclosed.between(np.maximum(x.middle - x.radius, 0.0), np.maximum(x.middle + x.radius, 0.0))


class CloseClasses(NamedTuple):
    """Pairs of a point and a class other than the wanted one that may have the larger logit there.

    `low`, `high`: bounds on the logit of the wanted class minus that of the other class.
    """

    point: Ints
    other: Ints
    low: Floats
    high: Floats


POOLS = {"tanh": tanh, "relu": relu}
"""The activations after a pooler."""


class StockHead:
    """The last norm, the pooler if there is one, and the head that returns a logit per class."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.bias = net["b_H"]
        # Without biases and tanh behind it, the last norm only multiplies all logits of a point by one positive number.
        biases = [net[letter] for letter in ("b_H", "shift_3", "b_P") if letter in net]
        self.plain = ("W_P" not in net or net.architecture.pool_keeps_scale) and not any(bias.any() for bias in biases)
        scale = net["scale_3"] if self.plain else 1.0
        self.pool = None if "W_P" not in net else Linear(net["W_P"] * scale, net["b_P"])
        weight = net["W_H"] if self.pool else net["W_H"] * scale
        self.columns = np.flatnonzero(weight.any(axis=0))
        self.weight = np.ascontiguousarray(weight[:, self.columns])
        self.rounds = MORE * gamma_32(len(self.columns) + 24.0)

    def compare(self, x: Enclosed, wanted: Ints) -> PointVerdicts:
        """Judge points at which the stream `x` `(P, D)` arrives and the class `wanted` `(P,)` is wanted."""
        return self._compare(self._head_input(x), wanted)

    def answers(self, x: Enclosed) -> tuple[Ints, Bools]:
        """The class with the largest logit in float64 `(P,)`, and whether every evaluation returns it."""
        x = self._head_input(x)
        likely = np.zeros(len(x.middle), dtype=np.int64)
        for cut in np.array_split(np.arange(len(likely)), 1 + len(likely) * len(self.weight) // ENCLOSED_AT_ONCE):
            likely[cut] = (x.middle[cut][:, self.columns] @ self.weight.T + self.bias).argmax(axis=1)
        return likely, self._compare(x, likely).right

    def _head_input(self, x: Enclosed) -> Enclosed:
        """What the head reads where `x` arrives; if the norm is `plain`, up to a positive factor per point."""
        net = self.net
        x = (
            centred(x, net.architecture.rms)
            if self.plain
            else norm(x, net["scale_3"], net["shift_3"], net.epsilon, net.architecture.rms)
        )
        if self.pool is not None:
            x = POOLS[net.architecture.pool](self.pool(x))
        return x if self.plain else x.spread()

    def _compare(self, x: Enclosed, wanted: Ints) -> PointVerdicts:
        """Judge points at which the head reads `x`."""
        right, wrong, answer = wanted >= 0, np.zeros(len(wanted), bool), np.full(len(wanted), -1)
        for cut in np.array_split(np.arange(len(wanted)), 1 + len(wanted) * len(self.weight) // ENCLOSED_AT_ONCE):
            point, other, low, high = self._close_classes(x[cut], wanted[cut])
            right[cut[point[~(low > 0.0)]]] = False
            lost = np.argsort(-high, kind="stable")  # the surest last, which stays
            lost = lost[high[lost] < 0.0]
            wrong[cut[point[lost]]], answer[cut[point[lost]]] = True, other[lost]
        return PointVerdicts(right, wrong, answer)

    def _close_classes(self, x: Enclosed, wanted: Ints) -> CloseClasses:
        """The classes that are not ruled out by bounds on each logit alone, which rule out nearly all of them.

        Those bounds cost two products of matrices; differences of two logits are bounded for the pairs that are left.
        """
        x, sizes, sums = x.only(self.columns), np.abs(self.weight), np.abs(self.weight.sum(axis=1))
        logits, size = x.middle @ self.weight.T + self.bias, self.rounds * x.size
        top = PADDING * ((x.radius + size) @ sizes.T + self.rounds * np.abs(self.bias) + x.shift * sums)
        mine = np.arange(len(wanted)), wanted
        floor = logits[mine] - top[mine] - FLUSHED_32
        close = ~(logits + top < floor[:, None]) & (wanted >= 0)[:, None]
        close[mine] = False
        point, other = np.nonzero(close)
        label = wanted[point]
        room = self.rounds * (np.abs(self.bias[label]) + np.abs(self.bias[other]))
        room += x.shift[point, 0] * (sums[label] + sums[other])
        for cut in np.array_split(np.arange(len(point)), 1 + len(point) * len(self.columns) // ENCLOSED_AT_ONCE):
            here, one, two = point[cut], label[cut], other[cut]
            room[cut] += np.einsum("ij,ij->i", x.radius[here], np.abs(self.weight[one] - self.weight[two]))
            room[cut] += np.einsum("ij,ij->i", size[here], sizes[one] + sizes[two])
        gap, room = logits[point, label] - logits[point, other], PADDING * room + FLUSHED_32
        return CloseClasses(point, other, gap - room, gap + room)
