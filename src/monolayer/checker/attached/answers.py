"""What the head makes of what a neuron writes. Lemmas A4 and A5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.attached.caps import UNIT, Caps, Near
from monolayer.checker.attached.files import Folder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError

LARGEST = 2.0**16
"""`|h|`, at most."""
OVERFLOW = 2.0**120
"""What logits, and every sum on the way to them, may reach."""
DIP = 0.3
"""What gelu and silu return at least, below 0: −0.17 and −0.28."""
AT_ONCE = 1 << 25
"""Logits held at a time."""


class Said(NamedTuple):
    """For asked neurons `(M,)`: whether the answer surely is the largest, surely is not, and what is at the centre."""

    right: Bools
    wrong: Bools
    got: Ints


class Head:
    """Last norm and head, as far as bounds need them."""

    def __init__(self, found: Folder) -> None:
        host = found.host
        weight, bias = host.norm()
        self.head = host.tensors[host.head].numbers()
        if not (
            np.isfinite(self.head).all() and np.isfinite(weight).all() and (bias is None or np.isfinite(bias).all())
        ):
            raise UnhandledError("the last norm or the head of the host holds a number that is not finite")
        self.centred = not host.kind.rms
        self.weight, self.bias = weight, np.zeros(host.width) if bias is None else bias
        scaled = self.head * weight
        self.size = np.sqrt((self.head * self.head).sum(axis=1))
        away = scaled - scaled.mean(axis=0)
        self.spread = np.sqrt((away * away).sum(axis=1))
        self.epsilon = host.epsilon
        longest = 2.0 * np.sqrt(host.width) * np.abs(weight).max() + np.sqrt((self.bias * self.bias).sum())
        if not longest * (1.0 + self.size.max(initial=0.0)) <= OVERFLOW:
            raise UnhandledError("the last norm and the head of the host are so large that logits may not be finite")

    def seen(self, rows: Floats) -> Floats:
        """What norms see of written rows `(n, D)`: the rows less their mean, where norms subtract it."""
        return rows - rows.mean(axis=1, keepdims=True) if self.centred else rows

    def direction(self, rows: Floats) -> Floats:
        """Unit vectors `(n, D)` along what norms see of written rows."""
        seen = self.seen(rows)
        length = np.sqrt((seen * seen).sum(axis=1, keepdims=True))
        found: Floats = np.divide(seen, length, out=np.zeros_like(seen), where=length > 0.0)
        return found

    def judge(self, rows: Floats, tokens: Ints, seen: Floats, D: int) -> Said:
        """Whether states along written rows `(n, D)`, normed to within `seen` `(n,)` of √D, answer `tokens`."""
        count = len(rows)
        right, wrong = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        got = np.zeros(count, np.int64)
        for start in range(0, count, max(1, AT_ONCE // len(self.head))):
            some = slice(start, start + max(1, AT_ONCE // len(self.head)))
            normed = np.sqrt(D) * self.direction(rows[some]) * self.weight + self.bias
            logits = normed @ self.head.T
            own, line = tokens[some], np.arange(len(logits))
            got[some] = logits.argmax(axis=1)
            moved = np.sqrt(D) * seen[some]
            length = np.sqrt((normed * normed).sum(axis=1)) + moved * np.abs(self.weight).max()
            length += np.sqrt((self.bias * self.bias).sum())
            rounding = BINARY32.gamma(D + 8.0) * length
            mine = logits[line, own]
            doubt = moved[:, None] * (self.spread + self.spread[own][:, None])
            doubt += rounding[:, None] * (self.size + self.size[own][:, None])
            # Numbers that are flushed to zero: four on the way to each coordinate, two more in each product.
            doubt += 4.0 * BINARY32.tiny * D * (self.size + self.size[own][:, None])
            doubt += 8.0 * BINARY32.tiny * (np.sqrt(D) * length[:, None] + D)
            gap = mine[:, None] - logits
            gap[line, own] = np.inf
            right[some] = (gap > PADDING * doubt).all(axis=1)
            gap[line, own] = 0.0
            wrong[some] = (-gap > PADDING * doubt).any(axis=1)
        return Said(right, wrong, got)


class Written(NamedTuple):
    """What the neurons `(N,)` write, as the norms behind them see it (A4).

    `firm`: whether it outweighs every state and stays finite. `share`: how far what a norm returns may be from the
    direction of the written row, as a share of √D.
    """

    firm: Bools
    share: Floats


def written(found: Folder, caps: Caps, near: Near, head: Head) -> Written:
    """Lemma A4 for all neurons."""
    D, T = found.host.width, caps.response
    seen = head.seen(found.writes)
    # The norm sees |w_2| less its mean, and roundings are relative to all of it. A mean is computed here, too.
    whole = np.sqrt((found.writes * found.writes).sum(axis=1))
    length = np.maximum(0.0, np.sqrt((seen * seen).sum(axis=1)) - D * 2.0**-52 * whole)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = np.where(length > 0.0, whole / length, np.inf)
    least = T / 16.0 * length
    # The neuron itself returns 0.999 T/8, others take off DIP each; so all of them are at most 3 a in size.
    low = 0.999 * T / 8.0 - DIP * near.count >= T / 16.0
    most = (near.count + 1) * caps.loudest * whole
    firm = low & (most <= 2.0**50) & (least >= 64.0 * LARGEST) & (kappa <= 2.0**10)
    with np.errstate(divide="ignore", invalid="ignore"):
        other = LARGEST / least + BINARY32.gamma(near.count + 8.0) * (3.0 * kappa + LARGEST / least)
        rounding = 2.0 * (D + 16) * UNIT * kappa * kappa
        share = PADDING * (2.0 * other + rounding + D * head.epsilon / least**2)
    return Written(firm, np.where(firm, share, 1.0))


def judge_answers(found: Folder, caps: Caps, near: Near, asked: Ints, tokens: Ints) -> Said:
    """Whether neurons `asked` `(M,)` answer `tokens` `(M,)` at every state of their caps (A4, A5)."""
    head, D = Head(found), found.host.width
    firm, share = written(found, caps, near, head)
    hidden = _answered_to(found, caps, head, near.first, share)
    keys, number = np.unique(
        np.concatenate([found.writes[asked], tokens[:, None].astype(np.float64), share[asked][:, None]], axis=1),
        axis=0,
        return_inverse=True,
    )
    groups = head.judge(keys[:, :D], keys[:, D].astype(np.int64), keys[:, D + 1], D)
    number = number.reshape(-1)
    sound = firm[asked] & ~near.spoilt[asked] & ~hidden[asked]
    return Said(groups.right[number] & sound, groups.wrong[number] & sound, groups.got[number])


def _answered_to(found: Folder, caps: Caps, head: Head, first: Ints, share: Floats) -> Bools:
    """Neurons `(N,)` whose written row may wake one of a block behind the `first` `(N,)` that writes it."""
    H, N = found.host.neurons, len(found.bias)
    block, bad = np.arange(N) // H, np.zeros(N, dtype=bool)
    for number in range(int(block.max(initial=0))):
        mine, later = np.flatnonzero(first == number), np.flatnonzero(block > number)
        rows, back = np.unique(found.writes[mine], axis=0, return_inverse=True)
        directions = head.direction(rows)
        widest = float(share[mine].max(initial=0.0)) + caps.length + 2.0**-20
        woken = np.zeros(len(rows), dtype=bool)
        for start in range(0, len(later), 4096):
            some = later[start : start + 4096]
            woken |= (directions @ caps.keys[some].T + widest > caps.silent[some]).any(axis=1)
        bad[mine] = woken[back.reshape(-1)]
    return bad
