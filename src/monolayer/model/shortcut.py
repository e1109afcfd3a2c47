"""The same function faster: segment sums in place of attention, binary search in place of the dense readout.

Valid only while the weights have the shape that the construction gave them. Every condition is checked on the weights
themselves, once, and remembered until the model changes (`memory.py`); a model that was changed falls back to its
dense form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.model.attention import CODE, KEY, LABEL, ONE, contexts
from monolayer.model.memory import hooked, look_again, remembered
from monolayer.model.parts import Parts
from monolayer.model.quantizer import CellSteps, Quantizer
from monolayer.model.readouts import READOUTS
from monolayer.model.staircase import Staircase, Steps

SCAN = 16
"""Weights that can be looked at in less than the time that one token takes to answer for."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What the shortcut needs to know of the weights: `λ`, `κ`, the cells of an approximator, and the steps.

    `steps` is None if readout or head are not those of the construction: then only `z` can be had. `further`: for each
    stage of a cascade behind the first its `κ`, the coordinate of its value, and its steps.
    """

    temperature: float
    kappa: float
    cells: CellSteps | None
    steps: Steps | None
    further: tuple[tuple[float, int, Steps], ...] = ()


def plan(model: Parts) -> Plan | None:
    """How to take the shortcut, or None if weights, hooks, parametrizations or other parts do not allow it."""
    return remembered(model, "plan", lambda: None if hooked(model) or _replaced(model) else _plan(model))


def _replaced(model: Parts) -> bool:
    """Whether a part is of another class than it was built with: wrapped, parametrized, quantized, or another part.

    Not a subclass either: what it does in its forward pass is not in the weights.
    """
    readout: Any = model.feed_forward
    if getattr(readout, "readout", None) not in READOUTS:
        return True
    parts: list[tuple[Any, type]] = list(zip((readout, model.attention), READOUTS[readout.readout], strict=True))
    parts += [(stage, Staircase) for stage in getattr(readout, "stairs", ())]
    parts += [(model.lift, nn.Linear if model.card.vocabulary is None else nn.Embedding), (model.head, nn.Linear)]
    parts += [] if model.positions is None else [(model.positions, nn.Embedding)]
    parts += [] if model.quantizer is None else [(model.quantizer, Quantizer)]
    return any(type(part) is not kind or getattr(part, "max_norm", None) is not None for part, kind in parts)


@torch.no_grad()
def _plan(model: Parts) -> Plan | None:
    readout, cells = model.feed_forward, None
    found = model.attention.shortcuts(readout.slots)
    if found is None or not _plain_stream(model):
        return None
    if model.quantizer is not None:
        cells = model.quantizer.steps()
        if cells is None:
            return None
    temperature, kappas = found
    tables = readout.tables() if _plain_head(model) else None
    if tables is None:
        return Plan(temperature, kappas[0], cells, None)
    values = [value for value, _ in readout.slots]
    return Plan(temperature, kappas[0], cells, tables[0], tuple(zip(kappas[1:], values[1:], tables[1:], strict=True)))


@torch.no_grad()
def fast_labels(model: Parts, data: Sequences) -> Tensor | None:
    """Label coordinates `(P, m)` of every answering place, or None if the weights do not allow the shortcut.

    For a robust readout, class numbers `(P, 1)`.
    """
    readout = model.feed_forward
    if not readout.slots:
        return None if hooked(model) else readout.fast(model, data)
    if SCAN * len(data.tokens) >= readout.step_count:
        look_again(model)
    way = plan(model)
    if way is None or way.steps is None:
        return None
    return labels_by(model, data, way, way.steps)


def labels_by(model: Parts, data: Sequences, way: Plan, first: Callable[[Tensor], Tensor]) -> Tensor:
    """Label coordinates `(P, m)`, the first stage, or the only one, being evaluated by `first`."""
    met = traced(model, data, way)
    z = met.code + way.kappa * met.context
    label = first(z)
    for kappa, slot, steps in way.further:
        # What a stage wrote behind the label is the number of a stretch: the code of the next.
        total, number = label[:, :-1], label[:, -1]
        label = steps(number + kappa * further_mean(model, data, met, slot))
        label[:, : total.shape[1]] += total
    # A search for NaN ends somewhere all the same.
    return label.where(~z.isnan()[:, None], torch.nan) if bool(z.isnan().any()) else label


@torch.no_grad()
def codes(model: Parts, data: Sequences) -> Tensor | None:
    """`z = t + κ B(λ; s)` of every answering place `(P,)`, or None if the weights do not allow the shortcut."""
    way = plan(model)
    return None if way is None else _codes(model, data, way)


@dataclass(frozen=True, eq=False)
class Traced:
    """What the shortcut meets on its way to `z = code + κ context`, at every answering place `(P,)`.

    `key` and `weight`, `e^{λ s}` up to one common factor, are tables whose `rows` `(T,)` are the tokens', or hold one
    entry a token if `rows` is None; `begin` is that pair for the begin token.
    """

    key: Tensor
    weight: Tensor
    rows: Tensor | None
    begin: tuple[float, float]
    code: Tensor
    context: Tensor


def _codes(model: Parts, data: Sequences, way: Plan) -> Tensor:
    met = traced(model, data, way)
    return met.code + way.kappa * met.context


def traced(model: Parts, data: Sequences, way: Plan) -> Traced:
    """The numbers of every token and answering place, by segment sums."""
    temperature = way.temperature
    device, bos = model.bos.device, model.bos
    bos_key, bos_code = bos[KEY], bos[CODE]
    lengths = torch.from_numpy(data.lengths).to(device)
    place = None if model.positions is None else torch.from_numpy(data.position).to(device)
    rows: Tensor | None = None
    if isinstance(model.lift, nn.Embedding):
        rows = torch.from_numpy(data.tokens).to(device)
        key, code = model.lift.weight[:, KEY], model.lift.weight[:, CODE].index_select(0, rows)
        if place is not None or len(rows) < len(key):
            key, rows = key.index_select(0, rows), None
    elif way.cells is None:
        x = torch.from_numpy(data.tokens).to(bos)
        key, code = (x @ model.lift.weight[KEY : CODE + 1].T + model.lift.bias[KEY : CODE + 1]).unbind(1)
    else:
        cells = way.cells
        # In a plain stream x itself lies behind the label slots, and the block reads it there.
        key, code = cells(torch.from_numpy(data.tokens).to(bos)).unbind(1)
        bos_key, bos_code = bos[KEY : CODE + 1] + cells(bos[None, LABEL + len(model.feed_forward.bias_2) :])[0]
    if place is not None and model.positions is not None:
        key = key + model.positions.weight[:, KEY].index_select(0, place)
        code = code + model.positions.weight[:, CODE].index_select(0, place)
    # Without positions keys and terms of ids are tables over the vocabulary: V exponentials, not T, if V is less.
    score = temperature * key
    # One common factor e^(−top) cancels in the quotient; it keeps exp from overflowing. Only rows in use count: a
    # stray large key in another row would push all of theirs to 0.
    used = score if rows is None else score.index_select(0, rows)
    top = max(float(used.max()), float(temperature * bos_key))
    weights, moments = weight, moment = boltzmann_terms(key, temperature, top)
    if rows is not None:
        weight, moment = weights.index_select(0, rows), moments.index_select(0, rows)
    bos_terms = boltzmann_terms(bos_key, temperature, top)
    context = contexts(weight, moment, lengths, (float(bos_terms[0]), float(bos_terms[1])), model.card.causal)
    if model.card.per == "sequence":
        code = bos_code.detach().expand(len(context))
    elif not model.card.causal:
        context = spread(context, lengths)
    return Traced(key, weights, rows, (float(bos_key), float(bos_terms[0])), code, context)


def further_mean(model: Parts, data: Sequences, met: Traced, slot: int) -> Tensor:
    """The mean of another coordinate of the stream under the same softmax, at every answering place `(P,)`."""
    device, bos = model.bos.device, model.bos[slot]
    lengths = torch.from_numpy(data.lengths).to(device)
    tokens = torch.from_numpy(data.tokens).to(device)
    weight = met.weight if met.rows is None else met.weight.index_select(0, met.rows)
    if isinstance(model.lift, nn.Embedding):
        value = model.lift.weight[:, slot].index_select(0, tokens)
    else:
        value = tokens.to(bos) @ model.lift.weight[slot] + model.lift.bias[slot]
    if model.positions is not None:
        value = value + model.positions.weight[:, slot].index_select(0, torch.from_numpy(data.position).to(device))
    begin = met.begin[1], float(bos * met.begin[1])
    found = contexts(weight, value * weight, lengths, begin, model.card.causal)
    return found if model.card.per == "sequence" or model.card.causal else spread(found, lengths)


def boltzmann_terms(key: Tensor, temperature: float, top: float) -> tuple[Tensor, Tensor]:
    """`e^{λ s − top}` and `s e^{λ s − top}`: the weight and the moment of every key."""
    weight = torch.exp(temperature * key - top)
    return weight, key * weight


def spread(per_sequence: Tensor, lengths: Tensor) -> Tensor:
    """`(N,)` to `(T,)`: the number of its sequence for every token."""
    width = int(lengths[0])
    if bool((lengths == width).all()):
        return per_sequence[:, None].expand(-1, width).reshape(-1)
    return per_sequence.repeat_interleave(lengths)


def plain_head(classes: int | None, labels: int, width: int) -> tuple[Tensor, Tensor]:
    """Weight `(C, D)` and bias `(C,)` of the head that the construction uses; `width` is `D`.

    Classes: `logit_j = 2 j ŷ − j² = ŷ² − (j − ŷ)²`, largest at the integer nearest to `ŷ`. Real labels: a copy.
    """
    if classes is None:
        weight = torch.zeros(labels, width, dtype=torch.float64)
        weight[:, LABEL : LABEL + labels] = torch.eye(labels, dtype=torch.float64)
        return weight, torch.zeros(labels, dtype=torch.float64)
    number = torch.arange(classes, dtype=torch.float64)
    weight = torch.zeros(classes, width, dtype=torch.float64)
    weight[:, LABEL] = 2.0 * number
    return weight, -number * number


def as_built(model: Parts) -> bool:
    """Whether stream and head are those of the construction, so that `z` and the readout say all there is."""
    return _plain_head(model) and _plain_stream(model)


def _plain_head(model: Parts) -> bool:
    """Whether the head is the one of the construction: its argmax is then the nearest integer."""
    classes, head = model.card.classes, model.head
    labels = len(model.feed_forward.bias_2)
    weight, bias = plain_head(None if classes is None else len(classes), labels, model.bos.numel())
    return torch.equal(head.weight, weight.to(head.weight)) and torch.equal(head.bias, bias.to(head.bias))


def _plain_stream(model: Parts) -> bool:
    """Whether `one` is 1 and the label slots are 0 in every stream vector; rows of unseen ids are NaN and skipped.

    For an approximator also: the lift copies the token behind the label slots and writes nothing else but `one`.
    """
    free = tuple(value for value, _ in model.feed_forward.slots[1:])
    end = model.bos.numel() if model.quantizer is None else LABEL + model.feed_forward.labels
    if free and model.quantizer is not None:
        return False
    good = _constant(model.bos[None, :end], 1.0, free)
    if isinstance(model.lift, nn.Embedding):
        weight = model.lift.weight
        good = good and model.quantizer is None and _constant(weight[~weight[:, ONE].isnan()], 1.0, free)
    else:
        weight, bias = model.lift.weight, model.lift.bias
        good = good and _constant(weight.T[:, :end], 0.0, free) and _constant(bias[None], 1.0, free)
        if model.quantizer is not None:
            copy = torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device)
            good = good and torch.equal(weight[end:], copy) and not bool(weight[:end].any() or bias[1:].any())
    return good and (model.positions is None or _constant(model.positions.weight, 0.0, free))


def _constant(stream: Tensor, one: float, free: tuple[int, ...] = ()) -> bool:
    """Whether `one` is as it must be, and whatever stands behind the code is 0 but for the coordinates `free`."""
    # A NaN that the shortcut would not look at makes NaN of the dense pass: 0 times NaN.
    if not bool(stream.isfinite().all()):
        return False
    empty = [slot for slot in range(LABEL, stream.shape[1]) if slot not in free]
    return bool((stream[:, ONE] == one).all()) and not bool(stream[:, empty].any() if free else stream[:, LABEL:].any())
