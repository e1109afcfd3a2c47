"""From half-spaces to neurons: scaled by their margin, gated by their token.

The neuron of the half-space `{w · z ≥ c}` with half-width `κ` in the cell of token `x` is

    relu( A ⟨p_x, p⟩/|p|² − A  +  (w · z − c) / κ )

At its own token the gate is 0: its facts get at least 1, the other points at most −1. At another token the gate is at
most `−A (1 − cos)`, and `w · z ≤ |w_context| √k + max over places`, so with

    A (1 − cos) = (|w_context| √k + max_place w_place · place − c) / κ + 1

it is at most −1 there as well, whatever the context, one of the data or not. A neuron that overrules others is all that
times its loudness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Ints
from monolayer.construct.robust.groups import HalfSpaces
from monolayer.construct.robust.stored import ONES
from monolayer.construct.robust.stream import Stream
from monolayer.model.gates import Gates

CAUTION = 1.6
"""How much the estimate of the noise borne may exceed what is then proved: 1.2 to 1.6 on the data of the tests."""
LOUD = 8.0
"""How many times the base class a neuron at 1 writes: its class wins as soon as the neuron is above 1/8."""


@dataclass(frozen=True, eq=False)
class Neurons:
    """The cell of every neuron `(H,)`, what it reads of place and context `(H, p + k)`, its offset, what it writes.

    `write` `(H, m)`; `room` `(H,)`: how far every neuron may be off.
    """

    cell: Ints
    weight: Tensor
    offset: Tensor
    write: Tensor
    room: Tensor

    @classmethod
    def of(cls, found: HalfSpaces, cells: Ints, plain: Ints, label: Ints, classes: Tensor) -> Neurons:
        """Neurons of half-spaces in the cells `cells`, and for each of the cells `plain` one that is always on."""
        width, loud = torch.from_numpy(found.half_width / found.loud), torch.from_numpy(found.loud)
        weight = found.normal.double() / width[:, None]
        always = torch.zeros(len(plain), weight.shape[1], dtype=torch.float64)
        return cls(
            np.concatenate([cells[found.cell], plain]),
            torch.cat([weight, always]),
            torch.cat([-torch.from_numpy(found.centre) / width, torch.ones(len(plain), dtype=torch.float64)]),
            LOUD * classes[np.concatenate([found.label, label])],
            torch.cat([loud, torch.ones(len(plain), dtype=torch.float64)]),
        )

    @classmethod
    def linear(cls, cells: Ints, weight: Tensor, offset: Tensor, copies: int) -> Neurons:
        """One neuron for each of the cells `(K,)` and digits: weights `(K, D, w)`, offsets `(K, D)`."""
        count = weight.shape[1]
        write = torch.eye(count, dtype=torch.float64).repeat_interleave(copies, dim=1)
        shape = (-1, weight.shape[2])
        room = torch.full((len(cells) * count,), 0.5, dtype=torch.float64)
        flat = weight.reshape(shape), offset.reshape(-1), write.repeat(len(cells), 1)
        return cls(np.repeat(cells, count), *flat, room)


def bears(gates: Gates, stream: Stream, room: Tensor) -> float:
    """An estimate, to first order and for contexts of usual length, of the noise that all neurons bear; ∞ without any.

    A neuron may be off by `room`, so it bears that over the sum of its terms, each as often as it passes a weight.
    `certify` finds what is proved, point by point.
    """
    layout, gain = stream.layout, float(stream.attention.W_O.detach().abs().max())
    if len(gates.weight_1) == 0:
        return float("inf")
    size = gates.weight_1.detach().abs()
    token, place, context = torch.split(size, [layout.token, layout.place, layout.rank], dim=1)
    length = gates.weight_1.detach()[:, layout.context].norm(dim=1)
    scores = 0.0 if stream.positions is None else float(stream.attention.W_Q.detach().norm(dim=1).max())
    heard = (1.0 + gain) / (1.0 + (0.4 * gain) ** 2) ** 0.5  # sizes over the length of a context of a few tokens
    terms = 2.0 * token.sum(1) + gates.bias_1.detach().abs() + 2.0 * place.sum(1)
    terms = terms + (0.8 + 3.0 * heard) * context.sum(1) + 4.0 * scores * 0.8 * heard * length
    if stream.even:
        terms = terms + 4.0 * token.norm(dim=1) * layout.token**0.5
    return float((room / terms).min()) / CAUTION


def readout(neurons: Neurons, stream: Stream) -> Gates:
    """The readout of these neurons."""
    layout = stream.layout
    place, context = neurons.weight[:, : layout.place], neurons.weight[:, layout.place :]
    reach = neurons.offset + context.norm(dim=1) * layout.rank**0.5
    if stream.positions is not None and layout.place:
        codes = stream.positions.weight.detach()[:, layout.token : layout.token + layout.place]
        # Coordinate by coordinate: a neuron's sums are the same bits whatever neurons stand beside it.
        height = torch.zeros(len(place), len(codes), dtype=torch.float64)
        for coordinate in range(layout.place):
            height += place[:, coordinate, None] * codes[None, :, coordinate]
        reach = reach + height.amax(dim=1)
    gate = torch.zeros_like(reach)
    # The begin token, or one vector alone, has nothing to be told from.
    if len(stream.token) > 1 if stream.even else layout.token > ONES:
        apart = 1.0 - torch.from_numpy(stream.cosine(neurons.cell))
        gate = ((reach + neurons.room.clamp_min(1.0)) / apart).clamp_min(0.0)

    code = torch.from_numpy(stream.token[neurons.cell])
    weight = torch.zeros(len(neurons.cell), layout.reads, dtype=torch.float64)
    bias = torch.zeros(len(neurons.cell), dtype=torch.float64)
    if stream.even:
        # The ones are normalized with the vector, so only a bias is constant.
        weight[:, : layout.token] = gate[:, None] * code / layout.token
        bias = neurons.offset - gate
    else:
        sign = code.shape[1] - ONES
        if sign:
            weight[:, :sign] = gate[:, None] * code[:, :sign] / sign
        weight[:, sign : layout.token] = (neurons.offset - gate)[:, None] / ONES
    weight[:, layout.token :] = neurons.weight
    return Gates(weight, bias, neurons.write.T.contiguous(), torch.from_numpy(stream.start), layout, stream.even)
