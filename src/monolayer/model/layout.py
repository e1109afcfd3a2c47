"""Coordinates of the stream of a robust model, from the left.

token   code of the token, and constant ones    `(t,)`
place   code of the position                    `(p,)`      none without positions
context value of the token, plus what attention adds  `(k,)`
key     cosine and sine of the position         `(2,)`      read by attention only
label   code of a class                         `(m,)`
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 2.0**-20
"""Added to the mean square before its root, as usual; far below any context that is built."""
KEYS = 2
"""Coordinates of the stream that only attention reads: logits have rank 2."""


@dataclass(frozen=True)
class Layout:
    """Widths of the parts of the stream."""

    token: int
    place: int
    rank: int
    label: int

    @property
    def reads(self) -> int:
        """`R`: coordinates that the readout reads."""
        return self.token + self.place + self.rank

    @property
    def context(self) -> slice:
        return slice(self.token + self.place, self.reads)

    @property
    def key(self) -> slice:
        return slice(self.reads, self.reads + KEYS)

    @property
    def width(self) -> int:
        """`D`."""
        return self.reads + KEYS + self.label

    def to_json(self) -> dict[str, int]:
        """What a file says of it; the label part is known from elsewhere."""
        return {"token": self.token, "place": self.place, "rank": self.rank}


def unit(z: Tensor) -> Tensor:
    """`z` `(…, w)` at mean square 1."""
    return z * torch.rsqrt(z.square().mean(-1, keepdim=True) + EPSILON)
