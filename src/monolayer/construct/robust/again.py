"""The robust construction with a draw that is given: behind `memorize(..., draw=model)` and every edit.

Neurons of a token, and the usual class in its embedding, follow from the facts of that token alone. So where it is
known which tokens' facts changed, theirs are found anew, and all others stay as they are in the model.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.robust.build import Attempt, assembled, check_answers, half_spaces, linear_cells, points_of
from monolayer.construct.robust.linear import fits
from monolayer.construct.robust.stored import ONES, RobustDraw
from monolayer.construct.robust.stream import draw_stream
from monolayer.construct.task import Progress, Task
from monolayer.errors import ContradictionError, DataError, PrecisionError
from monolayer.model.device import one_thread
from monolayer.model.gates import Gates, gates_of
from monolayer.model.monolayer import Monolayer


def robust_again(draw: RobustDraw, task: Task, report: Progress) -> Monolayer:
    """The model of a task with this draw."""
    task, _ = task.settled()
    model = _attempt(draw, task, report).assemble(task)
    check_answers(task, model)
    return model


@one_thread()
def renewed(model: Monolayer, draw: RobustDraw, task: Task, only: Ints, report: Progress) -> Monolayer:
    """Neurons of the tokens `only` found anew, in their places among those that `model` has for the others."""
    old, cell = gates_of(model), cells_of(model, draw)
    stay = torch.from_numpy(~np.isin(cell, only))
    parts = [part.detach().cpu()[stay] for part in (old.weight_1, old.bias_1, old.weight_2.T)]
    found = _cover(draw, task, only, report)
    if found is not None:
        new = found.gates.weight_1, found.gates.bias_1, found.gates.weight_2.T
        parts = [torch.cat([part, more.detach().to(part.dtype)]) for part, more in zip(parts, new, strict=True)]
        cell = np.concatenate([cell[stay.numpy()], found.cell])
        order = torch.from_numpy(np.argsort(cell, kind="stable"))
        parts = [part[order] for part in parts]
    start = old.bias_2.detach().cpu().clone()
    gates = Gates(parts[0], parts[1], parts[2].T.contiguous(), start, old.layout, old.even)
    return assembled(draw_stream(task, draw), gates, task.card(draw.to_json()), draw.dtype)


def _cover(draw: RobustDraw, task: Task, only: Ints, report: Progress) -> Attempt | None:
    """What covers the facts of these tokens; None where they have none. Only rows with one of them are read."""
    data, context = task.data, task.context
    chosen = np.unique(data.sequence[np.isin(data.tokens, only)])
    near = data.select(chosen) if len(chosen) else None
    if near is None or (task.target.next_token and int(near.lengths.max()) < 2):
        return None
    mask = np.zeros(len(data.vocabulary or ()), dtype=bool)
    mask[only[only < len(mask)]] = True  # others are new, and not in these data
    part = Task.of(near, positions=context.positions, causal=context.causal, on_conflict="error")
    if len(part.target.number) == 0:
        return None
    try:
        return _attempt(draw, part.settled()[0], report, mask)
    except (PrecisionError, ContradictionError):
        return _attempt(draw, task.settled()[0], report, mask)  # the same error, rows by their own numbers


def _attempt(draw: RobustDraw, task: Task, report: Progress, only: NDArray[np.bool_] | None = None) -> Attempt:
    """What covers the facts of a task; of some cells alone, where `only` is a mask of them."""
    report("contexts", 0.1)
    stream = draw_stream(task, draw)
    cells, points, number = points_of(task, stream, None, only)
    if draw.margin is not None:
        return half_spaces(task, stream, cells, points, number, draw.margin, report)
    assert draw.base is not None  # one of the two is given
    report(f"linear cells, digits in base {draw.base}", 0.5)
    found = linear_cells(stream, cells, points, number, draw.base) if fits(points) else None
    if found is None:
        raise PrecisionError(
            "with this draw a token has more facts than its contexts have dimensions, or contexts that do not fill "
            "them, so its linear cell does not hold them: memorize the data anew, with a higher rank or without "
            "neurons="
        )
    return found


def cells_of(model: Monolayer, draw: RobustDraw) -> Ints:
    """The token row of every neuron `(H,)`, by its gate, in rising order; of a model of ids that answers at tokens."""
    gates = gates_of(model)
    assert model.card.vocabulary is not None
    code = draw.token_words(model.card.vocabulary) > 0
    gate = gates.weight_1.detach().cpu()[:, : gates.layout.token - ONES].double().numpy()
    rows = [np.packbits(bits, axis=1) for bits in (code, gate > 0)]
    keys = [np.ascontiguousarray(part).view(f"V{part.shape[1]}")[:, 0] for part in rows]
    found, number = np.unique(np.concatenate(keys), return_inverse=True)
    cell = np.full(len(found), -1)
    cell[number[: len(code)]] = np.arange(len(code))
    cells: Ints = cell[number[len(code) :]]
    if (cells < 0).any() or (np.diff(cells) < 0).any() or not gate.all():
        raise DataError("the neurons are not gated one token after the other any more: the weights were changed")
    return cells
