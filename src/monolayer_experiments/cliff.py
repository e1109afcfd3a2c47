"""Rank against approximation, one factor at a time: the largest error in sorting, for every value rank k.

Every token gets the sorted sequence of `n` numbers in [0, 1], so Theorem C (docs/uniform.md) asks for value rank
`n − 1`. Trained: one layer, one head, `W_Q` and `W_K` of one rank for all, float32; only the number `k` of value
directions differs. All ranks, rates and seeds train in one fleet (`fleet.py`). Two errors stand beside each other:

- *found*: the largest error of a trained model, by hill climbing from its worst points;
- *proved*: what no network of value rank `k` goes below, whatever its width and depth.

Proved for sorting: let `k + 1` of the others run over intervals of length `1/(k + 1)`, one above the other, the own
token be 0 and the rest 1: the answer holds the `k + 1` numbers, so the error is at least `1/(2(k + 1))`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.theory.targets import TARGETS
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.fleet import Fleet, best_of, sail
from monolayer_experiments.look import amount, column, distinct, figure, line, low_to_high, table, where

QUESTION = (
    "Does the largest error of trained models fall where the theorem says, with the value rank as the only change?"
)

SORT = TARGETS["sort"].function
QK_RANK = 6
"""Rank of `W_Q` and `W_K`, and the most value directions."""
CLEAR = 2.0
"""A fall by less than this is no answer: runs with other seeds differ by as much."""
PLAN = {
    "ranks": ({3: (1, 2, 3)}, {3: (1, 2, 3, 4), 4: (1, 2, 3, 4, 5)}),
    "rates": ((1e-2,), (3e-3, 1e-2, 3e-2)),
    "seeds": (1, 3),
    "width": (16, 64),
    "clock": (1.0, 20.0),
    "pool": (4_000, 1 << 18),
    "held_out": (1_000, 20_000),
    "batch": (128, 1024),
    "rounds": (10, 150),
    "climbers": (32, 256),
    "cells": (8, 32),
}
"""Quick and full. `ranks`: the value ranks for every length; `rounds`, `climbers`: of the search for large errors."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    rows = []
    for number, length in enumerate(plan["ranks"]):
        progress(f"sorting {length} numbers", number / len(plan["ranks"]))
        rows += _trained(plan, length, setting)
    return {
        **{key: plan[key] for key in ("width", "seeds", "clock", "climbers", "rounds", "cells")},
        "grid": [f"{rate:g}" for rate in plan["rates"]],
        "constructed": _constructed(plan, setting.seed),
        "rows": rows,
    }


def proved(length: int, k: int) -> float:
    """What Theorem C leaves of sorting `length` numbers with value rank `k`."""
    return 0.0 if k >= length - 1 else 1.0 / (2 * (k + 1))


def _constructed(plan: Results, seed: int) -> float:
    """The largest error found for the construction of rank 2 that sorts three numbers, by the same search."""
    model = ml.approximate(SORT, 1, 3, cells=plan["cells"], norm="sup")
    X = np.random.default_rng([seed, 8]).random((plan["held_out"], 3, 1))
    return float(_climb(lambda Z: model.predict(Z.reshape(-1, 3, 1)).reshape(1, -1, 3, 3), X, plan, seed)[0])


def _trained(plan: Results, length: int, setting: Setting) -> list[Results]:
    """For every rank the members, one per seed, whose rate is best on points of its own: the largest errors found."""
    ranks, seeds = plan["ranks"][length], plan["seeds"]
    members = [(k, seed, rate) for k in ranks for seed in range(seeds) for rate in plan["rates"]]
    values, _, rates = zip(*members, strict=True)
    random = np.random.default_rng([setting.seed, 8])
    sizes = plan["pool"], plan["held_out"] // 4, plan["held_out"]
    pool, chosen, fresh = (random.random((count, length, 1)) for count in sizes)
    shape = (1, QK_RANK, plan["width"], 1, length)
    fleet = Fleet(shape, len(members), setting.seed, setting.device, value_ranks=list(values))
    sail(fleet, pool, SORT(pool)[None], [0] * len(members), list(rates), plan["clock"], plan["batch"])
    tried = np.square(fleet.predict(chosen) - SORT(chosen)).mean(axis=(1, 2, 3))
    rms = np.sqrt(np.square(fleet.predict(fresh) - SORT(fresh)).mean(axis=(1, 2, 3)))
    found = _climb(fleet.predict, fresh, plan, setting.seed)
    best = best_of([(k, seed) for k, seed, _ in members], tried)
    # Each output has the standard deviation of an order statistic: half of that is far from chance.
    tuned = tried < SORT(chosen).var(axis=(0, 1)).mean() / 4
    rows = []
    for k in ranks:
        own = [best[k, seed] for seed in range(seeds)]
        row = {"length": length, "rank": k, "found": found[own].tolist(), "rms": rms[own].tolist()}
        row |= {"rates": [f"{rates[member]:g}" for member in own], "tuned": bool(tuned[own].all())}
        rows.append({**row, "proved": proved(length, k)})
    return rows


