"""`monolayer approximate`: a Transformer close to a function, with its predicted and its measured error."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, app, number, print_json, progress, table
from monolayer.cli.files import check_device, check_file, output
from monolayer.cli.uniform import everywhere
from monolayer.errors import DataError

if TYPE_CHECKING:
    from monolayer.construct.cells.accuracy import Measured
    from monolayer.model.monolayer import Monolayer

Step = Callable[[str, float], None]


@app.command()
def approximate(
    function: Annotated[
        str,
        typer.Argument(help="A function of the library (list shows them), or module:function on batches (B, n, d)."),
    ],
    dim: Annotated[int, typer.Option(help="Coordinates of a token.")] = 1,
    length: Annotated[int, typer.Option(help="Tokens of a sequence.")] = 2,
    cells: Annotated[int | None, typer.Option(help="Cells per coordinate.")] = None,
    error: Annotated[
        float | None, typer.Option(help="Largest error off the ramps: cells are added until it holds.")
    ] = None,
    norm: Annotated[
        str, typer.Option(help="mean: rank 1, an error off the ramps; sup: rank (n − 1)d, an error everywhere.")
    ] = "mean",
    domain: Annotated[tuple[float, float], typer.Option(help="Range of every coordinate.")] = (0.0, 1.0),
    positions: Annotated[bool, typer.Option("--positions", help="Let the order of tokens matter.")] = False,
    lipschitz: Annotated[
        float | None, typer.Option(help="Lipschitz constant in the sup norm; functions of the library know theirs.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the model to.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File to draw to (.svg): maps, and error against cells.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed and platform, same bits.", min=0)] = 0,
    device: Annotated[str | None, typer.Option(help="Where to answer, for example cuda.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")] = False,
    as_json: Json = False,
) -> None:
    """Build a model that approximates a FUNCTION of n tokens with d coordinates, and measure its error."""
    from monolayer.construct.approximate import approximate as build
    from monolayer.construct.cells.accuracy import measure
    from monolayer.data.folder import check_output

    if function == "list":
        _list(as_json)
        return
    check_device(device)
    if norm == "sup":
        if plot is not None:
            raise DataError("--plot draws cells and ramps, and a network of --norm sup has neither")
        f, constant = find(function, dim, length, domain)
        known = constant if lipschitz is None else lipschitz
        shape: dict[str, Any] = {"dim": dim, "length": length, "cells": cells, "error": error, "domain": domain}
        shape |= {"positions": positions, "lipschitz": known, "seed": seed, "device": device}
        everywhere(function, f, shape, out, overwrite, as_json)
        return
    if norm != "mean":
        raise DataError(f"--norm is mean or sup, not {norm!r}")
    if out is not None:
        check_output(out, overwrite=overwrite)  # better known before the work than after it
    if plot is not None:
        _check_plot(plot, overwrite)
    f, constant = find(function, dim, length, domain)
    options: dict[str, Any] = {
        "domain": domain,
        "positions": positions,
        "lipschitz": constant if lipschitz is None else lipschitz,
        "seed": seed,
        "device": device,
    }
    with progress(as_json) as step:
        began = time.perf_counter()
        model = build(f, dim, length, cells=cells, error=error, progress=step, **options)
        seconds = time.perf_counter() - began
        step("measuring the error", 0.9)
        found = measure(model, f)
        if plot is not None:
            _draw(plot, overwrite, function, f, model, found, options, step)
        if out is not None:
            model.save(out, overwrite=overwrite)
    if as_json:
        folder = None if out is None else str(out)
        print_json({"function": function, "folder": folder, **facts(model, found), "seconds": seconds})
    else:
        table(function, [*rows(model, found), ("seconds to build", f"{seconds:.2f}")])


def _list(as_json: bool) -> None:
    from monolayer.theory.targets import TARGETS

    if as_json:
        print_json({name: target.does for name, target in TARGETS.items()})
    else:
        table("functions to approximate", [(name, target.does) for name, target in TARGETS.items()])


def find(name: str, dim: int, length: int, domain: tuple[float, float]) -> tuple[Callable[[Any], Any], float | None]:
    """A function of the library with its Lipschitz constant, or one of the user's modules."""
    from monolayer.theory.targets import TARGETS

    if name in TARGETS:
        target = TARGETS[name]
        target.check(dim, length)
        return target, target.lipschitz(dim, length, *domain)
    return load_function(name), None


