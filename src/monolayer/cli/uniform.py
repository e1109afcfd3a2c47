"""Networks whose error holds everywhere: `approximate --norm sup`, and what `inspect` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from monolayer.cli.console import number
from monolayer.table import plural

if TYPE_CHECKING:
    from monolayer.construct.cells.refine import Measured
    from monolayer.model.mapped import Mapped
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform
    from monolayer.stock.folder import StockModel

    Answering: TypeAlias = "Monolayer | Mapped | Uniform | StockModel"  # what `predict` can ask


def facts_of(model: Uniform) -> dict[str, Any]:
    """The numbers of a network whose error holds everywhere, for machines."""
    return {
        "dim": model.dim,
        "length": model.length,
        "low": model.low,
        "high": model.high,
        "positions": model.positions,
        "rank": model.rank,
        "cells": model.interpolation.cells,
        "knots": len(model.interpolation.values),
        "parameters": sum(each.numel() for each in model.parameters()),
        "bound": model.error,
    }


def rows_of(model: Uniform, found: Measured) -> list[tuple[str, str]]:
    """The same for people."""
    known, domain = facts_of(model), f"[{model.low:g}, {model.high:g}], d = {model.dim}, n = {model.length}"
    bound = "none: give --lipschitz" if model.error is None else f"{number(model.error)}, everywhere, by the modulus"
    return [
        ("domain", f"{domain}, {'with positions' if model.positions else 'permutation equivariant'}"),
        ("value rank", f"{model.rank} = (n − 1)d"),
        ("cells", f"{model.interpolation.cells:,} per coordinate"),
        ("knots", number(known["knots"])),
        ("parameters", number(known["parameters"])),
        ("bound on the error", bound),
        ("measured on", f"{found.points:,} fresh points, and for sup as many with equal tokens or on knots"),
    ]


def describe(network: Uniform) -> dict[str, Any]:
    """Facts for `inspect`."""
    import torch

    heads = ("W_Q", "W_K", "W_V", "W_O")
    return {
        "kind": "approximator in the maximum norm",
        "tokens": f"{network.length} vectors of {plural(network.dim, 'number')} in [{network.low:g}, {network.high:g}]",
        "labels": f"reals per token, {network.interpolation.values.shape[1]} each",
        "order": "positions" if network.positions else "permutation equivariant",
        "cells": network.interpolation.cells,
        "ranks": {name: int(torch.linalg.matrix_rank(getattr(network.attention, name).detach())) for name in heads},
        "bound": "none: built without a modulus of continuity" if network.error is None else network.error,
        "knots": len(network.interpolation.values),
        "parameters": {name: value.numel() for name, value in network.named_parameters()},
        "parameters_in_all": sum(value.numel() for value in network.parameters()),
        "dtype": str(network.interpolation.values.dtype).removeprefix("torch."),
    }
