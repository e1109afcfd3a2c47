"""`certify`: from stored weights and labelled points to a certificate, in one pass over the data.

    a token     →  key s, code t          read from the file                              codes.py
    its context →  z = t + o v B(q k; s)  and how far any evaluation may be from ours     codes.py, rounding.py
    z           →  label coordinate       the plateau that holds all those evaluations    stages.py, readout.py
    label       →  answer                 what the head returns, compared with the data   line.py

O(T + M log M) for `T` tokens and `M` labelled points. What is claimed, assumed and proved: docs/certificate.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from monolayer.checker.cells import AskedFunction, cell_function, read_cells
from monolayer.checker.certificate import CERTIFICATE_FILE, Certificate, Claims, counted_claim
from monolayer.checker.format import READOUTS
from monolayer.checker.labelled import Labelled, Load, LoadPoints, data_digest, labelled
from monolayer.checker.network import Stored
from monolayer.checker.recognized import with_fingerprints
from monolayer.checker.robust import MOST_NOISE, in_short_format
from monolayer.checker.rounding import EXP_ULPS, NUMPY_ASSUMPTION, UnhandledError
from monolayer.checker.tried import try_model, with_trial
from monolayer.data.model_kinds import kind_of
from monolayer.errors import DataError, ModelFileError

NEEDS_SUBNORMALS = "a checker that does so takes different labels and weights for equal"
LABEL_CLAIM = "every evaluation returns the label at each of the {:,} labelled points"
CELL_CLAIM = (
    "off the ramps, every evaluation returns the value of the function at the centres of the cells, at each of the "
    "{:,} tokens of all sequences of cells"
)
"""The claim about an approximator and its function.

`CellFunction.condition` adds in which orders of tokens it holds.
"""


def check_claims(claims: Claims, stored: Stored | None) -> None:
    """Raise an error if claims make no sense, or not for this model; `stored` is None for a stock folder."""
    if claims.host is not None:
        raise DataError("host= is for folders that facts were attached to or questions stored in, and this is not one")
    if claims.ask is not None:
        raise DataError("ask= is for folders that facts were attached to or questions stored in, and this is not one")
    _check_number("tolerance", claims.tolerance, np.inf, "a finite number from 0 on, or None for equality")
    _check_number("noise", claims.noise, MOST_NOISE, f"a share of each weight from 0 to {MOST_NOISE}")
    short, kind = claims.noise or claims.dtype, None if stored is None else kind_of(stored.config)
    if kind is not None and not kind.has_readout and (short or claims.only):
        raise DataError("noise, dtype and only are claims about memorizers; this network approximates a function")
    row = None if stored is None or kind is None or not kind.has_readout else READOUTS[stored.config["readout"]]
    if short and (row is None or not row.noise):
        raise DataError("noise and short formats are claims about robust models: memorize with robust=True")
    if stored is None or row is None or not claims.only:  # `judge_stock` checks this for stock folders
        return
    if not row.only or stored.stages > 1:
        why = f"this model has {stored.stages} stages"
        if not row.only:
            why = f"the weights of the readout {stored.config['readout']!r} do not show which facts they hold"
        raise DataError(
            f"only= asks what the steps of one line hold; {why}. That a model holds nothing else "
            "is shown by equality: compare(model, memorize(X, Y, draw=model)).same"
        )
    if kind is not None and not kind.holds_facts:
        raise DataError("only= asks whether a memorizer holds nothing but its data; this model is an approximator")


def _check_number(name: str, value: Any, most: float, words: str) -> None:
    """Raise an error unless the option `name` is None or a number from 0 to `most`; `words` describe that."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value <= most and value < np.inf):
        raise DataError(f"{name} must be {words}, not {value!r}")


def judge_own(stored: Stored, data: Any, claims: Claims) -> Certificate:
    """The certificate of a saved model for `data`: sequences or, for an approximator, its function."""
    if not kind_of(stored.config).has_readout:
        from monolayer.checker.uniform import judge_uniform  # which needs Arb

        return judge_uniform(stored, data, claims.tolerance)
    if claims.dtype is not None:
        stored = in_short_format(stored, claims.dtype)
    if stored.raw and not callable(data):
        raise DataError("an approximator is compared with its function: give that in place of data")
    if callable(data):
        return judge(stored, partial(_cells, stored, data), claims, CELL_CLAIM)
    return judge(stored, lambda: AskedData([lambda: data]), claims)


