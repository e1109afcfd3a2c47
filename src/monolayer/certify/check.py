"""The certificate's one pass over the data: stored weights and labelled points in, a verdict out.

    a token     →  key s, code t          read from the file                              codes.py
    its context →  z = t + o v B(q k; s)  and how far any evaluation may be from ours     codes.py, rounding.py
    z           →  label coordinate       the plateau that holds all those evaluations    readout.py
    label       →  answer                 what the head makes of it, compared with the data

O(T + M log M) for `T` tokens and `M` labelled points. What is claimed, assumed and proved: docs/certificate.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from monolayer.certify.certificate import FILE, Certificate, Finding, Verdict, data_digest
from monolayer.certify.codes import read_attention, read_codes, read_stream, true_codes
from monolayer.certify.readout import Bools, answers, copies, read_staircase
from monolayer.certify.rounding import BINARY64, EXP_ULPS, PADDING, Floats, UnhandledError
from monolayer.certify.stored import Stored, read
from monolayer.data import Names, Sequences
from monolayer.data.names import Ints
from monolayer.errors import DataError

NAMED = 10
"""Points that a certificate names; the rest it counts."""
CLOSE_CALLS = 1 << 17
"""Keys of the points too close for binary64 up to which these are tried again in ball arithmetic."""


def certify(model: Any, X: Any, Y: Any = None, *, lengths: Any = None, tolerance: float | None = None) -> Certificate:
    """Whether a saved model returns the label of every point, in every evaluation that the assumptions allow.

    `model`: a folder, or anything with `save(folder)`: then what it writes is judged. `X`, `Y`, `lengths`: as for
    `Sequences.of`, or a `Sequences` with labels; a next-token model needs none. `tolerance`: how far a real answer
    may be from its label; by default 2^-50 of what the readout adds up (`exact`) or 2^-20 of the largest label
    (`paper`).
    """
    data = Sequences.of(X, Y, lengths=lengths)
    if not hasattr(model, "save"):
        return _judge(read(model), data, tolerance)
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model")
        return _judge(read(Path(scratch) / "model"), data, tolerance)


def verify(folder: str | os.PathLike[str], X: Any, Y: Any = None, **options: Any) -> Certificate:
    """`certify`, with a note on what has changed since the certificate in the folder was written."""
    new = certify(folder, X, Y, **options)
    path = Path(folder) / FILE
    if not path.is_file():
        return new
    old = Certificate.from_json(path.read_text(encoding="utf-8"))
    same = {"weights": old.weights_digest == new.weights_digest, "data": old.data_digest == new.data_digest}
    notes = tuple(f"the {what} are not those of {FILE} in this folder" for what in same if not same[what])
    return replace(new, notes=notes or (f"weights and data are those of {FILE} in this folder: {old.verdict} then",))


def _judge(stored: Stored, data: Sequences, tolerance: float | None) -> Certificate:
    points = _labelled(stored, data)
    blank = Certificate(
        verdict="undecided",
        claim=f"every evaluation returns the label at each of the {len(points.wanted):,} labelled points",
        assumptions=_assumptions(stored),
        reason="",
        points=len(points.wanted),
        wrong=0,
        unsure=len(points.wanted),
        findings=(),
        margin=None,
        margin_at=None,
        label_error=None,
        weights_digest=stored.config["digest"],
        data_digest=data_digest(data),
        format_version=stored.config["version"],
    )
    try:
        with np.errstate(all="ignore"):  # NaN and overflow are looked for, not warned of
            return _check(stored, data, points, tolerance, blank)
    except UnhandledError as why:
        return replace(blank, reason=f"the proof does not cover these weights: {why}")


def _assumptions(stored: Stored) -> tuple[str, ...]:
    fmt = stored.format
    return (
        (
            f"IEEE-754 {fmt.name}, round to nearest, unit roundoff {fmt.unit:.3g}; no TF32, no reduced precision; "
            "subnormal results may be flushed to zero"
        ),
        "sums in any order; a product may be fused with the sum it goes into",
        f"exp within {EXP_ULPS} units in the last place",
        (
            "softmax as exp(score − m) over its sum, m the largest score or 0, without rescaling on the way; masked "
            "places count as 0"
        ),
        "NumPy on the checking machine keeps to the same rules",
    )


# -- what must be answered -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled places of the data, in the model's numbers.

    `rows` `(T,)`: vocabulary rows, −1 for tokens that the model lacks; None for vectors. `places` `(M,)`: tokens or
    sequences; None: all. `wanted`: `(M,)` class numbers, −1 for classes that the model lacks, or `(M, m)` reals.
    `given`, `names`: the labels as the data number and name them.
    """

    rows: Ints | None
    places: Ints | None
    wanted: Any
    given: Any
    names: Names | None


