"""A point as one whole number: `z` and label in 64 bits, in the order of `z`, then of label.

    key = (place of z) · 2^room + label          room: bits of a label

Positive floats are in the order of their bits, and negative ones in the reverse order of theirs. What no point needs is
left out: bits of magnitudes above `top`, and those between 0 and `least`. So a sort of points is a sort of whole
numbers, and a spilled point takes 8 bytes. With 16 classes, magnitudes from 2^−119 to 2^9 fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats
from monolayer.construct.line.points import BLOCK

Numbers = NDArray[np.unsignedinteger[Any]]
Keys = NDArray[np.uint64]

_SIGN = 1 << 63
"""The bit that makes a float64 negative."""


@dataclass(frozen=True)
class Packing:
    """`below`: the bits of a float below the least magnitude; `zero`: the place of z = 0; `room`: bits of a label.

    The place of a positive number is `zero + (bits − below)`, that of a negative one `zero − (bits of |z| − below)`.
    """

    below: int
    zero: int
    room: int

    @classmethod
    def of(cls, least: float, top: float, labels: int) -> Packing | None:
        """For `|z|` that are 0 or from `least` to `top`, and this many labels; None if 64 bits do not hold both."""
        below, room = max(0, _bits(least) - 1), max(1, (labels - 1).bit_length())
        zero = max(0, _bits(top) - below)
        return cls(below, zero, room) if (2 * zero).bit_length() + room <= 64 else None

    def keys(self, z: Floats, label: Numbers, out: Keys | None = None) -> Keys:
        """The keys of points `(P,)`, into `out` if that is given."""
        out = np.empty(len(z), dtype=np.uint64) if out is None else out
        for start in range(0, len(z), BLOCK):
            here = slice(start, start + BLOCK)
            bits = np.ascontiguousarray(z[here]).view(np.int64)
            place = np.maximum(bits & (_SIGN - 1), self.below)
            place -= self.below
            sign = bits >> 63  # 0, or −1: then the next two lines change the sign
            place ^= sign
            place -= sign
            place += self.zero
            place <<= self.room
            np.bitwise_or(place.view(np.uint64), label[here], out=out[here])
        return out

    def z(self, keys: Keys) -> Floats:
        """The numbers that points have."""
        place = keys >> np.uint64(self.room)
        right, left = _modulo(self.below - self.zero), _modulo(self.zero + self.below + _SIGN)
        if place.min(initial=self.zero + 1) > self.zero:
            place += right
        elif place.max(initial=0) < self.zero:
            np.subtract(left, place, out=place)
        else:
            either = np.where(place > self.zero, place + right, left - place)
            place = np.where(place == self.zero, np.uint64(0), either)
        return place.view(np.float64)

    def label(self, keys: Keys, kind: np.dtype[Any]) -> Numbers:
        """The labels that points have, as numbers of a `kind`."""
        return (keys & np.uint64((1 << self.room) - 1)).astype(kind)


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def _modulo(value: int) -> np.uint64:
    """A whole number as processors add them up."""
    return np.uint64(value % 2**64)
