"""Edits of robust models without the data: one more neuron a fact, which only a small cap of contexts can wake.

Contexts have length `√k`, so the half-space `{u · c ≥ √k − κ}`, `u` the direction of the fact's context, is a *cap*:
the contexts within an angle `θ` of it, `cos θ = 1 − κ/√k`. The neuron of the cap is gated by the token as all are, is 1
at the fact and 0 or silent outside, and writes the difference between what the label coordinates are at the fact and
what they shall be.

                  ┌─── κ ───┐
    ── silent ────┘        (fact: 1)       nothing is known of what else lies in the cap; all else keeps its answer

Facts of one call do not lie in each other's caps: where two are closer, their caps are smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.construct.consistency import equal_points
from monolayer.construct.robust.again import RobustDraw
from monolayer.construct.robust.build import MARGINS, NARROWEST
from monolayer.construct.robust.neurons import LOUD, Neurons, readout
from monolayer.construct.robust.stream import Stream, cell_of, contexts, in_format
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.answered import changes_of
from monolayer.editing.carry import carried_out
from monolayer.editing.cells import head_splices
from monolayer.editing.difference import row_splices
from monolayer.editing.gated import cells_of
from monolayer.editing.meant import check_consistent, unlabelled
from monolayer.editing.names import words_without_data
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Splice, array_of
from monolayer.errors import DataError, PrecisionError
from monolayer.model.device import one_thread
from monolayer.model.gates import Gates
from monolayer.model.monolayer import Monolayer

_AT_ONCE = 512
"""Facts whose neurons, or neighbours, are looked at together."""
SLACK = 0.01
"""What the roundings of one evaluation may add to a neuron: the angle that is claimed is taken that much wider."""


@one_thread()
def forget(model: Monolayer, X: Any, *, lengths: Any = None) -> tuple[Monolayer, Record]:
    """The facts get the usual class of their token."""
    draw, data = RobustDraw.of(model), model.encode(X, lengths=lengths)
    if draw.cover.base is not None:
        raise DataError(
            "the cells of this model are linear: without neurons a token has no usual class to fall back to. Give the "
            "data, or edit the facts to have another label"
        )
    if draw.card.next_token and int(data.lengths.max()) < 2:
        raise DataError("these sequences have no next token, so the model learnt nothing of them")
    return _Caps.of(model, draw, data, None).carry_out("forget")


@one_thread()
def edit(model: Monolayer, X: Any, Y: Any, kind: Kind = "edit", *, lengths: Any = None) -> tuple[Monolayer, Record]:
    """The facts get these labels; whether the model was built from them is not known."""
    draw, data = RobustDraw.of(model).adopt(Sequences.of(X, Y, lengths=lengths))
    return _Caps.of(model, draw, data, data).carry_out(kind)


@dataclass(frozen=True, eq=False)
class _Caps:
    """`Q` different facts: `cell`, `feature` `(Q, p + k)`, `label` `(Q, m)` the coordinates there now, `wanted` `(Q,)`.

    `fact` `(P,)`: which of them each labelled place of `data` is; `before` `(P,)`: the answers there, −1 for none.
    """

    model: Monolayer
    draw: RobustDraw
    data: Sequences
    stream: Stream
    cell: Ints
    feature: Tensor
    label: Tensor
    wanted: Ints
    before: Ints
    first: Ints
    """A labelled place of each fact."""

    @classmethod
    def of(cls, model: Monolayer, draw: RobustDraw, data: Sequences, labelled: Sequences | None) -> _Caps:
        """`labelled`: the data with the labels that they shall have; None: the usual class of each token."""
        positions, causal = model.positions is not None, draw.card.causal
        given = unlabelled(data, draw) if labelled is None else labelled
        task = Task.of(given, positions=positions, causal=causal, on_conflict="error")
        group, cell = equal_points(task.context, task.target), cell_of(task)
        if labelled is not None:
            check_consistent(data, task.target, group, len(group))
        _, first, fact = np.unique(group, return_index=True, return_inverse=True)
        stream, gates = draw.stream(task), model.feed_forward
        assert isinstance(gates, Gates)
        mask = np.zeros(len(group), dtype=bool)
        mask[first] = True
        place, feature = contexts(task, stream, mask, torch.device("cpu"))
        feature = feature[torch.from_numpy(np.argsort(place)[np.argsort(np.argsort(first))])].double()
        usual = _usual(model, draw, stream, cell[first])
        token = torch.from_numpy(stream.token[cell[first]])
        z = torch.cat([token, feature], dim=1)
        one, two, three, four = (
            getattr(gates, name).detach().double() for name in ("weight_1", "bias_1", "weight_2", "bias_2")
        )
        added = [torch.relu(part @ one.T + two) @ three.T + four for part in torch.split(z, _AT_ONCE)]
        label = usual + torch.cat(added)
        wanted = task.target.number[first]
        if labelled is None:
            wanted = _answers(stream, usual + four)
        before = np.where(_seen(model, data, task)[first], _answers(stream, label), -1)[fact]
        return cls(model, draw, data, stream, cell[first], feature, label, wanted, before, first)

    def carry_out(self, kind: Kind) -> tuple[Monolayer, Record]:
        model, card = self.model, self.draw.card
        gates = self._neurons() if len(self.change) else None
        splices = [] if gates is None else list(self._readout(gates))
        if self.draw.table is not None:
            table, layout = array_of(model.lift.weight), self.draw.layout
            rows = array_of(in_format(self.stream.lift.weight, self.draw.dtype))
            known = ~np.isnan(model.lift.weight.detach().double().numpy()[:, 0])
            rows[: len(table)][known] = table[known]
            splices += row_splices("lift.weight", table, rows) if layout.width else []
        splices += head_splices(model, self.draw)
        claim = "nothing changes in the readout: the model answers all of this already"
        if gates is not None:
            claim = (
                f"only where one of these tokens has a context within {self._angle(gates):.1f} degrees of that of one "
                f"of these facts ({len(self.change):,} caps) can an answer have changed; what else lies there is not "
                "known without the data"
            )
        seen = words_without_data(model, self.data, kind)
        edited, record = carried_out(model, card, kind, claim, len(self.before), splices, seen, informed=False)
        after = _Caps.of(edited, RobustDraw.of(edited), self.data, None)
        wrong = np.flatnonzero(_answers(after.stream, after.label) != self.wanted)
        if len(wrong):
            raise PrecisionError(f"{self._where(int(wrong[0]))} is {_CROWDED}")
        return edited, record.with_changes(tuple(changes_of(edited, self.data, self.before)))

    @cached_property
    def change(self) -> Ints:
        """Facts whose answer must change, in order of their cells."""
        change = np.flatnonzero(_answers(self.stream, self.label) != self.wanted)
        return change[np.argsort(self.cell[change], kind="stable")]

    def _neurons(self) -> Gates:
        """The caps of these facts."""
        layout, change = self.draw.layout, torch.from_numpy(self.change)
        context = self.feature[:, layout.place :]
        length = context.norm(dim=1)
        up, thick = context[change] / length[change, None], torch.full((len(change),), MARGINS[0]).double()
        cell = torch.from_numpy(self.cell)
        for part in torch.split(torch.arange(len(change)), _AT_ONCE):
            mine = change[part]
            depth = length[mine, None] - up[part] @ context.T
            depth[(cell[mine, None] != cell) | (mine[:, None] == torch.arange(len(cell)))] = torch.inf
            nearest = depth.min(dim=1)
            if float(nearest.values.min()) < NARROWEST:
                worst = int(nearest.values.argmin())
                one, two = self._where(int(mine[worst])), self._where(int(nearest.indices[worst]))
                raise PrecisionError(f"{one} is {_CROWDED} (the other is {two})")
            thick[part] = nearest.values.clamp_max(MARGINS[0])
        weight = torch.zeros(len(change), self.feature.shape[1], dtype=torch.float64)
        weight[:, layout.place :] = up / thick[:, None]
        code = torch.from_numpy(self.stream.classes[self.wanted[self.change]])
        target = LOUD * code if self.draw.cover.base is None else code / 2.0
        write, offset = target - self.label[change], 1.0 - length[change] / thick
        return readout(Neurons(self.cell[self.change], weight, offset, write, torch.ones_like(offset)), self.stream)

    def _angle(self, gates: Gates) -> float:
        """Degrees from its middle to the border of the widest cap, by the weights as they are stored."""
        layout, dtype = self.draw.layout, self.draw.dtype
        weight, bias = (part.detach().to(dtype).double() for part in (gates.weight_1, gates.bias_1))
        token = torch.from_numpy(self.stream.token[self.cell[self.change]])
        at = -((weight[:, : layout.token] * token).sum(1) + bias) - SLACK
        cosine = at / (weight[:, layout.context].norm(dim=1) * layout.rank**0.5)
        return math.ceil(10.0 * math.degrees(math.acos(float(cosine.min().clamp(-1.0, 1.0))))) / 10.0

    def _readout(self, gates: Gates) -> list[Splice]:
        own = self.model.feed_forward
        assert isinstance(own, Gates)
        at, count = np.array([len(own.bias_1)]), np.array([len(gates.bias_1)])
        if self.draw.table is not None and self.draw.card.per == "token":
            rows, count = np.unique(self.cell[self.change], return_counts=True)
            at = np.searchsorted(cells_of(self.model), rows, side="right")
        found = []
        for name, axis in (("weight_1", 0), ("bias_1", 0), ("weight_2", 1)):
            new = array_of(getattr(gates, name).detach().to(self.draw.dtype))
            new = new.T.copy() if axis else new
            none = np.zeros_like(at)
            splice = Splice.of(f"feed_forward.{name}", axis, array_of(getattr(own, name)), at, none, count, new)
            assert splice is not None  # something is put in
            found.append(splice)
        return found

    def _where(self, fact: int) -> str:
        place = int(self.first[fact])
        if self.draw.card.next_token:
            data = self.data
            place = int(np.flatnonzero(data.position < np.repeat(data.lengths, data.lengths) - 1)[place])
        return self.data.labelled(place)


_CROWDED = (
    "too close to another fact of the edit: no cap holds only one of them. Give the data, or edit one of them at a time"
)


def _seen(model: Monolayer, data: Sequences, task: Task) -> NDArray[np.bool_]:
    """Labelled places `(P,)` of sequences whose every token the model has a vector for."""
    whole = np.ones(len(data), dtype=bool)
    if data.vocabulary is not None:
        own = model.lift.weight.detach()[:, 0].isnan().numpy()
        blank = np.append(own, np.ones(max(0, len(data.vocabulary) - len(own)), dtype=bool))
        whole[data.sequence[blank[data.tokens]]] = False
    if task.target.per == "sequence":
        return whole
    return whole[data.sequence if task.target.place is None else data.sequence[task.target.place]]


def _usual(model: Monolayer, draw: RobustDraw, stream: Stream, cell: Ints) -> Tensor:
    """What the stream holds in the label part before the readout `(Q, m)`: as stored, or as new tokens will have it."""
    width = draw.layout.label
    if draw.card.per == "sequence":
        return model.bos.detach()[-width:].double().expand(len(cell), -1)
    if draw.table is None:
        return torch.zeros(len(cell), width, dtype=torch.float64)
    own = model.lift.weight.detach()[:, -width:].double()
    table = stream.lift.weight.detach()[:, -width:].clone()
    known = ~own[:, 0].isnan()
    table[: len(own)][known] = own[known]
    return table[torch.from_numpy(cell)]


def _answers(stream: Stream, label: Tensor) -> NDArray[np.int64]:
    """Class numbers `(Q,)` of label coordinates `(Q, m)`."""
    logits = label @ torch.from_numpy(stream.classes).T + torch.from_numpy(stream.bias)
    return np.asarray(logits.argmax(1).numpy())
