"""Functions, trained and constructed: Transformers of 1, 2 and 4 layers, of rank 1 and full, beside two constructions.

Targets are the equivariant ones of `monolayer.theory.targets`, of three tokens in [0, 1]. A trained model is one of a
fleet (`fleet.py`) that holds every target at every learning rate; all fleets have the same clock. It sees a pool of
uniform points, and its rate is chosen on points of its own. Errors are those on fresh uniform points, the same for all:
root mean square and largest. The constructions are `ml.approximate` (rank 1, a quantizer) and `norm="sup"` (rank 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.theory.targets import TARGETS
from monolayer_experiments.equivariant import off_ramps
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.fleet import Fleet, best_of, sail
from monolayer_experiments.look import amount, bars, column, figure, table, where
from monolayer_experiments.runs import timed

QUESTION = "On functions, how far does training get beside the constructions, with more layers and with full rank?"

LENGTH = 3
MODELS: dict[str, tuple[int, int | None]] = {
    "1 layer, rank 1": (1, 1),
    "2 layers, rank 1": (2, 1),
    "4 layers, rank 1": (4, 1),
    "1 layer": (1, None),
    "2 layers": (2, None),
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
    "models": (("1 layer, rank 1", "1 layer"), tuple(MODELS)),
    "rates": ((3e-3, 1e-2), (1e-3, 3e-3, 1e-2, 3e-2)),
    "cells": (8, 32),
    "width": (16, 64),
    "clock": (1.0, 15.0),
    "pool": (4_000, 1 << 18),
    "held_out": (1_000, 20_000),
    "batch": (128, 1024),
}
"""Quick and full."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
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
        **{key: plan[key] for key in ("cells", "clock", "width")},
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
    found = np.asarray(model.predict(fresh)).reshape(wanted.shape)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {**_errors(found - wanted), "parameters": parameters, "seconds": seconds}


def _train(plan: Results, model: str, points: dict[str, Floats], setting: Setting) -> list[Results]:
    """A fleet of all targets at all rates; what is kept of each target is the rate that is best on `chosen`."""
    names, fresh, chosen = plan["targets"], points["fresh"], points["chosen"]
    outputs = max(_wanted(name, fresh[:1]).shape[-1] for name in names)

    def stacked(X: Floats) -> Floats:
        """All targets `(T, P, n, m)`; one with a single output stands in all `m`."""
        return np.stack([np.broadcast_to(_wanted(name, X), (len(X), LENGTH, outputs)) for name in names])

    shape = (*MODELS[model], plan["width"], 1, outputs)
    which = [target for target in range(len(names)) for _ in plan["rates"]]
    rates = list(plan["rates"]) * len(names)
    fleet = Fleet(shape, len(which), setting.seed, setting.device)
    sail(fleet, points["pool"], stacked(points["pool"]), which, rates, plan["clock"], plan["batch"])
    tried = np.square(fleet.predict(chosen) - stacked(chosen)[which]).mean(axis=(2, 3))
    answers, rows = fleet.predict(fresh), []
    for target, best in best_of(which, tried.mean(axis=1)).items():
        wanted = _wanted(names[target], fresh)
        # The best constant, on the same points: a lead over it must be more than its sampling error.
        lead = np.square(_wanted(names[target], chosen) - wanted.mean(axis=(0, 1))).mean(axis=(1, 2)) - tried[best]
        row = {"target": names[target], "model": model, "rate": f"{rates[best]:g}"}
        row["tuned"] = bool(lead.mean() > SURE * lead.std() / np.sqrt(len(lead)))
        row |= {"parameters": fleet.parameters, "seconds": fleet.seconds, "steps": fleet.steps}
        rows.append({**row, **_errors(answers[best][..., : wanted.shape[-1]] - wanted)})
    return rows


def _wanted(name: str, X: Floats) -> Floats:
    return np.asarray(TARGETS[name](X), dtype=np.float64).reshape(len(X), LENGTH, -1)


def _errors(error: Floats) -> Results:
    return {"rms": float(np.sqrt(np.square(error).mean())), "sup": float(np.abs(error).max())}


def _relative(results: Results, model: str, key: str) -> list[float]:
    """An error of a model over the range of the function, for every function."""
    rows = where(results["rows"], model=model)
    return [row[key] / results["range"][row["target"]] for row in rows]


def answer(results: Results) -> str:
    names, trained = list(results["range"]), [row for row in results["rows"] if row["model"] in MODELS]

    def ahead(kind: str, rows: list[Results]) -> str:
        """Functions at which one of the trained models has a smaller error than a construction, in words."""
        parts = []
        for key, what in (("rms", "root mean square"), ("sup", "largest error")):
            built = {row["target"]: row[key] for row in where(results["rows"], model=kind)}
            found = [name for name in names if min(column(where(rows, target=name), key)) < built[name]]
            parts.append(f"in {what} on {len(found)} of {len(names)} functions")
        return " and ".join(parts)

    means = []
    for model in (model for model in MODELS if where(trained, model=model)):
        mean = float(np.exp(np.mean(np.log(_relative(results, model, "rms")))))
        means.append(f"{model} {amount(mean, 2)}")
    return (
        f"Against the construction of rank 1 with {results['cells']} cells, the best model trained for "
        f"{results['clock']:g} s is ahead {ahead('constructed, rank 1', trained)}; against that of rank 2, "
        f"{ahead('constructed, rank 2', trained)}. Root mean square over the range, geometric mean over the functions: "
        f"{', '.join(means)}."
    )


def figures(results: Results) -> list[Figure]:
    words = f"{results['held_out']:,} fresh points; {results['cells']} cells; {results['clock']:g} s of training."
    short = [name.replace("-", "-<br>") for name in results["range"]]
    kinds = [kind for kind in DRAWN if where(results["rows"], model=kind)]
    made = []
    for key, what in (("rms", "Root mean square error"), ("sup", "Largest error")):
        traces = [bars(kind, short, _relative(results, kind, key), DRAWN[kind]) for kind in kinds]
        made.append(figure(f"{what}, constructed and trained", traces, ("function", "error / range"), words, log="y"))
    return made


def tables(results: Results) -> list[Table]:
    def rate(row: Results) -> str:
        return "—" if "rate" not in row else row["rate"] if row["tuned"] else f"{row['rate']}, untuned"

    rows = sorted(results["rows"], key=lambda row: list(results["range"]).index(row["target"]))
    head = "function: target; model; rms; largest: sup; parameters; seconds; steps; rate"
    return [table("Errors on fresh points", rows, head, rate=rate)]


def limits(results: Results) -> str:
    trained = [row for row in results["rows"] if row["model"] in MODELS]
    largest = results["rates"][-1]
    return (
        f"One shape, {results['length']} tokens of one coordinate, one width ({results['width']}), one seed, mean "
        f"square as the loss, a short clock. The largest rate tried, {largest}, was best in "
        f"{len(where(trained, rate=largest))} of {len(trained)} runs. Errors are those of uniform points off the "
        "ramps; `cliff` searches for worse ones."
    )
