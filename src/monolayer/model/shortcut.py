"""The same function faster: segment sums in place of attention, binary search in place of the dense readout.

Valid only while the weights have the shape that the construction gave them. Every condition is checked on the weights
themselves, once, and remembered until the model changes (`memory.py`); a model that was changed falls back to its
dense form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.kernels import passes
from monolayer.model.attention import CODE, KEY, LABEL, ONE
from monolayer.model.card import Card
from monolayer.model.contexts import contexts, contexts_by_row, same_length, spread
from monolayer.model.memory import hooked, look_again, remembered
from monolayer.model.parts import Parts
from monolayer.model.quantizer import CellSteps, Quantizer
from monolayer.model.readouts import READOUTS
from monolayer.model.staircase import Plateaus, Staircase, Steps, any_nan
from monolayer.model.torch_settings import own_settings

SCAN = 4
"""Weights that can be looked at in less than the time that one token takes to answer for."""


class LineStage(NamedTuple):
    """One line: its `κ`, the coordinate of the stream that attention averages for it, and its steps."""

    kappa: float
    slot: int
    steps: Steps


class Plan(NamedTuple):
    """What the shortcut needs to know of the weights: `λ`, the cells of an approximator, the stages."""

    temperature: float
    cells: CellSteps | None
    stages: tuple[LineStage, ...]
    settled: Steps
    """The first stage with what all stages together write; NaN where that depends on more than the first `z`."""


@dataclass(frozen=True, eq=False)
class AskedTensors:
    """Sequences as tensors on the model's device: tokens `(T,)` or `(T, d)`, lengths `(N,)`, places `(T,)`."""

    tokens: Tensor
    lengths: Tensor
    position: Tensor | None

    @classmethod
    def of(cls, model: Parts, data: Sequences) -> AskedTensors:
        """Encoded data; without their places where the model has no positions."""
        tokens, lengths = (torch.from_numpy(part).to(model.bos.device) for part in (data.tokens, data.lengths))
        if model.card.vocabulary is None:
            tokens = tokens.to(model.bos.dtype)
        position = None if model.positions is None else torch.from_numpy(data.position).to(model.bos.device)
        return cls(tokens, lengths, position)

    @classmethod
    def rows(cls, model: Parts, X: Tensor) -> AskedTensors | None:
        """Ids `X` `(N, n)` that lie on the model's device and are its row numbers; None: they are not."""
        names, whole = model.card.vocabulary, not (X.is_floating_point() or X.is_complex() or X.dtype == torch.bool)
        if names is None or not (
            names.identity and whole and X.ndim == 2 and X.numel() and X.device == model.bos.device
        ):
            return None
        if model.positions is not None and X.shape[1] > model.positions.num_embeddings:
            return None
        tokens = X.reshape(-1).long()
        low, high = torch.stack(tokens.aminmax()).tolist()
        if low < 0 or high >= len(names):
            return None
        position = None if model.positions is None else torch.arange(X.shape[1], device=X.device).repeat(len(X))
        return cls(tokens, torch.full((len(X),), X.shape[1], device=X.device), position)


def plan(model: Parts) -> Plan | None:
    """How to take the shortcut, or None if weights, hooks, parametrizations or other parts do not allow it."""
    return remembered(model, lambda: None if hooked(model) or _replaced(model) else _plan(model))


def _replaced(model: Parts) -> bool:
    """Whether a part is of another class than it was built with: wrapped, parametrized, quantized, or another part.

    Not a subclass either: what it does in its forward pass is not in the weights.
    """
    readout: object = model.feed_forward
    row = READOUTS.get(getattr(readout, "readout", ""))
    if row is None:
        return True
    parts: list[tuple[Any, type]] = [(readout, row.readout), (model.attention, row.attention)]
    parts += [(stage, Staircase) for stage in getattr(readout, "stairs", ())]
    parts += [(model.lift, nn.Linear if model.card.vocabulary is None else nn.Embedding), (model.head, nn.Linear)]
    parts += [] if model.positions is None else [(model.positions, nn.Embedding)]
    parts += [] if model.quantizer is None else [(model.quantizer, Quantizer)]
    return any(type(part) is not kind or getattr(part, "max_norm", None) is not None for part, kind in parts)


@torch.no_grad()
def _plan(model: Parts) -> Plan | None:
    readout, cells = model.feed_forward, None if model.quantizer is None else model.quantizer.steps()
    ways, tables = model.attention.shortcuts(readout.slots), readout.tables()
    if ways is None or tables is None or not (_plain_stream(model) and _plain_head(model)):
        return None
    if model.quantizer is not None and cells is None:
        return None
    temperature, kappas = ways
    values = [value for value, _ in readout.slots]
    stages = tuple(map(LineStage, kappas, values, tables))
    return Plan(temperature, cells, stages, _settled_steps(model, stages))


