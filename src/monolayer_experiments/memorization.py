"""One layer holds every label of random data without repeats, up to the precision of float64.

Notation: `N` sequences of `n = 16` different tokens out of 1,000, a random class out of 16 for each token,
`M = nN` labels. Measured: labels that come back, the verdict of the certificate, the smallest gap of two points as a
share of their range against `1/M²`, the numbers in the file and in a dense pass beside those of Corollary 1 on the same
points (ids on a line: `4(s+d) + 2M + d`, `s = d = 1`), and the time to build.

The control is the mean, λ = 0: on the same data, and on data where order counts: sequences, each with a shuffled copy.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Ints
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, GREY, ORANGE, amount, chart, line, share
from monolayer_experiments.synthetic import without_repeats

QUESTION = "Does one layer return every label of data without repeated tokens, and at what price?"

LENGTH, VOCABULARY, CLASSES = 16, 1000, 16
QUICK = (100, 300, 1_000, 3_000, 10_000)
FULL = (*QUICK, 30_000, 100_000, 300_000, 1_000_000)
ORDERED = 10_000
"""Sequences up to which the data where order counts are tried."""


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
                "dense_numbers": found.dense_numbers,
                "corollary_1_dense": found.corollary_1_dense,
                "bits_per_parameter": found.bits_per_parameter,
                "runs": found.runs,
                "seconds": seconds,
                "mean": _at(X, Y, 0.0, False, setting),
                "order": _ordered(X, Y, setting) if count <= ORDERED else None,
            }
        )
    return {"length": LENGTH, "vocabulary": VOCABULARY, "classes": CLASSES, "rows": rows, "refused": refused}


def _at(X: Ints, Y: Ints, temperature: float | None, positions: bool, setting: Setting) -> dict[str, Any] | None:
    """Labels that come back, certificate and margin of a model at this λ; None where the constructor refuses."""
    try:
        model = ml.memorize(
            X, Y, positions=positions, temperature=temperature, device=setting.device, seed=setting.seed
        )
    except ml.PrecisionError:
        return None
    assert model.summary is not None  # a model that was just built has one
    right = int((model.predict(X) == Y).sum())
    return {"right": right, "verdict": ml.certify(model, X, Y).verdict, "margin": model.summary.margin}


def _ordered(X: Ints, Y: Ints, setting: Setting) -> dict[str, Any]:
    """Half of the sequences, each with a copy whose first two tokens are exchanged; positions; softmax and mean."""
    half = X[: len(X) // 2]
    swapped = half.copy()
    swapped[:, :2] = half[:, 1::-1]
    both, labels = np.concatenate([half, swapped]), Y[: 2 * len(half)]
    return {name: _at(both, labels, lam, True, setting) for name, lam in (("softmax", None), ("mean", 0.0))}


def answer(results: dict[str, Any]) -> str:
    rows, refused = results["rows"], results["refused"]
    last, wrong = rows[-1], sum(row["labels"] - row["right"] for row in rows)
    if wrong:
        return f"No: {wrong:,} labels of {sum(row['labels'] for row in rows):,} came back wrong."
    proved = sum(row["verdict"] == "proved" for row in rows)
    end = (
        ""
        if refused is None
        else f" At {refused['sequences']:,} sequences the constructor refused: float64 is too coarse."
    )
    return (
        f"Yes: every label came back at every size, up to {last['labels']:,} labels of {last['sequences']:,} "
        f"sequences, built in {amount(last['seconds'])} s. Certificates: {proved} of {len(rows)} proved.{end} "
        f"{_numbers(last)} {_mean(rows)}"
    )


def _numbers(row: dict[str, Any]) -> str:
    """Who needs fewer numbers, in words."""
    ours, paper = row["parameters"], row["corollary_1"]
    dense, paper_dense = row["dense_numbers"], row["corollary_1_dense"]
    more = "more" if ours > paper else "fewer"
    return (
        f"The file holds {ours:,} numbers, {more} than the {paper:,} of Corollary 1 on the same points; a dense pass "
        f"uses {dense:,}, where the network of Corollary 1 has {paper_dense:,}."
    )


def _mean(rows: list[dict[str, Any]]) -> str:
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
            "Numbers in the file and in a dense pass",
            chart(
                [
                    line("this construction, file", labels, column("parameters"), BLUE),
                    line("Corollary 1, its formula", labels, column("corollary_1"), ORANGE),
                    line("this construction, dense pass", labels, column("dense_numbers"), BLUE, dash="dash"),
                    line("Corollary 1, dense pass", labels, column("corollary_1_dense"), ORANGE, dash="dash"),
                ],
                "labels",
                "numbers",
                log_x=True,
                log_y=True,
            ),
            "Random labels: almost every label is a run of its own, and Corollary 1 counts fewer numbers. Where labels "
            "come in runs this construction does.",
        ),
        Figure(
            "Margin with softmax and with the mean",
            chart(
                [
                    line("softmax", labels, column("margin"), BLUE),
                    line("mean, λ = 0", labels, [(row["mean"] or {}).get("margin") for row in rows], GREEN),
                ],
                "labels",
                "margin in rounding errors",
                log_x=True,
                log_y=True,
            ),
            "Independent random keys: their mean already tells all these sequences apart.",
        ),
        Figure(
            "Time to build",
            chart([line("seconds", labels, column("seconds"), GREEN)], "labels", "seconds", log_x=True, log_y=True),
            "Small sizes are dominated by fixed costs; large ones by sorting.",
        ),
    ]


def tables(results: dict[str, Any]) -> list[Table]:
    rows = results["rows"]
    sizes = [
        [
            amount(row["sequences"]),
            amount(row["labels"]),
            share(row["right"] / row["labels"]),
            row["verdict"],
            amount(row["gap"]),
            amount(row["expected_gap"]),
            amount(row["margin"]),
            amount(row["seconds"]),
        ]
        for row in rows
    ]
    names = ("parameters", "corollary_1", "dense_numbers", "corollary_1_dense")
    numbers = [[amount(row["labels"]), amount(row["runs"]), *(amount(row[name]) for name in names)] for row in rows]
    means = [
        [
            amount(row["sequences"]),
            _words({"verdict": row["verdict"], "margin": row["margin"]}),
            _words(row["mean"]),
            *(_words(row["order"][name]) if row["order"] else "—" for name in ("softmax", "mean")),
        ]
        for row in rows
    ]
    return [
        Table(
            "Every size",
            ["sequences", "labels", "right", "certificate", "gap", "1/M²", "margin", "seconds"],
            sizes,
        ),
        Table(
            "Numbers",
            ["labels", "runs", "file", "Corollary 1", "dense pass", "Corollary 1, dense pass"],
            numbers,
        ),
        Table(
            "Softmax and mean (λ = 0): certificate and margin",
            ["sequences", "softmax", "mean", "softmax, order counts", "mean, order counts"],
            means,
        ),
    ]


def _words(found: dict[str, Any] | None) -> str:
    return "refused" if found is None else f"{found['verdict']}, {amount(found['margin'])}"


def limits(results: dict[str, Any]) -> str:
    last = results["rows"][-1]
    return (
        "Labels are random, so there is nothing to learn and nothing is said about new sequences. Tokens do not "
        "repeat and sequences have one length; the experiment on duplicates drops the first. The margin is the "
        f"narrowest gap between different labels in units of its rounding error, {amount(last['margin'])} at the "
        "largest size here; it falls like 1/M², and the constructor refuses below 8. Times depend on the machine."
    )
