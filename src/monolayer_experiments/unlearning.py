"""Methods of unlearning beside exact forgetting, on models whose solution is known bit for bit.

A GPT-2 holds facts about people who do not exist, as prompts and answers, and some are to go. `ml.forget` is the
oracle. Three methods from the literature start from the same folder, loaded by transformers in float32, and are trained
by AdamW at several rates for several numbers of steps: gradient ascent on the facts to forget; NPO (loss and settings
of OpenUnlearning: β = 0.1, with the loss of as many kept facts added); fine-tuning on kept facts.

Each is compared with the model that the draw makes of the kept facts alone (`monolayer_experiments/unlearning_set.py`
has the measures): forget quality, kept answers, and the distance of the weights, in parts of the distance before.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import monolayer as ml
from monolayer.table import Progress, plural
from monolayer_experiments.chance import above
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, distinct, figure, low_to_high, scatter, share, table, where
from monolayer_experiments.unlearning_set import (
    IGNORED,
    batch,
    births,
    distance,
    forget_quality,
    loaded,
    losses,
    questions,
    truth_ratios,
)

QUESTION = "How near do methods of unlearning come to a model that never saw the data?"

PLAN = {
    "facts": (60, 100),
    "forgotten": (10, 20),
    "seeds": (1, 3),
    "rates": ((1e-5, 1e-4), (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)),
    "steps": ((5, 20, 40), (10, 20, 40, 80, 160)),
}
METHODS = {"gradient ascent": "red", "NPO": "orange", "fine-tuning": "violet"}
BETA = 0.1
"""As in `configs/trainer/NPO.yaml` of OpenUnlearning."""
SCORES = ("quality", "forget_right", "retained", "distance")
Batch = dict[str, torch.Tensor]


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Forget facts by construction and by trained methods, and measure how near each is to never having seen them.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    rows, same, chance = [], [], 0.0
    for number in range(plan["seeds"]):
        seed = setting.seed + number
        progress(f"construction, seed {seed}", number / plan["seeds"])
        X, Y = births(plan["facts"], seed)
        chance += max(map(Y.count, Y)) / len(Y) / plan["seeds"]
        model = ml.memorize_as("gpt2", X, Y, seed=seed)
        forgot, _ = ml.forget(model, list(range(plan["forgotten"])), (X, Y))
        never = ml.memorize_as("gpt2", X[plan["forgotten"] :], Y[plan["forgotten"] :], draw=model)
        same.append(ml.compare(forgot, never).same)
        with tempfile.TemporaryDirectory() as folder:
            start, exact, goal = (
                loaded(each.save(Path(folder) / name))
                for name, each in {"with": model, "forgot": forgot, "never": never}.items()
            )
        task = _Task(questions(X, Y), plan["forgotten"], *goal, start[0])
        rows.append({"seed": seed, "method": "nothing done", **task.scores(start[0])})
        rows.append({"seed": seed, "method": "exact forgetting", **task.scores(exact[0])})
        trials = [(method, rate) for method in METHODS for rate in plan["rates"]]
        for done, (method, rate) in enumerate(trials):
            progress(f"{method}, seed {seed}", (number + (done + 1) / (len(trials) + 1)) / plan["seeds"])
            for steps, network in _trained(task, start[0], method, rate, plan["steps"], seed):
                rows.append({"seed": seed, "method": method, "rate": rate, "steps": steps, **task.scores(network)})
    sizes = {key: plan[key] for key in ("facts", "forgotten", "seeds")}
    return {**sizes, "chance": chance, "same_bits": all(same), "rows": rows}


class _Task:
    """Facts to forget and to keep, and the model that never saw the former."""

    def __init__(self, rows: list[Results], forgotten: int, never: Any, tokenizer: Any, start: Any) -> None:
        self.rows, self.tokenizer, self.never = rows[:forgotten], tokenizer, never
        self.forget, self.retain = (
            batch(tokenizer, [(row["question"], row["answer"]) for row in part])
            for part in (rows[:forgotten], rows[forgotten:])
        )
        self.reference = truth_ratios(never, tokenizer, self.rows)
        self.before = distance(start, never)

    @torch.no_grad()
    def scores(self, network: Any) -> Results:
        ratios = truth_ratios(network, self.tokenizer, self.rows)
        values = (
            forget_quality(ratios, self.reference),
            *(losses(network, part)[1].double().mean().item() for part in (self.forget, self.retain)),
            distance(network, self.never) / self.before,
        )
        return dict(zip(SCORES, values, strict=True))


def _trained(
    task: _Task, start: Any, method: str, rate: float, stops: tuple[int, ...], seed: int
) -> Iterator[tuple[int, Any]]:
    """The network after each number of steps."""
    network, random = copy.deepcopy(start), np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
    count = len(task.rows)
    with torch.no_grad():
        before = losses(start, task.forget)[0]
    for step in range(1, max(stops) + 1):
        kept = torch.from_numpy(random.permutation(len(task.retain["labels"]))[:count])
        some = {name: part[kept] for name, part in task.retain.items()}
        if method == "gradient ascent":
            loss = -_mean(network, task.forget)
        elif method == "NPO":
            change = losses(network, task.forget)[0] - before
            loss = -2 / BETA * F.logsigmoid(BETA * change).mean() + _mean(network, some)
        else:
            loss = _mean(network, some)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step in stops:
            yield step, network


def _mean(network: Any, given: Batch) -> torch.Tensor:
    return losses(network, given)[0].sum() / (given["labels"] != IGNORED).sum()


def _settings(results: Results, method: str) -> list[Results]:
    """Of each rate and number of steps the mean over seeds, and the values of all seeds."""
    rows = where(results["rows"], method=method)
    settings = []
    for rate, steps in dict.fromkeys(zip(column(rows, "rate"), column(rows, "steps"), strict=True)):
        some = [row for row in rows if (row.get("rate"), row.get("steps")) == (rate, steps)]
        means = {key: float(np.mean(column(some, key))) for key in SCORES}
        settings.append({"method": method, "rate": rate, "steps": steps, **means, "all": some})
    return settings


def _best_rate(results: Results) -> list[Results]:
    """A row per method: its setting with the largest forget quality times kept answers."""
    names = distinct(results["rows"], "method")
    return [max(_settings(results, name), key=lambda row: row["quality"] * row["retained"]) for name in names]


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    best = {row["method"]: row for row in _best_rate(results)}
    exact, seeds = best["exact forgetting"], results["seeds"]
    bits = "the bits of the model that never saw them" if results["same_bits"] else "NOT the bits of the other model"
    nearest = max((best[name] for name in METHODS), key=lambda row: row["quality"] * row["retained"])
    labels = seeds * (results["facts"] - results["forgotten"])
    guess = "" if above(nearest["retained"], results["chance"], labels) else " (no more than guessing)"
    return (
        f"Exact forgetting of {results['forgotten']} of {results['facts']} facts in a GPT-2 ({plural(seeds, 'seed')}) "
        f"gave {bits}: forget quality {amount(exact['quality'])}, {share(exact['retained'])} of the kept answers, "
        f"distance {amount(exact['distance'])}. The nearest of three methods at its best setting, {nearest['method']}: "
        f"{amount(nearest['quality'], 2)}, {share(nearest['retained'])}{guess} and {nearest['distance']:.4f} of the "
        "distance before."
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    colours = {"nothing done": "grey", "exact forgetting": "blue", **METHODS}
    traces = []
    for name in distinct(results["rows"], "method"):
        settings = _settings(results, name)
        traces.append(scatter(name, column(settings, "retained"), column(settings, "quality"), colours[name]))
    caption = "A point is the mean over seeds of one rate and number of steps. The goal is the corner at the top right."
    return [figure("Forgetting and keeping", traces, ("kept answers", "forget quality (p-value)"), caption)]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    head = (
        "method; rate; steps; forget quality: quality; of the seeds: range; forgotten answers still given: "
        "forget_right %; kept answers: retained %; distance"
    )
    shown = {
        "distance": lambda row: f"{row['distance']:.4f}",
        "rate": lambda row: "—" if row["rate"] is None else f"{row['rate']:g}",
        "range": lambda row: low_to_high(column(row["all"], "quality")),
    }
    every = [row for name in METHODS for row in _settings(results, name)]
    return [table("Best settings", _best_rate(results), head, **shown), table("All settings", every, head, **shown)]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    rates = [rate for rate in distinct(results["rows"], "rate") if rate is not None]
    most = max(filter(None, column(results["rows"], "steps")))
    edge = [
        row["method"] for row in _best_rate(results) if row["steps"] == most or row["rate"] in (min(rates), max(rates))
    ]
    return (
        "Facts of one kind in one layer: what works on this lookup table may differ on a language model. Rates "
        f"{', '.join(f'{rate:g}' for rate in rates)}, AdamW, up to {most} steps"
        f"{'; the best setting of ' + ', '.join(edge) + ' lies at the edge of these' if edge else ''}. Each method is "
        "shown at the setting that the known solution prefers, which its user would not know. With "
        f"{results['forgotten']} facts the test sees only large differences."
    )
