"""From arrays to modules: a draw, a staircase and a card become the network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import Array, Ints, Numbers, beside, copied, ends_of, stretches_of
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.cascade import KAPPA, ShortLevels
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.values import Value
from monolayer.errors import PrecisionError
from monolayer.model.attention import CODE, KEY, LABEL, ONE, RankOneAttention
from monolayer.model.card import Card
from monolayer.model.cascade import slots, stream_width, value_slot
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.quantizer import Quantizer
from monolayer.model.shortcut import plain_head
from monolayer.model.staircase import Readout, Staircase


def tensor(x: Numbers) -> Tensor:
    """Numbers as a contiguous tensor on the device where they lie."""
    return torch.as_tensor(x).contiguous()


def size_of_jumps(jump: Numbers) -> float:
    """`Σ |Δ|` of jumps `(m, R)`, a stretch at a time."""
    return sum(float(abs(jump[:, part]).sum()) for part in stretches_of(jump.shape[1], jump))


def staircase(
    slope: Numbers, start: Numbers, level: Numbers | ShortLevels, classes: bool, unit: float = UNIT
) -> Staircase:
    """A stage with ramps of this slope and beginning `(R,)`, and labels `level` `(m, R + 1)` between them.

    A run of equal labels costs nothing inside, however many points it holds. `classes`: labels are whole numbers,
    whose sums must not round in a format with unit roundoff `unit`.
    """
    if isinstance(level, ShortLevels):
        fall, last, most = level.falls()
        if most * unit < 1.0:
            return Staircase.from_steps(tensor(slope), tensor(start), tensor(fall), tensor(beside(last, fall)))
        level = level.whole
    if not classes:
        return Staircase.from_runs(tensor(slope), tensor(start), tensor(level))
    fall = level[:, :-1] - level[:, 1:]
    least, largest = ends_of(level)
    most = level.shape[1] * (largest - least) + max(largest, -least)
    if most * unit >= 1.0:  # otherwise jumps need not be added up
        most = max(size_of_jumps(row[None]) for row in fall) + max(largest, -least)
    if most * unit >= 1.0:
        raise PrecisionError(
            f"{level.shape[1]:,} runs of labels add up to {most:,.0f}, and sums of whole numbers are exact only below "
            f"{1.0 / unit:,.0f} in this format: use fewer classes{'' if unit == UNIT else ', or float64'}"
        )
    return Staircase.from_steps(tensor(slope), tensor(start), tensor(fall), tensor(copied(level[:, -1])))


def assemble(
    draw: Draw,
    kappa: float,
    lift: nn.Embedding | nn.Linear,
    feed_forward: Readout,
    card: Card,
    *,
    bos: Tensor | None = None,
    quantizer: Quantizer | None = None,
    values: Sequence[Value] = (),
) -> Monolayer:
    """The network: the given `lift`, readout `feed_forward` and `card`, with positions, attention and head of the draw.

    `kappa`: κ of the first stage. `bos` `(D,)`: what the begin token has besides its key; None: nothing. `quantizer`:
    the first block of an approximator. `values`: what the further stages of a cascade average; the lift already holds
    those of the tokens.
    """
    labels = feed_forward.labels
    width = lift.embedding_dim if isinstance(lift, nn.Embedding) else lift.out_features
    start = stream(np.array([draw.bos_key]), np.zeros(1), width)[0]
    positions = None
    if draw.position_key is not None and draw.position_code is not None:
        place = stream(draw.position_key, draw.position_code, width)
        place[:, ONE] = 0.0
        for stage, value in enumerate(values, 2):
            if value.position is not None:
                place[:, value_slot(stage, labels)] = torch.from_numpy(value.position)
        positions = embedding(place)
    for stage, value in enumerate(values, 2):
        start[value_slot(stage, labels)] = value.bos
    head = linear(*plain_head(None if card.classes is None else len(card.classes), labels, width))
    kappas = [kappa] + [KAPPA] * len(values)
    attention = RankOneAttention.constant_query(width, draw.temperature, kappas, slots(len(kappas), labels))
    start = start if bos is None else start + bos
    return Monolayer(lift, positions, start, attention, feed_forward, head, card, quantizer)


def stream(key: Array, code: Array, width: int) -> Tensor:
    """Stream vectors `(…, D)`: `(1, s, t, 0 …)`."""
    weight = torch.zeros(len(key), width, dtype=torch.float64)
    weight[:, ONE], weight[:, KEY], weight[:, CODE] = 1.0, torch.from_numpy(key), torch.from_numpy(code)
    return weight


def linear_lift(weight: Tensor, bias: Tensor, labels: int) -> nn.Linear:
    """The lift of vectors: `weight` `(2, d)` and `bias` `(2,)` for key and code, and 1 onto `one`."""
    width = LABEL + labels
    full = torch.zeros(width, weight.shape[1], dtype=torch.float64)
    full[KEY : CODE + 1] = weight
    add = torch.zeros(width, dtype=torch.float64)
    add[ONE], add[KEY : CODE + 1] = 1.0, bias
    return linear(full, add)


def copying_lift(dim: int, labels: int) -> nn.Linear:
    """The lift of an approximator: the token itself behind the label slots, and 1 onto `one`."""
    width = LABEL + labels + dim
    full = torch.zeros(width, dim, dtype=torch.float64)
    full[LABEL + labels :] = torch.eye(dim, dtype=torch.float64)
    add = torch.zeros(width, dtype=torch.float64)
    add[ONE] = 1.0
    return linear(full, add)


def lift_of(draw: Draw, count: Ints, labels: int, values: tuple[Value, ...]) -> nn.Embedding | nn.Linear:
    """The map from tokens to the stream. `count` `(V',)`: how often each id occurs; ids beyond never do."""
    if draw.proposal.lift:
        weight, bias = draw.proposal.lift
        return linear_lift(torch.from_numpy(weight), torch.from_numpy(bias), labels)
    every = np.zeros(len(draw.proposal.key), np.int64)
    every[: len(count)] = count
    return table_lift(draw, every, labels, values)


def table_lift(draw: Draw, count: Ints, labels: int, values: tuple[Value, ...] = ()) -> nn.Embedding:
    """The table of stream vectors of ids. Ids that never occur, by `count` `(V,)`, get NaN: they have no vector."""
    table = stream(draw.proposal.key, draw.proposal.code, stream_width(1 + len(values), labels))
    for number, value in enumerate(values, 2):
        table[:, value_slot(number, labels)] = torch.from_numpy(value.token)
    table[torch.from_numpy(count == 0)] = torch.nan
    return embedding(table)
