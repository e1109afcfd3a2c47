"""Functions, trained and constructed: Transformers of 1, 2 and 4 layers, of rank 1 and full, beside two constructions.

Targets are the equivariant ones of `monolayer.theory.targets`, of three tokens in [0, 1]. A trained model is one of a
fleet (`fleet.py`) that holds every target at every learning rate; all fleets have the same clock. It sees a pool of
uniform points, and its rate is chosen on points of its own. Errors are those on fresh uniform points, the same for all:
root mean square and largest. The constructions are `ml.approximate` (rank 1, a quantizer) and `norm="sup"` (rank 2).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.theory.targets import TARGETS
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GOLD, GREEN, ORANGE, RED, VIOLET, amount, bars, chart

QUESTION = "On functions, how far does training get beside the constructions, with more layers and with full rank?"

Results = dict[str, Any]

LENGTH = 3
MODELS = {
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
COLOURS = {
    "constructed, rank 1": BLUE,
    "constructed, rank 2": GREEN,
    "1 layer, rank 1": ORANGE,
    "4 layers, rank 1": RED,
    "1 layer": GOLD,
    "4 layers": VIOLET,
}
"""The models that are drawn."""
SURE = 3.0
"""Standard errors by which a trained model must beat the best constant, or its rate was chosen by nothing."""


@dataclass(frozen=True)
class Plan:
    """Targets, cells of the constructions, the trained models: which, width, rates, seconds, points, batch."""

    targets: tuple[str, ...]
    cells: int
    models: tuple[str, ...]
    width: int
    rates: tuple[float, ...]
    seconds: float
    pool: int
    held_out: int
    batch: int


ALL = tuple(name for name, target in TARGETS.items() if target.equivariant)
QUICK = Plan(ALL[:4], 8, ("1 layer, rank 1", "1 layer"), 16, (3e-3, 1e-2), 1.0, 4_000, 1_000, 128)
FULL = Plan(ALL, 32, tuple(MODELS), 64, (1e-3, 3e-3, 1e-2, 3e-2), 15.0, 1 << 18, 20_000, 1024)


def run(setting: Setting, progress: Progress) -> Results:
    plan = FULL if setting.full else QUICK
    random = np.random.default_rng([setting.seed, 7])
    pool, chosen = random.random((plan.pool, LENGTH, 1)), random.random((plan.held_out // 4, LENGTH, 1))
    fresh = _off_ramps(np.random.default_rng([setting.seed, 5]).random((plan.held_out, LENGTH, 1)), plan.cells)
    rows: list[Results] = []
    ml.approximate(TARGETS["max"].function, 1, 2, cells=2)  # imports and first calls are not what is timed
    for number, name in enumerate(plan.targets):
        progress(f"building {name}", 0.1 * number / len(plan.targets))
        rows += [{"target": name, "model": kind, **_build(plan, name, norm, fresh)} for kind, norm in BUILT.items()]
    for number, model in enumerate(plan.models):
        progress(f"training {model}", 0.1 + 0.9 * number / len(plan.models))
        rows += _train(plan, model, pool, chosen, fresh, setting)
    return {
        "length": LENGTH,
        "cells": plan.cells,
        "clock": plan.seconds,
        "width": plan.width,
        "rates": [f"{rate:g}" for rate in plan.rates],
        "held_out": len(fresh),
        "range": {name: float(np.ptp(_wanted(name, fresh))) for name in plan.targets},
        "rows": rows,
    }


def _build(plan: Plan, name: str, norm: Any, fresh: Floats) -> Results:
    began = time.perf_counter()
    model: Any = ml.approximate(TARGETS[name].function, 1, LENGTH, cells=plan.cells, norm=norm)
    seconds = time.perf_counter() - began
    wanted = _wanted(name, fresh)
    found = np.asarray(model.predict(fresh)).reshape(wanted.shape)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {**_errors(found - wanted), "parameters": parameters, "seconds": seconds}


def _train(plan: Plan, model: str, pool: Floats, chosen: Floats, fresh: Floats, setting: Setting) -> list[Results]:
    """A fleet of all targets at all rates; what is kept of each target is the rate that is best on `chosen`."""
    from monolayer_experiments.fleet import Fleet, Shape, sail

    layers, rank = MODELS[model]
    outputs = max(_wanted(name, fresh[:1]).shape[-1] for name in plan.targets)
    shape = Shape(layers, rank, plan.width, 1, outputs)
    which = [target for target in range(len(plan.targets)) for _ in plan.rates]
    rates = list(plan.rates) * len(plan.targets)
    fleet = Fleet(shape, len(which), setting.seed, setting.device)
    sailed = sail(fleet, pool, _stacked(plan, pool, outputs), which, rates, plan.seconds, plan.batch)
    tried = np.square(sailed.predict(chosen) - _stacked(plan, chosen, outputs)[which]).mean(axis=(2, 3))
    answers, rows = sailed.predict(fresh), []
    for target, name in enumerate(plan.targets):
        members = [member for member, each in enumerate(which) if each == target]
        best = min(members, key=lambda member: tried[member].mean())
        wanted = _wanted(name, fresh)
        # The best constant, on the same points: a lead over it must be more than its sampling error.
        lead = np.square(_wanted(name, chosen) - wanted.mean(axis=(0, 1))).mean(axis=(1, 2)) - tried[best]
        rows.append(
            {
                "target": name,
                "model": model,
                **_errors(answers[best][..., : wanted.shape[-1]] - wanted),
                "parameters": shape.parameters,
                "seconds": sailed.seconds,
                "steps": sailed.steps,
                "rate": f"{rates[best]:g}",
                "grid": {f"{rates[member]:g}": float(np.sqrt(tried[member].mean())) for member in members},
                "tuned": bool(lead.mean() > SURE * lead.std() / np.sqrt(len(lead))),
            }
        )
    return rows


def _wanted(name: str, X: Floats) -> Floats:
    return np.asarray(TARGETS[name](X), dtype=np.float64).reshape(len(X), LENGTH, -1)


def _stacked(plan: Plan, X: Floats, outputs: int) -> Floats:
    """All targets `(T, P, n, m)`; one with a single output stands in all `m`."""
    parts = [np.broadcast_to(_wanted(name, X), (len(X), LENGTH, outputs)) for name in plan.targets]
    return np.stack(parts)


def _errors(error: Floats) -> Results:
    return {"rms": float(np.sqrt(np.square(error).mean())), "sup": float(np.abs(error).max())}


def _off_ramps(X: Floats, cells: int) -> Floats:
    place = X * cells
    return X[(np.abs(place - np.round(place)) > 2.0**-18).all(axis=(1, 2))]


# -- what the numbers say ------------------------------------------------------------------------------


def _names(results: Results) -> list[str]:
    return list(results["range"])


def _row(results: Results, target: str, model: str) -> Results:
    return next(row for row in results["rows"] if (row["target"], row["model"]) == (target, model))


def _trained(results: Results, target: str) -> list[Results]:
    return [row for row in results["rows"] if row["target"] == target and row["model"] in MODELS]


def _ahead(results: Results, kind: str, key: str, models: tuple[str, ...]) -> list[str]:
    """Functions at which one of the trained models has a smaller error than a construction."""
    found = []
    for name in _names(results):
        tried = [row[key] for row in _trained(results, name) if row["model"] in models]
        if min(tried) < _row(results, name, kind)[key]:
            found.append(name)
    return found


def answer(results: Results) -> str:
    names = _names(results)

    def words(kind: str, models: tuple[str, ...]) -> str:
        parts = []
        for key, what in (("rms", "root mean square"), ("sup", "largest error")):
            found = _ahead(results, kind, key, models)
            listed = "" if len(found) in (0, len(names)) else f" ({', '.join(found)})"
            parts.append(f"in {what} on {len(found)} of {len(names)} functions{listed}")
        return " and ".join(parts)

    every, low = tuple(MODELS), ("1 layer, rank 1",)
    return (
        f"Against the construction of rank 1 with {results['cells']} cells, the best model trained for "
        f"{results['clock']:g} s is ahead {words('constructed, rank 1', every)}; against that of rank 2, "
        f"{words('constructed, rank 2', every)}. One trained layer of rank 1 alone is ahead of the construction of "
        f"rank 1 {words('constructed, rank 1', low)}.{_depth(results)}"
    )


def _depth(results: Results) -> str:
    """What layers and rank change, for the models that were trained."""
    models = [name for name in MODELS if any(row["model"] == name for row in results["rows"])]
    parts = []
    for model in models:
        ratios = [_row(results, name, model)["rms"] / results["range"][name] for name in _names(results)]
        parts.append(f"{model} {amount(float(np.exp(np.mean(np.log(ratios)))), 2)}")
    return f" Root mean square over the range, geometric mean over the functions: {', '.join(parts)}."


def figures(results: Results) -> list[Figure]:
    def drawn(key: str) -> dict[str, Any]:
        names = _names(results)
        short = [name.replace("-", "-<br>") for name in names]
        traces = []
        for kind in (kind for kind in COLOURS if any(row["model"] == kind for row in results["rows"])):
            values = [_row(results, name, kind)[key] / results["range"][name] for name in names]
            traces.append(bars(kind, short, values, COLOURS[kind]))
        return chart(traces, "function", "error / range", log_y=True)

    words = f"{results['held_out']:,} fresh points; {results['cells']} cells; {results['clock']:g} s of training."
    return [
        Figure("Root mean square error, constructed and trained", drawn("rms"), words),
        Figure("Largest error, constructed and trained", drawn("sup"), words),
    ]


def tables(results: Results) -> list[Table]:
    columns = ["function", "model", "rms", "largest", "parameters", "seconds", "steps", "rate"]
    rows = [
        [
            row["target"],
            row["model"],
            amount(row["rms"]),
            amount(row["sup"]),
            amount(row["parameters"]),
            amount(row["seconds"]),
            amount(row.get("steps")),
            "—" if "rate" not in row else row["rate"] if row["tuned"] else f"{row['rate']}, untuned",
        ]
        for name in _names(results)
        for row in results["rows"]
        if row["target"] == name
    ]
    grid = [
        [row["target"], row["model"], *(amount(row["grid"][rate]) for rate in results["rates"])]
        for row in results["rows"]
        if "grid" in row
    ]
    return [
        Table("Errors on fresh points", columns, rows),
        Table(
            "Root mean square error by learning rate, on other points", ["function", "model", *results["rates"]], grid
        ),
    ]


def limits(results: Results) -> str:
    trained = [row for row in results["rows"] if "grid" in row]
    ends = {results["rates"][0]: "smallest", results["rates"][-1]: "largest"}
    edge = ", ".join(
        f"the {word}, {rate}, in {sum(row['rate'] == rate for row in trained)}" for rate, word in ends.items()
    )
    untuned = sum(not row["tuned"] for row in trained)
    return (
        f"One shape, {results['length']} tokens of one coordinate, where a grid is small; with more tokens or "
        "coordinates the constructions are soon out of reach, and training was not tried. One width "
        f"({results['width']}), one seed, one recipe, mean square as the loss; a longer clock may take training "
        "further, as more cells take the constructions. A fleet trains all functions and rates at once; a model alone "
        "may make "
        f"more steps in its clock. Of the learning rates the best was {edge} of {len(trained)} runs; no other was "
        f"tried. Where no rate beats the best constant a run is marked untuned: {untuned} of {len(trained)}. The "
        "largest errors are those of uniform points; `cliff` searches for worse ones. Points within 2^-18 of a cell "
        "from its "
        "edge, where ramps lie, are left out for all. A construction calls the function at centres of its choice, "
        "training sees random points."
    )
