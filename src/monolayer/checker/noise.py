"""How far noise on weights and rounding can move a robust model, and what follows for its answers. Lemmas R1 to R4.

*Noise* `η`: every stored weight `w` may be replaced by any number between `(1 − η) w` and `(1 + η) w`. A rounding is a
relative change too, so one share covers both: a term that passes `a` weights and `b` roundings changes by at most the
share `(1 + η)^a (1 + γ_b) − 1` of itself. All bounds are distances from the numbers that the checker computes in
binary64, and include the roundings of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.gates import Gated, Pairs
from monolayer.checker.labelled import PointVerdicts
from monolayer.checker.rounding import BINARY64, EXP_ULPS, PADDING, BinaryFormat, UnhandledError

ROBUST_UNDERFLOW = 2.0**-60
"""Bounds what all underflows together move a neuron or a logit, within the sizes that `read_gates` demands."""
LARGEST_SCORE = 32.0
"""Largest attention score that is covered: up to it no exp overflows, with or without a shift."""
LOGITS_AT_ONCE = 1 << 21
"""How many logits are compared at a time; it bounds memory, and no result depends on it."""


@dataclass(frozen=True)
class Shares:
    """Bounds on relative changes, for one noise `η` and one format (Lemma R1).

    `token`: of what a neuron reads from token, place and bias. `value`: of what attention averages. `read`: of what a
    neuron reads from the context. `sway`: of attention weights. `out`: of what reaches a logit.
    """

    token: float
    value: float
    read: float
    sway: float
    out: float

    @classmethod
    def of(cls, noise: float, gated: Gated, longest: int, fmt: BinaryFormat) -> Shares:
        """The shares of Lemma R1. `longest`: tokens of the longest sequence, not counting the begin token."""
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


def errors(pairs: Pairs, gated: Gated, shares: Shares) -> Floats:
    """Lemma R3: how far the value of each pair may be off `(Q,)`; infinite where the context may turn too far."""
    turn = PADDING * (shares.value * pairs.turn + shares.sway * pairs.sway)
    safe = np.minimum(turn, 0.5)
    across = (shares.value * pairs.across + shares.sway * pairs.mixed) / (1.0 - safe)
    along = pairs.along * (1.0 - np.sqrt(1.0 - safe**2))
    length = np.linalg.norm(gated.weight_context, axis=1)[pairs.neuron] * math.sqrt(gated.weight_context.shape[1])
    slip = 2.0**-50 * (gated.weight_context.shape[1] + 8) * length  # of `w⊥`, a difference
    read = shares.read * (pairs.context + 2.0 * safe / (1.0 - safe) * length)
    error = PADDING * (shares.token * pairs.token + across + along + read + slip) + ROBUST_UNDERFLOW
    return np.where(turn < 0.5, error, np.inf)


def silent(top: Floats, size: Floats, shares: Shares) -> bool:
    """Lemma R2: whether all neurons that were not looked at return 0; `top`, `size` `(H,)` are those of `LivePairs`."""
    share = max(shares.token, shares.read)
    return bool((top + PADDING * share * size + ROBUST_UNDERFLOW < 0.0).all())


class AwakeNeurons(NamedTuple):
    """The neurons that may be on at each of `R` points, `S` per point, and the interval that each value lies in.

    `(R, S)` each. Neuron number `H` stands for none: it writes nothing.
    """

    neuron: Ints
    low: Floats
    high: Floats


def point_verdicts(
    pairs: Pairs, error: Floats, gated: Gated, rows: Ints, wanted: Ints, shares: Shares
) -> PointVerdicts:
    """Lemma R4: judge points that answer at vocabulary rows `rows` `(M,)` and want the classes `wanted` `(M,)`.

    `pairs`, `error` `(Q,)`: pairs of a point and a neuron, and how far the value of each may be off.
    """
    low, high = np.maximum(pairs.value - error, 0.0), np.maximum(pairs.value + error, 0.0)
    on = high > 0.0
    count = np.bincount(pairs.point[on], minlength=len(rows))
    first = np.cumsum(count) - count  # pairs come in order of their points
    # Points where no neuron wakes get one more neuron, which writes nothing.
    H, C = len(gated.weight_2), len(gated.head)
    neuron, low, high = np.append(pairs.neuron[on], H), np.append(low[on], 0.0), np.append(high[on], 0.0)
    right, wrong, answer = np.zeros(len(rows), bool), np.zeros(len(rows), bool), np.full(len(rows), -1)

    # Points with at most one neuron: all that share row, neuron and class are judged at once, for the smallest interval
    # that holds theirs.
    few = np.flatnonzero((count <= 1) & (wanted >= 0))
    at = np.where(count[few] == 1, first[few], -1)
    pair, which = np.unique(rows[few] * C + wanted[few], return_inverse=True)
    key, inverse = np.unique(which * (H + 1) + neuron[at], return_inverse=True)
    least, most = np.full(len(key), np.inf), np.zeros(len(key))
    np.minimum.at(least, inverse, low[at])
    np.maximum.at(most, inverse, high[at])
    row, label = np.divmod(pair[key // (H + 1)], C)
    hull = AwakeNeurons((key % (H + 1))[:, None], least[:, None], most[:, None])
    right[few], wrong[few], answer[few] = (each[inverse] for each in _compare_logits(gated, row, label, hull, shares))
    # Points with several neurons, and those that the common interval leaves open, are judged one by one.
    for size in np.unique(count[count > 0]):
        some = np.flatnonzero((count == size) & (wanted >= 0) & ~right & ~wrong)
        slots = first[some][:, None] + np.arange(size)
        parts = AwakeNeurons(neuron[slots], low[slots], high[slots])
        right[some], wrong[some], answer[some] = _compare_logits(gated, rows[some], wanted[some], parts, shares)
    return PointVerdicts(right, wrong, answer)


def _compare_logits(gated: Gated, rows: Ints, wanted: Ints, awake: AwakeNeurons, shares: Shares) -> PointVerdicts:
    """Compare the logit of the wanted class `(R,)` with all others, at points that answer at `rows` `(R,)`."""
    neurons, low, high = awake
    head, size = gated.head, np.abs(gated.head)
    written = np.append(gated.weight_2, np.zeros((1, gated.weight_2.shape[1])), axis=0)
    right, wrong = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    answer = np.full(len(rows), -1)
    for begin in range(0, len(rows), max(1, LOGITS_AT_ONCE // len(head))):
        part = slice(begin, begin + max(1, LOGITS_AT_ONCE // len(head)))
        label, row = wanted[part], rows[part]
        base, sizes = gated.label[row], gated.label_size[row]
        gap = _differences(base @ head.T + gated.head_bias, label)
        room = np.zeros_like(gap)
        for slot in range(neurons.shape[1]):
            weight = written[neurons[part, slot]]
            slope = _differences(weight @ head.T, label)
            gap += slope * ((low[part, slot] + high[part, slot]) / 2.0)[:, None]
            room += np.abs(slope) * ((high[part, slot] - low[part, slot]) / 2.0)[:, None]
            sizes = sizes + np.abs(weight) * high[part, slot][:, None]
        each = sizes @ size.T + np.abs(gated.head_bias)
        room += PADDING * shares.out * (each + each[np.arange(len(label)), label][:, None]) + ROBUST_UNDERFLOW
        room *= PADDING
        mine = np.arange(len(label))
        worst = gap - room
        worst[mine, label] = np.inf
        best = gap + room
        best[mine, label] = np.inf
        right[part] = worst.min(axis=1, initial=np.inf) > 0.0
        wrong[part] = best.min(axis=1, initial=np.inf) < 0.0
        answer[part] = np.where(wrong[part], best.argmin(axis=1), -1)
    return PointVerdicts(right, wrong, answer)


def _differences(logits: Floats, own: Ints) -> Floats:
    """Logit of the class `own` `(R,)` minus that of every class `(R, C)`."""
    return np.asarray(logits[np.arange(len(own)), own][:, None] - logits)
