"""`monolayer inspect`: a saved model as a stranger sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, app, number, out, print_json, table
from monolayer.cli.uniform import describe as describe_uniform
from monolayer.table import plural

if TYPE_CHECKING:
    from monolayer.model.monolayer import Monolayer


@app.command()
def inspect(folder: Annotated[Path, typer.Argument(help="A saved model.")], as_json: Json = False) -> None:
    """Show what a saved model is: kinds, sizes, ranks, narrowest step, and what its builder measured."""
    from monolayer.huggingface.reading import is_stock
    from monolayer.model.load import load
    from monolayer.model.monolayer import Monolayer

    built: dict[str, Any] | None = None
    if is_stock(folder):
        facts = describe_stock(folder)
    elif isinstance(model := load(folder), Monolayer):
        facts, built = describe(model), measured(model)
    else:
        facts = describe_uniform(model)
    if as_json:
        print_json({"folder": str(folder), **facts, "built": built})
        return
    table(str(folder), [(name.replace("_", " "), _show(value)) for name, value in facts.items()])
    if built is not None:
        out.print()
        table("measured when it was built", built_rows(built))


def describe(model: Monolayer) -> dict[str, Any]:
    """Facts computed from the weights themselves, not from what the builder wrote down."""
    import torch

    card, attention = model.card, model.attention
    shortcut = attention.shortcuts(model.feed_forward.slots)
    slopes = [table.slope.double() for table in model.feed_forward.tables() or ()]
    cells = None if model.quantizer is None else model.quantizer.steps()
    grid = {} if cells is None else {"cells": " × ".join(f"{len(each.slope) + 1}" for each in cells.coordinates)}
    return {
        "kind": card.kind,
        "tokens": "vectors" if card.vocabulary is None else plural(len(card.vocabulary), "id"),
        "labels": f"{'reals' if card.classes is None else plural(len(card.classes), 'class')} per {card.per}",
        "order": "causal" if card.causal else "positions" if model.positions is not None else "permutation equivariant",
        **grid,
        "ranks": {
            name: int(torch.linalg.matrix_rank(getattr(attention, name).detach().double()))
            for name in ("W_Q", "W_K", "W_V", "W_O")
        },
        "temperature": None if shortcut is None else shortcut[0],
        "context_scale": None if shortcut is None else _scale(shortcut[1]),
        "readout": model.feed_forward.readout,
        "steps": _scale(tuple(map(len, slopes))) if slopes else None,
        "narrowest_ramp": min((float((1.0 / slope).min()) for slope in slopes if len(slope)), default=None),
        "parameters": {name: value.numel() for name, value in model.named_parameters()},
        "parameters_in_all": sum(value.numel() for value in model.parameters()),
        "dtype": str(model.bos.dtype).removeprefix("torch."),
    }


def measured(model: Monolayer) -> dict[str, Any] | None:
    """What the builder wrote down, and ε of the token vectors that it chose; None where it wrote nothing down."""
    from torch import nn

    from monolayer.theory.separation import separation

    summary = model.summary
    if summary is None:
        return None
    epsilon = None
    if isinstance(model.lift, nn.Embedding):
        rows = model.lift.weight.detach()
        rows = rows[~rows[:, 0].isnan()].cpu()
        epsilon = separation(rows[None].double().numpy()).epsilon if len(rows) > 1 else None
    bits = summary.bits_per_parameter
    return {**(model.card.summary_json() or {}), "bits_per_parameter": bits, "epsilon": epsilon}


def built_rows(built: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    rows = [
        ("sequences", number(built["sequences"])),
        ("labels", f"{built['labelled']:,} on {plural(built['points'], 'different point')}"),
        ("ε (closest tokens)", number(built["epsilon"])),
        ("gap of points", f"{number(built['gap'])} of the range; 1/M² = {number(built['expected_gap'])}"),
        ("margin at label changes", f"{number(built['margin'])} × the rounding error"),
        ("numbers in the file", _beside(built["parameters"], built["corollary_1"])),
        ("numbers in a dense pass", _beside(built["dense_numbers"], built["corollary_1_dense"])),
        ("label bits per parameter", number(built["bits_per_parameter"])),
    ]
    return [row for row in rows if not row[1].startswith("—")]


def _beside(ours: int | None, paper: int | None) -> str:
    return f"{number(ours)}; Corollary 1 of the paper: {number(paper)}"


def describe_stock(folder: Path) -> dict[str, Any]:
    """The same of a folder of a stock architecture."""
    from monolayer.stock.folder import StockModel

    stored = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    return {**StockModel.load(folder).sizes, "bytes": stored, "bytes_in_all": sum(stored.values())}


def _scale(values: Any) -> Any:
    """One number as it is; those of several stages by their numbers."""
    if not isinstance(values, tuple):
        return values
    return values[0] if len(values) == 1 else {f"stage {number}": value for number, value in enumerate(values, 1)}


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number(count)}" for name, count in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)
