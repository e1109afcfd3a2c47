"""The verdict on a robust model: for the weights as stored, or for all weights within some noise of them.

a point  →  its row, its context, and the neurons that can wake there         gates.py
noise    →  how far each of these can be moved, and what follows for answers  noise.py
answers  →  each point is right, wrong or unsure
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Claims, Finding, Kind, rounded_down
from monolayer.checker.gates import Gated, Pairs, found_pairs, live, read_gates
from monolayer.checker.labelled import Labelled, LoadPoints, PointVerdicts
from monolayer.checker.network import Stored
from monolayer.checker.noise import Shares, errors, point_verdicts, silent
from monolayer.checker.rounding import BINARY32, BinaryFormat, UnhandledError
from monolayer.checker.short import SHORT_FORMATS, round_to
from monolayer.errors import DataError
from monolayer.theory.verdicts import Verdict

MOST_NOISE = 0.25
"""Largest noise that may be claimed, and up to which the largest proved noise is searched."""
LEAST_NOISE = 2.0**-20
"""Where that search begins, if no larger noise is claimed."""
NOISE_BISECTIONS = 10
"""Bisections of the logarithm of the noise in that search."""
GATES_REASONS: dict[Verdict, str] = {
    "proved": "at every point the logit of the label stays the largest, whatever the bound leaves open",
    "refuted": "points get another answer than their label, or none",
    "undecided": "for some points the error bound leaves room for more than one answer",
}


@dataclass(frozen=True, eq=False)
class Question:
    """A robust model and its `M` labelled points, prepared so that any noise can be judged quickly."""

    gated: Gated
    found: Pairs
    """All pairs of a point and a neuron that may wake there, in order of their points."""
    top: Floats
    size: Floats
    """Over the pairs not looked at, by neuron `(H,)`: the largest value, and the largest sum of absolute values."""
    rows: Ints
    """Vocabulary row that answers at each point `(M,)`; −1 where a token has no finite vector or a place no code."""
    wanted: Ints
    longest: int
    format: BinaryFormat

    def ask(self, noise: float, borne: Bools | None = None) -> PointVerdicts:
        """Judge all points at one noise. No point is right if a neuron that is not looked at may wake.

        `borne` `(M,)`: points that are proved right at a larger noise. They are right here too, since whatever a
        smaller noise makes of the weights, a larger one may make of them: they are not judged again.
        """
        right = np.zeros(len(self.rows), dtype=bool) if borne is None else borne.copy()
        wrong, got = np.zeros(len(right), dtype=bool), np.full(len(right), -1)
        shares = Shares.of(noise, self.gated, self.longest, self.format)
        if not silent(self.top, self.size, shares):
            return PointVerdicts(right, wrong, got)
        left, found, rows, wanted = ~right, self.found, self.rows, self.wanted
        if right.any():
            number, rows, wanted = np.cumsum(left) - 1, rows[left], wanted[left]
            some = left[found.point]
            found = Pairs._make(column[some] for column in found)
            found = found._replace(point=number[found.point])
        known = np.where(rows >= 0, wanted, -1)
        error = errors(found, self.gated, shares)
        right[left], wrong[left], got[left] = point_verdicts(found, error, self.gated, rows.clip(0), known, shares)
        return PointVerdicts(right, wrong, got)

    def largest(self, at_least: float, first: Bools | None = None) -> float:
        """The largest noise that is proved, by bisection between `at_least`, which is proved, and `MOST_NOISE`.

        `first`: the points that are right at `first_noise(at_least)`, if they are known already.
        """
        low, high = max(at_least, LEAST_NOISE), MOST_NOISE
        right = self.ask(first_noise(at_least)).right if first is None else first
        borne = np.zeros_like(right)  # right at `high`
        for turn in range(NOISE_BISECTIONS):
            middle = math.sqrt(low * high) if turn else first_noise(at_least)
            right = right if turn == 0 else self.ask(middle, borne).right
            if right.all():
                low = middle
                continue
            high, borne = middle, right
            if turn == 0 and not self.ask(low, borne).right.all():
                return at_least
        return low


def first_noise(at_least: float) -> float:
    """The first noise at which `Question.largest` asks."""
    return math.sqrt(max(at_least, LEAST_NOISE) * MOST_NOISE)


def judge_gates(stored: Stored, parts: list[LoadPoints], claim: Certificate, claims: Claims) -> Certificate:
    """The certificate of a robust model.

    `parts`: the labelled points, one part only. `claim`: the certificate so far, undecided. `claims`: what is claimed
    besides the labels.
    """
    (part,), noise = parts, claims.noise
    points = part()
    question = question_of(stored, points)
    # Most points bear more than is claimed, and are judged once: what is claimed is asked of the others alone.
    more = question.ask(first_noise(noise or 0.0)).right
    seen = question.ask(noise or 0.0, more)
    wrong = seen.wrong | (question.rows < 0) | (points.wanted < 0)
    unsure = ~wrong & ~seen.right
    kinds: list[tuple[Kind, Bools]] = [("wrong", wrong), ("unsure", unsure)]
    findings = [
        _finding(stored, points, kind, point, int(seen.got[point]))
        for kind, which in kinds
        for point in np.flatnonzero(which)[:MOST_FINDINGS].tolist()
    ]
    what = ": the logit of its class is the largest"
    if noise:
        what = f", for every change of each stored weight by at most {float(noise)!r} of itself{what}"
    if stored.short:
        what = f", with weights in {stored.config['dtype']}{what}"
    decided = claim.decided(int(wrong.sum()), int(unsure.sum()), findings, GATES_REASONS, claim=claim.claim + what)
    if decided:
        return replace(decided, noise=question.largest(noise or 0.0, more))
    less = question.largest(0.0) if noise and decided.verdict == "undecided" else 0.0
    way = f"; it would be proved for noise up to {rounded_down(less):.3g}"
    return replace(decided, reason=decided.reason + way) if less else decided


def question_of(stored: Stored, points: Labelled) -> Question:
    """Find the neurons that may wake at each labelled point, so that points can be judged at any noise."""
    gated = read_gates(stored, points.labelling.at_tokens)
    data, causal = points.data, bool(stored.config["causal"])
    answering = np.arange(points.labelling.count(data))
    answering = answering if points.places is None else points.places
    assert points.rows is not None  # examine_config allows gates for ids only
    token = points.rows
    known = (token >= 0) & gated.whole[token.clip(0)]
    if gated.positions:
        known &= data.position < len(gated.place)
    seen = np.logical_and.reduceat(known, data.offsets[:-1])
    if causal and (known[data.offsets[:-1]] & ~seen).any():
        raise UnhandledError("a token without a vector is masked from other tokens, but 0 times NaN is NaN")
    whole = seen[points.labelling.rows(data, answering)]
    rows = token[answering] if points.labelling.at_tokens else np.full(len(answering), len(gated.own) - 1)
    rows = np.where(whole, rows, -1)
    asked = np.zeros(len(gated.own), dtype=bool)
    asked[rows[rows >= 0]] = True
    awake = live(gated, asked)
    pairs = found_pairs(gated, points, awake, causal, rows)
    longest = int(data.lengths.max())
    return Question(gated, pairs, awake.top, awake.size, rows, points.wanted, longest, stored.format)


def _finding(stored: Stored, points: Labelled, kind: Kind, point: int, got: int) -> Finding:
    """The finding about labelled point number `point`; `got`: the class that it gets, −1 if that is not known."""
    answering = point if points.places is None else int(points.places[point])
    name = stored.classes.names[got] if got >= 0 and stored.classes is not None else None
    return points.finding(kind, point, answering, name, "the error bound leaves room for another class")


# -- short formats ------------------------------------------------------------------------------------------


def in_short_format(stored: Stored, dtype: str) -> Stored:
    """The model with every tensor rounded to the short format `dtype`, to be evaluated in binary32."""
    if dtype not in SHORT_FORMATS:
        raise DataError(f"dtype must be one of {', '.join(map(repr, SHORT_FORMATS))}, not {dtype!r}")
    tensors = {name: round_to(tensor, dtype) for name, tensor in stored.tensors.items()}
    return replace(stored, tensors=tensors, config=stored.config | {"dtype": dtype}, format=BINARY32)
