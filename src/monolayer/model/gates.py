"""The robust readout: neurons that are half-spaces of contexts, each gated by its token; and the attention before it.

A neuron reads token, place and the context at length `√k`, writes the code of its class, and is silent at every other
token, whatever the context: `⟨w, c⟩ ≤ |w| √k` (docs/robust.md).

The fast path computes the same function: contexts by places, and at each token only the neurons that some context can
wake there. A neuron is *live* at a token unless `token part + largest place + |w_context| √k ≤ 0`. That bound is
computed from the weights as they are, even if they were changed: a silent neuron adds exactly 0, so leaving it out
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.data.objects import Config, JsonObject
from monolayer.errors import DataError
from monolayer.model.attention import RankOneAttention, onto
from monolayer.model.parts import Parts
from monolayer.model.places import KEY_WIDTH, StreamWidths, mixtures, read_places, unit
from monolayer.model.staircase import BLOCK, Readout

_HIDDEN_AT_ONCE = 1 << 24
"""Hidden numbers held at a time by the dense readout: 64 MiB in float32."""
_SAFE = 1.0 + 2.0**-8
"""Widens the bound by more than float32 sums of some hundred terms can be wrong."""
_PAIRS_AT_ONCE = 1 << 22
"""Numbers gathered at a time for pairs of a point and a neuron: 16 MiB in float32."""


class RankAttention(RankOneAttention):
    """`Z + softmax(Q Kᵀ) V W_Oᵀ`, one head: `W_Q`, `W_K` `(2, D)`, `W_V` `(k, D)`, `W_O` `(D, k)`."""

    @classmethod
    def over_places(cls, layout: StreamWidths, temperature: float, turn: Tensor, gain: float) -> RankAttention:
        """Logits `λ cos(ω (i − l) + φ)` from the keys of two places; values times `gain`.

        `turn` `(2, 2)` is the rotation by the angle φ.
        """
        W_Q, W_K = torch.zeros(2, KEY_WIDTH, layout.width, dtype=torch.float64).unbind()
        W_Q[:, layout.key] = temperature * turn
        W_K[:, layout.key] = torch.eye(KEY_WIDTH, dtype=torch.float64)
        W_V = torch.zeros(layout.rank, layout.width, dtype=torch.float64)
        W_V[:, layout.context] = torch.eye(layout.rank, dtype=torch.float64)
        return cls(W_Q.clone(), W_K.clone(), W_V, gain * W_V.T.clone())

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        return f"width={self.W_Q.shape[1]}, heads=1, value rank {len(self.W_V)}"


class Gates(Readout):
    """`label += weight_2 relu(weight_1 z + bias_1) + bias_2`, `z` the first `R` coordinates with the context at `√k`.

    `weight_1` `(H, R)`, `bias_1` `(H,)`, `weight_2` `(m, H)`, `bias_2` `(m,)`.
    """

    readout = "gates"

    def __init__(
        self, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor, layout: StreamWidths
    ) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = nn.Parameter(weight_1), nn.Parameter(bias_1)
        self.weight_2, self.bias_2 = nn.Parameter(weight_2), nn.Parameter(bias_2)
        self.layout, self.labels = layout, len(bias_2)

    def forward(self, Z: Tensor) -> Tensor:
        """`Z` `(…, D)` with the code of a class added to the label coordinates."""
        flat = self.read(Z).reshape(-1, self.layout.reads)
        rows = max(1, _HIDDEN_AT_ONCE // max(1, len(self.weight_1)))
        parts = [torch.relu(z @ self.weight_1.T + self.bias_1) @ self.weight_2.T for z in torch.split(flat, rows)]
        label = torch.cat(parts).reshape(*Z.shape[:-1], self.layout.label) + self.bias_2
        return onto(Z, label, Z.shape[-1] - self.layout.label)

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """The two layers, which act on what `read` returns."""
        return [(self.weight_1, self.bias_1), (self.weight_2, self.bias_2)]

    def read(self, Z: Tensor) -> Tensor:
        """What the neurons read `(…, R)`."""
        widths = [self.layout.token, self.layout.place, self.layout.rank]
        token, place, context = torch.split(Z[..., : self.layout.reads], widths, dim=-1)
        return torch.cat([token, place, unit(context)], dim=-1)

    # -- the protocol of readouts (`staircase.Readout`) ------------------------------------------------------

    @property
    def step_count(self) -> int:
        """`H`, the number of neurons."""
        return len(self.weight_1)

    def fast(self, model: Parts, data: Sequences) -> Tensor | None:
        """Class numbers `(P, 1)`, from the neurons that a token can wake."""
        classes = live_classes(model, self, data)
        return None if classes is None else classes[:, None].double()

    def to_json(self) -> JsonObject:
        """What `config.json` says of it: the number of neurons, and the widths of the stream."""
        return {"steps": [len(self.weight_1)], "gates": self.layout.to_json()}

    @classmethod
    def stored(cls, config: Config, tensors: Mapping[str, Tensor]) -> Gates:
        """The readout that a file describes; `tensors` by their names without `feed_forward.`."""
        one, two, three, four = (tensors[name] for name in BLOCK)
        return cls(one, two, three, four, StreamWidths(**config["gates"], label=config["labels"]))

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        return f"readout=gates, neurons={len(self.weight_1)}, {self.layout}"


def gates_of(model: Parts) -> Gates:
    """The readout of a robust model; an error if the model is not robust."""
    if not isinstance(model.feed_forward, Gates):
        raise DataError("this model is not robust: it has steps, not half-spaces")
    return model.feed_forward


# -- answers from live neurons -----------------------------------------------------------------------------


@torch.no_grad()
def live_classes(model: Parts, gates: Gates, data: Sequences) -> Tensor | None:
    """Class numbers `(P,)` of every answering place, or None where weights do more than the layout says."""
    layout, at_tokens = gates.layout, model.card.labelling.at_tokens
    if not _as_laid_out(model, layout):
        return None
    device = model.bos.device
    dtype = torch.promote_types(model.bos.dtype, torch.float32)
    bos, rows, table = model.bos.to(dtype), torch.from_numpy(data.tokens).to(device), model.lift.weight.to(dtype)
    through = model.attention.W_O[layout.context].to(dtype) @ model.attention.W_V[:, layout.context].to(dtype)
    places = read_places(model.positions, model.bos, model.attention, layout, model.card.causal, model.card.per)
    answering, cell = bos[None], torch.zeros(len(data), dtype=torch.long, device=device)
    if at_tokens:
        used, cell = torch.unique(rows, return_inverse=True)
        answering = table[used]
    alive = _Alive(gates, answering[:, : layout.token], place_codes(model, layout, dtype))
    answer = _classes_of(model, layout, answering[:, -layout.label :] + gates.bias_2.to(dtype))[cell]
    position = torch.from_numpy(data.position).to(device)
    lengths = torch.from_numpy(data.lengths).to(device)
    answering_context, value = answering[:, layout.context], table[:, layout.context] @ through.T
    for at, mixed in mixtures(places, value, bos[layout.context] @ through.T, lengths, rows):
        context = unit(answering_context[cell[at]] + mixed)
        place = alive.codes[position[at] if at_tokens else torch.zeros_like(at)] if layout.place else context[:, :0]
        point, label = alive.label(cell[at], torch.cat([place, context], dim=1))
        base = answering[cell[at[point]], -layout.label :] + gates.bias_2.to(dtype)
        for part in torch.split(torch.arange(len(point), device=device), _PAIRS_AT_ONCE // model.head.out_features + 1):
            answer[at[point[part]]] = _classes_of(model, layout, base[part] + label[part])
    return answer


class _Alive:
    """Pairs of a token and a neuron that some context may wake, by token."""

    def __init__(self, gates: Gates, token: Tensor, codes: Tensor) -> None:
        """`token` `(V, t)` as the neurons read it, `codes` `(L, p)` of the places."""
        layout, self.codes = gates.layout, codes
        weight = gates.weight_1.to(token)
        self.token, self.rest = weight[:, : layout.token], weight[:, layout.token :]
        self.bias, self.weight_2 = gates.bias_1.to(token), gates.weight_2.to(token)
        self.part = token
        reach = weight[:, layout.token + layout.place :].norm(dim=1) * layout.rank**0.5 * _SAFE
        if layout.place:
            spread = weight[:, layout.token : layout.token + layout.place] @ codes.T
            reach = reach + spread.amax(1) + (_SAFE - 1.0) * spread.abs().amax(1)
        neurons = []
        for begin in range(0, len(token), 1024):
            gate = token[begin : begin + 1024] @ self.token.T + self.bias
            size = token[begin : begin + 1024].abs() @ self.token.abs().T + self.bias.abs()
            # Also rows of NaN: a token that was never seen is asked no neuron.
            pair = torch.nonzero(gate + (_SAFE - 1.0) * size + reach > 0.0)
            pair[:, 0] += begin
            neurons.append(pair)
        pairs = torch.cat(neurons)
        self.neuron = pairs[:, 1]
        self.count = torch.bincount(pairs[:, 0], minlength=len(token))
        self.start = self.count.cumsum(0) - self.count

    def label(self, cell: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """Points `(Q,)` of a batch at which some neuron is on, and what the neurons add to the label there `(Q, m)`."""
        awake, gain = [], []
        for point in self._blocks(cell):
            times = self.count[cell[point]]
            of = torch.repeat_interleave(point, times)
            first = torch.repeat_interleave(self.start[cell[point]] - (times.cumsum(0) - times), times)
            neuron = self.neuron[first + torch.arange(len(of), device=of.device)]
            high = (rest[of] * self.rest[neuron]).sum(1) + self.bias[neuron]
            high = high + (self.part[cell[of]] * self.token[neuron]).sum(1)
            on = high > 0.0
            awake.append(of[on])
            gain.append(self.weight_2[:, neuron[on]].T * high[on, None])
        if not awake:
            return torch.zeros(0, dtype=torch.long, device=rest.device), rest.new_zeros(0, len(self.weight_2))
        points, place = torch.unique(torch.cat(awake), return_inverse=True)
        label = rest.new_zeros(len(points), len(self.weight_2))
        return points, label.index_add_(0, place, torch.cat(gain))

    def _blocks(self, cell: Tensor) -> Iterator[Tensor]:
        """Points with live neurons, so many at a time that their pairs fit."""
        point = torch.nonzero(self.count[cell] > 0)[:, 0]
        pairs = self.count[cell[point]].cumsum(0)
        most = max(1, _PAIRS_AT_ONCE // (self.rest.shape[1] + self.token.shape[1]))
        if len(point):
            yield from torch.split(point, torch.bincount(pairs.sub_(1) // most).tolist())


def place_codes(model: Parts, layout: StreamWidths, dtype: torch.dtype) -> Tensor:
    """What the positions write for the neurons to read `(L, place)`; one row of zeros if there are none."""
    if model.positions is None or not model.card.labelling.at_tokens:  # `bos` has no place
        return model.bos.new_zeros(1, layout.place, dtype=dtype)
    return model.positions.weight[:, layout.token : layout.token + layout.place].to(dtype)


def _classes_of(model: Parts, layout: StreamWidths, label: Tensor) -> Tensor:
    """Class numbers for label coordinates `(…, m)`, a bounded number of logits at a time."""
    weight, bias = model.head.weight[:, -layout.label :].to(label), model.head.bias.to(label)
    rows = max(1, (1 << 24) // len(weight))
    return torch.cat([(part @ weight.T + bias).argmax(-1) for part in torch.split(label, rows)])


def _as_laid_out(model: Parts, layout: StreamWidths) -> bool:
    """Whether every part of the network reads and writes only what the layout says."""
    attention = model.attention
    if layout.place and model.positions is None:
        return False
    seen = model.lift.weight[~model.lift.weight.isnan().any(1)]
    place = slice(layout.token, layout.token + layout.place)
    streams: list[tuple[Tensor, tuple[slice, ...]]] = [(seen, (place, layout.key))]
    if model.positions is not None:
        outside = (slice(0, layout.token), layout.context, slice(layout.width - layout.label, layout.width))
        streams.append((model.positions.weight, outside))
    else:
        streams.append((model.bos[None], (layout.key,)))
    streams.append((model.bos[None], (place,)))
    if any(bool(rows[:, part].any()) for rows, parts in streams for part in parts):
        return False
    label = slice(layout.width - layout.label, layout.width)
    only: list[tuple[Tensor, slice]] = [
        (attention.W_Q, layout.key),
        (attention.W_K, layout.key),
        (attention.W_V, layout.context),
    ]
    only += [(attention.W_O.T, layout.context), (model.head.weight, label)]
    return all(int(torch.count_nonzero(matrix)) == int(torch.count_nonzero(matrix[:, part])) for matrix, part in only)
