"""Half-spaces with margins inside a stock architecture: folders for float32, bfloat16 and float16.

The construction is that of `construct/robust`; LayerNorm (or RMSNorm) plays the part of its normalization. The neuron
of a half-space `{w · z ≥ c}` of token `x` reads, of what arrives behind the second norm,

    A (⟨p_x, p⟩/t − mean of the ones)  +  w · (place, context)  −  c

In its own cell the bracket is 0: code and ones arrive as `±u` and `u` with one `u`, rounded alike. There its facts get
1 at least, the others −1 at most. At another token the bracket is at most `−u (1 − cos)`, and `A` is large enough for
every context there can be. Numbers are rounded to the format first; margins are then measured on what was rounded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.construct.consistency import equal_points
from monolayer.construct.construction import Progress
from monolayer.construct.robust.build import NARROWEST, STAGE
from monolayer.construct.robust.cover import Cells, HalfSpaces, cover
from monolayer.construct.robust.neurons import LOUD
from monolayer.construct.robust.stream import TEMPERATURE
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.stock.architecture import Architecture
from monolayer.stock.assemble import frame_of, stock_model
from monolayer.stock.codes import Floats
from monolayer.stock.folder import StockModel
from monolayer.stock.gates import Neurons, Points
from monolayer.stock.labelled import Work
from monolayer.stock.mirror import Mirror, contexts, lay_out

Dtype = Literal["float32", "bfloat16", "float16"]
RANK = 128
"""Value rank where none is asked for: half-spaces of more dimensions are wider and fewer."""
MARGIN = 0.3
"""Half-width that slabs shall have, in the units of what arrives: coordinates of mean square 1."""
HEAD = 8.0
"""Length of class directions, a coordinate."""
RADII = 64
"""Pieces of the lengths that a context can have, for the bound of the gate."""
SHARP = {"relu6": 1.0, "relu": 1.0, "gelu": 8.0, "gelu_new": 8.0, "gelu_pytorch_tanh": 8.0, "silu": 32.0}
"""What neurons are multiplied by, so that −1 is silence: gelu(−8) is below 10⁻¹⁴, silu(−32) below 10⁻¹²."""


def check_wishes(rank: int | None, dtype: str | None, width: int | None) -> None:
    """Wishes that cannot be fulfilled are errors that say what can."""
    if rank is not None and not (type(rank) is int and 2 <= rank <= 4096):
        raise DataError(f"rank must be a whole number from 2 to 4096, not {rank!r}")
    if dtype is not None and dtype not in get_args(Dtype):
        names = ", ".join(map(repr, get_args(Dtype)))
        raise DataError(f"dtype of a robust stock model must be one of {names}, not {dtype!r}")
    if width is not None:
        raise DataError("width has no use with robust: rank, tokens and classes settle it")


def rounded(array: Floats, dtype: str) -> Floats:
    """`array` rounded to a format, in float64."""
    found: Floats = torch.from_numpy(np.ascontiguousarray(array)).to(getattr(torch, dtype)).double().numpy()
    return found


@dataclass(frozen=True, eq=False)
class Half:
    """Neurons as they will be stored `(H, p + k)`, `(H,)`, each with its cell and class; margins on the data."""

    cell: Ints
    label: Ints
    coarse: Floats
    slight: Floats
    """What the second half, which holds the negatives, is read with: `coarse + slight` is closer to the wish."""
    bias: Floats
    fine: Floats
    """What the ones are read with, so that `bias + fine · u` is closer to the wish than a short bias alone."""
    width: Floats
    """Half-width of each slab, in the units of what arrives."""

    @property
    def weight(self) -> Floats:
        return self.coarse + self.slight


def robust_model(
    kind: Architecture,
    job: Work,
    rank: int | None,
    dtype: Dtype | None,
    activation: str,
    special: Mapping[str, str],
    seed: int,
    report: Progress,
    began: float,
) -> StockModel:
    """The model, in order: labels, contexts, half-spaces, gates, the words of the architecture."""
    rank, dtype = RANK if rank is None else rank, dtype or "float32"
    target, conflicts = job.task.settle(job.task.target)
    label = job.labels(target)
    points = job.points(np.zeros(len(job.data.tokens) if kind.causal else len(job.data)), 0.0)
    usual = job.usual(points, label)
    mirror = lay_out(kind, job, usual, rank, seed, lambda array: rounded(array, dtype))

    report("contexts", 0.1)
    once = np.zeros(len(label), dtype=bool)  # equal facts are one
    once[np.unique(equal_points(job.task.context, target), return_index=True)[1]] = True
    once[len(target.number) :] = True
    pairs = np.unique(np.stack([points.token, label], axis=1), axis=0)[:, 0]
    several = np.bincount(pairs, minlength=len(usual)) > 1
    cells, facts, size, number = _facts(job, mirror, points, label, usual, once & several[points.token])

    report(STAGE, 0.2)
    # Its slabs are measured again below, with no fact of another label inside: nothing is overruled here.
    found = cover(facts, MARGIN, lambda share: report(STAGE, 0.2 + 0.6 * share), overrule=False)
    report("gating neurons by their tokens", 0.8)
    half = _settled(facts, found, cells, size, dtype)
    if not half.width.min(initial=np.inf) >= NARROWEST:
        raise PrecisionError(_closest(job, facts, number, found.worst, float(half.width.min()), rank))
    block = _neurons(mirror, half, dtype, activation)
    label_columns, directions = mirror.both(mirror.label), np.concatenate([mirror.words, -mirror.words], axis=1)
    tables = (mirror.tokens, mirror.places)
    frame = frame_of(kind, job, tables, label_columns, HEAD * directions, mirror.attention, block, activation, special)
    figures = {
        "labelled": len(label),
        "steps": block.steps,
        "neurons": len(block.W_1),
        "gap": float(half.width.min()) if len(half.width) else None,
        "margin": None,
        "temperature": TEMPERATURE if job.task.context.positions else 0.0,
        "conflicts": conflicts,
        "rank": rank,
        "seconds": time.perf_counter() - began,
    }
    return stock_model(kind, job, frame, special, dtype, figures)


def _facts(
    job: Work, mirror: Mirror, points: Points, label: Ints, usual: Ints, wanted: NDArray[np.bool_]
) -> tuple[Ints, Cells, Floats, Ints]:
    """Tokens with several classes; what arrives at their facts, cell by cell; `u` and point of each fact."""
    place, token = points.place, points.token
    p, k = mirror.place.stop - mirror.place.start, mirror.values.shape[1]
    feature = torch.empty(int(wanted.sum()), p + k)
    u, number = np.empty(len(feature)), np.empty(len(feature), dtype=np.int64)
    codes = torch.from_numpy(mirror.place_codes()).float()
    done = 0
    for point, context in contexts(job, mirror):
        chosen = wanted[point]
        point, context = point[chosen], context[torch.from_numpy(chosen)]
        part = slice(done, done + len(point))
        F = mirror.factor(context.double().square().sum(1).numpy())
        number[part], u[part] = point, F * mirror.scale
        feature[part, p:] = context * torch.from_numpy(F).float()[:, None]
        if p:
            feature[part, :p] = codes[torch.from_numpy(place[point])] * torch.from_numpy(u[part]).float()[:, None]
        done = part.stop
    order = np.lexsort((number, token[number]))
    cells, start = np.unique(token[number[order]], return_index=True)
    facts = Cells(feature[torch.from_numpy(order)], label[number[order]], np.append(start, len(order)), usual[cells])
    return cells, facts, u[order], number[order]


def _closest(job: Work, facts: Cells, number: Ints, worst: int | None, width: float, rank: int) -> str:
    """The two facts behind the narrowest slab, and what would help."""
    assert worst is not None  # there is a slab
    cell = int(np.searchsorted(facts.start, worst, side="right")) - 1
    own = slice(int(facts.start[cell]), int(facts.start[cell + 1]))
    other = np.flatnonzero(facts.label[own] != facts.label[worst]) + own.start
    distance = (facts.feature[torch.from_numpy(other)] - facts.feature[worst]).norm(dim=1)
    one, two = (job.where(int(number[i])) for i in (worst, int(other[int(distance.argmin())])))
    return (
        f"{one} and {two} have different labels, and what arrives of their contexts is {float(distance.min()):.3g} "
        f"apart; the widest slab between the first and the facts of other labels has half-width {width:.3g}, and "
        f"{NARROWEST:g} is needed. A higher rank than {rank} helps where many facts crowd in, positions=True where "
        "only the order differs; without robust, float64 tells them apart"
    )


def _settled(facts: Cells, found: HalfSpaces, cells: Ints, size: Floats, dtype: str) -> Half:
    """Half-spaces rounded to the format, and their slabs measured again on the facts of their cells."""
    wide = np.maximum(found.half_width, NARROWEST)
    wish = np.exp2(np.ceil(-np.log2(wide)))  # a power of two: margins of 1 to 2, and no new rounding
    exact = found.normal.double().numpy() * wish[:, None]
    coarse = rounded(exact, dtype)
    slight = rounded(exact - coarse, dtype)
    weight = coarse + slight
    low, high = np.empty((2, len(weight)))
    usual_u = float(np.median(size)) if len(size) else 1.0
    cuts = np.searchsorted(found.cell, np.arange(len(cells) + 1))
    covered = facts.label == facts.base[facts.cell]
    for cell, (begin, end) in enumerate(pairwise(cuts.tolist())):
        own = slice(int(facts.start[cell]), int(facts.start[cell + 1]))
        height = facts.feature[own].double().numpy() @ weight[begin:end].T
        mine = facts.label[own][:, None] == found.label[begin:end]
        centre, reach = ((x * wish)[begin:end] for x in (found.centre, wide))
        inside = mine & (height >= centre + 0.9 * reach)
        low[begin:end] = np.where(mine, -np.inf, height).max(axis=0, initial=-np.inf)
        high[begin:end] = np.where(inside, height, np.inf).min(axis=0, initial=np.inf)
        covered[own] |= inside.any(axis=1)
    high = np.where(np.isfinite(high), high, low)  # all its facts were lost in rounding: a slab of width 0
    low = np.where(np.isfinite(low), low, high - 2.0)
    margin = np.where(covered.all(), (high - low) / 2.0, 0.0)
    length = np.maximum(np.linalg.norm(weight, axis=1), 1e-30)  # equal facts leave no direction
    bias = rounded(-(high + low) / 2.0, dtype)
    fine = rounded((-(high + low) / 2.0 - bias) / usual_u, dtype)
    return Half(cells[found.cell], found.label, coarse, slight, bias, fine, margin / length)


def _neurons(mirror: Mirror, half: Half, dtype: str, activation: str) -> Neurons:
    """Rows that read code, ones, place and context; what they write is the word of their class, in both halves."""
    D, H = mirror.width, len(half.cell)
    p = mirror.place.stop - mirror.place.start
    t, ones = mirror.code.stop - mirror.code.start, np.arange(mirror.ones.start, mirror.ones.stop)
    gate = _gate(mirror, half, p)
    sharp = SHARP[activation]
    W_1, W_2 = np.zeros((2, H, D))
    W_1[:, mirror.code] = (gate / t)[:, None] * mirror.tokens[half.cell, mirror.code]
    W_1[:, ones[:-1]], W_1[:, ones[-1]] = -(gate / (len(ones) - 1))[:, None], half.fine
    for part, columns in ((mirror.place, slice(0, p)), (mirror.slot, slice(p, None))):
        W_1[:, part] = half.coarse[:, columns]
        W_1[:, slice(part.start + mirror.half, part.stop + mirror.half)] = -half.slight[:, columns]
    loud = LOUD / sharp * mirror.words[half.label]
    W_2[:, mirror.both(mirror.label)] = np.concatenate([loud, -loud], axis=1)
    return Neurons(rounded(sharp * W_1, dtype), rounded(sharp * half.bias, dtype), W_2, H)


def _gate(mirror: Mirror, half: Half, p: int) -> Floats:
    """`A`, a power of two that silences each neuron at every other token, whatever the context.

    There `A u (1 − cos) ≥ u P + F |w| r + b + 1` must hold for every length `r` of a context, with `u = F s`. Divided
    by `F` the right side is bounded piece by piece: `r` at the upper end, `(b + 1)/F` at the end where it is larger.
    """
    if len(mirror.tokens) < 2 or len(half.cell) == 0:
        return np.zeros(len(half.cell))
    apart = 1.0 - mirror.cosine(half.cell)
    place = (half.weight[:, :p] @ mirror.place_codes().T).max(axis=1) if p else np.zeros(len(half.cell))
    place = place + np.abs(half.fine)
    longest = float(np.linalg.norm(mirror.values, axis=1).max())
    radius = np.linspace(0.0, longest, RADII + 1)
    over = 1.0 / mirror.factor(radius**2)
    lift = half.bias[:, None] + 1.0
    most = np.linalg.norm(half.weight[:, p:], axis=1)[:, None] * radius[1:]
    most = (most + np.where(lift > 0.0, lift * over[1:], lift * over[:-1])).max(axis=1) / mirror.scale + place
    return np.where(most > 0.0, np.exp2(np.ceil(np.log2(np.maximum(most, 1e-30) / apart))), 0.0)