def _climb(predict: Any, X: Floats, plan: Results, seed: int) -> Floats:
    """The largest error of each member `(E,)`: from its worst points, random steps that shrink, kept if they climb."""
    random = np.random.default_rng([seed, 9])

    def errors(Z: Floats) -> Floats:
        wanted = SORT(Z.reshape(-1, *Z.shape[2:])).reshape(*Z.shape[:3], -1)
        found: Floats = np.abs(predict(Z) - wanted).max(axis=(2, 3))
        return found

    starts = np.abs(predict(X) - SORT(X)).max(axis=(2, 3))
    order = np.argsort(-starts, axis=1)[:, : plan["climbers"]]
    Z, best = X[order], np.take_along_axis(starts, order, axis=1)
    for turn in range(plan["rounds"]):
        size = 0.2 * (1e-4 / 0.2) ** (turn / max(1, plan["rounds"] - 1))
        moved = (Z + size * random.standard_normal(Z.shape)).clip(0.0, 1.0)
        found = errors(moved)
        better = found > best
        Z, best = np.where(better[..., None, None], moved, Z), np.maximum(found, best)
    largest: Floats = best.max(axis=1)
    return largest


def answer(results: Results) -> str:
    below = [row for row in results["rows"] if row["proved"] > 0]
    under = [row for row in below if min(row["found"]) < row["proved"]]
    lengths = distinct(results["rows"], "length")
    words = []
    for length in lengths:
        rows = where(results["rows"], length=length)
        parts = ", ".join(f"{amount(min(row['found']), 2)} at rank {row['rank']}" for row in rows)
        words.append(f"{length} numbers: {parts}")
    found = f"The largest error found in sorting, {_seeds(results)}. {'; '.join(words)}."
    if under:
        return (
            f"Not decided: in {len(under)} of {len(below)} cases below rank n − 1 the search did not reach the error "
            f"that is proved to be there. {found}"
        )
    clear = all(_fall(results, length) >= CLEAR for length in lengths)
    verdict = "Yes" if clear else "Not clearly in this run; longer training may tell"
    falls = "; ".join(_falls(results, length) for length in lengths)
    return f"{verdict}: {falls}. {found}"


def _seeds(results: Results) -> str:
    return f"the best of {results['seeds']} seeds" if results["seeds"] > 1 else "one seed"


def _fall(results: Results, length: int) -> float:
    """By how much rank n − 1 divides the largest error of rank n − 2."""
    rows = {row["rank"]: min(row["found"]) for row in where(results["rows"], length=length)}
    return float(rows[length - 2] / rows[length - 1])


def _falls(results: Results, length: int) -> str:
    fall = _fall(results, length)
    what = f"divides the largest error by {amount(fall, 2)}"
    if fall < 1.0:
        what = f"multiplies the largest error by {amount(1.0 / fall, 2)}"
    return f"for {length} numbers the step to rank n − 1 = {length - 1} {what}"


def figures(results: Results) -> list[Figure]:
    made = []
    for length in distinct(results["rows"], "length"):
        rows = where(results["rows"], length=length)
        low = [row for row in rows if row["proved"] > 0]
        ranks, below = column(rows, "rank"), column(low, "rank")
        traces = [
            line("trained, largest found", ranks, list(map(min, column(rows, "found"))), "orange"),
            line("trained, root mean square", ranks, list(map(min, column(rows, "rms"))), "blue"),
            line("proved for every network", below, column(low, "proved"), "grey", dash="dot"),
        ]
        caption = f"One layer, one head, {_seeds(results)}. From rank {length - 1} on nothing is proved to be left."
        title = f"Sorting {length} numbers: error against value rank"
        made.append(figure(title, traces, ("value rank k", "error"), caption, log="y", ticks_x=ranks))
    return made


def tables(results: Results) -> list[Table]:
    def rates(row: Results) -> str:
        return ", ".join(sorted(set(row["rates"]), key=float)) + ("" if row["tuned"] else ", untuned")

    head = "n: length; value rank: rank; trained, largest: found; trained, rms: rms; proved; rates kept: rates"
    ends = {key: lambda row, key=key: low_to_high(row[key]) for key in ("found", "rms")}
    return [table("Errors in sorting, by value rank", results["rows"], head, **ends, rates=rates)]


def limits(results: Results) -> str:
    return (
        f"The largest errors are those that {results['climbers']} climbers with {results['rounds']} steps found: lower "
        f"ends, not bounds. Training minimized the mean square for {results['clock']:g} s. One function, one width "
        f"({results['width']}). The construction at rank 2 has {amount(results['constructed'], 2)} for three numbers "
        "by the same search."
    )
