"""The verdict on a line: every labelled point through the readout, its answer beside its label.

Data are a list of parts; one is the common case. A point is judged by itself, given the staircases, so files are judged
one after the other, and what a certificate says of all points together (counts, the tightest margin, the first few
findings) is joined in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints, slices
from monolayer.checker.certificate import NAMED, Certificate, Claims, Finding, Verdict
from monolayer.checker.codes import read_attention, read_stream
from monolayer.checker.labelled import UNSURE, Labelled, Points, real
from monolayer.checker.network import Stored
from monolayer.checker.only import CLAIM as CLAIM_ONLY
from monolayer.checker.only import leftover, remembered
from monolayer.checker.readout import Staircase, check_nearest, copies, nearest, read_staircase
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.stages import Evaluated, evaluate

REASONS: dict[Verdict, str] = {
    "proved": "all evaluations of a point end on one plateau of the readout, and it has the right label",
    "refuted": "points get another answer than their label, or none, in every evaluation",
    "undecided": "for some points the error bound leaves room for more than one answer",
}
BESIDE = "a masked token has no finite vector, and 0 times NaN is NaN in a dense product"


def judge_line(stored: Stored, parts: list[Points], question: Certificate, claims: Claims) -> Certificate:
    """The certificate for all parts; `question` is what is still open. `only` is asked of one part alone."""
    read_attention(stored)  # which says more plainly than the readout what is wrong
    stairs = [read_staircase(stored, stage) for stage in range(1, stored.stages + 1)]
    return judge_stairs(stored, stairs, parts, question, claims)


def judge_stairs(
    stored: Stored, stairs: list[Staircase], parts: list[Points], question: Certificate, claims: Claims
) -> Certificate:
    """The same for any readout whose stages are constant between thresholds, as `stairs` says."""
    tolerance = claims.tolerance
    judged, before = [], 0
    for part in parts:
        points = part()
        stream = read_stream(stored, points.data, points.rows)
        found = evaluate(stored, points, stream, stairs)
        judged.append(_judge(stored, points, found, tolerance or 0.0, before))
        before += len(points.data)
    claim = ": the logit of its class is the largest"
    if stored.config["target"] == "reals":
        claim = f" to within {tolerance:.3g}" if tolerance else ": the answer equals it"
    decided = _joined(replace(question, claim=question.claim + claim), judged)
    return _nothing_else(stored, points, found, decided) if claims.only else decided


def _nothing_else(stored: Stored, points: Labelled, found: Evaluated, decided: Certificate) -> Certificate:
    """The same with the further claim that the model holds nothing but the data."""
    decided = replace(decided, claim=decided.claim + CLAIM_ONLY)
    if not decided:
        return decided
    labels = points.wanted[found.order].reshape(len(points), -1).T.astype(np.float64)
    extra = leftover(stored, found.first, labels, points.rows) or remembered(stored, points.data, points.rows)
    if extra is None:
        return decided
    reason = f"every label comes back, but the model holds more than the data: {extra}"
    return replace(decided, verdict="refuted", reason=reason, label_error=None)


# -- answers beside labels ---------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Points `(M,)` that surely get their label, or surely another; how far the label coordinates are from the label
    at most; and what the model answers, by name."""

    right: Bools
    wrong: Bools
    distance: Floats
    got: Callable[[int], Any]


Compare = Callable[[Any, Evaluated], Comparison]
"""From the labels `(M,)` or `(M, m)` of points, and what was found of them."""


def _comparison(stored: Stored, tolerance: float) -> Compare:
    """How the answers of a model are compared with labels, once its head is one that the proofs cover."""
    if stored.config["target"] == "reals":
        if not copies(stored):
            raise UnhandledError("the head does not copy the label slots")
        return partial(_compare_reals, stored, tolerance)
    check_nearest(stored)
    return partial(_compare_classes, stored)


def _compare_classes(stored: Stored, wanted: Ints, found: Evaluated) -> Comparison:
    """Classes: what the head makes of the label coordinate (Lemma 10). A class that the model lacks is wrong."""
    answer = nearest(stored, found.value[0])
    names = stored.classes.names if stored.classes is not None else ()
    known = found.sure & (answer >= 0)
    return Comparison(
        known & (answer == wanted),
        (known & (answer != wanted)) | (wanted < 0),
        np.abs(found.value[0] - wanted),
        lambda i: names[answer[i]] if answer[i] >= 0 else None,
    )


