"""The verdict on a line or a cascade: every labelled point through the readout, its answer beside its label.

Data are a list of parts; one is the common case. A point is judged by itself, given the staircases, so files are judged
one after the other, and what a certificate says of all points together (counts, the tightest margin, the first few
findings) is joined in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import NAMED, Certificate, Finding, Verdict
from monolayer.checker.codes import Stream, largest_numbers, read_attention, read_stream
from monolayer.checker.labelled import Labelled, real
from monolayer.checker.only import CLAIM as CLAIM_ONLY
from monolayer.checker.only import CLAIM_STAGES, leftover, remembered
from monolayer.checker.readout import answers, copies, read_staircase
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.stages import Evaluated, evaluate
from monolayer.checker.stored import Stored

Points = Callable[[], Labelled]
"""A part of the labelled points, read anew every time it is asked for."""
Progress = Callable[[str, float], None]
REASONS: dict[Verdict, str] = {
    "proved": "all evaluations of a point end on one plateau of the readout, and it has the right label",
    "refuted": "points get another answer than their label, or none, in every evaluation",
    "undecided": "for some points the error bound leaves room for more than one answer",
}


def judge_line(
    stored: Stored,
    parts: list[Points],
    question: Certificate,
    *,
    tolerance: float | None = None,
    only: bool = False,
    progress: Progress = lambda stage, share: None,
) -> Certificate:
    """The certificate for all parts; `question` is what is still open. `only` is asked of one part alone."""
    reach: tuple[float, ...] = ()
    if len(parts) > 1:
        reach = tuple(map(max, zip(*(largest_numbers(stored, part()) for part in parts), strict=True)))
    read_attention(stored)  # which says more plainly than the readout what is wrong
    stairs = [read_staircase(stored, stage) for stage in range(1, stored.stages + 1)]
    judged, before = [], 0
    for number, part in enumerate(parts):
        progress("checking", 0.5 + 0.5 * number / len(parts))
        points = part()
        stream = read_stream(stored, points.data, points.rows)
        if reach:
            stream = stream._replace(key=replace(stream.key, reach=max(stream.key.reach, reach[0])))
        found = evaluate(stored, points, stream, stairs, reach)
        judged.append(_judge(stored, points, stream, found, tolerance, before))
        before += len(points.data)
    decided = _joined(question, judged)
    return _nothing_else(stored, points, found, decided) if only else decided


def _nothing_else(stored: Stored, points: Labelled, found: Evaluated, decided: Certificate) -> Certificate:
    """The same with the further claim that the model holds nothing but the data."""
    decided = replace(decided, claim=decided.claim + (CLAIM_ONLY if stored.stages == 1 else CLAIM_STAGES))
    if not decided:
        return decided
    labels = points.wanted[found.order].reshape(len(points), -1).T.astype(np.float64)
    extra = leftover(stored, found.stages, labels, points.rows) or remembered(stored, points.data, points.rows)
    if extra is None:
        return decided
    reason = f"every label comes back, but the model holds more than the data: {extra}"
    return replace(decided, verdict="refuted", reason=reason, label_error=None)


# -- answers beside labels ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """Points `(M,)` that surely get their label, surely another, or have one that the model lacks.

    `distance` bounds how far the label coordinates are from the label; `claim` completes the claim; `why` says of a
    point what speaks against it besides its place on the line; `largest` is the largest real label.
    """

    right: Bools
    wrong: Bools
    lacking: Bools
    distance: Floats
    got: Callable[[int], Any]
    claim: str
    largest: float = 0.0
    why: Callable[[int], str | None] = lambda i: None


def _compare_classes(stored: Stored, wanted: Ints, value: Floats, doubt: Floats) -> Comparison:
    """Classes: what the head makes of the label coordinate (Lemma 10)."""
    answer = answers(stored, value[0], doubt[0])
    names = stored.classes.names if stored.classes is not None else ()
    return Comparison(
        right=(answer == wanted) & (answer >= 0),
        wrong=(answer != wanted) & (answer >= 0),
        lacking=wanted < 0,
        distance=np.abs(value[0] - wanted) + doubt[0],
        got=lambda i: names[answer[i]] if answer[i] >= 0 else None,
        claim=": the logit of its class is the largest",
    )


def _compare_reals(stored: Stored, wanted: Floats, value: Floats, doubt: Floats, tolerance: float | None) -> Comparison:
    """Real labels: equal (Lemma 12), or within the tolerance that was asked for."""
    if not copies(stored):
        raise UnhandledError("the head does not copy the label slots")
    allowed, wanted = tolerance or 0.0, wanted.T
    distance = PADDING * np.abs(value - wanted)
    same = (value == wanted) & (doubt == 0.0)  # a difference may underflow: equality is asked of the numbers themselves
    tiny = (value == wanted) & (doubt > 0.0) & (doubt < 8.0 * stored.format.tiny)
    return Comparison(
        right=np.logical_and.reduce(same | ((distance + doubt <= allowed) & (allowed > 0.0))),
        wrong=np.logical_or.reduce((value != wanted) & (distance / PADDING**2 - doubt > allowed)),
        lacking=np.zeros(len(wanted.T), dtype=bool),
        distance=(distance + doubt).max(axis=0),
        got=lambda i: real(value[:, i], bool(stored.config.get("scalar"))),
        claim=": the answer equals it" if allowed == 0.0 else f" to within {allowed:.3g}",
        largest=float(np.abs(wanted).max()),
        why=lambda i: (
            "its label is subnormal, and an evaluation may flush it to zero"
            if tiny[:, i].any()
            else "the readout rounds, and the error bound leaves room for more than this number"
        ),
    )


# -- parts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """What was found in some of the data. `margin`: the least, and where; `distance`, `largest`: of real answers and
    labels; `settled`: every point has a sure answer; `blank`: an answer beside a masked token without a vector."""

    wrong: int
    unsure: int
    findings: dict[str, list[Finding]]
    margin: tuple[float, str]
    distance: float
    largest: float
    settled: bool
    claim: str
    blank: str | None


def _judge(
    stored: Stored, points: Labelled, stream: Stream, found: Evaluated, tolerance: float | None, before: int
) -> Part:
    """Every labelled point of a part; `before`: sequences in the parts before it."""
    wanted, given = points.wanted[found.order], (found.value, found.doubt)
    if stored.config["target"] == "classes":
        seen = _compare_classes(stored, wanted, *given)
    else:
        seen = _compare_reals(stored, wanted, *given, tolerance)
    wrong = ~found.number | (seen.wrong & found.sure) | seen.lacking
    unsure = ~wrong & ~(seen.right & found.sure)
    named: dict[str, list[Finding]] = {"wrong": [], "unsure": []}
    for kind, which in (("wrong", wrong), ("unsure", unsure)):
        places = np.flatnonzero(which)
        for i in places[np.argsort(found.order[places])[:NAMED]].tolist():
            got, why = seen.got(i) if found.number[i] else None, seen.why(i) if found.sure[i] else None
            finding = points.finding(kind, int(found.order[i]), int(found.answering[i]), got, why)
            named[kind].append(replace(finding, sequence=finding.sequence + before))
    # The point with the least margin; of several that have it, such as copies of one, the first in the data.
    least = np.flatnonzero(found.margin <= found.margin.min())
    tightest = int(least[np.argmin(found.order[least])])
    return Part(
        wrong=int(wrong.sum()),
        unsure=int(unsure.sum()),
        findings=named,
        margin=(float(found.margin[tightest]), points.place(int(found.answering[tightest]), before)),
        distance=float(seen.distance.max()),
        largest=seen.largest,
        settled=bool((found.sure & found.number).all()),
        claim=seen.claim,
        blank=_beside_blank(points, stream, found.answering, before),
    )


def _beside_blank(points: Labelled, stream: Stream, answering: Ints, before: int) -> str | None:
    """An answer beside a masked token without a vector, in words: in a dense product 0 times NaN is NaN."""
    blank = np.flatnonzero(np.isnan(stream.key.flat))
    if len(blank) == 0:
        return None
    rows = points.data.sequence[answering] if points.per_token else answering
    beside = blank[np.isin(points.data.sequence[blank], rows)]
    if len(beside) == 0:
        return None
    row, position = points.data.place(int(beside[0]))
    where = f"token {position} of sequence {row + before}"
    return f"{where} has no finite vector; it is masked, but 0 times NaN is NaN in a dense product"


def _joined(question: Certificate, parts: list[Part]) -> Certificate:
    """The certificate of all parts together."""
    wrong, unsure = sum(part.wrong for part in parts), sum(part.unsure for part in parts)
    blank = next((part.blank for part in parts if part.blank is not None), None)
    if not wrong and blank is not None:
        raise UnhandledError(blank)
    margin, where = min((part.margin for part in parts), key=lambda one: one[0])
    stepped, far = bool(np.isfinite(margin)), max(part.distance for part in parts)
    found = question.decided(
        wrong,
        unsure,
        [finding for kind in ("wrong", "unsure") for part in parts for finding in part.findings[kind]],
        REASONS,
        claim=question.claim + parts[0].claim,
        margin=margin if stepped else None,
        margin_at=where if stepped else None,
    )
    largest, settled = max(part.largest for part in parts), all(part.settled for part in parts)
    if not found and settled and 0.0 < far <= 2.0**-10 * largest:  # real labels that are merely not equal
        way = f"to within {1.01 * far:.3g} it would be proved: tolerance={1.01 * far:.3g} (--tolerance)"
        return replace(found, reason=f"{found.reason}; {way}")
    return replace(found, label_error=far if found else None)