def _labelled(stored: Stored, data: Sequences) -> Labelled:
    config, labels = stored.config, data.labels
    rows: Ints | None = None
    if config["tokens"] == "ids":
        if data.vocabulary is None or stored.vocabulary is None:
            raise DataError("the model takes ids or strings as tokens, and the data hold vectors")
        rows = _translation(data.vocabulary, stored.vocabulary)[data.tokens]
    elif data.vocabulary is not None or data.tokens.shape[1] != stored["lift.weight"].shape[1]:
        raise DataError(f"the model takes vectors of {stored['lift.weight'].shape[1]} numbers; the data hold others")
    if labels is None:
        if (
            not config.get("next_token")
            or config["per"] != "token"
            or data.vocabulary is None
            or stored.classes is None
        ):
            raise DataError("the data have no labels, and the model does not predict next tokens: give Y")
        places = np.flatnonzero(np.diff(data.sequence, append=-1) == 0)
        given = data.tokens[places + 1]
        return Labelled(rows, places, _translation(data.vocabulary, stored.classes)[given], given, data.vocabulary)
    reals = labels.classes is None
    if labels.per != config["per"] or reals != (config["target"] == "reals"):
        kind = "real labels" if reals else "classes"
        raise DataError(
            f"the data have {kind}, one a {labels.per}; the model answers with {config['target']}, one a "
            f"{config['per']}"
        )
    if labels.classes is None or stored.classes is None:
        if labels.values.shape[1] != config["labels"]:
            raise DataError(f"labels have {labels.values.shape[1]} numbers, answers {config['labels']}")
        return Labelled(rows, None, labels.values, labels.values, None)
    wanted = _translation(labels.classes, stored.classes)[labels.values]
    return Labelled(rows, None, wanted, labels.values, labels.classes)


def _translation(theirs: Names, ours: Names) -> Ints:
    """Our row number for each of their names, −1 where we lack it."""
    if theirs.identity and ours.identity:
        number = np.arange(len(theirs))
        return np.where(number < len(ours), number, -1)
    table = ours.rows
    return np.array([table.get(name, -1) for name in theirs.names], dtype=np.int64)


# -- the check -----------------------------------------------------------------------------------------


