"""`monolayer approximate`: a Transformer close to a function, with its predicted and its measured error."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from monolayer.cli.building import Positions, next_steps
from monolayer.cli.console import (
    FactsByName,
    Json,
    Overwrite,
    app,
    check_picture,
    output,
    progress,
    show,
    write_picture,
)
from monolayer.errors import DataError
from monolayer.table import Progress, number, part_of, plural

if TYPE_CHECKING:
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform


SHARE_APPROXIMATED = 0.43
"""Share done after building, for the bar. Measured once, with softmax-pooling in 300 cells: the error took 0.57."""

FunctionName = Annotated[
    str,
    typer.Argument(
        help="A built-in function (`list` prints them), or module:function or file.py:function, which takes "
        "batches (B, n, d)."
    ),
]
Norm = Annotated[
    Literal["mean", "sup"],
    typer.Option(help="mean: rank 1, error bounded off the ramps; sup: rank (n − 1)d, error bounded everywhere."),
]
FirstBlock = Annotated[
    bool,
    typer.Option(
        "--first-block/--no-first-block",
        help="Without a first block, for --norm sup: n − 1 heads of rank 1 on two, three or four numbers.",
    ),
]


@app.command()
def approximate(
    function: FunctionName,
    dim: Annotated[int, typer.Option(help="Coordinates per token.")] = 1,
    length: Annotated[int, typer.Option(help="Tokens per sequence.")] = 2,
    cells: Annotated[int | None, typer.Option(help="Cells per coordinate.")] = None,
    error: Annotated[
        float | None, typer.Option(help="Largest error allowed off the ramps: cells are added until it holds.")
    ] = None,
    norm: Norm = "mean",
    first_block: FirstBlock = True,
    domain: Annotated[tuple[float, float], typer.Option(help="Range of every coordinate.")] = (0.0, 1.0),
    positions: Positions = False,
    lipschitz: Annotated[
        float | None, typer.Option(help="Lipschitz constant in the sup norm; known for built-in functions.")
    ] = None,
    out: Annotated[Path | None, output("Folder to write the model to.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed and platform, same bits.", min=0)] = 0,
    device: Annotated[str | None, typer.Option(help="Device to run on, for example cuda.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="HTML file to draw the function, the network and the error in (needs plotly).")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build a model that approximates a FUNCTION of n tokens with d coordinates, and measure its error."""
    from monolayer.data.folder import check_output
    from monolayer.theory.targets import TARGETS, TargetFunction

    if function == "list":
        known = {name: target.does for name, target in TARGETS.items()}
        show(as_json, known, "functions to approximate", known.items())
        return
    if out is not None:
        check_output(out, overwrite=overwrite)  # refuse before any work is done
    if plot is not None:
        check_picture(plot, overwrite)
    f: Any = load_function(function)
    if isinstance(f, TargetFunction):
        f.check(dim, length)
        lipschitz = f.lipschitz(dim, length, *domain) if lipschitz is None else lipschitz
    box: FactsByName = {"dim": dim, "length": length, "domain": domain, "positions": positions}
    how: FactsByName = {"cells": cells, "error": error, "norm": norm, "first_block": first_block, "seed": seed}
    with progress(as_json) as step:
        model, facts = _built(f, {**box, **how, "lipschitz": lipschitz, "device": device}, step)
        if out is not None:
            model.save(out, overwrite=overwrite)
        if plot is not None:
            step("drawing", 0.95)
            write_picture(plot, model.plot(f, name=function))
    show(
        as_json,
        {"function": function, "folder": out and str(out), "plot": plot and str(plot), **facts},
        function,
        _rows_of_facts(facts),
    )
    if out is not None and not as_json:
        next_steps(out, [function], "verify", "inspect")


def _built(f: Any, options: FactsByName, step: Progress) -> tuple[Any, FactsByName]:
    """The network, and the facts about it that --json prints, its error on fresh points among them."""
    from monolayer.construct.approximate import approximate as build
    from monolayer.construct.cells.refine import measure_error
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform

    began = time.perf_counter()
    model: Any = build(f, **options, progress=part_of(step, 0.0, SHARE_APPROXIMATED))
    seconds = time.perf_counter() - began
    step("measuring the error", SHARE_APPROXIMATED)
    errors = measure_error(model, f)
    facts_of: dict[type, Callable[[Any], FactsByName]] = {Monolayer: _facts_of_cells, Uniform: _facts_of_knots}
    facts = facts_of[type(model)](model)
    measured = {name: getattr(errors, name) for name in ("sup", "l1", "l2", "points", "range")}
    return model, {**facts, "measured": measured, "seconds": seconds, "seconds_predict": errors.seconds}


