"""The certificate's one pass over the data: stored weights and labelled points in, a verdict out.

    a token     →  key s, code t          read from the file                              codes.py
    its context →  z = t + o v B(q k; s)  and how far any evaluation may be from ours     codes.py, rounding.py
    z           →  label coordinate       the plateau that holds all those evaluations    stages.py, readout.py
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

from monolayer.checker.cells import cell_function, read_cells
from monolayer.checker.certificate import FILE, Certificate
from monolayer.checker.codes import read_stream
from monolayer.checker.given import again, confirm
from monolayer.checker.labelled import Labelled, data_digest, labelled
from monolayer.checker.only import CLAIM as CLAIM_ONLY
from monolayer.checker.only import CLAIM_STAGES, leftover, remembered
from monolayer.checker.parts import joined, judge_part
from monolayer.checker.robust import MOST_NOISE, check_gates
from monolayer.checker.rounding import EXP_ULPS, UnhandledError
from monolayer.checker.short import rounded
from monolayer.checker.stages import Line
from monolayer.checker.stock.check import judge_stock
from monolayer.checker.stock.files import is_stock
from monolayer.checker.stored import Stored, read
from monolayer.checker.uniform import judge_uniform
from monolayer.data import Sequences
from monolayer.data.dtypes import dtype_name
from monolayer.data.frames import is_frame
from monolayer.data.labels import Per
from monolayer.errors import DataError, ModelFileError

LABEL_CLAIM = "every evaluation returns the label at each of the {:,} labelled points"
CELL_CLAIM = (
    "off the ramps, every evaluation returns the value of the function at the centres of the cells, at each of the "
    "{:,} tokens of all sequences of cells"
)
"""For an approximator and its function; `Orders.condition` says what of it holds in which order of the tokens."""


@dataclass(frozen=True)
class Claims:
    """What is claimed besides the labels: that nothing else is held; for robust models, noise and a short format."""

    only: bool
    noise: float | None
    dtype: str | None


ONLY_ROBUST = "noise and short formats are claims about robust models: memorize with robust=True"


def certify(
    model: Any,
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    per: Per | None = None,
    tolerance: float | None = None,
    only: bool = False,
    noise: float | None = None,
    dtype: Any = None,
) -> Certificate:
    """Whether a saved model returns the label of every point, in every evaluation that the assumptions allow.

    `model`: a folder, or anything with `save(folder)`: then what it writes is judged. `X`, `Y`, `lengths`, `per`:
    as for `Sequences.of`, or a `Sequences` with labels; a next-token model needs none. For an approximator `X` may be
    the function itself, NumPy in and out: then the claim is about every sequence off the ramps. Real answers must
    equal their labels, unless `tolerance` says how far off they may be. `only`: also whether the readout holds nothing
    but these data (docs/editing.md).

    For a robust model, `noise` claims it for every change of each weight by at most that share of itself, and `dtype`
    for the weights rounded to `bfloat16`, `float16` or `int8` (whole multiples of one scale a row).
    """
    dtype = dtype_name(dtype)
    _check_tolerance(tolerance)
    if is_frame(X):
        X, Y = Sequences.of(X, Y, per=per), None
    if isinstance(model, str | os.PathLike):
        return _folder(Path(model), X, Y, lengths, per, tolerance, Claims(only, noise, dtype))
    if not callable(getattr(model, "save", None)):
        raise DataError(
            f"a {type(model).__name__} cannot be certified: give the folder of a saved model, or a Monolayer"
        )
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model")
        return _folder(Path(scratch) / "model", X, Y, lengths, per, tolerance, Claims(only, noise, dtype))


def _folder(
    folder: Path, X: Any, Y: Any, lengths: Any, per: Per | None, tolerance: float | None, claims: Claims
) -> Certificate:
    if is_stock(folder):
        if claims.noise or claims.dtype:
            raise DataError(ONLY_ROBUST)
        return judge_stock(folder, _read(X, Y, lengths, per), only=claims.only)
    stored = read(folder)
    if stored.config["kind"] == "interpolator":
        if claims.noise or claims.dtype or claims.only:
            raise DataError("noise, dtype and only are claims about memorizers; this network approximates a function")
        return judge_uniform(stored, X, tolerance)
    return _judge(_asked(stored, claims), X, Y, lengths, per, tolerance, claims)


def _asked(stored: Stored, claims: Claims) -> Stored:
    """The model in the format that the claim is about, once the claim makes sense."""
    noise, dtype = claims.noise, claims.dtype
    number = isinstance(noise, int | float | np.number) and not isinstance(noise, bool)
    if noise is not None and not (number and 0 <= noise <= MOST_NOISE):
        raise DataError(f"noise must be a share of each weight from 0 to {MOST_NOISE}, not {noise!r}")
    if (noise or dtype) and stored.config["readout"] != "gates":
        raise DataError(ONLY_ROBUST)
    if claims.only and stored.config["readout"] == "gates":
        raise DataError(
            "only= asks what the steps of a line hold; a half-space of a robust model holds many facts; its weights "
            "do not show which. That a model holds nothing else is shown by equality: compare(model, memorize(X, Y, "
            "draw=model)).same"
        )
    return stored if dtype is None else rounded(stored, dtype)


def _check_tolerance(tolerance: Any) -> None:
    number = isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, bool)
    if tolerance is not None and not (number and 0 <= tolerance < np.inf):
        raise DataError(f"tolerance must be a finite number from 0 on, or None for equality, not {tolerance!r}")


def verify(folder: str | os.PathLike[str], X: Any, Y: Any = None, **options: Any) -> Certificate:
    """`certify`, with a note on what has changed since the certificate in the folder was written."""
    if not isinstance(folder, str | os.PathLike):
        raise DataError(
            f"verify takes the folder of a saved model, not a {type(folder).__name__}: certify takes models"
        )
    return compared_with_old(folder, certify(folder, X, Y, **options))


def compared_with_old(folder: str | os.PathLike[str], new: Certificate) -> Certificate:
    """A certificate with a note on the one in the folder."""
    try:
        old = Certificate.read(folder)
    except ModelFileError as error:
        return replace(new, notes=(*new.notes, f"{FILE} in this folder is passed over: {error}"))
    if old is None:
        return new
    same = {"weights": old.weights_digest == new.weights_digest, "data": old.data_digest == new.data_digest}
    notes = tuple(f"the {what} are not those of {FILE} in this folder" for what in same if not same[what])
    notes = notes or (f"weights and data are those of {FILE} in this folder: {old.verdict} then",)
    return replace(new, notes=new.notes + notes)


def open_question(stored: Stored, claim: str) -> Certificate:
    """The certificate before anything is known of the points: undecided."""
    return Certificate(
        verdict="undecided",
        claim=claim.replace("each of the {:,}", "each of the"),
        reason="",
        assumptions=assumed(stored),
        points=0,
        unsure=0,
        weights_digest=stored.config["digest"],
        data_digest="",
        format_version=stored.config["version"],
    )


def _judge(
    stored: Stored, X: Any, Y: Any, lengths: Any, per: Per | None, tolerance: float | None, claims: Claims
) -> Certificate:
    if claims.only and stored.raw:
        raise DataError("only= asks whether a memorizer holds nothing but its data; this model is an approximator")
    question = open_question(stored, CELL_CLAIM if callable(X) else LABEL_CLAIM)
    try:
        if not stored.tensors:
            raise UnhandledError(
                f"they are stored in {stored.config['dtype']}, and certificates cover float64 and float32"
            )
        with np.errstate(all="ignore"):  # NaN and overflow are looked for, not warned of
            data, notes, condition = _cells(stored, X) if callable(X) else (_read(X, Y, lengths, per), (), "")
            points = labelled(stored, data)
            question = replace(
                question,
                claim=(CELL_CLAIM if callable(X) else LABEL_CLAIM).format(len(points)),
                points=len(points),
                unsure=len(points),
                data_digest=data_digest(data),
                notes=notes,
            )
            if stored.config["readout"] == "gates":
                found = check_gates(stored, points, claims.noise, question)
            else:
                found = _check(stored, points, tolerance, question, claims.only)
            return replace(found, claim=found.claim + condition)
    except UnhandledError as why:
        return replace(question, reason=f"the proof does not cover these weights: {why}")


def _read(X: Any, Y: Any, lengths: Any, per: Per | None) -> Sequences:
    """The data by the reader that the builder uses, and once more by the checker's own eyes."""
    X, Y = again(X), again(Y)
    data = Sequences.of(X, Y, lengths=lengths, per=per)
    confirm(data, X, Y, lengths)
    return data


