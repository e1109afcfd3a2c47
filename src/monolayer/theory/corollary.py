"""Corollary 1 carried out: the paper's whole network on given data, in balls and in float64.

The head of Theorem 2 projects tokens by `good_direction`; the readout reads along the same direction (network.py). The
network needs as many bits as the closest two points ask for: in balls of that precision every label can be proved; in
float64 many points have one and the same output, and no readout at all can tell their labels apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from flint import arb

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.errors import DataError
from monolayer.theory.balls import Ball, precision
from monolayer.theory.boltzmann import boltzmann
from monolayer.theory.bounds import (
    MappingConstants,
    contextual_constants,
    corollary1_counts,
    good_direction,
    sharper_constants,
    theorem2,
)
from monolayer.theory.contextual import context_classes
from monolayer.theory.faithful import PaperHead
from monolayer.theory.network import PaperNetwork, Point, Readout, paper_head
from monolayer.theory.separation import on_a_line, separation, token_rows

Scale = Literal["paper", "measured", "sharper"]
"""Which β: of the paper's worst case, for the direction at hand, or for it by our Lemma 1."""

COROLLARY_MAX_BITS = 1 << 17
MOST_BITS = 1 << 28
"""Bits of all exponentials together, up to which balls are tried: one exponential per pair of tokens of a sequence."""
DIGITS = 2.0**-20
"""Share of the largest label within which real labels come back. Classes do within ½."""


@dataclass(frozen=True)
class Corollary:
    """Corollary 1 on given data.

    `verdict`: whether every label is proved to come back in balls of `bits` bits (`undecided`: not within the limits,
    and `reason` says which). `parameters` are the numbers of the network, `formula` what the paper counts for them, and
    `delta_bits` the bits of a number that the promised δ asks for. `possible`: share of labels that the best readout
    could return from the head's outputs in float64; `distinct`: different outputs in float64, of `points`.
    """

    points: int
    parameters: int
    formula: int
    verdict: Literal["proved", "undecided"]
    reason: str
    bits: int
    delta_bits: int
    log10_beta: float
    distinct: int
    possible: float


class Task(NamedTuple):
    """What is built from: tokens `(V, d)`, different points, and their labels `(M, m)`; the head as exact numbers.

    Labels are to come back within `tolerance`. `constants` are those that Theorem 2 promises for this head.
    """

    vocabulary: Floats
    points: list[Point]
    labels: Floats
    tolerance: float
    direction: Floats
    beta: Ball
    weight: Ball
    constants: MappingConstants


def corollary1(
    X: object,
    Y: object = None,
    *,
    scale: Scale = "paper",
    head_size: int = 1,
    seed: int = 0,
    max_bits: int = COROLLARY_MAX_BITS,
) -> Corollary:
    """The paper's network for `X` with one label per token, `Y`: built, proved in balls, and tried in float64.

    Tokens are ids, the i-th of which stands at `|V| + i`, or vectors; no sequence repeats a token. Labels are classes,
    or vectors of real numbers.

    - `scale`: which β.
    - `head_size`: rows of `W_K`, `W_Q` and `W_V`. The network computes the same with every size; it stores more.
    - `seed`: of the random direction `v`.
    - `max_bits`: the largest precision; it doubles up to there.
    """
    task = task_of(Sequences.of(X, Y), scale, seed)
    proof = prove(task, head_size=head_size, max_bits=max_bits)
    outputs, (points, m) = _outputs(task), task.labels.shape
    formula = corollary1_counts(points, task.vocabulary.shape[1], m, head_size)[0]
    return Corollary(
        points=points,
        parameters=formula if proof.network is None else proof.network.parameters,
        formula=formula,
        verdict="undecided" if proof.network is None else "proved",
        reason=proof.reason,
        bits=proof.bits,
        delta_bits=task.constants.bits or 0,
        log10_beta=task.constants.log10_beta,
        distinct=len(distinct_rows(outputs)[0]),
        possible=possible(outputs, np.unique(task.labels, axis=0, return_inverse=True)[1].reshape(-1)),
    )


