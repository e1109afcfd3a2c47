"""Data as a list of parts, one being the common case: what is found in each, and the one place that joins them.

A point is judged by itself, given the staircases. So files are judged one after the other, and what a certificate says
of all points together (counts, the tightest margin, the first few findings) is joined in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import NAMED, Certificate, Finding, Verdict
from monolayer.checker.codes import Stream
from monolayer.checker.compare import compare_classes, compare_reals, way_out
from monolayer.checker.labelled import Labelled
from monolayer.checker.readout import Staircase
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stages import Line, evaluate
from monolayer.checker.stored import Stored

REASONS: dict[Verdict, str] = {
    "proved": "all evaluations of a point end on one plateau of the readout, and it has the right label",
    "refuted": "points get another answer than their label, or none, in every evaluation",
    "undecided": "for some points the error bound leaves room for more than one answer",
}


@dataclass(frozen=True, eq=False)
class Part:
    """What was found in some of the data. `order` `(M,)`: labelled points in the order in which they were judged.

    `margin`: the least, and where; `distance`, `largest`: of real answers and labels; `blank`: an answer beside a
    masked token without a vector; `asked`: keys of points too close for binary64, stage by stage.
    """

    order: Ints
    wrong: int
    unsure: int
    findings: dict[str, list[Finding]]
    margin: tuple[float, str]
    distance: float
    claim: str
    blank: str | None
    asked: list[int]
    largest: float
    settled: bool


def judge_part(
    stored: Stored,
    points: Labelled,
    stream: Stream,
    *,
    tolerance: float | None = None,
    stairs: list[Staircase] | None = None,
    limits: list[int] | None = None,
    lines: list[Line] | None = None,
    offset: int = 0,
) -> Part:
    """Every labelled point of a part. `stairs`, `limits`, `lines`: as for `evaluate`; `offset`: sequences before it."""
    asked: list[int] = []
    found = evaluate(stored, points, stream, stairs, limits, asked, lines)
    compare = compare_classes if stored.config["target"] == "classes" else compare_reals
    seen = compare(stored, points.wanted[found.order], found.value, found.doubt, tolerance)
    wrong = ~found.number | (seen.wrong & found.sure) | seen.lacking
    unsure = ~wrong & ~(seen.right & found.sure)
    named: dict[str, list[Finding]] = {}
    for kind, which in (("wrong", wrong), ("unsure", unsure)):
        named[kind] = []
        for i in _first_few(which, found.order):
            got, why = seen.got(i) if found.number[i] else None, seen.why(i) if found.sure[i] else None
            finding = points.finding(kind, int(found.order[i]), int(found.answering[i]), got, why)
            named[kind].append(replace(finding, sequence=finding.sequence + offset))
    tightest = _least(found.margin, found.order)
    return Part(
        order=found.order,
        wrong=int(wrong.sum()),
        unsure=int(unsure.sum()),
        findings=named,
        margin=(float(found.margin[tightest]), _place(points, int(found.answering[tightest]), offset)),
        distance=float(seen.distance.max()),
        claim=seen.claim,
        blank=_without_number(points, stream, found.answering, offset),
        asked=asked,
        largest=seen.largest,
        settled=bool((found.sure & found.number).all()),
    )


def joined(question: Certificate, parts: list[Part]) -> Certificate:
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
    way = way_out(far, max(part.largest for part in parts), found.verdict, all(part.settled for part in parts))
    return replace(found, reason=found.reason + way, label_error=far if found else None)


def _place(points: Labelled, answering: int, offset: int) -> str:
    """The token or sequence that answers, in words, by its number in all of the data."""
    if not points.per_token:
        return f"sequence {answering + offset}"
    row, position = points.data.place(answering)
    return f"token {position} of sequence {row + offset}"


def _without_number(points: Labelled, stream: Stream, answering: Ints, offset: int) -> str | None:
    """An answer beside a masked token without a vector, in words: in a dense product 0 times NaN is NaN."""
    blank = np.flatnonzero(np.isnan(stream.key))
    if len(blank) == 0:
        return None
    rows = points.data.sequence[answering] if points.per_token else answering
    beside = blank[np.isin(points.data.sequence[blank], rows)]
    if len(beside) == 0:
        return None
    row, position = points.data.place(int(beside[0]))
    where = f"token {position} of sequence {row + offset}"
    return f"{where} has no finite vector; it is masked, but 0 times NaN is NaN in a dense product"


def _least(margin: Floats, order: Ints) -> int:
    """The point with the least margin; of several that have it, such as copies of one, the first in the data."""
    places = np.flatnonzero(margin <= margin.min())
    return int(places[np.argmin(order[places])])


def _first_few(found: Bools, order: Ints) -> list[int]:
    """The first few points found, in the order of the data."""
    places = np.flatnonzero(found)
    some: list[int] = places[np.argsort(order[places])[:NAMED]].tolist()
    return some
