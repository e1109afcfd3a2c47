"""Bound the logits that the head gives at rows that neurons write (Lemmas A4 and A5)."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.attached.caps import Caps, Near, least_returned
from monolayer.checker.attached.files import AttachedFolder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError
from monolayer.data.distinct import equal_rows
from monolayer.huggingface.outweighing import SeenBy, lengths_to_prove, may_wake

OVERFLOW = 2.0**120
"""The bound on logits, and on every sum on the way to them, in binary32."""
HEAD_PRODUCTS_AT_ONCE = 1 << 23
"""How many logits are in memory at a time."""
KEYS_AT_ONCE = 1 << 12
"""How many keys of later blocks are compared with written rows at a time."""


class JudgedTokens(NamedTuple):
    """The judgement on neurons `(M,)` that were asked for tokens.

    `right`: whether the logit of the token is the largest in every evaluation. `wrong`: whether it is the largest in
    none. `got`: the token with the largest logit where the state lies exactly along the written row.
    """

    right: Bools
    wrong: Bools
    got: Ints


class Head:
    """The host's last norm and head, and the sizes of their weights that the bounds need."""

    def __init__(self, attached: AttachedFolder) -> None:
        host = attached.host
        weight, bias = host.norm()
        self.head = host.tensors[host.head]
        self.centred = not host.kind.rms
        self.weight, self.bias = weight, np.zeros(host.width) if bias is None else bias
        self.epsilon, self.fmt = host.epsilon, host.format
        mean = sum(part.sum(axis=0) for _, part in self.head.blocks()) / self.head.shape[0]
        self.size, self.spread, self.plain = (np.zeros(self.head.shape[0]) for _ in range(3))
        for some, part in self.head.blocks():
            # `mean` cancels in the difference of two rows, so it is subtracted before lengths are taken.
            self.size[some], self.plain[some] = _row_lengths(part), _row_lengths(part - mean)
            self.spread[some] = _row_lengths((part - mean) * weight)
        if not all(np.isfinite(numbers).all() for numbers in (self.size, self.spread, weight, self.bias)):
            raise UnhandledError("the last norm or the head of the host holds a number that is not finite")
        self.gain, self.shift = float(np.abs(weight).max()), float(_row_lengths(self.bias[None])[0])
        longest = 2.0 * np.sqrt(host.width) * self.gain + 2.0 * self.shift
        if not longest * (1.0 + self.size.max(initial=0.0)) <= OVERFLOW:
            raise UnhandledError("the last norm and the head of the host are so large that logits may not be finite")

    def seen(self, rows: Floats) -> Floats:
        """The part of written rows `(n, D)` that norms see: the rows minus their mean, if norms subtract it."""
        return rows - rows.mean(axis=1, keepdims=True) if self.centred else rows

    def direction(self, rows: Floats) -> Floats:
        """Unit vectors `(n, D)` in the direction of the part of written rows that norms see."""
        seen = self.seen(rows)
        length = _row_lengths(seen)[:, None]
        unit_rows: Floats = np.divide(seen, length, out=np.zeros_like(seen), where=length > 0.0)
        return unit_rows

    def judge(self, rows: Floats, tokens: Ints, share: Floats, D: int) -> JudgedTokens:
        """Judge whether the answers at states along written rows `(n, D)` are `tokens` `(n,)`.

        `share` `(n,)`: how far what the last norm returns may be from the row's direction, as a share of √D.
        """
        count = len(rows)
        right, wrong = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        answer = np.zeros(count, np.int64)
        step = max(1, HEAD_PRODUCTS_AT_ONCE // self.head.shape[0])
        for start in range(0, count, step):
            some = slice(start, start + step)
            normed = np.sqrt(D) * self.direction(rows[some]) * self.weight + self.bias
            logits = np.empty((len(normed), self.head.shape[0]))
            for words, part in self.head.blocks():
                logits[:, words] = normed @ part.T
            wanted, line = tokens[some], np.arange(len(logits))
            answer[some] = logits.argmax(axis=1)
            mine = logits[line, wanted]
            moved = np.sqrt(D) * share[some]
            length = _row_lengths(normed) + moved * self.gain + self.shift
            doubt = PADDING * self._doubt(logits, wanted, moved, length, D)
            gap = mine[:, None] - logits
            # Every number on the way is finite in the format, the logits among them.
            fits = (1.0 + 2.0**-4) * length * (1.0 + self.size.max(initial=0.0)) <= self.fmt.largest
            gap[line, wanted] = np.inf
            right[some] = fits & (gap > doubt).all(axis=1)
            gap[line, wanted] = 0.0
            wrong[some] = fits & (-gap > doubt).any(axis=1)
        return JudgedTokens(right, wrong, answer)

    def _doubt(self, logits: Floats, wanted: Ints, moved: Floats, length: Floats, D: int) -> Floats:
        """How far evaluations of `logits[:, wanted] - logits` may be off (A5).

        `moved`: how far what the last norm returns may be off. `length`: how long that is at most.
        """
        unit, lost, length = self.fmt.unit, self.fmt.lost, length[:, None]
        size, spread, plain = (each + each[wanted][:, None] for each in (self.size, self.spread, self.plain))
        summed = BINARY32.gamma(D + 8.0) * length
        # What the last norm returns is rounded to the format, up to twice.
        doubt: Floats = moved[:, None] * spread + summed * size + 2.0 * unit * length * plain
        # Numbers near 0 add errors of their own: up to four per coordinate, then in products of the head and in logits.
        doubt += 4.0 * lost * np.sqrt(D) * size + 8.0 * BINARY32.tiny * (np.sqrt(D) * length + D) + 2.0 * lost
        # Each logit is then rounded by a share of itself, and is known to within `each` times the length of its row.
        each = moved[:, None] * self.gain + summed + 2.0 * unit * length + 4.0 * lost * np.sqrt(D)
        doubt += 1.1 * unit * each * size
        mine = np.abs(logits[np.arange(len(logits)), wanted])[:, None]
        total: Floats = (1.0 + 2.0 * unit) * doubt + unit * (np.abs(logits) + mine)
        return total


class Written(NamedTuple):
    """What the neurons `(N,)` write, as the norms behind them see it (A4).

    `firm`: whether what a neuron writes outweighs every state up to L and stays finite. `share`: how far what a norm
    returns may be from the direction of the written row, as a share of √D, before it is rounded to the format.
    """

    firm: Bools
    share: Floats


def judge_written(attached: AttachedFolder, caps: Caps, near: Near, head: Head) -> Written:
    """Apply Lemma A4 to all neurons."""
    D, fmt = attached.host.width, caps.fmt
    # The norm sees w_2 minus its mean, and roundings are relative to |w_2|. The mean is rounded here as well.
    whole = _row_lengths(attached.writes)
    length = np.maximum(0.0, _row_lengths(head.seen(attached.writes)) - D * 2.0**-52 * whole)
    returned, heard = least_returned(attached, caps, near)
    peak = np.abs(attached.writes).max(axis=1)
    finite = (near.most * whole <= 2.0**50) & (1.01 * near.most * peak + caps.state <= fmt.largest)
    norms = SeenBy(D, fmt, head.epsilon, caps.state)
    delta, sigma = norms.at(returned, whole, length, near.count, BINARY32.gamma(near.count + 8.0))
    share = PADDING * sigma
    firm = heard & finite & (delta <= 0.25) & (share <= 0.5)
    return Written(firm, np.where(firm, share, 1.0))


def judge_at_longest(
    attached: AttachedFolder, caps: Caps, near: Near, asked: Ints, tokens: Ints
) -> tuple[Caps, JudgedTokens]:
    """Judge as `judge_answers` does, and lower L of Lemma A4 where that decides more tokens.

    L is halved as long as tokens are undecided and it still covers the states that were measured. A token that is
    decided at states up to some length is decided at shorter ones as well, so only the others are judged again. The
    caps that are returned have the L which the judgement is about.
    """
    head = Head(attached)
    right, wrong, answer = _judge_answers(attached, caps, near, head, asked, tokens)
    left = np.flatnonzero(~right & ~wrong)
    left = left[~near.spoilt[asked[left]]]  # where other keys are too near, tokens are undecided at every L
    for shorter in islice(lengths_to_prove(caps.fmt, attached.manifest.longest), 1, None):
        if not len(left):
            break
        judged = _judge_answers(attached, replace(caps, state=shorter), near, head, asked[left], tokens[left])
        if (judged.right | judged.wrong).any():
            caps = replace(caps, state=shorter)
            right[left], wrong[left] = judged.right, judged.wrong
            left = left[~judged.right & ~judged.wrong]
    return caps, JudgedTokens(right, wrong, answer)


def judge_answers(attached: AttachedFolder, caps: Caps, near: Near, asked: Ints, tokens: Ints) -> JudgedTokens:
    """Judge whether the neurons `asked` `(M,)` answer `tokens` `(M,)` at every state of their caps (A4, A5)."""
    return _judge_answers(attached, caps, near, Head(attached), asked, tokens)


def _judge_answers(
    attached: AttachedFolder, caps: Caps, near: Near, head: Head, asked: Ints, tokens: Ints
) -> JudgedTokens:
    """`judge_answers` with the head of the folder, which is read from its files."""
    D = attached.host.width
    firm, share = judge_written(attached, caps, near, head)
    hidden = _answered_to(attached, caps, head, near.first, share)
    first, kind = equal_rows(attached.writes)
    cases, number = np.unique(
        np.stack([kind[asked], tokens, share[asked]], axis=1).astype(np.float64), axis=0, return_inverse=True
    )
    rows, wanted = attached.writes[first[cases[:, 0].astype(np.int64)]], cases[:, 1].astype(np.int64)
    groups = head.judge(rows, wanted, cases[:, 2], D)
    number = number.reshape(-1)
    sound = firm[asked] & ~near.spoilt[asked] & ~hidden[asked]
    return JudgedTokens(groups.right[number] & sound, groups.wrong[number] & sound, groups.got[number])


def _row_lengths(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt((rows * rows).sum(axis=1))
    return lengths


def _answered_to(attached: AttachedFolder, caps: Caps, head: Head, first: Ints, share: Floats) -> Bools:
    """Whether the row that each neuron `(N,)` writes may wake a neuron of a later block.

    `first` `(N,)`: the first block that writes the row. `share` `(N,)`: that of `Written`.
    """
    H, N = attached.host.neurons, len(attached.bias)
    block, bad = np.arange(N) // H, np.zeros(N, dtype=bool)
    for number in range(int(block.max(initial=0))):
        mine, later = np.flatnonzero(first == number), np.flatnonzero(block > number)
        kinds, back = equal_rows(attached.writes[mine])
        directions = head.direction(attached.writes[mine[kinds]])
        widest = np.zeros(len(kinds))
        np.maximum.at(widest, back, may_wake(share[mine], caps.length, caps.fmt))
        woken = np.zeros(len(kinds), dtype=bool)
        for start in range(0, len(later), KEYS_AT_ONCE):
            some = later[start : start + KEYS_AT_ONCE]
            woken |= (directions @ caps.keys[some].T + widest[:, None] > caps.silent[some]).any(axis=1)
        bad[mine] = woken[back]
    return bad
