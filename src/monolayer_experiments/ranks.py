"""Ranks of scores and of values, separately and together, for memorizing and for a function, built and trained.

*Memorizing*: random labels of sequences without repeats. Trained networks (`ranked.py`) differ in the ranks alone; each
takes all steps at every learning rate, and its best rate counts. What counts is the most labels at which every label
comes back, over sizes that double. The construction has scores of rank 1; its value rank is what `ml.memorize(rank=k)`
may use at most, in float32, where rank 1 ends early.

*A function*: every one of four tokens in [0, 1] gets the sorted sequence. Below value rank 3 = (n − 1)d the largest
error is at least 1/(2(k + 1)), whatever the scores (docs/uniform.md). Constructions at nearly the same number of knots:
rank 1 with a quantizer, and three heads of rank 1 without one. Errors are root mean square on fresh points, and the
largest on these and on points of the proof: own token 0, `k + 1` others one in each of `k + 1` equal intervals, the
rest 1; for the construction of rank 1, at two sequences that it confuses.
"""

from __future__ import annotations

from monolayer.table import Progress
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, low_to_high, scatter, share, table, where
from monolayer_experiments.rank_runs import (
    KINDS,
    TOKENS,
    build_functions,
    build_memories,
    train_functions,
    train_memories,
)
from monolayer_experiments.runs import budget

QUESTION = "What do ranks of scores and of values buy, separately and together, built and trained?"

PLAN = {
    "ranks": ((1, 4), (1, 2, 4, 8)),
    "width": (8, 16),
    "rates": ((1e-2,), (1e-2, 3e-2)),
    "budget": (40, 1_000),
    "length": (4, 6),
    "vocabulary": (24, 64),
    "classes": (8, 16),
    "sizes": ((4, 8), (16, 32, 64, 128, 192)),
    "batch": (8, 32),
    "most_built": (1 << 8, 1 << 15),
    "seeds": (1, 1),
    "points": (500, 20_000),
    "cells": ((4, 3), (18, 11)),
}
"""Quick and full. `cells`: of the two constructions of the function; `seeds`: of its training."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure what ranks buy in memorizing and in a function, by construction and by training.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """

    def part(low: float, high: float) -> Progress:
        return lambda stage, done: progress(stage, low + (high - low) * done)

    return {
        **{key: plan[key] for key in ("width", "budget", "length", "vocabulary", "classes", "seeds", "points")},
        "ranks": list(plan["ranks"]),
        "sizes": [size * plan["length"] for size in plan["sizes"]],
        "most_built": plan["most_built"] * plan["length"],
        "rates": [f"{rate:g}" for rate in plan["rates"]],
        "built": build_memories(plan, setting, part(0.0, 0.05)),
        "trained": train_memories(plan, setting, part(0.05, 0.6)),
        "functions": [
            *build_functions(plan, setting, part(0.6, 0.65)),
            *train_functions(plan, setting, part(0.65, 1.0)),
        ],
    }


def least_error(rank: int) -> float:
    """No network of value rank `rank` sorts four numbers with a smaller largest error, by proof; 0: none is known."""
    return 1.0 / (2.0 * (rank + 1)) if rank < TOKENS - 1 else 0.0


def capacity(results: Results, kind: str, rank: int) -> int:
    """The most labels at which a trained network returned every label; the full network belongs to every kind."""
    rows = where(results["trained"], kind="both" if rank == results["width"] else kind, rank=rank)
    return max((row["labels"] for row in rows if row["right"] == 1.0), default=0)


def _every_rank(results: Results) -> list[int]:
    return [*results["ranks"], results["width"]]


def _capacities(results: Results, kind: str) -> list[int]:
    return [capacity(results, kind, rank) for rank in _every_rank(results)]


def _errors(results: Results, kind: str, key: str, rank: int) -> list[float]:
    """What the seeds of a trained network have under a key."""
    kind = "both" if rank == results["width"] else kind
    errors: list[float] = where(results["functions"], made="trained", kind=kind, rank=rank)[0][key]
    return errors


def at_most_labels(results: Results, kind: str, rank: int) -> float:
    """The share of labels that a trained network returns at the largest size."""
    kind = "both" if rank == results["width"] else kind
    rows = where(results["trained"], kind=kind, rank=rank, labels=results["sizes"][-1])
    return float(rows[0]["right"])


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    low, high, full = results["ranks"][0], results["ranks"][-1], results["width"]
    built = {row["rank"]: row for row in results["built"]}
    one, three = (where(results["functions"], made="constructed", rank=k)[0]["largest"][0] for k in (1, TOKENS - 1))
    text = (
        f"Constructed with scores of rank 1, {_held(built[low])} labels come back in float32 at value rank {low} and "
        f"{_held(built[high])} at value rank {high}; trained for {budget(results)} at width {full}, of "
        f"{results['sizes'][-1]:,} labels {share(at_most_labels(results, 'values', low))} come back at value rank "
        f"{low} and {share(at_most_labels(results, 'values', full))} at full ranks. Sorting four numbers, the "
        f"construction of value rank 1 has a largest error of {_two(one)}, where no network has less than "
        f"{_two(least_error(1))}, and that of rank 3 {_two(three)}."
    )
    trained = _errors(results, "values", "largest", 1) if low == 1 else [one]
    if min(trained) < one:
        text += f" Against us: at value rank 1 training has a smaller one, {low_to_high(trained, _two)} on samples."
    return text


