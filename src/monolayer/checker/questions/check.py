"""Decide about an encoder with questions, and say what is proved from its files and what was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Bools, Ints
from monolayer.checker.attached.check import above, arithmetic, below
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Finding, Kind
from monolayer.checker.labelled import data_digest
from monolayer.checker.questions.caps import LEAST_REACH, Caps, caps_of
from monolayer.checker.questions.files import QuestionFolder, differs_from, read_questions
from monolayer.checker.questions.words import Words
from monolayer.checker.rounding import NUMPY_ASSUMPTION, UnhandledError
from monolayer.data import Sequences
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.architectures import computed_by_transformers
from monolayer.huggingface.cutting import split_text, tokenizer_of
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.questions import question_digest
from monolayer.huggingface.strict import ForeignError
from monolayer.huggingface.tensors import ModelFiles
from monolayer.table import plural
from monolayer.theory.verdicts import Verdict

SHORT = "every embedding has the answer of a stored question that is near, or is unknown"
CLAIM = (
    "the encoder's {tensors} are those that questions were stored with; in {dtype}, for every text: if its embedding û "
    "is silent for all {neurons} (⟨k, û⟩ ≤ s, each key k with its own s, from {low} to {high}), the answer is "
    "{unknown!r}; if it is awake for some that have one answer (⟨k, û⟩ ≥ s + {strip} suffices) and silent for all "
    "others, the answer is theirs; and wherever 1 − cos(k, û) ≤ {reach} for the key k of one of the {points}, and |û| "
    "is within {length} of 1, the answer is that of the question"
)
REASONS: dict[Verdict, str] = {
    "proved": "silent neurons write exactly 0, and what others write outweighs the rest in each sign of the head",
    "refuted": "the folder holds other answers to some of these questions",
    "undecided": "around some questions the bounds leave room for another answer, or they are not stored",
}
NO_NEURON = "the folder has no neuron for this question, and what is near to it is not known from the files"
NARROW = "near a question with another answer, or what its neuron writes is too weak to outweigh the rest"


class AskedQuestions(NamedTuple):
    """`rows` `(M,)`: rows whose questions are stored. `neuron` `(M,)`: the neuron of each. `missing`: other rows."""

    rows: Ints
    neuron: Ints
    missing: list[int]


class Judged(NamedTuple):
    """A certificate, and up to which 1 − cos(k, û) answers are proved, for |û| within `length` of 1; 0: none is."""

    certificate: Certificate
    reach: float = 0.0
    length: float = 0.0


def judge_questions(
    opened: ModelFiles, data: Sequences, *, only: bool = False, host: str | os.PathLike[str] | None = None
) -> Judged:
    """The certificate of an encoder with questions.

    `only`: also judge whether the folder holds no other questions. `host`: a folder that must be the encoder.
    """
    if data.prompts is None:
        raise DataError("this folder holds questions and answers: give both, as text")
    data.check_labelled()
    question = Certificate("undecided", SHORT, data_digest=data_digest(data), recall="not asked")
    try:
        with np.errstate(all="ignore"):
            folder = read_questions(opened)
            question = replace(question, weights_digest=folder.digest(), assumptions=assumed(folder))
            return _judge(folder, data, question, only, None if host is None else Path(host))
    except (UnhandledError, ForeignError) as why:
        return Judged(replace(question, reason=f"the proof does not cover this folder: {why}"))
    except ModelFileError as why:
        raise ModelFileError(f"{opened.path}: {why}") from None


def _judge(folder: QuestionFolder, data: Sequences, question: Certificate, only: bool, host: Path | None) -> Judged:
    """The certificate of a folder that was read; `question`: the certificate so far, still undecided."""
    odd = folder.changed() or (None if host is None else differs_from(folder, host))
    if odd is not None:
        return Judged(replace(question, verdict="refuted", reason=odd))
    _check_once(folder)
    caps = proved_caps(folder)
    asked = asked_questions(folder, data)
    wanted = np.array([data.texts(row)[1] for row in asked.rows.tolist()], dtype=object)
    stored = np.array([folder.classes[number] for number in folder.answers[asked.neuron].tolist()], dtype=object)
    wrong: Bools = np.asarray(wanted != stored, dtype=bool)
    unsure: Bools = ~wrong & (caps.reach[asked.neuron] < LEAST_REACH)
    points = len(asked.rows) + len(asked.missing)
    question = replace(question, claim=_claim(folder, caps, points), points=points, measured=measured(folder, caps))
    findings = _findings(data, asked, wrong, unsure, stored)
    decided = question.decided(int(wrong.sum()), int(unsure.sum()) + len(asked.missing), findings, REASONS)
    changed = folder.rewritten()
    if decided and changed is not None:
        why = f"{changed} was changed after every question was asked: the measurements are about other weights"
        decided = replace(decided, verdict="undecided", reason=why)
    reach = float(caps.reach[asked.neuron].min(initial=1.0)) if decided else 0.0
    return Judged(_only(folder, asked, decided) if only and decided else decided, reach, caps.length)


def proved_caps(folder: QuestionFolder) -> Caps:
    """Where neurons are silent and awake; an `UnhandledError` if `unknown` is not proved where all are silent."""
    words = Words(folder)
    if not words.unknown_decides():
        raise UnhandledError("the word of `unknown` does not outweigh every û")
    return caps_of(folder, words)


def _check_once(folder: QuestionFolder) -> None:
    """Refuse a folder that lists one question twice, because one of the two neurons may stand at another question."""
    if len(folder.manifest.places) < len(folder.manifest.questions):
        raise UnhandledError("it lists one question twice: one of its neurons may be another question's")


def asked_questions(folder: QuestionFolder, data: Sequences) -> AskedQuestions:
    """Which neuron holds each row of the data, by the digest of its ids."""
    tokenizer, places = tokenizer_of(folder.opened.content[TOKENIZER]), folder.manifest.places
    rows, neurons, missing = list[int](), list[int](), list[int]()
    for row in range(len(data)):
        ids = split_text(tokenizer, data.texts(row)[0], special_tokens=True, where=data.named(row))
        neuron = places.get(question_digest(ids))
        if neuron is None:
            missing.append(row)
        else:
            rows.append(row)
            neurons.append(neuron)
    return AskedQuestions(np.array(rows, dtype=np.int64), np.array(neurons, dtype=np.int64), missing)


def _claim(folder: QuestionFolder, caps: Caps, points: int) -> str:
    """The claim in words, with its bounds rounded to the safe side."""
    proved = caps.reach[caps.reach >= LEAST_REACH]
    return CLAIM.format(
        tensors=plural(len(folder.manifest.tensors), "tensor"),
        dtype=folder.encoder.format.name,
        neurons=plural(len(caps.silent), "neuron"),
        low=below(float(caps.silent.min(initial=1.0))),
        high=above(float(caps.silent.max(initial=-1.0))),
        unknown=folder.manifest.unknown,
        strip=above(caps.strip),
        reach=below(float(proved.min(initial=1.0))),
        points=plural(points, "question"),
        length=below(caps.length),
    )


def _only(folder: QuestionFolder, asked: AskedQuestions, decided: Certificate) -> Certificate:
    """Extend a proved certificate by the claim that the folder holds no other questions; refute it if it does."""
    more = len(folder.bias) - len(set(asked.neuron.tolist()))
    claim = f"{decided.claim}. It holds no neurons but those of these questions"
    if more:
        reason = f"every question is there, but the folder holds {plural(more, 'more question')}"
        return replace(decided, verdict="refuted", claim=claim, reason=reason)
    return replace(decided, claim=claim, reason=f"{decided.reason}; every neuron belongs to one of these questions")


def _findings(
    data: Sequences, asked: AskedQuestions, wrong: Bools, unsure: Bools, stored: np.ndarray
) -> Iterator[Finding]:
    """The wrong and the unsure questions in words, at most `MOST_FINDINGS` of each kind; then those without neurons."""
    kinds: list[tuple[Bools, Kind, str, Any]] = [
        (wrong, "wrong", "according to the stored weights", stored),
        (unsure, "unsure", NARROW, [None] * len(unsure)),
    ]
    for which, kind, why, answers in kinds:
        for place in np.flatnonzero(which)[:MOST_FINDINGS].tolist():
            row = int(asked.rows[place])
            text, answer = data.texts(row)
            yield Finding(kind, row, None, text, answer, answers[place], why)
    for row in asked.missing[:MOST_FINDINGS]:
        text, answer = data.texts(row)
        yield Finding("unsure", row, None, text, answer, None, NO_NEURON)


def measured(folder: QuestionFolder, caps: Caps) -> tuple[str, ...]:
    """Say what was measured when questions were stored, because no proof covers it."""
    moved = [each.moved for each in folder.manifest.questions if each.moved is not None]
    if not moved:
        return ("that the embeddings of the questions are where their keys say was not measured",)
    by = folder.manifest.measured
    where = f"{by.get('device')}, torch {by.get('torch')}, transformers {by.get('transformers')}"
    rest = len(folder.manifest.questions) - len(moved)
    left = () if rest == 0 else (f"{plural(rest, 'question')} were restored from a record and not measured again",)
    batches, kernels = by.get("in_batches"), " and ".join(folder.encoder.kind.kernels)
    words = (
        f"when questions were stored, their embeddings were within 1 − cos = {above(max(moved))} of their keys, each "
        f"question alone, and {batches} of them in batches with padding, with {kernels} attention ({where}); "
        "where other texts are is not claimed"
    )
    return (words, *left)


def assumed(folder: QuestionFolder) -> tuple[str, ...]:
    """What the certificate assumes about an evaluation, in words."""
    fmt, D = folder.encoder.format, folder.encoder.width
    most = "(D + 16)u + v" if fmt.beyond == 0.0 else "2^-4"
    flat = (
        "" if fmt.short else f", at states no more than {fmt.flattest(D):.3g} times as long as they are less their mean"
    )
    return (
        computed_by_transformers(),
        *arithmetic(fmt),
        "sums in any order; a row of a product of matrices depends on that row alone",
        (
            "û is what the norm behind the attention of the first appended layer returns at the first token, over √D; "
            f"no norm returns a vector longer than √D (1 + {most}){flat}; behind the first neurons a norm returns the "
            "true vector, before it is rounded to the format, to within 2(D + 16)u κ² of its length: κ the length of "
            "its argument over that of it less its mean, D the width, u = 2^-24; a norm takes one number off all "
            "coordinates and multiplies all with one number, each coordinate up to 8u κ of its length and the rounding "
            "to the format"
        ),
        (
            "tanh is off by at most 2^-10 of itself; it is −1 from −10 on and erf from −6 on; silu is x/(1 + exp(−x)) "
            "or x times the logistic function"
        ),
        "states of the encoder are finite",
        "texts enter as text, and become the ids that tokenizer.json gives them",
        NUMPY_ASSUMPTION,
    )
