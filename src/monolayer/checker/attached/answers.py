"""What the head makes of what a neuron writes. Lemmas A4 and A5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints, distinct_rows
from monolayer.checker.attached.caps import UNIT, Caps, Near
from monolayer.checker.attached.files import Folder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError

DIP = 0.3
"""What gelu and silu return at least, below 0: −0.17 and −0.28."""
AT_ONCE = 1 << 23
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
        self.head = host.tensors[host.head]
        self.centred = not host.kind.rms
        self.weight, self.bias = weight, np.zeros(host.width) if bias is None else bias
        self.epsilon, self.unit = host.epsilon, host.format.unit
        mean = sum(part.sum(axis=0) for _, part in self.head.blocks()) / self.head.shape[0]
        self.size, self.spread, self.plain = (np.zeros(self.head.shape[0]) for _ in range(3))
        for some, part in self.head.blocks():
            # Less a vector that all rows have in common, which a difference of two does not have.
            self.size[some], self.plain[some] = _lengths(part), _lengths(part - mean)
            self.spread[some] = _lengths((part - mean) * weight)
        if not all(np.isfinite(numbers).all() for numbers in (self.size, self.spread, weight, self.bias)):
            raise UnhandledError("the last norm or the head of the host holds a number that is not finite")

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
        step = max(1, AT_ONCE // self.head.shape[0])
        for start in range(0, count, step):
            some = slice(start, start + step)
            normed = np.sqrt(D) * self.direction(rows[some]) * self.weight + self.bias
            logits = np.empty((len(normed), self.head.shape[0]))
            for words, part in self.head.blocks():
                logits[:, words] = normed @ part.T
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
    first, kind = distinct_rows(found.writes)
    cases, number = np.unique(
        np.stack([kind[asked], tokens, share[asked]], axis=1).astype(np.float64), axis=0, return_inverse=True
    )
    rows, own = found.writes[first[cases[:, 0].astype(np.int64)]], cases[:, 1].astype(np.int64)
    groups = head.judge(rows, own, 2.0 * cases[:, 2], D)
    number = number.reshape(-1)
    sound = firm[asked] & ~near.spoilt[asked] & ~hidden[asked]
    return Said(groups.right[number] & sound, groups.wrong[number] & sound, groups.got[number])


def _lengths(rows: Floats) -> Floats:
    found: Floats = np.sqrt((rows * rows).sum(axis=1))
    return found


def _answered_to(found: Folder, caps: Caps, head: Head, share: Floats) -> Bools:
    """Neurons `(N,)` whose written row may wake one of a later block."""
    H, N = found.host.neurons, len(found.bias)
    block, bad = np.arange(N) // H, np.zeros(N, dtype=bool)
    for number in range(int(block.max(initial=0))):
        mine, later = np.flatnonzero(block == number), np.flatnonzero(block > number)
        first, back = distinct_rows(found.writes[mine])
        directions = head.direction(found.writes[mine[first]])
        widest = np.zeros(len(first))
        np.maximum.at(widest, back, 2.0 * share[mine] + caps.length + 2.0**-20)
        woken = np.zeros(len(first), dtype=bool)
        for start in range(0, len(later), 4096):
            some = later[start : start + 4096]
            woken |= (directions @ caps.keys[some].T + widest[:, None] > caps.silent[some]).any(axis=1)
        bad[mine] = woken[back]
    return bad
