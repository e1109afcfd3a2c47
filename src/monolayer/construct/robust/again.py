"""The draw of a robust model, used again for other data: then only what its tokens' own facts say changes.

A *draw* is here: the names of tokens and classes with their numbers, codes, values, places, attention, rank, format,
and how facts are covered (a margin, or the base of linear cells). With it fixed, the neurons of a token, and the usual
class in its embedding, are a function of the facts of that token alone (docs/editing.md). Gates of vectors depend on
how close the nearest other vector is; and where the begin token answers, all facts are those of one token.

New tokens and classes get the next words of their code as long as it has any, and values drawn from their row numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from monolayer.arrays import Ints
from monolayer.construct.adopt import adopted
from monolayer.construct.construction import Progress
from monolayer.construct.robust.build import Attempt, assembled, check_answers, half_spaces, linear_cells, points_of
from monolayer.construct.robust.codes import code_for, words
from monolayer.construct.robust.linear import class_codes, digits, fits
from monolayer.construct.robust.stream import ONES, Stream, base_of, signs, token_parts, usual_labels
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.errors import ContradictionError, DataError, PrecisionError
from monolayer.model.card import Card, Cover
from monolayer.model.device import one_thread
from monolayer.model.gates import Gates, RankAttention, gates_of
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.places import Layout

_NEW_VALUES = (2307, 14023, 17)
"""With the row number of a new token, the seed of its value."""


@dataclass(frozen=True, eq=False)
class RobustDraw:
    """`table` `(V, D)`: stream vectors of all ids but for their labels, NaN for those without one; None for vectors."""

    model: Monolayer
    card: Card
    table: NDArray[np.float64] | None

    @classmethod
    def of(cls, model: Monolayer) -> RobustDraw:
        """The draw of `model`, if its weights are such as the robust construction gives."""
        gates = gates_of(model)
        card = model.card
        if card.cover is None or card.classes is None:
            raise DataError(
                "this robust model has no draw to use again: its card does not say how its facts were covered"
            )
        if model.bos.device.type != "cpu":
            raise DataError("the draw of a model on another device is used again after .cpu()")
        table = model.lift.weight.detach().double().numpy() if isinstance(model.lift, nn.Embedding) else None
        draw = cls(model, replace(card, summary=None, fingerprint=None), table)
        label = draw.classes(len(card.classes))[0]
        same = np.array_equal(model.head.weight.detach()[:, -gates.layout.label :].double().numpy(), label)
        if table is not None and card.per == "token":
            known, code = ~np.isnan(table[:, 0]), words(len(table))
            same = same and code.shape[1] + ONES == gates.layout.token
            same = same and np.array_equal(table[known, : code.shape[1]], code[known])
        if not same:
            raise DataError(
                "this model has no draw to use again: its codes are not such as memorize gives them (changed, trained)"
            )
        return draw

    @property
    def layout(self) -> Layout:
        return gates_of(self.model).layout

    @property
    def dtype(self) -> torch.dtype:
        return self.model.bos.dtype

    @property
    def cover(self) -> Cover:
        assert self.card.cover is not None  # asked for in `of`
        return self.card.cover

    # -- names -----------------------------------------------------------------------------------------

    def adopt(self, data: Sequences) -> tuple[RobustDraw, Sequences]:
        """`data` in the numbers of this draw, and the draw with what they name and it lacks."""
        card, data = adopted(self.model, self.card, data)
        assert card.classes is not None  # as many as before, at least
        assert self.card.classes is not None
        if len(card.classes) > len(self.card.classes):
            old, new = len(self.card.classes), len(card.classes)
            base = self.cover.base
            full = not _same_code(old, new)
            if base is not None:
                full = digits(old, base).shape[1] != digits(new, base).shape[1]
            if full:
                raise DataError(f"{_first(card.classes, old)} would be class {old:,}: {_FULL.format('classes')}")
        draw = replace(self, card=card)
        if card.vocabulary is not None:
            draw = replace(draw, table=draw._rows_for(data.tokens, len(card.vocabulary)))
        return draw, data

    def _rows_for(self, tokens: Ints, size: int) -> NDArray[np.float64]:
        """The table with a row for each of `tokens`, and `size` rows in all."""
        assert self.table is not None
        layout, width = self.layout, self.layout.token - ONES
        known = np.append(~np.isnan(self.table[:, 0]), np.zeros(size - len(self.table), dtype=bool))
        used = np.zeros(size, dtype=bool)
        used[tokens] = True
        new = np.flatnonzero(used & ~known)
        if len(new) == 0 and size == len(self.table):
            return self.table
        if width and not _same_code(len(self.table), size):
            assert self.card.vocabulary is not None
            name = _first(self.card.vocabulary, len(self.table))
            raise DataError(f"{name} would be token {len(self.table):,}: {_FULL.format('tokens')}")
        table = np.full((size, layout.width), np.nan)
        table[: len(self.table)] = self.table
        table[new] = 0.0
        table[new, width : layout.token] = 1.0
        if width:
            table[new, :width] = words(size)[new]
        for row in new.tolist():
            table[row, layout.context] = signs(np.random.default_rng([*_NEW_VALUES, row]), 1, layout.rank)[0]
        return table

    def classes(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Codes of the classes `(C, m)` and the bias of the head `(C,)`."""
        if self.cover.base is not None:
            return class_codes(count, self.cover.base)
        return words(count), np.zeros(count)

    # -- the model -------------------------------------------------------------------------------------

    def stream(self, task: Task) -> Stream:
        """The stream for adopted data: all as it was, but for the usual classes, and the tokens that occur."""
        model, layout, target = self.model, self.layout, task.target
        assert target.classes is not None
        label, bias = self.classes(len(target.classes))
        bos = model.bos.detach().double().clone()
        start = gates_of(model).bias_2.detach().double().numpy().copy()
        lift: nn.Embedding | nn.Linear
        if self.table is not None:
            base = base_of(task, len(self.table))
            table = self.table.copy()
            if target.per == "token":
                table[:, -layout.label :] = usual_labels(task, base, label, self.cover.base)
            token = table[:, : layout.token].copy()
            table[np.bincount(task.context.rows, minlength=len(table)) == 0] = np.nan
            lift = embedding(torch.from_numpy(table).to(self.dtype).double())
        else:
            assert isinstance(model.lift, nn.Linear)
            assert task.vectors is not None
            lift = linear(*(part.detach().double().clone() for part in (model.lift.weight, model.lift.bias)))
            token = token_parts(lift, layout, task.vectors)
            base = base_of(task, len(task.vectors))
            if target.per == "token":  # the class that the readout adds is everyone's
                base = np.full(len(task.vectors), int((label @ start).argmax()))
        if target.per == "sequence":
            token = bos[None, : layout.token].numpy().copy()
            bos[-layout.label :] = torch.from_numpy(usual_labels(task, base, label, self.cover.base)[0])
        places = None if model.positions is None else embedding(model.positions.weight.detach().double().clone())
        four = (getattr(model.attention, name).detach().double().clone() for name in ("W_Q", "W_K", "W_V", "W_O"))
        return Stream(layout, lift, places, bos, RankAttention(*four), label, bias, token, base, start)

    def attempt(self, task: Task, report: Progress, only: NDArray[np.bool_] | None = None) -> Attempt:
        """What covers the facts of adopted data; of some cells alone, where `only` is a mask of them."""
        report("contexts", 0.1)
        stream = self.stream(task)
        cells, points, number = points_of(task, stream, None, only)
        if self.cover.margin is not None:
            return half_spaces(task, stream, cells, points, number, self.cover.margin, report)
        assert self.cover.base is not None
        report(f"linear cells, digits in base {self.cover.base}", 0.5)
        found = linear_cells(stream, cells, points, number, self.cover.base) if fits(points) else None
        if found is None:
            raise PrecisionError(
                "with this draw a token has more facts than its contexts have dimensions, or contexts that do not fill "
                "them, so its linear cell does not hold them: memorize the data anew, with a higher rank or without "
                "neurons="
            )
        return found


