"""`certify`: from stored weights and labelled points to a certificate, in one pass over the data.

    a token     →  key s, code t          read from the file                              codes.py
    its context →  z = t + o v B(q k; s)  and how far any evaluation may be from ours     codes.py, rounding.py
    z           →  label coordinate       the plateau that holds all those evaluations    stages.py, readout.py
    label       →  answer                 what the head returns, compared with the data   line.py

O(T + M log M) for `T` tokens and `M` labelled points. What is claimed, assumed and proved: docs/certificate.md.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from monolayer.arrays import dtype_name
from monolayer.bar import reporting, shows_progress
from monolayer.checker.asked import asked_data, asked_files
from monolayer.checker.attached.check import judge_attached
from monolayer.checker.cells import AskedFunction, cell_function, read_cells
from monolayer.checker.certificate import CERTIFICATE_FILE, Certificate, Claims
from monolayer.checker.format import READOUTS
from monolayer.checker.labelled import Labelled, Load, LoadPoints, data_digest, labelled
from monolayer.checker.network import Stored
from monolayer.checker.recognized import with_fingerprints
from monolayer.checker.robust import MOST_NOISE, in_short_format
from monolayer.checker.rounding import EXP_ULPS, NUMPY_ASSUMPTION, UnhandledError
from monolayer.checker.stock.check import judge_stock
from monolayer.checker.stored import opened
from monolayer.checker.tried import try_model, with_trial
from monolayer.checker.uniform import judge_uniform
from monolayer.data import Names, Sequences
from monolayer.data.labels import Belongs
from monolayer.data.layout import Manner
from monolayer.data.names import Unit
from monolayer.data.origin import Origin
from monolayer.data.plan import ReadPlan
from monolayer.data.readers import ReadKeywords
from monolayer.data.shards import kinds, strangers
from monolayer.data.subnormal import check_subnormals_count
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.manifest import asked_per
from monolayer.huggingface.opened import Files
from monolayer.huggingface.reading import asked_as
from monolayer.huggingface.tensors import TensorFolder
from monolayer.table import Progress

NEEDS_SUBNORMALS = "a checker that does so takes different labels and weights for equal"
LABEL_CLAIM = "every evaluation returns the label at each of the {:,} labelled points"
CELL_CLAIM = (
    "off the ramps, every evaluation returns the value of the function at the centres of the cells, at each of the "
    "{:,} tokens of all sequences of cells"
)
"""The claim about an approximator and its function.

`CellFunction.condition` adds in which orders of tokens it holds.
"""


def _check_claims(claims: Claims, stored: Stored | None) -> None:
    """Raise an error if claims make no sense, or not for this model; `stored` is None for a stock folder."""
    _check_number("tolerance", claims.tolerance, np.inf, "a finite number from 0 on, or None for equality")
    _check_number("noise", claims.noise, MOST_NOISE, f"a share of each weight from 0 to {MOST_NOISE}")
    short, kind = claims.noise or claims.dtype, None if stored is None else stored.config["kind"]
    if kind == "interpolator" and (short or claims.only):
        raise DataError("noise, dtype and only are claims about memorizers; this network approximates a function")
    row = None if stored is None or kind == "interpolator" else READOUTS[stored.config["readout"]]
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
    if kind == "approximator":
        raise DataError("only= asks whether a memorizer holds nothing but its data; this model is an approximator")


def _check_number(name: str, value: Any, most: float, words: str) -> None:
    """Raise an error unless the option `name` is None or a number from 0 to `most`; `words` describe that."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value <= most and value < np.inf):
        raise DataError(f"{name} must be {words}, not {value!r}")


