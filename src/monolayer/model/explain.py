"""From a model and data to an `Explanation`: the shortcut's own numbers, and the staircases around every `z`.

Of a cascade the story goes on where the first line ends: a point in a crowd, a stretch that the first stage could not
cut further, has the number of that crowd and the mean of another value, and lies on a step of the next stage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Floats
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import contexts
from monolayer.model.explanation import Explanation, Stage
from monolayer.model.parts import Parts, staircase_of
from monolayer.model.shortcut import Asked, OnLine, Traced, everywhere, lines, plan, spread, traced, values
from monolayer.model.staircase import Steps

Later = list[tuple[float, Steps]]
"""The stages behind one: `κ` and the steps of each."""


@torch.no_grad()
def explain(model: Parts, data: Sequences) -> Explanation:
    """The numbers behind the answers to encoded `data`; weights that were changed have no such explanation."""
    if not model.feed_forward.stairs:
        staircase_of(model)  # the error that says that there is none
    way, tables = plan(model), model.feed_forward.tables()
    if way is None or not way.stages or tables is None:
        raise DataError(
            "an explanation needs weights as they were built, and nothing hooked into the forward pass: this model was "
            "changed"
        )
    asked = Asked.of(model, data)
    met = traced(model, asked, way)
    weight, begin = _shares(model, asked, met)
    stages: list[dict[str, Any]] = []
    total = torch.zeros(len(met.code), model.feed_forward.labels, dtype=met.code.dtype, device=met.code.device)
    crowd = torch.ones(len(met.code), dtype=torch.bool, device=met.code.device)
    behind = [(stage.kappa, steps) for stage, steps in zip(way.stages, tables, strict=True)]
    for number, line in enumerate(lines(model, asked, way, met)):
        if number:
            crowd = crowd & _crowded(tables[number], line.code.contiguous(), line.stage.kappa)
        mean = everywhere(model, asked, line.mean)
        stage = _stage(model, line, mean, tables[number], behind[number + 1 :], total)
        stages.append(stage | {"crowd": crowd.cpu().numpy()})
        total = total + line.level[:, : model.feed_forward.labels]
    first, *further = stages
    return Explanation(
        **first,
        data=data,
        card=model.card,
        temperature=way.temperature,
        key=_array(met.key),
        weight=_array(weight),
        begin=_array(begin),
        label=_names(model, total),
        further=tuple(Stage(**stage) for stage in further),
    )


def _stage(model: Parts, line: OnLine, mean: Tensor, steps: Steps, later: Later, total: Tensor) -> dict[str, Any]:
    """Step, edges and neighbours on one line; `total` `(P, m)` is what the stages before have written."""
    z, edge = line.z, torch.full((1,), torch.inf, dtype=line.z.dtype, device=line.z.device)
    below, above = torch.cat([-edge, steps.end]), torch.cat([steps.start, edge])
    run = torch.searchsorted(steps.end, z, right=True)
    ramp = z > above[run]
    # On a ramp both edges are those of the ramp: the answer lies between the labels of two runs.
    low = torch.where(ramp, above[run], below[run])
    high = torch.where(ramp, below[(run + 1).clamp(max=len(below) - 1)], above[run])
    left, right = (_beside(model, steps, place, later, total) for place in (torch.where(ramp, run, run - 1), run + 1))
    arrays = {"code": line.code, "context": mean, "z": z, "below": low, "above": high}
    found: dict[str, Any] = {name: _array(each) for name, each in arrays.items()}
    found |= {"kappa": line.stage.kappa, "step": run.cpu().numpy(), "on_ramp": ramp.cpu().numpy()}
    return found | {"left": left, "right": right}


def _beside(model: Parts, steps: Steps, run: Tensor, later: Later, total: Tensor) -> list[object]:
    """What runs `run` `(P,)` lead to: a label, or the number of a crowd; None beyond the ends of the line."""
    inside = (run >= 0) & (run < len(steps.level))
    level = steps.level[run.clamp(0, len(steps.level) - 1)]
    crowd: list[int | None] = [None] * len(run)
    for kappa, behind in later:
        total, number = total + level[:, :-1], level[:, -1].contiguous()
        crowded = _crowded(behind, number, kappa).tolist()
        crowd = [
            int(at) if here and known is None else known
            for known, here, at in zip(crowd, crowded, number.tolist(), strict=True)
        ]
        level = behind(number)
    names = [
        name if at is None else {"crowd": at} for name, at in zip(_names(model, total + level), crowd, strict=True)
    ]
    return [name if there else None for name, there in zip(names, inside.tolist(), strict=True)]


def _crowded(steps: Steps, number: Tensor, kappa: float) -> Tensor:
    """Whether the stretches `number` `(P,)` have steps of the next stage inside: means lie in [−1, 1]."""
    reach = abs(kappa)
    begun = torch.searchsorted(steps.start, number + reach)
    ended = torch.searchsorted(steps.end, number - reach, right=True)
    return begun > ended


def _shares(model: Parts, asked: Asked, met: Traced) -> tuple[Tensor, Tensor]:
    """Attention weights: of every token `(T,)`, and of the begin token at every answering place `(P,)`."""
    # The quotient of sums that makes contexts, with 1 below: what the weights add up to, the begin token's included.
    nothing, begin = torch.zeros_like(met.weight), (1.0, met.begin)
    total = contexts(nothing, met.weight, asked.lengths, begin, model.card.causal)
    each = total if model.card.causal else spread(total, asked.lengths)
    return met.weight / each, met.begin / (total if model.card.per == "sequence" else each)


def _names(model: Parts, level: Tensor) -> list[object]:
    """What users call the label coordinates `(P, m)`: names of classes, numbers, or lists of numbers."""
    found: list[object] = model.card.decode(values(model.card, level).cpu().numpy()).tolist()
    return found


def _array(values: Tensor) -> Floats:
    found: Floats = np.asarray(values.detach().double().cpu().numpy(), dtype=np.float64)
    return found