def is_function(name: str) -> bool:
    """Whether an argument names a function rather than a file."""
    from monolayer.theory.targets import TARGETS

    return not Path(name).exists() and (name in TARGETS or ":" in name)


def load_function(name: str) -> Callable[[Any], Any]:
    """A built-in function by its name, or module:function from the user's own code."""
    from monolayer.theory.targets import TARGETS

    if name in TARGETS:
        return TARGETS[name]
    module, _, attribute = name.rpartition(":")
    if not module or not attribute:
        raise DataError(
            f"{name!r} is not a built-in function ({', '.join(TARGETS)}); give your own as module:function or "
            "file.py:function"
        )
    try:
        member: Any = _imported(module)
        for part in attribute.split("."):
            member = getattr(member, part)
    except Exception as error:  # whatever the user's code raises is about that code
        raise DataError(f"{name} cannot be loaded: {type(error).__name__}: {error}{_line_of(error)}") from None
    loaded: Callable[[Any], Any] = member
    return loaded


def _imported(module: str) -> ModuleType:
    """A module by its name, as `python -m` would find it, or by the path of its file."""
    file = Path(module)
    folder = file.absolute().parent if file.suffix == ".py" else Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # modules beside it can be imported
    if file.suffix != ".py":
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None  # the suffix is that of Python
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def _line_of(error: Exception) -> str:
    """Where in the user's own code an error arose, as ' (file, line 3: the code)'; nothing if it arose elsewhere."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    standard = Path(importlib.__file__).parent.parent
    users_frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__
        and not frame.filename.startswith("<frozen")
        and "site-packages" not in frame.filename
        and not Path(frame.filename).is_relative_to(standard)
    ]
    return (
        f" ({users_frames[-1].filename}, line {users_frames[-1].lineno}: {users_frames[-1].line})"
        if users_frames
        else ""
    )


def _facts_of_cells(model: Monolayer) -> FactsByName:
    """The facts of a rank-1 approximator that --json prints."""
    grid, summary = model.card.grid, model.summary
    assert grid is not None  # an approximator has a grid
    assert summary is not None  # a model that was just built has a summary
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


def _facts_of_knots(model: Uniform) -> FactsByName:
    """The facts that --json prints about a network whose error bound holds everywhere."""
    fields = ("dim", "length", "low", "high", "positions", "rank", "first_block", "head_count")
    named = {name: getattr(model, name) for name in fields}
    return {
        **named,
        "cells": model.interpolation.cells,
        "knots": len(model.interpolation.values),
        "parameters": sum(each.numel() for each in model.parameters()),
        "bound": model.error,
    }


def _rows_of_facts(facts: FactsByName) -> list[tuple[str, str]]:
    """The rows of the table that is printed without --json."""
    order, errors = "with positions" if facts["positions"] else "permutation equivariant", facts["measured"]
    if "predicted" in facts:
        sure = "guaranteed by the modulus of continuity" if facts["guaranteed"] else "estimated, not guaranteed"
        many, hard = "sequences" if facts["positions"] else "multisets", "corners of cells"
        about_errors = [
            ("knots", f"{facts['knots']:,} on {facts['sequences']:,} {many}"),
            ("margin", f"{number(facts['margin'])} × the rounding error"),
            ("share of the domain on ramps", number(facts["ramp_share"])),
            ("predicted error", f"{_errors_in_words(facts['predicted'])} ({sure})"),
        ]
    else:
        bound, hard = facts["bound"], "points with equal tokens or on knots"
        about_errors = [
            ("knots", number(facts["knots"])),
            ("value rank", f"{facts['rank']} = (n − 1)d, in {plural(facts['head_count'], 'head')}"),
            ("first block", "yes" if facts["first_block"] else "none"),
            ("bound on the error", "none: give --lipschitz" if bound is None else f"{number(bound)}, everywhere"),
        ]
    return [
        ("domain", f"[{facts['low']:g}, {facts['high']:g}], d = {facts['dim']}, n = {facts['length']}, {order}"),
        ("cells", f"{facts['cells']:,} per coordinate"),
        *about_errors,
        ("parameters", number(facts["parameters"])),
        (
            "measured error",
            f"{_errors_in_words(errors)} on {errors['points']:,} fresh points, and for sup as many {hard}",
        ),
        ("seconds", f"{facts['seconds']:.2f} to build"),
    ]


def _errors_in_words(errors: dict[str, float]) -> str:
    return ", ".join(f"{norm} {number(errors[norm.lower()])}" for norm in ("sup", "L1", "L2"))