@dataclass(frozen=True)
class RobustAgain:
    """The robust construction with a draw that is given: behind `memorize(..., draw=model)`."""

    draw: RobustDraw

    @classmethod
    def of(cls, model: Monolayer) -> RobustAgain:
        return cls(RobustDraw.of(model))

    @property
    def model(self) -> Monolayer:
        return self.draw.model

    @property
    def card(self) -> Card:
        return self.draw.card

    @property
    def by_token(self) -> bool:
        """Gates of vectors depend on each other, and where the begin token answers, all facts are its own."""
        return self.draw.table is not None and self.draw.card.per == "token"

    def adopt(self, data: Sequences) -> tuple[RobustAgain, Sequences]:
        draw, data = self.draw.adopt(data)
        return RobustAgain(draw), data

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        return tokens

    def build(self, task: Task, report: Progress, only: Ints | None = None) -> Monolayer:
        """The model of adopted data with that draw; `only`: tokens whose neurons are found anew, all others stay."""
        if only is not None and self.by_token:
            return self._renewed(task, report, only)
        task, _ = task.settled()
        model = self.draw.attempt(task, report).assemble(self.draw.card, self.draw.dtype)
        check_answers(task, model)
        return model

    @one_thread()
    def _renewed(self, task: Task, report: Progress, only: Ints) -> Monolayer:
        """Neurons of these tokens found anew, in their places among those that the model has for the others."""
        model, dtype = self.model, self.draw.dtype
        old, cell = gates_of(model), cells_of(model)
        stay = torch.from_numpy(~np.isin(cell, only))
        parts = [part.detach()[stay] for part in (old.weight_1, old.bias_1, old.weight_2.T)]
        found = self._cover(task, report, only)
        if found is not None:
            new = found.gates.weight_1, found.gates.bias_1, found.gates.weight_2.T
            parts = [torch.cat([part, more.detach().to(dtype)]) for part, more in zip(parts, new, strict=True)]
            cell = np.concatenate([cell[stay.numpy()], found.cell])
            order = torch.from_numpy(np.argsort(cell, kind="stable"))
            parts = [part[order] for part in parts]
        gates = Gates(parts[0], parts[1], parts[2].T.contiguous(), old.bias_2.detach().clone(), old.layout, old.even)
        return assembled(self.draw.stream(task), gates, self.draw.card, dtype)

    def _cover(self, task: Task, report: Progress, only: Ints) -> Attempt | None:
        """What covers the facts of these tokens; None where they have none. Only rows with one of them are read."""
        data = task.data
        chosen = np.unique(data.sequence[np.isin(data.tokens, only)])
        near = data.select(chosen) if len(chosen) else None
        if near is None or (self.card.next_token and int(near.lengths.max()) < 2):
            return None
        mask = np.zeros(0 if self.draw.table is None else len(self.draw.table), dtype=bool)
        mask[only[only < len(mask)]] = True
        context = task.context
        part = Task.of(near, positions=context.positions, causal=context.causal, on_conflict="error")
        try:
            return self.draw.attempt(part.settled()[0], report, mask)
        except (PrecisionError, ContradictionError):
            return self.draw.attempt(task.settled()[0], report, mask)  # the same error, rows by their own numbers


