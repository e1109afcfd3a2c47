"""One layer holds every label of random data without repeats, up to the precision of float64.

Notation: `N` sequences of `n = 16` different tokens out of 1,000, a random class out of 16 for each token,
`M = nN` labels. Measured: labels that come back, the verdict of the certificate, the smallest gap of two points as a
share of their range against `1/M²`, the numbers in the file and in a dense pass beside those of Corollary 1 on the same
points (ids on a line: `4(s+d) + 2M + d`, `s = d = 1`), and the time to build.
"""

from __future__ import annotations

import monolayer as ml
from monolayer.table import Progress
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, table
from monolayer_experiments.runs import timed
from monolayer_experiments.synthetic import without_repeats

QUESTION = "Does one layer return every label of data without repeated tokens, and at what price?"

LENGTH, VOCABULARY, CLASSES = 16, 1000, 16
QUICK_SIZES = (100, 300, 1_000, 3_000, 10_000)
PLAN = {"sequences": (QUICK_SIZES, (*QUICK_SIZES, 30_000, 100_000, 300_000, 1_000_000))}
SUMMARY = ("points", "gap", "expected_gap", "margin", "parameters", "corollary_1", "dense_numbers", "corollary_1_dense")
"""What is kept of a model's summary."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Memorize data without repeated tokens, of growing size, and measure accuracy, gap, parameters and time.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
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
        right, verdict = int((model.predict(X) == Y).sum()), ml.certify(model, X, Y).verdict
        row = {"sequences": count, "labels": X.size, "right": right, "verdict": verdict, "seconds": seconds}
        rows.append(row | {name: getattr(model.summary, name) for name in SUMMARY})
    return {"length": LENGTH, "vocabulary": VOCABULARY, "classes": CLASSES, "rows": rows, "refused": refused}


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    rows, refused = results["rows"], results["refused"]
    last, wrong = rows[-1], sum(row["labels"] - row["right"] for row in rows)
    if wrong:
        return f"No: {wrong:,} labels of {sum(row['labels'] for row in rows):,} came back wrong."
    proved = sum(row["verdict"] == "proved" for row in rows)
    end = f" At {refused['sequences']:,} sequences the constructor refused: float64 is too coarse." if refused else ""
    return (
        f"Yes: every label came back at every size, up to {last['labels']:,} labels of {last['sequences']:,} "
        f"sequences, built in {amount(last['seconds'])} s. Certificates: {proved} of {len(rows)} proved.{end} "
        f"{_numbers(last)}"
    )


def _numbers(row: Results) -> str:
    """Who needs fewer numbers, in words."""
    more = "more" if row["parameters"] > row["corollary_1"] else "fewer"
    return (
        f"The file holds {row['parameters']:,} numbers, {more} than the {row['corollary_1']:,} of Corollary 1 on the "
        "same points."
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
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
    """The tables of the report page, filled from the raw `results` of `run`."""
    head = "sequences; labels; right %; certificate: verdict; gap; 1/M²: expected_gap; margin; seconds"
    return [table("Every size", results["rows"], head, right=lambda row: row["right"] / row["labels"])]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    last = results["rows"][-1]
    return (
        "Labels are random, tokens do not repeat, sequences have one length. "
        f"The margin, {amount(last['margin'])} rounding errors at the largest size, falls like 1/M²; the constructor "
        "refuses below 8."
    )
