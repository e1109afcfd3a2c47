"""One layer holds every label of random data without repeats, up to the precision of float64.

Notation: `N` sequences of `n = 16` different tokens out of 1,000, a random class out of 16 for each token,
`M = nN` labels. Measured: labels that come back, the verdict of the certificate, the smallest gap of two points as a
share of their range against `1/M²`, the parameters against Corollary 1's `4(s+d) + d(2nN+d)`, and the time to build.
"""

from __future__ import annotations

import time
from typing import Any

import monolayer as ml
from monolayer.experiments.experiment import Experiment, Figure, Progress, Setting, Table
from monolayer.experiments.look import BLUE, GREEN, GREY, ORANGE, amount, chart, line, share
from monolayer.experiments.synthetic import without_repeats

LENGTH, VOCABULARY, CLASSES = 16, 1000, 16
QUICK = (100, 300, 1_000, 3_000, 10_000)
FULL = (*QUICK, 30_000, 100_000, 300_000, 1_000_000)


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    counts = FULL if setting.full else QUICK
    rows: list[dict[str, Any]] = []
    refused = None
    for done, count in enumerate(counts):
        progress(f"{count:,} sequences", done / len(counts))
        X, Y = without_repeats(count, LENGTH, VOCABULARY, CLASSES, setting.seed)
        began = time.perf_counter()
        try:
            model = ml.memorize(X, Y, device=setting.device, seed=setting.seed)
        except ml.PrecisionError as end:
            refused = {"sequences": count, "words": str(end)}
            break
        seconds = time.perf_counter() - began
        found = model.summary
        assert found is not None  # a model that was just built has one
        rows.append(
            {
                "sequences": count,
                "labels": X.size,
                "right": int((model.predict(X) == Y).sum()),
                "verdict": ml.certify(model, X, Y).verdict,
                "points": found.points,
                "gap": found.gap,
                "expected_gap": found.expected_gap,
                "margin": found.margin,
                "parameters": found.parameters,
                "corollary_1": found.corollary_1,
                "bits_per_parameter": found.bits_per_parameter,
                "runs": found.runs,
                "seconds": seconds,
            }
        )
    return {"length": LENGTH, "vocabulary": VOCABULARY, "classes": CLASSES, "rows": rows, "refused": refused}


def answer(results: dict[str, Any]) -> str:
    rows, refused = results["rows"], results["refused"]
    last, wrong = rows[-1], sum(row["labels"] - row["right"] for row in rows)
    if wrong:
        return f"No: {wrong:,} labels of {sum(row['labels'] for row in rows):,} came back wrong."
    proved = sum(row["verdict"] == "proved" for row in rows)
    smaller = last["corollary_1"] / last["parameters"]
    end = (
        ""
        if refused is None
        else f" At {refused['sequences']:,} sequences the constructor refused: float64 is too coarse."
    )
    return (
        f"Yes: every label came back at every size, up to {last['labels']:,} labels of {last['sequences']:,} "
        f"sequences, built in {amount(last['seconds'])} s with {last['parameters']:,} parameters, "
        f"{amount(smaller, 2)} times fewer than Corollary 1 spends. Certificates: {proved} of {len(rows)} proved.{end}"
    )


def figures(results: dict[str, Any]) -> list[Figure]:
    rows = results["rows"]
    labels = [row["labels"] for row in rows]

    def column(name: str) -> list[float]:
        return [row[name] for row in rows]

    return [
        Figure(
            "Smallest gap of two points",
            chart(
                [
                    line("measured", column("points"), column("gap"), BLUE),
                    line("1/M²", column("points"), column("expected_gap"), GREY, dash="dash", markers=False),
                ],
                "different points M",
                "gap, share of the range",
                log_x=True,
                log_y=True,
            ),
            "Points thrown at random come as close as 1/M². The ids of contexts behave like such points.",
        ),
        Figure(
            "Parameters",
            chart(
                [
                    line("this construction", labels, column("parameters"), BLUE),
                    line("Corollary 1", labels, column("corollary_1"), ORANGE, dash="dash", markers=False),
                ],
                "labels",
                "parameters",
                log_x=True,
                log_y=True,
            ),
            "Both grow in proportion to the labels; neighbours with equal labels share a step of the staircase.",
        ),
        Figure(
            "Time to build",
            chart([line("seconds", labels, column("seconds"), GREEN)], "labels", "seconds", log_x=True, log_y=True),
            "Small sizes are dominated by fixed costs; large ones by sorting.",
        ),
    ]


def tables(results: dict[str, Any]) -> list[Table]:
    return [
        Table(
            "Every size",
            [
                "sequences",
                "labels",
                "right",
                "certificate",
                "gap",
                "1/M²",
                "margin",
                "parameters",
                "Corollary 1",
                "seconds",
            ],
            [
                [
                    amount(row["sequences"]),
                    amount(row["labels"]),
                    share(row["right"] / row["labels"]),
                    row["verdict"],
                    amount(row["gap"]),
                    amount(row["expected_gap"]),
                    amount(row["margin"]),
                    amount(row["parameters"]),
                    amount(row["corollary_1"]),
                    amount(row["seconds"]),
                ]
                for row in results["rows"]
            ],
        )
    ]


def limits(results: dict[str, Any]) -> str:
    last = results["rows"][-1]
    return (
        "Labels are random, so there is nothing to learn and nothing is said about new sequences. Tokens do not "
        "repeat and sequences have one length; the experiment on duplicates drops the first. The margin is the "
        f"narrowest gap between different labels in units of its rounding error, {amount(last['margin'])} at the "
        "largest size here; it falls like 1/M², and the constructor refuses below 8. Times depend on the machine."
    )


EXPERIMENT = Experiment(
    "memorization",
    "Does one layer return every label of data without repeated tokens, and at what price?",
    run,
    answer,
    figures,
    tables,
    limits,
)
