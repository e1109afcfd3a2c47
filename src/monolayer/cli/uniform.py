"""Networks whose error holds everywhere: `approximate --norm sup`, and what `inspect` says of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from monolayer.cli.console import number, print_json, progress, table

if TYPE_CHECKING:
    from monolayer.model.mapped import Mapped
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform

    Answering: TypeAlias = "Monolayer | Mapped | Uniform"  # what `predict` can ask


def everywhere(
    name: str,
    f: Callable[[Any], Any],
    shape: dict[str, Any],
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Build, measure, save and describe it; `shape` are the keywords of `ml.approximate`."""
    from monolayer.construct.approximate import approximate as build
    from monolayer.construct.uniform import measure_everywhere
    from monolayer.data.folder import check_output

    if out is not None:
        check_output(out, overwrite=overwrite)  # better known before the work than after it
    with progress(as_json) as step:
        began = time.perf_counter()
        model = build(f, norm="sup", progress=step, **shape)
        seconds = time.perf_counter() - began
        step("measuring the error", 0.9)
        found = measure_everywhere(model, f)
        if out is not None:
            model.save(out, overwrite=overwrite)
    knots, parameters = len(model.interpolation.values), sum(each.numel() for each in model.parameters())
    facts: dict[str, Any] = {
        "dim": model.dim,
        "length": model.length,
        "low": model.low,
        "high": model.high,
        "rank": model.rank,
        "cells": model.interpolation.cells,
        "knots": knots,
        "parameters": parameters,
        "bound": model.error,
        "measured": {"sup": found.sup, "l1": found.l1, "l2": found.l2, "points": found.points, "range": found.range},
        "seconds": seconds,
        "seconds_predict": found.seconds,
    }
    if as_json:
        print_json({"function": name, "folder": None if out is None else str(out), **facts})
        return
    bound = "none: give --lipschitz" if model.error is None else f"{number(model.error)}, everywhere, by the modulus"
    table(
        name,
        [
            (
                "domain",
                f"[{model.low:g}, {model.high:g}], d = {model.dim}, n = {model.length}, permutation equivariant",
            ),
            ("value rank", f"{model.rank} = (n − 1)d"),
            ("cells", f"{model.interpolation.cells:,} a coordinate"),
            ("knots", f"{knots:,}"),
            ("parameters", number(parameters)),
            ("bound on the error", bound),
            (
                "measured error",
                ", ".join(f"{norm} {number(facts['measured'][norm.lower()])}" for norm in ("sup", "L1", "L2")),
            ),
            ("measured on", f"{found.points:,} fresh points, and for sup as many with equal tokens or on knots"),
            ("seconds to build", f"{seconds:.2f}"),
            ("seconds to answer", f"{found.seconds:.2f} for {2 * found.points:,} points"),
        ],
    )


def describe(network: Uniform) -> dict[str, Any]:
    """Facts for `inspect`."""
    import torch

    heads = ("W_Q", "W_K", "W_V", "W_O")
    return {
        "kind": "approximator in the maximum norm",
        "tokens": f"{network.length} vectors of {network.dim} numbers in [{network.low:g}, {network.high:g}]",
        "labels": f"reals per token, {network.interpolation.values.shape[1]} each",
        "order": "permutation equivariant",
        "cells": network.interpolation.cells,
        "ranks": {name: int(torch.linalg.matrix_rank(getattr(network.attention, name).detach())) for name in heads},
        "bound": "none: built without a modulus of continuity" if network.error is None else network.error,
        "knots": len(network.interpolation.values),
        "parameters": {name: value.numel() for name, value in network.named_parameters()},
        "parameters_in_all": sum(value.numel() for value in network.parameters()),
        "dtype": str(network.interpolation.values.dtype).removeprefix("torch."),
    }
