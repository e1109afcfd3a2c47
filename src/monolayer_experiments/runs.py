"""What is kept of a training run, and how its curve and its search for a learning rate are shown.

A row of a run has `labels`, how many there were, and `chance`, the share that guessing gets: they tell whether the
kept rate was better than others or only luckier (`chance.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from monolayer_experiments.chance import decided
from monolayer_experiments.experiment import Results, Table
from monolayer_experiments.look import table

if TYPE_CHECKING:
    from monolayer_experiments.trainer import Trained

DEVICES = "On a GPU training ran in bfloat16 (rank 1: TF32): a shortfall may be one of precision."
"""A sentence that every comparison with training must contain."""
Made = TypeVar("Made")


def timed(make: Callable[..., Made], *given: Any, **options: Any) -> tuple[Made, float]:
    """The result of `make(*given, **options)`, and the seconds that it took."""
    began = time.perf_counter()
    made = make(*given, **options)
    return made, time.perf_counter() - began


def budget(plan: Results) -> str:
    """What a training may use, in words."""
    return f"{plan['budget']:,} steps"


def described(trained: Trained, *, curve: bool = False) -> Results:
    """What is kept of a trained model; its curve thinned to 16 points."""
    picked = trained.curve[:: -(-len(trained.curve) // 15)]
    return {
        "accuracy": trained.accuracy,
        "steps": trained.steps,
        "seconds": round(trained.seconds, 3),
        "alone": round(trained.alone, 3),
        "parameters": trained.parameters,
        "rate": trained.rate,
        "grid": {rate: round(value, 4) for rate, value in trained.grid.items()},
        "curve": [[round(at, 3), round(value, 4)] for at, value in (*picked, trained.curve[-1])] if curve else None,
    }


def searches(rows: list[Results], *columns: str) -> Table:
    """The search for a learning rate: labels right at the end of every rate's trial; — where none was needed."""
    rates = sorted({rate for row in rows for rate in row["grid"]}, key=float)
    head = "; ".join([*columns, *(f"{rate} %" for rate in rates), "kept"])
    return table("Search for the learning rate", [{**row, **row["grid"]} for row in rows], head, kept=_kept)


def _kept(row: Results) -> str:
    return f"{row['rate']:g}" if _clear(row) else f"{row['rate']:g}, not decided"


def _clear(row: Results) -> bool:
    return decided(row["grid"], row["labels"], row["chance"])


def edge(rows: list[Results]) -> str:
    """In how many runs the largest learning rate was kept: no larger one was tried."""
    largest = max(float(rate) for row in rows for rate in row["grid"])
    clear = [row for row in rows if _clear(row)]
    kept = sum(row["rate"] == largest for row in clear)
    open_ = f"; {len(rows) - len(clear)} left the rate open" if len(rows) > len(clear) else ""
    return f"The largest rate tried, {largest:g}, was best in {kept} of {len(rows)} runs{open_}."
