"""A packed readout: one step of the line per sequence, whose numbers hold all its labels; and their unpacking.

A label is a digit of `q` bits; `g = 52 // q` digits are one whole number below 2^52, and `m` such numbers are the label
of a sequence, a vector of reals that the line returns to the last bit (docs/construction.md, `runs`). A place knows
which number and which digit is its own. A ReLU network with fixed weights then

    chooses   relu(P_i + 2^52 h_i − 2^52), h_i one-hot: the number of the place, and 0 of the others
    doubles   bit = relu(x − 2^51 + 1) − relu(x − 2^51),  x ← 2x − 2^52 bit,  digit ← 2 digit + bit      52 times
    keeps     relu(digit − 2^q |s|), s the digits still to come: the digit of the place, and 0 of the others

All sums have whole terms, and every part of them is below 2^53, so in float64 the network is exact in every order of
summation. Every layer counts with matrices of its own, zeros included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import monolayer as ml
from monolayer.arrays import Array
from monolayer.errors import DataError

PACKED_BITS = 52
"""Bits of a packed number. It is added to 2^52 below, and the sum must stay below 2^53."""
_PLACES_AT_ONCE = 1 << 16
"""Places that are unpacked at a time."""


class Packed(nn.Module):
    """`body`: a model of one vector of packed numbers per sequence; `place` `(n, m + 1)`: one-hot number, digit."""

    def __init__(self, body: ml.Monolayer, place: Tensor, bits: int, classes: int) -> None:
        super().__init__()
        self.body, self.classes = body, classes
        self.place = nn.Parameter(place)
        self.unpack = unpacking(place.shape[1] - 1, bits)
        number = torch.arange(classes, dtype=torch.float64)
        self.head = nn.Linear(1, classes, dtype=torch.float64)
        with torch.no_grad():
            self.head.weight.copy_(2.0 * number[:, None])
            self.head.bias.copy_(-(number**2))

    @torch.no_grad()
    def predict(self, X: Array) -> NDArray[np.int64]:
        """Class numbers `(N, n)`."""
        packed = torch.from_numpy(np.asarray(self.body.predict(X)))
        count, length = len(packed), len(self.place)
        answer = []
        for point in torch.split(torch.arange(count * length), _PLACES_AT_ONCE):
            out = self.unpack(torch.cat([packed[point // length], self.place[point % length]], dim=1))
            # The head's logits 2jy − j² are largest at the nearest class; y is whole, so that class is y.
            answer.append(torch.cat([self.head(part).argmax(1) for part in torch.split(out, 1 << 10)]))
        return torch.cat(answer).reshape(count, length).numpy()


def pack(Y: NDArray[np.int64], bits: int) -> NDArray[np.float64]:
    """Labels `(N, n)` below `2^bits` as whole numbers `(N, m)`, the first digit the highest."""
    each = PACKED_BITS // bits
    padded = np.zeros((len(Y), -(-Y.shape[1] // each) * each), dtype=np.int64)
    padded[:, : Y.shape[1]] = Y
    weight = 1 << (bits * np.arange(each - 1, -1, -1, dtype=np.int64)) + PACKED_BITS - bits * each
    return np.asarray((padded.reshape(len(Y), -1, each) * weight).sum(axis=2), dtype=np.float64)


def memorize_packed(X: Array, Y: NDArray[np.int64], bits: int, seed: int = 0) -> Packed:
    """The packed model of sequences `(N, n)` and labels `(N, n)` below `2^bits`."""
    if not 1 <= bits <= PACKED_BITS or Y.min() < 0 or int(Y.max()) >> bits:
        raise DataError(
            f"labels must be whole numbers from 0 to below 2^{bits}, and these bits from 1 to {PACKED_BITS}"
        )
    body = ml.memorize(X, pack(Y, bits), per="sequence", seed=seed)
    index = torch.arange(Y.shape[1])
    each = PACKED_BITS // bits
    place = torch.zeros(len(index), int(index[-1]) // each + 2, dtype=torch.float64)
    place[index, index // each] = 1.0
    place[:, -1] = (index % each).double()
    return Packed(body, place, bits, int(Y.max()) + 1)


def unpacking(numbers: int, bits: int) -> nn.Sequential:
    """The network from `m` numbers, a one-hot choice and a digit `(…, 2m + 1)` to that digit of the number `(…, 1)`."""
    top, half, size = 2.0**PACKED_BITS, 2.0 ** (PACKED_BITS - 1), 2.0**bits
    # What the layers hold, as rows over the outputs of the layer before, the last column being the bias.
    choose = torch.zeros(numbers + 1, 2 * numbers + 2, dtype=torch.float64)
    index = torch.arange(numbers)
    choose[index, index], choose[index, numbers + index], choose[index, -1] = 1.0, top, -top
    choose[numbers, 2 * numbers] = 1.0
    layers = [choose]
    # The state (x, digit, out, before, behind): s = before − behind digits are still to come. Each `last` writes it
    # from what the last layer holds; it is merged into the next layer.
    last = torch.zeros(5, numbers + 2, dtype=torch.float64)
    last[0, :numbers], last[3, numbers] = 1.0, 1.0
    look = _rows([[1, 0, 0, 0, 0, 1 - half], [1, 0, 0, 0, 0, -half], *np.eye(5, 6)])
    see = _rows([[1, -1, 0, 0, 0, 0, 0, 0], *np.eye(5, 8, 2)])
    bit = _rows([[-top, 2, 0, 0, 0, 0, 0], [1, 0, 2, 0, 0, 0, 0], *np.eye(3, 7, 3)])
    keep = _rows([[1, 0, 0, 0, 0, 0], [0, 1, 0, -size, -size, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, -1, -1]])
    keep = torch.cat([keep, _rows([[0, 0, 0, -1, 1, 1]])])
    kept = _rows([[1, 0, 0, 0, 0, 0], [0] * 6, [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]])
    for _ in range(PACKED_BITS // bits):
        for _ in range(bits):
            layers += [_after(look, last), see]
            last = bit
        layers.append(_after(keep, last))
        last = kept
    parts: list[nn.Module] = []
    for rows in layers:
        parts += [_linear(rows), nn.ReLU()]
    return nn.Sequential(*parts, _linear(last[2:3]))


def _rows(rows: Any) -> Tensor:
    return torch.from_numpy(np.array(rows, dtype=np.float64))


def _after(rows: Tensor, first: Tensor) -> Tensor:
    """The affine map `rows` after the affine map `first`, as one; whole numbers and powers of two, so exactly."""
    merged = rows[:, :-1] @ first
    merged[:, -1] += rows[:, -1]
    return merged


def _linear(rows: Tensor) -> nn.Linear:
    layer = nn.Linear(rows.shape[1] - 1, len(rows), dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(rows[:, :-1])
        layer.bias.copy_(rows[:, -1])
    return layer