def _cells(stored: Stored, f: Callable[[Any], Any]) -> tuple[Sequences, tuple[str, ...], str]:
    """The finitely many sequences of cells that decide a claim about a function, what follows for its error, and what
    the claim owes to the order of tokens."""
    if not stored.raw:
        raise DataError("a function is compared with an approximator; this model is a memorizer: give X and Y")
    cells = read_cells(stored)
    note = (
        f"no coordinate off the ramps is further than h = {cells.reach:.6g} from its centre: where ω is a modulus of "
        "continuity of the function, its error there is at most ω(h), plus the tolerance if one was given; the ramps "
        f"fill {cells.ramp_share:.3g} of the domain"
    )
    data, orders = cell_function(stored, f)
    if not orders.equivariant and orders.worst is not None:
        note += (
            f"; the function is not permutation equivariant: at the tokens of sequence {len(data) - 1} it is "
            f"{orders.apart:.3g} away from what it gives them in another order, and a model without positions cannot be"
        )
    return data, (note,), orders.condition()


def assumed(stored: Stored) -> tuple[str, ...]:
    """What an evaluation is, in words."""
    fmt, gated = stored.format, stored.config["readout"] == "gates"
    short = stored.config["dtype"] not in ("float64", "float32")
    return (
        (
            f"IEEE-754 {fmt.name}, round to nearest, unit roundoff {fmt.unit:.3g}; no TF32, no reduced precision; "
            "subnormal numbers may be flushed to zero"
        ),
        (
            "sums in any order within a block (lift and position; attention; readout; head), whose result is rounded "
            "before the next block uses it; a product may be fused with the sum it goes into"
        ),
        f"exp within {EXP_ULPS} units in the last place",
        (
            "softmax as exp(score − m) over its sum, m one number for all terms (0, or a largest score), without "
            "rescaling on the way; masked places count as 0"
        ),
        "NumPy on the checking machine keeps to the same rules",
        *((f"reciprocal square root within {EXP_ULPS} units in the last place",) if gated else ()),
        *((f"weights in {stored.config['dtype']}, turned into {fmt.name} without change",) if short else ()),
    )


def _check(stored: Stored, points: Labelled, tolerance: float | None, question: Certificate, only: bool) -> Certificate:
    """One part: all of the data."""
    lines: list[Line] | None = [] if only else None
    stream = read_stream(stored, points.data, points.rows)
    part = judge_part(stored, points, stream, tolerance=tolerance, lines=lines)
    found = joined(question, [part])
    if lines is None:
        return found
    found = replace(found, claim=found.claim + (CLAIM_ONLY if len(lines) == 1 else CLAIM_STAGES))
    if not found:
        return found
    labels = points.wanted[part.order].reshape(len(points), -1).T.astype(np.float64)
    extra = leftover(stored, lines, labels, points.rows) or remembered(stored, points.data, points.rows)
    if extra is None:
        return found
    reason = f"every label comes back, but the model holds more than the data: {extra}"
    return replace(found, verdict="refuted", reason=reason, label_error=None)
