"""A robust model with the facts of some tokens found anew: what makes its edits fast.

Neurons of a token, and the usual class in its embedding, follow from the facts of that token alone. So where it is
known which tokens' facts changed, theirs are found anew, and all others stay as they are in the model.
"""

from __future__ import annotations

import numpy as np
import torch

from monolayer.arrays import Ints
from monolayer.construct.robust.build import CoveredFacts, Robust, assembled, cover_facts
from monolayer.construct.robust.stored import ONES, RobustDraw
from monolayer.construct.robust.stream import draw_stream
from monolayer.construct.task import Task
from monolayer.errors import ContradictionError, DataError, PrecisionError
from monolayer.model.device import one_thread
from monolayer.model.gates import Gates, gates_of
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress


class RobustAgain(RobustDraw):
    """A stored draw that builds (`construct/task.py` has the protocol)."""

    def build(self, task: Task, report: Progress, model: Monolayer, only: Ints | None) -> Monolayer:
        """Build the model again from `task`: all of it, or only the neurons of the tokens `only`; the others stay."""
        if only is None:
            return Robust.again(self).build(task, report)
        return renewed(model, self, task, only, report)


@one_thread()
def renewed(model: Monolayer, draw: RobustDraw, task: Task, only: Ints, report: Progress) -> Monolayer:
    """`model` with new neurons for the tokens `only`, found from `task`; the neurons of all other tokens stay."""
    old, cell = gates_of(model), neuron_tokens(model, draw)
    stay = torch.from_numpy(~np.isin(cell, only))
    parts = [part.detach().cpu()[stay] for part in (old.weight_1, old.bias_1, old.weight_2.T)]
    covered = _cover(draw, task, only, report)
    if covered is not None:
        new = covered.gates.weight_1, covered.gates.bias_1, covered.gates.weight_2.T
        parts = [torch.cat([part, more.detach().to(part.dtype)]) for part, more in zip(parts, new, strict=True)]
        order = torch.from_numpy(np.argsort(np.concatenate([cell[stay.numpy()], covered.token]), kind="stable"))
        parts = [part[order] for part in parts]
    gates = Gates(parts[0], parts[1], parts[2].T.contiguous(), old.bias_2.detach().cpu().clone(), old.layout)
    return assembled(task, draw_stream(task, draw), gates)


def _cover(draw: RobustDraw, task: Task, only: Ints, report: Progress) -> CoveredFacts | None:
    """Neurons that cover the facts of the tokens `only`; None without facts.

    Only the sequences that hold one of these tokens are read.
    """
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

    def cover_of(task: Task) -> CoveredFacts:
        task, _ = task.settled()
        return cover_facts(task, draw_stream(task, draw), report, mask)

    try:
        return cover_of(part)
    except (PrecisionError, ContradictionError):
        return cover_of(task)  # raises the same error, and names rows by their numbers in all the data


def neuron_tokens(model: Monolayer, draw: RobustDraw) -> Ints:
    """The token row of every neuron `(H,)`, by its gate, in rising order; of a model that answers at tokens."""
    gates = gates_of(model)
    assert model.card.vocabulary is not None
    code = draw.token_words(model.card.vocabulary) > 0
    gate = gates.weight_1.detach().cpu()[:, : gates.layout.token - ONES].double().numpy()
    rows = [np.packbits(bits, axis=1) for bits in (code, gate > 0)]
    keys = [np.ascontiguousarray(part).view(f"V{part.shape[1]}")[:, 0] for part in rows]
    distinct_keys, number = np.unique(np.concatenate(keys), return_inverse=True)
    cell = np.full(len(distinct_keys), -1)
    cell[number[: len(code)]] = np.arange(len(code))
    cells: Ints = cell[number[len(code) :]]
    if (cells < 0).any() or (np.diff(cells) < 0).any() or not gate.all():
        raise DataError("the neurons are not gated one token after the other any more: the weights were changed")
    return cells