def _settled_steps(model: Parts, stages: tuple[LineStage, ...]) -> Steps:
    """The first stage with what all stages together write.

    Right of every step but those of its crowds, and left of the next, nothing that a later stage averages can reach a
    step of it: then it writes the same whatever the average is. Averages are at most as large as what is averaged, but
    for rounding; twice as much is room for that.
    """
    first = stages[0].steps
    if len(stages) == 1:
        return first
    labels = model.feed_forward.labels
    total, code = first.level[:, :labels], first.level[:, -1]
    for stage in stages[1:]:
        reach = 2.0 * abs(stage.kappa) * _largest_before_attention(model, stage.slot)
        passed = torch.searchsorted(stage.steps.end, code - reach, right=True)
        begun = torch.searchsorted(stage.steps.start, code + reach)
        level = stage.steps.level[passed].where((passed == begun)[:, None], torch.nan)
        total, code = total + level[:, :labels], level[:, -1]
    return Plateaus(first.slope, first.bias, total)


def _largest_before_attention(model: Parts, slot: int) -> float:
    """How large one coordinate of the stream before attention can be; NaN, of ids without a vector, is left out."""
    if not isinstance(model.lift, nn.Embedding):
        return math.inf
    tables = [model.lift.weight] if model.positions is None else [model.lift.weight, model.positions.weight]
    sizes = [float(table[:, slot].abs().nan_to_num(0.0, posinf=torch.inf).max()) for table in tables]
    return max(sum(sizes), abs(float(model.bos[slot])))


@torch.no_grad()
def fast_labels(model: Parts, data: Sequences) -> Tensor | None:
    """Label coordinates `(P, m)` of every answering place, or None if the weights do not allow the shortcut.

    For a robust readout, class numbers `(P, 1)`.
    """
    readout = model.feed_forward
    if not getattr(readout, "slots", ()):  # a robust one, or a part that was put in its place
        return None if hooked(model) or _replaced(model) else readout.fast(model, data)
    way = _fresh_plan(model, len(data.tokens))
    return None if way is None else labels_by(model, AskedTensors.of(model, data), way)


@torch.no_grad()
@own_settings()
def labels_there(model: Parts, X: Tensor) -> Tensor | None:
    """Labels of ids `X` `(N, n)` on their device, as `predict` shapes them; None: only NumPy can tell."""
    classes, asked = model.card.classes, AskedTensors.rows(model, X)
    if asked is None or not (classes is None or classes.identity) or not getattr(model.feed_forward, "slots", ()):
        return None
    way = _fresh_plan(model, X.numel())
    label = None if way is None else labels_by(model, asked, way)
    if label is None or bool(label.sum().isnan()):
        return None
    labels = values(model.card, label)
    return labels.view(*X.shape, *labels.shape[1:]) if model.card.labelling.at_tokens else labels


def _fresh_plan(model: Parts, tokens: int) -> Plan | None:
    """The plan; from the weights as they are now where that costs little."""
    if SCAN * tokens >= model.feed_forward.step_count:
        look_again(model)
    return plan(model)


def labels_by(model: Parts, asked: AskedTensors, way: Plan) -> Tensor | None:
    """Label coordinates `(P, m)`: the sum of what the stages write. None where scores are too far apart for that."""
    met = traced(model, asked, way)
    if met is None:
        return None
    z = _on_line(model, asked, met, way.stages[0].kappa)
    total = way.settled(z)
    if len(way.stages) > 1:
        places = torch.nonzero(any_nan(total.T)).flatten()
        places = places[~z[places].isnan()]
        if len(places):
            total = _with_all_stages(model, asked, way, met, total, places)
    return total


def _on_line(model: Parts, asked: AskedTensors, met: Traced, kappa: float) -> Tensor:
    """`z = code + κ context` `(P,)` of every answering place."""
    moved, fused = kappa * met.context, passes(asked.tokens)
    if fused and met.codes.rows is not None and _shared(model):
        width = same_length(asked.lengths)
        if width is not None:
            z: Tensor = fused.places_on_line(met.codes.rows, width, met.codes.table, moved)
            return z
    return met.code + everywhere(model, asked, moved)