def _check(
    stored: Stored, data: Sequences, points: Labelled, tolerance: float | None, blank: Certificate
) -> Certificate:
    attention = read_attention(stored)
    codes = read_codes(stored, data, read_stream(stored, data, points.rows), attention, points.places)
    stairs = read_staircase(stored)

    order = np.argsort(codes.z)  # NaN comes last; sorted queries make the binary search run through memory once
    answering = order if points.places is None else points.places[order]
    z, radius = codes.z[order], (codes.own + codes.other)[order]
    number = np.isfinite(z)
    passed, sure = stairs.passed(z - radius, z + radius)
    margin = np.where(number, stairs.room(z, passed) / radius, np.inf)
    close = np.flatnonzero(~sure & number)
    if len(close) and _keys(stored, data, answering[close]) <= CLOSE_CALLS:
        where = order[close]
        error = codes.before[where] + 2.0 * BINARY64.tiny if stored.format is BINARY64 else codes.other[where]
        lowest, highest = true_codes(stored, data, points.rows, attention, answering[close], error)
        passed[close], sure[close] = stairs.passed(lowest, highest)
        radius[close] = np.maximum(highest - z[close], z[close] - lowest)

    value, doubt = stairs.labels(z, radius, passed)
    compare = _compare_classes if stored.config["target"] == "classes" else _compare_reals
    seen = compare(stored, points.wanted[order], value, doubt, tolerance)
    wrong = ~number | (seen.wrong & sure) | seen.lacking
    unsure = ~wrong & ~(seen.right & sure)

    tightest = int(np.argmin(margin))
    stepped = bool(np.isfinite(margin[tightest]))
    counts = {"wrong": int(wrong.sum()), "unsure": int(unsure.sum())}
    verdict: Verdict = "refuted" if counts["wrong"] else "undecided" if counts["unsure"] else "proved"
    named = [("wrong", i) for i in _first(wrong, order)] + [("unsure", i) for i in _first(unsure, order)]
    return replace(
        blank,
        verdict=verdict,
        claim=blank.claim + seen.claim,
        reason=_reason(verdict, counts, len(z)),
        wrong=counts["wrong"],
        unsure=counts["unsure"],
        findings=tuple(
            _finding(kind, data, points, int(order[i]), int(answering[i]), seen.got(i) if number[i] else None)
            for kind, i in named[:NAMED]
        ),
        margin=float(margin[tightest]) if stepped else None,
        margin_at=_place(data, stored.config["per"], int(answering[tightest])) if stepped else None,
        label_error=float(seen.distance.max()) if verdict == "proved" else None,
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """Points `(M,)` that surely get their label, surely another, or have one that the model lacks.

    `distance` bounds how far the label coordinates are from the label; `claim` completes the claim.
    """

    right: Bools
    wrong: Bools
    lacking: Bools
    distance: Floats
    got: Callable[[int], Any]
    claim: str


def _compare_classes(stored: Stored, wanted: Ints, value: Floats, doubt: Floats, tolerance: float | None) -> Comparison:
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
    if not copies(stored):
        raise UnhandledError("the head does not copy the label slots")
    if tolerance is not None:
        allowed = np.full((len(value), 1), tolerance)
    elif stored.config["readout"] == "paper":
        allowed = 2.0**-20 * np.abs(wanted).max(axis=0)[:, None]
    else:
        parts = (stored["feed_forward.weight_2"], stored["feed_forward.bias_2"][:, None])
        allowed = 2.0**-50 * sum(np.abs(part).sum(axis=1, dtype=np.float64) for part in parts)[:, None]
    distance = np.abs(value - wanted.T)
    return Comparison(
        right=np.logical_and.reduce(PADDING * distance + doubt <= allowed),
        wrong=np.logical_or.reduce(distance / PADDING - doubt > allowed),
        lacking=np.zeros(len(wanted), dtype=bool),
        distance=(PADDING * distance + doubt).max(axis=0),
        got=lambda i: _real(value[:, i], stored.config["scalar"]),
        claim=f" to within {float(allowed.max()):.3g}",
    )


# -- in words ------------------------------------------------------------------------------------------


def _keys(stored: Stored, data: Sequences, answering: Ints) -> int:
    """Keys that the answers at these places look at, at most."""
    rows = data.sequence[answering] if stored.config["per"] == "token" else answering
    return int(data.lengths[rows].sum()) + len(rows)


def _first(found: Bools, order: Ints) -> list[int]:
    """The first few points found, in the order of the data."""
    places = np.flatnonzero(found)
    some: list[int] = places[np.argsort(order[places])[:NAMED]].tolist()
    return some


def _reason(verdict: Verdict, counts: dict[str, int], points: int) -> str:
    if verdict == "proved":
        return "all evaluations of a point end on one plateau of the readout, and it has the right label"
    if verdict == "refuted":
        return f"{counts['wrong']:,} of {points:,} points get another answer than their label, or none"
    return f"for {counts['unsure']:,} of {points:,} points the error bound leaves room for more than one answer"


def _real(values: Any, scalar: bool) -> Any:
    return float(values[0]) if scalar else [float(x) for x in values]


def _place(data: Sequences, per: str, answering: int) -> str:
    return data.where(answering) if per == "token" else f"sequence {answering}"


def _finding(kind: Any, data: Sequences, points: Labelled, label: int, answering: int, got: Any) -> Finding:
    """Label number `label`, read at token or sequence `answering`, by the names that users know."""
    per_token = data.labels is None or data.labels.per == "token"
    token = None
    if per_token and data.vocabulary is not None:
        token = data.vocabulary.names[data.tokens[answering]]
    if points.names is not None:
        expected = points.names.names[points.given[label]]
    else:
        expected = _real(points.given[label], data.labels is not None and data.labels.scalar)
    if kind == "unsure":
        why = "too close to a step, or to a tie, for the error bound"
    elif points.names is not None and points.wanted[label] < 0:
        why = "the model has no such class"
    else:
        why = "the model has no finite vector for a token here" if got is None else "the stored weights say so"
    sequence = int(data.sequence[answering]) if per_token else answering
    position = int(data.position[answering]) if per_token else None
    return Finding(kind, sequence, position, token, expected, got, why)
