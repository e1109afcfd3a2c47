"""Edits of a real dictionary: the construction beside fine-tuning a trained one-layer model, on the same clock.

Each edit gives one character of one phrase another reading. The construction edits with its data at hand; every edited
and every kept label is then looked up, the model compared bit for bit with one that memorized the edited data, and the
certificate made. A trained model is fine-tuned on the edited phrases, alone or among kept ones, at several rates, for
as long as the construction took and for multiples of that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Ints
from monolayer.data import Labels, Sequences
from monolayer_experiments.evidence import above
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, amount, chart, line, share
from monolayer_experiments.tagging import some_phrases

QUESTION = "What do edits of single facts cost, and what do they harm: construction beside fine-tuning?"

Results = dict[str, Any]

RATES = (1e-3, 3e-4, 1e-4)
"""Learning rates of fine-tuning; the best at each clock is shown."""
MULTIPLES = (1, 10, 100)
"""Clocks of fine-tuning, in times of the construction's."""
WAYS = ("edits alone", "among kept phrases")


@dataclass(frozen=True)
class Plan:
    """Phrases and common characters (None: all), numbers of edits, seconds and width of training, the longest
    fine-tuning, and how many kept phrases are asked after it."""

    phrases: int | None
    characters: int | None
    edits: tuple[int, ...]
    seconds: float
    width: int
    longest: float
    asked: int


QUICK = Plan(1_000, 200, (1, 30), 2.0, 64, 0.05, 200)
FULL = Plan(None, None, (1, 10, 100, 1_000, 10_000), 60.0, 256, 6.0, 2_000)


def run(setting: Setting, progress: Progress) -> Results:
    from monolayer_experiments.finetune import Padded
    from monolayer_experiments.trainer import train

    plan = FULL if setting.full else QUICK
    random = np.random.default_rng(setting.seed)
    data = some_phrases(plan.phrases, plan.characters, setting.seed)
    progress("construction", 0.0)
    began = time.perf_counter()
    model = ml.memorize(data, positions=True, seed=setting.seed)
    built = time.perf_counter() - began
    facts = ml.Facts.of(model, data)
    ml.edit(facts, data.select(np.array([0])), None)  # first calls are not what is timed
    assert model.summary is not None
    cases = []
    for number, count in enumerate(plan.edits):
        progress(f"{count:,} edits", 0.02 + 0.2 * number / len(plan.edits))
        cases.append(_edited(data, facts, count, random))
    progress("training", 0.25)
    X, Y = _padded(data)
    trained = train(
        X, Y, lengths=data.lengths, width=plan.width, seconds=plan.seconds, seed=setting.seed, device=setting.device,
        positions=True, rates=(3e-3, 1e-3),
    )  # fmt: skip
    for number, case in enumerate(cases):
        progress(f"fine-tuning on {case['edits']:,} edits", 0.5 + 0.5 * number / len(cases))
        edited = Y.copy()
        edited[case["rows"], case["places"]] = case["labels"]
        case["tuned"] = _tuned(trained.model, Padded(X, edited, data.lengths), case, plan, setting.seed)
        for name in ("rows", "places", "labels"):
            del case[name]
    return {
        "phrases": len(data),
        "labels": len(data.tokens),
        "runs": model.summary.runs,
        "build": built,
        "clock": plan.seconds,
        "accuracy": trained.accuracy,
        "chance": float(np.bincount(_labels(data).values).max() / len(data.tokens)),
        "parameters": [sum(p.numel() for p in model.parameters()), trained.parameters],
        "asked": plan.asked,
        "cases": cases,
    }


