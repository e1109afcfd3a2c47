"""The last norm, the pooler and the head of a robust stock folder: which class has the largest logit. Lemma E8."""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import PADDING
from monolayer.checker.stock.activations import relu, tanh
from monolayer.checker.stock.enclosed import MORE, TINY, Enclosed, Linear, centred, gamma, norm
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.neurons import AT_ONCE


class Head:
    """The last norm, a pooler where there is one, and the classes."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.pool = None if net.W_P is None else Linear(net.W_P, net.pool_bias)
        self.bias = np.zeros(len(net.head)) if net.head_bias is None else net.head_bias
        # The last norm multiplies all logits of a point by one positive number, if nothing is added behind it.
        self.plain = self.pool is None and not self.bias.any() and not net.norms[5].any()
        weight = net.head * net.norms[4] if self.plain else net.head
        self.columns = np.flatnonzero(weight.any(axis=0))
        self.weight = np.ascontiguousarray(weight[:, self.columns])
        self.rounds = MORE * gamma(len(self.columns) + 24.0)

    def compare(self, x: Enclosed, wanted: Ints) -> tuple[Bools, Bools, Ints]:
        """Points whose wanted class surely has the largest logit; surely not; and the class that is larger then."""
        net = self.net
        mean: Floats = np.zeros((len(wanted), 1))
        if self.plain:
            middle, off = (x.middle, mean) if net.rms else centred(x, x.size)
            mean = mean if net.rms else off + x.radius.mean(axis=-1, keepdims=True)
            x = Enclosed.of(middle, x.radius + MORE * gamma(8.0) * (x.size + np.abs(x.middle - middle)))
        else:
            x = norm(x, net.norms[4], net.norms[5], net.epsilon, net.rms)
            if self.pool is not None:
                x = (tanh if net.pool == "tanh" else relu)(self.pool(x))
            x = x.spread()
        middle, radius, size = (part[:, self.columns] for part in (x.middle, x.radius, x.size))
        right, wrong, got = np.zeros(len(wanted), bool), np.zeros(len(wanted), bool), np.full(len(wanted), -1)
        for cut in np.array_split(np.arange(len(wanted)), 1 + len(wanted) * len(self.weight) // AT_ONCE):
            logits = middle[cut] @ self.weight.T + self.bias
            shared = (self.rounds * size[cut]) @ np.abs(self.weight).T + self.rounds * np.abs(self.bias)
            shared += mean[cut] * np.abs(self.weight.sum(axis=1)) + self.rounds * mean[cut] * np.abs(self.weight).sum(1)
            for own in np.unique(wanted[cut]):
                if own < 0:
                    continue
                here = np.flatnonzero(wanted[cut] == own)
                gap = logits[here, own][:, None] - logits[here]
                room = radius[cut[here]] @ np.abs(self.weight[own] - self.weight).T
                room = PADDING * (room + shared[here] + shared[here, own][:, None]) + TINY
                low, high = gap - room, gap + room
                low[:, own] = high[:, own] = np.inf
                right[cut[here]] = low.min(axis=1) > 0.0
                wrong[cut[here]] = high.min(axis=1) < 0.0
                got[cut[here]] = np.where(high.min(axis=1) < 0.0, high.argmin(axis=1), -1)
        return right, wrong, got
