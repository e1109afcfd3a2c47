"""The error of the approximator falls in proportion to the cell, as the modulus of continuity predicts.

Targets are the library `monolayer.theory.targets`: permutation equivariant functions of tokens in [0, 1]^d with a
proved Lipschitz constant `L` in the sup norm, and one that jumps. With `D` cells per coordinate no token is further
than `1/(2D)` from its centre, so the largest error off the ramps is at most `L/(2D)`: slope −1 in a log-log figure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.table import Progress
from monolayer.theory.targets import TARGETS
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import PALETTE, column, distinct, figure, line, table, where
from monolayer_experiments.runs import timed

QUESTION = "Does the error of the approximator fall as predicted, for functions of growing complexity?"

LENGTH = 3
PLAN = {"cells": ((2, 4, 8, 16), (2, 4, 8, 16, 32)), "points": (4_000, 20_000)}
RAMP_SHARE = 2.0**-18
"""Points this close to an edge, as a share of a cell, may lie on a ramp of the quantizer, and are left out."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure the error of approximators of every equivariant target, for each number of cells.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    cells, points = plan["cells"], plan["points"]
    names = [name for name, target in TARGETS.items() if target.equivariant]
    rows = []
    for done, name in enumerate(names):
        target = TARGETS[name]
        for D in cells:
            progress(f"{name}, {D} cells", (done + cells.index(D) / len(cells)) / len(names))
            rows.append({"target": name, "does": target.does, **_measure(name, D, points, setting)})
    return {"length": LENGTH, "points": points, "rows": rows}


def _measure(name: str, cells: int, points: int, setting: Setting) -> Results:
    """The approximator of a target with so many cells: errors on fresh uniform points, sizes and time."""
    target = TARGETS[name]
    constant = target.lipschitz(1, LENGTH, 0.0, 1.0)
    options: Results = {"cells": cells, "seed": setting.seed, "device": setting.device}
    model: Any
    model, seconds = timed(ml.approximate, target.function, 1, LENGTH, **options)
    X = off_ramps(np.random.default_rng([setting.seed, 5]).random((points, LENGTH, 1)), cells)
    wanted = np.asarray(target(X), dtype=np.float64).reshape(len(X), -1)
    answers = np.asarray(model.predict(X)).reshape(wanted.shape)
    error = np.abs(answers - wanted)
    assert model.summary is not None
    return {
        "cells": cells,
        "sup": float(error.max()),
        "rms": float(np.sqrt((error**2).mean())),
        "range": float(np.ptp(wanted)),
        "bound": None if constant is None else constant / (2 * cells),
        "knots": model.summary.labelled,
        "parameters": model.summary.parameters,
        "seconds": seconds,
    }


def off_ramps(X: Floats, cells: int) -> Floats:
    """The points that lie on no ramp of the quantizer."""
    place = X * cells
    return X[(np.abs(place - np.round(place)) >= RAMP_SHARE).all(axis=(1, 2))]


def _slope(rows: list[Results], field: str) -> float:
    """Slope of log error against log cells, over all but the coarsest grid."""
    fine = rows[1:]
    return float(np.polyfit(np.log([row["cells"] for row in fine]), np.log([row[field] for row in fine]), 1)[0])


def _words(slope: float) -> str:
    return f"{slope:.2f}".replace("-", "−")


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    bounded = [row for row in results["rows"] if row["bound"] is not None]
    kept = sum(row["sup"] <= row["bound"] for row in bounded)
    smooth = distinct(bounded, "target")
    slopes = [_slope(where(bounded, target=name), "sup") for name in smooth]
    jumps = ""
    for name in distinct(where(results["rows"], bound=None), "target"):
        rows = where(results["rows"], target=name)
        jumps += (
            f" The target {name}, which jumps, has slope {_words(_slope(rows, 'sup'))}: only its mean error falls, "
            f"with slope {_words(_slope(rows, 'rms'))}."
        )
    return (
        f"Yes: over {len(smooth)} continuous targets the largest error falls with slopes from {_words(max(slopes))} "
        f"to {_words(min(slopes))} where −1 is predicted, and stays below the proved bound L/(2D) in {kept} of "
        f"{len(bounded)} measurements.{jumps}"
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    errors = []
    for name, colour in zip(distinct(results["rows"], "target"), PALETTE, strict=False):
        rows = where(results["rows"], target=name)
        errors.append(line(name, column(rows, "cells"), [row["sup"] / row["range"] for row in rows], colour))
    cells = distinct(results["rows"], "cells")
    errors.append(line("slope −1", cells, [1 / D for D in cells], "grey", dash="dot", markers=False))
    caption = (
        f"{results['length']} tokens of one coordinate, {results['points']:,} fresh uniform points, ramps left out."
    )
    titles = "cells per coordinate D", "error / range of the target"
    return [figure("Largest error against cells", errors, titles, caption, log="xy", ticks_x=cells)]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    slopes = []
    for name in distinct(results["rows"], "target"):
        rows = where(results["rows"], target=name)
        words = {f"slope {error}": _words(_slope(rows, error)) for error in ("sup", "rms")}
        slopes.append({**rows[-1], **words, "name": f"{name}: {rows[-1]['does']}"})
    head = (
        "target: name; slope: slope sup; slope, rms: slope rms; error: sup; bound; rms; stored points: knots; seconds"
    )
    return [table(f"Slopes, and the finest grid, D = {results['rows'][-1]['cells']}", slopes, head)]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    return (
        "Errors are the largest on random points; the bound is proved. Points within 2^-18 of a cell from its edge, "
        "where ramps lie, are left out."
    )