def _two(value: float) -> str:
    return amount(value, 2)


def _held(row: Results) -> str:
    return f"{row['labels']:,}{'' if row['seen'] else ' or more'}"


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    ranks, full = _every_rank(results), results["width"]
    named = {"values": "trained, values of rank k", "scores": "trained, scores of rank k", "both": "trained, both"}
    curves = [
        line(named[kind], ranks, [most or None for most in _capacities(results, kind)], KINDS[kind]) for kind in KINDS
    ]
    built = [row["labels"] for row in results["built"]]
    curves.append(line("constructed in float32, values of rank k", results["ranks"], built, "grey"))
    wrong = [
        line(named[kind], ranks, [min(_errors(results, kind, "largest", k)) for k in ranks], KINDS[kind])
        for kind in KINDS
    ]
    constructed = where(results["functions"], made="constructed")
    # An error near rounding would stretch the axis over ten powers of ten.
    shown = [max(row["largest"][0], 1e-3) for row in constructed]
    wrong.append(scatter("constructed", column(constructed, "rank"), shown, "grey"))
    bounds = list(range(1, TOKENS - 1))
    wrong.append(line("least at value rank k, by proof", bounds, [least_error(k) for k in bounds], "red", dash="dot"))
    largest = results["sizes"][-1]
    returned = [
        line(named[kind], ranks, [at_most_labels(results, kind, k) for k in ranks], KINDS[kind]) for kind in KINDS
    ]
    return [
        figure(
            f"Share of {largest:,} labels that come back after training, against the rank",
            returned,
            ("rank k", "labels that come back"),
            f"The other ranks are full ({full}). {budget(results)}, the best of {len(results['rates'])} rates.",
            log="x",
            ticks_x=ranks,
            range_y=(0.0, 1.05),
        ),
        figure(
            "Most labels that all come back, against the rank",
            curves,
            ("rank k", "labels"),
            f"The other ranks are full ({full}). Trained: {budget(results)}, the best of {len(results['rates'])} "
            f"learning rates. Sizes: {', '.join(f'{size:,}' for size in results['sizes'])} labels; the construction's "
            f"double, up to {results['most_built']:,}.",
            log="xy",
            ticks_x=ranks,
        ),
        figure(
            "Largest error in sorting four numbers, against the rank",
            wrong,
            ("rank k", "largest error"),
            "Trained: the best seed; the proof is about the rank of values. Constructed: rank 1, and three heads of "
            "rank 1; errors below 10^-3 are drawn there.",
            log="xy",
            ticks_x=ranks,
        ),
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    sizes = "; ".join(f"{size:,}: {size} %" for size in results["sizes"])
    memories, rates = [], []
    for kind, rank in dict.fromkeys((row["kind"], row["rank"]) for row in results["trained"]):
        rows = where(results["trained"], kind=kind, rank=rank)
        words = {"varied": kind if rank < results["width"] else "all full", "rank": rank}
        memories.append({**words, **{str(row["labels"]): row["right"] for row in rows}})
        for row in rows:
            tuned = "" if row["tuned"] else ", no better than chance"
            kept = max(row["grid"], key=row["grid"].get) + tuned
            rates.append({**words, "labels": row["labels"], **row["grid"], "kept": kept})
    errors = [
        {**row, "varied": row["kind"] if row["rank"] < results["width"] else "all full"}
        | {"least": least_error(row["rank"]) if row["kind"] != "scores" else None}
        | {"rates": ", ".join(sorted(set(row.get("rate", ["—"])))) + ("" if row.get("tuned", True) else ", untuned")}
        for row in results["functions"]
    ]
    every = "; ".join(f"{rate}: {rate} %" for rate in results["rates"])
    return [
        table("Labels that come back, trained", memories, f"varied; rank; {sizes}"),
        table(
            "Most labels that come back, constructed in float32",
            results["built"],
            "value rank: rank; labels",
            labels=_held,
        ),
        table(
            "Errors in sorting four numbers",
            errors,
            "made; varied; rank; rms; largest; least, by proof: least; knots; rates kept: rates",
            rms=lambda row: low_to_high(row["rms"], _two),
            largest=lambda row: low_to_high(row["largest"], _two),
        ),
        table("Every learning rate: labels that come back", rates, f"varied; rank; labels; {every}; kept"),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    largest, kept = results["rates"][-1], [max(row["grid"], key=row["grid"].get) for row in results["trained"]]
    kept += [rate for row in where(results["functions"], made="trained") for rate in row["rate"]]
    untuned = [row for row in [*results["trained"], *where(results["functions"], made="trained")] if not row["tuned"]]
    remark = f"; {len(untuned)} stayed at chance at every rate" if untuned else "; every network got beyond chance"
    return (
        f"One width ({results['width']}), one head, random labels of {results['length']} tokens out of "
        f"{results['vocabulary']}, one draw of data and weights for memorizing, {results['seeds']} of weights for "
        f"sorting, {budget(results)} at each of {', '.join(results['rates'])}{remark}. The largest rate was kept "
        f"in {kept.count(largest)} of {len(kept)} runs. Sizes are steps apart, so a capacity is known up to one step. "
        "The construction has as many parameters as its labels need, the trained "
        "networks have one size. Sorting is linear between the knots of the second construction, which favours it; a "
        "largest error of a trained network is the largest that was seen."
    )
