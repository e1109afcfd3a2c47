"""`certify`: whether a saved model of any kind returns the labels of data, which may lie in many files."""

from __future__ import annotations

import os
import pickle
import tempfile
from functools import partial
from pathlib import Path
from typing import Unpack

from monolayer.arrays import dtype_name
from monolayer.bar import reporting, shows_progress
from monolayer.checker.asked import asked_data, asked_files
from monolayer.checker.certificate import Certificate, Claims
from monolayer.checker.check import NEEDS_SUBNORMALS
from monolayer.checker.labelled import Load
from monolayer.data import Sequences
from monolayer.data.choices import Belongs, Unit
from monolayer.data.layout import Manner
from monolayer.data.origin import Origin
from monolayer.data.plan import ReadPlan
from monolayer.data.readers import ReadKeywords
from monolayer.data.shards import kinds, strangers
from monolayer.data.subnormal import check_subnormals_count
from monolayer.saved.kinds import open_model
from monolayer.table import Progress


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
    ask: bool | None = None,
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
    - `host`: for a folder with attached facts or stored questions, a folder that must be its host, tensor by tensor.
      What is proved and what was measured is in docs/attach.md and docs/understand.md.
    - `ask`: for a folder with attached facts or stored questions, whether to run the model here and ask it for every
      answer; by default, if transformers is installed. A wrong answer refutes the claim; `recall` of the certificate
      says how many came back, or that the model was not asked. What is proved holds for states of the host near the
      stored ones: without asking, nothing says that the host is at these states when it reads the texts.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    If a folder holds a certificate, a note says whether weights or data have changed since.

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo"}
        >>> ml.certify(ml.memorize(table), table).verdict
        'proved'
    """
    check_subnormals_count(NEEDS_SUBNORMALS)
    claims = Claims(tolerance, only, noise, dtype_name(dtype), host, ask)
    saved = open_model(model)
    saved.check(claims)
    if saved.takes(X):
        return saved.judge(X, claims, reporting(progress))
    options: ReadKeywords = {"per": per, "unit": unit, "tokens": tokens, "labels": labels}
    data = asked_data(X, Y, lengths, saved.manner, labelled=not saved.next_token, **options)
    return saved.judge(data, claims, reporting(progress)).about(data.origin, data.plans)


def certify_files(
    model: object,
    names: list[str],
    *,
    progress: Progress = lambda stage, share: None,
    like: Manner | None = None,
    **options: Unpack[ReadKeywords],
) -> Certificate | None:
    """`certify` of a saved model and the labelled data in the files `names`, a file at a time.

    Files are read with `options`, and as `like` says where these leave something out. They are read once and kept in a
    temporary folder. `progress` is told how far it is. The result is None where all
    data must be in memory at once: for stock folders, robust models, vectors, and files without a next token.
    """
    check_subnormals_count(NEEDS_SUBNORMALS)
    saved = open_model(model)
    if not saved.in_parts:
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
            kinds_here, first = kinds(data), first or kinds(data)
            if kinds_here != first:
                raise strangers(names[0], first, name, kinds_here)
            if data.labels is None and data.lengths.max() == 1:  # other files may have next tokens
                return None
            kept = Path(scratch) / str(number)
            with kept.open("wb") as file:
                pickle.dump(data, file, protocol=5)
            parts.append(partial(_load, kept))
            origins.append((data.origin, len(data)))
            plans += data.plans
        progress("checking", 0.5)
        judgement = saved.judge_parts(parts)
    return judgement.about(Origin.joined(origins), plans)


def _load(kept: Path) -> Sequences:
    """The data that `certify_files` kept in a file."""
    with kept.open("rb") as file:
        data: Sequences = pickle.load(file)  # written above, into a folder of our own
    return data
