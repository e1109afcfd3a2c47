"""From a model and data to an `Explanation`: the shortcut's own numbers, and the staircases around every `z`.

Of a cascade the story goes on where the first line ends: a point in a crowd, a stretch that the first stage could not
cut further, has the number of that crowd and the mean of another value, and lies on a step of the next stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Floats
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import contexts
from monolayer.model.explanation import Explanation, Further
from monolayer.model.parts import Parts, staircase_of
from monolayer.model.shortcut import Plan, Traced, further_mean, plan, spread, traced
from monolayer.model.staircase import Steps

Stages = tuple[tuple[float, int, Steps], ...]  # those behind a stage: `κ`, the coordinate of the value, the steps


@torch.no_grad()
def explain(model: Parts, data: Sequences) -> Explanation:
    """The numbers behind the answers to encoded `data`; weights that were changed have no such explanation."""
    if not model.feed_forward.stairs:
        staircase_of(model)  # the error that says that there is none
    way = plan(model)
    if way is None or way.steps is None:
        raise DataError(
            "an explanation needs weights as they were built, and nothing hooked into the forward pass: this model was "
            "changed"
        )
    met = traced(model, data, way)
    weight, begin = _shares(model, data, met)
    key = met.key if met.rows is None else met.key.index_select(0, met.rows)
    arrays = {"key": key, "weight": weight, "begin": begin, "code": met.code, "context": met.context}
    numbers: dict[str, Any] = {name: _array(each) for name, each in arrays.items()}
    told = _on_lines(model, data, way, met)
    return Explanation(
        data,
        model.card,
        way.temperature,
        way.kappa,
        **numbers,
        **told,
    )


# -- one line, and those of further stages ---------------------------------------------------------------


def _on_lines(model: Parts, data: Sequences, way: Plan, met: Traced) -> dict[str, Any]:
    """Where every point lies on the first line and, if a crowd is there, on those behind it."""
    assert way.steps is not None
    z = met.code + way.kappa * met.context
    total = torch.zeros(len(z), model.feed_forward.labels, dtype=z.dtype, device=z.device)
    steps, stages, told = way.steps, way.further, _Around.of(way.steps, z).told(model, z, way.steps, way.further, total)
    further: list[Further] = []
    crowd = torch.ones(len(z), dtype=torch.bool, device=z.device)
    while stages:
        # What a stage wrote behind the label is the number of a stretch: the code of the next.
        level = steps(z)
        total, number = total + level[:, :-1], level[:, -1].contiguous()
        (kappa, slot, steps), stages = stages[0], stages[1:]
        crowd = crowd & _crowded(steps, number, kappa)
        context = further_mean(model, data, met, slot)
        z = number + kappa * context
        around = _Around.of(steps, z).told(model, z, steps, stages, total)
        further.append(Further(crowd.cpu().numpy(), _array(number), _array(context), kappa=kappa, **around))
    label = _names(model, total + steps(z))
    return {**told, "label": label, "further": tuple(further)}


@dataclass(frozen=True, eq=False)
class _Around:
    """Runs that points `(P,)` lie in, or just left of, and whether they lie on the ramp right of it."""

    run: Tensor
    on_ramp: Tensor

    @classmethod
    def of(cls, steps: Steps, z: Tensor) -> _Around:
        run = torch.searchsorted(steps.end, z, right=True)
        start = torch.cat([steps.start, torch.full((1,), torch.inf, dtype=z.dtype, device=z.device)])
        return cls(run, z > start[run])

    def told(self, model: Parts, z: Tensor, steps: Steps, stages: Stages, total: Tensor) -> dict[str, Any]:
        """Step, edges and neighbours; `total` `(P, m)` is what the stages before have written."""
        edge = torch.full((1,), torch.inf, dtype=z.dtype, device=z.device)
        below, above = torch.cat([-edge, steps.end]), torch.cat([steps.start, edge])
        run, ramp = self.run, self.on_ramp
        # On a ramp both edges are those of the ramp: the answer lies between the labels of two runs.
        low = torch.where(ramp, above[run], below[run])
        high = torch.where(ramp, below[(run + 1).clamp(max=len(below) - 1)], above[run])
        left, right = (
            _beside(model, steps, place, stages, total) for place in (torch.where(ramp, run, run - 1), run + 1)
        )
        arrays = {"z": _array(z), "below": _array(low), "above": _array(high)}
        return {**arrays, "step": run.cpu().numpy(), "on_ramp": ramp.cpu().numpy(), "left": left, "right": right}


def _beside(model: Parts, steps: Steps, run: Tensor, stages: Stages, total: Tensor) -> list[object]:
    """What runs `run` `(P,)` lead to: a label, or the number of a crowd; None beyond the ends of the line."""
    inside = (run >= 0) & (run < len(steps.level))
    level = steps.level[run.clamp(0, len(steps.level) - 1)]
    crowd: list[int | None] = [None] * len(run)
    for kappa, _, behind in stages:
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


# -- what all have ---------------------------------------------------------------------------------------


def _shares(model: Parts, data: Sequences, met: Traced) -> tuple[Tensor, Tensor]:
    """Attention weights: of every token `(T,)`, and of the begin token at every answering place `(P,)`."""
    weight = met.weight if met.rows is None else met.weight.index_select(0, met.rows)
    lengths = torch.from_numpy(data.lengths).to(weight.device)
    # The quotient of sums that makes contexts, with 1 below: what the weights add up to, the begin token's included.
    total = contexts(torch.zeros_like(weight), weight, lengths, (1.0, met.begin[1]), model.card.causal)
    each = total if model.card.causal else spread(total, lengths)
    return weight / each, met.begin[1] / (total if model.card.per == "sequence" else each)


def _names(model: Parts, level: Tensor) -> list[object]:
    """What users call the label coordinates `(P, m)`: names of classes, numbers, or lists of numbers."""
    if model.card.classes is None:
        values = level.cpu().numpy()
    else:
        last = len(model.card.classes) - 1
        values = level[:, 0].round().clamp(0, last).to(torch.int64).cpu().numpy()
    found: list[object] = model.card.decode(values).tolist()
    return found


def _array(values: Tensor) -> Floats:
    found: Floats = np.asarray(values.detach().double().cpu().numpy(), dtype=np.float64)
    return found
