"""Functions, trained and constructed: Transformers of 1 and 4 layers, of rank 1 and full, beside two constructions.

Targets are the equivariant ones of `monolayer.theory.targets`, of three tokens in [0, 1]. A trained model is one of a
fleet (`fleet.py`) that holds every target at every learning rate, from several seeds; all take the same steps.
It sees a pool of uniform points, and its rate is chosen on points of its own. Errors are those on fresh uniform points,
the same for all: root mean square and largest; of several seeds the median counts. The constructions are
`ml.approximate` (rank 1, a quantizer) and `norm="sup"` (rank 2).
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.table import Progress
from monolayer.theory.targets import TARGETS
from monolayer_experiments.equivariant import off_ramps
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.fleet import Fleet, sail
from monolayer_experiments.look import bars, column, figure, low_to_high, table, where
from monolayer_experiments.runs import budget, timed

QUESTION = "On functions, how far does training get beside the constructions, with more layers and with full rank?"

LENGTH = 3
LAYERS_AND_RANK: dict[str, tuple[int, int | None]] = {
    "1 layer, rank 1": (1, 1),
    "4 layers, rank 1": (4, 1),
    "1 layer": (1, None),
    "4 layers": (4, None),
}
"""Layers and rank of every trained model; None is full rank."""
BUILT = {"constructed, rank 1": "mean", "constructed, rank 2": "sup"}
"""The constructions, and the norm that each is for."""
DRAWN = {
    "constructed, rank 1": "blue",
    "constructed, rank 2": "green",
    "1 layer, rank 1": "orange",
    "4 layers, rank 1": "red",
    "1 layer": "gold",
    "4 layers": "violet",
}
"""The models that are drawn, and their colours."""
SURE = 3.0
"""Standard errors by which a trained model must beat the best constant, or its rate was chosen by nothing."""
ALL = tuple(name for name, target in TARGETS.items() if target.equivariant)
PLAN = {
    "targets": (ALL[:4], ALL),
    "models": (("1 layer, rank 1", "1 layer"), tuple(LAYERS_AND_RANK)),
    "rates": ((3e-3, 1e-2), (3e-3, 1e-2, 3e-2)),
    "seeds": (1, 3),
    "cells": (8, 32),
    "width": (16, 64),
    "budget": (100, 2_000),
    "pool": (4_000, 1 << 18),
    "held_out": (1_000, 20_000),
    "batch": (128, 1024),
}


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Approximate the targets by construction and by trained networks, and measure the errors of both.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    random = np.random.default_rng([setting.seed, 7])
    points = {"pool": random.random((plan["pool"], LENGTH, 1))}
    points["chosen"] = random.random((plan["held_out"] // 4, LENGTH, 1))
    fresh = np.random.default_rng([setting.seed, 5]).random((plan["held_out"], LENGTH, 1))
    points["fresh"] = fresh = off_ramps(fresh, plan["cells"])
    rows: list[Results] = []
    ml.approximate(TARGETS["max"].function, 1, 2, cells=2)  # imports and first calls are not what is timed
    for number, name in enumerate(plan["targets"]):
        progress(f"building {name}", 0.1 * number / len(plan["targets"]))
        for kind, norm in BUILT.items():
            rows.append({"target": name, "model": kind, **_build(plan["cells"], name, norm, fresh)})
    for number, model in enumerate(plan["models"]):
        progress(f"training {model}", 0.1 + 0.9 * number / len(plan["models"]))
        rows += _train(plan, model, points, setting)
    return {
        **{key: plan[key] for key in ("cells", "budget", "width", "seeds")},
        "length": LENGTH,
        "rates": [f"{rate:g}" for rate in plan["rates"]],
        "held_out": len(fresh),
        "range": {name: float(np.ptp(_wanted(name, fresh))) for name in plan["targets"]},
        "rows": rows,
    }


def _build(cells: int, name: str, norm: Any, fresh: Floats) -> Results:
    model: Any
    model, seconds = timed(ml.approximate, TARGETS[name].function, 1, LENGTH, cells=cells, norm=norm)
    wanted = _wanted(name, fresh)
    answers = np.asarray(model.predict(fresh)).reshape(wanted.shape)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    errors = {key: [error] for key, error in _errors(answers - wanted).items()}
    return {**errors, "parameters": parameters, "seconds": seconds}


def _train(plan: Results, model: str, points: dict[str, Floats], setting: Setting) -> list[Results]:
    """A fleet of all targets, seeds and rates; of each target and seed the rate is kept that is best on `chosen`."""
    names, fresh, chosen = plan["targets"], points["fresh"], points["chosen"]
    outputs = max(_wanted(name, fresh[:1]).shape[-1] for name in names)

    def stacked(X: Floats) -> Floats:
        """All targets `(T, P, n, m)`; one with a single output stands in all `m`."""
        return np.stack([np.broadcast_to(_wanted(name, X), (len(X), LENGTH, outputs)) for name in names])

    shape = (*LAYERS_AND_RANK[model], plan["width"], 1, outputs)
    each = plan["seeds"] * len(plan["rates"])
    which, rates = np.repeat(np.arange(len(names)), each).tolist(), list(plan["rates"]) * len(names) * plan["seeds"]
    fleet = Fleet(shape, len(which), setting.seed, setting.device)
    sail(fleet, points["pool"], stacked(points["pool"]), which, rates, plan["budget"], plan["batch"])
    tried = np.square(fleet.predict(chosen) - stacked(chosen)[which]).mean(axis=(2, 3))
    answers, best = fleet.predict(fresh), tried.mean(axis=1).reshape(-1, len(plan["rates"])).argmin(axis=1)
    rows = []
    for target, name in enumerate(names):
        wanted = _wanted(name, fresh)
        # The best constant, on the same points: a lead over it must be more than its sampling error.
        constant = np.square(_wanted(name, chosen) - wanted.mean(axis=(0, 1))).mean(axis=(1, 2))
        seeds = range(target * plan["seeds"], (target + 1) * plan["seeds"])
        kept = [seed * len(plan["rates"]) + int(best[seed]) for seed in seeds]
        leads = [constant - tried[member] for member in kept]
        row = {"target": name, "model": model, "rates": [f"{rates[member]:g}" for member in kept]}
        row["tuned"] = all(lead.mean() > SURE * lead.std() / np.sqrt(len(lead)) for lead in leads)
        row |= {"parameters": fleet.parameters, "seconds": fleet.seconds, "steps": fleet.steps}
        errors = [_errors(answers[member][..., : wanted.shape[-1]] - wanted) for member in kept]
        rows.append({**row, **{key: column(errors, key) for key in ("rms", "sup")}})
    return rows


def _wanted(name: str, X: Floats) -> Floats:
    return np.asarray(TARGETS[name](X), dtype=np.float64).reshape(len(X), LENGTH, -1)


def _errors(error: Floats) -> Results:
    return {"rms": float(np.sqrt(np.square(error).mean())), "sup": float(np.abs(error).max())}


def _relative(results: Results, model: str, key: str) -> list[float]:
    """The median error of a model over the range of the function, for every function."""
    rows = where(results["rows"], model=model)
    return [median(row[key]) / results["range"][row["target"]] for row in rows]


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    names, trained = list(results["range"]), [row for row in results["rows"] if row["model"] in LAYERS_AND_RANK]

    def ahead(kind: str, rows: list[Results]) -> str:
        """Functions at which one of the trained models has a smaller error than a construction, in words."""
        cases = []
        for key in ("rms", "sup"):
            built = {row["target"]: row[key][0] for row in where(results["rows"], model=kind)}
            cases.append(sum(min(map(median, column(where(rows, target=n), key))) < built[n] for n in names))
        return f"in root mean square on {cases[0]} of {len(names)} functions and in largest error on {cases[1]}"

    return (
        f"Against the construction of rank 1 with {results['cells']} cells, the best model trained for "
        f"{budget(results)} ({_seeds(results)}) is ahead {ahead('constructed, rank 1', trained)}; against "
        f"that of rank 2, {ahead('constructed, rank 2', trained)}."
    )


def _seeds(results: Results) -> str:
    return f"median of {results['seeds']} seeds" if results["seeds"] > 1 else "one seed"


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    words = f"{results['held_out']:,} fresh points; {results['cells']} cells; {budget(results)} of training, "
    words += f"{_seeds(results)}."
    short = [name.replace("-", "-<br>") for name in results["range"]]
    kinds = [kind for kind in DRAWN if where(results["rows"], model=kind)]
    made = []
    for key, what in (("rms", "Root mean square error"), ("sup", "Largest error")):
        traces = [bars(kind, short, _relative(results, kind, key), DRAWN[kind]) for kind in kinds]
        made.append(figure(f"{what}, constructed and trained", traces, ("function", "error / range"), words, log="y"))
    return made


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""

    def rates(row: Results) -> str:
        kept = ", ".join(sorted(set(row.get("rates", ["—"]))))
        return kept if row.get("tuned", True) else f"{kept}, untuned"

    rows = sorted(results["rows"], key=lambda row: list(results["range"]).index(row["target"]))
    head = "function: target; model; rms; largest: sup; parameters; seconds; steps; rates kept: rates"
    ends = {key: lambda row, key=key: low_to_high(row[key]) for key in ("rms", "sup")}
    return [table("Errors on fresh points", rows, head, **ends, rates=rates)]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    kept = [rate for row in results["rows"] for rate in row.get("rates", ())]
    largest = results["rates"][-1]
    return (
        f"{results['length']} tokens of one coordinate, one width ({results['width']}), mean square as the loss, a "
        f"short training. The largest rate tried, {largest}, was best in {kept.count(largest)} of {len(kept)} runs. "
        "Errors are those of uniform points off the ramps."
    )
