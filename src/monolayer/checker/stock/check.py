"""The verdict on a stock folder: does every evaluation of the stored network return the label at every point?

token, context  →  g = ω B(λ; f s)     what attention writes                            bounds.py, Lemma S3
g               →  φ = g F(g)          what the neurons of its own cell read            Lemma S4
φ               →  label coordinates   steps of its own cell; all other neurons rest    readout.py, Lemmas S5, S6
label           →  class               the class whose word has the signs of the label  Lemma S7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.certificate import MOST_FINDINGS, Certificate, Finding, counted_claim
from monolayer.checker.codes import sums
from monolayer.checker.labelled import NO_CLASS, UNSURE, WRONG, PointPlace, PointVerdicts, data_digest, place_of
from monolayer.checker.rounding import EXP_ULPS, NUMPY_ASSUMPTION, UnhandledError
from monolayer.checker.stock.bounds import MEAN, SOFTMAX_BLOCK, VARIANCE, Bounds, bounds
from monolayer.checker.stock.enclosed import SHORT_EXP_ULPS, SHORT_MOMENTS, TURN_ULPS
from monolayer.checker.stock.evaluate import judge_robust
from monolayer.checker.stock.files import Network, read_stock
from monolayer.checker.stock.only import STOCK_ONLY_CLAIM, STOCK_ONLY_REASON, leftover_in_folder
from monolayer.checker.stock.places import StockPlaces, places_of
from monolayer.checker.stock.readout import Arrivals, read_steps, step_classes
from monolayer.checker.stock.structure import Structure, read_structure, without_silent_neurons
from monolayer.checker.stock.tried import try_stock
from monolayer.checker.tried import SEEN, Trial, with_trial
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.architectures import computed_by_transformers
from monolayer.huggingface.strict import ForeignError
from monolayer.huggingface.tensors import ModelFiles
from monolayer.table import Progress, counting
from monolayer.theory.verdicts import Verdict

STOCK_CLAIM = (
    "every evaluation returns the label at each of the {:,} labelled points: the logit of its class is the largest"
)
STEPS_REASONS: dict[Verdict, str] = {
    "proved": "what any evaluation may see of a point lies on one plateau of its cell, and it has the right label",
    "refuted": "points get another answer than their label in every evaluation",
    "undecided": "for some points the error bound leaves room for more than one answer",
}

NOT_COVERED = "the proof does not cover this folder: {}"
ONLY_STEPS = (
    "only= asks what the steps of a folder hold; a half-space of a folder of cells holds many facts, and the weights "
    "do not show which. That it holds nothing else is shown by equality: memorize_as(architecture, X, Y, draw=folder) "
    "gives the same bits"
)
CELLS_REASONS: dict[Verdict, str] = {
    **STEPS_REASONS,
    "proved": "at every point the right class has the largest logit, however float32 rounds",
    "undecided": (
        "at some points half-spaces are narrower than what the roundings of float32 may move, at worst. When "
        "memorizing, positions=True, another rank= or another seed= may widen them; storage='steps' has none"
    ),
}


def judge_stock(
    files: ModelFiles, data: Sequences, *, only: bool = False, report: Progress = lambda stage, share: None
) -> Certificate:
    """The certificate of a Hugging Face folder for these data; `only`: claim also that it holds nothing else.

    `report`: told how far it is.
    """
    question = Certificate(
        "undecided", STOCK_CLAIM.replace("each of the {:,}", "each of the"), data_digest=data_digest(data)
    )
    with np.errstate(all="ignore"):
        try:
            net = read_stock(files)
            question = replace(question, weights_digest=net.digest, assumptions=stock_assumptions(net, data))
            places = places_of(net, data)
        except (UnhandledError, ForeignError) as why:
            return replace(question, reason=NOT_COVERED.format(why))
        count = len(places.wanted)
        claim = f"{_given_as(net, data)}, {counted_claim(STOCK_CLAIM, count)}"
        question = replace(question, points=count, unsure=count, claim=claim)
        try:
            if net.format.long:
                decided = _check_steps(net, data, places, question, only)
            elif only:
                raise DataError(ONLY_STEPS)
            else:
                what = f", weights in {net.dtype} and arithmetic in float32"
                question = replace(question, claim=question.claim + what)
                counted = counting(report, "checking every label", "place", 0.0, 1.0)
                verdicts = judge_robust(net, data, places, counted)
                decided = _decided(net, data, places, question, verdicts, CELLS_REASONS)
        except (UnhandledError, ForeignError) as why:
            decided = replace(question, reason=NOT_COVERED.format(why))
        arithmetic = "float64" if net.format.long else "float32"
        return with_trial(decided, arithmetic, partial(_tried, net, data, places, decided, arithmetic))


def _tried(net: Network, data: Sequences, places: StockPlaces, decided: Certificate, arithmetic: str) -> Trial:
    """Describe what one evaluation of the folder returned."""
    counterexample = try_stock(net, data, places, decided.findings)
    nowhere = np.zeros_like(counterexample.wrong)
    how = SEEN.format(arithmetic)
    findings = [
        replace(one, why=how)
        for one in _stock_findings(net, data, places, counterexample.wrong, nowhere, counterexample.got)
    ]
    return Trial(int(counterexample.asked.sum()), int(counterexample.wrong.sum()), findings)


FLOAT64_ASSUMPTIONS = (
    "IEEE-754 binary64, round to nearest; subnormal numbers may be flushed to zero; logits may be cast to float32",
    f"exp within {EXP_ULPS} units in the last place; tanh within 2^-20",
    f"{MEAN:g} D u X and a variance within {VARIANCE:g} D u X² of the true ones, D the width, X the largest coordinate",
)
FLOAT32_ASSUMPTIONS = (
    (
        "IEEE-754 binary32 throughout (no TF32), round to nearest: load with dtype=torch.float32. Subnormal numbers "
        "may be flushed to zero; arithmetic in a shorter format is not covered"
    ),
    (
        f"exp within {SHORT_EXP_ULPS} units in the last place; tanh within 2^-20; silu as x/(1 + exp(−x)); "
        f"powers, cosines and sines of rotary positions within {TURN_ULPS} units in the last place of 1"
    ),
    (
        f"{SHORT_MOMENTS} of the true ones, D the width, X the largest coordinate, A the mean of absolute values, Q² "
        "that of squares"
    ),
)


def stock_assumptions(net: Network, data: Sequences) -> tuple[str, ...]:
    """The assumptions of a certificate about every evaluation, as sentences."""
    exact = net.format.long
    arithmetic, functions, moments = FLOAT64_ASSUMPTIONS if exact else FLOAT32_ASSUMPTIONS
    # Encoders read labels of sequences at index 0, and count places from there.
    left = "; or on the left, with position_ids counted from the begin token, as generate() passes them"
    lines = [
        computed_by_transformers(),
        f"padding has its attention mask, and stands on the right{left if net.causal else ''}",
        _entering(net, data),
        arithmetic,
        "sums in any order; a product may be fused with the sum it goes into",
        functions,
        (
            f"softmax in one piece, or (fused kernels) in blocks of at least {SOFTMAX_BLOCK} keys, sums being rescaled "
            "on the way"
        ),
        f"LayerNorm with a mean within {moments}: two-pass, textbook and Welford's sums do",
    ]
    if exact and not net.architecture.eager:
        lines.append(
            f"attention in float64 throughout: sdpa does so, the eager one of {net.kind} takes softmax in float32"
        )
    if net.has_onnx:
        lines.append("model.safetensors is what is computed with: nothing is said about onnx/")
    return (*lines, NUMPY_ASSUMPTION)


def _entering(net: Network, data: Sequences) -> str:
    """How the data enter the folder, in a sentence."""
    if data.prompts is not None:
        return (
            "prompts enter as text, and become the ids that tokenizer.json gives them, behind the begin token; what "
            "comes behind a prompt enters as the ids that the model has returned, and not as text once more"
        )
    how = "text"
    if net.cut == "given":
        how = "lists of tokens (is_split_into_words=True), or as text where a sequence is one token"
    return f"data enter as {how}, and become the ids that tokenizer.json gives them, behind the begin token"


def _given_as(net: Network, data: Sequences) -> str:
    """The words of the claim that say how a caller gives the data to the tokenizer of the folder.

    A tokenizer that does not cut text takes a string for one token, so that of several tokens only lists are covered.
    """
    if data.prompts is not None:
        return "for prompts given as strings"
    if net.cut != "given":
        return "for sequences given as strings"
    alone = int((data.lengths == 1).sum())
    if alone == len(data):
        return "for sequences given as strings or as lists of one token"
    lists = "for sequences given as lists of tokens (is_split_into_words=True)"
    strings = f"strings are covered for the {alone:,} of one token only" if alone else "strings are not covered"
    return f"{lists}; {strings}: the tokenizer does not split them"


def _check_steps(net: Network, data: Sequences, places: StockPlaces, question: Certificate, only: bool) -> Certificate:
    """The certificate of a folder of steps, in float64; `question`: the certificate so far, undecided."""
    if not only:  # a neuron that does nothing may still hold the threshold of a fact
        net = without_silent_neurons(net)
    structure = read_structure(net, places.most)
    steps = read_steps(net, structure, places.most)
    bound = bounds(net, structure, int(places.terms.max()), steps.reach)
    g = _written(net, structure, bound, data, places)
    factor, cell = bound.factor(g, net), places.cells(structure)
    feature, radius = g * factor, 2.0 * bound.feature[places.terms]
    silent = (factor * (g - 4.0 * structure.gate * bound.one * (1.0 - bound.other)) + radius).max(initial=-np.inf)
    if not silent <= steps.lowest:
        raise UnhandledError("a neuron may activate for a cell other than its own: the gate is too weak")
    points = Arrivals(places.token, cell, factor, feature, radius)
    passed, sure, room = steps.passed(cell, feature, radius)
    answer = np.where(sure, step_classes(net, structure, bound, steps, points, passed), -1)
    margin = room / radius
    tightest = int(np.argmin(margin))
    if np.isfinite(margin[tightest]):
        question = replace(question, margin=float(margin[tightest]), margin_at=places.where(data, tightest))
    verdicts = PointVerdicts(
        (answer == places.wanted) & (answer >= 0), (answer != places.wanted) & (answer >= 0), answer
    )
    question = replace(question, claim=question.claim + STOCK_ONLY_CLAIM) if only else question
    decided = _decided(net, data, places, question, verdicts, STEPS_REASONS)
    if not (only and decided):
        return decided
    extra = leftover_in_folder(net, structure, data, places, points)
    if extra is None:
        return replace(decided, reason=decided.reason + STOCK_ONLY_REASON)
    reason = f"every label is returned, but the folder holds more than the data: {extra}"
    return replace(decided, verdict="refuted", reason=reason)


def _decided(
    net: Network,
    data: Sequences,
    places: StockPlaces,
    question: Certificate,
    said: PointVerdicts,
    reasons: dict[Verdict, str],
) -> Certificate:
    """The certificate, from what is known of each point; a label that the folder has no class for is wrong."""
    wrong = said.wrong | (places.wanted < 0)
    unsure = ~said.right & ~wrong
    findings = _stock_findings(net, data, places, wrong, unsure, said.got)
    return question.decided(int(wrong.sum()), int(unsure.sum()), findings, reasons)


def _written(net: Network, structure: Structure, bound: Bounds, data: Sequences, places: StockPlaces) -> Floats:
    """`g = ω B(λ; f s)` at every labelled point `(M,)`, computed in float64 from sums over sequences or prefixes."""
    there = data.position + 1 if len(structure.place_key) > 1 else np.zeros_like(data.position)
    key = bound.first * (structure.key[places.ids] + structure.place_key[there])
    begin = bound.first * float(structure.key[BEGIN] + structure.place_key[0])
    weight, start = np.exp(structure.query * key), float(np.exp(structure.query * begin))
    context = sums(weight * key, start * begin, data, net.causal) / sums(weight, start, data, net.causal)
    if net.labelling.at_tokens and not net.causal:
        context = np.repeat(context, data.lengths)
    if net.causal and not net.labelling.at_tokens:
        context = context[data.offsets[1:] - 1]
    return structure.write * np.append(context, begin)[places.answering]


def _stock_findings(
    net: Network, data: Sequences, places: StockPlaces, wrong: Bools, unsure: Bools, got: Ints
) -> Iterator[Finding]:
    """The first few points that are wrong, and that are unsure, `(M,)` each.

    `got` `(M,)`: the class that each point gets, −1 where that is not known.
    """
    for which, reason in ((wrong, WRONG), (unsure, UNSURE)):
        for point in np.flatnonzero(which)[:MOST_FINDINGS].tolist():
            answering = int(places.answering[point])
            if answering == net.labelling.count(data):  # the begin token of a model that generates
                where = PointPlace(0, -1, net.names[BEGIN])
            else:
                where = place_of(data, answering, net.labelling)
            why = reason if places.wanted[point] >= 0 else NO_CLASS
            name = net.classes[got[point]] if got[point] >= 0 else None
            yield Finding("wrong" if which is wrong else "unsure", *where, places.expected(point), name, why)
