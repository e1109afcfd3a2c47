"""How far noise on weights and rounding can move a robust model, and what follows for its answers. Lemmas R1 to R4.

*Noise* `η`: every stored weight may be any number within `η` of it, relatively. Roundings are relative changes too, so
one share covers both: a term that passes `a` weights and `b` roundings changes by at most `(1 + η)^a (1 + γ_b) − 1`.
All bounds are distances from the checker's own numbers, whose roundings, in binary64, are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.gates import Gated, Pairs
from monolayer.checker.rounding import BINARY64, EXP_ULPS, PADDING, Format, UnhandledError

ROBUST_UNDERFLOW = 2.0**-60
"""More than all underflows together can move a neuron or a logit, within the sizes that `read_gates` demands."""
LARGEST_SCORE = 32.0
"""Attention scores up to which no exp overflows, with or without a shift."""
LOGITS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Shares:
    """Relative changes of terms, and `sway`, that of attention weights, for one `η` and one format."""

    token: float
    value: float
    read: float
    sway: float
    out: float

    @classmethod
    def of(cls, noise: float, gated: Gated, longest: int, fmt: Format) -> Shares:
        """Lemma R1. `longest` sequence of the data, the begin token not counted."""
        t, p, k = gated.weight_token.shape[1], gated.weight_place.shape[1], gated.weight_context.shape[1]
        width = t + p + k

        def share(weights: int, roundings: float) -> float:
            theirs, ours = float(fmt.gamma(float(roundings))), float(BINARY64.gamma(2.0 * roundings))
            # (1 + η)^a (1 + γ) − 1 as a sum of positive numbers: a difference would lose a rounding of binary64.
            changed = math.expm1(weights * math.log1p(noise))
            return PADDING * (changed * (1.0 + theirs) + theirs + ours)

        scores = gated.scores
        if scores > LARGEST_SCORE:
            raise UnhandledError(f"scores reach {scores:.3g}; the bounds cover {LARGEST_SCORE:g}")
        unit = fmt.unit + BINARY64.unit
        logit = scores * share(4, 16) + 8.0 * unit * (1.0 + scores) + 4.0 * EXP_ULPS * unit
        sway = PADDING * math.exp(logit) * math.expm1(logit)
        # Mixture: n + 1 terms, softmax's sum and quotient, W_V, W_O.
        return cls(
            token=share(2, width + 10),
            value=share(3, 2 * (longest + 1) + 18 + 2 * EXP_ULPS) * math.exp(2.0 * logit),
            read=share(1, width + k + 16 + 2 * EXP_ULPS),
            sway=sway,
            out=share(2, gated.weight_2.shape[1] + len(gated.weight_2) + 10),
        )


def errors(found: Pairs, gated: Gated, shares: Shares) -> Floats:
    """Lemma R3: how far the value of each pair may be from ours `(Q,)`; infinite where the context may turn about."""
    turn = PADDING * (shares.value * found.turn + shares.sway * found.sway)
    safe = np.minimum(turn, 0.5)
    across = (shares.value * found.across + shares.sway * found.mixed) / (1.0 - safe)
    along = found.along * (1.0 - np.sqrt(1.0 - safe**2))
    length = np.linalg.norm(gated.weight_context, axis=1)[found.neuron] * math.sqrt(gated.weight_context.shape[1])
    slip = 2.0**-50 * (gated.weight_context.shape[1] + 8) * length  # of `w⊥`, a difference
    read = shares.read * (found.context + 2.0 * safe / (1.0 - safe) * length)
    error = PADDING * (shares.token * found.token + across + along + read + slip) + ROBUST_UNDERFLOW
    return np.where(turn < 0.5, error, np.inf)


def silent(top: Floats, size: Floats, shares: Shares) -> bool:
    """Lemma R2: whether the neurons that were not looked at stay asleep; `top`, `size` `(H,)` as `live` gives them."""
    share = max(shares.token, shares.read)
    return bool((top + PADDING * share * size + ROBUST_UNDERFLOW < 0.0).all())


class PointVerdicts(NamedTuple):
    """Points `(M,)` that surely get the wanted class, or surely another, and that other class where it is sure."""

    right: Bools
    wrong: Bools
    got: Ints


def point_verdicts(
    found: Pairs, error: Floats, gated: Gated, rows: Ints, wanted: Ints, shares: Shares
) -> PointVerdicts:
    """Lemma R4, for points that answer at `rows` `(M,)` and want the classes `wanted` `(M,)`."""
    low, high = np.maximum(found.value - error, 0.0), np.maximum(found.value + error, 0.0)
    on = high > 0.0
    count = np.bincount(found.point[on], minlength=len(rows))
    first = np.cumsum(count) - count  # pairs come in order of their points
    # One more neuron, which writes nothing, for the points where none wakes.
    H, C = len(gated.weight_2), len(gated.head)
    neuron, low, high = np.append(found.neuron[on], H), np.append(low[on], 0.0), np.append(high[on], 0.0)
    right, wrong, got = np.zeros(len(rows), bool), np.zeros(len(rows), bool), np.full(len(rows), -1)

    # Points with at most one neuron: those of a row, neuron and class together, with the hull of their intervals.
    few = np.flatnonzero((count <= 1) & (wanted >= 0))
    at = np.where(count[few] == 1, first[few], -1)
    pair, which = np.unique(rows[few] * C + wanted[few], return_inverse=True)
    key, inverse = np.unique(which * (H + 1) + neuron[at], return_inverse=True)
    least, most = np.full(len(key), np.inf), np.zeros(len(key))
    np.minimum.at(least, inverse, low[at])
    np.maximum.at(most, inverse, high[at])
    row, own = np.divmod(pair[key // (H + 1)], C)
    hull = (key % (H + 1))[:, None], least[:, None], most[:, None]
    right[few], wrong[few], got[few] = (each[inverse] for each in _compare_logits(gated, row, own, *hull, shares))
    # Each on its own: points with several, and those of one that the hull leaves open.
    for size in np.unique(count[count > 0]):
        some = np.flatnonzero((count == size) & (wanted >= 0) & ~right & ~wrong)
        slots = first[some][:, None] + np.arange(size)
        parts = neuron[slots], low[slots], high[slots]
        right[some], wrong[some], got[some] = _compare_logits(gated, rows[some], wanted[some], *parts, shares)
    return PointVerdicts(right, wrong, got)


def _compare_logits(
    gated: Gated, rows: Ints, wanted: Ints, neurons: Ints, low: Floats, high: Floats, shares: Shares
) -> tuple[Bools, Bools, Ints]:
    """Whether the logit of the wanted class is surely the largest, surely not, and which is then larger."""
    head, size = gated.head, np.abs(gated.head)
    written = np.append(gated.weight_2, np.zeros((1, gated.weight_2.shape[1])), axis=0)
    right, wrong = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    got = np.full(len(rows), -1)
    for begin in range(0, len(rows), max(1, LOGITS_AT_ONCE // len(head))):
        part = slice(begin, begin + max(1, LOGITS_AT_ONCE // len(head)))
        own, row = wanted[part], rows[part]
        base, sizes = gated.label[row], gated.label_size[row]
        gap = _differences(base @ head.T + gated.head_bias, own)
        room = np.zeros_like(gap)
        for slot in range(neurons.shape[1]):
            weight = written[neurons[part, slot]]
            slope = _differences(weight @ head.T, own)
            gap += slope * ((low[part, slot] + high[part, slot]) / 2.0)[:, None]
            room += np.abs(slope) * ((high[part, slot] - low[part, slot]) / 2.0)[:, None]
            sizes = sizes + np.abs(weight) * high[part, slot][:, None]
        each = sizes @ size.T + np.abs(gated.head_bias)
        room += PADDING * shares.out * (each + each[np.arange(len(own)), own][:, None]) + ROBUST_UNDERFLOW
        room *= PADDING
        mine = np.arange(len(own))
        worst = gap - room
        worst[mine, own] = np.inf
        best = gap + room
        best[mine, own] = np.inf
        right[part] = worst.min(axis=1, initial=np.inf) > 0.0
        wrong[part] = best.min(axis=1, initial=np.inf) < 0.0
        got[part] = np.where(wrong[part], best.argmin(axis=1) if best.shape[1] else -1, -1)
    return right, wrong, got


def _differences(logits: Floats, own: Ints) -> Floats:
    """Logit of the own class less that of every class."""
    return np.asarray(logits[np.arange(len(own)), own][:, None] - logits)
