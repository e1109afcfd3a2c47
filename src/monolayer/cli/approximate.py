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
from monolayer.cli.uniform import facts_of, rows_of
from monolayer.errors import DataError

if TYPE_CHECKING:
    from monolayer.construct.cells.refine import Measured
    from monolayer.model.monolayer import Monolayer


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
    plot: Annotated[Path | None, typer.Option(help="Page to draw (.html): maps, and error against cells.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed and platform, same bits.", min=0)] = 0,
    device: Annotated[str | None, typer.Option(help="Where to answer, for example cuda.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")] = False,
    as_json: Json = False,
) -> None:
    """Build a model that approximates a FUNCTION of n tokens with d coordinates, and measure its error."""
    from monolayer.construct.approximate import approximate as build
    from monolayer.construct.cells.refine import measure
    from monolayer.construct.uniform import measure_everywhere
    from monolayer.data.folder import check_output

    if function == "list":
        _list(as_json)
        return
    check_device(device)
    if out is not None:
        check_output(out, overwrite=overwrite)  # better known before the work than after it
    if plot is not None:
        _check_plot(plot, overwrite, norm)
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
        chosen: Any = norm  # what is no norm is left for the library to refuse
        model: Any = build(f, dim, length, cells=cells, error=error, norm=chosen, progress=step, **options)
        seconds = time.perf_counter() - began
        step("measuring the error", 0.9)
        found = measure(model, f) if norm == "mean" else measure_everywhere(model, f)
        if plot is not None:
            _draw(plot, overwrite, function, f, model, found, options, step)
        if out is not None:
            model.save(out, overwrite=overwrite)
    measured = {name: getattr(found, name) for name in ("sup", "l1", "l2", "points", "range")}
    told = {"measured": measured, "seconds": seconds, "seconds_predict": found.seconds}
    facts, rows = (_facts(model), _rows(model, found)) if norm == "mean" else (facts_of(model), rows_of(model, found))
    if as_json:
        print_json({"function": function, "folder": None if out is None else str(out), **facts, **told})
        return
    errors = ", ".join(f"{name} {number(measured[name.lower()])}" for name in ("sup", "L1", "L2"))
    share = measured["l2"] / found.range if found.range > 0 else 0.0
    last = [
        ("measured error", f"{errors}; L2 is {share:.2%} of the range"),
        ("seconds", f"{seconds:.2f} to build, {found.seconds:.2f} to answer for {2 * found.points:,} points"),
    ]
    table(function, [*rows, *last])


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


def _facts(model: Monolayer) -> dict[str, Any]:
    """The numbers of a rank-1 approximator, for machines."""
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
    }


def _rows(model: Monolayer, found: Measured) -> list[tuple[str, str]]:
    """The same for people."""
    grid, known = model.card.grid, _facts(model)
    assert grid is not None  # _facts saw to it
    order = "with positions" if known["positions"] else "permutation equivariant"
    sure = "guaranteed by the modulus of continuity" if grid.guaranteed else "estimated on samples, not guaranteed"
    predicted = ", ".join(f"{norm} {number(known['predicted'][norm.lower()])}" for norm in ("sup", "L1", "L2"))
    return [
        ("domain", f"[{grid.low:g}, {grid.high:g}], d = {grid.dim}, n = {grid.length}, {order}"),
        ("cells", f"{grid.cells:,} per coordinate, {grid.cells**grid.dim:,} per token"),
        ("knots", f"{known['knots']:,} on {known['sequences']:,} {'sequences' if model.positions else 'multisets'}"),
        ("parameters", number(known["parameters"])),
        ("margin", f"{number(known['margin'])} × the rounding error"),
        ("share of the domain on ramps", number(grid.ramp_share)),
        ("predicted error", f"{predicted} ({sure})"),
        ("measured on", f"{found.points:,} fresh points, and as many corners of cells for sup"),
    ]


def _check_plot(path: Path, overwrite: bool, norm: str) -> None:
    if norm == "sup":
        raise DataError("--plot draws cells and ramps, and a network of --norm sup has neither")
    if path.suffix != ".html":
        raise DataError(f"{path} should end in .html: the picture is a page of its own")
    check_file(path, overwrite)


def _draw(
    path: Path,
    overwrite: bool,
    name: str,
    f: Any,
    model: Monolayer,
    found: Measured,
    options: dict[str, Any],
    step: Any,
) -> None:
    from monolayer.cli.plot import approximation
    from monolayer.page.picture import picture_page

    step("refining", 0.95)
    page = picture_page(approximation(name, f, model, found, options), f"{name}, approximated")
    with output(path, overwrite) as file:
        file.write(page)