def _with_all_stages(
    model: Parts, asked: AskedTensors, way: Plan, met: Traced, total: Tensor, places: Tensor
) -> Tensor:
    """`total` `(P, m)` with the labels of some answering places by all stages; only their own sequences are looked at.

    What was met of a sequence has the same bits whatever sequences stand beside it.
    """
    ends, at_tokens = asked.lengths.cumsum(0), model.card.labelling.at_tokens
    answering = torch.searchsorted(ends, places, right=True) if at_tokens else places
    rows: Tensor = torch.unique_consecutive(answering)  # places rise
    lengths = asked.lengths[rows]
    before = (ends - asked.lengths)[rows] - (lengths.cumsum(0) - lengths)
    flat = torch.arange(int(lengths.sum()), device=rows.device) + before.repeat_interleave(lengths)
    labelled = flat if at_tokens else rows
    some = AskedTensors(asked.tokens[flat], lengths, None if asked.position is None else asked.position[flat])
    context = met.context[flat if model.card.causal else rows]
    keys, weights = (OfTokens(numbers.at(flat)) for numbers in (met.keys, met.weights))
    part = Traced(keys, weights, met.begin, OfTokens(met.codes.at(labelled)), context)
    total[places] = _all_stages(model, some, way, part)[torch.searchsorted(labelled, places)]
    return total


def _all_stages(model: Parts, asked: AskedTensors, way: Plan, met: Traced) -> Tensor:
    """Label coordinates `(P, m)` as the stages one after the other give them."""
    labels, stages = model.feed_forward.labels, lines(model, asked, way, met)
    total = next(stages)[1][:, :labels]
    for _, level in stages:
        total = total + level[:, :labels]
    return total


def values(card: Card, label: Tensor) -> Tensor:
    """Label coordinates `(P, m)` as labels: class numbers `(P,)`, or the real numbers as they are."""
    return label if card.classes is None else label[:, 0].round().clamp(0, len(card.classes) - 1).to(torch.int64)


def lines(model: Parts, asked: AskedTensors, way: Plan, met: Traced) -> Iterator[tuple[Tensor, Tensor]]:
    """Stage by stage, `z = code + κ mean` `(P,)` of every answering place, and the level of its step there."""
    code, mean = met.code, met.context
    for number, stage in enumerate(way.stages):
        if number:
            mean = _further_mean(model, asked, met, stage.slot)
        z = code + everywhere(model, asked, stage.kappa * mean)
        level = stage.steps(z)
        yield z, level
        # What a stage wrote behind the label is the number of a stretch: the code of the next.
        code = level[:, -1]


class OfTokens(NamedTuple):
    """Numbers of tokens: a table `(V,)` at the `rows` `(T,)` of the tokens; without rows, one per token as it is."""

    table: Tensor
    rows: Tensor | None = None

    @property
    def numbers(self) -> Tensor:
        """The number of every token `(T,)`."""
        return self.table if self.rows is None else self.table.index_select(0, self.rows)

    def at(self, places: Tensor) -> Tensor:
        """Those of some tokens."""
        return self.table[places if self.rows is None else self.rows[places]]


@dataclass(frozen=True, eq=False)
class Traced:
    """What the shortcut meets on its way to `z = code + κ context`.

    At every token `(T,)` its key and its weight, `e^{λ s}` up to one common factor; `begin` is the weight of the begin
    token. The code at every answering place `(P,)`; `context` as `contexts` gives it.
    """

    keys: OfTokens
    weights: OfTokens
    begin: float
    codes: OfTokens
    context: Tensor

    @property
    def key(self) -> Tensor:
        """`s` `(T,)`."""
        return self.keys.numbers

    @property
    def weight(self) -> Tensor:
        """The weight of every token `(T,)`."""
        return self.weights.numbers

    @property
    def code(self) -> Tensor:
        """`t` `(P,)`."""
        return self.codes.numbers


def traced(model: Parts, asked: AskedTensors, way: Plan) -> Traced | None:
    """The numbers of every token and answering place, by segment sums; None: scores are too far apart for them."""
    temperature, bos_key, bos_code = way.temperature, model.bos[KEY], model.bos[CODE]
    written: tuple[Tensor, ...] | None = None
    if way.cells is not None:
        # In a plain stream x itself lies behind the label slots, and the block reads it there.
        cells_of_bos = way.cells(model.bos[None, LABEL + model.feed_forward.labels :])[0]
        bos_key, bos_code = bos_key + cells_of_bos[0], bos_code + cells_of_bos[1]
        written = way.cells(asked.tokens).unbind(1)
    if written is None and model.positions is None and isinstance(model.lift, nn.Embedding) and passes(asked.tokens):
        return _traced_by_row(model, asked, temperature)
    key, code = (_column(model, asked, slot, written) for slot in (KEY, CODE))
    # Only tokens in use count: a stray large key in another row of the table would push all of theirs to 0.
    score, bos_score = temperature * key, temperature * bos_key
    top = _common_factor(float(score.max()), float(bos_score), key, asked.lengths)
    if top is None:
        return None
    weight, begin = score.sub_(top).exp_(), torch.exp(bos_score - top)
    first = float(begin), float(bos_key * begin)
    context = contexts(weight, key * weight, asked.lengths, first, model.card.causal)
    if not model.card.labelling.at_tokens:
        code = bos_code.detach().expand(len(context))
    return Traced(OfTokens(key), OfTokens(weight), first[0], OfTokens(code), context)


