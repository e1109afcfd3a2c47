"""What is neither proved nor refuted by bounds is tried: a wrong answer of one evaluation refutes the claim.

A claim is about every evaluation that the assumptions allow, so one that returns another label than the data is enough.
The evaluation is the checker's own, in the arithmetic of the claim (`evaluation.py`, `stock/evaluation.py`).
*Undecided* is left for what is neither proved nor seen wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Claims, Finding
from monolayer.checker.evaluation import Evaluation
from monolayer.checker.labelled import Labelled, LoadPoints
from monolayer.checker.network import Stored
from monolayer.table import plural

SEEN = "in one evaluation in {}, carried out by the checker"
MOST_WORK = 1 << 32
"""About how many products an undecided claim may cost besides its proof: some seconds."""
TOGETHER = 1 << 20
"""About how many numbers of a stream, and of scores, are evaluated at a time."""


class Trial(NamedTuple):
    """What one evaluation returned: at how many points it was asked, how many are wrong, and the first of these."""

    points: int
    wrong: int
    findings: list[Finding]


def with_trial(decided: Certificate, arithmetic: str, trial: Callable[[], Trial]) -> Certificate:
    """The certificate `decided`, refuted if it is undecided and `trial` finds a wrong answer.

    `arithmetic`: that of the evaluation, in words.
    """
    if decided.verdict != "undecided":
        return decided
    ended = trial()
    how = SEEN.format(arithmetic)
    if ended.wrong:
        places = {(one.sequence, one.position) for one in ended.findings}
        others = [one for one in decided.findings if (one.sequence, one.position) not in places]
        return replace(
            decided,
            verdict="refuted",
            reason=f"{how}, the answer is another one at {ended.wrong:,} of {plural(ended.points, 'point')}. The "
            f"bounds alone do not decide: {decided.reason}",
            wrong=ended.wrong,
            unsure=max(0, decided.unsure - ended.wrong),
            findings=(*ended.findings, *others)[:MOST_FINDINGS],
        )
    if not ended.points:
        return decided
    tried = f"each of {ended.points:,} points" if ended.points > 1 else "the only point"
    words = f"{how}, {tried} that {'were' if ended.points > 1 else 'was'} tried gets its label"
    return replace(decided, measured=(*decided.measured, words))


def try_model(stored: Stored, parts: list[LoadPoints], claims: Claims, first: tuple[Finding, ...]) -> Trial:
    """Evaluate a saved model at labelled points, those of the findings `first` before others, as `MOST_WORK` allows."""
    network, left = Evaluation(stored), MOST_WORK
    points = wrong = before = 0
    findings = list[Finding]()
    for part in parts:
        asked = part()
        named = [one.sequence - before for one in first if 0 <= one.sequence - before < len(asked.data)]
        rows = np.unique(_sequence_of(asked, np.arange(len(asked))))
        work = partial(work_of, network, asked.labelling.at_tokens)
        for batch in batches(asked.data.lengths, rows, named, work, stored.config["width"], left):
            left -= batch.work
            label, bad, answer = _compared(stored, asked, batch, network, claims.tolerance or 0.0)
            points, wrong = points + len(label), wrong + int(bad.sum())
            for number in np.flatnonzero(bad)[: MOST_FINDINGS - len(findings)].tolist():
                findings.append(_finding(stored, asked, int(label[number]), answer[number], before))
        before += len(asked.data)
    return Trial(points, wrong, findings)


class Batch(NamedTuple):
    """Sequences `rows` `(B,)` of one length, about how many products they take, and their length."""

    rows: Ints
    work: int
    length: int


def batches(
    lengths: Ints, rows: Ints, named: list[int], work: Callable[[int], int], width: int, left: int
) -> Iterator[Batch]:
    """The sequences to try, in batches of one length: of `rows`, those that are `named` before others.

    `lengths` `(N,)`: of all sequences. `work`: about how many products a sequence of some length takes; all of them
    take at most `left`. `width`: that of the stream.
    """
    chosen = np.isin(rows, named)
    order = np.concatenate([rows[chosen], rows[~chosen]])
    works = {int(length): work(int(length)) for length in np.unique(lengths[order])}
    cost = np.array([works[int(length)] for length in lengths[order]], dtype=np.float64)
    order = order[np.cumsum(cost) <= left]
    for length in np.unique(lengths[order]).tolist():
        alike = np.sort(order[lengths[order] == length])
        step = max(1, TOGETHER // ((length + 1) * (length + 1 + width)))
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            yield Batch(some, len(some) * works[length], length)


def work_of(network: Evaluation, at_tokens: bool, length: int) -> int:
    """About how many products a sequence of `length` tokens takes, at all places that answer."""
    return network.work(length, length if at_tokens else 1)


def _sequence_of(asked: Labelled, label: Ints) -> Ints:
    """The sequence that each of the labels `label` belongs to."""
    place = label if asked.places is None else asked.places[label]
    return asked.labelling.rows(asked.data, place)


def _compared(
    stored: Stored, asked: Labelled, batch: Batch, network: Evaluation, tolerance: float
) -> tuple[Ints, Bools, Floats]:
    """The labels of the sequences of a batch `(K,)`, which of them do not come back, and what does `(K, C)`."""
    data = asked.data
    flat = data.offsets[batch.rows][:, None] + np.arange(batch.length)
    place = flat if asked.labelling.at_tokens else batch.rows[:, None]
    label = place if asked.places is None else np.searchsorted(asked.places, place)
    there = np.ones(place.shape, dtype=bool)
    if asked.places is not None:
        there = asked.places[label.clip(max=len(asked.places) - 1)] == place
    tokens = data.tokens if asked.rows is None else asked.rows
    at = np.arange(1, batch.length + 1) if asked.labelling.at_tokens else np.zeros(1, dtype=np.int64)
    logits = network.outputs(tokens[flat], at)[there]
    label = label[there]
    wanted = asked.wanted[label]
    if stored.classes is None:
        right = (np.abs(logits - wanted) <= tolerance if tolerance else logits == wanted).all(axis=1)
    else:
        wanted_logit = logits[np.arange(len(logits)), np.maximum(wanted, 0)]
        right = (wanted >= 0) & (logits <= wanted_logit[:, None]).all(axis=1)  # which NaN is not
    if stored.config["causal"]:  # 0, for what is masked, times NaN is NaN here, and need not be elsewhere
        right |= np.isnan(logits).any(axis=1)
    return label, ~right, logits


def _finding(stored: Stored, asked: Labelled, label: int, got: Floats, before: int) -> Finding:
    """The finding about label number `label`, which gets the outputs `got` `(C,)`."""
    answer: object = None
    if stored.classes is not None:
        answer = None if np.isnan(got).any() else stored.classes.names[int(got.argmax())]
    elif np.isfinite(got).all():  # JSON has no others, and a certificate is stored as JSON
        answer = got.tolist() if len(got) > 1 or not stored.config.get("scalar") else float(got[0])
    place = label if asked.places is None else int(asked.places[label])
    finding = asked.finding("wrong", label, place, answer)
    return replace(finding, sequence=finding.sequence + before, why=SEEN.format(stored.format.name))
