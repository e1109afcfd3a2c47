"""How many random facts a robust model of rank k holds, all of them right, in a format: rank against capacity.

One factor at a time: the data stay random sequences of one length over one vocabulary, the rank goes up by row and the
number of sequences doubles from column to column, until the construction refuses or float32 loses a label.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

import monolayer as ml
from monolayer.checker.short import round_to
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, ORANGE, RED, amount, chart, line
from monolayer_experiments.synthetic import without_repeats

FORMATS = ("float32", "bfloat16", "int8", "int6")
COLOURS = {"float32": BLUE, "bfloat16": GREEN, "int8": ORANGE, "int6": RED}


def run(setting: Setting, progress: Progress) -> list[dict[str, Any]]:
    """One row a rank and number of facts: labels lost in each format, neurons, narrowest slab."""
    ranks, first, last, words = ((4, 8, 16, 32, 64), 250, 1000, 1000) if setting.full else ((4, 16), 40, 80, 60)
    rows: list[dict[str, Any]] = []
    for done, rank in enumerate(ranks):
        progress(f"capacity of rank {rank}", done / len(ranks))
        count = first
        while count <= last:
            X, Y = without_repeats(count, 16 if setting.full else 8, words, 16, seed=setting.seed)
            try:
                model = ml.memorize(X, Y, robust=True, rank=rank, seed=setting.seed)
            except ml.PrecisionError:
                rows.append({"rank": rank, "facts": int(X.size), "refused": True})
                break
            lost = {name: _lost(model, X, Y, name) for name in FORMATS}
            assert model.summary is not None  # it was just built
            summary = {"neurons": model.summary.runs, "half_width": model.summary.half_width}
            rows.append({"rank": rank, "facts": int(X.size), "lost": lost} | summary)
            if lost["float32"]:
                break
            count *= 2
    return rows


def _lost(model: ml.Monolayer, X: Any, Y: Any, name: str) -> int:
    other = copy.deepcopy(model)
    if name != "float32":
        with torch.no_grad():
            for weight in other.parameters():
                weight.copy_(torch.from_numpy(round_to(weight.numpy(), name)))
    return int(np.count_nonzero(other.predict(X) != Y))


def held(rows: list[dict[str, Any]], name: str) -> dict[int, int]:
    """For each rank the most facts up to which none was lost in a format; 0: some were lost at the fewest."""
    most: dict[int, int] = {}
    for rank in dict.fromkeys(row["rank"] for row in rows):
        most[rank] = 0
        for row in (row for row in rows if row["rank"] == rank):
            if row.get("refused") or row["lost"][name]:
                break
            most[rank] = row["facts"]
    return most


def figure(rows: list[dict[str, Any]]) -> Figure:
    traces = []
    for name in FORMATS:
        some = {rank: facts for rank, facts in held(rows, name).items() if facts}
        traces.append(line(name, list(some), list(some.values()), COLOURS[name]))
    ranks = sorted({row["rank"] for row in rows})
    most = max(row["facts"] for row in rows)
    return Figure(
        "Facts held without a loss, against rank",
        chart(
            traces,
            "rank of the values k",
            "random facts, all right",
            log_x=True,
            log_y=True,
            ticks_x=ranks,
            levels=[(most, "the most that was tried")],
        ),
        "Robust models of random sequences; the number of sequences doubles until a label is lost. What lies on the "
        "line at the top may hold more.",
    )


def table(rows: list[dict[str, Any]]) -> Table:
    columns = ["rank", "facts", "neurons", "narrowest half-width", *(f"lost in {name}" for name in FORMATS)]
    body = [
        [amount(row["rank"]), amount(row["facts"]), "refused", "—", *("—" for _ in FORMATS)]
        if row.get("refused")
        else [
            amount(row["rank"]),
            amount(row["facts"]),
            amount(row["neurons"]),
            amount(row["half_width"], 2),
            *(amount(row["lost"][name]) for name in FORMATS),
        ]
        for row in rows
    ]
    return Table("What robust models of rank k hold", columns, body)