@shows_progress
def certify(
    model: object,
    X: object,
    Y: object = None,
    *,
    lengths: object = None,
    per: Belongs | None = None,
    unit: Unit | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    tolerance: float | None = None,
    only: bool = False,
    noise: float | None = None,
    dtype: object = None,
    host: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> Certificate:
    """Whether a saved model returns the label of every point, in every evaluation that the assumptions allow.

    - `model`: a folder, or anything with `save(folder)`: then what it writes is judged.
    - `X`: the data, as for `memorize`. For an approximator, the function itself, with NumPy arrays in and out: the
      claim is about every sequence off the ramps. For a folder with attached facts, prompts.
    - `Y`: the labels, or the answers to prompts. A next-token model needs none.
    - `lengths`, `per`, `unit`, `tokens`, `labels`: as for `memorize`; whatever is left out is as the model has it.
    - `tolerance`: how far a real answer may be from its label; by default they must be equal.
    - `only`: True also asks whether the readout holds nothing but these data (docs/editing.md); for a folder with
      attached facts, whether it holds no other facts.
    - `noise`: for a robust model, claim it for every change of each weight by at most this share of itself.
    - `dtype`: for a robust model, claim it for the weights rounded to `bfloat16`, `float16` or `int8` (whole multiples
      of one scale per row).
    - `host`: for a folder with attached facts, a folder that must be its host, tensor by tensor. What is proved and
      what was measured is in docs/attach.md.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    If a folder holds a certificate, a note says whether weights or data have changed since.

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo"}
        >>> ml.certify(ml.memorize(table), table).verdict
        'proved'
    """
    check_subnormals_count(NEEDS_SUBNORMALS)
    claims = Claims(tolerance, only, noise, dtype_name(dtype))
    origin: Origin | None = None
    plans: tuple[ReadPlan, ...] = ()

    def data(names: Names | None, answers: Belongs | None, next_token: bool = False) -> Sequences:
        nonlocal origin, plans
        like = Manner(None if names is None else names.cuts, answers)
        options: ReadKeywords = {"per": per, "unit": unit, "tokens": tokens, "labels": labels}
        found = asked_data(X, Y, lengths, like, labelled=not next_token, **options)
        origin, plans = found.origin, found.plans
        return found

    stored = opened(model)
    if isinstance(stored, TensorFolder):
        given = [name for name, value in claims._asdict().items() if name != "only" and value is not None]
        if given:
            raise DataError(f"{given[0]} does not apply to a folder with attached facts: leave it out")
        return judge_attached(stored, data(None, asked_per(stored)), only=only, host=host).about(origin, plans)
    if host is not None:
        raise DataError("host= is for folders that facts were attached to, and this is not one")
    return compared_with_old(stored, _certificate_of(stored, X, data, claims, reporting(progress))).about(origin, plans)


def _certificate_of(
    stored: Stored | Files,
    X: object,
    data: Callable[[Names | None, Belongs | None, bool], Sequences],
    claims: Claims,
    report: Progress,
) -> Certificate:
    """The certificate of a model that was read.

    `data`: reads the data of the caller, given the names of the model, what its labels belong to, and whether they are
    the next tokens. `report`: told how far it is.
    """
    report("checking every label", 0.0)
    if isinstance(stored, Files):
        _check_claims(claims, None)
        return judge_stock(stored, data(*asked_as(stored)), only=claims.only, report=report)
    _check_claims(claims, stored)
    if stored.config["kind"] == "interpolator":
        return judge_uniform(stored, X, claims.tolerance)
    if claims.dtype is not None:
        stored = in_short_format(stored, claims.dtype)
    if stored.raw and not callable(X):
        raise DataError("an approximator is compared with its function: give that in place of data")
    if callable(X):
        return judge(stored, partial(_cells, stored, X), claims, CELL_CLAIM)
    asked = data(stored.vocabulary, stored.config["per"], stored.config["next_token"])
    return judge(stored, lambda: AskedData([lambda: asked]), claims)


def compared_with_old(stored: Stored | Files, new: Certificate) -> Certificate:
    """A certificate with a note on the one that lies in the folder, if there is one."""
    try:
        old = Certificate.of(stored.content[CERTIFICATE_FILE] if isinstance(stored, Files) else stored.certificate)
    except ModelFileError as error:
        return replace(new, notes=(*new.notes, f"{CERTIFICATE_FILE} in this folder is ignored: {error}"))
    if old is None:
        return new
    same = {"weights": old.weights_digest == new.weights_digest, "data": old.data_digest == new.data_digest}
    notes = tuple(f"the {what} are not those of {CERTIFICATE_FILE} in this folder" for what in same if not same[what])
    notes = notes or (f"weights and data are those of {CERTIFICATE_FILE} in this folder: {old.verdict} then",)
    return replace(new, notes=new.notes + notes)


def certify_files(
    folder: str | os.PathLike[str] | Stored | Files | TensorFolder,
    names: list[str],
    *,
    progress: Progress = lambda stage, share: None,
    like: Manner | None = None,
    **options: Unpack[ReadKeywords],
) -> Certificate | None:
    """`certify` of the saved model in `folder` and the labelled data in the files `names`, a file at a time.

    Files are read with `options`, and as `like` says where these leave something out. They are read once and kept in a
    temporary folder. `progress` is told how far it is. The result is None where all
    data must be in memory at once: for stock folders, robust models, vectors, and files without a next token.
    """
    check_subnormals_count(NEEDS_SUBNORMALS)
    stored = opened(folder)
    if isinstance(stored, Files | TensorFolder):
        return None
    if stored.config.get("tokens") != "ids" or not READOUTS[stored.config["readout"]].in_parts:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        parts: list[Load] = []
        origins: list[tuple[Origin | None, int]] = []
        plans: tuple[ReadPlan, ...] = ()
        first = ""
        for number, name in enumerate(names):
            progress("reading", 0.4 * number / len(names))
            data = asked_files(name, like=like, **options)
            data.check_no_prompts()
            own, first = kinds(data), first or kinds(data)
            if own != first:
                raise strangers(names[0], first, name, own)
            if data.labels is None and data.lengths.max() == 1:  # other files may have next tokens
                return None
            kept = Path(scratch) / str(number)
            with kept.open("wb") as file:
                pickle.dump(data, file, protocol=5)
            parts.append(partial(_load, kept))
            origins.append((data.origin, len(data)))
            plans += data.plans
        progress("checking", 0.5)
        found = judge(stored, lambda: AskedData(parts), Claims())
    return compared_with_old(stored, found).about(Origin.joined(origins), plans)


def _load(kept: Path) -> Sequences:
    """The data that `certify_files` kept in a file."""
    with kept.open("rb") as file:
        data: Sequences = pickle.load(file)  # written above, into a folder of our own
    return data


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
                claim=claim.format(count),
                points=count,
                unsure=count,
                data_digest=data_digest(*asked.parts),
                notes=asked.notes,
            )
            found = READOUTS[stored.config["readout"]].judge(stored, parts, question, claims)
            found = with_fingerprints(stored, parts, replace(found, claim=found.claim + asked.condition))
        except UnhandledError as why:
            found = replace(question, reason=f"the proof does not cover these weights: {why}")
        return with_trial(found, stored.format.name, partial(try_model, stored, parts, claims, found.findings))


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
    """What a certificate assumes of every evaluation, in sentences."""
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