def is_function(name: str) -> bool:
    """Whether an argument names a function rather than a file."""
    from monolayer.theory.targets import TARGETS

    return not Path(name).exists() and (name in TARGETS or ":" in name)


def load_function(name: str) -> Callable[[Any], Any]:
    """A function of the library, or one of the user's modules."""
    from monolayer.theory.targets import TARGETS

    if name in TARGETS:
        return TARGETS[name]
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise DataError(
            f"{name!r} is no function of the library ({', '.join(TARGETS)}); your own are given as module:function"
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # a module in the working folder, as `python -m` would find it
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise DataError(f"{name} cannot be loaded: {error}") from None
    loaded: Callable[[Any], Any] = found
    return loaded


# -- words -----------------------------------------------------------------------------------------------


def facts(model: Monolayer, found: Measured) -> dict[str, Any]:
    """The numbers of an approximator, for machines."""
    grid, summary = model.card.grid, model.summary
    assert grid is not None  # an approximator has a grid,
    assert summary is not None  # and one that was just built a summary
    return {
        **(model.card.grid_json() or {}),
        "positions": model.positions is not None,
        "knots": summary.labelled,
        "sequences": summary.sequences,
        "parameters": summary.parameters,
        "margin": summary.margin,
        "ramp_share": grid.ramp_share,
        "predicted": {"sup": grid.error, "l1": grid.mean_error(1), "l2": grid.mean_error(2)},
        "measured": {"sup": found.sup, "l1": found.l1, "l2": found.l2, "points": found.points, "range": found.range},
        "seconds_predict": found.seconds,
    }


def rows(model: Monolayer, found: Measured) -> list[tuple[str, str]]:
    """The same for people."""
    grid, known = model.card.grid, facts(model, found)
    assert grid is not None  # facts saw to it
    order = "with positions" if known["positions"] else "permutation equivariant"
    sure = "guaranteed by the modulus of continuity" if grid.guaranteed else "estimated on samples, not guaranteed"
    errors = {
        name: ", ".join(f"{norm} {number(known[name][norm.lower()])}" for norm in ("sup", "L1", "L2"))
        for name in ("predicted", "measured")
    }
    share = known["measured"]["l2"] / found.range if found.range > 0 else 0.0
    return [
        ("domain", f"[{grid.low:g}, {grid.high:g}], d = {grid.dim}, n = {grid.length}, {order}"),
        ("cells", f"{grid.cells:,} per coordinate, {grid.cells**grid.dim:,} per token"),
        ("knots", f"{known['knots']:,} on {known['sequences']:,} {'sequences' if model.positions else 'multisets'}"),
        ("parameters", number(known["parameters"])),
        ("margin", f"{number(known['margin'])} × the rounding error"),
        ("predicted error", f"{errors['predicted']} ({sure})"),
        ("measured error", f"{errors['measured']}; L2 is {share:.2%} of the range"),
        ("measured on", f"{found.points:,} fresh points, and as many corners of cells for sup"),
        ("share of the domain on ramps", number(grid.ramp_share)),
        ("seconds to answer", f"{found.seconds:.2f} for {2 * found.points:,} points"),
    ]


# -- pictures --------------------------------------------------------------------------------------------


def _check_plot(path: Path, overwrite: bool) -> None:
    if path.suffix != ".svg":
        raise DataError(f"{path} is no .svg file: pictures are drawn as SVG")
    check_file(path, overwrite)


def _draw(
    path: Path,
    overwrite: bool,
    name: str,
    f: Callable[[Any], Any],
    model: Monolayer,
    found: Measured,
    options: dict[str, Any],
    step: Step,
) -> None:
    """Maps of target, approximation and error where there are two coordinates to show, and error against cells."""
    from monolayer.cli.plot import Picture, draw_curves

    grid = model.card.grid
    assert grid is not None  # an approximator has one
    picture, top = Picture(), 62.0
    words = f"{name}: d = {grid.dim}, n = {grid.length}, {grid.cells} cells per coordinate"
    knots = "" if model.summary is None else f", {model.summary.labelled:,} knots"
    picture.text(0, 14, words + knots, size=16, bold=True)
    if grid.dim * grid.length > 1:
        top += _maps(picture, f, model, top)
    step("refining", 0.95)
    curves = _refinement(f, model, found, options)
    draw_curves(picture, "Error against cells", curves, "cells per coordinate", 46, top)
    with output(path, overwrite) as file:
        file.write(picture.svg())


def _maps(picture: Any, f: Callable[[Any], Any], model: Monolayer, top: float) -> float:
    """Three maps side by side; returns the height that they take. Other coordinates stay in the middle cell."""
    import numpy as np

    from monolayer.cli.plot import ERRORS, Map, draw_map
    from monolayer.construct.cells.function import Function
    from monolayer.construct.cells.grid import Box

    grid = model.card.grid
    assert grid is not None  # checked by the caller
    side = grid.cells * max(1, round(240 / grid.cells))  # whole pixels a cell: none lies on a ramp
    line = grid.low + (np.arange(side) + 0.5) / side * (grid.high - grid.low)
    middle = grid.low + (grid.cells // 2 + 0.5) / grid.cells * (grid.high - grid.low)
    X = np.full((side * side, grid.length, grid.dim), middle)
    two = ((0, 0), (1, 0)) if grid.length > 1 else ((0, 0), (0, 1))
    X[:, two[0][0], two[0][1]] = np.tile(line, side)
    X[:, two[1][0], two[1][1]] = np.repeat(line, side)
    box = Box(grid.dim, grid.length, grid.low, grid.high, model.positions is not None)
    wanted = Function(f, box, None, model.bos.device)(X)[:, 0, 0].reshape(side, side)
    answer = model.predict(X).reshape(side * side, grid.length, -1)[:, 0, 0].reshape(side, side)
    error = np.abs(answer - wanted)
    least, most = float(min(wanted.min(), answer.min())), float(max(wanted.max(), answer.max()))
    axes = tuple(f"token {token + 1}" + (f", coordinate {i + 1}" if grid.dim > 1 else "") for token, i in two)
    rest = "" if grid.dim * grid.length == 2 else ", other coordinates in the middle cell"
    picture.text(0, 34, f"Answer at token 1, first output{rest}", size=12, color="#6a737d")
    panels = (
        Map("Target", wanted, grid.low, grid.high, least, most, axes=(axes[0], axes[1])),
        Map("Approximation", answer, grid.low, grid.high, least, most, axes=(axes[0], axes[1])),
        Map("Error", error, grid.low, grid.high, 0.0, float(error.max()), ERRORS, (axes[0], axes[1])),
    )
    for place, panel in enumerate(panels):
        draw_map(picture, panel, 46 + 352 * place, top)
    return 330.0


def _refinement(f: Callable[[Any], Any], model: Monolayer, found: Measured, options: dict[str, Any]) -> list[Any]:
    """Measured and predicted errors of coarser grids, down to 2 cells by halving, and of the model itself."""
    from monolayer.cli.plot import BLUE, GREEN, INK, ORANGE, Curve
    from monolayer.construct.approximate import approximate as build
    from monolayer.construct.cells.accuracy import measure

    grid = model.card.grid
    assert grid is not None  # checked by the caller
    sizes: list[int] = []
    cells = grid.cells // 2
    while cells >= 2 and len(sizes) < 6:
        sizes.append(cells)
        cells //= 2
    known = [(grid, found)]
    for cells in sizes:
        coarse = build(f, grid.dim, grid.length, cells=cells, **options)
        assert coarse.card.grid is not None  # it was just built
        known.append((coarse.card.grid, measure(coarse, f, found.points)))
    known.reverse()
    x = [float(each.cells) for each, _ in known]
    curves = [
        Curve("largest, measured", x, [error.sup for _, error in known], BLUE),
        Curve("L2, measured", x, [error.l2 for _, error in known], ORANGE),
        Curve("L1, measured", x, [error.l1 for _, error in known], GREEN),
    ]
    if grid.guaranteed:
        curves.append(Curve("bound by the modulus", x, [each.error for each, _ in known], INK, True, False))
    else:
        slope = [known[-1][1].sup * x[-1] / each for each in x]
        curves.append(Curve("slope of a Lipschitz function", x, slope, INK, True, False))
    return curves
