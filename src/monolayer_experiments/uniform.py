"""Rank decides in the maximum norm: below (n − 1)d more cells do not help, at (n − 1)d the largest error falls.

Theorem C (docs/uniform.md): with value rank `k < min(m, (n − 1)d)` some function with `m` outputs a token keeps a fixed
largest error, whatever the network. Measured on functions with at least two outputs, for `D` cells a coordinate:

- rank 1, the quantizer and one head: the error at two sequences that this very network confuses, enclosed in balls from
  its saved weights (`ml.confuse`), what no common answer avoids there, and the root mean square error off the ramps;
- rank (n − 1)d, no quantizer (`norm="sup"`): the largest error on random points, on points with equal and nearly equal
  tokens, and on the pairs that confuse rank 1, beside the proved bound; and what `ml.certify` says of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import monolayer as ml
from monolayer.theory.targets import TARGETS
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, GREY, ORANGE, amount, chart, line

QUESTION = "Is one rank-1 head enough for a small error everywhere, not only in the mean?"

CASES = (("sort", 1, 3, (4, 8, 16, 32, 64)), ("force", 2, 2, (4, 8, 16, 32)), ("softmax-pooling", 2, 2, (4, 8, 16, 32)))
"""Functions with their coordinates, tokens and cells; all have at least two outputs a token."""
QUICK_CELLS = 16
POINTS = 20_000


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    rows = []
    for done, (name, dim, length, cells) in enumerate(CASES):
        for D in cells:
            if D > QUICK_CELLS and not setting.full:
                continue
            progress(f"{name}, {D} cells", (done + cells.index(D) / len(cells)) / len(CASES))
            rows.append(
                {"target": name, "dim": dim, "length": length, "cells": D} | _measure(name, dim, length, D, setting)
            )
    return {"points": POINTS, "rows": rows}


def _measure(name: str, dim: int, length: int, cells: int, setting: Setting) -> dict[str, Any]:
    target = TARGETS[name]
    constant = target.lipschitz(dim, length, 0.0, 1.0)
    assert constant is not None  # continuous functions only
    low = ml.approximate(target.function, dim, length, cells=cells, seed=setting.seed)
    pair = ml.confuse(low, target.function, lipschitz=constant)
    high = ml.approximate(target.function, dim, length, cells=cells, norm="sup", lipschitz=constant)
    X = _points(dim, length, setting.seed)
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


def _points(dim: int, length: int, seed: int) -> NDArray[np.float64]:
    """Uniform points; some with two equal tokens, some with two nearly equal, some on the knots of coarse grids."""
    random = np.random.default_rng([seed, 6])
    X = random.random((POINTS, length, dim))
    part = POINTS // 5
    X[:part, 0] = X[:part, 1]
    X[part : 2 * part, 0] = X[part : 2 * part, 1] + 1e-4 * random.random((part, dim))
    X[2 * part : 3 * part] = np.round(8 * X[2 * part : 3 * part]) / 8
    return X.clip(0.0, 1.0)


def _errors(model: Any, target: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    wanted = np.asarray(target(X), dtype=np.float64).reshape(len(X), -1)
    return np.abs(np.asarray(model.predict(X)).reshape(wanted.shape) - wanted)


# -- what the numbers say ------------------------------------------------------------------------------


def _of(results: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if row["target"] == name]


def _names(results: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["target"] for row in results["rows"]))


def answer(results: dict[str, Any]) -> str:
    broken = [row for row in results["rows"] if row["sup"] > row["bound"]]
    if broken:
        return (
            f"Not settled: the bound of rank (n − 1)d failed in {len(broken)} of {len(results['rows'])} measurements."
        )
    sort = _of(results, "sort")
    rest = [(name, _of(results, name)) for name in _names(results) if name != "sort"]
    falls = "; ".join(
        f"for {name} (d = {rows[0]['dim']}, n = {rows[0]['length']}) from {amount(rows[0]['sup'], 2)} to "
        f"{amount(rows[-1]['sup'], 2)}, where rank 1 has {amount(rows[-1]['rank_1'], 2)} at a pair that it confuses"
        for name, rows in rest
    )
    return (
        f"Not with rank 1. Sorting three numbers, one rank-1 head with a quantizer of {sort[-1]['cells']} cells is off"
        f" by {amount(sort[-1]['rank_1'], 3)} at two sequences that it confuses, with {sort[0]['cells']} cells by "
        f"{amount(sort[0]['rank_1'], 3)}; no network with one attention layer of value rank 1 does better than 1/4, by "
        f"proof. At value rank (n − 1)d = {sort[-1]['rank']}, without a quantizer, the largest error seen is "
        f"{amount(sort[-1]['sup'], 2)}. It falls with the cells {falls}. Certificates, for all points of the domain: "
        f"{sum(row['verdict'] == 'proved' for row in results['rows'])} of {len(results['rows'])} proved."
    )


def figures(results: dict[str, Any]) -> list[Figure]:
    made = []
    for name in _names(results):
        rows = _of(results, name)
        cells = [row["cells"] for row in rows]

        def column(key: str, rows: list[dict[str, Any]] = rows) -> list[float]:
            return [row[key] for row in rows]

        traces = [
            line("rank 1, at a confused pair", cells, column("rank_1"), ORANGE),
            line("no common answer avoids", cells, column("forced"), GREY, dash="dash", markers=False),
            line("rank 1, mean square", cells, column("rank_1_rms"), BLUE),
            line(f"rank {rows[0]['rank']}, largest", cells, column("sup"), GREEN),
            line("its bound", cells, column("bound"), GREEN, dash="dot", markers=False),
        ]
        made.append(
            Figure(
                f"{name}, d = {rows[0]['dim']}, n = {rows[0]['length']}: error against cells",
                chart(traces, "cells a coordinate D", "error", log_x=True, log_y=True, ticks_x=cells),
                "Rank 1 is universal in the mean, not in the maximum.",
            )
        )
    return made


def tables(results: dict[str, Any]) -> list[Table]:
    columns = [
        "function",
        "d, n",
        "cells",
        "rank 1, confused",
        "forced",
        "rank 1, rms",
        "rank",
        "largest",
        "bound",
        "certificate",
    ]
    rows = [
        [
            row["target"],
            f"{row['dim']}, {row['length']}",
            amount(row["cells"]),
            *(amount(row[key]) for key in ("rank_1", "forced", "rank_1_rms", "rank", "sup", "bound")),
            row["verdict"],
        ]
        for row in results["rows"]
    ]
    return [Table("Largest errors by rank", columns, rows)]


def limits(results: dict[str, Any]) -> str:
    return (
        "The error of rank 1 is enclosed at one pair of sequences a network; elsewhere it may be larger. The quarter "
        "for sorting is proved for all networks of rank 1, the other functions are only measured. The largest error "
        f"of rank (n − 1)d is that of {results['points']:,} points and the pairs; its bound is proved over the reals, "
        "and `ml.certify` adds what rounding may. Up to three tokens of one coordinate and two of two: the knots grow "
        "like D^(dn). Whether rank (n − 1)d is enough for three coordinates and more is not settled here."
    )
