"""The state of a build, the stages for its crowds, and the folder that is written in the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolayer.arrays import Floats, Ints, Words
from monolayer.cluster.blocks import Rules
from monolayer.cluster.crowds import Crowds
from monolayer.cluster.spill import FileIdentity, Spill
from monolayer.construct.line.alphabet import UNIT, Ids
from monolayer.construct.line.assemble import assemble, staircase, table_lift
from monolayer.construct.line.cascade import Contested, StageArrays, further
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.points import SLACK, Points
from monolayer.construct.line.separate import spacing
from monolayer.construct.line.stored import LineDraw
from monolayer.construct.line.values import LARGEST_RANK, Value, averages, draw_value
from monolayer.construct.target import Target, entropy_bits
from monolayer.data import Names, Sequences
from monolayer.data.form import SourceForm
from monolayer.data.objects import JsonObject
from monolayer.data.plan import ReadPlan
from monolayer.errors import PrecisionError
from monolayer.model.card import Card, Fingerprint, Summary
from monolayer.model.cascade import Cascade
from monolayer.model.monolayer import Monolayer
from monolayer.model.save import save
from monolayer.model.staircase import Staircase
from monolayer.table import plural

PartFacts = dict[str, Any]
"""The facts of a finished part, and its name."""


@dataclass(frozen=True, eq=False)
class BuildState:
    """The state of a build: names and counts of all files, then a draw and its parts, then further stages.

    `plans`: how each file was read. `splitters`: where ranges of points begin, but for the first; `ends`: the least and
    the largest `z`. `parts`: for every range, the facts about its part of the staircase. `last`: what the first stage
    writes right of all its steps, the label and, where stages follow, the number of the stretch. `stages`, `values`:
    the stages behind the first, and the values that they average.
    """

    shards: list[FileIdentity]
    rules: Rules
    vocabulary: Names
    classes: Names | None
    sequences: int
    token_count: Ints
    label_count: Ints
    scalar: bool = False
    plans: tuple[ReadPlan, ...] = ()
    recognizes: bool = False
    """Whether the model keeps fingerprints, by which it recognizes what it was not built from."""
    known: Words | None = None
    """These fingerprints, once they are joined."""
    drawn: Draw | None = None
    kappa: float = 1.0
    fixed_error: float = 0.0
    splitters: Floats = field(default_factory=lambda: np.zeros(0))
    ends: tuple[float, float] = (0.0, 0.0)
    tried: int = 0
    name: str = ""
    parts: tuple[PartFacts, ...] = ()
    crowds: Crowds | None = None
    last: tuple[float, ...] = ()
    stages: tuple[StageArrays, ...] = ()
    values: tuple[Value, ...] = ()

    @property
    def draw(self) -> Draw:
        """The draw that is being tried."""
        assert self.drawn is not None  # asked only after one was tried
        return self.drawn

    def points(self, block: int) -> str:
        """The name of the piece that holds the points of block `block`."""
        return f"points-{self.name}-{block:05}"

    @property
    def labelled(self) -> int:
        """The number of labels in all files."""
        return int(self.label_count.sum())

    @property
    def close(self) -> bool:
        """Whether some points with different labels are too close for a step."""
        return any(int(part["close"]) for part in self.parts)

    @property
    def last_label(self) -> tuple[float, ...]:
        """The label of the point with the largest `z` `(m,)`."""
        last = next(part["last"] for part in reversed(self.parts) if part["last"].size)
        return tuple(last[:, 0].tolist())

    @property
    def errors(self) -> Points:
        """An empty `Points` that only carries the rounding-error bound."""
        return Points(np.zeros(0), np.zeros(0, np.int64), self.kappa, self.fixed_error)


def with_stages(
    spill: Spill, state: BuildState, crowds: Crowds, pieces: list[str], seed: int, allowed: int
) -> BuildState:
    """The stages behind the first, from the points in its crowds; an error if these cannot be told apart."""
    rules, facts = state.rules, [spill.facts(name) for name in pieces]
    z, label, position, lengths, flat = (
        np.concatenate([fact[key] for fact in facts]) for key in ("z", "label", "position", "lengths", "tokens")
    )
    data = Sequences(flat, lengths, Names(range(rules.vocabulary)))
    place = data.offsets[:-1] + position if rules.labelling.at_tokens else None
    target = Target(np.arange(len(label)), np.zeros((0, 1)), rules.per, None, False, place)
    tokens = rules.tokens(data)
    order = np.argsort(z, kind="stable")
    which = np.searchsorted(crowds.low, z[order], side="right") - 1
    # Of classes the first stage writes the least of each crowd, of reals nothing.
    missing = label[order].T if rules.reals else (label[order] - crowds.level[which])[None]
    values: dict[int, Value] = {}

    def context(stage: int, some: Ints) -> Floats:
        values[stage] = draw_value(tokens, seed, stage)
        return averages(values[stage], state.draw, tokens, target, order[some])

    contested = Contested(crowds.stretch[which], missing, crowds.ends)
    error = Encoded(state.draw, tokens).context_error
    more = further(contested, context, error=error, unit=UNIT, whole=not rules.reals, most=LARGEST_RANK)
    rank = 1 + len(more.stages)
    if len(more.left) or rank > allowed:
        raise _crowded(state, len(crowds.low), None if len(more.left) else rank)
    return replace(state, stages=tuple(more.stages), values=tuple(values.values()))


def _crowded(state: BuildState, count: int, rank: int | None) -> PrecisionError:
    """The error for data that are consistent but that float64 cannot hold at the rank that is allowed."""
    low, high = state.ends
    holds = int(np.sqrt((high - low) / (SLACK * float(state.errors.error(np.array([low, high])).max()))))
    way = (
        f"no value rank up to {LARGEST_RANK} tells them apart: split the data over several models, or try another seed"
    )
    if rank is not None:
        way = f"rank={rank} would hold them, or rank='auto'"
    return PrecisionError(
        f"points with different labels fell closer together than {SLACK:g} rounding errors in "
        f"{plural(count, 'place')}. They are different points, not a contradiction: rank 1 in float64 can hold "
        f"about {holds:,} points of this kind, and there are {state.labelled:,}. {way[0].upper()}{way[1:]}"
    )


def finish(spill: Spill, state: BuildState, out: Path, overwrite: bool) -> Path:
    """Save the model as the folder `out`; the weights of the readout are taken from the files of the spill folder."""
    model = _model_of(state)
    files = [(spill.numbers(part["name"]), str(part["digest"][0])) for part in state.parts]
    return save(model, out, parts=files, overwrite=overwrite)


def _model_of(state: BuildState) -> Monolayer:
    """The network. Tensors of its readout that already lie in files have the right sizes here, and no numbers."""
    draw, rules = state.draw, state.rules
    steps = sum(int(part["steps"]) for part in state.parts)
    whole, labels = state.classes is not None, max(1, rules.reals)
    if state.classes is not None and sum(float(part["size"]) for part in state.parts) + len(state.classes) >= 2.0**53:
        raise PrecisionError(f"{steps + 1:,} runs of {len(state.classes):,} classes add up past 2^53: use fewer")
    nothing = torch.zeros(1, dtype=torch.float64)
    last = torch.tensor(state.last, dtype=torch.float64)
    sizes = nothing.expand(steps), nothing.expand(steps), nothing.expand(len(last), steps + (not whole))
    first = Staircase(*sizes, last if whole else torch.zeros_like(last), "exact" if whole else "runs")
    margin = [float(part["margin"]) for part in state.parts if int(part["steps"])]
    margin += [stage.margin for stage in state.stages if stage.margin is not None]
    later = [staircase(stage.slope, stage.start, stage.level, whole, UNIT) for stage in state.stages]
    readout = Cascade([first, *later])
    more: JsonObject = {"runs": 1 + readout.step_count, "rank": readout.rank}
    if state.crowds is not None:
        more["contested"] = [len(state.crowds.low), *(stage.crowds for stage in state.stages[:-1])]
    lift = table_lift(draw, state.token_count, labels, state.values)
    kept = None if state.known is None else Fingerprint(state.known, rules.per, rules.causal)
    card = Card(state.vocabulary, state.classes, rules.per, state.scalar, rules.causal, rules.next_token)
    card = replace(card, fingerprint=kept, form=SourceForm.of(state.plans))
    stored = LineDraw.of(draw, state.kappa, Ids(rules.vocabulary, rules.order))
    model = assemble(draw, state.kappa, lift, readout, replace(card, draw=stored.to_json()), values=state.values)
    more |= {"margin": min(margin) if margin else None, "layout": draw.layout, "draws": state.tried}
    return _with_summary(model, state, {"temperature": draw.temperature} | more)


def _with_summary(model: Monolayer, state: BuildState, more: JsonObject) -> Monolayer:
    """The model with its summary. `more`: fields that only the caller knows; they win over the usual ones."""
    count, least = sum(int(part["count"]) for part in state.parts), min(float(part["least"]) for part in state.parts)
    low, high = state.ends
    summary = Summary.of(
        model.counts(),
        sequences=state.sequences,
        labelled=state.labelled,
        vocabulary=int(np.count_nonzero(state.token_count)),
        dim=1,
        labels=max(1, state.rules.reals),
        entropy=None if state.classes is None else entropy_bits(state.label_count),
        **spacing(count, least, high - low) | more,
    )
    model.card = model.card.with_summary(summary)
    return model