def cells_of(model: Monolayer) -> Ints:
    """The token row of every neuron `(H,)`, by its gate, in rising order; of a model of ids that answers at tokens."""
    gates = gates_of(model)
    assert isinstance(model.lift, nn.Embedding)
    width = gates.layout.token - ONES
    code = words(model.lift.num_embeddings) > 0
    gate = gates.weight_1.detach()[:, :width].double().numpy()
    rows = [np.packbits(bits, axis=1) for bits in (code, gate > 0)]
    keys = [np.ascontiguousarray(part).view(f"V{part.shape[1]}")[:, 0] for part in rows]
    found, number = np.unique(np.concatenate(keys), return_inverse=True)
    cell = np.full(len(found), -1)
    cell[number[: len(code)]] = np.arange(len(code))
    cells: Ints = cell[number[len(code) :]]
    if (cells < 0).any() or (np.diff(cells) < 0).any() or not gate.all():
        raise DataError("the neurons are not gated one token after the other any more: the weights were changed")
    return cells


_FULL = "the code of this draw has no word left for more {}, so memorize all the data anew"


def _same_code(old: int, new: int) -> bool:
    """Whether the first `old` of `new` words are the `old` words."""
    return np.array_equal(code_for(old).generator, code_for(new).generator)


def _first(names: Any, place: int) -> str:
    return repr(names.names[place])
