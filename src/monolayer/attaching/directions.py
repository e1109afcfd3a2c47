"""Find for each token a direction `v` of states at which the host answers with it: its logit leads by a margin.

The last norm, with weight g and bias β, turns a long vector along v into √D g v + β (v is centred, and |v| = 1). So the
logits are √D R v + c, where c = W_H β and R is W_H g with centred rows. The search starts from the token's row minus
the mean of all rows, and steps away from the runner-up until the margin is wide (a perceptron).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.errors import PrecisionError
from monolayer.huggingface.formats import SUM_UNIT
from monolayer.huggingface.host import Host

DIRECTION_STEPS = 400
"""How many steps the search for a direction takes at most."""
GOAL = 0.125
"""The search for token `t` ends once its lead over the runner-up `a` is this share of √D (|R_t − mean| + |R_a − mean|).
If it were a share of the first alone, tokens whose rows are short would be left with little room."""
FLATTEST = 1.2
"""Coordinates of a flat direction are about this many times 1/√D at most. A vector along it may be longer before a
coordinate leaves float16, and more of them may be added up."""
FLATTENED = 4
"""How often coordinates are limited in a row: what is scaled to length 1 again may exceed the limit again."""
DIRECTION_LOGITS_AT_ONCE = 1 << 23
"""How many logits are in memory at a time."""

Allowed = Callable[[Floats], Floats]
"""Makes directions of a kind `(n, D)` from vectors `(n, D)`."""


class Directions:
    """The head of a host, in which directions of tokens are found, each independently of the others."""

    def __init__(self, host: Host) -> None:
        weight, bias = host.norm()
        head = host.tensors[host.head]
        self.width, tokens = host.width, head.shape[0]
        # The largest matrix of a host: float32 is enough to search with, and takes half the memory.
        self.rows = np.empty((tokens, host.width), np.float32)
        self.shift, self.spread, size = np.zeros(tokens), np.zeros(tokens), np.zeros(tokens)
        for some, part in head.blocks():
            self.shift[some] = 0.0 if bias is None else part @ bias
            part *= weight
            if not host.kind.rms:
                part -= part.mean(axis=1, keepdims=True)
            size[some] = np.sqrt((part * part).sum(axis=1))
            self.rows[some] = part
        self.size = float(size.max())
        self.mean = self.rows.mean(axis=0, dtype=np.float64)
        for some, _ in head.blocks():
            away = self.rows[some] - self.mean
            self.spread[some] = np.sqrt((away * away).sum(axis=1))

    @property
    def least(self) -> float:
        """What a margin must exceed, since the last norm sees written vectors to within 2^−9 and logits are rounded."""
        D = self.width
        seen = 2.0**-9 * np.sqrt(D) * 2.0 * float(self.spread.max())
        rounding = 4.0 * (D + 32) * SUM_UNIT * (np.sqrt(D) * self.size + float(np.abs(self.shift).max()))
        return float(seen + rounding)

    def find(self, tokens: Ints, *, flat: bool = False) -> tuple[Floats, Floats]:
        """Unit directions `(n, D)` for the tokens `(n,)`, and the margin of each `(n,)`.

        `flat`: take directions whose coordinates are of similar size, unless a token has no wide margin at one.
        """
        if flat:
            directions, margins = self._find_in_parts(tokens, flattened)
            short = np.flatnonzero(margins <= self.least)
            directions[short], margins[short] = self._find_in_parts(tokens[short], _unit)
            return directions, margins
        return self._find_in_parts(tokens, _unit)

    def _find_in_parts(self, tokens: Ints, allowed: Allowed) -> tuple[Floats, Floats]:
        directions, margins = np.zeros((len(tokens), self.width)), np.zeros(len(tokens))
        for some in self._parts(len(tokens)):
            directions[some], margins[some] = self._find(tokens[some], allowed)
        return directions, margins

    def _parts(self, count: int) -> Iterator[slice]:
        """Parts of `count` directions whose logits fit into memory."""
        part = max(1, DIRECTION_LOGITS_AT_ONCE // len(self.rows))
        return (slice(first, first + part) for first in range(0, count, part))

    def room(self, tokens: Ints, directions: Floats) -> Floats:
        """For each direction, how far what the last norm returns may be from it while its token leads.

        It is a share of √D: the lead over token `a` changes by at most √D(|R_t − mean| + |R_a − mean|) times that share
        (Lemma A5).
        """
        margins = np.zeros(len(tokens))
        for some in self._parts(len(tokens)):
            wanted, logits = tokens[some], self._logits(directions[some])
            line = np.arange(len(wanted))
            lead = logits[line, wanted][:, None] - logits
            lead[line, wanted] = np.inf
            spread = self.spread[wanted][:, None] + self.spread
            margins[some] = (lead / (np.sqrt(self.width) * spread)).min(axis=1)
        return margins

    def _logits(self, directions: Floats) -> NDArray[np.floating[Any]]:
        """The logits `(n, V)` at long states along `directions` `(n, D)`."""
        # In place and in float32: the product is no better, and these passes take as long as it does.
        logits: NDArray[np.floating[Any]] = directions.astype(np.float32) @ self.rows.T
        logits *= np.float32(np.sqrt(self.width))
        logits += self.shift.astype(np.float32)
        return logits

    def said(self, written: Floats) -> Ints:
        """The tokens `(n,)` that the head answers with at states along written rows `(n, D)`."""
        tokens: Ints = self._logits(_unit(written)).argmax(axis=1)
        return tokens

    def _find(self, tokens: Ints, allowed: Allowed) -> tuple[Floats, Floats]:
        """Directions and margins of so few tokens `(n,)` that all their logits fit into memory.

        `allowed` makes a direction that may be returned from any vector.
        """
        v = allowed(self.rows[tokens] - self.mean)
        best, margins, widest = v.copy(), np.zeros(len(tokens)), np.full(len(tokens), -np.inf)
        left = np.arange(len(tokens))
        for _ in range(DIRECTION_STEPS):
            wanted, line = tokens[left], np.arange(len(left))
            logits = self._logits(v[left])
            mine = logits[line, wanted].copy()
            logits[line, wanted] = -np.inf
            other = logits.argmax(axis=1)
            margin = mine - logits[line, other]
            spread = np.maximum(self.spread[wanted] + self.spread[other], np.finfo(np.float32).tiny)
            room = margin / (np.sqrt(self.width) * spread)
            better = room > widest[left]
            improved = left[better]
            best[improved], margins[improved], widest[improved] = v[improved], margin[better], room[better]
            unfinished = room < GOAL
            left, away = left[unfinished], _unit(self.rows[wanted[unfinished]] - self.rows[other[unfinished]])
            if len(left) == 0:
                break
            v[left] = allowed(v[left] + 0.1 * away)
        return best, margins


def check_margins(
    found: Directions, tokens: Ints, margins: Floats, name: Callable[[int], str], rows: Sequence[str]
) -> None:
    """Raise a `PrecisionError` if the margin of a token is too small.

    `name`: returns the name of a token. `rows`: for each token, a row of the data that answers with it, in words.
    """
    short = np.flatnonzero(margins <= found.least)
    if len(short) == 0:
        return
    which = int(short[0])
    token = int(tokens[which])
    raise PrecisionError(
        f"{rows[which]} answers with the token {name(token)!r} (id {token}), and in {DIRECTION_STEPS} "
        f"steps no direction of states was found at which the host's head gives it the largest logit by more than "
        f"{found.least:.3g} (the best: {margins[which]:.3g}; {len(short):,} such in all). Reword the answer"
    )


def flattened(vectors: Floats) -> Floats:
    """Unit vectors `(n, D)` near those given, with coordinates of about `FLATTEST`/√D at most."""
    most, flat = FLATTEST / np.sqrt(vectors.shape[1]), _unit(vectors)
    for _ in range(FLATTENED):
        flat = _unit(np.clip(flat, -most, most))
    return flat


def _unit(vectors: Floats) -> Floats:
    """The vectors `(n, D)` scaled to length 1; a zero vector stays 0."""
    length = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    unit: Floats = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0.0)
    return unit
