"""The picture of docs/approximation.md: maps of target, answer and error, and the error against the number of cells."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from plotly.subplots import make_subplots

import monolayer as ml
from monolayer.construct.cells.function import Function
from monolayer.construct.cells.grid import Box
from monolayer.construct.cells.refine import Measured, measure_error
from monolayer.theory.targets import TARGETS

BLUE, ORANGE, GREEN, GREY = "#3b7dd8", "#d9732b", "#2a9d5c", "#7d8590"
PIXELS = 128
"""Side of a map, about: whole pixels per cell, so that none lies on a ramp."""


def approximated() -> dict[str, Any]:
    """The picture of `monolayer approximate softmax-pooling --length 2 --cells 32 --domain -1 1`."""
    f = TARGETS["softmax-pooling"]
    options: dict[str, Any] = {"domain": (-1.0, 1.0), "lipschitz": f.lipschitz(1, 2, -1.0, 1.0)}
    model = ml.approximate(f, 1, 2, cells=32, **options)
    figure: dict[str, Any] = json.loads(
        approximation("softmax-pooling", f, model, measure_error(model, f), options, columns=2).to_json()
    )
    return figure


def approximation(
    name: str, f: Callable[[Any], Any], model: ml.Monolayer, found: Measured, options: dict[str, Any], columns: int = 1
) -> Any:
    """A Plotly figure: three maps where there are two coordinates to show, and the curves of the error."""
    grid = model.card.grid
    assert grid is not None  # an approximator has one
    maps = _maps(f, model) if grid.dim * grid.length > 1 else []
    columns = columns if maps else 1
    rows, titles = (len(maps) + 1) // columns, [*(each["name"] for each in maps), "Error against cells"]
    figure = make_subplots(
        rows, columns, subplot_titles=titles, horizontal_spacing=0.3, vertical_spacing=0.3 / max(rows, 2)
    )
    for number, each in enumerate(maps):
        row, column = number // columns + 1, number % columns + 1
        axes = figure.get_subplot(row, column)
        across, up = axes.xaxis.domain, axes.yaxis.domain
        bar = {"x": across[1], "y": sum(up) / 2, "len": up[1] - up[0], "thickness": 10, "outlinewidth": 0}
        figure.add_heatmap(**each, colorbar=bar, row=row, col=column)
    if maps:
        across, up = ("token 1", "token 2") if grid.length > 1 else ("coordinate 1", "coordinate 2")
        figure.update_xaxes(title_text=across)
        figure.update_yaxes(title_text=up, col=1)
    for curve in _curves(f, model, found, options):
        figure.add_scatter(**curve, row=rows, col=columns)
    powers = {"type": "log", "tickformat": "~g"}
    figure.update_xaxes(**powers, dtick=math.log10(2), title_text="cells per coordinate", row=rows, col=columns)
    figure.update_yaxes(**powers, title_text="", row=rows, col=columns)
    words = f"{name}, d = {grid.dim}, n = {grid.length}, {grid.cells} cells"
    if maps:
        rest = "" if grid.dim * grid.length == 2 else ", others in the middle cell"
        words += f"<br><sup>answer at token 1, first output{rest}</sup>"
    clear, height = "rgba(0,0,0,0)", 200 + 320 * rows
    figure.update_layout(title_text=words, height=height, plot_bgcolor=clear, paper_bgcolor=clear)
    return figure.update_layout(legend={"orientation": "h", "y": -90 / height}, margin={"t": 90, "l": 60, "r": 30})


def _maps(f: Callable[[Any], Any], model: ml.Monolayer) -> list[dict[str, Any]]:
    """Target, approximation and error over the first two tokens, or coordinates; others stay in the middle cell."""
    grid = model.card.grid
    assert grid is not None  # checked by the caller
    side = grid.cells * max(1, round(PIXELS / grid.cells))
    line = grid.low + (np.arange(side) + 0.5) / side * (grid.high - grid.low)
    middle = grid.low + (grid.cells // 2 + 0.5) / grid.cells * (grid.high - grid.low)
    X = np.full((side * side, grid.length, grid.dim), middle)
    X[:, 0, 0] = np.tile(line, side)
    X[:, *((1, 0) if grid.length > 1 else (0, 1))] = np.repeat(line, side)
    box = Box(grid.dim, grid.length, grid.low, grid.high, model.positions is not None)
    wanted = Function(f, box, None, model.bos.device)(X)[:, 0, 0].reshape(side, side)
    answer = model.predict(X).reshape(side * side, grid.length, -1)[:, 0, 0].reshape(side, side)
    ends = {"zmin": float(min(wanted.min(), answer.min())), "zmax": float(max(wanted.max(), answer.max()))}
    plain = {"x": line, "y": line, "showlegend": False}
    return [
        {**plain, **ends, "name": "Target", "z": wanted, "colorscale": "Viridis"},
        {**plain, **ends, "name": "Approximation", "z": answer, "colorscale": "Viridis"},
        {**plain, "name": "Error", "z": np.abs(answer - wanted), "colorscale": "OrRd"},
    ]


def _curves(
    f: Callable[[Any], Any], model: ml.Monolayer, found: Measured, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Measured and predicted errors of coarser grids, down to 2 cells by halving, and of the model itself."""
    grid = model.card.grid
    assert grid is not None  # checked by the caller
    known = [(grid, found)]
    while (cells := known[0][0].cells // 2) >= 2 and len(known) < 7:
        coarse = ml.approximate(f, grid.dim, grid.length, cells=cells, **options)
        assert coarse.card.grid is not None  # it was just built
        known.insert(0, (coarse.card.grid, measure_error(coarse, f, found.points)))
    x = [each.cells for each, _ in known]
    curves = [
        ("largest, measured", [error.sup for _, error in known], BLUE),
        ("L2, measured", [error.l2 for _, error in known], ORANGE),
        ("L1, measured", [error.l1 for _, error in known], GREEN),
    ]
    if grid.guaranteed:
        bound = ("bound by the modulus", [each.error for each, _ in known], GREY)
    else:
        bound = ("slope of a Lipschitz function", [found.sup * x[-1] / each for each in x], GREY)
    return [
        *({"name": name, "x": x, "y": y, "line_color": colour, "mode": "lines+markers"} for name, y, colour in curves),
        {"name": bound[0], "x": x, "y": bound[1], "line": {"color": bound[2], "dash": "dash"}, "mode": "lines"},
    ]
