"""Rank decides in the maximum norm: below (n − 1)d more cells do not help, at (n − 1)d the largest error falls.

Theorem C (docs/uniform.md): with value rank `k < min(m, (n − 1)d)` some function with `m` outputs per token keeps a
fixed largest error, whatever the network; at rank 1 so does `bowl`, which has one output. Measured for `D` cells per
coordinate:

- rank 1, the quantizer and one head: the error at two sequences that this very network confuses, enclosed in balls from
  its saved weights (`ml.confuse`), what no common answer avoids there, and the root mean square error off the ramps;
- rank (n − 1)d, no quantizer (`norm="sup"`, with positions for d = 3): the largest error on random points, on points
  with equal and nearly equal tokens, and on the pairs that confuse rank 1, beside the proved bound; and what
  `ml.certify` says of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.table import Progress
from monolayer.theory.targets import TARGETS, TargetFunction
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, low_to_high, table, where

QUESTION = "Is one rank-1 head enough for a small error everywhere, not only in the mean?"

CASES = (
    ("sort", 1, 3, (4, 8, 16, 32, 64)),
    ("bowl", 1, 3, (4, 8, 16, 32, 64, 128)),
    ("force", 2, 2, (4, 8, 16, 32)),
    ("softmax-pooling", 2, 2, (4, 8, 16, 32)),
    ("force", 3, 2, (2, 4, 8)),
)
"""Functions with their coordinates, tokens and cells."""
PLAN = {"most_cells": (8, 128), "points": (20_000, 20_000)}


def bowl(X: Floats) -> Floats:
    """The function of Theorem C₁ on [0, 1]: `4E − 3`, cut to [0, 1], `E = (3/2) Σ u² − ½ (Σ u)²` over the others.

    For three tokens `E = p² + q² − pq`. L = 32: where the cut leaves it, `E ≤ 1`, so `|2p − q| + |2q − p| ≤ 2√3`, and
    `u = (4x − 2)/√3`.
    """
    u = (4.0 * X[..., 0] - 2.0) / np.sqrt(3.0)
    total, squares = u.sum(axis=1, keepdims=True) - u, np.square(u).sum(axis=1, keepdims=True) - u**2
    return np.asarray(np.clip(4.0 * (1.5 * squares - 0.5 * total**2) - 3.0, 0.0, 1.0))


FUNCTIONS = {**TARGETS, "bowl": TargetFunction("bowl", bowl, "the function of Theorem C₁", lambda *_: 32.0)}


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure the largest error of approximators in the maximum norm, for each target and number of cells.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    rows = []
    for done, (name, dim, length, every) in enumerate(CASES):
        X = _points(plan["points"], dim, length, setting.seed)
        cells = [D for D in every if plan["most_cells"] >= D]
        for number, D in enumerate(cells):
            progress(f"{name}, {D} cells", (done + number / len(cells)) / len(CASES))
            row = {"target": name, "dim": dim, "length": length, "cells": D}
            rows.append(row | _measure(name, X, D, setting.seed))
    return {"points": plan["points"], "rows": rows}


def _measure(name: str, X: Floats, cells: int, seed: int) -> Results:
    _, length, dim = X.shape
    target = FUNCTIONS[name]
    constant = target.lipschitz(dim, length, 0.0, 1.0)
    assert constant is not None  # continuous functions only
    low = ml.approximate(target.function, dim, length, cells=cells, seed=seed)
    pair = ml.confuse(low, target.function, lipschitz=constant)
    high = ml.approximate(target.function, dim, length, cells=cells, norm="sup", lipschitz=constant, positions=dim == 3)
    both = np.stack([pair.X, pair.X_prime])
    free = X[~low.on_ramp(X)]
    return {
        "rank_1": pair.error,
        "forced": pair.forced,
        "rank_1_rms": float(np.sqrt(np.square(_errors(low, target, free)).mean())),
        "rank": high.rank,
        "sup": float(max(_errors(high, target, X).max(), _errors(high, target, both).max())),
        "bound": high.error,
        "verdict": ml.certify(high, target.function).verdict,
        "range": float(np.ptp(target(X))),
    }


def _points(count: int, dim: int, length: int, seed: int) -> Floats:
    """Uniform points; some with two equal tokens, some with two nearly equal, some on the knots of coarse grids."""
    random = np.random.default_rng([seed, 6])
    X = random.random((count, length, dim))
    part = count // 5
    X[:part, 0] = X[:part, 1]
    X[part : 2 * part, 0] = X[part : 2 * part, 1] + 1e-4 * random.random((part, dim))
    X[2 * part : 3 * part] = np.round(8 * X[2 * part : 3 * part]) / 8
    return X.clip(0.0, 1.0)


def _errors(model: Any, target: Any, X: Floats) -> Floats:
    wanted = np.asarray(target(X), dtype=np.float64).reshape(len(X), -1)
    return np.abs(np.asarray(model.predict(X)).reshape(wanted.shape) - wanted)


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    broken = [row for row in results["rows"] if row["sup"] > row["bound"]]
    if broken:
        return (
            f"Not settled: the bound of rank (n − 1)d failed in {len(broken)} of {len(results['rows'])} measurements."
        )
    rows, finest = results["rows"], [each[-1] for each in _cases(results)]
    proved = sum(row["verdict"] == "proved" for row in rows)
    text = (
        f"Not with rank 1: with the most cells it is off by {low_to_high(column(finest, 'rank_1'), _two)} at two "
        "sequences that it confuses, and by proof no network with one attention layer of value rank 1 is better than "
        "1/4 in sorting or 1/2 on the bowl. At value rank (n − 1)d the largest errors seen with the most cells are "
        f"{low_to_high(column(finest, 'sup'), _two)}; a bound for all points is proved in {proved} of {len(rows)} "
        "cases."
    )
    idle = [row for row in rows if row["bound"] >= row["range"]]
    if idle:
        text += f" Against us: in {len(idle)} of these cases the bound is no smaller than the range of the values."
    return text


def _two(value: float) -> str:
    return amount(value, 2)


def _ends(results: Results) -> list[Results]:
    """For each function with its coordinates its fewest and its most cells."""
    return [row for rows in _cases(results) for row in rows[:1] + rows[1:][-1:]]


def _cases(results: Results) -> list[list[Results]]:
    """The rows of each function with its coordinates."""
    every = [(row["target"], row["dim"]) for row in results["rows"]]
    return [where(results["rows"], target=name, dim=dim) for name, dim in dict.fromkeys(every)]


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    made = []
    for rows in _cases(results):
        name, cells = rows[0]["target"], column(rows, "cells")
        traces = [
            line("rank 1, at a confused pair", cells, column(rows, "rank_1"), "orange"),
            line("no common answer avoids", cells, column(rows, "forced"), "grey", dash="dash", markers=False),
            line("rank 1, mean square", cells, column(rows, "rank_1_rms"), "blue"),
            line(f"rank {rows[0]['rank']}, largest", cells, column(rows, "sup"), "green"),
            line("its bound", cells, column(rows, "bound"), "green", dash="dot", markers=False),
        ]
        title = f"{name}, d = {rows[0]['dim']}, n = {rows[0]['length']}: error against cells"
        caption, titles = "Rank 1 is universal in the mean, not in the maximum.", ("cells per coordinate D", "error")
        made.append(figure(title, traces, titles, caption, log="xy", ticks_x=cells))
    return made


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    head = (
        "function: target; d: dim; n: length; cells; rank 1, confused: rank_1; forced; rank 1, rms: rank_1_rms; rank; "
        "largest: sup; bound; certificate: verdict"
    )
    brief = (
        "function: target; d: dim; cells; rank 1, at a confused pair: rank_1; no common answer below: forced; rank; "
        "largest error: sup; proved bound: bound"
    )
    return [
        table("Fewest and most cells", _ends(results), brief),
        table("Largest errors by rank", results["rows"], head),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    return (
        "The error of rank 1 is enclosed at one pair of sequences per network. The largest "
        f"error of rank (n − 1)d is that of {results['points']:,} points and the pairs; its bound is proved."
    )
