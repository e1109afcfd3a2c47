"""Edits without the data where code and context are apart: inside the cell of each fact, as on a line of its own.

The steps of a cell read the context and write only where the gate of the cell is open. So a cell is a line by itself,
and `blind.py` says what becomes of it: two steps, a few rounding errors left and right of the context of the fact. A
cell that has no gate yet, such as that of a new token, gets one, with the label of the fact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monolayer.construct.line.refusal import check_format
from monolayer.construct.line.reuse import Reused
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.editing.answered import changes_of
from monolayer.editing.blind import Blind, unlabelled_target
from monolayer.editing.carry import carried_out
from monolayer.editing.difference import difference
from monolayer.editing.informed import consistent, labelled
from monolayer.editing.names import words_without_data
from monolayer.editing.readout import Floats, Local, Table
from monolayer.editing.record import Kind, Record
from monolayer.editing.splice import Array, array_of
from monolayer.errors import DataError, PrecisionError
from monolayer.model.apart import Apart
from monolayer.model.monolayer import Monolayer
from monolayer.model.shortcut import plain_head


def forget(model: Monolayer, X: Any, *, lengths: Any = None) -> tuple[Monolayer, Record]:
    """The points get the label of the nearer neighbouring plateau of their cell."""
    draw, data = Reused.of_local(model), model.encode(X, lengths=lengths)
    return _carry_out(model, draw, data, unlabelled_target(draw, data), "forget")


def edit(model: Monolayer, X: Any, Y: Any, kind: Kind = "edit", *, lengths: Any = None) -> tuple[Monolayer, Record]:
    """The points get these labels; whether the model was built from them is not known."""
    draw, data = Reused.of_local(model).adopt(Sequences.of(X, Y, lengths=lengths))
    positions, causal = model.positions is not None, draw.card.causal
    check_format(Task.of(data, positions=positions, causal=causal, on_conflict="error"), draw.format)
    return _carry_out(model, draw, data, Target.of(data, causal), kind)


@dataclass(frozen=True, eq=False)
class _Cell:
    """The steps of a cell, in float64, and its first label."""

    slope: Floats
    bias: Floats
    jump: Floats
    base: float

    def table(self) -> Table:
        """The cell as a line."""
        last = np.array([self.base + self.jump.sum()])
        return Table("exact", self.slope, self.bias, -self.jump[None], last)

    def edited(self, local: Local) -> _Cell:
        found = {splice.tensor: splice for splice in local.splices(self.table())}
        parts = []
        for name, own in (("weight_1", self.slope), ("bias_1", self.bias), ("weight_2", -self.jump[None])):
            splice = found.get(f"feed_forward.{name}")
            parts.append(own if splice is None else splice.apply(own, known=True))
        return replace(self, slope=parts[0], bias=parts[1], jump=-parts[2][0])


@dataclass(frozen=True, eq=False)
class _Cells:
    """All cells: `gate`, `base`, `count` `(A,)`, and their steps `(H,)`, in float64."""

    gate: Floats
    base: Floats
    count: Floats
    slope: Floats
    bias: Floats
    jump: Floats

    @classmethod
    def of(cls, readout: Apart) -> _Cells:
        names = "gate", "base", "count", "weight_1", "bias_1", "weight_2"
        parts = [getattr(readout, name).detach().double().numpy() for name in names]
        gate, base, count, slope, bias, jump = parts
        return cls(gate, base, count, slope, bias, jump[0])

    def find(self, gate: float) -> _Cell | None:
        """The cell of a code, None if no gate has it."""
        a = int(np.searchsorted(self.gate, gate))
        if a == len(self.gate) or self.gate[a] != gate:
            return None
        first = int(self.count[:a].sum())
        here = slice(first, first + int(self.count[a]))
        return _Cell(self.slope[here], self.bias[here], self.jump[here], float(self.base[a]))

    def put(self, cells: dict[float, _Cell]) -> _Cells:
        """With some cells in place of those that have their codes, or besides."""
        codes = np.array(sorted(cells))
        own = np.repeat(self.gate, self.count.astype(np.int64))
        stay, steps = ~np.isin(self.gate, codes), ~np.isin(own, codes)
        new = [cells[code] for code in codes.tolist()]
        size = np.array([float(len(cell.slope)) for cell in new])
        gate = np.concatenate([self.gate[stay], codes])
        owner = np.concatenate([own[steps], np.repeat(codes, size.astype(np.int64))])
        order, of_steps = np.argsort(gate), np.argsort(owner, kind="stable")
        base, count = (np.concatenate([part[stay], more])[order] for part, more in (
            (self.base, np.array([cell.base for cell in new])), (self.count, size)))  # fmt: skip
        slope, bias, jump = (
            np.concatenate([getattr(self, name)[steps], *(getattr(cell, name) for cell in new)])[of_steps]
            for name in ("slope", "bias", "jump")
        )
        return _Cells(gate[order], base, count, slope, bias, jump)

    def check(self, unit: float, format_: str) -> None:
        """That whole numbers add up exactly in the format."""
        total = float(np.abs(self.jump).sum() + self.base.sum() + self.count.max())
        if total * unit >= 1.0 or float(np.abs(self.gate).max()) * 4.0 * unit >= 1.0:
            raise PrecisionError(
                f"labels and their jumps would add up to {total:,.0f}, or codes are too large: whole numbers are exact "
                f"only below {1.0 / unit:,.0f} in {format_}. Memorize the edited data anew, without draw="
            )


def _carry_out(model: Monolayer, draw: Reused, data: Sequences, target: Target, kind: Kind) -> tuple[Monolayer, Record]:
    readout = model.feed_forward
    assert isinstance(readout, Apart)
    if readout.table() is None or bool(readout.bias_2.detach().any()):
        raise DataError("the readout has no staircases behind gates any more: its weights were changed")
    code, context, error = draw.place_apart(data, target)
    flat = np.arange(len(code)) if target.place is None else target.place
    held, cells, intervals = _Cells.of(readout), dict[float, _Cell](), list[tuple[float, float]]()
    before, fresh, errors = np.full(len(code), -1), 0, 0.0
    for gate in np.unique(code).tolist():
        some = np.flatnonzero(code == gate)
        own = replace(target, number=target.number[some], place=flat[some])
        numbers, number = consistent(draw, data, own, context[some])
        cell = held.find(gate)
        if cell is None:
            if kind == "forget":  # no gate opens, so nothing is held
                continue
            fresh += 1
            none = np.zeros(0)
            cell = cells[gate] = _Cell(none, none, none, float(number[0]))
        if kind == "forget" and len(cell.slope) == 0:
            raise DataError(
                f"{labelled(data, own, 0)} stands in a cell with one label, so there is no other plateau to fall on: "
                "give the data"
            )
        blind = Blind(model, draw, data, own, cell.table(), context[some], numbers, number, error)
        local, found, here = blind.local(kind)
        if gate not in cells:
            before[some] = here[np.searchsorted(numbers, context[some]), 0]
        if local is not None:
            cells[gate] = cell.edited(local)
            intervals += found
            errors = max(errors, max(high - low for low, high in found) / float(blind.error.min()))
    claim = "nothing changes in the readout: the model answers all of this already"
    if cells:
        new = f", or its cell is one of {fresh:,} that had no gate" if fresh else ""
        claim = (
            f"only where the context of a token in its cell lies in one of {len(intervals):,} intervals, {errors:.0f} "
            f"rounding errors wide or less{new}, can an answer have changed; what else lies there is not known without "
            "the data"
        )
    splices, swaps = difference(*_tensors(model, draw, held.put(cells)))
    seen = words_without_data(model, data, kind)
    edited, record = carried_out(
        model, draw.card, kind, claim, len(code), splices, seen, swaps=swaps, informed=False, intervals=intervals
    )
    return edited, record.with_changes(tuple(changes_of(edited, data, before)))


def _tensors(model: Monolayer, draw: Reused, cells: _Cells) -> tuple[dict[str, Array], dict[str, Array]]:
    """The tensors of the model as they are, and as they are with these cells and the names of the draw."""
    old = {name: array_of(part) for name, part in model.state_dict().items()}
    cells.check(float(np.finfo(old["bos"].dtype).eps) / 2.0, draw.format)
    assert draw.card.classes is not None  # code and context go apart for classes of ids alone
    assert draw.table is not None
    weight, bias = plain_head(len(draw.card.classes), 1, model.bos.numel())
    new: dict[str, Array] = {
        "feed_forward.weight_1": cells.slope,
        "feed_forward.bias_1": cells.bias,
        "feed_forward.weight_2": cells.jump[None],
        "feed_forward.gate": cells.gate,
        "feed_forward.base": cells.base,
        "feed_forward.count": cells.count,
        "head.weight": weight.numpy(),
        "head.bias": bias.numpy(),
        "lift.weight": draw.table,
    }
    return old, old | {name: part.astype(old[name].dtype) for name, part in new.items()}
