"""Construction against training: the same random data, one rank-1 layer built, or one to eight layers trained.

Notation: `N` sequences of `n` different tokens, a random class for every token, `M = nN` labels. Trained models are
ordinary Transformers (`transformer.py`): one layer of rank 1, one of full rank, and 2, 4 and 8 layers of full rank.
Each is so wide that it has as many parameters as the construction, or more. A model has a number of steps, the search
for its learning rate included.
"""

from __future__ import annotations

import monolayer as ml
from monolayer.table import Progress
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, low_to_high, scatter, share, table, where
from monolayer_experiments.runs import DEVICES, budget, described, edge, searches, timed
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import train
from monolayer_experiments.transformer import width_for

QUESTION = (
    "Against trained Transformers: on the same data, how far and how fast does training get, with one layer or more?"
)

MODELS = {
    "1 layer, rank 1": (1, 1, "orange"),
    "1 layer": (1, None, "green"),
    "2 layers": (2, None, "red"),
    "4 layers": (4, None, "violet"),
    "8 layers": (8, None, "gold"),
}
"""Layers, rank and colour of every trained model; None is full rank."""
PLAN = {
    "length": (8, 16),
    "vocabulary": (100, 1000),
    "classes": (16, 16),
    "sizes": ({100: (1, 400)}, {2_000: (3, 4_000), 20_000: (2, 4_000), 100_000: (1, 4_000)}),
    "models": (("1 layer, rank 1", "1 layer", "2 layers"), tuple(MODELS)),
    "least_width": (64, 128),
}
"""Quick and full. `sizes`: for every number of sequences, how many seeds there are and how many steps a model has."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Build a model for data of several sizes, and train networks of one layer or more on the same data.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    data = {key: plan[key] for key in ("length", "vocabulary", "classes")}
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    whole = sum(seeds * steps for seeds, steps in plan["sizes"].values()) * len(plan["models"])
    done, built, trained = 0.0, [], []
    for count, (seeds, steps) in plan["sizes"].items():
        X, Y = without_repeats(count, **data, seed=setting.seed)
        model, spent = timed(ml.memorize, X, Y, seed=setting.seed)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        accuracy = float((model.predict(X) == Y).mean())
        built.append({"sequences": count, "accuracy": accuracy, "seconds": spent, "parameters": parameters})
        for name in plan["models"]:
            layers, rank, _ = MODELS[name]
            width = width_for(parameters, data["vocabulary"], data["classes"], layers, rank, plan["least_width"])
            shape: Results = {"layers": layers, "rank": rank, "width": width}
            for seed in range(setting.seed, setting.seed + seeds):
                progress(f"{count:,} sequences, {name}", done / whole)
                fitted = train(X, Y, **shape, steps=steps, seed=seed, device=setting.device)
                row = {"sequences": count, "model": name, "seed": seed, "width": width, "budget": steps}
                trained.append({**row, **described(fitted, curve=seed == setting.seed)})
                done += steps
    return {**data, "constructed": built, "trained": trained}


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    built, trained = results["constructed"], results["trained"]
    wrong = [row for row in built if row["accuracy"] < 1.0]
    if wrong:
        return f"No: the construction returned {share(wrong[0]['accuracy'])} of {wrong[0]['sequences']:,} sequences."
    last = built[-1]
    labels = last["sequences"] * results["length"]
    text = f"The construction returned every label at every size, up to {labels:,} in {amount(last['seconds'])} s."
    rows = where(trained, sequences=last["sequences"])
    exact = where(rows, accuracy=1.0)
    if exact:
        best = min(exact, key=lambda row: row["alone"])
        text += (
            f" There {len(exact)} of {len(rows)} training runs did too, the quickest ({best['model']}) in "
            f"{best['steps']:,} steps and {amount(best['alone'])} s."
        )
    else:
        best = max(rows, key=lambda row: row["accuracy"])
        text += (
            f" There no training run did; the best, {best['model']}, had {share(best['accuracy'])} right after "
            f"{amount(best['seconds'])} s."
        )
    low = where(trained, model="1 layer, rank 1")
    if where(trained, accuracy=1.0) and low and not where(low, accuracy=1.0):
        text += " With these budgets no training run got there with rank 1, the rank of the construction."
    return text


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    made = []
    caption = "A curve is the run that was kept; its clock includes the trials of other learning rates."
    for built in results["constructed"]:
        rows = where(results["trained"], sequences=built["sequences"])
        traces = []
        for row in (row for row in rows if row["curve"]):
            seconds, right = zip(*row["curve"], strict=True)
            traces.append(line(row["model"], seconds, right, MODELS[row["model"]][2], markers=False))
        traces.append(scatter("construction", [built["seconds"]], [built["accuracy"]], "blue"))
        title = f"Accuracy against time, {built['sequences']:,} sequences"
        made.append(figure(title, traces, ("seconds", "labels right"), caption, log="x", range_y=(0.0, 1.05)))
    return made


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    summary = []
    for built in results["constructed"]:
        words = {"model": "construction", "right": share(built["accuracy"]), "alone": built["seconds"]}
        summary.append({**built, **words})
        for name in MODELS:
            rows = where(results["trained"], sequences=built["sequences"], model=name)
            if rows:
                times = {key: sum(column(rows, key)) / len(rows) for key in ("seconds", "alone")}
                right = low_to_high(column(rows, "accuracy"), share)
                summary.append({**rows[0], **times, "right": right, "seeds": len(rows)})
    summary = [{**row, "budget": budget(row) if "seeds" in row else None} for row in summary]
    head = "sequences; model; parameters; right; seconds; without search: alone; budget; seeds"
    return [table("Labels right", summary, head), searches(_searched(results), "sequences", "model", "seed")]


def _searched(results: Results) -> list[Results]:
    chance = 1.0 / results["classes"]
    return [{**row, "labels": row["sequences"] * results["length"], "chance": chance} for row in results["trained"]]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    budgets = " or ".join(dict.fromkeys(map(budget, results["trained"])))
    return (
        f"A model had {budgets}, one width and one batch size; more may take training further. Times leave out the "
        f"search for a rate. {edge(_searched(results))} {DEVICES}"
    )
