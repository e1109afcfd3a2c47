"""What the weights of a model of monolayer show: kind, ranks, steps, sizes."""

from __future__ import annotations

from typing import Any

import torch

from monolayer.data.objects import JsonObject
from monolayer.model.monolayer import Monolayer
from monolayer.model.uniform import Uniform
from monolayer.table import plural


def describe(model: Monolayer | Uniform) -> JsonObject:
    """Facts computed from the weights themselves, not from the stored summary."""
    card, attention, heads = model.card, model.attention, ("W_Q", "W_K", "W_V", "W_O")
    ordered = model.positions if isinstance(model, Uniform) else model.positions is not None
    labels = "reals" if card.classes is None else plural(len(card.classes), "class")
    # Of several heads, the largest rank of any.
    ranks = {name: int(torch.linalg.matrix_rank(getattr(attention, name).detach().double()).max()) for name in heads}
    return {
        "kind": "approximator in the maximum norm" if isinstance(model, Uniform) else card.kind,
        "tokens": "vectors" if card.vocabulary is None else plural(len(card.vocabulary), "id"),
        "labels": f"{labels} per {card.per}",
        "order": "causal" if card.causal else "positions" if ordered else "permutation equivariant",
        "ranks": ranks,
        **(_describe_knots(model) if isinstance(model, Uniform) else _describe_steps(model)),
        "parameters": {name: value.numel() for name, value in model.named_parameters()},
        "parameters_in_all": sum(value.numel() for value in model.parameters()),
        **({} if card.fingerprint is None else {"unknown_input": str(card.fingerprint)}),
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
    }


def _describe_knots(model: Uniform) -> JsonObject:
    """Cells, knots and error bound of an approximator in the maximum norm."""
    bound = "none: built without a modulus of continuity" if model.error is None else model.error
    return {
        "first_block": model.first_block,
        "heads": model.head_count,
        "cells": model.interpolation.cells,
        "knots": len(model.interpolation.values),
        "bound": bound,
    }


def _describe_steps(model: Monolayer) -> JsonObject:
    """Temperature and context scale of attention, and the steps of the readout; by stage if there are several."""
    shortcut = model.attention.shortcuts(model.feed_forward.slots)
    slopes = [table.slope.double() for table in model.feed_forward.tables() or ()]
    cells = None if model.quantizer is None else model.quantizer.steps()
    grid = {} if cells is None else {"cells": " × ".join(f"{len(each.slope) + 1}" for each in cells.coordinates)}
    return {
        **grid,
        "temperature": None if shortcut is None else shortcut[0],
        "context_scale": None if shortcut is None else _by_stage(shortcut[1]),
        "readout": model.feed_forward.readout,
        "steps": _by_stage(tuple(map(len, slopes))) if slopes else None,
        "narrowest_ramp": min((float((1.0 / slope).min()) for slope in slopes if len(slope)), default=None),
    }


def _by_stage(values: object) -> Any:
    if not isinstance(values, tuple):
        return values
    return values[0] if len(values) == 1 else {f"stage {number}": value for number, value in enumerate(values, 1)}
