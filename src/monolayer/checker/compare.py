"""Answers against labels: which points surely get theirs, which surely another, and what an equality is short of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import Verdict
from monolayer.checker.labelled import real
from monolayer.checker.readout import answers, copies
from monolayer.checker.rounding import PADDING, UnhandledError
from monolayer.checker.stored import Stored


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


def compare_classes(stored: Stored, wanted: Ints, value: Floats, doubt: Floats, tolerance: float | None) -> Comparison:
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


def compare_reals(stored: Stored, wanted: Floats, value: Floats, doubt: Floats, tolerance: float | None) -> Comparison:
    """Real labels: equal (Lemma 12), or within the tolerance that was asked for."""
    if not copies(stored):
        raise UnhandledError("the head does not copy the label slots")
    allowed, wanted = tolerance or 0.0, wanted.T
    distance = PADDING * np.abs(value - wanted)
    same = (value == wanted) & (doubt == 0.0)  # a difference may underflow: equality is asked of the numbers themselves
    tiny = (value == wanted) & (doubt > 0.0) & (doubt < 8.0 * stored.format.tiny)
    claim = ": the answer equals it" if allowed == 0.0 else f" to within {allowed:.3g}"
    return Comparison(
        right=np.logical_and.reduce(same | ((distance + doubt <= allowed) & (allowed > 0.0))),
        wrong=np.logical_or.reduce((value != wanted) & (distance / PADDING**2 - doubt > allowed)),
        lacking=np.zeros(len(wanted.T), dtype=bool),
        distance=(distance + doubt).max(axis=0),
        got=lambda i: real(value[:, i], bool(stored.config.get("scalar"))),
        claim=claim,
        largest=float(np.abs(wanted).max()),
        why=lambda i: (
            "its label is subnormal, and an evaluation may flush it to zero"
            if tiny[:, i].any()
            else "the readout rounds, and the error bound leaves room for more than this number"
        ),
    )


def way_out(far: float, largest: float, verdict: Verdict, settled: bool) -> str:
    """For real labels that are merely not equal: the tolerance with which the claim would be proved.

    `far`: the largest distance of all points, `largest`: the largest label; `settled`: all points have a sure answer.
    """
    if verdict == "proved" or not settled or not 0.0 < far <= 2.0**-10 * largest:
        return ""
    return f"; to within {1.01 * far:.3g} it would be proved: tolerance={1.01 * far:.3g} (--tolerance)"