def _traced_by_row(model: Parts, asked: AskedTensors, temperature: float) -> Traced | None:
    """`traced` of many ids on a GPU: every row of the vocabulary is looked at once, and has the same bits."""
    key, code = (model.lift.weight[:, slot].detach().contiguous() for slot in (KEY, CODE))
    score, bos_key = temperature * key, model.bos[KEY]
    bos_score = temperature * bos_key
    largest = passes(asked.tokens).largest(score, asked.tokens)
    top = _common_factor(largest, float(bos_score), key[~key.isnan()], asked.lengths)
    if top is None:
        return None
    keys = torch.cat([key, bos_key.detach()[None]])
    weight = torch.exp(torch.cat([score, bos_score.detach()[None]]) - top)
    terms = torch.stack([weight, keys * weight])
    context = contexts_by_row(terms, asked.tokens, asked.lengths, model.card.causal, same_length(asked.lengths))
    codes = OfTokens(code, asked.tokens)
    if not model.card.labelling.at_tokens:
        codes = OfTokens(model.bos[CODE].detach().expand(len(context)))
    return Traced(OfTokens(key, asked.tokens), OfTokens(weight, asked.tokens), float(weight[-1]), codes, context)


def _common_factor(largest: float, begin: float, key: Tensor, lengths: Tensor) -> float | None:
    """`top`, so that weights `e^(score − top)` of tokens and of the begin token are good in all sequences.

    `largest`: that of the scores of tokens; `key`: their keys, and those of other tokens if need be. The factor cancels
    in quotients of sums. It is the largest score of all, unless the begin token's weight, which every sum holds, would
    then be below 16 times the least normal number. From there on what other weights lose by underflow, half of the
    least number above 0 each, is at most 1/16 of a rounding of the sum each. None: then sums would overflow.
    """
    floats = torch.finfo(key.dtype)
    largest = max(largest, begin)
    top = min(largest, begin - math.log(16.0 * floats.tiny))
    if top < largest:
        room = math.log(floats.max) - math.log((float(lengths.max()) + 1.0) * max(1.0, float(key.abs().max())))
        if largest - top > room:
            return None
    return top


def _column(model: Parts, asked: AskedTensors, slot: int, written: tuple[Tensor, ...] | None = None) -> Tensor:
    """One coordinate of the stream before attention, at every token `(T,)`; `written`: key and code by cells."""
    if written is not None:
        value = written[slot - KEY]
    elif isinstance(model.lift, nn.Embedding):
        value = model.lift.weight[:, slot].index_select(0, asked.tokens)
    else:
        value = asked.tokens @ model.lift.weight[slot] + model.lift.bias[slot]
    if model.positions is not None and asked.position is not None:
        value = value + model.positions.weight[:, slot].index_select(0, asked.position)
    return value


def _further_mean(model: Parts, asked: AskedTensors, met: Traced, slot: int) -> Tensor:
    """The mean of another coordinate of the stream under the same softmax, as `contexts` gives it."""
    begin = met.begin, float(model.bos[slot] * met.begin)
    moment = _column(model, asked, slot) * met.weight
    mean: Tensor = contexts(met.weight, moment, asked.lengths, begin, model.card.causal)
    return mean


def everywhere(model: Parts, asked: AskedTensors, mean: Tensor) -> Tensor:
    """Means as `contexts` gives them, at every answering place `(P,)`."""
    return spread(mean, asked.lengths) if _shared(model) else mean


def _shared(model: Parts) -> bool:
    """Whether all tokens of a sequence, each of which answers, have one mean."""
    return model.card.labelling.at_tokens and not model.card.causal


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


def _plain_head(model: Parts) -> bool:
    """Whether the head is the one of the construction: its argmax is then the nearest integer."""
    classes, head = model.card.classes, model.head
    labels = model.feed_forward.labels
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
    # What lies behind `end` is the begin token's x, which may be any number.
    good = _constant(model.bos[None, :end], 1.0, free) and bool(model.bos.isfinite().all())
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
