"""Construction against training: the same random data, one rank-1 layer built, or one to eight layers trained.

Notation: `N` sequences of `n` different tokens, a random class for every token, `M = nN` labels. Trained models are
ordinary Transformers (`transformer.py`): one layer of rank 1, one of full rank, and 2, 4 and 8 layers of full rank.
Each is so wide that it has as many parameters as the construction, or more. The clock of a model includes the search
for its learning rate.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import monolayer as ml
from monolayer_experiments.evidence import decided
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import (
    BLUE,
    GOLD,
    GREEN,
    ORANGE,
    RED,
    VIOLET,
    Trace,
    amount,
    chart,
    line,
    scatter,
    share,
)
from monolayer_experiments.synthetic import without_repeats

QUESTION = (
    "Against trained Transformers: on the same data, how far and how fast does training get, with one layer or more?"
)

Results = dict[str, Any]
MODELS = {
    "1 layer, rank 1": (1, 1),
    "1 layer": (1, None),
    "2 layers": (2, None),
    "4 layers": (4, None),
    "8 layers": (8, None),
}
"""Layers and rank of every trained model; None is full rank."""
DEVICES = (
    "Construction runs on the processor in float64, training on the device of the run: on a GPU in bfloat16, models "
    "of rank 1 in TF32, so a shortfall of rank 1 may be one of precision too."
)
"""What every comparison with training must say."""
TIMED = 0.05
"""Seconds below which a construction is mostly fixed costs, and no ratio of times is drawn from it."""
COLOURS = dict(zip(MODELS, (ORANGE, GREEN, RED, VIOLET, GOLD), strict=True))


@dataclass(frozen=True)
class Plan:
    """`sizes`: for every number of sequences, how many seeds and how many seconds a model has."""

    sizes: dict[int, tuple[int, float]]
    length: int
    vocabulary: int
    classes: int
    models: tuple[str, ...]
    least_width: int


QUICK = Plan({100: (1, 4.0)}, 8, 100, 16, ("1 layer, rank 1", "1 layer", "2 layers"), 64)
FULL = Plan({2_000: (3, 10.0), 20_000: (2, 20.0), 100_000: (1, 35.0)}, 16, 1000, 16, tuple(MODELS), 128)


def run(setting: Setting, progress: Progress) -> Results:
    from monolayer_experiments.trainer import train
    from monolayer_experiments.transformer import width_for

    plan = FULL if setting.full else QUICK
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    whole = sum(seeds * seconds for seeds, seconds in plan.sizes.values()) * len(plan.models)
    done, built, trained = 0.0, [], []
    for count, (seeds, seconds) in plan.sizes.items():
        X, Y = without_repeats(count, plan.length, plan.vocabulary, plan.classes, setting.seed)
        began = time.perf_counter()
        model = ml.memorize(X, Y, seed=setting.seed)
        spent = time.perf_counter() - began
        parameters = sum(parameter.numel() for parameter in model.parameters())
        accuracy = float((model.predict(X) == Y).mean())
        built.append({"sequences": count, "accuracy": accuracy, "seconds": spent, "parameters": parameters})
        for name in plan.models:
            layers, rank = MODELS[name]
            width = width_for(parameters, plan.vocabulary, plan.classes, layers, rank, plan.least_width)
            for seed in range(setting.seed, setting.seed + seeds):
                progress(f"{count:,} sequences, {name}", done / whole)
                found = train(
                    X, Y, layers=layers, rank=rank, width=width, seconds=seconds, seed=seed, device=setting.device
                )
                row = {"sequences": count, "model": name, "seed": seed, "width": width, "clock": seconds}
                trained.append({**row, **described(found, curve=seed == setting.seed)})
                done += seconds
    return {
        "length": plan.length,
        "vocabulary": plan.vocabulary,
        "classes": plan.classes,
        "constructed": built,
        "trained": trained,
    }


def described(found: Any, *, curve: bool) -> dict[str, Any]:
    """What is kept of a trained model; its curve thinned to 16 points."""
    picked = found.curve[:: -(-len(found.curve) // 15)]
    return {
        "accuracy": found.accuracy,
        "seconds": round(found.seconds, 3),
        "alone": round(found.alone, 3),
        "parameters": found.parameters,
        "rate": found.rate,
        "grid": {rate: round(value, 4) for rate, value in found.grid.items()},
        "curve": [[round(at, 3), round(value, 4)] for at, value in (*picked, found.curve[-1])] if curve else None,
    }


def answer(results: Results) -> str:
    built, trained = results["constructed"], results["trained"]
    wrong = [row for row in built if row["accuracy"] < 1.0]
    if wrong:
        return f"No: the construction returned {share(wrong[0]['accuracy'])} of {wrong[0]['sequences']:,} sequences."
    last = built[-1]
    labels = last["sequences"] * results["length"]
    there = [row for row in trained if row["accuracy"] == 1.0]
    text = f"The construction returned every label at every size, {labels:,} of them in {amount(last['seconds'])} s."
    for each in built:
        rows = [row for row in trained if row["sequences"] == each["sequences"]]
        exact = [row for row in rows if row["accuracy"] == 1.0]
        start = f"On {each['sequences']:,} sequences"
        if exact:
            best = min(exact, key=lambda row: row["alone"])
            text += (
                f" {start} {len(exact)} of {len(rows)} training runs did too, the quickest, {best['model']}, in "
                f"{amount(best['alone'])} s at its best rate ({amount(best['seconds'])} s with the search for it), "
            )
            ratio = f"{amount(best['alone'] / each['seconds'], 2)} times" if each["seconds"] >= TIMED else "against"
            text += f"{ratio} the construction's {amount(each['seconds'])} s."
        else:
            best = max(rows, key=lambda row: row["accuracy"])
            text += (
                f" {start} no training run did; the best, {best['model']}, had {share(best['accuracy'])} right after "
                f"{amount(best['seconds'])} s, against {amount(each['seconds'])} s of construction."
            )
    low = [row for row in trained if row["model"] == "1 layer, rank 1"]
    if there and low and not any(row["accuracy"] == 1.0 for row in low):
        text += " Within these clocks no training run got there with rank 1, the rank of the construction."
    return text


def figures(results: Results) -> list[Figure]:
    made = []
    for built in results["constructed"]:
        rows = [row for row in results["trained"] if row["sequences"] == built["sequences"]]
        traces = [curve(row, COLOURS[row["model"]]) for row in rows if row["curve"]]
        traces.append(scatter("construction", [built["seconds"]], [built["accuracy"]], BLUE))
        made.append(
            Figure(
                f"Accuracy against time, {built['sequences']:,} sequences",
                chart(traces, "seconds", "labels right", log_x=True, range_y=(0.0, 1.05)),
                "A curve is the run that was kept; its clock includes the trials of other learning rates.",
            )
        )
    last = results["constructed"][-1]
    rows = [row for row in results["trained"] if row["sequences"] == last["sequences"]]
    traces = [
        scatter(row["model"], [row["parameters"]], [row["accuracy"]], COLOURS[row["model"]])
        for row in rows
        if row["curve"]
    ]
    traces.append(scatter("construction", [last["parameters"]], [last["accuracy"]], BLUE))
    made.append(
        Figure(
            f"Accuracy against parameters, {last['sequences']:,} sequences",
            chart(traces, "parameters", "labels right", log_x=True, range_y=(0.0, 1.05)),
            "At the end of the clock.",
        )
    )
    return made


def curve(row: Results, colour: str) -> Trace:
    """Labels right against time in one training run."""
    seconds, right = ([point[axis] for point in row["curve"]] for axis in (0, 1))
    return line(row["model"], seconds, right, colour, markers=False)


def tables(results: Results) -> list[Table]:
    summary = []
    for built in results["constructed"]:
        count = built["sequences"]
        spent = amount(built["seconds"])
        cells = [amount(built["parameters"]), share(built["accuracy"]), spent, spent, "—", "—"]
        summary.append([amount(count), "construction", *cells])
        for name in MODELS:
            rows = [row for row in results["trained"] if (row["sequences"], row["model"]) == (count, name)]
            if not rows:
                continue
            low, high = min(row["accuracy"] for row in rows), max(row["accuracy"] for row in rows)
            right = share(low) if low == high else f"{share(low)} to {share(high)}"
            times = [amount(sum(row[key] for row in rows) / len(rows)) for key in ("seconds", "alone")]
            cells = [amount(rows[0]["parameters"]), right, *times, f"{rows[0]['clock']:g}", str(len(rows))]
            summary.append([amount(count), name, *cells])
    return [
        Table(
            "Labels right",
            ["sequences", "model", "parameters", "right", "seconds", "without search", "clock", "seeds"],
            summary,
        ),
        grids(_searched(results), "sequences", "model", "seed"),
    ]


def _searched(results: Results) -> list[Results]:
    """The training runs, with what says whether their search for a rate decided anything."""
    known = {"chance": 1.0 / results["classes"]}
    return [{**known, "labels": row["sequences"] * results["length"], **row} for row in results["trained"]]


def grids(rows: list[dict[str, Any]], *columns: str) -> Table:
    """The search for a learning rate: labels right at the end of every rate's trial; — where none was needed.

    A row has `labels`, how many there were, and `chance`, the share that guessing gets: they tell whether the kept
    rate was better than others or only luckier.
    """
    rates = sorted({rate for row in rows for rate in row["grid"]}, key=float)
    words = [[amount(row[key]) if isinstance(row[key], int) else row[key] for key in columns] for row in rows]
    return Table(
        "Search for the learning rate",
        [*columns, *rates, "kept"],
        [
            [*start, *(share(row["grid"].get(rate)) for rate in rates), _kept(row)]
            for start, row in zip(words, rows, strict=True)
        ],
    )


def _kept(row: Results) -> str:
    return f"{row['rate']:g}" if decided(row["grid"], row["labels"], row["chance"]) else f"{row['rate']:g}, not decided"


def limits(results: Results) -> str:
    clocks = sorted({row["clock"] for row in results["trained"]})
    words = f"{clocks[0]:g}" if len(clocks) == 1 else f"{clocks[0]:g} to {clocks[-1]:g}"
    return (
        f"A model had {words} s, one width and one batch size; with a longer clock trained models may get further, and "
        f"with a better recipe (compiled steps, another optimizer) sooner. {edge(_searched(results))} Labels are "
        f"random, so nothing is said about new sequences. {DEVICES} The construction stores its weights in float64, "
        "twice the bits of a trained one."
    )


def edge(rows: list[Results]) -> str:
    """In how many runs the largest learning rate was kept: beyond it lies what was not tried."""
    largest = max(float(rate) for row in rows for rate in row["grid"])
    clear = [row for row in rows if decided(row["grid"], row["labels"], row["chance"])]
    text = ""
    if clear:
        kept = sum(row["rate"] == largest for row in clear)
        text = (
            f"The largest learning rate, {largest:g}, was best in {kept} of {len(clear)} runs; no larger one was tried."
        )
    if open_ := len(rows) - len(clear):
        runs = "1 run" if open_ == 1 else f"{open_} runs"
        text += f" In {runs} the trials were too short or too even to tell which rate is best."
    return text.strip()
