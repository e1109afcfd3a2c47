"""Edits without the data: only an interval of a few rounding errors around each point is touched.

Nothing is known of other points, so nothing else may move. Around the number `z` of the point, with `e` the bound on
its rounding error, two steps are put in the middle of gaps of `REACH` errors, as if points with the old label stood at
`z ± REACH e`:

    old label ────────┐ ramp             ┌──────── old label        3/8 of REACH e stay free on either side of z
                      └──── z, new ──────┘                          the ramps end within 5/8 of it
                z − REACH e          z + REACH e

Where a step of the model stands nearer than that, it serves as the border, in its place, with another jump. What can be
claimed is what the weights show: outside these intervals the readout is the same function, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from monolayer.construct.line.points import SLACK
from monolayer.construct.line.ramps import ramps
from monolayer.construct.line.refusal import check_format
from monolayer.construct.line.reuse import Reused
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.editing.carry import carried_out
from monolayer.editing.informed import consistent, labelled
from monolayer.editing.names import name_splices, words_without_data
from monolayer.editing.readout import Floats, Local, Table
from monolayer.editing.record import SHOWN, Kind, Record
from monolayer.editing.splice import Splice, array_of
from monolayer.editing.words import label_name, words
from monolayer.errors import DataError, PrecisionError
from monolayer.model.memory import remembered
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of

REACH = 16.0
"""Rounding errors to the borders of an edit: ramps are then at least two errors wide, which every float64 resolves."""
FREE = 3.0
"""Rounding errors that must lie between a point and a step: a certificate needs two (`points.SLACK`)."""


def forget(model: Monolayer, X: Any, *, lengths: Any = None) -> tuple[Monolayer, Record]:
    """The points get the label of the nearer neighbouring plateau."""
    draw, data = Reused.of_local(model), model.encode(X, lengths=lengths)
    return Blind.of(model, draw, data, unlabelled_target(draw, data)).carry_out("forget")


def unlabelled_target(draw: Reused, data: Sequences) -> Target:
    """The labelled places of what is to be forgotten."""
    card = draw.card
    if card.next_token:
        return Target.of(data, card.causal)
    size = len(data) if card.per == "sequence" else len(data.tokens)
    return Target(np.zeros(size, np.int64), np.zeros((1, 1)), card.per, None, False)


def edit(model: Monolayer, X: Any, Y: Any, kind: Kind = "edit", *, lengths: Any = None) -> tuple[Monolayer, Record]:
    """The points get these labels; whether the model was built from them is not known."""
    draw, data = Reused.of_local(model).adopt(Sequences.of(X, Y, lengths=lengths))
    positions, causal = model.positions is not None, draw.card.causal
    check_format(Task.of(data, positions=positions, causal=causal, on_conflict="error"), draw.format)
    return Blind.of(model, draw, data, Target.of(data, causal)).carry_out(kind)


@dataclass(frozen=True, eq=False)
class Blind:
    """`touched` `(K,)`: distinct numbers in order; `z` `(Q,)`: of all places asked; `fixed`: error but for `u |z|`."""

    model: Monolayer
    draw: Reused
    data: Sequences
    target: Target
    table: Table
    z: Floats
    touched: Floats
    number: Ints
    fixed: float

    @property
    def unit(self) -> float:
        """`u` of the format."""
        return float(torch.finfo(self.draw.dtype).eps) / 2.0

    @property
    def error(self) -> Floats:
        """Bound on the rounding error of the touched points `(K,)`."""
        bound: Floats = self.fixed + self.unit * np.abs(self.touched)
        return bound

    @classmethod
    def of(cls, model: Monolayer, draw: Reused, data: Sequences, target: Target) -> Blind:
        table = Table.of(staircase_of(model))
        if not table.local(model.card.classes is not None):
            raise DataError(
                f"in the readout {table.readout!r} a change of one step rounds all the others anew, so nothing can be "
                "said of them without the data: give the data, or use readout='exact'"
            )
        if not remembered(model, "rising", table.rising):
            raise DataError("the readout is no staircase any more: its weights were changed")
        z, error = draw.place(data, target)
        z = z.astype(np.float64)
        touched, number = consistent(draw, data, target, z)
        return cls(model, draw, data, target, table, z, touched, number, error)

    def carry_out(self, kind: Kind) -> tuple[Monolayer, Record]:
        local, intervals, here = self.local(kind)
        used = None if self.draw.table is None else ~np.isnan(self.draw.table[:, 0])
        old, new = self.model.card, self.draw.card
        widest = max((high - low for low, high in intervals), default=0.0)
        errors = widest / float(self.error.min())
        claim = "nothing changes in the readout: the model answers all of this already"
        if local is not None:
            claim = (
                f"only points whose number lies in one of {len(intervals):,} intervals, {widest:.2g} wide or less "
                f"({errors:.0f} rounding errors), can have changed; what else lies there is not known without the data"
            )
        splices = [] if local is None else list(local.splices(self.table))
        splices = self._in_format([*splices, *name_splices(self.model, self.draw, used)])
        seen = words_without_data(self.model, self.data, kind)
        edited, record = carried_out(
            self.model, new, kind, claim, len(self.z), splices, seen, informed=False, intervals=intervals
        )
        some = self.z[:SHOWN]
        before = [label_name(old, level) for level in here[np.searchsorted(self.touched, some)]]
        changes = tuple(words(edited, self.data, self.target.place, some, before))
        remembered(edited, "rising", lambda: True)  # steps were put between steps that rise
        return edited, record.with_changes(changes)

    def _in_format(self, splices: list[Splice]) -> list[Splice]:
        """The splices in numbers of the model's format; an error if the jumps would not add up exactly in it."""
        if self.draw.dtype == torch.float64:
            return splices
        tensors, found = self.model.state_dict(), list[Splice]()
        for splice in splices:
            old = array_of(tensors[splice.tensor])
            made = Splice.of(
                splice.tensor, splice.axis, old, splice.at, splice.taken, splice.put, splice.after.astype(old.dtype)
            )
            found += [] if made is None else [made]
            if made is not None and splice.tensor == "feed_forward.weight_2" and self.table.readout == "exact":
                total = float(np.abs(made.apply(old, known=True)).sum()) + float(np.abs(self.table.bias_2).sum())
                if total * self.unit >= 1.0:
                    raise PrecisionError(
                        f"the jumps of the labels would add up to {total:,.0f}, and sums of whole numbers are exact "
                        f"only below {1.0 / self.unit:,.0f} in {self.draw.format}: give the data"
                    )
        return found

    # -- steps ---------------------------------------------------------------------------------------------

    def local(self, kind: Kind) -> tuple[Local | None, list[tuple[float, float]], Floats]:
        """The points between their borders, the intervals outside which nothing changes, the old labels `(K, m)`."""
        z, error, table = self.touched, self.error, self.table
        count = len(table.weight_1)
        run = table.before(z, strictly=True)
        left_end, right_start = np.full(len(z), -np.inf), np.full(len(z), np.inf)
        left_end[run > 0] = table.ends(run[run > 0] - 1)
        right_start[run < count] = table.starts(run[run < count])
        room = np.minimum(z - left_end, right_start - z)
        self._check_room(room / error)
        # One pass over the weights for the labels of all runs that matter: those of the points, and their neighbours.
        around = np.stack([np.maximum(run - 1, 0), run, np.minimum(run + 1, count)])
        before, here, after = table.levels(around.reshape(-1)).reshape(3, len(z), -1)
        level = self._wanted(kind, np.where((z - left_end <= right_start - z)[:, None], before, after))
        changed = (level != here).any(axis=1)
        if not changed.any():
            return None, [], here
        reach = REACH * error
        borrowed_left, borrowed_right = z - left_end < reach, right_start - z < reach

        # Points whose intervals meet, or that lean on one and the same step, are one cluster.
        meet = (z[1:] - z[:-1] < reach[1:] + reach[:-1]) | (
            (run[1:] == run[:-1] + 1) & borrowed_right[:-1] & borrowed_left[1:]
        )
        opens, closes = np.append(True, ~meet), np.append(~meet, True)
        cluster = np.cumsum(opens) - 1
        old, kept = (
            here,
            np.isin(cluster, cluster[changed]),
        )  # a fact that keeps its label matters beside one that does not
        z, run = z[kept], run[kept]
        level, here, before, after = (part[kept] for part in (level, here, before, after))
        reach, borrowed_left, borrowed_right = reach[kept], borrowed_left[kept], borrowed_right[kept]
        opens, closes, meet = opens[kept], closes[kept], (np.append(meet, False)[kept])[:-1]
        cluster = np.cumsum(opens) - 1
        between = np.append(np.where(meet & (run[1:] == run[:-1] + 1), run[:-1], -1), -1)
        behind = np.where(closes & borrowed_right, run, between)  # the step behind a point that keeps its ramp

        own = np.flatnonzero(opens)
        step = np.where(borrowed_left[own], run[own] - 1, -1)
        left_z = z[own] - reach[own]
        left_z[step >= 0] = table.starts(step[step >= 0])
        left_level = np.where((step >= 0)[:, None], before[own], here[own])
        end = np.flatnonzero(closes)
        last = np.where(borrowed_right[end], run[end], -1)
        right_z = z[end] + reach[end]
        right_z[last >= 0] = table.ends(last[last >= 0])
        right_level = np.where((last >= 0)[:, None], after[end], here[end])

        order = np.lexsort(
            (np.repeat([0, 1, 2], [len(own), len(z), len(end)]), np.concatenate([cluster[own], cluster, cluster[end]]))
        )
        points = np.concatenate([left_z, z, right_z])[order]
        keep = np.concatenate([step, behind, np.full(len(end), -1)])[order]
        slope, bias = np.full((2, len(keep)), np.nan)
        slope[keep >= 0], bias[keep >= 0] = (part[keep[keep >= 0]] for part in (table.weight_1, table.bias_1))
        local = Local(
            points,
            np.concatenate([left_level, level, right_level])[order],
            np.concatenate([cluster[own], cluster, cluster[end]])[order],
            run[own] - (step >= 0),
            run[end] + (last >= 0),
            np.zeros(len(own), dtype=bool),
            np.zeros(len(own), dtype=bool),
            slope,
            bias,
        )
        self._check_gaps(local)
        low = np.where(step >= 0, left_z, self._ramp(left_z, z[own])[0])
        high = np.where(last >= 0, right_z, self._ramp(z[end], right_z)[1])
        return local, list(zip(low.tolist(), high.tolist(), strict=True)), old

    def _ramp(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Where the ramps between neighbours begin and end, as the format stores them."""
        slope, start = ramps(left, right)
        bias = torch.from_numpy(-slope * start).to(self.draw.dtype).double().numpy()
        return -bias / slope, -bias / slope + 1.0 / slope

    def _wanted(self, kind: Kind, nearest: Floats) -> Floats:
        """The labels that the points shall have `(K, m)`; to be forgotten: that of the `nearest` other run."""
        if kind != "forget":
            return self.target.table[self.number]
        if len(self.table.weight_1) == 0:
            raise DataError("the readout gives one answer here: there is no other plateau to fall on. Give the data")
        return nearest

    def _check_room(self, errors: Floats) -> None:
        bad = np.flatnonzero(~(errors >= FREE))
        if len(bad) == 0:
            return
        place = int(np.flatnonzero(self.z == self.touched[bad[0]])[0])
        what = labelled(self.data, self.target, place)
        if errors[bad[0]] < 0:
            raise PrecisionError(
                f"{what} lies on the ramp of a step: what stands beside it is not known without the data"
            )
        raise PrecisionError(
            f"{what} lies {errors[bad[0]]:.2g} rounding errors from a step, and {FREE:g} are needed for a margin that "
            "certifies. Give the data: then the neighbour behind that step is known, and the step can be moved"
        )

    def _check_gaps(self, local: Local) -> None:
        change = local.changes()
        left, right = local.z[change], local.z[change + 1]
        gap = (right - left) / (self.fixed + self.unit * np.maximum(np.abs(left), np.abs(right)))
        bad = np.flatnonzero((gap < SLACK) & np.isnan(local.slope[change]))
        if len(bad):
            raise PrecisionError(
                f"two facts of this edit with different labels lie {gap[bad[0]]:.2g} rounding errors apart, and "
                f"{SLACK:g} are needed. Leave one of them out, or memorize the edited data anew: another draw tells "
                "them apart"
            )
