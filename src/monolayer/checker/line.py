"""The verdict on a line: the answer at every labelled point is compared with its label.

Data are a list of parts, mostly one. Given the staircases, each point is judged by itself. So files are judged one
after the other, and what a certificate says about all points (counts, the tightest margin, the first few findings) is
joined at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np

from monolayer.arrays import Bools, Floats, Ints, slices
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Claims, Finding, Kind
from monolayer.checker.codes import read_attention, read_stream
from monolayer.checker.labelled import UNSURE, Labelled, LoadPoints, real
from monolayer.checker.network import Stored
from monolayer.checker.only import ONLY_DATA_CLAIM, leftover_in_line, strange_fingerprints
from monolayer.checker.readout import CheckedStaircase, check_nearest, copies, nearest_classes, read_staircase
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.stages import Evaluated, evaluate
from monolayer.theory.verdicts import Verdict

LINE_REASONS: dict[Verdict, str] = {
    "proved": "all evaluations of a point end on one plateau of the readout, and it has the right label",
    "refuted": "points get another answer than their label, or none, in every evaluation",
    "undecided": "for some points the error bound leaves room for more than one answer",
}
MASKED_NAN = "a masked token has no finite vector, and 0 times NaN is NaN in a dense product"


def judge_line(stored: Stored, parts: list[LoadPoints], question: Certificate, claims: Claims) -> Certificate:
    """The certificate of a line for the labelled points of all parts.

    `question`: the certificate so far, undecided. `claims.only` may be asked of one part alone.
    """
    read_attention(stored)  # its errors are plainer than those of the readout, so it is checked first
    stairs = [read_staircase(stored, stage) for stage in range(1, stored.stages + 1)]
    return judge_stairs(stored, stairs, parts, question, claims)


def judge_stairs(
    stored: Stored, stairs: list[CheckedStaircase], parts: list[LoadPoints], question: Certificate, claims: Claims
) -> Certificate:
    """The certificate of any readout whose stages are constant between thresholds, which `stairs` gives stage by stage.

    `parts`, `question` and `claims` as for `judge_line`.
    """
    tolerance = claims.tolerance
    judged, before = [], 0
    for part in parts:
        points = part()
        stream = read_stream(stored, points.data, points.rows)
        evaluated = evaluate(stored, points, stream, stairs)
        judged.append(_judge_part(stored, points, evaluated, tolerance or 0.0, before))
        before += len(points.data)
    claim = ": the logit of its class is the largest"
    if stored.config["target"] == "reals":
        claim = f" to within {tolerance:.3g}" if tolerance else ": the answer equals it"
    decided = _joined_parts(replace(question, claim=question.claim + claim), judged)
    return _nothing_else(stored, points, evaluated, decided) if claims.only else decided


def _nothing_else(stored: Stored, points: Labelled, evaluated: Evaluated, decided: Certificate) -> Certificate:
    """The certificate `decided` with the further claim that the model holds nothing but the data."""
    decided = replace(decided, claim=decided.claim + ONLY_DATA_CLAIM)
    if not decided:
        return decided
    labels = points.wanted[evaluated.order].reshape(len(points), -1).T.astype(np.float64)
    extra = leftover_in_line(stored, evaluated.first, labels, points.rows) or strange_fingerprints(
        stored, points.data, points.rows
    )
    if extra is None:
        return decided
    reason = f"every label is returned, but the model holds more than the data: {extra}"
    return replace(decided, verdict="refuted", reason=reason, label_error=None)


# -- answers compared with labels --------------------------------------------------------------------------


class LabelComparison(NamedTuple):
    """The points `(M,)` that surely get their label (`right`) or surely another one (`wrong`).

    `distance` `(M,)`: how far label coordinates are from the label at most. `got`: the answer at a point, by name.
    """

    right: Bools
    wrong: Bools
    distance: Floats
    got: Callable[[int], object]


Compare = Callable[[Any, Evaluated], LabelComparison]
"""Compares the labels `(M,)` or `(M, m)` of points with what was found of them."""


def _comparison(stored: Stored, tolerance: float) -> Compare:
    """How the answers of a model are compared with labels, once its head is one that the proofs cover."""
    if stored.config["target"] == "reals":
        if not copies(stored):
            raise UnhandledError("the head does not copy the label slots")
        return partial(_compare_reals, stored, tolerance)
    check_nearest(stored)
    return partial(_compare_classes, stored)


def _compare_classes(stored: Stored, wanted: Ints, evaluated: Evaluated) -> LabelComparison:
    """Compare classes: what the head makes of the label coordinate (Lemma 10).

    A class that the model lacks is wrong.
    """
    answer = nearest_classes(stored, evaluated.value[0])
    assert stored.classes is not None  # the target is classes
    names = stored.classes.names
    known = evaluated.sure & (answer >= 0)
    return LabelComparison(
        known & (answer == wanted),
        (known & (answer != wanted)) | (wanted < 0),
        np.abs(evaluated.value[0] - wanted),
        lambda i: names[answer[i]] if answer[i] >= 0 else None,
    )


def _compare_reals(stored: Stored, tolerance: float, wanted: Floats, evaluated: Evaluated) -> LabelComparison:
    """Compare real labels: answers must equal them (Lemma 12), or lie within `tolerance`."""
    value, wanted = evaluated.value, wanted.T
    distance, same = PADDING * np.abs(value - wanted), value == wanted  # a difference may underflow
    return LabelComparison(
        evaluated.sure & (same | ((distance <= tolerance) & (tolerance > 0.0))).all(axis=0),
        evaluated.sure & (~same & (distance / PADDING**2 > tolerance)).any(axis=0),
        distance.max(axis=0),
        lambda i: real(value[:, i], bool(stored.config.get("scalar"))),
    )


# -- parts -------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """The verdicts and findings on one part of the data.

    `wrong`, `unsure`: numbers of points; `findings`: the first few of each. `margin`: the least, and where it is.
    `distance`: largest distance of an answer from its label; `largest`: largest absolute value of a real label.
    `settled`: whether every point has a sure answer.
    """

    wrong: int
    unsure: int
    findings: dict[Kind, list[Finding]]
    margin: tuple[float, str]
    distance: float
    largest: float
    settled: bool


def _judge_part(stored: Stored, points: Labelled, evaluated: Evaluated, tolerance: float, before: int) -> Part:
    """Judge all labelled points of a part; `before`: how many sequences the parts before it have."""
    compare, wanted = _comparison(stored, tolerance), points.wanted[evaluated.order]
    wrong, unsure = (np.empty(len(wanted), dtype=bool) for _ in range(2))
    distance, settled = -np.inf, True
    for part in slices(len(wanted)):
        some, seen = evaluated.at(part), compare(wanted[part], evaluated.at(part))
        wrong[part] = ~some.number | seen.wrong
        unsure[part] = ~wrong[part] & (~seen.right | some.beside)
        distance = np.maximum(distance, seen.distance.max())
        settled &= bool((some.sure & some.number & (wrong[part] | ~some.beside)).all())
    kinds: dict[Kind, Bools] = {"wrong": wrong, "unsure": unsure}
    named: dict[Kind, list[Finding]] = {"wrong": [], "unsure": []}
    for kind, which in kinds.items():
        places = np.flatnonzero(which)
        first = places[np.argsort(evaluated.order[places])[:MOST_FINDINGS]]
        some, seen = evaluated.at(first), compare(wanted[first], evaluated.at(first))
        for i in range(len(first)):
            answer, doubt = seen.got(i) if some.number[i] else None, MASKED_NAN if some.beside[i] else UNSURE
            finding = points.finding(kind, int(some.order[i]), int(some.answering[i]), answer, doubt)
            named[kind].append(replace(finding, sequence=finding.sequence + before))
    # The point with the least margin; of several that have it, such as copies of one, the first in the data.
    least = np.flatnonzero(evaluated.margin <= evaluated.margin.min())
    tightest = int(least[np.argmin(evaluated.order[least])])
    return Part(
        wrong=int(wrong.sum()),
        unsure=int(unsure.sum()),
        findings=named,
        margin=(float(evaluated.margin[tightest]), points.place(int(evaluated.answering[tightest]), before)),
        distance=float(distance),
        largest=float(np.abs(wanted).max()) if stored.config["target"] == "reals" else 0.0,
        settled=settled,
    )


def _joined_parts(question: Certificate, parts: list[Part]) -> Certificate:
    """The certificate of all parts together."""
    margin, where = min((part.margin for part in parts), key=lambda one: one[0])
    stepped, far = bool(np.isfinite(margin)), max(part.distance for part in parts)
    judgement = question.decided(
        sum(part.wrong for part in parts),
        sum(part.unsure for part in parts),
        [finding for kind in get_args(Kind) for part in parts for finding in part.findings[kind]],
        LINE_REASONS,
        margin=margin if stepped else None,
        margin_at=where if stepped else None,
    )
    near = all(part.settled for part in parts) and 0.0 < far <= 2.0**-10 * max(part.largest for part in parts)
    if not judgement and near:  # real labels that are merely not equal
        way = f"to within {1.01 * far:.3g} it would be proved: tolerance={1.01 * far:.3g} (--tolerance)"
        return replace(judgement, reason=f"{judgement.reason}; {way}")
    return replace(judgement, label_error=far if judgement else None)
