"""What the head makes of what a neuron writes. Lemmas A4 and A5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.attached.caps import UNIT, Caps, Near
from monolayer.checker.attached.files import Folder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError

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
        self.spread, self.plain = _spread(scaled), _spread(self.head)
        self.epsilon, self.unit = host.epsilon, host.format.unit

    def seen(self, rows: Floats) -> Floats:
        """Written rows `(n, D)`, less their mean where norms subtract it."""
        return rows - rows.mean(axis=1, keepdims=True) if self.centred else rows

    def direction(self, rows: Floats) -> Floats:
        """Unit vectors `(n, D)` along written rows as norms see them."""
        seen = self.seen(rows)
        length = _lengths(seen)[:, None]
        found: Floats = np.divide(seen, length, out=np.zeros_like(seen), where=length > 0.0)
        return found

    def judge(self, rows: Floats, tokens: Ints, seen: Floats, D: int) -> Said:
        """Whether states along written rows `(n, D)`, directions known to within `seen` `(n,)`, answer `tokens`."""
        count = len(rows)
        right, wrong = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        got = np.zeros(count, np.int64)
        eta = (D + 16) * UNIT
        for start in range(0, count, max(1, AT_ONCE // len(self.head))):
            some = slice(start, start + max(1, AT_ONCE // len(self.head)))
            normed = np.sqrt(D) * self.direction(rows[some]) * self.weight + self.bias
            logits = normed @ self.head.T
            own, line = tokens[some], np.arange(len(logits))
            got[some] = logits.argmax(axis=1)
            moved = np.sqrt(D) * (seen[some] + eta)
            length = np.sqrt((normed * normed).sum(axis=1)) + moved * np.abs(self.weight).max()
            length += np.sqrt((self.bias * self.bias).sum())
            rounding = BINARY32.gamma(D + 8.0) * length
            mine = logits[line, own]
            doubt = moved[:, None] * (self.spread + self.spread[own][:, None])
            doubt += rounding[:, None] * (self.size + self.size[own][:, None])
            # What the last norm returns is rounded to the format, up to twice, and then each logit is.
            doubt += 2.0 * self.unit * length[:, None] * (self.plain + self.plain[own][:, None])
            doubt = (1.0 + 2.0 * self.unit) * doubt + self.unit * (np.abs(logits) + np.abs(mine)[:, None])
            gap = mine[:, None] - logits
            gap[line, own] = np.inf
            right[some] = (gap > PADDING * doubt).all(axis=1)
            gap[line, own] = 0.0
            wrong[some] = (-gap > PADDING * doubt).any(axis=1)
        return Said(right, wrong, got)


def judge_answers(found: Folder, caps: Caps, near: Near, asked: Ints, tokens: Ints) -> Said:
    """Whether neurons `asked` `(M,)` answer `tokens` `(M,)` at every state of their caps (A4, A5)."""
    head, D, fmt = Head(found), found.host.width, caps.fmt
    length, seen = _lengths(found.writes), _lengths(head.seen(found.writes))
    # The activation returns 0.999 of an input from `floor` on, in short formats after a few roundings.
    kept = 0.999 - 4.0 * fmt.unit
    alone = kept * (caps.level - caps.err)
    beside = kept * caps.floor - DIP * near.count
    fires = np.where(near.count == 0, alone, beside)
    least = np.where(near.count == 0, alone, caps.floor / 2.0) * seen
    most = (
        (near.count + 1) * 1.01 * np.max(caps.alpha * (1.0 + caps.length) + found.bias + caps.err, initial=0.0) * length
    )
    firm = (fires >= caps.floor / 2.0) & (most <= 2.0**50) & (least >= 8.0 * fmt.state)
    # Of what arrives at the last norm, the share that is not the written row: the state, roundings, ε.
    with np.errstate(divide="ignore", invalid="ignore"):
        roundings = (BINARY32.gamma(near.count + 8.0) + 2.0 * fmt.unit) * (length / seen + fmt.state / least)
        share = PADDING * (fmt.state / least * (1.0 + 2.0 * fmt.unit) + roundings + np.sqrt(D) * fmt.tiny / least)
        share += D * head.epsilon / least**2
    share[~(share < 1.0)] = 1.0  # nothing is known of such a direction
    hidden = _answered_to(found, caps, head, share)
    keys, number = np.unique(
        np.concatenate([found.writes[asked], tokens[:, None].astype(np.float64), share[asked][:, None]], axis=1),
        axis=0,
        return_inverse=True,
    )
    groups = head.judge(keys[:, :D], keys[:, D].astype(np.int64), 2.0 * keys[:, D + 1], D)
    number = number.reshape(-1)
    sound = firm[asked] & ~near.spoilt[asked] & ~hidden[asked]
    return Said(groups.right[number] & sound, groups.wrong[number] & sound, groups.got[number])


def _lengths(rows: Floats) -> Floats:
    found: Floats = np.sqrt((rows * rows).sum(axis=1))
    return found


def _spread(rows: Floats) -> Floats:
    """How long rows are `(V,)`, less their mean, which a difference of two does not have."""
    return _lengths(rows - rows.mean(axis=0))


def _answered_to(found: Folder, caps: Caps, head: Head, share: Floats) -> Bools:
    """Neurons `(N,)` whose written row may wake one of a later block."""
    H, N = found.host.neurons, len(found.bias)
    block, bad = np.arange(N) // H, np.zeros(N, dtype=bool)
    for number in range(int(block.max(initial=0))):
        mine, later = np.flatnonzero(block == number), np.flatnonzero(block > number)
        rows, back = np.unique(found.writes[mine], axis=0, return_inverse=True)
        directions, back = head.direction(rows), back.reshape(-1)
        widest = np.zeros(len(rows))
        np.maximum.at(widest, back, 2.0 * share[mine] + caps.length + 2.0**-20)
        woken = np.zeros(len(rows), dtype=bool)
        for start in range(0, len(later), 4096):
            some = later[start : start + 4096]
            woken |= (directions @ caps.keys[some].T + widest[:, None] > caps.silent[some]).any(axis=1)
        bad[mine] = woken[back]
    return bad
