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
from monolayer.checker.gates import Gated, Pairs, live, read_gates, waking_pairs
from monolayer.checker.labelled import Labelled, LoadPoints, PointVerdicts
from monolayer.checker.network import Stored
from monolayer.checker.noise import Shares, errors, point_verdicts, silent
from monolayer.checker.rounding import BINARY32, BinaryFormat, UnhandledError
from monolayer.checker.short import SHORT_FORMATS, round_to
from monolayer.errors import DataError
from monolayer.theory.verdicts import Verdict

MOST_NOISE = 0.25
"""Largest noise that may be claimed, and up to which the largest proved noise is searched."""
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

    def ask(self, noise: float) -> PointVerdicts:
        """Judge all points at one noise. No point is right if a neuron that is not looked at may wake."""
        shares = Shares.of(noise, self.gated, self.longest, self.format)
        known = np.where(self.rows >= 0, self.wanted, -1)
        error = errors(self.found, self.gated, shares)
        result = point_verdicts(self.found, error, self.gated, self.rows.clip(0), known, shares)
        if not silent(self.top, self.size, shares):
            nothing = np.zeros(len(self.rows), dtype=bool)
            return PointVerdicts(nothing, nothing, np.full(len(self.rows), -1))
        return result

    def largest(self, at_least: float) -> float:
        """The largest noise that is proved, by bisection between `at_least`, which is proved, and `MOST_NOISE`."""
        low, high = max(at_least, 2.0**-20), MOST_NOISE
        if not self.ask(low).right.all():
            return at_least
        for _ in range(NOISE_BISECTIONS):
            middle = math.sqrt(low * high)
            if self.ask(middle).right.all():
                low = middle
            else:
                high = middle
        return low


def judge_gates(stored: Stored, parts: list[LoadPoints], claim: Certificate, claims: Claims) -> Certificate:
    """The certificate of a robust model.

    `parts`: the labelled points, one part only. `claim`: the certificate so far, undecided. `claims`: what is claimed
    besides the labels.
    """
    (part,), noise = parts, claims.noise
    points = part()
    question = question_of(stored, points)
    seen = question.ask(noise or 0.0)
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
        return replace(decided, noise=question.largest(noise or 0.0))
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
    parts = list(waking_pairs(gated, points, awake, causal, np.flatnonzero(whole)))
    none = Pairs(*np.zeros((2, 0), np.int64), *np.zeros((len(Pairs._fields) - 2, 0)))
    columns = [np.concatenate(column) for column in zip(none, *parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    pairs = Pairs(*(column[order] for column in columns))
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
