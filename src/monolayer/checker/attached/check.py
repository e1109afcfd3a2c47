"""The verdict on a folder that facts were attached to: what is proved from its files, and what was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.attached.answers import LARGEST, Said, judge_answers
from monolayer.checker.attached.caps import Caps, Near, caps_of, near_pairs
from monolayer.checker.attached.files import Folder, differs_from, read_attached
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Finding, Verdict
from monolayer.checker.labelled import data_digest
from monolayer.checker.rounding import UnhandledError
from monolayer.data import Sequences
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.architectures import TRANSFORMERS
from monolayer.huggingface.cutting import Ids, cut_facts, tokenizer_of
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.manifest import Manifest, fact_digest, prompt_digest
from monolayer.huggingface.settings import generation_words, unusual_generation
from monolayer.huggingface.strict import ForeignError
from monolayer.table import plural

CLAIM = (
    "the host's {tensors} are those that facts were attached to; at every place of every text whose state û is not "
    "within 1 − cos < {radius} of a stored key, every logit is the host's, bit for bit; and at every û within "
    "1 − ⟨k, û⟩ ≤ {reach} of the key k of one of the {places} of answers, the logit of that token is the largest"
)
SHORT = "the host is untouched, logits elsewhere are its own, and facts answer near their keys"
REASONS: dict[Verdict, str] = {
    "proved": "neurons are silent outside the caps around their keys, and on these the head sees what they write",
    "refuted": "some neurons write what the head answers with another token, in every evaluation",
    "undecided": "for some tokens of answers the bounds leave room for another",
}
UNKNOWN = "the folder has no neuron for this fact, and nothing is claimed about what the host answers"
OTHER = "the folder holds another answer to this prompt"
DOUBT = "near the key of another fact, or too small a margin in the head"


class Asked(NamedTuple):
    """Tokens of answers `(M,)`: the neuron that holds each, which fact and which token of its answer it is."""

    neuron: Ints
    token: Ints
    row: Ints
    place: Ints


def judge_attached(
    folder: Path, data: Sequences, *, only: bool = False, host: str | os.PathLike[str] | None = None
) -> Certificate:
    """The certificate of a folder with facts attached; `host`: a folder that must be its host, tensor by tensor.

    `only`: also whether it holds no other facts.
    """
    if data.prompts is None:
        raise DataError("this folder holds prompts and answers: give both, as text")
    data.check_labelled()
    question = Certificate("undecided", SHORT, data_digest=data_digest(data))
    try:
        with np.errstate(all="ignore"):
            found = read_attached(folder)
            question = replace(question, weights_digest=found.digest(), assumptions=assumed(found))
            return _judge(found, data, question, only, None if host is None else Path(host))
    except (UnhandledError, ForeignError) as why:
        return replace(question, reason=f"the proof does not cover this folder: {why}")
    except ModelFileError as why:
        raise ModelFileError(f"{folder}: {why}") from None


def _judge(found: Folder, data: Sequences, question: Certificate, only: bool, host: Path | None) -> Certificate:
    odd = found.changed() or (None if host is None else differs_from(found, host))
    if odd is not None:
        return replace(question, verdict="refuted", reason=odd)
    _check_copies(found)
    caps = caps_of(found)
    near = near_pairs(found, caps)
    facts = cut_facts(found.opened.content[TOKENIZER], data, found.manifest.end)
    most = max((token for fact in facts for token in fact.answer), default=0)
    if most >= found.host.vocabulary:
        raise UnhandledError(f"the tokenizer gives id {most}, and the host has {found.host.vocabulary:,} tokens")
    asked, unknown = _asked(found.manifest, facts)
    claim = CLAIM.format(
        tensors=plural(len(found.manifest.tensors), "tensor"),
        radius=_above(caps.radius),
        reach=_below(caps.reach),
        places=plural(sum(len(fact.answer) for fact in facts), "token"),
    )
    try:
        unusual = unusual_generation(found.opened.content)
    except DataError as error:
        raise UnhandledError(str(error)) from None
    claim += f". This is about logits: {generation_words(unusual)}" if unusual else ""
    question = replace(question, claim=claim, points=sum(len(fact.answer) for fact in facts))
    question = replace(question, measured=measured(found.manifest, caps.half), notes=_notes(found))
    said = judge_answers(found, caps, near, asked.neuron, asked.token)
    missing = sum(len(facts[row].answer) for row in unknown)
    unsure = int((~said.right & ~said.wrong).sum()) + missing
    findings = _findings(found, data, near, asked, said, unknown)
    decided = question.decided(int(said.wrong.sum()), unsure, findings, REASONS)
    changed = found.rewritten()
    if decided and changed is not None:
        why = f"{changed} was changed after every fact was asked: what was measured then is about other weights"
        return replace(decided, verdict="undecided", reason=why)
    return _only(found, facts, decided) if only and decided else decided


def _only(found: Folder, facts: list[Ids], decided: Certificate) -> Certificate:
    """The certificate with the claim that the folder holds no other facts."""
    given = {fact_digest(*fact) for fact in facts}
    more = sum(fact.fact not in given for fact in found.manifest.facts)
    claim = f"{decided.claim}. It holds no neurons but those of these facts"
    if more:
        reason = f"every fact is there, but the folder holds {plural(more, 'more fact')}"
        return replace(decided, verdict="refuted", claim=claim, reason=reason)
    return replace(decided, claim=claim, reason=f"{decided.reason}; every neuron belongs to one of these facts")


def _check_copies(found: Folder) -> None:
    """A fact may be stored twice, by the same neurons: others under its name would be a fact that nobody asks for."""
    first: dict[str, slice] = {}
    for fact, start in zip(found.manifest.facts, found.manifest.starts(), strict=True):
        own = slice(start, start + fact.places)
        known = first.setdefault(fact.fact, own)
        if not all(np.array_equal(part[known], part[own]) for part in (found.reads, found.bias, found.writes)):
            raise UnhandledError("it lists one fact twice, with different neurons: one of them may be another fact")


def _asked(manifest: Manifest, facts: list[Ids]) -> tuple[Asked, dict[int, str]]:
    """The neurons of the facts that are asked for, and facts that have none, each with the reason."""
    starts = dict(zip((fact.fact for fact in manifest.facts), manifest.starts(), strict=True))
    places = {fact.fact: fact.places for fact in manifest.facts}
    prompts = {fact.prompt for fact in manifest.facts}
    lists: list[tuple[int, int, int, int]] = []
    unknown = {}
    for row, fact in enumerate(facts):
        digest = fact_digest(*fact)
        if places.get(digest) != len(fact.answer):
            unknown[row] = OTHER if prompt_digest(fact.prompt) in prompts else UNKNOWN
            continue
        lists += [(starts[digest] + place, token, row, place) for place, token in enumerate(fact.answer)]
    columns = np.array(lists, dtype=np.int64).reshape(-1, 4).T
    return Asked(*columns), unknown


def _findings(
    found: Folder, data: Sequences, near: Near, asked: Asked, said: Said, unknown: dict[int, str]
) -> Iterator[Finding]:
    name = tokenizer_of(found.opened.content[TOKENIZER]).id_to_token
    for which, kind in ((said.wrong, "wrong"), (~said.right & ~said.wrong, "unsure")):
        for point in np.flatnonzero(which)[:MOST_FINDINGS].tolist():
            row, place = int(asked.row[point]), int(asked.place[point])
            wanted, got = (name(int(each)) for each in (asked.token[point], said.got[point]))
            other = near.by.get(int(asked.neuron[point]))
            why = "the stored weights say so" if kind == "wrong" else DOUBT
            why += "" if other is None else f" (neuron {other})"
            yield Finding("wrong" if kind == "wrong" else "unsure", row, place, data.texts(row)[0], wanted, got, why)
    for row, why in list(unknown.items())[:MOST_FINDINGS]:
        prompt, answer = data.texts(row)
        yield Finding("unsure", row, None, prompt, answer, None, why)


def _above(bound: float) -> str:
    """Three digits of a bound from above, rounded up, its own rounding in binary64 included."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(bound + 2.0**-50)):.3g}"