def _edited(data: Sequences, facts: ml.Facts, count: int, random: np.random.Generator) -> Results:
    """`count` edits in one call, and what became of all labels."""
    refused = 0
    while True:
        rows = np.sort(random.permutation(len(data))[:count])
        places = random.integers(0, data.lengths[rows])
        flat = data.offsets[rows] + places
        labels = _labels(data)
        new = labels.values[random.integers(0, len(labels.values), count)]
        values = labels.values.copy()
        values[flat] = np.where(new == values[flat], (new + 1) % (int(values.max()) + 1), new)
        edited = replace(data, labels=replace(labels, values=values))
        try:
            began = time.perf_counter()
            after, record = ml.edit(facts, edited.select(rows), None)
            seconds = time.perf_counter() - began
            break
        except ml.PrecisionError:  # two contexts too close to hold different labels in this draw: other edits are drawn
            refused += 1
    answers = after.model.labels(after.model.encode(edited))
    right = answers == values
    changed = np.zeros(len(values), dtype=bool)
    changed[flat] = True
    return {
        "edits": count,
        "seconds": seconds,
        "refused": refused,
        "edited_right": float(right[changed].mean()),
        "kept_lost": int((~right[~changed]).sum()),
        "kept": int((~changed).sum()),
        "same_bits": ml.compare(after.model, ml.memorize(edited, draw=facts.model)).same,
        "verdict": ml.certify(after.model, edited).verdict,
        "neurons": max(record.neurons),
        "rows": rows,
        "places": places,
        "labels": values[flat],
    }


def _tuned(model: Any, data: Any, case: Results, plan: Plan, seed: int) -> list[Results]:
    """Every way, rate and clock of fine-tuning."""
    from monolayer_experiments.finetune import finetune

    rows, random = case["rows"], np.random.default_rng(seed)
    others = np.setdiff1d(np.arange(len(data.X)), rows)
    asked = np.sort(random.permutation(others)[: plan.asked])
    pool = np.setdiff1d(others, asked)  # what is asked about is not rehearsed
    before = data.answers(model, asked) == data.labels(asked)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(data.lengths[rows])[:-1]])
    stops = sorted({min(plan.longest, case["seconds"] * times) for times in MULTIPLES})
    found = []
    for way in WAYS:
        for rate in RATES:
            kept = None if way == WAYS[0] else pool
            for stop, (state, tuned) in zip(stops, finetune(model, data, rows, kept, rate, stops, seed), strict=True):
                here = data.answers(tuned, rows)[starts + case["places"]] == case["labels"]
                after = data.answers(tuned, asked) == data.labels(asked)
                found.append(
                    {
                        "way": way,
                        "rate": rate,
                        "clock": stop,
                        "seconds": state.seconds,
                        "steps": state.steps,
                        "edited_right": float(here.mean()),
                        "kept_lost": float((before & ~after).sum() / before.sum()) if before.any() else None,
                    }
                )
    return found


# -- data ----------------------------------------------------------------------------------------------


def _labels(data: Sequences) -> Labels:
    assert data.labels is not None  # the dictionary is labelled
    return data.labels


def _padded(data: Sequences) -> tuple[Ints, Ints]:
    inside = np.arange(int(data.lengths.max())) < data.lengths[:, None]
    X, Y = np.zeros((2, *inside.shape), dtype=np.int64)
    X[inside], Y[inside] = data.tokens, _labels(data).values
    return X, Y


# -- reading the results -------------------------------------------------------------------------------


def _best(case: Results, last: bool) -> Results:
    """The run that edits most for what it loses, at the first clock or at the last."""
    clocks = sorted({row["clock"] for row in case["tuned"]})
    rows = [row for row in case["tuned"] if row["clock"] == clocks[-1 if last else 0]]
    return max(rows, key=lambda row: row["edited_right"] - (row["kept_lost"] or 0.0))


def answer(results: Results) -> str:
    cases = results["cases"]
    all_right = all(case["edited_right"] == 1.0 and case["kept_lost"] == 0 for case in cases)
    exact = all(case["same_bits"] for case in cases) and all(case["verdict"] == "proved" for case in cases)
    first, most = cases[0], cases[-1]
    kept = "every edited and every kept label was right" if all_right else "not every label was right (see the table)"
    proved = (
        ", each edited model was the same bits as one that memorized the edited data, and each was proved"
        if exact
        else ""
    )
    built = (
        f"On {results['labels']:,} labels of {results['phrases']:,} phrases, 1 to {most['edits']:,} edits in one call "
        f"took the construction {amount(first['seconds'])} to {amount(most['seconds'])} s: {kept}{proved}."
    )
    if not above(results["accuracy"], results["chance"], results["labels"]):
        return (
            f"{built} The Transformer had learnt nothing in {results['clock']:g} s, so its fine-tuning shows nothing."
        )
    quick, slow = _best(most, last=False), _best(most, last=True)
    return (
        f"{built} A one-layer Transformer, trained for {results['clock']:g} s to {share(results['accuracy'])} of the "
        f"labels and then fine-tuned on the {most['edits']:,} edits, had {share(quick['edited_right'])} of them right "
        f"after as long as the construction took ({share(quick['kept_lost'])} of the labels that it had right before "
        f"were lost), and {share(slow['edited_right'])} after {amount(slow['seconds'])} s "
        f"({share(slow['kept_lost'])} lost); the best of two ways and three rates each."
    )


