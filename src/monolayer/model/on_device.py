"""Look-ups that stay where the data are: ids on an accelerator, labels on that accelerator.

The same numbers as the shortcut's (`shortcut.py`), for the plain case alone: ids that are their own row numbers, of one
length, in a model without positions that sees whole sequences. Whatever else goes the ordinary way, through NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.model.attention import CODE, KEY, contexts, pick
from monolayer.model.memory import look_again
from monolayer.model.parts import Parts
from monolayer.model.shortcut import SCAN, boltzmann_terms, plan, spread

_SPREAD = 500.0
"""Scores may be this far apart: the least weight is then far from 0."""


def elsewhere(X: Any) -> bool:
    """Whether `X` is a tensor that is not on a processor."""
    return isinstance(X, Tensor) and X.device.type != "cpu"


def returned(labels: Any, X: Any) -> Any:
    """Labels found on the processor, where `X` is; names, and rows of different lengths, stay what they are."""
    numbers = isinstance(labels, np.ndarray) and labels.dtype != object
    return torch.from_numpy(labels).to(X.device) if numbers and elsewhere(X) else labels


def answers(model: Parts, X: Tensor) -> Tensor | None:
    """Labels of ids `X` `(N, n)` on their device, as `predict` shapes them; None: these are not plain."""
    classes = model.card.classes
    found = labels_there(model, X) if classes is None or classes.identity else None
    if found is None:
        return None
    if classes is not None:
        found = found[:, 0].round_().clamp_(0, len(classes) - 1).to(torch.int64)
    return found if model.card.per == "sequence" else found.view(*X.shape, *found.shape[1:])


@torch.no_grad()
def labels_there(model: Parts, X: Tensor) -> Tensor | None:
    """Label coordinates `(P, m)` of ids `X` `(N, n)` on the device of the model; None: these are not plain."""
    card, lift = model.card, model.lift
    plain = card.vocabulary is not None and card.vocabulary.identity and not card.causal and model.positions is None
    whole = not (X.is_floating_point() or X.is_complex() or X.dtype == torch.bool)
    known = bool(model.feed_forward.slots)
    if not (known and plain and whole and X.ndim == 2 and X.numel() and X.device == model.bos.device):
        return None
    if SCAN * X.numel() >= model.feed_forward.step_count:
        look_again(model)
    way = plan(model)
    if way is None or way.steps is None or way.cells is not None or not isinstance(lift, nn.Embedding):
        return None
    rows = X.reshape(-1).long()
    if int(rows.min()) < 0 or int(rows.max()) >= lift.num_embeddings:
        return None
    key, code = (lift.weight[:, slot].contiguous() for slot in (KEY, CODE))
    begin = model.bos[KEY]
    score = way.temperature * torch.cat([key, begin[None]])
    top, low = (float(score.nan_to_num(end).aminmax()[end < 0]) for end in (-torch.inf, torch.inf))
    # One common factor cancels; a stray large key in a row that is not used would push all others to 0.
    if not top - low <= _SPREAD:
        return None
    weight, moment = boltzmann_terms(key, way.temperature, top)
    first = tuple(float(part) for part in boltzmann_terms(begin, way.temperature, top))
    lengths = torch.full((len(X),), X.shape[1], device=X.device)
    weights = pick(weight, rows)
    z = contexts(weights, pick(moment, rows), lengths, (first[0], first[1]), False).mul_(way.kappa)
    z = z.add_(model.bos[CODE]) if card.per == "sequence" else spread(z, lengths).add_(pick(code, rows))
    if bool(z.isnan().any()):
        return None
    label = way.steps(z)
    del z
    for kappa, slot, steps in way.further:
        total, number = label[:, :-1], label[:, -1]
        value = pick((weight * lift.weight[:, slot]).contiguous(), rows)
        mean = contexts(weights, value, lengths, (first[0], first[0] * float(model.bos[slot])), False).mul_(kappa)
        label = steps((mean if card.per == "sequence" else spread(mean, lengths)).add_(number))
        label[:, : total.shape[1]] += total
    return label
