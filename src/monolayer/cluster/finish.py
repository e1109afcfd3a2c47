"""What a build found out, and the folder that it becomes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolayer.cluster.blocks import Rules
from monolayer.cluster.spill import Spill
from monolayer.construct.line.assemble import assemble
from monolayer.construct.line.build import table_lift
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.points import Floats, Points
from monolayer.construct.line.separate import spacing
from monolayer.construct.target import entropy_bits
from monolayer.data import Names
from monolayer.data.names import Ints
from monolayer.errors import PrecisionError
from monolayer.model.card import Card, Summary
from monolayer.model.monolayer import Monolayer
from monolayer.model.save import save_parts
from monolayer.model.staircase import Staircase
from monolayer.theory.bounds import corollary1_counts


@dataclass(frozen=True, eq=False)
class Found:
    """Names and counts of all files; then a draw and, range by range, the facts about its parts."""

    shards: list[dict[str, Any]]
    rules: Rules
    vocabulary: Names
    classes: Names
    sequences: int
    token_count: Ints
    label_count: Ints
    drawn: Draw | None = None
    kappa: float = 1.0
    fixed_error: float = 0.0
    tried: int = 0
    parts: tuple[dict[str, Any], ...] = ()

    def with_draw(self, draw: Draw, kappa: float, fixed_error: float, tried: int, parts: list[dict[str, Any]]) -> Found:
        return replace(self, drawn=draw, kappa=kappa, fixed_error=fixed_error, tried=tried, parts=tuple(parts))

    @property
    def draw(self) -> Draw:
        assert self.drawn is not None  # asked only after one was tried
        return self.drawn

    @property
    def labelled(self) -> int:
        return int(self.label_count.sum())

    @property
    def close(self) -> Floats:
        """Neighbours `(2, K)` with different labels that are too close."""
        return np.concatenate([part["close"] for part in self.parts], axis=1)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest `z`."""
        found = [part["ends"] for part in self.parts if len(part["ends"])]
        return float(found[0][0]), float(found[-1][1])

    def errors(self, z: Floats) -> Floats:
        """Rounding errors of `z`, as the construction counts them."""
        return Points(z, np.zeros(0, np.int64), self.kappa, self.fixed_error).error(z)


def finish(spill: Spill, found: Found, out: Path, overwrite: bool, began: float) -> Path:
    """The folder: weights of the readout as they lie in the spill folder, and everything else."""
    model = _model(found)
    assert model.summary is not None  # just made
    model.card = model.card.with_summary(replace(model.summary, seconds=time.perf_counter() - began))
    files = [(spill.numbers(part["name"]), str(part["digest"][0])) for part in found.parts]
    return save_parts(model, files, out, overwrite=overwrite)


def _model(found: Found) -> Monolayer:
    """The network, with a readout that has the right sizes and no numbers."""
    rules, draw = found.rules, found.draw
    steps = sum(int(part["steps"]) for part in found.parts)
    last = float(next(part["last"][-1] for part in reversed(found.parts) if len(part["last"])))
    if sum(float(part["size"]) for part in found.parts) + len(found.classes) >= 2.0**53:
        raise PrecisionError(f"{steps + 1:,} runs of {len(found.classes):,} classes add up past 2^53: use fewer")
    nothing = torch.zeros(1, dtype=torch.float64)
    readout = Staircase(
        nothing.expand(steps),
        nothing.expand(steps),
        nothing.expand(1, steps),
        torch.tensor([last], dtype=torch.float64),
        "exact",
    )
    card = Card(found.vocabulary, found.classes, rules.per, False, rules.causal, rules.next_token)
    model = assemble(draw, found.kappa, table_lift(draw, found.token_count, 1), readout, card)
    count, least = sum(int(part["count"]) for part in found.parts), min(float(part["least"]) for part in found.parts)
    low, high = found.ends
    counted, multiplied = corollary1_counts(found.labelled, 1, 1)
    summary = Summary(
        sequences=found.sequences,
        labelled=found.labelled,
        **spacing(count, least, high - low),
        margin=min(float(part["margin"]) for part in found.parts) if steps else None,
        temperature=draw.temperature,
        layout=draw.layout,
        draws=found.tried,
        runs=steps + 1,
        conflicts=0,
        vocabulary=int(np.count_nonzero(found.token_count)),
        **model.counts(),
        corollary_1=counted,
        label_bits=found.labelled * entropy_bits(found.label_count),
        readout_error=None,
        corollary_1_dense=multiplied,
    )
    model.card = model.card.with_summary(summary)
    return model
