"""From half-spaces to neurons: scaled by their margin, gated by their token.

The neuron of the half-space `{w · z ≥ c}` with half-width `κ` in the cell of token `x` is

    relu( A ⟨p_x, p⟩/|p|² − A  +  (w · z − c) / κ )

At its own token the gate is 0: its facts get at least 1, the other points at most −1. At another token the gate is at
most `−A (1 − cos)`, and `w · z ≤ |w_context| √k + max over places`, so with

    A (1 − cos) = (|w_context| √k + max_place w_place · place − c) / κ + 1

it is at most −1 there as well, whatever the context, one of the data or not.
"""

from __future__ import annotations

import torch

from monolayer.arrays import Ints
from monolayer.construct.robust.codes import code_for
from monolayer.construct.robust.groups import HalfSpaces
from monolayer.construct.robust.stored import ONES
from monolayer.construct.robust.stream import Stream
from monolayer.model.gates import Gates

LOUD = 8.0
"""How many times the base class a neuron at 1 writes: its class wins as soon as the neuron is above 1/8."""


def readout(found: HalfSpaces, cells: Ints, stream: Stream) -> Gates:
    """The neurons of half-spaces; `cells` `(K,)` are the tokens that their cells stand for."""
    layout, width = stream.layout, torch.from_numpy(found.half_width)
    weight, offset = found.normal.double() / width[:, None], -torch.from_numpy(found.centre) / width
    place, context = weight[:, : layout.place], weight[:, layout.place :]
    reach = offset + context.norm(dim=1) * layout.rank**0.5
    if stream.positions is not None and layout.place:
        codes = stream.positions.weight.detach()[:, layout.token : layout.token + layout.place]
        # Coordinate by coordinate: a neuron's sums are the same bits whatever neurons stand beside it.
        height = torch.zeros(len(place), len(codes), dtype=torch.float64)
        for coordinate in range(layout.place):
            height += place[:, coordinate, None] * codes[None, :, coordinate]
        reach = reach + height.amax(dim=1)
    read = torch.zeros(len(weight), layout.reads, dtype=torch.float64)
    gate, signs = torch.zeros_like(reach), layout.token - ONES
    if signs:  # else the begin token answers, and there is nothing to tell it from
        # The cosine of all words of the code, whichever are in use: gates do not depend on other tokens.
        gate = ((reach + 1.0) / (1.0 - code_for(stream.draw.tokens).cosine)).clamp_min(0.0)
        read[:, :signs] = gate[:, None] * torch.from_numpy(stream.code[cells[found.cell]]) / signs
    read[:, signs : layout.token] = (offset - gate)[:, None] / ONES
    read[:, layout.token :] = weight
    write = LOUD * torch.from_numpy(stream.classes)[found.label]
    nothing = torch.zeros(len(weight), dtype=torch.float64), torch.zeros(layout.label, dtype=torch.float64)
    return Gates(read, nothing[0], write.T.contiguous(), nothing[1], layout)