def task_of(data: Sequences, scale: Scale, seed: int = 0) -> Task:
    """The different points of `data` with their labels, and the head of Theorem 2 with the β of `scale`."""
    if data.vocabulary is not None:
        data = on_a_line(data)
    measured, labels = separation(data), data.labels
    if measured.broken:
        raise DataError(f"the hypotheses of Theorem 2 do not hold: {'; '.join(measured.broken)}")
    if measured.vocabulary < 2:
        raise DataError("there is one token only: nothing to separate")
    if labels is None or not labels.labelling.at_tokens or labels.place is not None:
        raise DataError("give one label per token, to every token")
    classes = context_classes(data)
    first = np.unique(classes, return_index=True)[1]
    if (labels.values != labels.values[first][classes]).any():
        raise DataError("equal points have different labels: the data contradict themselves")
    values = labels.values[first].reshape(len(first), -1).astype(np.float64)
    vocabulary, rows = token_rows(data)
    contexts = data.split(rows)
    points = [Point(int(rows[i]), tuple(contexts[data.sequence[i]].tolist())) for i in first]
    direction = good_direction(vocabulary, seed=seed)
    if direction.gap == 0.0:
        raise DataError("vᵀ has one value at two tokens; another seed draws another direction")
    r_min, r_max, epsilon = strict = measured.strict()
    n, (size, d) = measured.longest, vocabulary.shape
    head = PaperHead(data, vocabulary, rows, direction.v, strict)
    with precision(64):
        if scale == "paper":
            beta, log_delta = theorem2(size, d, n, r_min, r_max, epsilon)
        else:
            bounds = contextual_constants if scale == "measured" else sharper_constants
            beta, log_delta = bounds(n, head.g(), head.largest(), r_max, epsilon)
        beta, weight = beta.upper().mid(), (arb(epsilon) / (4 * arb(r_max))).mid()
    return Task(
        vocabulary=vocabulary,
        points=points,
        labels=values,
        tolerance=0.5 if labels.classes is not None else DIGITS * float(np.abs(values).max()),
        direction=direction.v,
        beta=beta,
        weight=weight,
        constants=MappingConstants(float(beta.log()), r_max + epsilon / 4, float(log_delta)),
    )


class Proof(NamedTuple):
    """The network that is proved, None if there is none; the last precision tried, and why it ended there."""

    network: PaperNetwork | None
    bits: int
    reason: str


def prove(task: Task, *, head_size: int = 1, max_bits: int = COROLLARY_MAX_BITS, closed: bool = False) -> Proof:
    """Build the network at 256 bits, 512 and so on, until each label is proved to come back within the tolerance.

    `closed`: readouts have one neuron more, as `Readout.through` says.
    """
    pairs, bits = len({(token, other) for token, context in task.points for other in context}), 0
    asked = f"δ asks for {task.constants.bits or 0:,} bits"
    for tried in (1 << power for power in range(8, max_bits.bit_length())):
        if pairs * tried > MOST_BITS:
            words = f"{pairs:,} exponentials of {tried:,} bits each are more than {MOST_BITS:,} bits; {asked}"
            return Proof(None, bits, words)
        bits = tried
        with precision(bits):
            network = _built(task, head_size, closed)
            if network is not None:
                return Proof(network, bits, "every label is enclosed within its tolerance")
    return Proof(None, bits, f"no proof within max_bits = {max_bits:,}; {asked}")


def _built(task: Task, head_size: int, closed: bool) -> PaperNetwork | None:
    """The network at the precision in force; None if it is not proved to return every label."""
    head = paper_head(task.direction, task.beta, task.weight, head_size)
    a = head.value.right
    ids = head.ids(a, task.vocabulary, task.points)
    order = sorted(range(len(ids)), key=lambda i: ids[i].mid())
    ids = [ids[i] for i in order]
    if not all(one < two for one, two in pairwise(ids)):
        return None
    readouts = []
    for column in task.labels.T.tolist():
        wanted = [arb(column[i]) for i in order]
        readout = Readout.through(a, [z.mid() for z in ids], wanted, closed=closed)
        if not returns(readout, ids, wanted, task.tolerance):
            return None
        readouts.append(readout)
    return PaperNetwork(head, readouts)


def returns(readout: Readout, ids: Sequence[Ball], wanted: Sequence[Ball], tolerance: float) -> bool:
    """Whether the readout is within `tolerance` of what is `wanted` on all of the ball of every id; ids rise."""
    return all(
        bool(abs(answer - label) < tolerance) for answer, label in zip(readout.answers(ids), wanted, strict=True)
    )


def _outputs(task: Task) -> Floats:
    """The head's outputs `(M, d)` in float64."""
    v, weight = task.direction / np.linalg.norm(task.direction), float(task.weight)
    s = task.vocabulary @ v
    tokens = np.array([point.token for point in task.points])
    # Theorem 2's hypotheses hold, so all sequences have one length.
    contexts = np.array([point.context for point in task.points])
    average = boltzmann(float(task.beta) * s[tokens], s[contexts])
    outputs: Floats = task.vocabulary[tokens] + weight * np.outer(average, v)
    return outputs


def possible(ids: Floats, label: Ints) -> float:
    """Share of labels `(M,)` that the best readout returns, with one answer per id: its most frequent label.

    An id is a number, or a row of `(M, p)`.
    """
    _, rows = distinct_rows(ids.reshape(len(label), -1))
    pairs, count = np.unique(rows * (int(label.max()) + 1) + label, return_counts=True)
    most = np.zeros(int(rows.max()) + 1, np.int64)
    np.maximum.at(most, pairs // (int(label.max()) + 1), count)
    return float(most.sum()) / len(label)
