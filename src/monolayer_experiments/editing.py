"""Edits of a real dictionary: the construction beside fine-tuning a trained one-layer model.

Each edit gives one character of one phrase another reading. The construction edits with its data at hand; every edited
and every kept label is then looked up, the model compared bit for bit with one that memorized the edited data, and the
certificate made. A trained model is fine-tuned on the edited phrases, alone or among kept ones, at several rates, and
looked at after several numbers of steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import nn

import monolayer as ml
from monolayer.arrays import Bools, Ints
from monolayer.data import Sequences
from monolayer.table import Progress, plural
from monolayer_experiments.chance import above
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, low_to_high, share, table, where
from monolayer_experiments.runs import budget, timed
from monolayer_experiments.tagging import labels_of, padded, some_phrases
from monolayer_experiments.trainer import Batches, finetune, predict, train

QUESTION = "What do edits of single facts cost, and what do they harm: construction beside fine-tuning?"

FINETUNING_RATES = (1e-3, 3e-4, 1e-4)
"""Learning rates of fine-tuning; the best at each number of steps is shown."""
WAYS = ("edits alone", "among kept phrases")


PLAN = {
    "phrases": (1_000, None),
    "characters": (200, None),
    "edits": ((1, 30), (1, 10, 100, 1_000, 10_000)),
    "budget": (200, 4_000),
    "width": (64, 256),
    "tuning": ((1, 10), (10, 100, 1_000)),
    "asked": (200, 2_000),
}
"""Quick and full: phrases and common characters (None: all), numbers of edits, steps and width of training, numbers
of steps after which fine-tuning is looked at, and how many kept phrases are asked then."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Change facts of a constructed model and of fine-tuned networks, and measure time, success and harm.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    random = np.random.default_rng(setting.seed)
    data = some_phrases(plan["phrases"], plan["characters"], setting.seed)
    progress("construction", 0.0)
    model, built = timed(ml.memorize, data, positions=True, seed=setting.seed)
    facts = ml.Facts.of(model, data)
    ml.edit(facts, data.select(np.array([0])), None)  # first calls are not what is timed
    assert model.summary is not None  # a model that was just built has one
    edits = []
    for number, count in enumerate(plan["edits"]):
        progress(f"{count:,} edits", 0.02 + 0.2 * number / len(plan["edits"]))
        edits.append(_edited(data, facts, count, random))
    progress("training", 0.25)
    X, Y, _ = padded(data)
    options: Results = {"steps": plan["budget"], "seed": setting.seed, "device": setting.device}
    trained = train(X, Y, data.lengths, width=plan["width"], positions=True, rates=(3e-3, 1e-3), **options)
    cases = []
    for number, edit in enumerate(edits):
        progress(f"fine-tuning on {edit.results['edits']:,} edits", 0.5 + 0.5 * number / len(edits))
        cases.append({**edit.results, "tuned": _tuned(trained.model, edit, plan, setting)})
    return {
        "phrases": len(data),
        "labels": len(data.tokens),
        "runs": model.summary.runs,
        "build": built,
        "budget": plan["budget"],
        "accuracy": trained.accuracy,
        "chance": float(np.bincount(labels_of(data).values).max() / len(data.tokens)),
        "parameters": [sum(p.numel() for p in model.parameters()), trained.parameters],
        "asked": plan["asked"],
        "cases": cases,
    }


class EditedCase(NamedTuple):
    """What some edits did (`results`), the edited data, and the edits: `rows` `(E,)` and `places` `(E,)` in them."""

    results: Results
    data: Sequences
    rows: Ints
    places: Ints


def _edited(data: Sequences, facts: ml.Facts, count: int, random: np.random.Generator) -> EditedCase:
    """Make `count` random edits in one call, and measure what became of all labels."""
    refused = 0
    while True:
        rows = np.sort(random.permutation(len(data))[:count])
        places = random.integers(0, data.lengths[rows])
        flat = data.offsets[rows] + places
        labels = labels_of(data)
        new = labels.values[random.integers(0, len(labels.values), count)]
        values = labels.values.copy()
        values[flat] = np.where(new == values[flat], (new + 1) % (int(values.max()) + 1), new)
        edited = replace(data, labels=replace(labels, values=values))
        try:
            (after, record), seconds = timed(ml.edit, facts, edited.select(rows), None)
            break
        except ml.PrecisionError:  # two contexts too close to hold different labels in this draw: other edits are drawn
            refused += 1
    right = after.model.labels(after.model.encode(edited)) == values
    kept = np.delete(right, flat)
    case = {
        "edits": count,
        "seconds": seconds,
        "refused": refused,
        "edited_right": float(right[flat].mean()),
        "kept_lost": int((~kept).sum()),
        "kept": len(kept),
        "same_bits": ml.compare(after.model, ml.memorize(edited, draw=facts.model)).same,
        "verdict": ml.certify(after.model, edited).verdict,
        "neurons": max(record.neurons),
    }
    return EditedCase(case, edited, rows, places)


