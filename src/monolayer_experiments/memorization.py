"""One layer holds every label of random data without repeats, up to the precision of float64.

Notation: `N` sequences of `n = 16` different tokens out of 1,000, a random class out of 16 for each token,
`M = nN` labels. Measured: labels that come back, the verdict of the certificate, the smallest gap of two points as a
share of their range against `1/M²`, the numbers in the file and in a dense pass beside those of Corollary 1 on the same
points (ids on a line: `4(s+d) + 2M + d`, `s = d = 1`), and the time to build.

The control is the mean, λ = 0: on the same data, and on data where order counts: sequences, each with a shuffled copy.
"""

from __future__ import annotations

import numpy as np

import monolayer as ml
from monolayer.arrays import Ints
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, table
from monolayer_experiments.runs import timed
from monolayer_experiments.synthetic import without_repeats

QUESTION = "Does one layer return every label of data without repeated tokens, and at what price?"

LENGTH, VOCABULARY, CLASSES = 16, 1000, 16
QUICK = (100, 300, 1_000, 3_000, 10_000)
PLAN = {"sequences": (QUICK, (*QUICK, 30_000, 100_000, 300_000, 1_000_000))}
ORDERED = 10_000
"""Sequences up to which the data where order counts are tried."""
SUMMARY = ("points", "gap", "expected_gap", "parameters", "corollary_1", "dense_numbers", "corollary_1_dense", "runs")
"""What is kept of a model's summary."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    counts = plan["sequences"]
    rows: list[Results] = []
    refused = None
    for done, count in enumerate(counts):
        progress(f"{count:,} sequences", done / len(counts))
        X, Y = without_repeats(count, LENGTH, VOCABULARY, CLASSES, setting.seed)
        try:
            model, seconds = timed(ml.memorize, X, Y, device=setting.device, seed=setting.seed)
        except ml.PrecisionError as end:
            refused = {"sequences": count, "words": str(end)}
            break
        row = {"sequences": count, "labels": X.size, "seconds": seconds, **_checked(model, X, Y)}
        row |= {name: getattr(model.summary, name) for name in SUMMARY}
        row["mean"] = _at(X, Y, 0.0, False, setting)
        rows.append({**row, "order": _ordered(X, Y, setting) if count <= ORDERED else None})
    return {"length": LENGTH, "vocabulary": VOCABULARY, "classes": CLASSES, "rows": rows, "refused": refused}


def _checked(model: ml.Monolayer, X: Ints, Y: Ints) -> Results:
    """Labels that come back, certificate and margin."""
    assert model.summary is not None  # a model that was just built has one
    right = int((model.predict(X) == Y).sum())
    return {"right": right, "verdict": ml.certify(model, X, Y).verdict, "margin": model.summary.margin}


def _at(X: Ints, Y: Ints, temperature: float | None, positions: bool, setting: Setting) -> Results | None:
    """What is checked of a model at this λ; None where the constructor refuses."""
    options: Results = {
        "positions": positions,
        "temperature": temperature,
        "device": setting.device,
        "seed": setting.seed,
    }
    try:
        return _checked(ml.memorize(X, Y, **options), X, Y)
    except ml.PrecisionError:
        return None


def _ordered(X: Ints, Y: Ints, setting: Setting) -> Results:
    """Half of the sequences, each with a copy whose first two tokens are exchanged; positions; softmax and mean."""
    half = X[: len(X) // 2]
    swapped = half.copy()
    swapped[:, :2] = half[:, 1::-1]
    both, labels = np.concatenate([half, swapped]), Y[: 2 * len(half)]
    return {name: _at(both, labels, lam, True, setting) for name, lam in (("softmax", None), ("mean", 0.0))}


def answer(results: Results) -> str:
    rows, refused = results["rows"], results["refused"]
    last, wrong = rows[-1], sum(row["labels"] - row["right"] for row in rows)
    if wrong:
        return f"No: {wrong:,} labels of {sum(row['labels'] for row in rows):,} came back wrong."
    proved = sum(row["verdict"] == "proved" for row in rows)
    end = f" At {refused['sequences']:,} sequences the constructor refused: float64 is too coarse." if refused else ""
    return (
        f"Yes: every label came back at every size, up to {last['labels']:,} labels of {last['sequences']:,} "
        f"sequences, built in {amount(last['seconds'])} s. Certificates: {proved} of {len(rows)} proved.{end} "
        f"{_numbers(last)} {_mean(rows)}"
    )


def _numbers(row: Results) -> str:
    """Who needs fewer numbers, in words."""
    more = "more" if row["parameters"] > row["corollary_1"] else "fewer"
    return (
        f"The file holds {row['parameters']:,} numbers, {more} than the {row['corollary_1']:,} of Corollary 1 on the "
        "same points."
    )


def _mean(rows: list[Results]) -> str:
    """What the mean does on the same data and where order counts, in words."""
    held = [row for row in rows if row["mean"] is not None and row["mean"]["right"] == row["labels"]]
    wider = sum(row["mean"]["margin"] > row["margin"] for row in held)
    ordered = [row["order"] for row in rows if row["order"] is not None]
    softmax, mean = (sum(each[name] is not None for each in ordered) for name in ("softmax", "mean"))
    return (
        f"These data do not need softmax: with the mean (λ = 0) every label comes back at {len(held)} of {len(rows)} "
        f"sizes, with a wider margin at {wider}. Where the order of tokens counts they do: softmax holds "
        f"{softmax} of {len(ordered)} sizes, the mean {mean}."
    )


def figures(results: Results) -> list[Figure]:
    rows = results["rows"]
    points, labels = column(rows, "points"), column(rows, "labels")
    numbers = [
        line("this construction, file", labels, column(rows, "parameters"), "blue"),
        line("Corollary 1, its formula", labels, column(rows, "corollary_1"), "orange"),
        line("this construction, dense pass", labels, column(rows, "dense_numbers"), "blue", dash="dash"),
        line("Corollary 1, dense pass", labels, column(rows, "corollary_1_dense"), "orange", dash="dash"),
    ]
    return [
        figure(
            "Smallest gap of two points",
            [
                line("measured", points, column(rows, "gap"), "blue"),
                line("1/M²", points, column(rows, "expected_gap"), "grey", dash="dash", markers=False),
            ],
            ("different points M", "gap, share of the range"),
            "Points thrown at random come as close as 1/M². The ids of contexts behave like such points.",
            log="xy",
        ),
        figure(
            "Numbers in the file and in a dense pass",
            numbers,
            ("labels", "numbers"),
            "Random labels: almost every label is a run of its own, and Corollary 1 counts fewer numbers. Where labels "
            "come in runs this construction does.",
            log="xy",
        ),
    ]


def tables(results: Results) -> list[Table]:
    def model(found: Results | None) -> str:
        return "refused" if found is None else f"{found['verdict']}, {amount(found['margin'])}"

    rows = results["rows"]
    head = "sequences; labels; right %; certificate: verdict; gap; 1/M²: expected_gap; margin; seconds"
    orders = "sequences; softmax; mean; softmax, order counts: softmax_order; mean, order counts: mean_order"
    return [
        table("Every size", rows, head, right=lambda row: row["right"] / row["labels"]),
        table(
            "Softmax and mean (λ = 0): certificate and margin",
            rows,
            orders,
            softmax=model,
            mean=lambda row: model(row["mean"]),
            softmax_order=lambda row: model(row["order"]["softmax"]) if row["order"] else "—",
            mean_order=lambda row: model(row["order"]["mean"]) if row["order"] else "—",
        ),
    ]


def limits(results: Results) -> str:
    last = results["rows"][-1]
    return (
        "Labels are random, tokens do not repeat, sequences have one length. "
        f"The margin, {amount(last['margin'])} rounding errors at the largest size, falls like 1/M²; the constructor "
        "refuses below 8."
    )
