"""The error of the approximator falls in proportion to the cell, as the modulus of continuity predicts.

Targets are the library `monolayer.theory.targets`: permutation equivariant functions of tokens in [0, 1]^d with a
proved Lipschitz constant `L` in the sup norm, and one that jumps. With `D` cells a coordinate no token is further than
`1/(2D)` from its centre, so the largest error off the ramps is at most `L/(2D)`: slope −1 in a log-log figure.
A second sweep takes one target to more tokens and more coordinates, where the knots grow like `D^{dn}`. The control is
the mean, λ = 0, in place of softmax: keys of cells are sums over coordinates, so from two coordinates and three tokens
on it cannot tell all cells apart.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import monolayer as ml
from monolayer.theory.targets import TARGETS
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import PALETTE, amount, chart, heat, line

QUESTION = "Does the error of the approximator fall as predicted, for functions of growing complexity?"

LENGTH = 3
SHAPES = ((1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (3, 2))
"""Coordinates and tokens of the second sweep."""
MAPPED, MAP_CELLS, MAP_SIDE = "softmax-pooling", 16, 48
"""The target that is drawn over two scalar tokens, its cells, and the points a side: three a cell, none on a ramp."""
RAMP = 2.0**-18
"""Points this close to an edge, as a share of a cell, may lie on a ramp of the quantizer, and are left out."""


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    cells = (2, 4, 8, 16, 32) if setting.full else (2, 4, 8, 16)
    points = 20_000 if setting.full else 4_000
    names = [name for name, target in TARGETS.items() if target.equivariant]
    rows = []
    for done, name in enumerate(names):
        target = TARGETS[name]
        for D in cells:
            progress(f"{name}, {D} cells", 0.8 * (done + cells.index(D) / len(cells)) / len(names))
            rows.append({"target": name, "does": target.does, **_measure(name, 1, LENGTH, D, points, setting)})
    reach = []
    for done, (dim, length) in enumerate(SHAPES):
        for D in (2, 3, 4, 6, 8) if setting.full else (2, 3, 4):
            progress(f"{length} tokens of dimension {dim}", 0.8 + 0.2 * done / len(SHAPES))
            reach.append(_measure("nearest", dim, length, D, points // 4, setting))
    means = [_averaged(dim, length, setting) for dim, length in SHAPES]
    return {"length": LENGTH, "points": points, "rows": rows, "reach": reach, "map": _map(setting), "means": means}


def _averaged(dim: int, length: int, setting: Setting) -> dict[str, Any]:
    """The margin with softmax, and with the mean, on three cells a coordinate; None where the constructor refuses."""
    row: dict[str, Any] = {"dim": dim, "length": length, "cells": 3}
    for name, lam in (("softmax", None), ("mean", 0.0)):
        try:
            model = ml.approximate(
                TARGETS["nearest"].function, dim, length, cells=3, temperature=lam, seed=setting.seed
            )
        except ml.PrecisionError:
            row[name] = None
        else:
            assert model.summary is not None  # a model that was just built has one
            row[name] = model.summary.margin
    return row


def _map(setting: Setting) -> dict[str, Any]:
    """A target and its approximation at the first of two scalar tokens, over both."""
    target = TARGETS[MAPPED]
    model = ml.approximate(target.function, 1, 2, cells=MAP_CELLS, seed=setting.seed, device=setting.device)
    axis = (np.arange(MAP_SIDE) + 0.5) / MAP_SIDE
    X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2, 1)
    maps = (np.asarray(values).reshape(len(X), 2, -1)[:, 0, 0] for values in (target(X), model.predict(X)))
    wanted, found = (values.reshape(MAP_SIDE, MAP_SIDE).round(6).tolist() for values in maps)
    constant = target.lipschitz(1, 2, 0.0, 1.0)
    bound = None if constant is None else constant / (2 * MAP_CELLS)
    return {
        "target": MAPPED,
        "cells": MAP_CELLS,
        "bound": bound,
        "axis": axis.tolist(),
        "wanted": wanted,
        "found": found,
    }


def _measure(name: str, dim: int, length: int, cells: int, points: int, setting: Setting) -> dict[str, Any]:
    """The approximator of a target with so many cells: errors on fresh uniform points, sizes and time."""
    target = TARGETS[name]
    constant = target.lipschitz(dim, length, 0.0, 1.0)
    began = time.perf_counter()
    model = ml.approximate(target.function, dim, length, cells=cells, seed=setting.seed, device=setting.device)
    seconds = time.perf_counter() - began
    X = _off_ramps(np.random.default_rng([setting.seed, 5]).random((points, length, dim)), cells)
    wanted = np.asarray(target(X), dtype=np.float64).reshape(len(X), -1)
    found = np.asarray(model.predict(X)).reshape(wanted.shape)
    error = np.abs(found - wanted)
    assert model.summary is not None
    return {
        "dim": dim,
        "length": length,
        "cells": cells,
        "sup": float(error.max()),
        "rms": float(np.sqrt((error**2).mean())),
        "range": float(np.ptp(wanted)),
        "bound": None if constant is None else constant / (2 * cells),
        "knots": model.summary.labelled,
        "parameters": model.summary.parameters,
        "seconds": seconds,
    }


def _off_ramps(X: NDArray[np.float64], cells: int) -> NDArray[np.float64]:
    place = X * cells
    near = np.abs(place - np.round(place)) < RAMP
    return X[~near.any(axis=(1, 2))]


# -- what the numbers say ------------------------------------------------------------------------------


def _of(results: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if row["target"] == name]


def _slope(rows: list[dict[str, Any]], field: str) -> float:
    """Slope of log error against log cells, over all but the coarsest grid."""
    fine = rows[1:]
    return float(np.polyfit(np.log([row["cells"] for row in fine]), np.log([row[field] for row in fine]), 1)[0])


def _words(slope: float) -> str:
    return f"{slope:.2f}".replace("-", "−")


def _names(results: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["target"] for row in results["rows"]))


def answer(results: dict[str, Any]) -> str:
    bounded = [row for row in results["rows"] if row["bound"] is not None]
    kept = sum(row["sup"] <= row["bound"] for row in bounded)
    smooth = [name for name in _names(results) if _of(results, name)[0]["bound"] is not None]
    slopes = [_slope(_of(results, name), "sup") for name in smooth]
    rough = [name for name in _names(results) if name not in smooth]
    jumps = "".join(
        f" The target {name}, which jumps, has slope {_words(_slope(_of(results, name), 'sup'))}: only its mean error "
        f"falls, with slope {_words(_slope(_of(results, name), 'rms'))}."
        for name in rough
    )
    return (
        f"Yes: over {len(smooth)} continuous targets the largest error falls with slopes from {_words(max(slopes))} "
        f"to {_words(min(slopes))} where −1 is predicted, and stays below the proved bound L/(2D) in {kept} of "
        f"{len(bounded)} measurements.{jumps} {_needs_softmax(results['means'])}"
    )


def _needs_softmax(means: list[dict[str, Any]]) -> str:
    def shapes(rows: list[dict[str, Any]]) -> str:
        return ", ".join(f"({row['dim']}, {row['length']})" for row in rows) or "none"

    held = [row for row in means if row["mean"] is not None]
    lost = [row for row in means if row["mean"] is None and row["softmax"] is not None]
    words = "The mean in place of softmax (λ = 0) tells the cells apart for (d, n) ="
    return f"{words} {shapes(held)}, not for {shapes(lost)}."


def figures(results: dict[str, Any]) -> list[Figure]:
    def traces(field: str) -> list[dict[str, Any]]:
        made = []
        for name, colour in zip(_names(results), PALETTE, strict=False):
            rows = _of(results, name)
            made.append(line(name, [row["cells"] for row in rows], [row[field] / row["range"] for row in rows], colour))
        return made

    cells = [row["cells"] for row in _of(results, _names(results)[0])]
    guide = line("slope −1", cells, [1 / D for D in cells], PALETTE[5], dash="dot", markers=False)
    knots = []
    for (dim, length), colour in zip(SHAPES, PALETTE, strict=False):
        rows = [row for row in results["reach"] if (row["dim"], row["length"]) == (dim, length)]
        knots.append(
            line(f"d = {dim}, n = {length}", [row["cells"] for row in rows], [row["knots"] for row in rows], colour)
        )

    def against_cells(traces: list[dict[str, Any]], y: str, ticks: list[int]) -> dict[str, Any]:
        return chart(traces, "cells a coordinate D", y, log_x=True, log_y=True, ticks_x=ticks)

    return [
        Figure(
            "Largest error against cells",
            against_cells([*traces("sup"), guide], "error / range of the target", cells),
            f"{results['length']} tokens of one coordinate, {results['points']:,} fresh uniform points, ramps left "
            "out.",
        ),
        Figure(
            "Root mean square error against cells",
            against_cells([*traces("rms"), guide], "error / range of the target", cells),
            "For a function that jumps only a mean error can fall.",
        ),
        Figure(
            "Stored points against cells",
            against_cells(knots, "stored points", sorted({row["cells"] for row in results["reach"]})),
            "The distance to the nearest token, for more coordinates and more tokens. The count grows like D^(dn).",
        ),
        *_maps(results["map"]),
    ]


def _maps(drawn: dict[str, Any]) -> list[Figure]:
    """Target, approximation and error over the two tokens."""
    wanted, found = (np.array(drawn[name]) for name in ("wanted", "found"))
    parts = {
        f"{drawn['target']}, the target": (wanted, "Viridis", "The answer at the first of two tokens, over both."),
        f"{drawn['target']}, approximated": (found, "Viridis", f"{drawn['cells']} cells a coordinate."),
        f"{drawn['target']}, the error": (np.abs(found - wanted), "Reds", f"The bound is {amount(drawn['bound'])}."),
    }
    return [
        Figure(title, chart([heat(drawn["axis"], drawn["axis"], z.tolist(), scale=scale)], "token 1", "token 2"), words)
        for title, (z, scale, words) in parts.items()
    ]


def tables(results: dict[str, Any]) -> list[Table]:
    slopes = []
    for name in _names(results):
        rows = _of(results, name)
        last = rows[-1]
        slopes.append(
            [
                f"{name}: {last['does']}",
                _words(_slope(rows, "sup")),
                _words(_slope(rows, "rms")),
                amount(last["sup"]),
                amount(last["bound"]),
                amount(last["rms"]),
                amount(last["knots"]),
                amount(last["seconds"]),
            ]
        )
    columns = ["target", "slope", "slope, rms", "error", "bound", "rms", "stored points", "seconds"]
    reach = [
        [
            f"d = {row['dim']}, n = {row['length']}",
            amount(row["cells"]),
            amount(row["knots"]),
            amount(row["parameters"]),
            amount(row["sup"]),
            amount(row["bound"]),
            amount(row["seconds"]),
        ]
        for row in results["reach"]
    ]
    return [
        Table(f"Slopes, and the finest grid, D = {results['rows'][-1]['cells']}", columns, slopes),
        Table(
            "More coordinates and more tokens, distance to the nearest",
            ["shape", "cells", "stored points", "parameters", "error", "bound", "seconds"],
            reach,
        ),
        Table(
            "Margin with softmax and with the mean, 3 cells a coordinate",
            ["shape", "softmax", "mean, λ = 0"],
            [
                [f"d = {row['dim']}, n = {row['length']}", *(_margin(row[name]) for name in ("softmax", "mean"))]
                for row in results["means"]
            ],
        ),
    ]


def _margin(value: float | None) -> str:
    return "refused" if value is None else amount(value)


def limits(results: dict[str, Any]) -> str:
    most = max(results["reach"], key=lambda row: row["knots"])
    return (
        "Errors are the largest on random points, so the true largest may be a little higher; the bound is proved. "
        "Points within 2^-18 of a cell from its edge are left out: ramps lie there, and on them the bound does not "
        f"hold. The count of stored points grows like D^(dn): {most['knots']:,} for {most['length']} tokens of "
        f"dimension {most['dim']} with {most['cells']} cells was the most built here. Many tokens or many coordinates "
        "are out of reach, whatever the hardware."
    )