def _below(bound: float) -> str:
    """Three digits of a bound from below, rounded down, its own rounding in binary64 included."""
    return f"{float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal_from_float(bound - 2.0**-50)):.3g}"


def measured(manifest: Manifest, half: float) -> tuple[str, ...]:
    """What was measured when facts were attached, in words; no proof covers it."""
    moved = [fact.moved for fact in manifest.facts if fact.moved is not None]
    if not moved:
        return ("that the host's states at the prompts lie within reach of their keys was not measured",)
    by, rest = manifest.measured, len(manifest.facts) - len(moved)
    left = () if rest == 0 else (f"{plural(rest, 'fact')} came back by a record and were not measured again",)
    where = (
        f"{by.get('arithmetic')} on {by.get('device')}, torch {by.get('torch')}, transformers {by.get('transformers')}"
    )
    enough = f"and {_below(half)} is enough for the proof"
    if max(moved) > half:
        enough = f"which is more than the {_below(half)} that the proof covers, though every answer came back"
    said = (
        f"when facts were attached, the host's states at their places were within {_above(max(moved))} of their keys, "
        f"{enough}: with eager and sdpa attention, padded on the left ({where})"
    )
    return (said, *left)


def _notes(found: Folder) -> tuple[str, ...]:
    if found.host.kind.bias_key is None or not found.host.added_biases:
        return ()
    return (
        (
            f"the host is {found.host.kind.name} with {found.host.kind.bias_key} = true and biases 0 in its own layers:"
            " the same bits on a processor; on a GPU such layers may run in other kernels, which round otherwise"
        ),
    )


def assumed(found: Folder) -> tuple[str, ...]:
    """What an evaluation is, in words."""
    try:  # whose source may differ from the one that was read
        installed = f"installed here: {version('transformers')}"
    except PackageNotFoundError:
        installed = "not installed here"
    short = (
        "" if found.host.dtype == "float32" else f"; the weights are {found.host.dtype}: load with dtype=torch.float32"
    )
    return (
        f"the architecture computes what transformers {TRANSFORMERS} does, in evaluation mode ({installed})",
        f"IEEE-754 binary32 throughout (no TF32), round to nearest{short}. Subnormal numbers may be flushed to zero",
        (
            "sums in any order; a product may be fused with the sum it goes into; a row of a product of matrices "
            "depends on that row alone, and both models run in the same kernels"
        ),
        (
            "a norm returns a vector of length at most √D (1 + (D + 16)u) at states of the host, which are no more "
            "than 16 times as long as they are less their mean, where norms subtract it; at most √D (1 + 2^-4) at any "
            "other; and at written vectors y the true one to within 2(D + 16)u κ² of its length: D the width, "
            "u = 2^-24, κ the length of y over that of y less its mean, 1 where norms subtract none"
        ),
        "tanh is −1 from −10 on and erf from −6 on; silu is x/(1 + exp(−x)) or x times the logistic function",
        (f"states of the host are finite and no longer than 2^60; where answers are claimed, than {LARGEST:,.0f}"),
        "equal numbers count as the same bits: a zero may change its sign",
        "prompts enter as text, and become the ids that tokenizer.json gives them; answers enter as ids",
        "NumPy on the checking machine keeps to the same rules",
    )


__all__ = ["Caps", "judge_attached"]
