"""Answers beside the labels of the data: how many are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monolayer.cli.uniform import Answering
    from monolayer.data import Sequences


def agreement(model: Answering, sequences: Sequences, values: Any, among: Any = None) -> tuple[int, int]:
    """Labels of the data that the answers `values` agree with, of how many: by name, reals to within `tolerance`.

    `among`: which answers count; None: all.
    """
    import numpy as np

    from monolayer.construct.target import Target

    target = Target.of(sequences, model.card.causal)
    among = np.ones(len(values), dtype=bool) if among is None else among
    if target.place is not None:
        values, among = values[target.place], among[target.place]
    if target.classes is None:
        good = np.abs(values - target.table[target.number]).max(axis=1) <= tolerance(model)
    elif target.classes == model.card.classes:
        good = values == target.number
    else:
        good = model.card.decode(values) == target.classes.decode(target.number)
    return int((good & among).sum()), int(among.sum())


def tolerance(model: Answering) -> float:
    """How far a real answer may be from its label to count as right: 0 but for `paper` and approximators."""
    grid, everywhere = model.card.grid, getattr(model, "error", None)
    return (
        (everywhere or 0.0)
        + (getattr(model.summary, "readout_error", None) or 0.0)
        + (0.0 if grid is None else grid.error)
    )
