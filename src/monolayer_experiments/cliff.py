"""Rank against approximation, one factor at a time: the largest error in sorting, for every value rank k.

Every token gets the sorted sequence of `n` numbers in [0, 1], so Theorem C (docs/uniform.md) asks for value rank
`n − 1`. Trained: one layer, one head, `W_Q` and `W_K` of one rank for all, float32; only the number `k` of value
directions differs. All ranks, rates and seeds train in one fleet (`fleet.py`). Three errors stand beside each other:

- *found*: the largest error of a trained model, by hill climbing from its worst points;
- *power means*: the least that any readout has which sees its own token and the means of x, …, x^k: what is left of the
  construction `norm="sup"` when it keeps `k` of its values. That construction itself is built at k = n − 1 for n = 3;
- *proved*: what no network of value rank `k` goes below, whatever its width and depth.

Proved for sorting: let `k + 1` of the others run over intervals of length `1/(k + 1)`, one above the other, the own
token be 0 and the rest 1: the answer holds the `k + 1` numbers, so the error is at least `1/(2(k + 1))`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.theory.targets import TARGETS
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, GREY, ORANGE, amount, chart, line

QUESTION = (
    "Does the largest error of trained models fall where the theorem says, with the value rank as the only change?"
)

Results = dict[str, Any]

SORT = TARGETS["sort"].function
QK_RANK = 6
"""Rank of `W_Q` and `W_K`, and the most value directions."""


@dataclass(frozen=True)
class Plan:
    """Lengths with their value ranks; width, rates, seeds, seconds, points, batch; rounds of climbing and climbers."""

    ranks: dict[int, tuple[int, ...]]
    width: int
    rates: tuple[float, ...]
    seeds: int
    seconds: float
    pool: int
    held_out: int
    batch: int
    rounds: int
    climbers: int
    cells: int


QUICK = Plan({3: (1, 2, 3)}, 16, (1e-2,), 1, 1.0, 4_000, 1_000, 128, 10, 32, 8)
FULL = Plan({3: (1, 2, 3, 4), 4: (1, 2, 3, 4, 5)}, 64, (3e-3, 1e-2, 3e-2), 3, 20.0, 1 << 18, 20_000, 1024, 150, 256, 32)


def run(setting: Setting, progress: Progress) -> Results:
    plan = FULL if setting.full else QUICK
    rows = []
    for number, (length, ranks) in enumerate(plan.ranks.items()):
        progress(f"sorting {length} numbers", number / len(plan.ranks))
        trained = _trained(plan, length, ranks, setting)
        for k in ranks:
            own = [row for row in trained if row["rank"] == k]
            rows.append(
                {
                    "length": length,
                    "rank": k,
                    "found": [row["found"] for row in own],
                    "rms": [row["rms"] for row in own],
                    "rates": [row["rate"] for row in own],
                    "tuned": all(row["tuned"] for row in own),
                    "power_means": power_means(length, k),
                    "proved": proved(length, k),
                }
            )
    return {
        "width": plan.width,
        "seeds": plan.seeds,
        "clock": plan.seconds,
        "grid": [f"{rate:g}" for rate in plan.rates],
        "climbers": plan.climbers,
        "rounds": plan.rounds,
        "cells": plan.cells,
        "constructed": _constructed(plan, setting.seed),
        "rows": rows,
    }


def proved(length: int, k: int) -> float:
    """What Theorem C leaves of sorting `length` numbers with value rank `k`."""
    return 0.0 if k >= length - 1 else 1.0 / (2 * (k + 1))


def power_means(length: int, k: int) -> float | None:
    """Half the widest range of a sorted other token, given the means of x, …, x^k: exact for up to three others.

    One mean of two others: `y₂ ∈ [c/2, min(c, 1)]`, ¼ at `c = 1`. One mean of three: `y₃ ∈ [c/3, min(c, 1)]`, ⅓ at
    `c = 1`. Two means of three: with mean `μ` and spread `a` the others are `μ + a cos(θ + 2πj/3)`, the middle one runs
    over `a` while θ turns by π/3, and the domain holds the whole turn up to `a = ½`: ¼.
    """
    if k >= length - 1:
        return 0.0
    return {(3, 1): 1 / 4, (4, 1): 1 / 3, (4, 2): 1 / 4}.get((length, k))


def _constructed(plan: Plan, seed: int) -> float:
    """The largest error found for the construction of rank 2 that sorts three numbers, by the same search."""
    model = ml.approximate(SORT, 1, 3, cells=plan.cells, norm="sup")
    X = np.random.default_rng([seed, 8]).random((plan.held_out, 3, 1))
    return float(_climb(lambda Z: model.predict(Z.reshape(-1, 3, 1)).reshape(1, -1, 3, 3), X, plan, seed)[0])


def _trained(plan: Plan, length: int, ranks: tuple[int, ...], setting: Setting) -> list[Results]:
    """For every rank and seed the member whose rate is best on points of its own, and the largest error found."""
    from monolayer_experiments.fleet import Fleet, Shape, sail

    members = [(k, seed, rate) for k in ranks for seed in range(plan.seeds) for rate in plan.rates]
    random = np.random.default_rng([setting.seed, 8])
    pool, chosen, fresh = (
        random.random((count, length, 1)) for count in (plan.pool, plan.held_out // 4, plan.held_out)
    )
    fleet = Fleet(
        Shape(1, QK_RANK, plan.width, 1, length),
        len(members),
        setting.seed,
        setting.device,
        value_ranks=[k for k, _, _ in members],
    )
    sailed = sail(
        fleet, pool, SORT(pool)[None], [0] * len(members), [rate for *_, rate in members], plan.seconds, plan.batch
    )
    tried = np.square(sailed.predict(chosen) - SORT(chosen)).mean(axis=(1, 2, 3))
    rms = np.sqrt(np.square(sailed.predict(fresh) - SORT(fresh)).mean(axis=(1, 2, 3)))
    found = _climb(sailed.predict, fresh, plan, setting.seed)
    rows = []
    for k in ranks:
        for seed in range(plan.seeds):
            own = [e for e, (rank, each, _) in enumerate(members) if (rank, each) == (k, seed)]
            best = min(own, key=lambda e: tried[e])
            # Each output has the standard deviation of an order statistic: half of that is far from chance.
            tuned = bool(tried[best] < SORT(chosen).var(axis=(0, 1)).mean() / 4)
            row = {"rank": k, "rate": f"{members[best][2]:g}", "tuned": tuned}
            rows.append({**row, "rms": float(rms[best]), "found": float(found[best])})
    return rows


def _climb(predict: Any, X: Floats, plan: Plan, seed: int) -> Floats:
    """The largest error of each member `(E,)`: from its worst points, random steps that shrink, kept if they climb."""
    random = np.random.default_rng([seed, 9])

    def errors(Z: Floats) -> Floats:
        wanted = SORT(Z.reshape(-1, *Z.shape[2:])).reshape(*Z.shape[:3], -1)
        found: Floats = np.abs(predict(Z) - wanted).max(axis=(2, 3))
        return found

    starts = np.abs(predict(X) - SORT(X)).max(axis=(2, 3))
    order = np.argsort(-starts, axis=1)[:, : plan.climbers]
    Z, best = X[order], np.take_along_axis(starts, order, axis=1)
    for turn in range(plan.rounds):
        size = 0.2 * (1e-4 / 0.2) ** (turn / max(1, plan.rounds - 1))
        moved = (Z + size * random.standard_normal(Z.shape)).clip(0.0, 1.0)
        found = errors(moved)
        better = found > best
        Z, best = np.where(better[..., None, None], moved, Z), np.maximum(found, best)
    largest: Floats = best.max(axis=1)
    return largest


# -- what the numbers say ------------------------------------------------------------------------------


def _lengths(results: Results) -> list[int]:
    return list(dict.fromkeys(row["length"] for row in results["rows"]))


def _of(results: Results, length: int) -> list[Results]:
    return [row for row in results["rows"] if row["length"] == length]


CLEAR = 2.0
"""A fall by less than this is no answer: runs with other seeds differ by as much."""


def answer(results: Results) -> str:
    below = [row for row in results["rows"] if row["proved"] > 0]
    under = [row for row in below if min(row["found"]) < row["proved"]]
    words = []
    for length in _lengths(results):
        parts = ", ".join(f"{amount(min(row['found']), 2)} at rank {row['rank']}" for row in _of(results, length))
        words.append(f"{length} numbers: {parts}")
    found = f"The largest error found in sorting, the best of {results['seeds']} seeds. {'; '.join(words)}."
    if under:
        return (
            f"Not decided: in {len(under)} of {len(below)} cases below rank n − 1 the search did not reach the error "
            f"that is proved to be there. {found}"
        )
    clear = all(_fall(results, length) >= CLEAR for length in _lengths(results))
    verdict = "Yes" if clear else "Not in this run, which trained too little to tell (--full trains more)"
    falls = "; ".join(_falls(results, length) for length in _lengths(results))
    return f"{verdict}: {falls}. {found} Below rank n − 1 all are above what is proved of every network of that rank."


def _fall(results: Results, length: int) -> float:
    """By how much rank n − 1 divides the largest error of rank n − 2."""
    rows = {row["rank"]: min(row["found"]) for row in _of(results, length)}
    return float(rows[length - 2] / rows[length - 1])


def _falls(results: Results, length: int) -> str:
    fall = _fall(results, length)
    what = f"divides the largest error by {amount(fall, 2)}"
    if fall < 1.0:
        what = f"multiplies the largest error by {amount(1.0 / fall, 2)}"
    rms = ", ".join(amount(min(row["rms"]), 2) for row in _of(results, length))
    after = [min(row["found"]) for row in _of(results, length) if row["rank"] >= length - 1]
    low, high = amount(min(after), 2), amount(max(after), 2)
    return (
        f"for {length} numbers the step to rank n − 1 = {length - 1} {what}, and from there on it is between {low} and "
        f"{high} (root mean square by rank: {rms})"
    )


def figures(results: Results) -> list[Figure]:
    made = []
    for length in _lengths(results):
        rows = _of(results, length)
        ranks = [row["rank"] for row in rows]
        low = [row for row in rows if row["proved"] > 0]
        below = [row["rank"] for row in low]
        traces = [
            line("trained, largest found", ranks, [min(row["found"]) for row in rows], ORANGE),
            line("trained, root mean square", ranks, [min(row["rms"]) for row in rows], BLUE),
            line("any readout of power means", below, [row["power_means"] for row in low], GREEN, dash="dash"),
            line("proved for every network", below, [row["proved"] for row in low], GREY, dash="dot"),
        ]
        made.append(
            Figure(
                f"Sorting {length} numbers: error against value rank",
                chart(traces, "value rank k", "error", log_y=True, ticks_x=ranks),
                f"One layer, one head, the best of {results['seeds']} seeds. From rank {length - 1} on nothing is "
                "proved to be left.",
            )
        )
    return made


def tables(results: Results) -> list[Table]:
    def both(values: list[float]) -> str:
        low, high = amount(min(values)), amount(max(values))
        return low if low == high else f"{low} to {high}"

    rows = [
        [
            amount(row["length"]),
            amount(row["rank"]),
            both(row["found"]),
            both(row["rms"]),
            amount(row["power_means"]),
            amount(row["proved"]),
            ", ".join(sorted(set(row["rates"]), key=float)) + ("" if row["tuned"] else ", untuned"),
        ]
        for row in results["rows"]
    ]
    columns = ["n", "value rank", "trained, largest", "trained, rms", "power means", "proved", "rates kept"]
    return [Table("Errors in sorting, by value rank", columns, rows)]


def limits(results: Results) -> str:
    return (
        f"The largest errors of trained models are those that {results['climbers']} climbers with {results['rounds']} "
        "steps found: lower ends, not bounds. They minimized the mean square, not the largest error, for "
        f"{results['clock']:g} s, all ranks together; rates tried: {', '.join(results['grid'])}. One function, one "
        f"width ({results['width']}), W_Q and W_K of rank {QK_RANK}. The column of power means is about one "
        "construction; other values of the same rank may do better, down to what is proved. At rank n − 1 = 2 the "
        f"construction for three numbers, with {results['cells']} cells, has {amount(results['constructed'], 2)} by "
        "the same search; for four numbers none is built."
    )
