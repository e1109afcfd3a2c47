"""The verdict on a line: the answer at every labelled point is compared with its label.

Data are a list of parts, mostly one. Given the staircases, each point is judged by itself. So files are judged one
after the other, and what a certificate says about all points (counts, the tightest margin, the first few findings) is
joined at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, get_args

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Claims, Finding, Kind
from monolayer.checker.codes import read_attention, read_stream
from monolayer.checker.labelled import UNSURE, Labelled, LoadPoints, real
from monolayer.checker.network import Stored
from monolayer.checker.only import ONLY_DATA_CLAIM, leftover_in_line, strange_fingerprints
from monolayer.checker.readout import (
    CheckedStaircase,
    check_nearest,
    copies,
    nearest_classes,
    read_staircase,
    takes_numbers,
)
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.runs import looked_at
from monolayer.checker.stages import Asked, Evaluated, evaluate
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
        if claims.only or stored.stages > 1:
            whole = evaluate(stored, points, stream, stairs)
            some, others = whole.stretches(), False
        else:
            asked = Asked.of(stored, points, stream)
            numbers = _looked_at(stored, asked, stairs[0])
            some, others = asked.stretches(stairs[0], numbers), numbers is not None and len(numbers) < len(points)
        judged.append(_judge_part(stored, points, some, tolerance or 0.0, before, others=others))
        before += len(points.data)
    claim = ": the logit of its class is the largest"
    if stored.config["target"] == "reals":
        claim = f" to within {tolerance:.3g}" if tolerance else ": the answer equals it"
    decided = _joined_parts(replace(question, claim=question.claim + claim), judged)
    return _nothing_else(stored, points, whole, decided) if claims.only else decided


def _looked_at(stored: Stored, asked: Asked, stairs: CheckedStaircase) -> Ints | None:
    """The numbers of the points to judge one by one; all others get their label (`runs.py`). None for all."""
    if stored.config["target"] != "classes" or asked.unknown is not None or not takes_numbers(stored):
        return None
    return looked_at(stairs, asked.sums, asked.points.wanted, len(stored["head.bias"]))


def _nothing_else(stored: Stored, points: Labelled, evaluated: Evaluated, decided: Certificate) -> Certificate:
    """The certificate `decided` with the further claim that the model holds nothing but the data."""
    decided = replace(decided, claim=decided.claim + ONLY_DATA_CLAIM)
    if not decided:
        return decided
    labels = evaluated.wanted.reshape(len(points), -1).T.astype(np.float64)
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


Compare = Callable[[Evaluated], LabelComparison]
"""Compares the labels of points with what was found of them."""


def _comparison(stored: Stored, tolerance: float) -> Compare:
    """How the answers of a model are compared with labels, once its head is one that the proofs cover."""
    if stored.config["target"] == "reals":
        if not copies(stored):
            raise UnhandledError("the head does not copy the label slots")
        return partial(_compare_reals, stored, tolerance)
    check_nearest(stored)
    return partial(_compare_classes, stored)


def _compare_classes(stored: Stored, evaluated: Evaluated) -> LabelComparison:
    """Compare classes: what the head makes of the label coordinate (Lemma 10).

    A class that the model lacks is wrong.
    """
    value, wanted = evaluated.value[0], evaluated.wanted
    answer = nearest_classes(stored, value)
    assert stored.classes is not None  # the target is classes
    names = stored.classes.names
    known, same = evaluated.sure & (answer >= 0), answer == wanted
    return LabelComparison(
        known & same,
        (known & ~same) | (wanted < 0),
        np.abs(value - wanted),
        lambda i: names[answer[i]] if answer[i] >= 0 else None,
    )


def _compare_reals(stored: Stored, tolerance: float, evaluated: Evaluated) -> LabelComparison:
    """Compare real labels: answers must equal them (Lemma 12), or lie within `tolerance`."""
    value, wanted = evaluated.value, evaluated.wanted.T
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


def _judge_part(
    stored: Stored, points: Labelled, stretches: Iterable[Evaluated], tolerance: float, before: int, *, others: bool
) -> Part:
    """Judge the labelled points of a part, which come in `stretches`.

    `before`: how many sequences the parts before it have. `others`: whether there are further points, which are known
    to get the very number of their class.
    """
    compare = _comparison(stored, tolerance)
    counts: dict[Kind, int] = {"wrong": 0, "unsure": 0}
    named: dict[Kind, list[_Named]] = {"wrong": [], "unsure": []}
    tightest = _Tightest(np.inf, 0, 0)
    distance, settled = 0.0 if others else -np.inf, True
    for some in stretches:
        seen = compare(some)
        wrong = ~some.number | seen.wrong
        unsure = ~wrong & (~seen.right | some.beside)
        kinds: dict[Kind, Bools] = {"wrong": wrong, "unsure": unsure}
        for kind, which in kinds.items():
            counts[kind] += int(np.count_nonzero(which))
            named[kind] = _first_named(points, kind, named[kind], some, seen, np.flatnonzero(which))
        distance = np.maximum(distance, seen.distance.max())
        settled &= bool((some.sure & some.number & (wrong | ~some.beside)).all())
        tightest = min(tightest, _Tightest.of(some))
    findings = {kind: [replace(one, sequence=one.sequence + before) for _, one in some] for kind, some in named.items()}
    return Part(
        wrong=counts["wrong"],
        unsure=counts["unsure"],
        findings=findings,
        margin=(tightest.margin, points.place(tightest.answering, before)),
        distance=float(distance),
        largest=float(np.abs(points.wanted).max()) if stored.config["target"] == "reals" else 0.0,
        settled=settled,
    )


class _Named(NamedTuple):
    """A finding about a label, and its number in the data."""

    label: int
    finding: Finding


def _first_named(
    points: Labelled, kind: Kind, named: list[_Named], some: Evaluated, seen: LabelComparison, places: Ints
) -> list[_Named]:
    """The first few findings of a kind in the data: of those that are `named`, and of points at some places."""
    places = places[np.argsort(some.order[places])[:MOST_FINDINGS]]
    last = named[-1].label if len(named) == MOST_FINDINGS else len(points)
    for i in places[some.order[places] < last].tolist():
        answer, doubt = seen.got(i) if some.number[i] else None, MASKED_NAN if some.beside[i] else UNSURE
        label = int(some.order[i])
        named = [*named, _Named(label, points.finding(kind, label, int(some.answering[i]), answer, doubt))]
    return sorted(named, key=lambda one: one.label)[:MOST_FINDINGS]


class _Tightest(NamedTuple):
    """The least margin of a point, the number of its label in the data, and the token or sequence that answers for it.

    Of several points with one margin, such as copies of one, the first in the data comes first.
    """

    margin: float
    label: int
    answering: int

    @classmethod
    def of(cls, some: Evaluated) -> _Tightest:
        """That of some points."""
        least = np.flatnonzero(some.margin <= some.margin.min())
        first = least[np.argmin(some.order[least])]
        return cls(float(some.margin[first]), int(some.order[first]), int(some.answering[first]))


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