def _tuned(model: nn.Module, edit: EditedCase, plan: Results, setting: Setting) -> list[Results]:
    """Fine-tune the model on the same edits in every way, at every rate and for every number of steps."""
    edited, rows = edit.data, edit.rows
    X, Y, inside = padded(edited)
    data = Batches(X, Y, edited.lengths, setting.device, setting.seed)
    others = np.setdiff1d(np.arange(len(X)), rows)
    asked = np.sort(np.random.default_rng(setting.seed).permutation(others)[: plan["asked"]])
    pool = np.setdiff1d(others, asked)  # what is asked about is not rehearsed

    def right(model: nn.Module, rows: Ints) -> Bools:
        answers: Bools = predict(model, X[rows], edited.lengths[rows]) == Y[rows]
        return answers

    before = right(model, asked)[inside[asked]]
    runs = []
    for way in WAYS:
        for rate in FINETUNING_RATES:
            kept = None if way == WAYS[0] else pool
            for tuned in finetune(model, data, rows, kept, rate, plan["tuning"], setting.seed):
                row = {"way": way, "rate": rate, "seconds": tuned.seconds, "steps": tuned.steps}
                row["edited_right"] = float(right(tuned.model, rows)[np.arange(len(rows)), edit.places].mean())
                lost = before & ~right(tuned.model, asked)[inside[asked]]
                runs.append({**row, "kept_lost": float(lost.sum() / before.sum()) if before.any() else None})
    return runs


def _best_at_each_stop(case: Results) -> list[Results]:
    """After every number of steps, the run that edits most for what it loses."""
    runs = case["tuned"]
    return [max(where(runs, steps=each), key=_gain) for each in sorted(set(column(runs, "steps")))]


def _gain(row: Results) -> float:
    return float(row["edited_right"] - (row["kept_lost"] or 0.0))


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    cases = results["cases"]
    all_right = all(case["edited_right"] == 1.0 and case["kept_lost"] == 0 for case in cases)
    exact = all(case["same_bits"] for case in cases) and all(case["verdict"] == "proved" for case in cases)
    first, most = cases[0], cases[-1]
    kept = "every edited and every kept label was right" if all_right else "not every label was right (see the table)"
    proved = ", with the bits of a model that memorized the edited data, and proved" if exact else ""
    built = (
        f"On {results['labels']:,} labels of {results['phrases']:,} phrases, 1 to {most['edits']:,} edits in one call "
        f"took the construction {amount(first['seconds'])} to {amount(most['seconds'])} s: {kept}{proved}."
    )
    if not above(results["accuracy"], results["chance"], results["labels"]):
        return f"{built} The Transformer had learnt nothing in {budget(results)}, so its fine-tuning shows nothing."
    best = [max(_best_at_each_stop(case), key=_gain) for case in cases]
    worst = min(best, key=_gain)
    text = (
        f"{built} Fine-tuned on the edits, a one-layer Transformer that had {share(results['accuracy'])} of the labels "
        f"gets down to {share(worst['edited_right'])} of the edits and loses {share(worst['kept_lost'] or 0.0)} of the "
        "other labels, at the best of all rates, ways and numbers of steps."
    )
    quicker = [
        (case, row)
        for case, row in zip(cases, best, strict=True)
        if row["edited_right"] == 1.0 and not row["kept_lost"] and row["seconds"] < case["seconds"]
    ]
    for case, row in quicker[-1:]:
        text += (
            f" Against us: with {plural(case['edits'], 'edit')} it has all of them, loses none, and takes "
            f"{amount(row['seconds'], 2)} s."
        )
    return text


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    cases = results["cases"]
    edits = column(cases, "edits")
    right, lost = [], []
    for stop, colour in ((0, "orange"), (-1, "red")):
        best = [_best_at_each_stop(case)[stop] for case in cases]
        name = f"fine-tuned, {low_to_high(column(best, 'steps'))} steps"
        right.append(line(name, edits, column(best, "edited_right"), colour))
        lost.append(line(name, edits, column(best, "kept_lost"), colour))
    right.append(line("construction", edits, column(cases, "edited_right"), "blue"))
    lost.append(line("construction", edits, [case["kept_lost"] / case["kept"] for case in cases], "blue"))
    caption = "Fine-tuning: the best of two ways and three rates, by edits right less labels lost."
    whose = f"{caption} Of labels that were right before; the construction was asked for all of them."
    return [
        figure("Edits that took", right, ("edits", "edited labels right"), caption, log="x", range_y=(0, 1.05)),
        figure("Labels lost by editing", lost, ("edits", "kept labels lost"), whose, log="x"),
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    built = (
        "edits; edited labels right: edited_right %; kept labels lost: lost; seconds; bits; certificate: verdict; "
        "neurons changed: neurons"
    )
    tuned = "edits; way; rate; seconds; steps; edited labels right: edited_right %; kept lost: kept_lost %"
    runs = [{**row, "edits": case["edits"]} for case in results["cases"] for row in case["tuned"]]
    beside = [
        {**case, "tuned_right": row["edited_right"], "tuned_lost": row["kept_lost"] or 0.0}
        | {"tuned_seconds": row["seconds"], "steps": row["steps"]}
        for case in results["cases"]
        for row in [max(_best_at_each_stop(case), key=_gain)]
    ]
    both = (
        "edits; construction, edits right: edited_right %; others lost: lost; seconds; fine-tuned, edits right: "
        "tuned_right %; others lost: tuned_lost %; seconds: tuned_seconds; steps"
    )
    return [
        table("Construction and fine-tuning at its best", beside, both, lost=lambda case: f"{case['kept_lost']:,}"),
        table(
            "The construction",
            results["cases"],
            built,
            lost=lambda case: f"{case['kept_lost']:,} of {case['kept']:,}",
            bits=lambda case: "same" if case["same_bits"] else "differ",
        ),
        table("Fine-tuning", runs, tuned, rate=lambda row: f"{row['rate']:g}"),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    refused = sum(case["refused"] for case in results["cases"])
    drawn = f" {refused} draws of edits were refused for want of margin and drawn again." if refused else ""
    return (
        "Fine-tuning by AdamW, the best of two ways and three rates; methods made for editing were not tried. A "
        f"trained model may generalize an edit to other phrases; the construction never does, by design.{drawn}"
    )