def figures(results: Results) -> list[Figure]:
    cases = results["cases"]
    edits = [case["edits"] for case in cases]
    bests = {"as long as the construction": False, "the longest clock": True}
    colours = {"as long as the construction": ORANGE, "the longest clock": RED}
    right = [line("construction", edits, [case["edited_right"] for case in cases], BLUE)]
    lost = [line("construction", edits, [case["kept_lost"] / case["kept"] for case in cases], BLUE)]
    for name, last in bests.items():
        found = [_best(case, last) for case in cases]
        right.append(line(f"fine-tuned, {name}", edits, [row["edited_right"] for row in found], colours[name]))
        lost.append(line(f"fine-tuned, {name}", edits, [row["kept_lost"] for row in found], colours[name]))
    most = cases[-1]
    curves = []
    for way, colours_of in zip(WAYS, ((GREEN, VIOLET, ORANGE), (BLUE, RED, GREY)), strict=True):
        for rate, colour in zip(RATES, colours_of, strict=True):
            rows = [row for row in most["tuned"] if (row["way"], row["rate"]) == (way, rate)]
            points = [row["kept_lost"] for row in rows], [row["edited_right"] for row in rows]
            curves.append(line(f"{way}, {rate:g}", *points, colour))
    caption = "Fine-tuning: the best of two ways and three rates, by edits right less labels lost."
    return [
        Figure("Edits that took", chart(right, "edits", "edited labels right", log_x=True, range_y=(0, 1.05)), caption),
        Figure(
            "Labels lost by editing",
            chart(lost, "edits", "kept labels lost", log_x=True),
            f"{caption} Of labels that were right before; the construction was asked for all of them.",
        ),
        Figure(
            f"What fine-tuning pays for {most['edits']:,} edits",
            chart(curves, "kept labels lost", "edited labels right", range_y=(0, 1.05)),
            "Each curve is a way and a rate, with growing clocks; the construction is the corner at 0 and 1.",
        ),
    ]


def tables(results: Results) -> list[Table]:
    built, tuned = [], []
    for case in results["cases"]:
        cells = [share(case["edited_right"]), f"{case['kept_lost']:,} of {case['kept']:,}", amount(case["seconds"])]
        bits = "same" if case["same_bits"] else "differ"
        built.append([amount(case["edits"]), *cells, bits, case["verdict"], amount(case["neurons"])])
        for row in case["tuned"]:
            numbers = [f"{row['rate']:g}", amount(row["seconds"]), amount(row["steps"])]
            shares = [share(row["edited_right"]), share(row["kept_lost"])]
            tuned.append([amount(case["edits"]), row["way"], *numbers, *shares])
    return [
        Table(
            "The construction",
            ["edits", "edited labels right", "kept labels lost", "seconds", "bits", "certificate", "neurons changed"],
            built,
        ),
        Table("Fine-tuning", ["edits", "way", "rate", "seconds", "steps", "edited labels right", "kept lost"], tuned),
    ]


def limits(results: Results) -> str:
    refused = sum(case["refused"] for case in results["cases"])
    drawn = f" {refused} draws of edits were refused for want of margin and drawn again." if refused else ""
    return (
        f"Fine-tuning by AdamW with small batches; methods made for editing (low-rank updates, constrained "
        f"fine-tuning, memories beside the model) were not tried, and a model trained longer than {results['clock']:g} "
        f"s may lose less. Kept labels of the trained model are those of {results['asked']:,} phrases that were not "
        "rehearsed. A trained model may generalize an edit to other phrases; the construction never does, by design."
        f"{drawn} The construction edits with its data at hand, put in order beforehand (about one construction, "
        f"{amount(results['build'])} s)."
    )
