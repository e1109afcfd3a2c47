"""Whether a model that recognizes its data by fingerprints recognizes every labelled point of these data.

Such a model refuses, in `predict`, what it has no fingerprint of (docs/lookup.md). So the label of a point comes back
only if its fingerprint is stored, whatever the weights say. That is a comparison of whole numbers, and is decided
exactly. How seldom another point has a stored fingerprint is not proved: it is said as what it is, in a note.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Finding
from monolayer.checker.labelled import Labelled, LoadPoints
from monolayer.checker.network import Stored
from monolayer.data import Sequences
from monolayer.data.fingerprint import contained, fingerprints
from monolayer.table import plural

RECOGNIZED_CLAIM = "; and none of these points is refused as unknown: each has its fingerprint"
REFUSED = "predict refuses it as unknown: its fingerprint is not among those that are stored"


def with_fingerprints(stored: Stored, parts: list[LoadPoints], decided: Certificate) -> Certificate:
    """The certificate `decided` with the further claim that no labelled point is refused as unknown.

    It is returned unchanged if the model keeps no fingerprints.
    """
    if stored.memory is None:
        return decided
    note = (
        f"input that is not in the data is recognized by {plural(len(stored.memory), 'fingerprint')} of 64 bits; this "
        f"is not proved: if the hash behaves like a random function, each passes for known with probability "
        f"{len(stored.memory) / 2.0**64:.2g}"
    )
    decided = replace(decided, claim=decided.claim + RECOGNIZED_CLAIM, notes=(*decided.notes, note))
    if decided.verdict == "refuted":
        return decided
    missing, before = list[Finding](), 0
    count = 0
    for part in parts:
        points = part()
        lacking = _lacking(stored, points)
        count += len(lacking)
        for label in lacking[: MOST_FINDINGS - len(missing)].tolist():
            place = label if points.places is None else int(points.places[label])
            finding = points.finding("wrong", label, place, None)
            missing.append(replace(finding, sequence=finding.sequence + before, why=REFUSED))
        before += len(points.data)
    if not count:
        return decided
    total = plural(decided.points, "labelled point")
    reason = f"of {total}, {count:,} {'has' if count == 1 else 'have'} no fingerprint: predict refuses what is unknown"
    return replace(
        decided, verdict="refuted", reason=reason, wrong=count, findings=tuple(missing), label_error=None, noise=None
    )


def _lacking(stored: Stored, points: Labelled) -> Ints:
    """The numbers of the labels of a part whose points have no stored fingerprint."""
    assert stored.memory is not None  # the caller looked
    assert points.rows is not None  # vectors have no fingerprints
    config = stored.config
    data = Sequences(points.rows, points.data.lengths, stored.vocabulary)
    expected = fingerprints(data, config["per"], positions=config["positions"], causal=config["causal"])
    return np.flatnonzero(~contained(expected if points.places is None else expected[points.places], stored.memory))
