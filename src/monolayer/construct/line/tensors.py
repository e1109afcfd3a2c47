"""The line where the data already are: ids and classes that lie on an accelerator become weights there.

The draws, their contexts and codes, the margin and the ramps are those of the other files; only the sort and the runs
are taken from PyTorch, since NumPy cannot reach the device. The plain case alone: ids `(N, n)`, a class for each token
or each sequence, order of no account. Whatever is not plain, contradictions and collisions included, is None here and
goes the ordinary way, which knows what to say about it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from monolayer.construct.line.alphabet import UNIT, Ids
from monolayer.construct.line.assemble import assemble, stream
from monolayer.construct.line.draw import Draw, Tokens, draws
from monolayer.construct.line.points import SLACK, power_of_two
from monolayer.construct.line.separate import DRAWS
from monolayer.construct.line.steps import EXPONENT
from monolayer.data import Names
from monolayer.errors import OutOfMemoryError
from monolayer.model.attention import LABEL, pick
from monolayer.model.card import Card, Summary
from monolayer.model.layers import embedding
from monolayer.model.monolayer import Monolayer
from monolayer.model.staircase import Staircase
from monolayer.theory.bounds import corollary1_counts

SEEN = 1 << 20
GAPLESS = 4
"""Ids and classes are their own row numbers if they are below this many times the values that occur, or below 1,024."""


@torch.no_grad()
def build(X: Any, Y: Any, seed: int, temperature: float | None) -> Monolayer | None:
    """A model on the device of `X` `(N, n)` for labels `Y` `(N, n)` or `(N,)`; None: these are not plain."""
    if not (_whole(X) and _whole(Y) and X.ndim == 2 and X.numel() and X.device == Y.device):
        return None
    if Y.shape not in (X.shape, X.shape[:1]):
        return None
    try:
        return _build(X.long(), Y.long(), seed, temperature)
    except torch.OutOfMemoryError as error:
        free = torch.cuda.mem_get_info(X.device)[0] if X.device.type == "cuda" else 0
        raise OutOfMemoryError(
            f"{X.numel():,} labels need about {80 * X.numel() / 2**30:,.1f} GiB on {X.device} to be built there, and "
            f"{free / 2**30:,.1f} GiB are free: pass arrays of the processor, which are built in its own memory, or "
            "split the data over several models"
        ) from error


def _whole(values: Any) -> bool:
    return isinstance(values, Tensor) and not (values.is_floating_point() or values.is_complex())


def _build(X: Tensor, Y: Tensor, seed: int, temperature: float | None) -> Monolayer | None:
    N, n = X.shape
    rows, label = X.reshape(-1), Y.reshape(-1)
    counts, classes = _counts(rows), _counts(label)
    if counts is None or classes is None:
        return None
    per_token = Y.ndim == 2
    order = None
    if per_token:
        # Tokens with one largest label next to each other: fewer label changes between cells. A million will do to see.
        some = torch.zeros(len(counts), dtype=torch.int64, device=X.device)
        some.scatter_reduce_(0, rows[:SEEN], label[:SEEN], "amax")
        order = some.argsort(stable=True).argsort().cpu().numpy()
    lengths = torch.full((N,), n, device=X.device)
    tokens = Tokens(rows, lengths, Ids(len(counts), order), None, False, temperature=temperature)
    label = label.to(torch.uint8 if len(classes) <= 2**8 else torch.int32)
    for tried, draw in enumerate(draws(tokens, "cells", DRAWS, seed), 1):
        z, number, kappa = _sorted(draw, tokens, label, per_token)
        changes = torch.nonzero(number[1:] != number[:-1]).flatten()
        fixed = draw.point_error(kappa, tokens)
        left, right = z[changes], z[changes + 1]
        room = torch.maximum(left.abs(), right.abs()).mul_(UNIT).add_(fixed)
        room = torch.sub(right, left).div_(room)
        least = float(room.min()) if len(room) else math.inf
        if least >= SLACK:  # a NaN is no gap either
            del room
            level = number[torch.cat([changes, changes.new_tensor([len(number) - 1])])].to(torch.float64)
            del changes, number
            facts = _measure(z, fixed) | {"margin": least if len(level) > 1 else None, "draws": tried}
            facts["runs"] = len(level)
            return _assemble(draw, kappa, left, right, level, counts, classes, per_token, (N, len(label)), facts)
    return None


def _sorted(draw: Draw, tokens: Tokens, label: Tensor, per_token: bool) -> tuple[Tensor, Tensor, float]:
    """`z` of all labelled places in order `(P,)`, their labels in that order, and κ.

    Codes are whole numbers and `κ c` moves them by less than 1/2 against each other (`points._token_major`): contexts
    are sorted as floats, one a sequence, and places only by code, as short integers, which keeps equal codes in order.
    """
    context, by_context = draw.contexts(tokens).sort()
    if not per_token:
        return context, label[by_context], 1.0
    reach = float(context[-1] - context[0])
    kappa = power_of_two(0.5 / reach) if reach > 0 else 1.0
    N, code = len(context), draw.proposal.code
    low = code.min()
    digits = (code - low).to(torch.int16 if len(code) < 2**15 else torch.int32)
    digit, order = _rows(pick(digits, tokens.rows).view(N, -1), by_context).flatten().sort(stable=True)
    z = digit.to(torch.float64).add_(float(low))
    z.add_(context[torch.div(order, len(order) // N, rounding_mode="floor")], alpha=kappa)
    return z, _rows(label.view(N, -1), by_context).flatten()[order], kappa


def _rows(table: Tensor, order: Tensor) -> Tensor:
    """`table[order]` for short rows `(N, n)`, as few long words as they are: several times faster on a device."""
    if table.shape[1] * table.element_size() % 16:
        return table[order]
    words = table.view(torch.complex128)
    return torch.stack([word.contiguous()[order] for word in words.unbind(1)], dim=1).view(table.dtype)


def _counts(values: Tensor) -> Tensor | None:
    """How often each whole number occurs, if they can be row numbers (`Names.of_integers`); else None."""
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= max(1024, GAPLESS * len(values) + 1024):
        return None
    counts = torch.bincount(values)
    return counts if high < 1024 or high < GAPLESS * int(torch.count_nonzero(counts)) + 1024 else None


def _measure(z: Tensor, fixed: float) -> dict[str, Any]:
    """What `Separated.measure` says of the points."""
    gap, size = z.diff(), z.abs()
    apart = gap > torch.maximum(size[1:], size[:-1]).mul_(UNIT).add_(fixed).mul_(2.0)
    count = int(torch.count_nonzero(apart)) + 1
    smallest = float(gap.masked_fill_(~apart, math.inf).min()) / float(z[-1] - z[0]) if count > 1 else 1.0
    return {"points": count, "gap": smallest, "expected_gap": 1.0 / count**2}


def _assemble(
    draw: Draw,
    kappa: float,
    left: Tensor,
    right: Tensor,
    level: Tensor,
    counts: Tensor,
    classes: Tensor,
    per_token: bool,
    sizes: tuple[int, int],
    facts: dict[str, Any],
) -> Monolayer | None:
    """Ramps in the gaps (`steps.py`), and the modules around them."""
    gap = right - left
    width = (gap.view(torch.int64) & int(EXPONENT)).view(torch.float64) / 4.0
    jump = level.diff()
    if float(jump.abs().sum()) + float(level.max()) >= 2.0**53:
        return None
    start = left + (gap - width) / 2.0
    parts = 1.0 / width, start, jump[None], level[:1].clone(), level[-1:].clone()
    feed_forward = Staircase.from_steps(*parts, "exact")
    table = stream(draw.proposal.key, draw.proposal.code, LABEL + 1)
    table[(counts == 0).cpu()] = torch.nan
    names = Names(range(len(counts))), Names(range(len(classes)))
    card = Card(*names, "token" if per_token else "sequence")
    model = assemble(draw, kappa, embedding(table), feed_forward, card).to(level.device)
    N, labelled = sizes
    share = (classes[classes > 0].double() / labelled).cpu()
    counted, multiplied = corollary1_counts(labelled, 1, 1)
    summary = Summary(
        sequences=N,
        labelled=labelled,
        **facts,
        vocabulary=int(torch.count_nonzero(counts)),
        temperature=draw.temperature,
        layout=draw.layout,
        conflicts=0,
        **model.counts(),
        corollary_1=counted,
        label_bits=labelled * -float((share * share.log()).sum()) / math.log(2.0),
        readout_error=None,
        corollary_1_dense=multiplied,
    )
    model.card = model.card.with_summary(summary)
    return model
