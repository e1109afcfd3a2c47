"""What a build found out, and the folder that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolayer.arrays import Ints
from monolayer.cluster.blocks import Rules
from monolayer.cluster.crowds import Crowds
from monolayer.cluster.ranges import Form, Range
from monolayer.cluster.spill import Spill
from monolayer.construct.line.alphabet import UNIT, Ids
from monolayer.construct.line.assemble import assemble
from monolayer.construct.line.build import table_lift
from monolayer.construct.line.cascade import Stage
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.points import Points
from monolayer.construct.line.separate import spacing
from monolayer.construct.line.stored import LineDraw
from monolayer.construct.line.values import Value
from monolayer.construct.target import entropy_bits, entropy_of
from monolayer.data import Names, Sequences
from monolayer.errors import PrecisionError
from monolayer.model.card import Card, Summary
from monolayer.model.cascade import Cascade
from monolayer.model.monolayer import Monolayer
from monolayer.model.save import save_parts
from monolayer.model.staircase import Staircase
from monolayer.theory.bounds import corollary1_counts

MENDED = "-mended"
"""What the name of a draw ends with where labels are overruled."""


@dataclass(frozen=True, eq=False)
class Found:
    """Names and counts of all files; then a draw and, range by range, the facts about its parts; then further stages.

    `form`: how points lie in files; `crowded`: chance alone makes crowds, so parts are written as a first stage.
    `ranges`: what each part was made from; `last`: the label, and the number, that a first stage ends with; `stages`,
    `values`: those behind it. `conflicts`: labels that were overruled. `fingerprints`: files that hold them, one after
    the other. `often`: of real labels, how often each comes, and how many come so often.
    """

    shards: list[dict[str, Any]]
    rules: Rules
    vocabulary: Names
    classes: Names | None
    sequences: int
    token_count: Ints
    label_count: Ints
    scalar: bool = False
    conflicts: int = 0
    drawn: Draw | None = None
    kappa: float = 1.0
    fixed_error: float = 0.0
    tried: int = 0
    name: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    form: Form | None = None
    crowded: bool = False
    ranges: tuple[Range, ...] = ()
    crowds: Crowds | None = None
    last: tuple[float, ...] = ()
    stages: tuple[Stage, ...] = ()
    values: tuple[Value, ...] = ()
    fingerprints: tuple[Path, ...] = ()
    often: tuple[Ints, Ints] | None = None

    @property
    def draw(self) -> Draw:
        assert self.drawn is not None  # asked only after one was tried
        return self.drawn

    def contexts(self, block: int) -> str:
        """The piece with the contexts of a block."""
        return f"context-{self.name.removesuffix(MENDED)}-{block:05}"

    def tokens(self, data: Sequences) -> Tokens:
        """Some of the sequences as PyTorch sees them, with all that a draw needs to know."""
        return self.rules.tokens(data)

    @property
    def labelled(self) -> int:
        return int(self.label_count.sum())

    @property
    def close(self) -> bool:
        """Whether some points with different labels are too close for a step."""
        return any(int(part["close"]) for part in self.parts)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest `z`."""
        found = [part["ends"] for part in self.parts if len(part["ends"])]
        return float(found[0][0]), float(found[-1][1])

    @property
    def errors(self) -> Points:
        """Points that have the rounding errors of these, and are none."""
        return Points(np.zeros(0), np.zeros(0, np.int64), self.kappa, self.fixed_error)


def finish(spill: Spill, found: Found, out: Path, overwrite: bool) -> Path:
    """The folder: weights of the readout as they lie in the spill folder, and everything else."""
    model = _line(found)
    files = [(spill.numbers(part["name"]), str(part["digest"][0])) for part in found.parts]
    return save_parts(model, files, out, overwrite=overwrite, fingerprints=found.fingerprints)


def _line(found: Found) -> Monolayer:
    """The network, with a readout that has the right sizes, and no numbers where these lie in files."""
    draw = found.draw
    steps = sum(int(part["steps"]) for part in found.parts)
    whole, labels = found.classes is not None, max(1, found.rules.reals)
    if found.classes is not None and sum(float(part["size"]) for part in found.parts) + len(found.classes) >= 2.0**53:
        raise PrecisionError(f"{steps + 1:,} runs of {len(found.classes):,} classes add up past 2^53: use fewer")
    nothing = torch.zeros(1, dtype=torch.float64)
    last = torch.tensor(found.last, dtype=torch.float64)
    sizes = nothing.expand(steps), nothing.expand(steps), nothing.expand(len(last), steps + (not whole))
    first = Staircase(*sizes, last if whole else torch.zeros_like(last), "exact" if whole else "runs")
    readout: Staircase | Cascade = first
    margin = [float(part["margin"]) for part in found.parts if int(part["steps"])]
    more: dict[str, Any] = {"runs": steps + 1}
    if found.stages and found.crowds is not None:
        readout = Cascade([first, *(stage.staircase(whole, UNIT) for stage in found.stages)], labels)
        margin += [stage.margin for stage in found.stages if stage.margin is not None]
        contested = [len(found.crowds.low), *(stage.crowds for stage in found.stages[:-1])]
        more = {"runs": 1 + readout.step_count, "rank": readout.rank, "contested": contested}
    lift = table_lift(draw, found.token_count, labels, found.values)
    model = assemble(draw, found.kappa, lift, readout, _card(found), values=found.values)
    more |= {"margin": min(margin) if margin else None, "layout": draw.layout, "draws": found.tried}
    return _with_summary(model, found, draw, more)


def _card(found: Found) -> Card:
    rules = found.rules
    stored = LineDraw.of(found.draw, found.kappa, Ids(rules.vocabulary, rules.order), found.values)
    card = Card(found.vocabulary, found.classes, rules.per, found.scalar, rules.causal, rules.next_token)
    return replace(card, draw=stored.to_json())


def _with_summary(model: Monolayer, found: Found, draw: Draw, more: dict[str, Any]) -> Monolayer:
    """The model with what was found out; `more` goes before what all models say."""
    count, least = sum(int(part["count"]) for part in found.parts), min(float(part["least"]) for part in found.parts)
    low, high = found.ends
    counted, multiplied = corollary1_counts(found.labelled, 1, max(1, found.rules.reals))
    facts: dict[str, Any] = spacing(count, least, high - low) | {"temperature": draw.temperature} | more
    summary = Summary(
        sequences=found.sequences,
        labelled=found.labelled,
        **facts,
        conflicts=found.conflicts,
        vocabulary=int(np.count_nonzero(found.token_count)),
        **model.counts(),
        corollary_1=counted,
        label_bits=found.labelled
        * (entropy_bits(found.label_count) if found.often is None else entropy_of(*found.often)),
        readout_error=None,
        corollary_1_dense=multiplied,
    )
    model.card = model.card.with_summary(summary)
    return model
