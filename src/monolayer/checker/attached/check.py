"""Decide about a folder that facts were attached to, and say what is proved from its files and what was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Ints
from monolayer.checker.attached.answers import JudgedTokens, judge_at_longest
from monolayer.checker.attached.caps import Caps, Near, caps_and_neighbours
from monolayer.checker.attached.files import AttachedFolder, differs_from, read_attached
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Finding, Kind
from monolayer.checker.labelled import data_digest
from monolayer.checker.rounding import NUMPY_ASSUMPTION, UnhandledError
from monolayer.data import Sequences
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.architectures import computed_by_transformers
from monolayer.huggingface.cutting import FactIds, TokenNames, cut_facts
from monolayer.huggingface.endings import Endings
from monolayer.huggingface.formats import HostFormat
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.manifest import FILE, Manifest, fact_digest, prompt_digest
from monolayer.huggingface.settings import generation_words, stopping_tokens, unusual_generation
from monolayer.huggingface.strict import ForeignError
from monolayer.huggingface.templates import stand_alone, template_words
from monolayer.huggingface.tensors import ModelFiles
from monolayer.table import plural
from monolayer.theory.verdicts import Verdict

CLAIM = (
    "the host's {tensors} are those that facts were attached to; in {dtype}, at every place of every text whose state "
    "û is not within 1 − ⟨k, û⟩ < {radius} of a stored key k, every logit is {whose}, bit for bit; and {near} "
    "of the key k of one of the {places} of answers{forms}{input}, for states of the host no longer than {state}, the "
    "logit of that token is the largest"
)
NEAR_KEY = "at every û within 1 − ⟨k, û⟩ ≤ {reach}"
NEAR_OTHERS = " ({reach} for {count} that others are near to)"
NEAR_SHORT = "at every û within 1 − cos ≤ {turn}"
NEAR_OWN = " ({least} to {most}, half the radius of its neuron)"
NEAR_GUARDED = (
    " (for {count} that others are near to: where these are silent and, whatever they do, within 1 − cos ≤ {turn} at "
    "inputs up to {near})"
)
INPUT_SHORT = ", at which the input of its neuron lies between {low} and {high}"
STOPPED = "This is about logits: generate stops at {token} (eos_token_id), so what follows there does not come"
SHORT = "the host is untouched, logits elsewhere are its own, and facts answer near their keys"
REASONS: dict[Verdict, str] = {
    "proved": "neurons are silent outside the caps around their keys, and on these the head sees what they write",
    "refuted": "some neurons write what the head answers with another token, in every evaluation",
    "undecided": "for some tokens of answers the bounds leave room for another",
}
NO_NEURON = "the folder has no neuron for this fact, and nothing is claimed about what the host answers"
OTHER = "the folder holds another answer to this prompt"
DOUBT = "near the key of another fact, or too small a margin in the head"


class AskedTokens(NamedTuple):
    """The tokens of answers `(M,)` to judge.

    `neuron`: the neuron that holds the token. `place`: its place in the answer. `facts`: the fact of each token.
    """

    neuron: Ints
    token: Ints
    place: Ints
    facts: list[FactIds]


def judge_attached(
    folder: ModelFiles, data: Sequences, *, only: bool = False, host: str | os.PathLike[str] | None = None
) -> Certificate:
    """The certificate of a folder with facts attached.

    `only`: also judge whether the folder holds no other facts. `host`: a folder whose tensors and files must be those
    of the host, if given.
    """
    if data.prompts is None:
        raise DataError("this folder holds prompts and answers: give both, as text")
    data.check_labelled()
    question = Certificate("undecided", SHORT, data_digest=data_digest(data), recall="not asked")
    try:
        with np.errstate(all="ignore"):
            attached = read_attached(folder)
            question = replace(question, weights_digest=attached.digest(), assumptions=assumed(attached))
            return _judge(attached, data, question, only, None if host is None else Path(host))
    except (UnhandledError, ForeignError) as why:
        return replace(question, reason=f"the proof does not cover this folder: {why}")
    except ModelFileError as why:
        raise ModelFileError(f"{folder.path}: {why}") from None


def _judge(
    attached: AttachedFolder, data: Sequences, question: Certificate, only: bool, host: Path | None
) -> Certificate:
    """The certificate of a folder that was read; `question`: the certificate so far, still undecided."""
    odd = attached.changed() or (None if host is None else differs_from(attached, host))
    if odd is not None:
        return replace(question, verdict="refuted", reason=odd)
    _check_copies(attached)
    infinite = next((name for name in attached.manifest.tensors if not attached.opened[name].is_finite()), None)
    if infinite is not None:
        raise UnhandledError(f"the host's tensor {infinite} holds a number that is not finite")
    caps, near = caps_and_neighbours(attached)
    manifest = attached.manifest
    facts = cut_facts(attached.opened.content[TOKENIZER], data, manifest.end, manifest.templates, manifest.per)
    most = max((token for fact in facts for token in fact.answer), default=0)
    if most >= attached.host.vocabulary:
        raise UnhandledError(f"the tokenizer gives id {most}, and the host has {attached.host.vocabulary:,} tokens")
    asked, unknown = _asked(attached.manifest, facts)
    points = sum(len(fact.answer) for fact in facts)
    caps, judged = judge_at_longest(attached, caps, near, asked.neuron, asked.token)
    claim = _claim(attached, caps, near, points, _stopped(attached, facts))
    question = replace(question, claim=claim, points=points, longest=caps.state)
    question = replace(question, radius=caps.radius, measured=measured(attached.manifest, caps), notes=_notes(attached))
    missing = sum(len(fact.answer) for fact, _ in unknown)
    unsure = int((~judged.right & ~judged.wrong).sum()) + missing
    findings = _findings(attached, data, near, asked, judged, unknown)
    decided = question.decided(int(judged.wrong.sum()), unsure, findings, REASONS)
    changed = attached.rewritten()
    if decided and changed is not None:
        why = f"{changed} was changed after every fact was tested: the measurements are about other weights"
        return replace(decided, verdict="undecided", reason=why)
    return _only(attached, facts, decided) if only and decided else decided


def _near_short(caps: Caps, neighbours: Near) -> str:
    """In a short format, how near to a key answers are claimed, in words."""
    turns, fmt = caps.fmt.turned(caps.radii), caps.fmt
    least, most = (below(float(np.min(turns, initial=np.inf))), below(float(np.max(turns, initial=0.0))))
    sentence = (
        NEAR_SHORT.format(turn=least)
        if least == most
        else NEAR_SHORT.format(turn="ρ/2") + NEAR_OWN.format(least=least, most=most)
    )
    count = int(neighbours.guarded.sum())
    if count:
        inner = {"turn": below(fmt.core, exact=True), "near": below(fmt.near * caps.response, exact=True)}
        sentence += NEAR_GUARDED.format(count=plural(count, "neuron"), **inner)
    return sentence


def _stopped(attached: AttachedFolder, facts: list[FactIds]) -> str | None:
    """The first token inside an answer at which `generate` stops (`eos_token_id`), with its row, or None."""
    stops = stopping_tokens(attached.host.config, attached.opened.content)
    name = TokenNames(attached.opened.content[TOKENIZER])
    inside = ((fact, token) for fact in facts for token in fact.answer[:-1] if token in stops)
    return next((f"{name(token)!r} (id {token}) in the answer of {fact.where}" for fact, token in inside), None)


def _claim(attached: AttachedFolder, caps: Caps, neighbours: Near, points: int, stopped: str | None = None) -> str:
    """The claim in words, with its bounds rounded to the safe side.

    `points`: number of tokens of answers. `stopped`: a token inside an answer at which `generate` stops.
    """
    fmt, T = caps.fmt, caps.response
    narrow = caps.narrow
    near, inputs = NEAR_KEY.format(reach=below(caps.reach(narrow if narrow.all() else ~narrow))), ""
    if narrow.any() and not narrow.all():
        near += NEAR_OTHERS.format(reach=below(caps.reach(narrow)), count=plural(int(narrow.sum()), "neuron"))
    if fmt.short:
        near = _near_short(caps, neighbours)
        low = float(np.max(caps.level, initial=0.0))  # exact: the proof is about the levels as they are stored here
        inputs = INPUT_SHORT.format(low=above(low, exact=True), high=below(fmt.high * T, exact=True))
    tensors, places = plural(len(attached.manifest.tensors), "tensor"), plural(points, "token")
    parts = {"tensors": tensors, "places": places, "near": near, "input": inputs, "state": _round_number(caps.state)}
    parts["whose"] = (
        "the host's" if attached.host.layout is None else f"that of the host written as {attached.host.layout}"
    )
    templates = attached.manifest.templates
    forms = "" if stand_alone(templates) else f" in the {plural(len(templates), 'template')} of this folder"
    claim = CLAIM.format(dtype=fmt.name, radius=above(caps.radius), forms=forms, **parts)
    try:
        unusual = unusual_generation(attached.opened.content)
    except DataError as error:
        raise UnhandledError(str(error)) from None
    claim += f". This is about logits: {generation_words(unusual)}" if unusual else ""
    return claim + (f". {STOPPED.format(token=stopped)}" if stopped is not None else "")


def _only(attached: AttachedFolder, facts: list[FactIds], decided: Certificate) -> Certificate:
    """Extend a proved certificate by the claim that the folder holds no other facts; refute it if it does."""
    given = {fact_digest(fact) for fact in facts}
    more = len({fact.number for fact in attached.manifest.facts if fact.fact not in given})
    claim = f"{decided.claim}. It holds no neurons but those of these facts"
    if more:
        reason = f"every fact is there, but the folder holds {plural(more, 'more fact')}"
        return replace(decided, verdict="refuted", claim=claim, reason=reason)
    return replace(decided, claim=claim, reason=f"{decided.reason}; every neuron belongs to one of these facts")


def _check_copies(attached: AttachedFolder) -> None:
    """Refuse a folder that lists one fact twice with different neurons, because one of the two may be another fact."""
    first: dict[str, slice] = {}
    for fact, start in zip(attached.manifest.facts, attached.manifest.starts(), strict=True):
        span = slice(start, start + fact.places)
        known = first.setdefault(fact.fact, span)
        if not all(
            np.array_equal(part[known], part[span]) for part in (attached.reads, attached.bias, attached.writes)
        ):
            raise UnhandledError("it lists one fact twice, with different neurons: one of them may be another fact")


def _asked(manifest: Manifest, facts: list[FactIds]) -> tuple[AskedTokens, list[tuple[FactIds, str]]]:
    """The tokens of the given facts with their neurons, and the facts without neurons, each with the reason."""
    starts = dict(zip((fact.fact for fact in manifest.facts), manifest.starts(), strict=True))
    places = {fact.fact: fact.places for fact in manifest.facts}
    prompts = {fact.prompt for fact in manifest.facts}
    lists: list[tuple[int, int, int]] = []
    owners, unknown = list[FactIds](), list[tuple[FactIds, str]]()
    for fact in facts:
        digest = fact_digest(fact)
        if places.get(digest) != len(fact.answer):
            unknown.append((fact, OTHER if prompt_digest(fact.prompt) in prompts else NO_NEURON))
            continue
        lists += [(starts[digest] + place, token, place) for place, token in enumerate(fact.answer)]
        owners += [fact] * len(fact.answer)
    neurons, tokens, places_in_answer = np.array(lists, dtype=np.int64).reshape(-1, 3).T
    return AskedTokens(neurons, tokens, places_in_answer, owners), unknown


def _findings(
    attached: AttachedFolder,
    data: Sequences,
    near: Near,
    asked: AskedTokens,
    judged: JudgedTokens,
    unknown: list[tuple[FactIds, str]],
) -> Iterator[Finding]:
    """The wrong and the unsure tokens in words, at most `MOST_FINDINGS` of each kind; then facts without neurons."""
    name = TokenNames(attached.opened.content[TOKENIZER])
    several = len(attached.manifest.templates) > 1
    kinds: list[tuple[Bools, Kind, str]] = [
        (judged.wrong, "wrong", "according to the stored weights"),
        (~judged.right & ~judged.wrong, "unsure", DOUBT),
    ]
    for which, kind, why in kinds:
        for point in np.flatnonzero(which)[:MOST_FINDINGS].tolist():
            fact, place = asked.facts[point], int(asked.place[point])
            wanted, answered = (name(int(each)) for each in (asked.token[point], judged.got[point]))
            other = near.by.get(int(asked.neuron[point]))
            words = why if other is None else f"{why} (neuron {other})"
            words += f", in template {fact.template}" if several else ""
            yield Finding(kind, fact.row, place, data.texts(fact.row)[0], wanted, answered, words)
    endings = Endings(attached.opened.content[TOKENIZER], attached.manifest)
    for fact, why in unknown[:MOST_FINDINGS]:
        prompt, answer = data.texts(fact.row)
        note = endings.note(attached.manifest.templates[fact.template].around(prompt)) if why == NO_NEURON else None
        why += "" if note is None else f"; the text {note}"
        where = f", in template {fact.template}" if several else ""
        yield Finding("unsure", fact.row, None, prompt, answer, None, why + where)


def above(bound: float, *, exact: bool = False) -> str:
    """An upper bound as text, rounded up to three digits. Unless it is `exact`, room for its own rounding is added."""
    bound += 0.0 if exact else 2.0**-50 * max(1.0, abs(bound))
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(bound)):.3g}"


def below(bound: float, *, exact: bool = False) -> str:
    """A lower bound as text, rounded down to three digits. Unless it is `exact`, room for its own rounding is left."""
    bound -= 0.0 if exact else 2.0**-50 * max(1.0, abs(bound))
    return f"{float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal_from_float(bound)):.3g}"


def measured(manifest: Manifest, caps: Caps) -> tuple[str, ...]:
    """What was measured when facts were attached and no proof covers, in words."""
    moved = [fact.moved for fact in manifest.facts if fact.moved is not None]
    if not moved:
        return ("that the host's states at the prompts lie within reach of their keys was not measured",)
    by, rest = manifest.measured, len(manifest.facts) - len(moved)
    left = () if rest == 0 else (f"{plural(rest, 'fact')} were restored from a record and not measured again",)
    where = (
        f"{by.get('arithmetic')} on {by.get('device')}, torch {by.get('torch')}, transformers {by.get('transformers')}"
    )
    enough = f"and {below(caps.half)} is enough for the proof"
    fell = [1.0 if fact.fell is None else fact.fell for fact in manifest.facts if fact.moved is not None]
    covered = 1.0 - float(np.max(caps.level, initial=0.0)) / caps.response
    if max(moved) > caps.half and max(fell) <= covered:
        enough = f"each within the cap of its own neuron, which covers {below(caps.half)} or more"
    elif max(moved) > caps.half:
        enough = f"which is more than the {below(caps.half)} that the proof covers, though every answer was returned"
    sentence = (
        f"{FILE} says that, when facts were attached, the host's states at their places were within "
        f"{above(max(moved))} of their keys, {enough}: with eager and sdpa attention, alone or padded on the left "
        f"({where})"
    )
    return (sentence, *_measured_short(by, caps), *left, *_measured_length(manifest, caps))


def _measured_short(by: Mapping[str, object], caps: Caps) -> tuple[str, ...]:
    """In short formats, a sentence on whether states turned and grew by no more than the claim covers."""
    turned, rose, woken = by.get("turned"), by.get("rose"), by.get("woken")
    if not caps.fmt.short or not isinstance(turned, float) or not isinstance(rose, float) or type(woken) is not int:
        return ()
    most = caps.fmt.high - 1.0
    inside = turned <= 1.0 and rose <= most and woken == 0
    awake = "no neuron of another fact" if woken == 0 else f"at {plural(woken, 'fact')} a neuron of another"
    return (
        (
            f"they turned by up to {above(turned)} times what the claim covers, inputs rose by up to {above(rose)} T "
            f"of {below(most, exact=True)} T, and {awake} was awake there: "
            f"{'so all of them' if inside else 'so not all of them'} are covered"
        ),
    )


def _measured_length(manifest: Manifest, caps: Caps) -> tuple[str, ...]:
    """A sentence on how long states were, if that was measured; `caps.state` is never less."""
    longest = manifest.longest
    if longest is None:
        return ()
    return (f"the states were up to {above(longest)} long, and the proof covers {_round_number(caps.state)}",)


def _notes(attached: AttachedFolder) -> tuple[str, ...]:
    """The format of the facts, the templates of prompts, what layout the host got, which files were written anew."""
    templates, host = attached.manifest.templates, attached.host
    notes = [
        f"facts answer in {host.dtype}, as the folder is stored: in 8 bits or fewer, none did where this was tried"
    ]
    if not stand_alone(templates):
        notes.append(f"prompts stand in these texts, {template_words(templates)}")
    if host.layout is not None:
        was = "as it was" if host.kin is None else f"as {host.kin.model}"
        cut = " Matrices that were one are cut, which a processor may round otherwise, too." if host.is_cut else ""
        notes.append(
            f"compare with the host as {host.layout}: on a processor it has the bits of the host {was} (tried, not "
            f"proved); on a GPU layers with biases run in other kernels, and last bits differ everywhere.{cut}"
        )
    if attached.anew:
        listed = ", ".join(f"{name} ({how})" for name, how in attached.anew.items())
        notes.append(f"beside the weights, files are not those of the host, and mean the same: {listed}")
    return tuple(notes)


def assumed(attached: AttachedFolder) -> tuple[str, ...]:
    """What the certificate assumes about an evaluation, in words."""
    fmt = attached.host.format
    special = {template.special_tokens for template in attached.manifest.templates}
    where = " in some templates" if special == {True, False} else ""
    without = "" if special == {True} else f" without special tokens{where} (add_special_tokens=False)"
    return (
        computed_by_transformers(),
        *arithmetic(fmt),
        (
            "sums in any order; a product may be fused with the sum it goes into; a row of a product of matrices "
            "depends on that row alone, and both models run in the same kernels"
        ),
        *_norms(attached),
        "tanh is −1 from −10 on and erf from −6 on; silu is x/(1 + exp(−x)) or x times the logistic function",
        f"states of the host are finite, and no coordinate is above {_round_number(fmt.coordinate)}",
        "equal numbers count as the same bits: a zero may change its sign",
        (f"prompts enter as text, and become the ids that tokenizer.json gives them{without}; answers enter as ids"),
        NUMPY_ASSUMPTION,
    )


def _norms(attached: AttachedFolder) -> tuple[str, ...]:
    """What the certificate assumes about norms, and about the states that they get, in words."""
    fmt, centred = attached.host.format, not attached.host.kind.rms
    rounding = (
        "(D + 16)u, D the width and u = 2^-24"
        if not fmt.short
        else f"(D + 16)u + v, D the width, u = 2^-24 and v = 2^-{fmt.bits}"
    )
    most, flattest = "η" if fmt.beyond == 0.0 else "2^-4", fmt.flattest(attached.host.width)
    flat = ""
    if centred and np.isfinite(flattest):
        flat = (
            f"; no state, of the host or one that neurons have written to, is more than {below(flattest)} times as "
            "long as it is less its mean"
        )
    near = ": states of the host are there no more than 16 times as long as they are less their mean" if centred else ""
    return (
        (
            f"a norm returns a vector of length at most √D (1 + η) where answers are claimed{near}; at most √D "
            f"(1 + {most}) at any state{flat}; and at written vectors y, before it is rounded to the format, the true "
            "one to within 2(D + 16)u κ² of its length: κ the length of y over that of y less its mean, 1 where norms "
            f"subtract none; η = {rounding}"
        ),
    )


def _round_number(number: float) -> str:
    """A number as text: with all its digits if it is below 2^20, or else as a power of two."""
    return f"{number:,.0f}" if number < 2.0**20 else f"2^{np.log2(number):.0f}"


def arithmetic(fmt: HostFormat) -> tuple[str, ...]:
    """What the certificate assumes about the arithmetic of a format, in words."""
    if not fmt.short:
        return ("IEEE-754 binary32 throughout (no TF32), round to nearest. Subnormal numbers may be flushed to zero",)
    return (
        (
            f"arithmetic in {fmt.name}, the format of the weights: products are summed in binary32 (no TF32), the bias "
            "is added there, and the sum is rounded once, to nearest (on a GPU: torch.backends.cuda.matmul."
            f"allow_{fmt.abbreviation}_reduced_precision_reduction is False; on an ARM "
            "processor with bfloat16 instructions: torch.backends.mkldnn.enabled is False); norms and "
            "activations are computed in binary32, or step by step, and rounded. Numbers below 2^-126 may be flushed "
            "to zero"
        ),
    )


__all__ = ["Caps", "judge_attached"]