def _compare_reals(stored: Stored, tolerance: float, wanted: Floats, found: Evaluated) -> Comparison:
    """Real labels: equal (Lemma 12), or within the tolerance that was asked for."""
    value, wanted = found.value, wanted.T
    distance, same = PADDING * np.abs(value - wanted), value == wanted  # a difference may underflow
    return Comparison(
        found.sure & (same | ((distance <= tolerance) & (tolerance > 0.0))).all(axis=0),
        found.sure & (~same & (distance / PADDING**2 > tolerance)).any(axis=0),
        distance.max(axis=0),
        lambda i: real(value[:, i], bool(stored.config.get("scalar"))),
    )


# -- parts -------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """What was found in some of the data. `margin`: the least, and where; `distance`, `largest`: of answers and real
    labels; `settled`: every point has a sure answer."""

    wrong: int
    unsure: int
    findings: dict[str, list[Finding]]
    margin: tuple[float, str]
    distance: float
    largest: float
    settled: bool


def _judge(stored: Stored, points: Labelled, found: Evaluated, tolerance: float, before: int) -> Part:
    """Every labelled point of a part; `before`: sequences in the parts before it."""
    compare, wanted = _comparison(stored, tolerance), points.wanted[found.order]
    wrong, unsure = (np.empty(len(wanted), dtype=bool) for _ in range(2))
    distance, settled = -np.inf, True
    for part in slices(len(wanted)):
        some, seen = found.at(part), compare(wanted[part], found.at(part))
        wrong[part] = ~some.number | seen.wrong
        unsure[part] = ~wrong[part] & (~seen.right | some.beside)
        distance = np.maximum(distance, seen.distance.max())
        settled &= bool((some.sure & some.number & (wrong[part] | ~some.beside)).all())
    named: dict[str, list[Finding]] = {"wrong": [], "unsure": []}
    for kind, which in (("wrong", wrong), ("unsure", unsure)):
        places = np.flatnonzero(which)
        first = places[np.argsort(found.order[places])[:NAMED]]
        some, seen = found.at(first), compare(wanted[first], found.at(first))
        for i in range(len(first)):
            got, doubt = seen.got(i) if some.number[i] else None, BESIDE if some.beside[i] else UNSURE
            finding = points.finding(kind, int(some.order[i]), int(some.answering[i]), got, doubt)
            named[kind].append(replace(finding, sequence=finding.sequence + before))
    # The point with the least margin; of several that have it, such as copies of one, the first in the data.
    least = np.flatnonzero(found.margin <= found.margin.min())
    tightest = int(least[np.argmin(found.order[least])])
    return Part(
        wrong=int(wrong.sum()),
        unsure=int(unsure.sum()),
        findings=named,
        margin=(float(found.margin[tightest]), points.place(int(found.answering[tightest]), before)),
        distance=float(distance),
        largest=float(np.abs(wanted).max()) if stored.config["target"] == "reals" else 0.0,
        settled=settled,
    )


def _joined(question: Certificate, parts: list[Part]) -> Certificate:
    """The certificate of all parts together."""
    margin, where = min((part.margin for part in parts), key=lambda one: one[0])
    stepped, far = bool(np.isfinite(margin)), max(part.distance for part in parts)
    found = question.decided(
        sum(part.wrong for part in parts),
        sum(part.unsure for part in parts),
        [finding for kind in ("wrong", "unsure") for part in parts for finding in part.findings[kind]],
        REASONS,
        margin=margin if stepped else None,
        margin_at=where if stepped else None,
    )
    near = all(part.settled for part in parts) and 0.0 < far <= 2.0**-10 * max(part.largest for part in parts)
    if not found and near:  # real labels that are merely not equal
        way = f"to within {1.01 * far:.3g} it would be proved: tolerance={1.01 * far:.3g} (--tolerance)"
        return replace(found, reason=f"{found.reason}; {way}")
    return replace(found, label_error=far if found else None)