def judge_data(stored: Stored, parts: list[Load]) -> Certificate:
    """The certificate of a saved model for data in several parts."""
    return judge(stored, lambda: AskedData(parts), Claims())


def compared_with_old(content: bytes | OSError, new: Certificate) -> Certificate:
    """A certificate with a note on the one that lies in the folder; `content`: its bytes, or the error of reading."""
    try:
        old = Certificate.of(content)
    except ModelFileError as error:
        return replace(new, notes=(*new.notes, f"{CERTIFICATE_FILE} in this folder is ignored: {error}"))
    if old is None:
        return new
    same = {"weights": old.weights_digest == new.weights_digest, "data": old.data_digest == new.data_digest}
    notes = tuple(f"the {what} are not those of {CERTIFICATE_FILE} in this folder" for what in same if not same[what])
    notes = notes or (f"weights and data are those of {CERTIFICATE_FILE} in this folder: {old.verdict} then",)
    return replace(new, notes=new.notes + notes)


class AskedData(NamedTuple):
    """Data in parts: one, or one per file. For a function, `notes` and `condition` are added to notes and claim."""

    parts: list[Load]
    notes: tuple[str, ...] = ()
    condition: str = ""


def judge(stored: Stored, ask: Callable[[], AskedData], claims: Claims, claim: str = LABEL_CLAIM) -> Certificate:
    """The certificate of a saved model.

    `ask`: returns the data. `claims`: what is claimed besides the labels. `claim`: the claim in words, with a place for
    the number of points.
    """
    question = Certificate(
        "undecided",
        claim.replace("each of the {:,}", "each of the"),
        assumptions=model_assumptions(stored),
        weights_digest=stored.config["digest"],
        format_version=stored.config["version"],
    )
    parts: list[LoadPoints] = []
    with np.errstate(all="ignore"):  # NaN and overflow are checked below, so no warnings
        try:
            asked = ask()
            parts = [partial(_points, stored, load) for load in asked.parts]
            parts = [cache(parts[0])] if len(parts) == 1 else parts  # several parts are not kept in memory
            count = sum(len(part()) for part in parts)
            question = replace(
                question,
                claim=counted_claim(claim, count),
                points=count,
                unsure=count,
                data_digest=data_digest(*asked.parts),
                notes=asked.notes,
            )
            judgement = READOUTS[stored.config["readout"]].judge(stored, parts, question, claims)
            judgement = with_fingerprints(stored, parts, replace(judgement, claim=judgement.claim + asked.condition))
        except UnhandledError as why:
            judgement = replace(question, reason=f"the proof does not cover these weights: {why}")
        return with_trial(judgement, stored.format.name, partial(try_model, stored, parts, claims, judgement.findings))


def _points(stored: Stored, load: Load) -> Labelled:
    """The labelled points of one part of the data."""
    return labelled(stored, load())


def _cells(stored: Stored, f: AskedFunction) -> AskedData:
    """The sequences of cells that decide a claim about the function `f`, with a note on what follows for its error."""
    if not stored.raw:
        raise DataError("a function is compared with an approximator; this model is a memorizer: give X and Y")
    cells = read_cells(stored)
    note = (
        f"no coordinate off the ramps is further than h = {cells.reach:.6g} from its centre: where ω is a modulus of "
        "continuity of the function, its error there is at most ω(h), plus the tolerance if one was given; the ramps "
        f"fill {cells.ramp_share:.3g} of the domain"
    )
    data, condition, apart = cell_function(stored, f)
    if apart is not None:
        note += (
            f"; the function is not permutation equivariant: at the tokens of sequence {len(data) - 1} it is "
            f"{apart:.3g} away from what it gives them in another order, and a model without positions cannot be"
        )
    return AskedData([lambda: data], (note,), condition)


def model_assumptions(stored: Stored) -> tuple[str, ...]:
    """The assumptions of a certificate about every evaluation, as sentences."""
    fmt = stored.format
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
        NUMPY_ASSUMPTION,
        *READOUTS[stored.config["readout"]].assumes,
        *((f"weights in {stored.config['dtype']}, turned into {fmt.name} without change",) if stored.short else ()),
    )
