"""From a model and data to an `Explanation`: the shortcut's own numbers, and the staircase around every `z`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import contexts
from monolayer.model.explanation import Explanation, Floats
from monolayer.model.parts import Parts, staircase_of
from monolayer.model.shortcut import Traced, plan, spread, traced
from monolayer.model.staircase import Steps


@torch.no_grad()
def explain(model: Parts, data: Sequences) -> Explanation:
    """The numbers behind the answers to encoded `data`; weights that were changed have no such explanation."""
    staircase_of(model)
    way = plan(model)
    if way is None or way.steps is None:
        raise DataError(
            "an explanation needs weights as they were built, and nothing hooked into the forward pass: this model was "
            "changed"
        )
    met = traced(model, data, way)
    z = met.code + way.kappa * met.context
    run, on_ramp = _place(way.steps, z)
    edge = torch.full((1,), torch.inf, dtype=z.dtype, device=z.device)
    below, above = torch.cat([-edge, way.steps.end]), torch.cat([way.steps.start, edge])
    # On a ramp both edges are those of the ramp: the answer lies between the labels of two runs.
    low = torch.where(on_ramp, above[run], below[run])
    high = torch.where(on_ramp, below[(run + 1).clamp(max=len(below) - 1)], above[run])
    label = _names(model, way.steps(z))
    left, right = (_beside(model, way.steps, place) for place in (torch.where(on_ramp, run, run - 1), run + 1))
    weight, begin = _shares(model, data, met)
    key = met.key if met.rows is None else met.key.index_select(0, met.rows)
    arrays = {"key": key, "weight": weight, "begin": begin, "code": met.code, "context": met.context, "z": z}
    return Explanation(
        data,
        model.card,
        way.temperature,
        way.kappa,
        **{name: _array(each) for name, each in arrays.items()},
        step=run.cpu().numpy(),
        below=_array(low),
        above=_array(high),
        on_ramp=on_ramp.cpu().numpy(),
        label=label,
        left=left,
        right=right,
    )


def _place(steps: Steps, z: Tensor) -> tuple[Tensor, Tensor]:
    """The run that `z` `(P,)` lies in, or just left of, and whether it lies on the ramp right of it."""
    run = torch.searchsorted(steps.end, z, right=True)
    start = torch.cat([steps.start, torch.full((1,), torch.inf, dtype=z.dtype, device=z.device)])
    return run, z > start[run]


def _shares(model: Parts, data: Sequences, met: Traced) -> tuple[Tensor, Tensor]:
    """Attention weights: of every token `(T,)`, and of the begin token at every answering place `(P,)`."""
    weight = met.weight if met.rows is None else met.weight.index_select(0, met.rows)
    lengths = torch.from_numpy(data.lengths).to(weight.device)
    # The quotient of sums that makes contexts, with 1 below: what the weights add up to, the begin token's included.
    total = contexts(torch.zeros_like(weight), weight, lengths, (1.0, met.begin[1]), model.card.causal)
    each = total if model.card.causal else spread(total, lengths)
    return weight / each, met.begin[1] / (total if model.card.per == "sequence" else each)


def _beside(model: Parts, steps: Steps, run: Tensor) -> list[object]:
    """Labels of the runs `run` `(P,)`; None beyond the ends of the line."""
    inside = (run >= 0) & (run < len(steps.level))
    names = _names(model, steps.level[run.clamp(0, len(steps.level) - 1)])
    return [name if there else None for name, there in zip(names, inside.tolist(), strict=True)]


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
    found: Floats = np.asarray(values.detach().cpu().numpy(), dtype=np.float64)
    return found
