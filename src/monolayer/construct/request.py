"""What `memorize` was asked for, checked once: which way to build, with which draw, what the model keeps and where."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import torch

from monolayer.arrays import dtype_name
from monolayer.construct.again import adopted, rebuilt
from monolayer.construct.consistency import Context, OnConflict, check_conflict
from monolayer.construct.line.build import Line
from monolayer.construct.rectangle import explained, on_device
from monolayer.construct.robust.build import ROBUST_RANK, Robust
from monolayer.construct.task import Construction, Task
from monolayer.data.layout import Manner
from monolayer.data.sequences import Per, Sequences
from monolayer.errors import DataError
from monolayer.model.card import Fingerprint
from monolayer.model.device import check_device
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress


@dataclass(frozen=True)
class Request:
    """A checked request: data become a task, a task a model, and the model keeps fingerprints where it should.

    `draw`: a model whose draw is used again, or None. `unknown`: whether the model keeps fingerprints, None: if the
    data are keys. `device`: where the model goes, or None.
    """

    construction: Construction
    draw: Monolayer | None
    positions: bool
    causal: bool
    on_conflict: OnConflict
    unknown: bool | None
    device: torch.device | str | None

    @classmethod
    def of(
        cls,
        *,
        positions: bool,
        causal: bool,
        on_conflict: OnConflict,
        unknown: bool | None,
        device: torch.device | str | None,
        draw: Monolayer | str | os.PathLike[str] | None,
        construction: Construction | None,
        robust: bool,
        **options: Any,
    ) -> Request:
        """The request of a caller. `options`: seed, dtype, rank and temperature, each None where it was left out."""
        check_conflict(on_conflict)
        for name, value in (("positions", positions), ("causal", causal), ("robust", robust)):
            if not isinstance(value, bool):
                raise DataError(f"{name} must be True or False, not {value!r}")
        check_unknown(unknown)
        check_device(device)
        if isinstance(draw, str | os.PathLike):
            draw = load_monolayer(draw)
        chosen = options | {"robust": robust or None}
        if draw is not None:
            _check_left_out(
                chosen | {"positions": positions or None, "causal": causal or None},
                "a draw decides {0}: leave {0} out, or the draw",
            )
        if construction is None:
            construction = _construction(robust=robust, **options)
        else:
            _check_left_out(
                chosen | {"draw": draw}, "a construction has its own options: leave {0} out, or the construction"
            )
        return cls(construction, draw, positions, causal, on_conflict, unknown, device)

    @property
    def manner(self) -> Manner | None:
        """How the data of the draw were read, which holds for these as well; None without a draw."""
        return None if self.draw is None else self.draw.card.manner

    @property
    def labelled(self) -> bool:
        """Whether the data come with labels, and each label is not just the next token."""
        return not (self.causal if self.draw is None else self.draw.card.next_token)

    def task(self, data: Sequences) -> Task:
        """What a model of `data` must return, and what it may see of them."""
        positions, causal = self.positions, self.causal
        if self.draw is not None:
            data, positions, causal = adopted(self.draw, data), self.draw.positions is not None, self.draw.card.causal
        data.check_labelled()
        return Task.of(data, positions=positions, causal=causal, on_conflict=self.on_conflict)

    def build(self, task: Task, report: Progress) -> Monolayer:
        """The model of a task, from its draw if there is one."""
        return self.construction.build(task, report) if self.draw is None else rebuilt(self.draw, task, report)

    def build_there(self, X: Any, Y: Any, per: Per | None, report: Progress) -> Monolayer | None:
        """The model of ids and classes that lie on a device, built there; None: they are read like other data."""
        if self.draw is not None or self.unknown or isinstance(self.construction, Robust):
            return None
        there = on_device(X, Y, per, self.causal)
        if there is None:
            return None
        ids, target = there
        task = Task(Context(ids, ids.tokens, self.positions, self.causal), target, None, self.on_conflict)
        with explained(X.device, ids.ids.numel()):
            return self.construction.build(task, report).to(self.device)

    def keep_fingerprints(self, model: Monolayer, task: Task) -> None:
        """Give the model the fingerprint of every point, if it should recognize what it was not built from."""
        data, unknown = task.data, self.unknown
        if unknown and task.vectors is not None:
            raise DataError("fingerprints are kept for ids and strings; vectors have none: leave unknown out")
        if unknown is None:
            unknown = keeps_fingerprints(data) if self.draw is None else self.draw.card.fingerprint is not None
        if unknown:
            context = task.context
            words = Fingerprint.of(data, task.target.per, positions=context.positions, causal=context.causal)
            model.card = replace(model.card, fingerprint=words)


def check_unknown(unknown: bool | None) -> None:
    """Refuse a value of `unknown=` that is neither True nor False nor None."""
    if not isinstance(unknown, bool | None):
        raise DataError(
            f"unknown must be True, False or None, not {unknown!r}: what stands in place of an answer is an option of "
            "predict(…, unknown=)"
        )


def keeps_fingerprints(data: Sequences) -> bool:
    """Whether a model of `data` keeps fingerprints unless told otherwise: keys that stand for themselves are closed."""
    return data.keyed and data.vocabulary is not None


def _check_left_out(options: dict[str, Any], sentence: str) -> None:
    """Refuse an option that something else decides. `sentence`: what to say, with {0} for its name."""
    for name, option in options.items():
        if option is not None:
            raise DataError(sentence.format(name))


def _construction(*, robust: bool, temperature: float | None, rank: Any, dtype: Any, seed: int | None) -> Construction:
    """The construction that the options ask for; it checks its own options."""
    form, seed = dtype_name(dtype), 0 if seed is None else seed
    if not robust:
        return Line(seed, temperature, "auto" if rank is None else rank, form or "float64")
    if temperature is not None:
        raise DataError("temperature belongs to the line; a robust model has its own: leave it out")
    return Robust(ROBUST_RANK if rank is None else rank, form or "float32", seed)
